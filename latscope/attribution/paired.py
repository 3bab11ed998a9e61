"""Statistics of paired differences: what two arms differ by when load drifts under both.

Calls of a pair are sent next to each other, so what changes slowly cancels in their difference.
The location is Hodges and Lehmann's (the median of all pairwise means: as sharp as a mean, and a
few wild pairs move it little); its interval is a percentile bootstrap, widened for small samples as
Hesterberg (2015, doi 10.1080/00031305.2015.1089789) describes; the test is Wilcoxon's, exact.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from random import Random
from statistics import median

LEVEL = 0.9
Z = 1.6448536269514722
"""95th percentile of the normal distribution: a 90 % interval leaves 5 % on either side."""
ROUNDS = 300
"""Bootstrap samples."""
LEAST = 4
"""Fewer values have no interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A location with its 90 % interval, from n pairs; in the unit of the values."""

    value: float
    low: float
    high: float
    n: int

    @property
    def positive(self) -> bool:
        """Whether the whole interval lies above zero."""
        return self.low > 0


def hodges_lehmann(values: Sequence[float]) -> float:
    """The median of the means of all pairs, each value with itself included."""
    sums = sorted([first + second for at, first in enumerate(values) for second in values[at:]])
    middle = len(sums) // 2
    return (sums[middle] + sums[~middle]) / 4


def shorth(values: Sequence[float]) -> tuple[float, float]:
    """Middle and half width of the shortest stretch that holds half of the values.

    Where most calls met no load it is what an unloaded call takes, however far the others are off;
    the half width is then their median absolute deviation.
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    width, at = min(
        (ordered[at + half] - low, at) for at, low in enumerate(ordered[: -half or None])
    )
    return ordered[at] + width / 2, width / 2


def estimate(
    values: Sequence[float],
    statistic: Callable[[Sequence[float]], float] = hodges_lehmann,
    seed: int = 0,
) -> Estimate | None:
    """The statistic with its bootstrap interval; null for fewer than four values. The same seed
    gives the same interval."""
    n = len(values)
    if n < LEAST:
        return None
    value = statistic(values)
    dice = Random(seed)
    drawn = sorted(statistic(dice.choices(values, k=n)) for _ in range(ROUNDS))
    tail = round((1 - LEVEL) / 2 * ROUNDS)
    wider = _student(n - 1) / Z * sqrt(n / (n - 1))
    return Estimate(
        value=value,
        low=value - max(0.0, value - drawn[tail]) * wider,
        high=value + max(0.0, drawn[-1 - tail] - value) * wider,
        n=n,
    )


def _student(degrees: int) -> float:
    """95th percentile of Student's t, by its expansion around the normal one."""
    first = (Z**3 + Z) / 4
    second = (5 * Z**5 + 16 * Z**3 + 3 * Z) / 96
    return Z + first / degrees + second / degrees**2


def p_value(differences: Sequence[float]) -> float:
    """Wilcoxon's signed-rank test, two-sided and exact: how likely so lopsided a set of differences
    is when both arms are the same. Ties share their ranks; zeros say nothing and are left out."""
    told = sorted((value for value in differences if value), key=abs)
    if not told:
        return 1.0
    ranks = _ranks([abs(value) for value in told])
    above = sum(rank for rank, value in zip(ranks, told, strict=True) if value > 0)
    counts = {0: 1}
    for rank in ranks:
        grown = dict(counts)
        for total, ways in counts.items():
            grown[total + rank] = grown.get(total + rank, 0) + ways
        counts = grown
    extreme = min(above, sum(ranks) - above)
    tail = sum(ways for total, ways in counts.items() if total <= extreme)
    return min(1.0, tail / 2.0 ** (len(told) - 1))


def _ranks(ordered: Sequence[float]) -> list[int]:
    """Twice the ranks of values in order: whole numbers, ties shared."""
    return [
        _first(ordered, value) + len(ordered) - _first([-v for v in reversed(ordered)], -value) + 1
        for value in ordered
    ]


def _first(ordered: Sequence[float], value: float) -> int:
    return next(at for at, other in enumerate(ordered) if other == value)


def spread(values: Sequence[float]) -> float:
    """The median absolute deviation from the median."""
    middle = median(values)
    return median(abs(value - middle) for value in values)
