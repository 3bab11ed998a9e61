"""The floor of a probed endpoint: slope, bend and base of the time to the first token, and what the
prefix cache saves of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from latscope.attribution.arms import PREFILL, Arms, Figure, Sample
from latscope.attribution.paired import Estimate, estimate, p_value, shorth
from latscope.attribution.profile import Anchor, Floor, Terms

SURE = 0.05
"""A term beyond the straight line is believed below this chance of its being luck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Time a prompt token: `ends` over the whole reach (a straight line); linear and quadratic as
    the three lengths together give them. each: the straight line's slope, block by block."""

    ends: Estimate
    linear_ns: float
    quadratic_ns: float
    quadratic: Estimate | None
    each: tuple[float, ...]


def slope_of(arms: Arms, figure: Figure, seed: int = 0) -> Slope | None:
    """From blocks of a short and a long prompt, bent where the middle one shows a bend."""
    each = tuple(_slopes(arms.together("long", "short"), figure))
    ends = estimate(each, seed=seed)
    if ends is None:
        return None
    bends = [bend for trio in arms.together(*PREFILL) if (bend := _bend(trio, figure))]
    quadratic = estimate([bend[1] for bend in bends], seed=seed)
    straight = Slope(
        ends=ends,
        linear_ns=max(0.0, ends.value),
        quadratic_ns=0.0,
        quadratic=quadratic,
        each=each,
    )
    if quadratic is None or not quadratic.positive or p_value([b[1] for b in bends]) > SURE:
        return straight
    linear = median(bend[0] for bend in bends)
    bent = quadratic.value
    if linear < 0:  # all bend: the line through zero and the ends
        linear, bent = 0.0, ends.value / _sum_of_ends(arms)
    return Slope(ends=ends, linear_ns=linear, quadratic_ns=bent, quadratic=quadratic, each=each)


def _slopes(pairs: Iterable[Sequence[Sample]], figure: Figure) -> Iterable[float]:
    for one, other in pairs:
        a, b, more = figure(one), figure(other), one.uncached - other.uncached
        if a is not None and b is not None and more > 0:
            yield (a - b) / more


def _bend(trio: Sequence[Sample], figure: Figure) -> tuple[float, float] | None:
    """Linear and quadratic term of the parabola through three points (divided differences)."""
    points = [(one.uncached, value) for one in trio if (value := figure(one)) is not None]
    if len(points) < 3 or not points[0][0] < points[1][0] < points[2][0]:
        return None
    (u1, t1), (u2, t2), (u3, t3) = points
    near, far = (t2 - t1) / (u2 - u1), (t3 - t2) / (u3 - u2)
    quadratic = (far - near) / (u3 - u1)
    return near - quadratic * (u1 + u2), quadratic


def _sum_of_ends(arms: Arms) -> float:
    return median(one.uncached for one in arms.of("short")) + median(
        one.uncached for one in arms.of("long")
    )


def floor_of(arms: Arms, figure: Figure, slope: Slope | None, anchor: Anchor) -> Floor | None:
    """The slope's line moved to where most calls lie; null without a slope."""
    calls = [one for one in arms.of(*PREFILL, "again") if figure(one) is not None]
    if slope is None or len(calls) < 2:
        return None
    terms = Terms(base_ns=0.0, linear_ns=slope.linear_ns, quadratic_ns=slope.quadratic_ns)
    transit = 0 if anchor == "headers" else arms.rtt_ns or 0
    base, noise = shorth(above(calls, figure, terms))
    lengths = [one.uncached for one in calls]
    return Floor(
        terms=Terms(
            base_ns=max(0.0, base - transit),
            linear_ns=terms.linear_ns,
            quadratic_ns=terms.quadratic_ns,
        ),
        anchor=anchor,
        n=slope.ends.n,
        noise_ns=round(noise),
        tokens=(min(lengths), max(lengths)),
    )


def above(calls: Iterable[Sample], figure: Figure, terms: Terms) -> list[float]:
    """How much longer each call took than the terms say, transit still in."""
    return [value - terms.at(one.uncached) for one in calls if (value := figure(one)) is not None]


def with_cache(floor: Floor | None, arms: Arms, figure: Figure) -> Floor | None:
    """The floor with what a cached token still costs, where cached calls were seen."""
    costs = []
    for fresh, again in arms.together("fresh", "repeated") if floor is not None else ():
        a, b = figure(fresh), figure(again)
        if floor is None or a is None or b is None or again.cached <= fresh.cached:
            continue
        spared = floor.terms.at(fresh.uncached) - floor.terms.at(again.uncached)
        costs.append((spared - (a - b)) / (again.cached - fresh.cached))
    found = estimate(costs)
    if floor is None or found is None or not found.positive:
        return floor
    return replace(floor, terms=replace(floor.terms, cached_ns=found.value))


def cache_effect(arms: Arms, figure: Figure, seed: int = 0) -> Estimate | None:
    """Time a cached prompt token saves: the same prompt twice. Of a server that states its cached
    tokens only the pairs it served from the cache; of one that does not, per prompt token, and only
    when the second call was surely faster."""
    pairs = arms.together("fresh", "repeated")
    told = [pair for pair in pairs if pair[1].cached > pair[0].cached]
    if told:
        return estimate(list(_savings(told, figure)), seed=seed)
    if any(again.cached_stated for _, again in pairs):
        return None
    found = estimate(list(_savings(pairs, figure)), seed=seed)
    return found if found is not None and found.positive else None


def _savings(pairs: Iterable[Sequence[Sample]], figure: Figure) -> Iterable[float]:
    for fresh, again in pairs:
        a, b = figure(fresh), figure(again)
        tokens = (again.cached - fresh.cached) or fresh.uncached
        if a is not None and b is not None and tokens > 0:
            yield (a - b) / tokens
