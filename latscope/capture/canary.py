"""One warning where a call went by and the hook that should have seen it did not fire.

The hooks stand on private names of other people's libraries. When one of those changes, calls are
not recorded, or not from their beginning, and nothing else would tell: what fires notices what did
not. Never an exception, and once a client.
"""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from latscope.capture.recorder import Call
    from latscope.capture.tap import Tap

log = logging.getLogger("latscope")

PATIENCE = 3
"""So many calls of an SDK may come back without a request that was sent, before a client that
never sent one is thought blind: a middleware of the caller's may answer by itself."""


def answered_unseen(call: "Call") -> None:
    """A call came back with an answer, and none of its requests passed a transport of ours."""
    tap = call.tap
    if call.elsewhere:  # another's transport had it: it is recorded there
        return
    tap.unseen += 1
    if call.sending or (not tap.attempts and tap.unseen >= PATIENCE):
        _warn(tap, "calls of %s are not recorded: no request of theirs reached our transport", call)


def entered_unseen(call: "Call") -> None:
    """A request of an SDK whose client was instrumented came without its call."""
    if call.tap.hooked:
        _warn(
            call.tap, "calls of %s are recorded from their transport on, not from their entry", call
        )


def not_hooked(tap: "Tap", name: str) -> None:
    """The SDK has nothing where its calls should begin."""
    _once(tap, f"calls of {name} are recorded from their transport on, not from their entry")


def _warn(tap: "Tap", said: str, call: "Call") -> None:
    _once(tap, said % (call.sdk or tap.sdk or "this client"))


def _once(tap: "Tap", said: str) -> None:
    if tap.warned:
        return
    tap.warned = True
    with suppress(Exception):  # an application's filters and handlers may do anything
        log.warning("%s; this version may not be supported yet", said)
