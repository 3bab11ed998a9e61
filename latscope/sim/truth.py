"""The truth of one call: its full partition on one clock, from stamps the estimator never sees.

The server's stamps and the recording's are readings of one clock (CLOCK_MONOTONIC, shared by the
processes of a host), so subtracting the recording's zero puts both on the call's axis. The parts
between consecutive instants then add up to the whole by construction; nothing is unattributed.

The last attempt, whole call (a boundary belongs to what ends there):

    client    zero -> its first transport event: the SDK's own work and the wait for the pool
    network   -> the server has the whole request: connect, TLS, upload, transit
    queue     -> the engine takes the call up: the server's frontend included
    prefill   -> the first token exists, whether or not it will ever be sent
    decode    -> the last token exists: pauses of the generation included, holds not
    network   -> the read that completes the terminal event: holds, transit, the client's reading

To the first token, the same with the first *sent* token in the place of the last: what was
generated before it and never sent is decode; from its existence to the read that brought the last
byte of its frame is network, be it transit or hold.

An attempt that was refused (HTTP 400 and above) had no prefill and no decode that served the call:
from the server having it until the server was done with it is queue. Where the server asked to be
left alone or failed (REFUSED), the whole exchange is, from its headers being written to its end, be
it the last attempt or one that was retried (design: Retries).

The end, when no terminal event came: the caller's stop, else the attempt's end of body or error
(none of them before the last read), else the call's end mark, else the last stamp. A milestone
the server never reached is the moment it was done with the exchange, or the call's end if that
came first.

An attempt that failed and was tried again (design: Retries), from its own first transport event
(before that: client, as above) to its last stamp: queue when the server answered with a status,
network when it did not. The sleep after it: queue up to the server's Retry-After, client beyond or
when none was given. Nothing is asked of the server about such an attempt.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from latscope.errors import InputError
from latscope.recording import Attempt, Recording, SegmentTruth, Truth
from latscope.sim.stamps import Stamps
from latscope.units import Ns, ns_from_s

SOURCE = "latscope-sim: stamps of server and client on one monotonic clock"

Segment: TypeAlias = Literal["queue", "prefill", "decode", "network", "client", "unattributed"]
SEGMENTS: tuple[Segment, ...] = (
    "queue",
    "prefill",
    "decode",
    "network",
    "client",
    "unattributed",
)
Until: TypeAlias = tuple[Segment, Ns]
"""A stretch, as its owner and the instant it ends, in ns from the call's zero."""

TRANSPORT = ("connect.started", "tls.started", "request.started", "request.headers", "request.sent")
"""Marks of the transport's own work; the first one ends the wait for the pool."""

ENDS = ("body.end", "error")
"""Marks that end an attempt whose terminal event never came."""


def truth(stamps: Stamps, recording: Recording) -> Truth:
    """The partition of the call whose last attempt `stamps` belong to.

    Raises InputError when the recording has no clock to lay the stamps on, or when the two
    contradict each other (they belong to different calls, or to clocks that are not shared)."""
    if recording.clock is None or not recording.attempts:
        raise InputError(f"call {recording.call_id}: no clock or no attempt to lay the truth on")
    final = recording.attempts[-1]
    end = _end(stamps, recording, final)
    before = list(_failed(recording.attempts))
    whole = [*before, *_answered(stamps, recording, stamps.last_token_ns, end)]
    shown = _read_at(final, stamps.first_token_end) if stamps.stream else None
    to_token = None
    if shown is not None and shown <= end:
        first = [*before, *_answered(stamps, recording, stamps.first_sent_ns, shown)]
        to_token = _partition(first, shown, recording.call_id)
    return Truth(segments=_partition(whole, end, recording.call_id), ttft=to_token, source=SOURCE)


REFUSED = frozenset({408, 409, 429})
"""With every 5xx: the statuses whose attempt is queue by definition."""


def _answered(
    stamps: Stamps, recording: Recording, last_token: Ns | None, end: Ns
) -> Iterator[Until]:
    """The last attempt up to `end`, decode reaching to `last_token`."""
    assert recording.clock is not None
    zero = recording.clock.zero_ns
    done = end if stamps.closed_ns is None else min(stamps.closed_ns - zero, end)
    yield ("client", _first_transport(recording.attempts[-1]))
    status = recording.attempts[-1].status or 0
    if status >= 500 or status in REFUSED:
        written = recording.attempts[-1].mark("request.headers")
        yield ("network", min(stamps.received_ns - zero if written is None else written, end))
        yield ("queue", end)
        return
    refused = status >= 400
    reached: tuple[tuple[Segment, Ns | None], ...] = (
        ("network", stamps.received_ns),
        ("queue", None if refused else stamps.scheduled_ns),
        ("prefill", stamps.first_token_ns),
        ("decode", last_token),
    )
    for segment, at in reached:
        if at is None:
            yield (segment, done)
            break
        yield (segment, min(at - zero, end))
    yield ("network", end)


def _failed(attempts: Sequence[Attempt]) -> Iterator[Until]:
    """The attempts before the last, each with the sleep that followed it."""
    for attempt, after in pairwise(attempts):
        yield ("client", _first_transport(attempt))
        resumed = after.mark("entry") or _last_stamp(attempt)
        stop = min(_last_stamp(attempt), resumed)
        yield ("network" if attempt.status is None else "queue", stop)
        yield ("queue", min(stop + _retry_after(attempt), resumed))
        yield ("client", resumed)


def _partition(stretches: Iterable[Until], end: Ns, call_id: str) -> tuple[SegmentTruth, ...]:
    """The length of each segment; the instants must not go back, and must reach `end`."""
    sums: Counter[Segment] = Counter()
    at = 0
    for segment, until in stretches:
        if until < at:
            raise InputError(
                f"call {call_id}: {segment} would end {at - until} ns before it starts;"
                " the stamps belong to another call or another clock"
            )
        sums[segment] += until - at
        at = until
    assert at == end
    return tuple(SegmentTruth(name=name, ns=sums[name]) for name in SEGMENTS)


def _end(stamps: Stamps, recording: Recording, final: Attempt) -> Ns:
    """Where the call ends; see the head of the file."""
    terminal = _read_at(final, stamps.terminal_end)
    stop = recording.mark("stop")
    if terminal is not None and (stop is None or terminal <= stop):
        return terminal
    last_read = max((read.got_ns for read in final.reads), default=0)
    for at in (stop, *(final.mark(name) for name in ENDS)):
        if at is not None:
            return max(at, last_read)
    end = recording.mark("end")
    return recording.last_ns if end is None else end


def _read_at(attempt: Attempt, offset: int | None) -> Ns | None:
    """When the byte before `offset` of the body was read; null when it never was."""
    if offset is None:
        return None
    return next((read.got_ns for read in attempt.reads if read.body_offset >= offset), None)


def _first_transport(attempt: Attempt) -> Ns:
    stamps = [mark.ns for mark in attempt.marks if mark.name in TRANSPORT]
    return min(stamps) if stamps else attempt.mark("entry") or 0


def _last_stamp(attempt: Attempt) -> Ns:
    stamps = [mark.ns for mark in attempt.marks if mark.name != "closed"]
    return max([*stamps, *(read.got_ns for read in attempt.reads[-1:])], default=0)


def _retry_after(attempt: Attempt) -> Ns:
    """How long the server asked to be left alone; 0 when it did not."""
    headers = dict(attempt.headers)
    for name, seconds in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            return ns_from_s(max(float(headers.get(name, "")) * seconds, 0.0))
        except (ValueError, OverflowError):
            continue
    return 0
