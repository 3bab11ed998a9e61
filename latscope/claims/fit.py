"""Slopes and ratios with their 90 % intervals, from points a few of which may be far off.

A slope is the median of the slopes between any two points (Theil-Sen); its interval cuts the
sorted slopes at the ranks Kendall's test gives (Sen 1968, "Estimates of the regression coefficient
based on Kendall's tau"). Points may come in groups that differ in something else (the length of the
prompt, say): then only pairs within a group count (Hirsch and Slack 1984). A ratio is the median of
the points' y / x, its interval the order statistics of the sign test. Nothing of this assumes a
shape of the noise, and nothing is drawn by chance.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt
from statistics import NormalDist, median

LEVEL = 0.90
MOST_POINTS = 600
"""More are thinned evenly: pairs grow as the square, and this many are plenty."""
METHOD = (
    "slopes: Theil-Sen, interval by Sen's ranks; ratios: median, interval by the sign test;"
    " a ratio of two slopes: from both slopes' 95 % intervals"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """group: only points of one group are compared."""

    x: float
    y: float
    group: Hashable = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Estimate":
        """The estimate in another unit; factor: not negative."""
        return Estimate(value=self.value * factor, low=self.low * factor, high=self.high * factor)

    def plus(self, shift: float) -> "Estimate":
        return Estimate(value=self.value + shift, low=self.low + shift, high=self.high + shift)

    def taken_from(self, whole: float) -> "Estimate":
        """What is left of `whole` without it."""
        return Estimate(value=whole - self.value, low=whole - self.high, high=whole - self.low)


def slope(points: Sequence[Point], level: float = LEVEL) -> Estimate | None:
    """How much y changes for one more of x; null with too few points to give an interval."""
    slopes: list[float] = []
    variance = 0.0
    for group in _groups(thinned(points)):
        slopes += [(b.y - a.y) / (b.x - a.x) for a, b in combinations(group, 2) if a.x != b.x]
        variance += _kendall_variance(group)
    if not slopes:
        return None
    slopes.sort()
    spread = NormalDist().inv_cdf(0.5 + level / 2) * sqrt(variance)
    if spread > len(slopes):
        return None
    last = len(slopes) - 1
    low = max(round((len(slopes) - spread) / 2) - 1, 0)
    high = min(round((len(slopes) + spread) / 2), last)
    return Estimate(value=median(slopes), low=slopes[low], high=slopes[high])


def ratio(points: Sequence[Point], level: float = LEVEL) -> Estimate | None:
    """y over x in the median; null with too few points. x: above zero."""
    values = sorted(point.y / point.x for point in thinned(points) if point.x > 0)
    cut = _sign_cut(len(values), level)
    if cut is None:
        return None
    return Estimate(value=median(values), low=values[cut], high=values[-1 - cut])


def quotient(over: Sequence[Point], under: Sequence[Point]) -> Estimate | None:
    """One slope over another, both above zero. Each slope's interval is taken at 95 %, so that both
    hold together in 90 %. Null where either is not known or not surely above zero."""
    above, below = slope(over, _both(LEVEL)), slope(under, _both(LEVEL))
    if above is None or below is None or below.low <= 0 or above.low <= 0:
        return None
    return Estimate(
        value=above.value / below.value, low=above.low / below.high, high=above.high / below.low
    )


def at_least(over: Sequence[Point], under: Sequence[Point]) -> float | None:
    """The least one slope may be over another that is not surely above zero; null where it is
    surely not."""
    above, below = slope(over, _both(LEVEL)), slope(under, _both(LEVEL))
    if above is None or below is None or above.low <= 0 or below.high <= 0:
        return None
    return above.low / below.high


def shift(before: Sequence[float], after: Sequence[float]) -> Estimate | None:
    """How much more the later values are: the slope over a step from 0 to 1, which is the median of
    their differences with the interval of the Mann-Whitney test (Hodges-Lehmann)."""
    return slope([*(Point(x=0, y=value) for value in before), *(Point(x=1, y=v) for v in after)])


def bends(points: Sequence[Point]) -> tuple[Estimate, Estimate] | None:
    """The slopes of the lower and the upper half of the x, when their intervals lie apart."""
    middle = median(point.x for point in points)
    halves = (
        slope([point for point in points if point.x <= middle]),
        slope([point for point in points if point.x >= middle]),
    )
    lower, upper = halves
    if lower is None or upper is None or (lower.low <= upper.high and upper.low <= lower.high):
        return None
    return lower, upper


def span(points: Iterable[Point]) -> float:
    """How far x reaches."""
    values = [point.x for point in points]
    return max(values) - min(values)


def thinned(points: Sequence[Point]) -> Sequence[Point]:
    """At most MOST_POINTS of them, evenly picked in order of x."""
    if len(points) <= MOST_POINTS:
        return points
    ordered = sorted(points, key=lambda point: (point.x, point.y))
    return [ordered[index * len(ordered) // MOST_POINTS] for index in range(MOST_POINTS)]


def _both(level: float) -> float:
    """What each of two intervals needs, so that both hold at `level`."""
    return 1 - (1 - level) / 2


def _groups(points: Iterable[Point]) -> Iterable[list[Point]]:
    found: defaultdict[Hashable, list[Point]] = defaultdict(list)
    for point in points:
        found[point.group].append(point)
    return found.values()


def _kendall_variance(group: Sequence[Point]) -> float:
    """Of Kendall's S under no trend, where some x are equal."""
    ties = Counter(point.x for point in group).values()
    return (_weight(len(group)) - sum(_weight(size) for size in ties)) / 18


def _weight(size: int) -> int:
    return size * (size - 1) * (2 * size + 5)


def _sign_cut(count: int, level: float) -> int | None:
    """How many values may be cut from each end; null when even the outermost two are too narrow."""
    allowed = (1 - level) / 2
    tail, cut = 0, -1
    while cut + 1 < count:
        tail += comb(count, cut + 1)
        if tail > allowed * 2**count:
            break
        cut += 1
    return cut if cut >= 0 else None
