"""What one call teaches of its endpoint: one row of figures a call, nothing of its content."""

from dataclasses import dataclass

from latscope.units import Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One call as a floor sees it. All durations are the client's, transit already taken off.

    key: (endpoint, model, api). at_s: wall clock, seconds. uncached, cached: prompt tokens. Of
    `sent_ns`, `headers_ns`: time to the first token from the request's last byte and from the
    response head; null where unknown. head_ns: request's last byte to the response head. step_ns:
    median time a token after the first; context: tokens of context midway. censored: the call was
    stopped before its first token: the times are lower bounds. queue_ns, prefill_ns: the server's
    own figures, where it states them (never used to fit, only to judge and calibrate).
    """

    key: tuple[str, str, str]
    at_s: float
    uncached: int
    cached: int
    sent_ns: Ns | None
    headers_ns: Ns | None
    head_ns: Ns | None
    step_ns: Ns | None
    context: int
    rtt_ns: Ns | None
    tokens_per_chunk: float | None
    in_flight: int | None
    censored: bool = False
    reused: bool | None = None
    peer: str | None = None
    weight: float = 1.0
    """1 / the recording's sampling rate."""
    queue_ns: Ns | None = None
    prefill_ns: Ns | None = None
