"""From the recorder's flat stamps to a `Recording`: once, at the call's end."""

import heapq
import os
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

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
from latscope.units import MS, Ns, S

if TYPE_CHECKING:
    from latscope.capture.recorder import AttemptRecorder, Call

HELD: Ns = MS
"""Shorter stretches between two reads are the cost of reading."""

_PORTS = {"https": 443, "http": 80}


def recording(call: "Call", end: End, end_ns: Ns) -> Recording:
    """The call as captured. Times become offsets from its zero."""
    zero = call.zero
    at = max(end_ns - zero, 0)
    marks = [Mark("entry", 0), Mark("end", at)]
    if end.reason in ("closed", "cancelled", "abandoned"):
        marks.insert(1, Mark("stop", at))
    return Recording(
        call_id=os.urandom(16).hex(),
        started_at=_rfc3339(call.wall_ns),
        start=call.start,
        target=_target(call.url),
        end=end,
        marks=tuple(marks),
        attempts=tuple(_attempt(attempt, zero) for attempt in call.attempts),
        sdk=call.sdk,
        sent=call.sent,
        request_bytes=None if call.sent is None else len(call.sent),
        in_flight=call.in_flight,
        client=_client(call, max(end_ns, zero)),
        broken=tuple(call.broken),
        clock=Clock(name="perf_counter", zero_ns=zero),
        context=call.context,
    )


def remains(call: "Call", end: End) -> Recording:
    """What is left to say of a call whose recording could not be built."""
    return Recording(
        call_id=os.urandom(16).hex(),
        started_at=_rfc3339(call.wall_ns),
        start=call.start,
        target=Target(scheme="", host="", port=0, path=""),
        end=end,
        marks=(Mark("entry", 0),),
        sdk=call.sdk,
        broken=tuple(call.broken),
        context=call.context,
    )


def _attempt(attempt: "AttemptRecorder", zero: Ns) -> Attempt:
    flat = attempt.reads[:]
    chunks = flat[2::3]
    # Past the recorder's limit a chunk is its size only.
    sizes = [chunk if type(chunk) is int else len(chunk) for chunk in chunks]
    asked = [stamp - zero for stamp in flat[0::3]]
    got = [stamp - zero for stamp in flat[1::3]]
    if any(type(chunk) is int for chunk in chunks):
        attempt.call.broken.append("body: too long to keep whole")
    return Attempt(
        marks=tuple([Mark(name, stamp - zero) for name, stamp in attempt.marks]),
        connection=_connection(attempt),
        status=attempt.status,
        headers=tuple(
            [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in attempt.headers]
        ),
        encoding=_encoding(attempt.headers),
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


def _client(call: "Call", end_ns: Ns) -> ClientSide:
    held: list[tuple[Ns, Ns]] = []
    for attempt in call.attempts:
        flat = attempt.reads[:]
        between = zip(flat[1::3], flat[3::3], strict=False)  # this one's return, the next's asking
        held += [(asked - got, got) for got, asked in between if asked - got > HELD]
    return ClientSide(
        loop_lag=within(call.watch.late, call.zero, end_ns, LATE),
        gc=within(call.watch.gc, call.zero, end_ns, PAUSE),
        consumer=within(heapq.nlargest(KEEP, held), call.zero, end_ns, HELD),
    )


def _connection(attempt: "AttemptRecorder") -> Connection:
    link = attempt.link
    http = attempt.http
    return Connection(
        id=None if link is None else link.id,
        reused=not attempt.connected if attempt.traced else None,
        http=http.decode("latin-1") if isinstance(http, bytes) else None,
        tls=_tls(attempt) if link is None else link.tls,
        peer=None if link is None else link.peer,
    )


def _tls(attempt: "AttemptRecorder") -> bool | None:
    # Without a stream to ask: a handshake that was seen is the only sign.
    return True if any(name == "tls.complete" for name, _ in attempt.marks) else None


def _encoding(headers: list[tuple[bytes, bytes]]) -> str | None:
    values = [value for name, value in headers if name.lower() == b"content-encoding"]
    return b", ".join(values).decode("latin-1") or None


def _target(url: Any) -> Target:
    scheme = url.scheme
    return Target(
        scheme=scheme,
        host=url.host,
        port=url.port or _PORTS.get(scheme, 0),
        path=url.path,
    )


def _rfc3339(wall_ns: int) -> str:
    seconds, rest = divmod(wall_ns, S)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
