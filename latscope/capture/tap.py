"""One instrumented client: where its calls go, and which of them are open."""

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Literal

from latscope.capture import sockets
from latscope.capture.recorder import (
    CURRENT,
    LAST_UNHOOKED,
    AttemptRecorder,
    Call,
    now,
    retry_count,
)
from latscope.recording import Recording
from latscope.units import Ns, S

Done = Callable[[Recording], object]
"""Given each finished call, once, on whichever thread ended it; what it raises is dropped."""
Outgoing = Callable[[Any], object]
"""Given each request just before it is sent, to add headers; what it raises is noted."""
Context = Callable[[], object]
"""Asked at each call's entry; its answer comes back as `Recording.context`."""

RETRY_WITHIN: Ns = 130 * S
"""How long an unhooked, failed attempt waits for its retry: the SDKs sleep at most 120 s."""


class Tap:
    """One instrumented client: where its calls go, and which of them are open."""

    __slots__ = (
        "_keys", "_links", "context", "done", "looped", "open", "outgoing", "sdk", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        *,
        done: Done,
        outgoing: Outgoing | None = None,
        context: Context | None = None,
        sdk: str | None = None,
    ) -> None:
        self.done = done
        self.outgoing = outgoing
        self.context = context
        self.sdk = sdk
        self.looped = False
        """The client is an asynchronous one: its calls wait for an event loop."""
        self.open: set[int] = set()
        self.waiting: dict[int, Call] = {}
        """Failed attempts no hook announced: each waits for the retry that may follow."""
        self._keys = itertools.count()
        self._links: weakref.WeakKeyDictionary[Any, sockets.Link] = weakref.WeakKeyDictionary()

    def call(self, start: Literal["sdk", "transport"], sdk: str | None = None) -> Call:
        """Opens a call; its zero is now (of a transport call: the first attempt's entry)."""
        zero = now()
        if self.waiting:
            self.settle(before=zero - RETRY_WITHIN)
        call = Call(self, next(self._keys), start, zero, sdk or self.sdk)
        self.open.add(call.key)
        self._watch(call)
        if self.context is not None:
            try:
                call.context = self.context()
            except Exception as error:
                call.broke("context", error)
        return call

    def scope(self, request: Any) -> Call | None:
        """The call that one `send` of the HTTP client makes; null inside one that is open."""
        try:
            if self.joined() is not None:
                return None
            call = self._resumed(request) or self.call("transport")
            call.scoped = True
            call.url = call.url or request.url
            return call
        except Exception:
            return None

    def joined(self) -> Call | None:
        """The open call of this client that the current context is inside of."""
        call = CURRENT.get()
        return call if call is not None and call.tap is self and call.scoped else None

    def enter(self, request: Any) -> AttemptRecorder | None:
        """An attempt begins, at the transport's entry; null when it cannot be recorded."""
        stamp = now()
        call = None
        try:
            call = self.joined() or self._resumed(request) or self.call("transport")
            attempt = AttemptRecorder(call, request, stamp)
            call.begin(attempt, request)
        except Exception as error:
            if call is not None:
                call.broke("attempt", error)
                if not call.scoped:
                    call.drop()
            return None
        if self.outgoing is not None:
            self._announce(call, request)
        return attempt

    def link(self, stream: Any) -> sockets.Link | None:
        """What is known of the connection under a network stream; asked for once each."""
        if stream is None:
            return None
        try:
            known = self._links.get(stream)
            if known is None:
                known = self._links[stream] = sockets.link(stream, next(self._keys))
        except TypeError:  # a stream of another library that takes no weak reference
            return None
        return known

    def settle(self, before: Ns | None = None) -> None:
        """Reports the calls still waiting for a retry (those that began waiting earlier)."""
        for call in list(self.waiting.values()):
            if before is None or call.attempts[-1].end_ns < before:
                call.finish_as_last()

    def _announce(self, call: Call, request: Any) -> None:
        token = CURRENT.set(call)
        try:
            assert self.outgoing is not None
            self.outgoing(request)
        except Exception as error:
            call.broke("outgoing", error)
        finally:
            CURRENT.reset(token)

    def _resumed(self, request: Any) -> Call | None:
        count = retry_count(request)
        call = LAST_UNHOOKED.get() if count else None
        if call is None or call.tap is not self or not call.attempts:
            return None
        if call.attempts[-1].retry_count != (count or 0) - 1:
            return None
        if self.waiting.pop(call.key, None) is None:
            return None
        self._watch(call)
        return call

    def _watch(self, call: Call) -> None:
        try:
            call.watch.open(loop=self.looped)
        except Exception as error:
            call.broke("client side", error)


def current_context() -> object:
    """What `context` gave at the entry of the call we are inside; for use within `outgoing`."""
    call = CURRENT.get()
    return None if call is None else call.context
