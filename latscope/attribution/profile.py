"""The profile: what is known of one (endpoint, model), learnt from its calls or probed.

A profile holds what a single call cannot show: what this endpoint takes at least for so many tokens
(the floor), what its response head means (the header policy), how far away it is. `learn` and
`calibrate` make the same object; only its provenance differs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from latscope.units import Ns

SCHEMA = "latscope.profile/1"

HeaderPolicy = Literal["early", "slot", "token", "unknown"]
"""When the server lets its response head go: before the request waits for the engine; when it is
scheduled; with the first token; not known."""

Anchor = Literal["sent", "headers"]
"""From where the time to the first token counts in a floor: the request's last byte, or the
response head where it leaves before the engine's queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One condition under which a floor may be believed, and what was found. name: `idle_evidence`,
    `leverage`, `slope`, `trend`, `skewness`, `count`, and of a probed one `null` (the same arm sent
    twice shows no difference) and `holds` (nothing keeps a stream back); detail: one line for
    people."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Unloaded time to first token: base + linear u + quadratic u^2 + cached c, for u uncached and
    c cached prompt tokens, and `chunk_ns` for every step after the first that a prompt of more than
    `chunk_tokens` is cut into (0: it is not, or nothing shows it). All in ns, none negative."""

    base_ns: float
    linear_ns: float
    quadratic_ns: float = 0.0
    cached_ns: float = 0.0
    chunk_ns: float = 0.0
    chunk_tokens: int = 0

    def steps(self, uncached: int) -> int:
        """How many engine steps a prompt of so many uncached tokens takes, at least."""
        if not self.chunk_tokens:
            return 1
        return max(1, -(-uncached // self.chunk_tokens))

    def at(self, uncached: int, cached: int = 0) -> Ns:
        """The floor for a prompt of so many tokens."""
        return round(
            self.base_ns
            + self.linear_ns * uncached
            + self.quadratic_ns * uncached * uncached
            + self.cached_ns * cached
            + self.chunk_ns * (self.steps(uncached) - 1)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """terms, counted from `anchor`; n: calls (or probe pairs) it rests on; noise_ns: how far
    unloaded calls scatter around it (a median absolute deviation); tokens: smallest and largest
    uncached prompt seen; join_ns: how long a call that joins a busy engine is scheduled and not yet
    computed (see `ahead`), 0 where nothing shows it; growth: by what share of it what the prompt
    itself takes (the floor less its base) is more in a calm call than in the quickest."""

    terms: Terms
    anchor: Anchor
    n: int
    noise_ns: Ns
    tokens: tuple[int, int]
    join_ns: Ns = 0
    growth: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFloor:
    """Unloaded time of one decode step: base + per_context x tokens of context. ns a token."""

    base_ns: float
    per_context_ns: float
    n: int
    noise_ns: Ns

    def at(self, context: int) -> Ns:
        """One step's time with so many tokens of context."""
        return round(self.base_ns + self.per_context_ns * context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """Quantiles (5 %, 95 %) of what the truth was above the estimate, as a share of the scale the
    estimate states; n: calls they come from."""

    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """What must still hold for the profile to be believed: the median gap from response head to
    first token per uncached token at the time, and how far it may move."""

    head_gap_ns: Ns | None
    ttft_ns: Ns
    tolerance: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What is known of one endpoint and model.

    provenance: `inferred` from calls, `probed` by calibration. made_at, expires_at: RFC 3339.
    floor, step: null where they could not be identified; `refused` says why, `guards` what was
    checked. cache_effect: ns saved by a cached prompt token, as probed, null when not. skipped:
    what a probe could not do here, with the reason. residuals: the endpoint's own, by group, once
    enough of its calls stated their truth; else the shipped ones apply.
    """

    endpoint: str
    model: str
    api: str | None
    provenance: Literal["inferred", "probed"]
    made_at: str
    expires_at: str
    n: int
    floor: Floor | None
    step: StepFloor | None
    headers: HeaderPolicy
    rtt_ns: Ns | None
    tokens_per_chunk: float | None
    jitter_ns: Ns = 0
    """How late reads are on average for the way's sake, where the streams' gaps show it."""
    guards: tuple[Guard, ...] = ()
    refused: str | None = None
    cache_effect_ns: float | None = None
    skipped: tuple[str, ...] = ()
    self_test: SelfTest | None = None
    residuals: Mapping[str, Residual] = field(default_factory=dict)
    spent: Mapping[str, int] = field(default_factory=dict)
    """What making it cost: requests, input_tokens, output_tokens."""
    head_ns: Ns | None = None
    """Unloaded time from the request's last byte to the response head, transit taken off: what a
    floor counted from the head leaves out."""
    connect_ns: Ns | None = None
    """What a new connection costs over a reused one."""
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """90 % intervals of what was estimated: base_ns, linear_ns, quadratic_ns, step_ns,
    per_context_ns, cache_effect_ns, connect_ns."""
    excess_ns: tuple[Ns, Ns] | None = None
    """Median and 95th percentile of the time to the first token above the floor, load included, in
    the calls it was learnt from; null where only the unloaded floor is known."""
    schema: str = SCHEMA
