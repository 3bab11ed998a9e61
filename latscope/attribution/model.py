"""The attribution: a call's wall time cut into pieces, and the six segments that follow from them.

A piece is a stretch with one owner, or with a set of candidate owners. Conservation and bounds are
consequences, not checks bolted on: the pieces are a partition of the wall time, a segment's hard
minimum is the sum of the pieces only it can own, its maximum adds every piece that lists it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from latscope.attribution.quanta import Quantum
from latscope.recording import Sample, Truth
from latscope.units import Ns

SCHEMA = "latscope.attribution/1"

Segment: TypeAlias = Literal["queue", "prefill", "decode", "network", "client", "unattributed"]

OWNERS: tuple[Segment, ...] = ("queue", "prefill", "decode", "network", "client")
"""The segments a piece can belong to, in the order a call passes them."""

SEGMENTS: tuple[Segment, ...] = (*OWNERS, "unattributed")

Provenance: TypeAlias = Literal["measured", "reported", "probed", "inferred", "bound"]

PROVENANCES: tuple[Provenance, ...] = ("measured", "reported", "probed", "inferred", "bound")
"""Strongest first; a segment carries its weakest piece's."""

Mode: TypeAlias = Literal["vendor", "self-hosted", "on-device"]

Status: TypeAlias = Literal["complete", "cut", "error", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of the call. One candidate: it belongs to that segment, as `part` of it. Several:
    it is unsplit, and `would_split` says which evidence would split it. at_ns: where on the
    call's axis it starts, null when its place is not known (only its length is)."""

    ns: Ns
    candidates: tuple[Segment, ...]
    provenance: Provenance
    evidence: tuple[str, ...] = ()
    part: str = ""
    at_ns: Ns | None = None
    would_split: tuple[str, ...] = ()
    given: Segment | None = None
    """Of several candidates the one that calibrated evidence (a profile, a stall's cause) gives it
    to: it counts there in the estimate, while the hard bounds keep every candidate."""
    low_ns: Ns = 0
    """How much of a given piece is its owner's at the low end of the 90 % interval."""
    among: tuple[Segment, ...] = ()
    """Whose the rest of a given piece may be within that interval; all candidates when empty."""

    @property
    def owner(self) -> Segment:
        """The segment it counts for; `unattributed` while nothing tells its candidates apart."""
        if self.given is not None:
            return self.given
        return self.candidates[0] if len(self.candidates) == 1 else "unattributed"

    @property
    def sure(self) -> bool:
        """Whether no other segment can own it."""
        return len(self.candidates) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartShare:
    """A named share of a segment: `engine` of queue is spoken `queue.engine`."""

    name: str
    ns: Ns
    bounds_ns: tuple[Ns, Ns]
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentShare:
    """One segment of one call. ns: the estimate; bounds_ns: hard; low_ns, high_ns: the 90 %
    interval where one is calibrated, else equal to the bounds. ttft_ns, ttft_low_ns, ttft_high_ns:
    the same segment's share of the time to first token, null when there was no first token."""

    name: Segment
    ns: Ns
    ttft_ns: Ns | None
    low_ns: Ns
    high_ns: Ns
    bounds_ns: tuple[Ns, Ns]
    provenance: Provenance
    evidence: tuple[str, ...]
    parts: tuple[PartShare, ...]
    owner: str
    lever: str
    ttft_low_ns: Ns | None = None
    ttft_high_ns: Ns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsplit:
    candidates: tuple[Segment, ...]
    ns: Ns
    at_ns: Ns | None
    would_split: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadExcess:
    ns: Ns
    low_ns: Ns
    high_ns: Ns
    floor_ns: Ns
    n: int
    provenance: Provenance


@dataclass(frozen=True, slots=True, kw_only=True)
class Itl:
    """Gaps between token-bearing arrivals after the first. unit `token` when every arrival carried
    one token, else `chunk`: chunks are not tokens."""

    p50_ns: Ns
    p95_ns: Ns
    max_ns: Ns
    n: int
    unit: Literal["token", "chunk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    at_ns: Ns
    ns: Ns
    cause: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFigure:
    source: str
    field: str
    covers: str
    ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorInfo:
    """type: the server's or the library's own error name. phase: what the call was waiting for
    when it failed: pool_wait, connect, tls, upload, headers, first_token, stream."""

    type: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTier:
    requested: str | None
    served: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptShare:
    status: int | None
    ns: Ns
    backoff_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    reused: bool | None
    http: str | None
    peer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """What the request asked for, without what it said. Sizes are bytes of the prompt as it was
    written (of a masked recording too: its skeleton keeps every length).

    system_bytes: system or developer text; tools_bytes: the list of tools; history_bytes: messages
    before the last turn; last_bytes: those since the last answer of the model (the user's, or tool
    results). messages, tools: how many. tool_results: how many of the last turn's messages give a
    tool's result back. usage_asked: whether usage on the stream was asked for; null where the API
    always sends it, or nothing streams. cache_breakpoints: explicit cache marks; cache_ttl_ns: the
    longest lifetime they ask for. schema: a short word that is the same for calls with the same
    output grammar; null without one. hashes: keyed hashes of the prompt's blocks of 256 bytes (16
    hex digits each, one after another), each over all before it; parts: (part of the request, a
    message's with its role: `messages[3] tool`; how many blocks begin in it), in order; empty where
    no hashes were recorded.
    """

    system_bytes: int
    tools_bytes: int
    history_bytes: int
    last_bytes: int
    messages: int
    tools: int
    tool_results: int
    usage_asked: bool | None
    cache_breakpoints: int
    cache_ttl_ns: Ns | None
    schema: str | None
    hashes: str = ""
    parts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """What the answer's headers say is allowed and left; null where they do not."""

    limit_requests: int | None
    remaining_requests: int | None
    limit_tokens: int | None
    remaining_tokens: int | None
    retry_after_ns: Ns | None
    """The longest wait the server asked for in any attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """How well the instrument itself knows its stamps: the clock, and the widest interval any
    stamp the figures rest on may be off by."""

    clock: str
    bound_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """One call, attributed: `latscope.attribution/1`."""

    call_id: str
    started_at: str
    provider: str | None
    api: str | None
    model: str | None
    endpoint: str
    mode: Mode
    streamed: bool
    status: Status
    http_status: int | None
    error: ErrorInfo | None
    request_id: str | None
    trace_id: str | None
    session_id: str | None
    tags: Mapping[str, str] = field(default_factory=dict)
    finish_reason: str | None
    service_tier: ServiceTier
    attempts: tuple[AttemptShare, ...]
    connection: ConnectionInfo
    in_flight: int | None
    wall_ns: Ns
    sent_ns: Ns | None
    headers_ns: Ns | None
    first_byte_ns: Ns | None
    first_token_ns: Ns | None
    first_visible_token_ns: Ns | None
    itl: Itl | None
    tpot_ns: Ns | None
    tokens_per_chunk: float | None
    input_tokens: int | None
    cached_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    max_output_tokens: int | None
    segments: tuple[SegmentShare, ...]
    unsplit: tuple[Unsplit, ...]
    load_excess: LoadExcess | None
    dominant: Segment | None
    """The largest segment, or null when an unsplit piece could change which one that is."""
    dominant_candidates: tuple[Segment, ...]
    stalls: tuple[Stall, ...]
    reported: tuple[ReportedFigure, ...]
    instrument: Instrument
    flags: tuple[str, ...]
    truth: Truth | None
    sample: Sample
    turn: str | None
    dominant_ttft: Segment | None = None
    """`dominant` for the time to first token alone; null without one."""
    profile: str | None = None
    """Whose floors split what one call cannot: `inferred from 240 calls`, `probed 2026-11-29`."""
    response_id: str | None = None
    previous_response_id: str | None = None
    server: str | None = None
    """Product token of the Server header, lower case."""
    hops: tuple[str, ...] = ()
    """Proxies the answer's headers admit to."""
    request: RequestShape | None = None
    rate_limit: RateLimit | None = None
    quantum: Quantum | None = None
    """What the tokens came in, where they came in bursts of one length, size or number."""
    schema: str = SCHEMA
    pieces: tuple[Piece, ...] = ()
    """The partition of the wall time itself, in call order; `segments` follow from it."""
    ttft_pieces: tuple[Piece, ...] | None = None
    """The partition of the time to first token, null when there was none."""

    def segment(self, name: Segment) -> SegmentShare:
        return next(share for share in self.segments if share.name == name)
