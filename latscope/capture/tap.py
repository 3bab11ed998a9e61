"""One instrumented client: where its calls go, and which of them are open."""

import itertools
import os
import weakref
from collections.abc import Callable
from typing import Any, Literal, Protocol

from latscope.capture import sockets
from latscope.capture.build import Ended
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
"""Given each request just before it is sent, to add headers; what it raises is noted. What it gives
back, if that can be called, is called as soon as the transport has returned or raised."""
Context = Callable[[], object]
"""Asked at each call's entry; its answer comes back as `Recording.context`."""


class Intake(Protocol):
    """One who takes the reads of a stream while it is open, and calls as they end, in `done`'s
    place: what is costly is then his to do, elsewhere. Neither method may wait."""

    def take(self, attempt: AttemptRecorder, reads: list[Any]) -> object:
        """asked, got, chunk; asked, got, chunk; ... since the last time, in the order of reading.
        `attempt.taken` is his to use."""
        ...

    def ended(self, call: Ended) -> object:
        """The call is over. Of its reads it holds those that `take` was not given."""
        ...


RETRY_WITHIN: Ns = 130 * S
"""How long an unhooked, failed attempt waits for its retry: the SDKs sleep at most 120 s."""


class Tap:
    """One instrumented client: where its calls go, and which of them are open."""

    __slots__ = (
        "__weakref__", "_keys", "_links", "attempts", "context", "done", "hooked", "intake",
        "looped", "open", "outgoing", "sdk", "unseen", "waiting", "warned",
    )  # fmt: skip

    def __init__(
        self,
        *,
        done: Done,
        outgoing: Outgoing | None = None,
        context: Context | None = None,
        sdk: str | None = None,
        intake: Intake | None = None,
    ) -> None:
        self.done = done
        self.intake = intake
        self.outgoing = outgoing
        self.context = context
        self.sdk = sdk
        self.looped = False
        """The client is an asynchronous one: its calls wait for an event loop."""
        self.hooked = False
        """The calls of an SDK's client begin at its entry."""
        self.attempts = 0
        """Requests that came by so far."""
        self.unseen = 0
        """Calls that were answered without one."""
        self.warned = False
        self.open: dict[int, weakref.ref[Call]] = {}
        """The calls that are not over. Held weakly: one that is lost takes its payload along."""
        self.waiting: dict[int, Call] = {}
        """Failed attempts no hook announced: each waits for the retry that may follow."""
        self._keys = itertools.count()
        self._links: weakref.WeakKeyDictionary[Any, sockets.Link] = weakref.WeakKeyDictionary()
        _taps.add(self)

    def call(self, start: Literal["sdk", "transport"], sdk: str | None = None) -> Call:
        """Opens a call; its zero is now (of a transport call: the first attempt's entry)."""
        zero = now()
        if self.waiting:
            self.settle(before=zero - RETRY_WITHIN)
        call = Call(self, next(self._keys), start, zero, sdk or self.sdk)
        self.open[call.key] = weakref.ref(call)
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
            inside = self.joined()
            if inside is not None:
                inside.sending = True
                return None
            call = self._resumed(request)
            if call is None:
                if not recording():
                    return None
                call = self.call("transport")
            call.scoped = call.sending = True
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
            around = CURRENT.get()
            if around is not None and around.tap is not self:
                around.elsewhere = True
            call = self.joined() or self._resumed(request)
            if call is None:
                if not recording():
                    return None
                call = self.call("transport")
            attempt = AttemptRecorder(call, request, stamp)
            call.begin(attempt, request)
        except Exception as error:
            if call is not None:
                call.broke("attempt", error)
                if not call.scoped:
                    call.drop()
            return None
        if self.outgoing is not None:
            attempt.inside = self._announce(call, request)
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

    def end(self) -> None:
        """Reports what is still open, as left by the caller."""
        self.settle()
        for known in list(self.open.values()):
            call = known()
            if call is not None:
                call.abandon()

    def _announce(self, call: Call, request: Any) -> Callable[[], object] | None:
        token = CURRENT.set(call)
        try:
            assert self.outgoing is not None
            inside = self.outgoing(request)
        except Exception as error:
            call.broke("outgoing", error)
            return None
        finally:
            CURRENT.reset(token)
        return inside if callable(inside) else None

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


_paused = False


def pause() -> None:
    """No call is opened from now on; those that are open go on."""
    global _paused
    _paused = True


def resume() -> None:
    """Calls are opened again."""
    global _paused
    _paused = False


def recording() -> bool:
    """Whether a call that begins now is recorded."""
    return not _paused


_taps: "weakref.WeakSet[Tap]" = weakref.WeakSet()


def end_all() -> None:
    """The interpreter is about to go: every call that is still open is reported."""
    for tap in list(_taps):
        tap.end()


def _after_fork() -> None:
    """In a child process: the calls that were open are the parent's to report."""
    for tap in list(_taps):
        tap.open.clear()
        tap.waiting.clear()


os.register_at_fork(after_in_child=_after_fork)


def current_context() -> object:
    """What `context` gave at the entry of the call we are inside; for use within `outgoing`."""
    call = CURRENT.get()
    return None if call is None else call.context
