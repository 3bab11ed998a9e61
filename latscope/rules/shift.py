"""How far two samples of calls are apart, and how sure that is.

A shift is Hodges and Lehmann's (1963) of two samples, the median of all differences between a new
call and an old one; quantile differences stand beside it. Calls made near each other are alike, so
intervals come from a block bootstrap (Kuensch 1989): runs of consecutive calls are drawn, not
single ones. Where a call only bounds a figure (nothing split it), the interval spans what the
bounds allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from random import Random
from typing import NamedTuple, TypeAlias

from latscope.rules.censored import Sample, quantile

LEVEL = 0.9
ROUNDS = 200
GRID = 32
"""Values a larger sample is thinned to, evenly by rank, before all differences are taken."""


class Point(NamedTuple):
    """One call's figure: the estimate, what it is at least and at most. censored: the call was
    stopped before it was complete."""

    value: float
    low: float
    high: float
    censored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """new less old, with its 90 % interval; in the measure's unit."""

    value: float
    low: float
    high: float


_Draw: TypeAlias = tuple[list[int], list[int]]


def _draws(old: Sequence[Point], now: Sequence[Point], seed: int) -> list[_Draw]:
    """Which calls of either side each round takes: runs of consecutive ones, the cube root of their
    number long."""
    dice = Random(seed)
    return [(_blocks(len(old), dice), _blocks(len(now), dice)) for _ in range(ROUNDS)]


def _blocks(n: int, dice: Random) -> list[int]:
    length = max(1, round(n ** (1 / 3)))
    taken: list[int] = []
    while len(taken) < n:
        start = dice.randrange(n)
        taken += [(start + step) % n for step in range(length)]
    return taken[:n]


class _Side(NamedTuple):
    """One side's points as columns. exact: no point is a range; whole: none was stopped."""

    points: Sequence[Point]
    value: list[float]
    low: list[float]
    high: list[float]
    exact: bool
    whole: bool


def _side(points: Sequence[Point]) -> _Side:
    value, low, high = ([float(point[which]) for point in points] for which in range(3))
    whole = not any(point.censored for point in points)
    return _Side(points, value, low, high, low == high, whole)


class Round(NamedTuple):
    """What one draw of both sides gives: the least and the most the shift may be, and how far the
    quantiles are apart (null where stopped calls hide one)."""

    least: float
    most: float
    p50: float | None
    p95: float | None


def rounds(old: Sequence[Point], now: Sequence[Point], seed: int) -> list[Round]:
    """Both sides drawn anew, ROUNDS times; the same seed gives the same draws."""
    first, second = _side(old), _side(now)
    return [_round(first, second, drawn) for drawn in _draws(old, now, seed)]


def _round(old: _Side, now: _Side, drawn: _Draw) -> Round:
    ours, theirs = drawn
    least = _apart(_drawn(old.high, ours), _drawn(now.low, theirs))
    most = least
    if not (old.exact and now.exact):
        most = _apart(_drawn(old.low, ours), _drawn(now.high, theirs))
    first, second = _marks(old, ours), _marks(now, theirs)
    return Round(least, most, _minus(second[0], first[0]), _minus(second[1], first[1]))


def _drawn(values: Sequence[float], at: Sequence[int]) -> list[float]:
    return sorted([values[i] for i in at])


def _marks(side: _Side, at: Sequence[int]) -> tuple[float | None, float | None]:
    """The median and the 95th percentile of the calls drawn."""
    if side.whole:
        ordered = _drawn(side.value, at)
        return _ranked(ordered, 0.5), _ranked(ordered, 0.95)
    points = [side.points[i] for i in at]
    return quantile_of(points, 0.5), quantile_of(points, 0.95)


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b


def shift(
    old: Sequence[Point], now: Sequence[Point], rounds: Sequence[Round]
) -> tuple[Difference, float]:
    """The estimate, the interval that spans the bounds, and how likely so much is by chance."""
    value = _apart(*(sorted([point.value for point in side]) for side in (old, now)))
    least, most = sorted(row.least for row in rounds), sorted(row.most for row in rounds)
    at = round((1 - LEVEL) / 2 * ROUNDS)
    low, high = min(value, least[at]), max(value, most[-1 - at])
    against = min(sum(d <= 0 for d in least), sum(d >= 0 for d in most))
    return Difference(value=value, low=low, high=high), min(1.0, 2 * (against + 1) / (ROUNDS + 1))


def _apart(old: list[float], now: list[float]) -> float:
    """Hodges and Lehmann's shift of values in order: the median of all differences."""
    first, second = _thinned(old), _thinned(now)
    differences = sorted([b - a for b in second for a in first])
    middle = len(differences) // 2
    return (differences[middle] + differences[~middle]) / 2


def _thinned(ordered: list[float]) -> list[float]:
    n = len(ordered)
    if n <= GRID:
        return ordered
    return [ordered[int((step + 0.5) * n / GRID)] for step in range(GRID)]


# -- quantiles ------------------------------------------------------------------------------------


def quantile_of(points: Sequence[Point], q: float) -> float | None:
    """Kaplan and Meier's where calls were stopped; null when too many were."""
    if not any(point.censored for point in points):
        return _ranked(sorted([point.value for point in points]), q)
    # Scaled to whole numbers: a share of tokens would lose its digits.
    samples = [Sample(ns=round(p.value * SCALE), censored=p.censored) for p in points]
    found = quantile(samples, q).ns
    return None if found is None else found / SCALE


SCALE = 1_000


def _ranked(ordered: Sequence[float], q: float) -> float:
    return ordered[max(0, ceil(q * len(ordered) - 1e-9) - 1)]


def quantiles_apart(
    base: float | None, new: float | None, drawn: Sequence[float | None]
) -> Difference | None:
    """Of the estimates; null where stopped calls hide a quantile on either side."""
    found = sorted(value for value in drawn if value is not None)
    value = _minus(new, base)
    if value is None or not found:
        return None
    at = round((1 - LEVEL) / 2 * len(found))
    return Difference(value=value, low=min(value, found[at]), high=max(value, found[-1 - at]))
