"""The timeline: one call as understood. Frozen; the noun everything above speaks.

A recording says when bytes came; the timeline says what they were: attempts, phases, three first
times, token arrivals, usage, the server's own figures, and how the call ended. It splits nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from latscope.protocols.events import Milestone, Reported, Usage
from latscope.recording import RttSample, TcpInfo
from latscope.units import Ns, Span

Outcome: TypeAlias = Literal[
    "answered",  # the attempt the caller got its answer (or its error) from
    "rate_limited",  # 429, 503, 529: try again later
    "failed",  # another 5xx, 408, 409, or a status the caller retried
    "unreachable",  # connect, TLS, reset: no answer at all
    "timed_out",  # the client gave up waiting to read
    "redirect",  # 3xx, or a 401 or 407 answered by another hop of the same send
]

PhaseName: TypeAlias = Literal["pool_wait", "connect", "tls", "upload", "wait"]

Verdict: TypeAlias = Literal["complete", "cut", "error", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of an attempt before its answer: pool_wait (entry to the first transport event),
    connect (DNS and TCP), tls, upload (to the last request byte written), wait (the rest)."""

    name: PhaseName
    start_ns: Ns
    end_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One attempt as understood; consecutive ones do not overlap.

    ready_ns: the server cannot have had the whole request before this (its last byte had not been
    handed to the kernel); sent_ns: and had been by this; both null if the attempt never got there.
    retry_after_ns: how long the server asked the client to wait. unseen: the transport shows none
    of its phases (aiohttp's): waiting for a connection, connecting, TLS and upload may lie anywhere
    before the response's head, unmeasured.
    """

    start_ns: Ns
    end_ns: Ns
    outcome: Outcome
    status: int | None
    error_type: str | None
    phases: tuple[Phase, ...]
    ready_ns: Ns | None
    sent_ns: Ns | None
    headers_ns: Ns | None
    retry_after_ns: Ns | None
    unseen: bool = False


class Arrival(NamedTuple):
    """One token-bearing event: when (the read that brought its last byte), on which channel, of
    which choice, for how many tokens (null: the server does not say). read: index of that read.
    offset: where in the body it ended, in bytes. A bare tuple: one is made for every token."""

    at: Span
    channel: str
    choice: int
    tokens: int | None
    read: int
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A stretch in which the client, not the stream, was being waited for: between one read and the
    asking for the next, which then returned at once; or while the caller's event loop was busy, up
    to the read it then let return."""

    start_ns: Ns
    end_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """type: the server's or library's own name for it; phase: what the call was waiting for."""

    type: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """What is known of the way to the server: `peer` and the hops the response headers admit to.

    direct: the peer is a loopback or private address and the Server header names a model server's
    own HTTP front end, with no trace of a proxy. rtt_ns: smallest kernel round trip seen, to the
    first hop; sure_ns: what of it these bytes needed at least (less the kernel's own deviation).
    server: product token of the Server header, lower case.
    """

    peer: str | None
    direct: bool
    hops: tuple[str, ...]
    server: str | None
    rtt_ns: Ns | None
    sure_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was measured beside the stream: it tells why bytes came late. Empty where the platform
    or the way in does not give it.

    tcp: the kernel's snapshots of the answered attempt, in order. rtt: a probe's round trips to the
    same address. loop_lag: (at, how late) of the caller's event loop; gc: (at, how long) of its
    collector; consumer: (at, how long) the consumer held the stream.
    """

    tcp: tuple[TcpInfo, ...] = ()
    rtt: tuple[RttSample, ...] = ()
    loop_lag: tuple[tuple[Ns, Ns], ...] = ()
    gc: tuple[tuple[Ns, Ns], ...] = ()
    consumer: tuple[tuple[Ns, Ns], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """An event that tells what the server was at when it sent it, and when it reached us. firm:
    known from the server's own source or protocol; else it is a vendor's word, which makes an
    estimate and no bound."""

    at: Span
    milestone: Milestone
    firm: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One call, understood. All times are offsets from zero; null means unknown or did not happen.

    wall_ns: zero to end. first_byte_ns: first byte of the answer's body. first_token_ns: first
    token of any channel, *this is TTFT*. first_visible_token_ns: first non-empty content.
    last_token_ns: the last token-bearing arrival. finish: finish reason by choice.
    last_event_ns: the last frame of any kind. shown_tokens: how many tokens the arrivals stand for,
    one each where the server does not say.
    """

    dialect: str | None
    api: str | None
    streamed: bool
    verdict: Verdict
    failure: Failure | None
    wall_ns: Ns
    exchanges: tuple[Exchange, ...]
    first_byte_ns: Ns | None
    first_token: Span | None
    first_visible_token_ns: Ns | None
    last_token_ns: Ns | None
    last_byte_ns: Ns | None
    arrivals: tuple[Arrival, ...]
    shown_tokens: int
    reads: int
    holds: tuple[Hold, ...]
    usage: Usage
    reported: tuple[Reported, ...]
    finish: Mapping[int, str]
    model: str | None
    response_id: str | None
    fingerprint: str | None
    service_tier: str | None
    path: Path
    stamp_bound_ns: Ns
    flags: tuple[str, ...]
    evidence: Evidence = Evidence()
    markers: tuple[Marker, ...] = ()

    @property
    def answer(self) -> Exchange:
        """The last exchange: the one the caller's answer or error came from."""
        return self.exchanges[-1]

    @property
    def first_token_ns(self) -> Ns | None:
        return self.first_token.latest if self.first_token else None

    @property
    def hidden_reasoning(self) -> bool:
        """Reasoning tokens were produced and none of them was shown."""
        if not self.usage.reasoning_tokens:
            return False
        return all(arrival.channel != "reasoning" for arrival in self.arrivals)
