"""Plain statistics for a few paired figures: a centre, its interval, a slope and its interval.

Everything here is robust to a minority of wild values, since latencies have them, and gives the
same answer for the same values and seed.

- Hodges and Lehmann 1963: the median of all pairwise means.
- Percentile bootstrap (Efron 1979), its tails moved out for few values (Hesterberg 2015, the
  "expanded percentile interval"): plain percentiles of five values cover far less than they say.
- Theil 1950 and Sen 1968: the median of all pairwise slopes, with Sen's interval from the variance
  of Kendall's S under ties.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist, median

from latscope.attribution.paired import hodges_lehmann

LEVEL = 0.9
LEAST = 3
"""Of fewer values no interval is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure with its interval at the level asked for; null ends: too few values for one."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def bootstrap_interval(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float],
    *,
    level: float = LEVEL,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The interval of `statistic` over `values`, which are independent; null for fewer than three.

    Drawn with replacement `resamples` times, from a generator of its own seeded with `seed`.
    """
    n = len(values)
    if n < LEAST:
        return None
    drawing = random.Random(seed)
    found = sorted(statistic(drawing.choices(values, k=n)) for _ in range(resamples))
    tail = expanded_tail((1 - level) / 2, n)
    at = max(0, min(resamples // 2, ceil(tail * resamples) - 1))
    return found[at], found[resamples - 1 - at]


def expanded_tail(tail: float, n: int) -> float:
    """The percentile to cut at, of n values, so that `tail` is really left out: Student's quantile
    in place of the normal one, and the spread that dividing by n in place of n - 1 hides."""
    return NormalDist().cdf(sqrt(n / (n - 1)) * student(tail, n - 1))


def student(p: float, freedom: int) -> float:
    """Student's t quantile, by the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5): to
    0.01 from 4 degrees of freedom on at p of 0.05."""
    z, v = NormalDist().inv_cdf(p), freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
    )


def centre(values: Sequence[float], *, level: float = LEVEL, seed: int = 0) -> Estimate:
    """Hodges and Lehmann's estimate of where the values lie, with its bootstrap interval."""
    n = len(values)
    found = bootstrap_interval(
        values, hodges_lehmann, level=level, resamples=_affordable(n), seed=seed
    )
    low, high = found or (None, None)
    return Estimate(value=hodges_lehmann(values), low=low, high=high, n=n)


def _affordable(n: int) -> int:
    """One resample costs n squared: a thousand up to 31 values, never fewer than 200."""
    return max(200, min(1000, 1_000_000 // max(1, n * n)))


def theil_sen(xs: Sequence[float], ys: Sequence[float], *, level: float = LEVEL) -> Estimate | None:
    """How much y grows with each unit of x; null when all x are equal. xs, ys: of equal length.

    The interval's ends are null where there are too few slopes for the level.
    """
    slopes = sorted(
        (ys[later] - ys[earlier]) / (xs[later] - xs[earlier])
        for earlier in range(len(xs))
        for later in range(earlier + 1, len(xs))
        if xs[later] != xs[earlier]
    )
    if not slopes:
        return None
    reach = NormalDist().inv_cdf((1 + level) / 2) * sqrt(_kendall_variance(xs, ys))
    below = round((len(slopes) - reach) / 2) - 1
    inside = below >= 0
    return Estimate(
        value=median(slopes),
        low=slopes[below] if inside else None,
        high=slopes[len(slopes) - 1 - below] if inside else None,
        n=len(xs),
    )


def _kendall_variance(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Of Kendall's S where x and y have nothing to do with each other; ties make it smaller."""

    def term(k: int) -> int:
        return k * (k - 1) * (2 * k + 5)

    tied = sum(term(times) for values in (xs, ys) for times in Counter(values).values())
    return max(0, term(len(xs)) - tied) / 18
