"""When a floor moved, and whether there are two: deploys, and machines that differ.

Load comes and goes; what a deploy changes is the least a call takes. So the series looked at is
the low edge of the residuals, block by block of calls, and a break in it counts as a change of the
floor only if one side never reaches the other's edge.
"""

from collections.abc import Sequence
from random import Random
from statistics import median

SHUFFLES = 199
LEVEL = 0.02
"""A break must be rarer than this among shuffled orders of the same blocks."""
BLOCK = 10
MOST_BLOCKS = 60
MIN_BLOCKS = 6
SIDE = 2
"""Blocks on either side of a break, at least."""


def newest_regime(values: Sequence[float], apart: float, seed: int = 1) -> int:
    """Index in `values` (residuals in order of time) at which the newest regime begins; 0 when the
    low edge never moved by more than `apart`. The same values, the same answer."""
    start = 0
    while True:
        at = _break(values[start:], apart, seed)
        if at is None:
            return start
        start += at


def _break(values: Sequence[float], apart: float, seed: int) -> int | None:
    size = max(BLOCK, -(-len(values) // MOST_BLOCKS))
    edges = [quantile(values[at : at + size], 0.2) for at in range(0, len(values) - size + 1, size)]
    if len(edges) < MIN_BLOCKS:
        return None
    ranks = _ranks(edges)
    place, strength = _strongest(ranks)
    if not SIDE <= place <= len(edges) - SIDE or not _moved(values, place * size, apart):
        return None
    dice, beaten = Random(seed), 0
    for _ in range(SHUFFLES):
        dice.shuffle(ranks)
        beaten += _strongest(ranks)[1] >= strength
    return place * size if (beaten + 1) / (SHUFFLES + 1) < LEVEL else None


def _strongest(ranks: Sequence[float]) -> tuple[int, float]:
    """Where the cumulated ranks stray furthest from an even course, and how far."""
    middle = (len(ranks) - 1) / 2
    total, place, strength = 0.0, 0, -1.0
    for index, rank in enumerate(ranks[:-1], 1):
        total += rank - middle
        weight = (index * (len(ranks) - index)) ** 0.5
        if abs(total) / weight > strength:
            place, strength = index, abs(total) / weight
    return place, strength


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for rank, index in enumerate(order):
        ranks[index] = float(rank)
    return ranks


def _moved(values: Sequence[float], at: int, apart: float) -> bool:
    """Whether the low edges of both sides lie apart: busy hours still have their idle calls."""
    before, after = (quantile(side, 0.05) for side in (values[:at], values[at:]))
    return abs(after - before) > apart


def modes(ratios: Sequence[float]) -> tuple[float, float] | None:
    """The two values around which `ratios` (time over floor) gather when they leave a gap between
    them; null when there is one gathering, or a gathering and a tail.

    A tail of delays thins out; a second kind of machine has an edge of its own: after the gap its
    calls stand as close together as the first kind's."""
    ordered = sorted(ratios)
    count = len(ordered)
    if count < 24:
        return None
    edge = max(6, count // 5)
    gaps = [ordered[at + 1] - ordered[at] for at in range(edge - 1, count - edge)]
    widest = max(range(len(gaps)), key=gaps.__getitem__)
    low, high = ordered[: edge + widest], ordered[edge + widest :]
    spreads = [quantile(side, 0.75) - quantile(side, 0.25) for side in (low, high)]
    if gaps[widest] > 0.1 and gaps[widest] > 2 * max(spreads):
        return median(low), median(high)
    return None


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lie (the nearest one)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
