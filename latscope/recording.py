"""One call as captured: marks and reads, nothing interpreted. Fixture, bug report, file format.

A recording is the only thing that passes from capture to everything else. It keeps *when bytes
came*, never what they mean, so a later version can attribute it again. `latscope.recording/1` is
its file form, one JSON line a call; `to_line` writes it, `documents.recordings` reads it.

Times are integer nanoseconds since the call's zero, `started_at` being the only wall-clock value.

Marks an attempt may carry, in the order they happen (a mark that did not happen is absent):

    entry             the transport was asked for this attempt
    connect.started / connect.complete / connect.failed     DNS and TCP together
    tls.started / tls.complete / tls.failed
    request.started   the first request header is about to be written
    request.headers   request headers written
    request.sent      request body written: the server can have the whole request from here on
    headers           response status and headers parsed
    body.end          the body's end was seen (EOF)
    error             the attempt failed (see error_type)
    closed            the response was closed

and `Recording.marks` of the call as a whole: `entry` (0 by definition), `stop` (the caller broke
off, closed, cancelled: see `end.reason`), `end`.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, NamedTuple

from latscope.units import Ns

SCHEMA = "latscope.recording/1"

EndReason = Literal[
    "complete",  # the body was read to its end, or the SDK closed after the terminal event
    "closed",  # the caller broke out of or closed the stream before its end
    "cancelled",  # the task was cancelled
    "abandoned",  # the stream was garbage collected unread, or the interpreter ended
    "error",  # an exception reached the caller
]


class Mark(NamedTuple):
    name: str
    ns: Ns


class Read(NamedTuple):
    """One arrival of bytes at the client.

    asked_ns: when the reader asked; got_ns: when the bytes were handed over; wire_bytes: how many
    came off the wire; body_offset: how far into the content-decoded body they reached (bytes).
    A read with got_ns close to asked_ns was already waiting: it arrived in (previous got, got].
    """

    asked_ns: Ns
    got_ns: Ns
    wire_bytes: int
    body_offset: int


class EventRow(NamedTuple):
    """What is kept of an event when the body is not: where it ended, its kind, its tokens."""

    body_offset: int
    kind: str
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    scheme: str
    host: str
    port: int
    path: str
    """Path of the request, without query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    trace_id: str
    span_id: str
    parent_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    id: int | None = None
    """Stable within one process: two calls with the same id shared a connection."""
    reused: bool | None = None
    http: str | None = None
    """`HTTP/1.1`, `HTTP/2`; null when the transport does not say."""
    tls: bool | None = None
    peer: str | None = None
    """Address and port the socket is connected to: the first hop, not always the server."""
    unseen: bool | None = None
    """True where the transport shows nothing of its connections (aiohttp's): that no connect, TLS
    or request mark is there says nothing then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpInfo:
    """A snapshot of the kernel's view of the connection (Linux TCP_INFO, macOS
    TCP_CONNECTION_INFO), times in ns. A field the system does not give is null.

    rtt and min_rtt are the kernel's smoothed and minimum round trip *to the first hop*; the other
    side's retransmissions do not show here, out-of-order segments received do.
    """

    at: str
    """Moment the snapshot belongs to: `connect`, `started` (of the request on a connection that was
    there already), `sent`, `headers`, `first` (the first body read), `gap` (the read that ended a
    silence), `tick` (a read half a second or more after the last snapshot), `end`. `window` is no
    snapshot: its min_rtt_ns is the smallest that any call of the process saw to the same address in
    the five minutes before."""
    at_ns: Ns | None = None
    """When it was taken; null in recordings that did not keep it."""
    rtt_ns: Ns | None = None
    rttvar_ns: Ns | None = None
    min_rtt_ns: Ns | None = None
    rcv_ooopack: int | None = None
    """Segments received out of order since the connection began (macOS counts bytes: the fewest
    segments they can have been)."""
    last_data_recv_ns: Ns | None = None
    """How long before the snapshot the last segment with data had come, to the kernel's tick (1 to
    10 ms): of bytes that are read only now, how long the last of them had been waiting."""
    total_retrans: int | None = None
    """Segments sent again since the connection began, its SYN included."""
    notsent_bytes: int | None = None
    """Bytes handed to the kernel that it had not sent yet even once."""
    busy_ns: Ns | None = None
    """How long, since the connection began, the kernel had sent bytes whose arrival was not
    acknowledged, or had more to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One HTTP exchange of the call: a first try, a retry, a redirect hop."""

    marks: tuple[Mark, ...] = ()
    connection: Connection | None = None
    status: int | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Response headers, names in lower case; after masking only the allow-listed ones."""
    encoding: str | None = None
    """The response's content-encoding as received; null when none."""
    reads: tuple[Read, ...] = ()
    wire: tuple[bytes, ...] | None = field(default=None, repr=False, compare=False)
    """Payload of each read as it came off the wire, still encoded. Lives only in memory between
    capture and `wire.body.decode_attempt`, which turns it into `body`; never written."""
    body: bytes | None = field(default=None, repr=False)
    """Content-decoded payload; null when it could not be decoded or was not kept."""
    tcp_info: tuple[TcpInfo, ...] = ()
    tcp_raw: tuple[tuple[str, Ns, bytes], ...] = field(default=(), repr=False, compare=False)
    """(at, at_ns, TCP_INFO as the kernel gave it): decoded by `wire.tcp_info`; only in memory."""
    retry_count: int | None = None
    """What the SDK says of its retries (`x-stainless-retry-count`), null when it does not."""
    error_type: str | None = None
    """Class name of the exception that ended the attempt, module included, no message."""
    events: tuple[EventRow, ...] | None = None
    usage: Mapping[str, int] | None = None

    def __getstate__(self) -> list[Any]:
        # With the payload still on board the headers are raw too: a cookie may be among them.
        return _state(self, dropped=() if self.wire is None else ("headers",))

    def mark(self, name: str) -> Ns | None:
        """The first mark of that name, or null."""
        for mark in self.marks:
            if mark.name == name:
                return mark.ns
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    reason: EndReason = "complete"
    detail: str | None = None
    """Class name of the exception for `error` and `cancelled`, otherwise `gc`, `exit`, `break` or
    `close`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSide:
    """What the caller's own process was at. Stretches of the call, (begin, length), in order of
    their begin; of each kind the 256 longest at most."""

    loop_lag: tuple[tuple[Ns, Ns], ...] = ()
    """(at, how late): a beat of the caller's asyncio loop was due `at` and ran so much later, over
    5 ms: the loop was busy with something else all that time, and up to 20 ms before it. Empty
    where nothing was late, and where nobody looked (a synchronous client, trio)."""
    gc: tuple[tuple[Ns, Ns], ...] = ()
    """(at, how long) the garbage collector stopped the process, over 1 ms."""
    consumer: tuple[tuple[Ns, Ns], ...] = ()
    """(at, how long) the consumer held the stream between two reads, over 1 ms."""


class RttSample(NamedTuple):
    """One round trip of a probe that ran beside the call, to the same address. rtt_ns: null when
    no answer came before the probe gave up."""

    sent_ns: Ns
    rtt_ns: Ns | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpan:
    """A span some server made of this call, joined to it. Durations are the server's; its clock is
    not ours, so only lengths and the distance between spans of one service mean anything.

    source: whose names the attributes are (`vllm.otel`, `sglang.otel`, `trtllm.otel`, `gen_ai.otel`
    for an engine that is not known; empty for a span that only lies on the way: a hop's).
    start_unix_ns: the span's own start. attributes: numbers and short names of its timing and usage
    fields, never content. joined: what tied it to the call (`parent`, `chain`, `response_id`,
    `request_id`, `time`).
    """

    name: str
    source: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str | None = None
    kind: str
    start_unix_ns: int
    duration_ns: Ns
    attributes: Mapping[str, float | str] = field(default_factory=dict)
    joined: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    rate: float = 1.0
    why: str = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The monotonic clock reading at the call's zero. Stamps another process on the *same host*
    took of the same clock can be laid beside the recording; across hosts it means nothing."""

    name: str
    zero_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTruth:
    name: str
    ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The true partition of the call, from a source the estimator does not see (law 8)."""

    segments: tuple[SegmentTruth, ...]
    ttft: tuple[SegmentTruth, ...] | None = None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    call_id: str
    started_at: str
    """RFC 3339 wall-clock time of the call's zero."""
    start: Literal["sdk", "transport"] = "transport"
    """What zero is: entry of the SDK call, or of the transport where no SDK call was hooked."""
    target: Target
    end: End = End()
    marks: tuple[Mark, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    sdk: str | None = None
    """`openai/3.57.0`, `anthropic/2.14.0`, `httpx2/2.16.2`."""
    tags: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    turn: str | None = None
    session: str | None = None
    previous_response_id: str | None = None
    sent: bytes | None = field(default=None, repr=False, compare=False)
    """The request body as sent. Lives only in memory between capture and the worker, which parses
    it into `request`; never written."""
    request_bytes: int | None = None
    """Size of the request body; null when it was streamed or not seen."""
    request: Mapping[str, Any] | None = field(default=None, repr=False)
    """The request as parsed; after masking its skeleton."""
    prefix: tuple[Mapping[str, Any], ...] | None = None
    in_flight: int | None = None
    """Calls of this client open at this one's zero, itself not counted."""
    client: ClientSide = ClientSide()
    rtt_probe: tuple[RttSample, ...] = ()
    """Round trips measured beside the stream, where a probe ran (`probe`, `calibrate`)."""
    spans: tuple[ServerSpan, ...] = ()
    """Server spans joined to the call (`latscope join`)."""
    sample: Sample = Sample()
    broken: tuple[str, ...] = ()
    """What capture could not do, in words; empty when all went well."""
    truth: Truth | None = None
    clock: Clock | None = None
    masked: bool = False
    schema: str = SCHEMA
    context: object = field(default=None, repr=False, compare=False)
    """What the `context` callable handed to capture gave at the call's entry: its owner reads it
    at the call's end. Lives only in memory; never written."""

    def __getstate__(self) -> list[Any]:
        return _state(self)

    def mark(self, name: str) -> Ns | None:
        for mark in self.marks:
            if mark.name == name:
                return mark.ns
        return None

    @property
    def last_ns(self) -> Ns:
        """The latest stamp of the recording: its wall time at least."""
        stamps = [mark.ns for mark in self.marks]
        for attempt in self.attempts:
            stamps += [mark.ns for mark in attempt.marks]
            stamps += [read.got_ns for read in attempt.reads[-1:]]
        return max(stamps, default=0)


MEMORY_ONLY: frozenset[str] = frozenset({"wire", "sent", "context", "tcp_raw"})
"""Fields of a recording or attempt that no file, pickle or copy ever holds."""


def to_mapping(recording: Recording) -> dict[str, Any]:
    """The recording as JSON-ready values, `schema` first; nulls and empties left out.

    `body` is a string when it is UTF-8 and `body_b64` otherwise: body_offset counts bytes.
    """
    plain: dict[str, Any] = {"schema": recording.schema, **_plain(recording)}
    plain["attempts"] = [_plain_attempt(attempt) for attempt in recording.attempts]
    return plain


def to_line(recording: Recording) -> str:
    """One line of `latscope.recording/1`, without its line end."""
    return "".join(line_pieces(recording))


def line_pieces(recording: Recording) -> Iterator[str]:
    """The line in pieces small enough to write one, look at the clock, and write the next.

    They add up to the JSON of `to_mapping`, its attempts last.
    """
    head = to_mapping(replace(recording, attempts=()))
    del head["attempts"]
    yield _json(head)[:-1] + ',"attempts":['
    for number, attempt in enumerate(recording.attempts):
        yield "," if number else ""
        yield from _attempt_pieces(attempt)
    yield "]}"


_READS_A_PIECE = 64
_BODY_A_PIECE = 1 << 16


def _attempt_pieces(attempt: Attempt) -> Iterator[str]:
    head = _json(_plain_attempt(replace(attempt, reads=(), body=None)))[:-1]
    yield head
    comma = "," if len(head) > 1 else ""
    if attempt.reads:
        yield comma + '"reads":['
        for at in range(0, len(attempt.reads), _READS_A_PIECE):
            rows = _json(attempt.reads[at : at + _READS_A_PIECE])[1:-1]
            yield "," + rows if at else rows
        yield "]"
        comma = ","
    for key, text in body_text(attempt.body).items() if attempt.body is not None else ():
        yield f'{comma}"{key}":"'
        for at in range(0, len(text), _BODY_A_PIECE):
            yield _json(text[at : at + _BODY_A_PIECE])[1:-1]
        yield '"'
    yield "}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _state(value: Any, dropped: Sequence[str] = ()) -> list[Any]:
    """What a pickle or a copy holds: one value a field, defaults for what must not travel."""
    gone = MEMORY_ONLY.union(dropped)
    return [f.default if f.name in gone else getattr(value, f.name) for f in fields(value)]


def body_text(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_b64": base64.b64encode(body).decode("ascii")}


def _plain_attempt(attempt: Attempt) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(attempt)
    if plain.pop("body", None) is not None and attempt.body is not None:
        plain.update(body_text(attempt.body))
    return plain


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {
            name: _plain(item)
            for name, item in pairs
            if name not in MEMORY_ONLY and not _absent(item)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _absent(value: Any) -> bool:
    return value is None or value == () or value == {}
