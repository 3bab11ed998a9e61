"""From the recorder's flat stamps to a `Recording`: once, when the call is over."""

import heapq
import os
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from latscope.capture.watch import KEEP, LATE, PAUSE, within
from latscope.recording import (
    Attempt,
    ClientSide,
    Clock,
    Connection,
    End,
    Mark,
    Read,
    Recording,
    Target,
    TcpInfo,
)
from latscope.units import MS, Ns, rfc3339_us

if TYPE_CHECKING:
    from latscope.capture.recorder import AttemptRecorder, Call

HELD: Ns = MS
"""Shorter stretches between two reads are the cost of reading."""

_PORTS = {"https": 443, "http": 80}


class Left(NamedTuple):
    """An attempt when its call ended. What it says of itself later is not part of the call."""

    attempt: "AttemptRecorder"
    marks: list[tuple[str, Ns]]
    reads: list[Any]


class Ended:
    """A call that is over: all that its recording is made of, taken out of the recorder's hands, so
    that it can be made later and elsewhere."""

    __slots__ = (
        "attempts", "broken", "context", "end", "end_ns", "in_flight", "sdk", "sent", "start",
        "url", "wall_ns", "watch", "zero",
    )  # fmt: skip

    def __init__(self, call: "Call", end: End, end_ns: Ns) -> None:
        self.zero = call.zero
        self.wall_ns = call.wall_ns
        self.start = call.start
        self.end = end
        self.end_ns = end_ns
        self.url = call.url
        self.sdk = call.sdk
        self.sent = call.sent
        self.in_flight = call.in_flight
        self.watch = call.watch
        self.broken = call.broken
        self.context = call.context
        self.attempts = [Left(one, one.marks[:], one.left()) for one in call.attempts]

    def recording(self, *, streams: bool = True) -> Recording:
        """The call as captured. streams: with the reads and payloads that were not given to an
        intake; without, they are for the intake to add (`Left.reads`). Never raises."""
        try:
            return _recording(self, streams)
        except Exception as error:
            return _remains(self, f"recording: {type(error).__name__}")


def _recording(call: Ended, streams: bool) -> Recording:
    """Times become offsets from the call's zero."""
    zero, end = call.zero, call.end
    at = max(call.end_ns - zero, 0)
    marks = [Mark("entry", 0), Mark("end", at)]
    if end.reason in ("closed", "cancelled", "abandoned"):
        marks.insert(1, Mark("stop", at))
    lefts = call.attempts if streams else [left._replace(reads=[]) for left in call.attempts]
    attempts = [_attempt(left, zero) for left in lefts]
    long = any(type(chunk) is int for left in lefts for chunk in left.reads[2::3])
    return Recording(
        call_id=os.urandom(16).hex(),
        started_at=rfc3339_us(call.wall_ns),
        start=call.start,
        target=_target(call.url),
        end=end,
        marks=tuple(marks),
        attempts=tuple(attempts),
        sdk=call.sdk,
        sent=call.sent,
        request_bytes=None if call.sent is None else len(call.sent),
        in_flight=call.in_flight,
        client=_client(call, lefts),
        broken=(*call.broken, *(["body: too long to keep whole"] if long else [])),
        clock=Clock(name="perf_counter", zero_ns=zero),
        context=call.context,
    )


def _remains(call: Ended, fault: str) -> Recording:
    """What is left to say of a call whose recording could not be built."""
    return Recording(
        call_id=os.urandom(16).hex(),
        started_at=rfc3339_us(call.wall_ns),
        start=call.start,
        target=Target(scheme="", host="", port=0, path=""),
        end=call.end,
        marks=(Mark("entry", 0),),
        sdk=call.sdk,
        broken=(*call.broken, fault),
        context=call.context,
    )


def _attempt(left: Left, zero: Ns) -> Attempt:
    attempt, at_marks, flat = left
    chunks = flat[2::3]
    # Past the recorder's limit a chunk is its size only.
    sizes = [chunk if type(chunk) is int else len(chunk) for chunk in chunks]
    asked = [stamp - zero for stamp in flat[0::3]]
    got = [stamp - zero for stamp in flat[1::3]]
    return Attempt(
        marks=tuple([Mark(name, stamp - zero) for name, stamp in at_marks]),
        connection=_connection(attempt),
        status=attempt.status,
        headers=headers(attempt.headers),
        encoding=encoding(attempt.headers),
        reads=tuple(map(Read, asked, got, sizes, accumulate(sizes))),
        wire=tuple([b"" if type(chunk) is int else bytes(chunk) for chunk in chunks]),
        tcp_info=_window(attempt, zero),
        tcp_raw=tuple([(at, stamp - zero, raw) for at, stamp, raw in attempt.kernel.taken]),
        retry_count=attempt.retry_count,
        error_type=attempt.error_type,
    )


def _window(attempt: "AttemptRecorder", zero: Ns) -> tuple[TcpInfo, ...]:
    if attempt.kernel.window is None:
        return ()
    stamp, lowest = attempt.kernel.window
    return (TcpInfo(at="window", at_ns=stamp - zero, min_rtt_ns=lowest),)


def _client(call: Ended, lefts: Sequence[Left]) -> ClientSide:
    end_ns = max(call.end_ns, call.zero)
    held: list[tuple[Ns, Ns]] = []
    for left in lefts:
        # Between this one's return and the next one's asking.
        held += consumed(zip(left.reads[1::3], left.reads[3::3], strict=False))
    return ClientSide(
        loop_lag=within(call.watch.late, call.zero, end_ns, LATE),
        gc=within(call.watch.gc, call.zero, end_ns, PAUSE),
        consumer=consumer(held, call.zero, end_ns),
    )


def consumed(between: Iterable[tuple[Ns, Ns]]) -> list[tuple[Ns, Ns]]:
    """(how long, from when) the consumer held the stream. between: when a read returned, and when
    the next was asked for."""
    return [(asked - got, got) for got, asked in between if asked - got > HELD]


def consumer(held: list[tuple[Ns, Ns]], zero: Ns, end_ns: Ns) -> tuple[tuple[Ns, Ns], ...]:
    """`ClientSide.consumer` of these stretches."""
    return within(heapq.nlargest(KEEP, held), zero, end_ns, HELD)


def _connection(attempt: "AttemptRecorder") -> Connection:
    link = attempt.link
    http = attempt.http
    return Connection(
        id=None if link is None else link.id,
        reused=not attempt.connected if attempt.traced else None,
        http=http.decode("latin-1") if isinstance(http, bytes) else None,
        tls=_tls(attempt) if link is None else link.tls,
        peer=None if link is None else link.peer,
        unseen=attempt.unseen or None,
    )


def _tls(attempt: "AttemptRecorder") -> bool | None:
    # Without a stream to ask: a handshake that was seen is the only sign.
    return True if any(name == "tls.complete" for name, _ in attempt.marks) else None


def headers(raw: Sequence[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Response headers as a recording holds them."""
    return tuple([(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in raw])


def encoding(raw: Sequence[tuple[bytes, bytes]]) -> str | None:
    """The content-encoding they name; null when none."""
    values = [value for name, value in raw if name.lower() == b"content-encoding"]
    return b", ".join(values).decode("latin-1") or None


def _target(url: Any) -> Target:
    scheme = url.scheme
    return Target(
        scheme=scheme,
        host=url.host,
        port=url.port or _PORTS.get(scheme, 0),
        path=url.path,
    )
