"""The conditions under which a floor may be believed. One that fails refuses it, with its reason.

The least that was seen is the least there is only if the endpoint was idle at times, for short
prompts and long ones, and the same machine at all of them. A saturated endpoint has a least, too,
and it means nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from latscope.attribution.changes import modes, quantile
from latscope.attribution.profile import Guard, Terms
from latscope.units import MS, Ns

MIN_CALLS = 12
IDLE = 8
"""Calls near the floor that show it, at least."""
CROWD = 2.5
"""... and so many times as many as lie below it. A low quantile drawn through the thin end of a
tail has hardly more calls around it than below; where an endpoint was idle there is a crowd."""
NEAR = 1.5
"""Near: within so many units of noise, or within what idle calls may scatter."""
LEVERAGE = 4.0
"""Longest over shortest prompt, in uncached tokens, that show a slope."""
SLOPE = 0.35
"""By what share the halves' slopes may differ."""
TREND = 0.4
"""Rank correlation of the excess with time beyond which it is going somewhere."""
EVEN = -0.2
"""Skewness of delays that are even but for chance: those of calls that joined steps planned ahead.
"""
STANDING = 4.0
"""Limits of scatter by which every late call may exceed the floor before a queue stands there."""
NEAR_STEP, CROWDED = 0.05, 0.15
"""A crowd of idle calls: such a share of all within so many steps of the floor."""
MAD_TO_SIGMA = 1.4826
SHARPEST: Ns = 50_000
"""Nothing repeats better than a stamp is sharp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted floor and the calls it came from, in order of time. times: to the first token, from
    the floor's anchor, ns. step_ns: an unloaded decode step, 0 when unknown. halves: the floors of
    the earlier and the later half alone."""

    terms: Terms
    tau: float
    uncached: Sequence[int]
    cached: Sequence[int]
    times: Sequence[float]
    step_ns: float
    halves: tuple[Terms, Terms] | None = None

    @property
    def floors(self) -> list[int]:
        return [self.terms.at(u, c) for u, c in zip(self.uncached, self.cached, strict=True)]

    @property
    def residuals(self) -> list[float]:
        return [time - floor for time, floor in zip(self.times, self.floors, strict=True)]


def noise_of(residuals: Sequence[float], tau: float) -> Ns:
    """How far unloaded calls scatter: the spread of those nearest the low edge, or of all calls
    where none was much delayed."""
    ordered = sorted(residuals)
    low = ordered[: max(IDLE, round(2 * tau * len(ordered)))]
    edge = MAD_TO_SIGMA * median(abs(r) for r in low)
    middle = median(ordered)
    whole = MAD_TO_SIGMA * median(abs(r - middle) for r in ordered)
    return max(SHARPEST, round(whole if whole <= 4 * edge else edge))


def guards_of(fit: Fit, noise: Ns, join: Ns = 0) -> tuple[Guard, ...]:
    """Every condition, in the order in which they are looked at. join: what of an excess joining a
    busy engine takes (see `ahead`)."""
    residuals = fit.residuals
    return (
        _count(fit),
        _leverage(fit),
        _idle(fit, residuals, noise),
        _trend(fit, residuals, noise),
        _slope(fit, noise),
        _skewness(residuals, noise, join),
        _modes(fit, residuals, noise),
    )


def scatter_limit(fit: Fit) -> float:
    """How far idle calls may scatter and still be idle: a quarter of a step of the engine, or
    a tenth of what the middle prompt itself costs."""
    prompt = fit.terms.at(round(median(fit.uncached))) - fit.terms.base_ns
    return max(0.25 * fit.step_ns, 0.1 * prompt, 2.0 * MS)


def _count(fit: Fit) -> Guard:
    n = len(fit.times)
    said = f"{n} calls" if n >= MIN_CALLS else f"{n} calls, at least {MIN_CALLS} are needed"
    return Guard(name="count", passed=n >= MIN_CALLS, detail=said)


def _leverage(fit: Fit) -> Guard:
    low, high = max(1, min(fit.uncached)), max(fit.uncached)
    passed = high >= LEVERAGE * low
    said = f"prompts of {low} to {high} uncached tokens"
    return Guard(
        name="leverage",
        passed=passed,
        detail=said if passed else f"{said}: the longest must be {LEVERAGE:g} times the shortest",
    )


def _idle(fit: Fit, residuals: Sequence[float], noise: Ns) -> Guard:
    limit = scatter_limit(fit)
    if noise > limit:
        said = f"the quickest calls scatter by {noise / MS:.1f} ms, more than {limit / MS:.1f} ms"
        return Guard(
            name="idle_evidence", passed=False, detail=f"{said}: none of them was surely idle"
        )
    within = max(NEAR * noise, limit)  # so far apart idle calls may lie
    near = [u for u, r in zip(fit.uncached, residuals, strict=True) if abs(r) <= within]
    middle = median(fit.uncached)
    short, long = (sum(1 for u in near if side(u)) for side in (middle.__ge__, middle.__le__))
    least = max(IDLE, round(CROWD * fit.tau * len(residuals)))
    passed = len(near) >= least and min(short, long) >= IDLE // 4
    said = f"{len(near)} calls within {within / MS:.1f} ms of the floor"
    more = "" if passed else f", {short} short and {long} long ones; {least} of both kinds show it"
    return Guard(name="idle_evidence", passed=passed, detail=said + more)


def _trend(fit: Fit, residuals: Sequence[float], noise: Ns) -> Guard:
    """A queue that only grows: later calls wait longer, and the last third never comes back."""
    rho = rank_correlation(residuals)
    last = quantile(residuals[-max(1, len(residuals) // 3) :], 0.05)
    grows, stands = abs(rho) >= TREND, last > STANDING * scatter_limit(fit)
    passed = last <= NEAR * noise or not (grows or stands)
    said = f"rank correlation of the excess with time {rho:+.2f}"
    if stands:
        said += f", every late call {last / MS:.0f} ms over the floor at least"
    return Guard(
        name="trend",
        passed=passed,
        detail=said if passed else f"{said}: a queue that stands or grows shows no floor",
    )


def _slope(fit: Fit, noise: Ns) -> Guard:
    if fit.halves is None:
        return Guard(name="slope", passed=True, detail="too few calls to compare halves")
    low, high = (round(quantile(fit.uncached, share)) for share in (0.1, 0.9))
    first, second, whole = (terms.at(high) - terms.at(low) for terms in (*fit.halves, fit.terms))
    apart = abs(first - second)
    passed = apart <= max(SLOPE * max(whole, 1), 3 * noise, scatter_limit(fit))
    said = f"{first / MS:.1f} and {second / MS:.1f} ms from {low} to {high} tokens in the halves"
    return Guard(name="slope", passed=passed, detail=said)


def crowded(fit: Fit, noise: Ns) -> bool:
    """Whether a crowd of idle calls lies at the floor, as sharp as they scatter."""
    near = max(noise, NEAR_STEP * fit.step_ns)
    return sum(1 for r in fit.residuals if abs(r) <= near) >= CROWDED * len(fit.times)


def _skewness(residuals: Sequence[float], noise: Ns, join: Ns) -> Guard:
    above = [r - min(max(r, 0.0), join) for r in residuals]
    low, middle, high = (quantile(above, share) for share in (0.05, 0.5, 0.95))
    skew = (high + low - 2 * middle) / (high - low) if high > low else 0.0
    calm = high - low <= 6 * noise
    said = "hardly any call was delayed" if calm else f"skewness of the excess {skew:+.2f}"
    passed = calm or skew > (EVEN if join else 0.0)
    return Guard(
        name="skewness",
        passed=passed,
        detail=said if passed else f"{said}: delays pile up on the high side, so this is no floor",
    )


def _modes(fit: Fit, residuals: Sequence[float], noise: Ns) -> Guard:
    pairs = zip(residuals, fit.floors, strict=True)
    found = modes([r / max(floor, noise) for r, floor in pairs])
    if found is None:
        return Guard(name="modes", passed=True, detail="one kind of machine")
    low, high = (1 + value for value in found)
    return Guard(
        name="modes",
        passed=False,
        detail=f"two kinds of machine answer, around {low:.2f} and {high:.2f} times the floor",
    )


def rank_correlation(values: Sequence[float]) -> float:
    """Spearman's correlation of values with their order."""
    n = len(values)
    if n < 3:
        return 0.0
    order = sorted(range(n), key=values.__getitem__)
    apart = sum((rank - index) ** 2 for rank, index in enumerate(order))
    return 1 - 6 * apart / (n * (n * n - 1))
