"""The hot path: one `Call` a logical call, one `AttemptRecorder` an HTTP exchange of it.

Stamps are readings of `perf_counter_ns` (CLOCK_MONOTONIC on Linux), appended flat; a read costs two
of them and one append. No locks: what must happen once rests on the deletion of a dict's key, which
is atomic. Nothing here raises into the caller; what went wrong stands in `Recording.broken`.
"""

import functools
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from latscope.capture import build, canary, sockets
from latscope.capture.marks import HTTP_MARKS, TRACE_MARKS
from latscope.capture.snapshots import Snapshots
from latscope.capture.watch import Watch
from latscope.recording import End
from latscope.units import Ns

if TYPE_CHECKING:
    from latscope.capture.tap import Tap

now = time.perf_counter_ns

KEEP_BYTES = 32 * 1024 * 1024
"""Payload kept of one attempt where no intake takes it; later reads keep their times and sizes
only."""

HAND_OVER = 32 * 1024
"""So many bytes of payload an intake is given at a time, while the stream is open."""

A_READ = 64
"""What one read counts for besides its payload until then. Its objects weigh about 120 bytes, so
that at most twice HAND_OVER waits here, however short the reads are."""

RETRY_HEADER = "x-stainless-retry-count"

NOT_HOOKED = "logical call not hooked: zero is the entry of the transport"

ABANDONED = End(reason="abandoned", detail="gc")
AT_EXIT = End(reason="abandoned", detail="exit")

CURRENT: ContextVar["Call | None"] = ContextVar("latscope.call", default=None)
"""The call whose entry we are inside. Read at transport entry only."""
LAST_UNHOOKED: ContextVar["Call | None"] = ContextVar("latscope.unhooked", default=None)
"""The latest SDK request of this context that no hook announced; its retry joins it."""


def unfelt(method: Callable[..., None]) -> Callable[..., None]:
    """Keeps a fault of the recorder's from the caller; the recording notes it."""

    @functools.wraps(method)
    def guarded(self: "AttemptRecorder", *args: Any) -> None:
        try:
            method(self, *args)
        except Exception as error:
            self.call.broke(method.__name__, error)

    return guarded


class Call:
    """One logical call while it is open."""

    __slots__ = (
        "__weakref__", "ambient", "attempts", "broken", "context", "elsewhere", "in_flight", "key",
        "scoped", "sdk", "sending", "sent", "start", "tap", "unhooked", "url", "wall_ns", "watch",
        "zero",
    )  # fmt: skip

    def __init__(
        self,
        tap: "Tap",
        key: int,
        start: Literal["sdk", "transport"],
        zero: Ns,
        sdk: str | None,
    ) -> None:
        self.tap = tap
        self.key = key
        self.start = start
        self.zero = zero
        self.wall_ns = time.time_ns()
        self.sdk = sdk
        self.in_flight = len(tap.open)
        self.scoped = False
        """Inside the SDK call or `send` that makes it: more attempts may follow."""
        self.unhooked = False
        self.sending = False
        """The HTTP client was asked to send a request of it."""
        self.elsewhere = False
        """A request of it, or one made inside of it, went to a transport of another tap."""
        self.attempts: list[AttemptRecorder] = []
        self.url: Any = None
        self.sent: bytes | None = None
        self.context: object = None
        self.watch = Watch()
        self.broken: list[str] = []
        # An exception handled around the call says nothing about how the call ends.
        self.ambient = id(sys.exception())

    def broke(self, what: str, error: BaseException) -> None:
        """Notes what capture could not do; class name only, a message may hold content."""
        note = f"{what}: {type(error).__name__}"
        if note not in self.broken:
            self.broken.append(note)

    def begin(self, attempt: "AttemptRecorder", request: Any) -> None:
        if not self.attempts:
            self.url = request.url
            self.sent = _content(request)
            if self.start == "transport":
                self.wall_ns += attempt.marks[0][1] - self.zero
                self.zero = attempt.marks[0][1]
        self.attempts.append(attempt)
        self.tap.attempts += 1
        if self.start == "transport" and attempt.retry_count is not None:
            LAST_UNHOOKED.set(self)
            if not self.unhooked:
                self.unhooked = True
                self.broken.append(NOT_HOOKED)
                canary.entered_unseen(self)

    def leave(self, error: BaseException | None) -> None:
        """The SDK call or `send` returned or raised; an open stream keeps the call open."""
        try:
            self.scoped = False
            if error is None and not self.attempts and not self.broken:
                canary.answered_unseen(self)
            if self.start == "transport" and not self.attempts and not self.broken:
                # Nothing of it came to a transport of this tap: another's, or none at all.
                self.drop()
            elif error is None:
                if not self.attempts or self.attempts[-1].over:
                    self._rest()
            elif self._may_retry():
                self._wait()
            elif isinstance(error, GeneratorExit):
                self.finish(ABANDONED, now())
            else:
                self.finish(end_of(error), now())
        except Exception as failure:
            self.broke("end of call", failure)
            self.finish(End(), now())

    def drop(self) -> None:
        """Never mind this call: it is not recorded."""
        self.tap.open.pop(self.key, None)
        self.watch.close()

    def attempt_over(self, attempt: "AttemptRecorder") -> None:
        if not self.scoped and self.attempts and attempt is self.attempts[-1]:
            self._rest()

    def abandon(self) -> None:
        """Ends because the interpreter does, at the last stamp there is."""
        if self.attempts and self.attempts[-1].end is not None:
            self.finish_as_last()
            return
        last = self.attempts[-1] if self.attempts else None
        self.finish(AT_EXIT, self.zero if last is None else last.last_stamp)

    def finish_as_last(self) -> None:
        """Ends as its last attempt did."""
        if not self.attempts:
            self.finish(End(), now())
            return
        last = self.attempts[-1]
        self.finish(last.end or End(), last.end_ns)

    def finish(self, end: End, end_ns: Ns) -> None:
        """Builds the recording and hands it on; once, whoever comes first."""
        try:
            del self.tap.open[self.key]
        except KeyError:
            return
        self.tap.waiting.pop(self.key, None)
        self.watch.close()
        ended = build.Ended(self, end, end_ns)
        # The context may remember this object for long; it must not hold a payload as long.
        self.attempts, self.sent, self.url, self.context = [], None, None, None
        try:
            if self.tap.intake is None:
                self.tap.done(ended.recording())
            else:
                self.tap.intake.ended(ended)
        except Exception:
            return

    def _rest(self) -> None:
        if self._may_retry():
            self._wait()
        else:
            self.finish_as_last()

    def _wait(self) -> None:
        # Perhaps for ever, and then nobody must be left watching.
        self.tap.waiting[self.key] = self
        self.watch.close()

    def _may_retry(self) -> bool:
        return self.unhooked and bool(self.attempts) and self.attempts[-1].retryable


class AttemptRecorder:
    """One HTTP exchange while it happens."""

    __slots__ = (
        "_add", "_calm", "_last", "_room", "_tunnel", "call", "connected", "end", "end_ns",
        "error_type", "headers", "http", "inside", "kernel", "link", "lost", "marks", "over",
        "reads", "retry_count", "status", "taken", "traced", "unseen",
    )  # fmt: skip

    def __init__(self, call: Call, request: Any, entry: Ns) -> None:
        self.call = call
        self.marks: list[tuple[str, Ns]] = [("entry", entry)]
        self.reads: list[Any] = []
        """asked, got, chunk; asked, got, chunk; ... Flat: the collector has nothing to walk."""
        self._add = self.reads.extend
        self._room = KEEP_BYTES if call.tap.intake is None else HAND_OVER
        self.taken: Any = None
        """What the intake that takes the reads made of them."""
        self.lost = False
        """The intake could not take all of them."""
        self._last: Ns = 0
        self._calm: Ns = 0
        self._tunnel = False
        self.retry_count = retry_count(request)
        self.status: int | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.http: Any = None
        self.link: sockets.Link | None = None
        self.kernel = Snapshots()
        self.traced = False
        self.connected = False
        self.inside: Callable[[], object] | None = None
        """Ends what `outgoing` made current for as long as the transport is at work."""
        self.unseen = False
        """The transport shows nothing of its connections: it is no httpcore."""
        self.error_type: str | None = None
        self.end: End | None = None
        self.end_ns: Ns = entry
        self.over = False

    @property
    def retryable(self) -> bool:
        """The SDKs try again after this."""
        if self.status is None:
            return self.error_type is not None
        return self.status in (408, 409, 429) or self.status >= 500

    @property
    def last_stamp(self) -> Ns:
        """When something of it was last seen."""
        return self._last or self.marks[-1][1]

    @unfelt
    def trace(self, name: str, info: Any) -> None:
        """A trace event of httpcore. One that raised would break the request."""
        stamp = now()
        self.traced = True
        mark = TRACE_MARKS.get(name)
        if mark is None:
            return
        if mark == "request.started":
            # A proxy's CONNECT is connection set-up; the request itself comes after it.
            self._tunnel = info["request"].method == b"CONNECT"
        if self._tunnel and mark in HTTP_MARKS:
            return
        self.marks.append((mark, stamp))
        if mark.startswith("connect."):
            self.connected = True
        kernel = self.kernel
        if mark in ("connect.complete", "tls.complete"):
            kernel.stream = info["return_value"]
        if mark == "connect.complete":
            kernel.take("connect", stamp, sockets.socket_of(kernel.stream))
        elif mark == "request.started" and not self.connected:
            kernel.started(info["request"], stamp)
        elif mark == "request.sent":
            self.link = self.call.tap.link(kernel.stream)
            kernel.forget()
            if self.link is not None:
                kernel.take("sent", stamp, self.link.sock)

    @unfelt
    def responded(self, response: Any) -> None:
        """The transport returned: status and headers are known."""
        stamp = now()
        self.leave()
        self.unseen = not self.traced
        self.status = response.status_code
        self.headers = response.headers.raw
        if not any(name == "headers" for name, _ in self.marks):
            self.marks.append(("headers", stamp))
        self.http = response.extensions.get("http_version")
        self.kernel.forget()
        link = self.call.tap.link(response.extensions.get("network_stream"))
        self.link = link or self.link
        if self.link is not None:
            self.kernel.headers(self.link, stamp)

    def keep(self, asked: Ns, chunk: Any) -> None:
        """One read of the body: when it was asked for, and a reference to what came."""
        got = now()
        try:
            self._room -= len(chunk) + A_READ
            self._add((asked, got, chunk))
            if self._room < 0:
                self._full()
            silence = got - self._last
            self._last = got
            if silence > self._calm:
                self._calm = self.kernel.read(silence, got, self.link)
        except Exception as error:
            self.call.broke("read", error)

    def _full(self) -> None:
        intake = self.call.tap.intake
        if intake is None:
            self.reads[-1] = len(self.reads[-1])  # as of every read from here on
        else:
            intake.take(self, self.left())

    def left(self) -> list[Any]:
        """The reads since the last time, which the recorder lets go."""
        reads, self.reads = self.reads, []
        self._add = self.reads.extend
        self._room = HAND_OVER
        return reads

    @unfelt
    def eof(self) -> None:
        """The body's end was seen."""
        self._ended(End(), "body.end")

    @unfelt
    def interrupted(self, error: BaseException) -> None:
        """The body's iteration was left by an exception: the server's, or the caller's own.

        Whether the response is closed as well is the library's habit (httpx leaves it): it is over.
        """
        end = end_of(error)
        if isinstance(error, GeneratorExit):
            self._dropped(end)
        elif end.reason == "error" and self.end is None:
            self.error_type = _full_name(error)
            self._ended(end, "error")
        else:
            self._ended(end, None)
        self.released()

    @unfelt
    def failed(self, error: BaseException) -> None:
        """The transport raised: there is no response, and nothing more will come."""
        self.leave()
        if isinstance(error, GeneratorExit):  # the waiting coroutine itself was thrown away
            self._ended(ABANDONED, None)
        if not self.traced:  # httpcore is silent too, while it waits for a free connection
            self.unseen = getattr(self.kernel.transport, "_pool", None) is None
        self.interrupted(error)

    @unfelt
    def leave(self) -> None:
        """The transport has returned or raised."""
        inside, self.inside = self.inside, None
        if inside is not None:
            inside()

    @unfelt
    def closing(self) -> None:
        """The caller closes the response, at its end or before."""
        error = sys.exception()
        if error is not None and (isinstance(error, Exception) or id(error) == self.call.ambient):
            error = None  # not why it is closed, or nothing to do with it
        if self.end is not None and not self.over and self.marks[-1][0] != "closed":
            self.marks.append(("closed", now()))
        elif isinstance(error, GeneratorExit):
            self._dropped(end_of(error))
        else:
            self._ended(end_of(error) if error else End(reason="closed", detail="close"), "closed")

    @unfelt
    def released(self) -> None:
        """The response is closed and its connection given back."""
        if not self.over:
            self.over = True
            self.call.attempt_over(self)

    @unfelt
    def forgotten(self) -> None:
        """The response was garbage collected, never closed."""
        self._dropped(ABANDONED)
        self.released()

    @unfelt
    def unwrapped(self, chunks: "list[bytes]") -> None:
        """The response came with its body in memory: read in one go, at once."""
        for chunk in chunks:
            self.keep(now(), chunk)
        self.eof()
        self.released()

    def _ended(self, end: End, mark: str | None) -> None:
        if self.end is not None:
            return
        self.end = end
        self.end_ns = now()
        if mark is not None:
            self.marks.append((mark, self.end_ns))
        if self.link is not None:
            self.kernel.take("end", self.end_ns, self.link.sock)

    def _dropped(self, end: End) -> None:
        # An iterator nobody holds any more is closed by whoever finds it, perhaps much later, the
        # collector. The caller left when it asked for no more: at the last stamp.
        if self.end is not None:
            return
        self.end = end
        self.end_ns = self.last_stamp


def retry_count(request: Any) -> int | None:
    """How many tries the SDK says came before this one; null when it does not say."""
    text = request.headers.get(RETRY_HEADER)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def end_of(error: BaseException) -> End:
    """How a call ends that this exception leaves."""
    if isinstance(error, GeneratorExit):
        return End(reason="closed", detail="break")
    reason: Literal["error", "cancelled"] = "error" if isinstance(error, Exception) else "cancelled"
    return End(reason=reason, detail=type(error).__name__)


def _content(request: Any) -> bytes | None:
    # A request body that is a stream is the transport's to read, once.
    try:
        content: bytes = request.content
    except Exception:
        return None
    return content or None


def _full_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"
