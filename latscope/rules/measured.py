"""One statistic of one metric over a table of calls, with the interval the calls can tell.

- Quantiles: order statistics by the binomial; of censored metrics Kaplan and Meier's (`censored`).
- Share: Wilson's score interval (1927). Mean: Student's.
- Rate: a score interval of the number of events, each as large as they are on average (a compound
  Poisson process; the number is Kish's effective one).
- Slope: Theil and Sen; of censored metrics Akritas, Murphy and LaValley.
- Sum, n, max, and figures of the whole group are what they are: counted, not estimated.

A metric with bounds of its own (`queue` between `queue.low` and `queue.high`) is measured three
times. All calls count as independent of each other: an interval never claims more than so many
calls can tell, but calls that hang together tell less.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

from latscope.rules.censored import Sample, quantile, ranks, trend
from latscope.rules.metrics import known
from latscope.rules.runbook import Stat
from latscope.rules.stats import student, theil_sen
from latscope.rules.table import CENSORED, HOUR, Table

QUANTILES: dict[Stat, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
FEWEST_MEAN = 5
"""Student's quantile is not good for fewer."""
MOST_PAIRED = 200
"""Points of a slope; pairs grow as the square."""
SAME = 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """value: null when it cannot be told. low, high: null where that end is not known. n: calls
    that tell it. short: how many more calls an interval needs at least; 0 where it has one."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    short: int = 0


NOTHING = Interval(None, None, None, 0)


@dataclass(frozen=True, slots=True)
class Side:
    """A statistic: the estimate, and what it is at the least and at the most that the calls' own
    attributions leave open (all three the same where they leave nothing open)."""

    est: Interval
    least: Interval
    most: Interval

    @property
    def bounded(self) -> bool:
        return self.least is not self.est


class Rows(NamedTuple):
    """What the calls tell of a metric: values, which are lower limits only, and how many calls each
    stands for (null: all the same)."""

    values: list[float]
    censored: list[bool] | None
    weights: list[float] | None
    each: float
    """How many calls one stands for on average."""
    at: list[int]


def exact(value: float | None, n: int = 0) -> Side:
    """A figure that is no estimate."""
    found = Interval(value, value, value, n)
    return Side(found, found, found)


def measure(table: Table, name: str, stat: Stat, *, level: float, along: str | None = None) -> Side:
    """The statistic with its interval at `level`; at 0 the estimate alone, bounds of the calls' own
    attributions kept."""
    key = (name, stat, level, along)
    if key not in table.memory:
        table.memory[key] = _measure(table, name, stat, level, along)
    found: Side = table.memory[key]
    return found


def _measure(table: Table, name: str, stat: Stat, level: float, along: str | None) -> Side:
    row = known(name)
    if row.whole is not None:
        return exact(table.whole(name), table.size)
    found = _one(table, name, stat, level, along)
    if row.low is None or row.high is None:
        return Side(found, found, found)
    low = _one(table, row.low, stat, level, along)
    high = _one(table, row.high, stat, level, along)
    same = low.value == found.value == high.value
    if None in (low.value, high.value) or (
        same and (low.low, high.high) == (found.low, found.high)
    ):
        return Side(found, found, found)
    return Side(found, low, high)


def _one(table: Table, name: str, stat: Stat, level: float, along: str | None) -> Interval:
    rows = told(table, name)
    if not rows.values:
        return Interval(0.0, 0.0, 0.0, 0) if stat == "n" else NOTHING
    if stat == "slope":
        found = _slope(table, rows, along or "started_ns", level)
    elif stat in QUANTILES:
        found = _quantile(rows, QUANTILES[stat], level)
    elif stat == "rate":
        found = _rate(table, rows, level, counts=known(name).unit in ("truth", "count"))
    else:
        found = SIMPLE[stat](rows, level)
    return found if level else replace(found, low=found.value, high=found.value, short=0)


def told(table: Table, name: str) -> Rows:
    """The numbers among a metric's values."""
    key = ("rows", name)
    if key not in table.memory:
        table.memory[key] = _told(table, name)
    found: Rows = table.memory[key]
    return found


def _told(table: Table, name: str) -> Rows:
    column, weights = table.columns[name], table.columns["weight"]
    at = [i for i, value in enumerate(column) if value is not None and not isinstance(value, str)]
    values: list[float] = [column[i] for i in at]  # type: ignore[misc]
    stand: list[float] = [weights[i] for i in at]  # type: ignore[misc]
    same = not stand or max(stand) - min(stand) < SAME * max(stand)
    censored = None
    if known(name).censored is not None:
        flags = table.columns[name + CENSORED]
        censored = [bool(flags[i]) for i in at]
        censored = censored if any(censored) else None
    each = fmean(stand) if stand else 1.0
    return Rows(values, censored, None if same else stand, each, at)


# -- quantiles ------------------------------------------------------------------------------------


def _quantile(rows: Rows, q: float, level: float) -> Interval:
    if rows.censored is not None or rows.weights is not None:
        return _weighted_quantile(rows, q, level)
    n = len(rows.values)
    ordered = sorted(rows.values)
    below, above = ranks(n, q, (1 - level) / 2) if level else (None, None)
    return Interval(
        value=ordered[max(0, ceil(q * n - SAME) - 1)],
        low=None if below is None else ordered[below - 1],
        high=None if above is None else ordered[above - 1],
        n=n,
        short=max(0, enough(q, level) - n),
    )


def _weighted_quantile(rows: Rows, q: float, level: float) -> Interval:
    n = len(rows.values)
    censored = rows.censored or [False] * n
    weights = rows.weights or [1.0] * n
    samples = [
        Sample(ns=value, censored=stopped, weight=weight)  # type: ignore[arg-type]
        for value, stopped, weight in zip(rows.values, censored, weights, strict=True)
    ]
    found = quantile(samples, q, level=level or 0.5)
    value = found.ns if found.ns is not None else found.at_least_ns
    short = max(0, enough(q, level) - n) if found.low_ns is None or found.high_ns is None else 0
    if found.ns is None:
        # At least so much: it may be anything above.
        return Interval(value, found.low_ns, None, n, short or 1)
    return Interval(value, found.low_ns, found.high_ns, n, short)


def enough(q: float, level: float) -> int:
    """Calls that an interval of this quantile needs at least."""
    if not level:
        return 1
    return ceil(log((1 - level) / 2) / log(max(q, 1 - q)) - SAME)


# -- counted things -------------------------------------------------------------------------------


def _kish(weights: Sequence[float]) -> float:
    """How many equal weights tell as much."""
    squares = sum(weight * weight for weight in weights)
    return sum(weights) ** 2 / squares if squares else 0.0


def _share(rows: Rows, level: float) -> Interval:
    n = len(rows.values)
    weights = rows.weights or [1.0] * n
    p = sum(w for v, w in zip(rows.values, weights, strict=True) if v > 0) / sum(weights)
    low, high = wilson(p, _kish(weights), level)
    return Interval(p, low, high, n)


def wilson(p: float, n: float, level: float) -> tuple[float, float]:
    """Wilson's score interval of a share `p` of `n`."""
    z = _reach(level)
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (max(0.0, centre - half) if p > 0 else 0.0, min(1.0, centre + half) if p < 1 else 1.0)


def _reach(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def _mean(rows: Rows, level: float) -> Interval:
    n = len(rows.values)
    weights = rows.weights or [1.0] * n
    value = sum(v * w for v, w in zip(rows.values, weights, strict=True)) / sum(weights)
    worth = int(_kish(weights) + SAME)
    if worth < FEWEST_MEAN:
        return Interval(value, None, None, n, FEWEST_MEAN - worth)
    half = student((1 + level) / 2, worth - 1) * stdev(rows.values) / sqrt(worth)
    return Interval(value, value - half, value + half, n)


def _sum(rows: Rows, level: float) -> Interval:
    weights = rows.weights or [rows.each] * len(rows.values)
    value = sum(v * w for v, w in zip(rows.values, weights, strict=True))
    return Interval(value, value, value, len(rows.values))


def _max(rows: Rows, level: float) -> Interval:
    value = max(rows.values)
    return Interval(value, value, value, len(rows.values))


def _count(rows: Rows, level: float) -> Interval:
    n = len(rows.values)
    value = round(n * rows.each, 6)
    return Interval(value, value, value, n)


SIMPLE: dict[Stat, Callable[[Rows, float], Interval]] = {
    "share": _share,
    "mean": _mean,
    "sum": _sum,
    "max": _max,
    "n": _count,
    "value": lambda rows, level: NOTHING,
}
"""`value` of a metric that each call has for itself says nothing."""


def _rate(table: Table, rows: Rows, level: float, *, counts: bool) -> Interval:
    """Their sum an hour, from the first call's start to the last one's: of n calls there are n - 1
    gaps between."""
    began: Sequence[float] = table.columns["started_ns"]  # type: ignore[assignment]
    n = len(began)
    hours = (began[-1] - began[0]) / HOUR * n / max(1, n - 1)
    if not hours:
        return Interval(None, None, None, len(rows.values), 1)
    weights = rows.weights or [rows.each] * len(rows.values)
    parts = [v * w for v, w in zip(rows.values, weights, strict=True)]
    total, squares = sum(parts), sum(part * part for part in parts)
    if not total:
        high = _reach(level) ** 2 * rows.each / hours if counts and level else None
        return Interval(0.0, 0.0, high, len(rows.values))
    events, size = total * total / squares, squares / total
    z = _reach(level)
    middle, half = events + z * z / 2, z * sqrt(events + z * z / 4)
    low, high = max(0.0, middle - half) * size / hours, (middle + half) * size / hours
    return Interval(total / hours, low, high, len(rows.values))


# -- slope ----------------------------------------------------------------------------------------


def _slope(table: Table, rows: Rows, along: str, level: float) -> Interval:
    other = table.columns[along]
    places = [k for k, i in enumerate(rows.at) if isinstance(other[i], int | float)]
    if len(places) > MOST_PAIRED:
        # By lot: every fifth call may be the fifth turn of a session.
        places = sorted(random.Random(0).sample(places, MOST_PAIRED))
    xs: list[float] = [other[rows.at[k]] for k in places]  # type: ignore[misc]
    ys = [rows.values[k] for k in places]
    if rows.censored is None:
        found = theil_sen(xs, ys, level=level or 0.5)
    else:
        flags = [rows.censored[k] for k in places]
        samples = [
            Sample(ns=round(y), censored=stopped) for y, stopped in zip(ys, flags, strict=True)
        ]
        found = trend(xs, samples, level=level or 0.5)
    if found is None:
        return Interval(None, None, None, len(places), 1)
    short = 0 if found.low is not None and found.high is not None else max(1, 5 - len(places))
    return Interval(found.value, found.low, found.high, len(places), short)
