"""The answer's body as arrivals: frames, events, and the read each one came with."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from latscope.protocols import detect
from latscope.protocols.dialect import Dialect
from latscope.protocols.events import TOKEN_KINDS, Event, EventKind, Usage
from latscope.recording import Attempt, Read
from latscope.steps import Steps
from latscope.timeline.model import Arrival, Hold
from latscope.units import MS, US, Ns, Span
from latscope.wire.frames import Frame
from latscope.wire.framing import frames_steps

AT_ONCE: Ns = 200 * US
"""A read that took no longer than this found its bytes waiting: they came somewhere between the
read before it and itself. A read that really waited that briefly loses 0.2 ms of sharpness."""

HELD: Ns = MS
"""Shorter pauses of the consumer between two reads are the cost of reading, not a hold."""

STREAMS = (
    "text/event-stream",
    "application/x-ndjson",
    "application/jsonl",
    "application/vnd.amazon.eventstream",
)

KINDS: Mapping[str, EventKind] = {kind: kind for kind in get_args(EventKind)}


_new = tuple.__new__  # what Span() and Arrival() come down to: two are made for every token
_TOLD = Event._fields.index("name")
_NOTHING = Event("content", 0, 0)[_TOLD:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The events of one attempt's body, in order. `reads` are those that brought body bytes;
    telling: the events that say more than that some output came."""

    dialect: Dialect | None
    events: tuple[Event, ...]
    telling: tuple[Event, ...]
    frames: int
    streamed: bool
    truncated: bool
    unreadable: bool
    """Bytes came in a coding that could not be undone: their times count, no more."""
    reads: tuple[Read, ...]
    since_ns: Ns

    def spans(self) -> tuple[Span, ...]:
        """When the bytes of each read arrived. One that returned at once found them waiting: they
        came after the last read that had to wait returned, or, where the reader paused after
        that, during the pause; so did those behind it that returned at once too."""
        found, since = [], self.since_ns
        for asked, got, _, _ in self.reads:
            if got - asked > AT_ONCE:
                since = got
            found.append(_new(Span, (since if since < got else got, got)))
        return tuple(found)

    def arrived(self, events: Sequence[Event]) -> list[Span]:
        """When the last byte of each event arrived."""
        offsets, spans = [read.body_offset for read in self.reads], self.spans()
        return [spans[min(bisect_left(offsets, event.end), len(spans) - 1)] for event in events]


def read_stream(attempt: Attempt, path: str, since_ns: Ns) -> Steps[Stream]:
    """`since_ns`: when the headers had come; the first body byte cannot have come for us before."""
    unreadable = attempt.body is None and attempt.events is None
    unreadable = unreadable and any(read.wire_bytes for read in attempt.reads)
    reads = tuple(attempt.reads) if unreadable else _with_bytes(attempt.reads)
    found = yield from frames_steps(attempt)
    yield
    dialect = detect(path, attempt.body, found)
    events: Sequence[Event] = ()
    if attempt.body is None and attempt.events is not None:
        events = _kept_events(attempt, reads)
    elif dialect is not None:
        events = yield from _decoded(dialect, found)
    telling = [e for e in events if e.kind not in TOKEN_KINDS or e[_TOLD:] != _NOTHING]
    yield
    return Stream(
        dialect=dialect,
        events=tuple(events),
        telling=tuple(telling),
        frames=len(found),
        streamed=_streamed(attempt, found),
        truncated=any(frame.truncated for frame in found),
        unreadable=unreadable,
        reads=reads,
        since_ns=since_ns,
    )


A_STEP = 64
"""Events read at a stretch."""


def _decoded(dialect: Dialect, found: Sequence[Frame]) -> Steps[list[Event]]:
    decode = dialect.decoder()
    events: list[Event] = []
    yield
    for at in range(0, len(found), A_STEP):
        for frame in found[at : at + A_STEP]:
            events += decode(frame)
        yield
    return events


def arrivals(stream: Stream) -> Steps[tuple[Arrival, ...]]:
    """The token-bearing events of a streamed answer; none when it came as one body."""
    if not stream.streamed or not stream.reads:
        return ()
    offsets = [read.body_offset for read in stream.reads]
    spans, last = stream.spans(), len(offsets) - 1
    found: list[Arrival] = []
    index = before = 0
    for number, event in enumerate(stream.events):
        if number % A_STEP == 0:
            yield
        kind, end = event.kind, event.end
        if event.size > 0 and kind in TOKEN_KINDS:
            if end < before:
                index = 0
            before = end
            while index < last and offsets[index] < end:
                index += 1
            found.append(
                _new(Arrival, (spans[index], kind, event.choice, event.tokens, index, end))
            )
    return tuple(found)


WOKE: Ns = 5 * MS
"""A read that returned this soon after the caller's loop was free may have been kept by it."""


COARSE: Ns = 20 * MS
"""The kernel tells in ticks of 1 to 10 ms how long ago data came: less than two says nothing."""


def head_holds(attempt: Attempt, busy: Sequence[tuple[Ns, Ns]] = ()) -> list[tuple[Ns, Ns]]:
    """Where the client kept the response head waiting: the kernel had its bytes already, by its own
    account, or the event loop was busy (`busy`: at, how long) until the head was read."""
    read, sent = attempt.mark("headers"), attempt.mark("request.sent")
    if read is None or sent is None or sent >= read:
        return []
    ages = [info.last_data_recv_ns or 0 for info in attempt.tcp_info if info.at == "headers"]
    there = [(max(sent, read - age), read) for age in ages if age > COARSE]
    return there + [(start, read) for start, _ in _until(busy, sent, read)]


def _until(busy: Sequence[tuple[Ns, Ns]], since: Ns, got: Ns) -> list[tuple[Ns, Ns]]:
    """The stretches after `since` in which the loop was busy, until it let a read return."""
    ends = [(at, at + took) for at, took in busy if took > HELD]
    return [(max(at, since), end) for at, end in ends if since < end <= got <= end + WOKE]


def holds(
    stream: Stream, busy: Sequence[tuple[Ns, Ns]] = (), head: Sequence[tuple[Ns, Ns]] = ()
) -> tuple[Hold, ...]:
    """Where the client kept the stream waiting: the consumer did not ask and the next bytes were
    already there, or its event loop was busy (`busy`: at, how long) until a read returned; and
    `head`, what it kept of the response's head. In order, apart from each other."""
    found, before = [*head], stream.since_ns
    for asked, got, _, _ in stream.reads:
        if got - asked <= AT_ONCE:
            if asked - before > HELD:
                found.append((before, asked))
        elif busy:  # seldom: this is a step of every read
            found += _until(busy, before, got)
        before = got
    return _apart(found)


def _apart(spans: list[tuple[Ns, Ns]]) -> tuple[Hold, ...]:
    joined: list[Hold] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1].end_ns:
            last = joined.pop()
            start, end = last.start_ns, max(end, last.end_ns)
        joined.append(Hold(start_ns=start, end_ns=end))
    return tuple(joined)


def merged_usage(events: Sequence[Event], kept: Mapping[str, int] | None = None) -> Usage:
    """The last stated value of each count; vendors repeat usage, the last one is whole."""
    counts: dict[str, int] = dict(kept or {})
    for event in events:
        if event.usage is not None:
            for name in Usage.__dataclass_fields__:
                value = getattr(event.usage, name)
                if value is not None:
                    counts[name] = value
    known = {name: counts[name] for name in Usage.__dataclass_fields__ if name in counts}
    return Usage(**known)


def _with_bytes(reads: Sequence[Read]) -> tuple[Read, ...]:
    """Reads that moved the body on: a compressed stream has reads that yield nothing yet."""
    found, offset = [], 0
    for read in reads:
        if read.body_offset > offset:
            found.append(read)
            offset = read.body_offset
    return tuple(found)


def _streamed(attempt: Attempt, found: Sequence[Frame]) -> bool:
    if found:
        return found[0].kind != "body"
    kind = dict(attempt.headers).get("content-type", "")
    return kind.startswith(STREAMS)


def _kept_events(attempt: Attempt, reads: tuple[Read, ...]) -> tuple[Event, ...]:
    """Events of a recording that kept their kind and place but not the body."""
    offsets = [read.body_offset for read in reads]
    found = []
    for row in attempt.events or ():
        at = min(bisect_left(offsets, row.body_offset), len(reads) - 1)
        kind: EventKind = KINDS.get(row.kind, "unknown")
        found.append(
            Event(
                kind=kind,
                ns=reads[at].got_ns if reads else 0,
                end=row.body_offset,
                tokens=row.tokens,
                size=int(kind in TOKEN_KINDS),
            )
        )
    return tuple(found)
