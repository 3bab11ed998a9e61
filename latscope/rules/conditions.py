"""Conditions, read: true, false, or not to be told from these calls.

A condition is true when the interval of the difference lies beyond its bound, false when it lies
this side of it, and unknown while it does not exclude either. The interval of a difference or ratio
is MOVER's (Zou and Donner 2008): the half widths of the two sides' own intervals in quadrature, for
ratios on the log scale. What a call's attribution leaves open (`queue.low` to `queue.high`) is no
chance and is not averaged away: it is true only at the least, false only at the most.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, hypot, inf, log
from typing import NamedTuple, TypeAlias

from latscope.rules.finding import Reading
from latscope.rules.measured import Interval, Side, exact, measure
from latscope.rules.metrics import known, metric_of, no_metric
from latscope.rules.metrics.metric import Unit
from latscope.rules.reference import SAVE, Kind, Reference, floors
from latscope.rules.runbook import Bound, Condition
from latscope.rules.spoken import duration, factor, spoken
from latscope.rules.table import Table, untold

FARTHEST = 100
"""More calls than so many times those at hand are not worth naming: the difference is too small."""

Truth: TypeAlias = bool | None


class Seen(NamedTuple):
    """A reading, and which kind of reference it was held against."""

    reading: Reading
    reference: Kind | None


def read(condition: Condition, table: Table, reference: Reference) -> Reading:
    """What the calls say of a condition."""
    return seen(condition, table, reference).reading


def seen(condition: Condition, table: Table, reference: Reference) -> Seen:
    """As `read`, and which kind of reference it was compared with."""
    key = ("seen", condition, reference.baseline)
    if key not in table.memory:
        table.memory[key] = _seen(condition, table, reference)
    found: Seen = table.memory[key]
    return found


def all_of(truths: Iterable[Truth]) -> Truth:
    """False if one is, else unknown if one is, else true."""
    found = [*truths]
    if False in found:
        return False
    return None if None in found else True


def any_of(truths: Iterable[Truth]) -> Truth:
    found = [*truths]
    if True in found:
        return True
    return None if None in found else False


# -- the two sides --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sides:
    """value: of the calls judged; bound: the figure they are held against, before `times` and `by`,
    null where there is none, and then why."""

    value: Side
    bound: Side | None
    reference: Kind | None = None
    why: str = ""
    note: str = ""


def _sides(condition: Condition, table: Table, reference: Reference) -> _Sides:
    bound = condition.bound
    mine = table.where(condition.where)

    def of(calls: Table, metric: str) -> Side:
        return measure(calls, metric, condition.stat, level=condition.sure, along=condition.along)

    if bound.against == "value":
        return _Sides(of(mine, condition.metric), exact(bound.value, condition.least))
    if bound.against == "metric":
        return _Sides(of(mine, condition.metric), of(mine, bound.metric or ""))
    if bound.against == "where":
        return _Sides(of(mine, condition.metric), of(table.where(bound.where), condition.metric))
    if bound.against == "floor":
        floored = floors(mine)
        if floored is None or condition.metric != "ttft":
            why = "no floor is known: make a profile with latscope calibrate"
            return _Sides(of(mine, condition.metric), None, why=why)
        return _Sides(of(floored, "ttft"), of(floored, "floor"), "profile's floor")
    found = reference.sides(table, condition.metric, condition.where)
    if found is None:
        return _Sides(of(mine, condition.metric), None, why=SAVE)
    judged, healthy, name, kind = found
    return _Sides(of(judged, condition.metric), of(healthy, name), kind)


def _seen(condition: Condition, table: Table, reference: Reference) -> Seen:
    sides = _sides(condition, table, reference)
    holds, why = _judged(condition, sides, table)
    value, bound = sides.value, sides.bound
    unit = unit_of(condition)
    reading = Reading(
        metric=condition.metric,
        stat=condition.stat,
        unit=unit,
        value=value.est.value,
        low=value.least.low,
        high=value.most.high,
        baseline=bound.est.value if bound and condition.bound.against != "value" else None,
        n=value.est.n,
        holds=holds,
        wanted=wanted(condition),
        why=why if holds is None else "",
        where=condition.where,
    )
    return Seen(reading, sides.reference)


def _judged(condition: Condition, sides: _Sides, table: Table) -> tuple[Truth, str]:
    """Whether it holds; and, when that cannot be told, why."""
    value, bound = sides.value, sides.bound
    row = known(condition.metric)
    if condition.stat == "n" and bound is not None:
        return _compared(condition, value, bound)[0], ""
    if not value.est.n or value.est.value is None:
        if condition.stat in ("rate", "slope") and value.est.n:
            return None, f"{value.est.n} calls do not tell a {condition.stat}"
        why = untold(table, row.name)
        if condition.where:
            why = why.replace("no call ", f"no call of those where {condition.where} ", 1)
        return None, why
    if bound is None:
        return None, sides.why
    if bound.est.value is None:
        return None, "the reference tells no such figure"
    if row.whole is None:
        missing = condition.least - min(value.est.n, bound.est.n)
        if missing > 0:
            return None, f"needs about {missing} more calls"
    holds, doubt = _compared(condition, value, bound)
    return holds, "" if holds is not None else _why(value, bound, doubt)


# -- comparing ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Doubt:
    """Mutable, of the comparisons that could not be told. widths: how many times wider than their
    distance each one's interval was. unsplit: the attributions alone leave one open."""

    widths: list[float]
    unsplit: bool = False


def _compared(condition: Condition, value: Side, bound: Side) -> tuple[Truth, _Doubt]:
    doubt = _Doubt([])
    b = condition.bound
    if condition.how == "is":
        return _is(value, bound, b), doubt
    if condition.how == "near":
        return _near(value, bound, b, doubt), doubt
    if condition.how == "apart":
        return _opposite(_near(value, bound, b, doubt)), doubt
    up = condition.how == "above"
    tests = []
    if b.times != 1 or not b.by:
        tests.append(_beyond(value, bound, b.times, 0.0, doubt, up=up))
    if b.by:
        tests.append(_beyond(value, bound, 1.0, b.by, doubt, up=up))
    return all_of(tests), doubt


def _is(value: Side, bound: Side, b: Bound) -> Truth:
    wanted = (bound.est.value or 0.0) * b.times + b.by
    least, most = value.least.value, value.most.value
    if value.bounded and least != most:
        within = (-inf if least is None else least) <= wanted <= (inf if most is None else most)
        return None if within else False
    return value.est.value == wanted


def _near(value: Side, bound: Side, b: Bound, doubt: _Doubt) -> Truth:
    """Within the share of the figure, or within `by` of it."""
    margin = b.times - 1
    if (bound.est.value or 0.0) < 0:
        margin = -margin
    ways = []
    if margin:
        ways.append((1 + margin, 1 - margin, 0.0))
    if b.by or not margin:
        ways.append((1.0, 1.0, b.by))
    return any_of(
        all_of(
            (
                _opposite(_beyond(value, bound, top, by, doubt, up=True)),
                _opposite(_beyond(value, bound, bottom, by, doubt, up=False)),
            )
        )
        for top, bottom, by in ways
    )


def _opposite(truth: Truth) -> Truth:
    return None if truth is None else not truth


def _beyond(value: Side, bound: Side, times: float, by: float, doubt: _Doubt, *, up: bool) -> Truth:
    """Whether value > times * bound + by (up), or value < times * bound - by."""
    if up:
        surely = _gap(value.least, bound.most, times, by)[0] > 0
        never = _gap(value.most, bound.least, times, by)[1] <= 0
    else:
        surely = _gap(value.most, bound.least, times, -by)[1] < 0
        never = _gap(value.least, bound.most, times, -by)[0] >= 0
    if surely or never:
        return surely
    by = by if up else -by
    nearest = _gap(value.least, bound.most, times, by)[2]
    farthest = _gap(value.most, bound.least, times, by)[2]
    doubt.unsplit |= nearest < 0 < farthest
    low, high, middle = _gap(value.est, bound.est, times, by)
    half = middle - low if middle > 0 else high - middle
    doubt.widths.append(half / abs(middle) if middle else inf)
    return None


def _gap(value: Interval, bound: Interval, times: float, by: float) -> tuple[float, float, float]:
    """The interval of value - (times * bound + by), and its middle; of a pure ratio, that of their
    logs."""
    v, f = _ends(value), _ends(bound)
    if not by and min(v[0], f[0], times) > 0:
        v = (log(v[0]), log(v[1]), log(v[2]))
        f = (log(f[0]) + log(times), log(f[1]) + log(times), log(f[2]) + log(times))
    else:
        f = (f[0] * times + by, f[1] * times + by, f[2] * times + by)
    middle = v[1] - f[1]
    return (
        middle - hypot(v[1] - v[0], f[2] - f[1]),
        middle + hypot(v[2] - v[1], f[1] - f[0]),
        middle,
    )


def _ends(interval: Interval) -> tuple[float, float, float]:
    value = interval.value
    assert value is not None
    low = -inf if interval.low is None else min(interval.low, value)
    return low, value, inf if interval.high is None else max(interval.high, value)


def _why(value: Side, bound: Side, doubt: _Doubt) -> str:
    """Why neither true nor false, and about how many more calls would tell."""
    if doubt.unsplit:
        sides = [side for side in (value, bound) if side.bounded]
        open_ns = max((side.most.value or 0) - (side.least.value or 0) for side in sides)
        return f"what the calls leave unsplit decides it ({duration(open_ns)} of it)"
    short = max(side.short for side in (value.est, bound.est))
    if short:
        return f"needs about {short} more calls"
    width = max(doubt.widths, default=inf)
    if width * width > FARTHEST:
        return "too close to the bound to tell"
    n = min(side.n for side in (value.est, bound.est) if side.n)
    return f"needs about {max(1, ceil(n * (width * width - 1)))} more calls"


# -- words ----------------------------------------------------------------------------------------


def unit_of(condition: Condition) -> Unit:
    """The unit of a condition's figure: `share`, `n` and `rate` have units of their own."""
    unit = known(condition.metric).unit
    if condition.stat == "share":
        return "share"
    if condition.stat == "n":
        return "count"
    return "per_hour" if condition.stat == "rate" and unit in ("truth", "count") else unit


def wanted(condition: Condition) -> str:
    """The comparison in words: `above 1.3x the baseline and 100 ms more`."""
    b, unit = condition.bound, unit_of(condition)
    if b.against == "value":
        return f"{condition.how} {spoken(b.value, unit)}"
    other = {"where": f"where {b.where}", "metric": b.metric or ""}.get(b.against, b.against)
    other = f"the {other}" if b.against in ("baseline", "floor") else f"that {other}"
    other = b.metric or other if b.against == "metric" else other
    far = spoken(b.by, unit)
    if condition.how in ("near", "apart"):
        ways = [spoken(b.times - 1, "share")] * (b.times != 1) + [far] * bool(b.by)
        near = "within" if condition.how == "near" else "not within"
        return f"{near} {' or '.join(ways)} of {other}"
    more = "more" if condition.how == "above" else "less"
    ratio = other if b.times == 1 else f"{factor(b.times)} {other}"
    return f"{condition.how} {ratio}" + (f" and {far} {more}" if b.by else "")


def check_condition(condition: Condition) -> str | None:
    """What makes no sense in a condition whatever the calls; null when nothing."""
    row = metric_of(condition.metric)
    if row is None:
        return no_metric(condition.metric)
    if row.unit == "text":
        return f"{condition.metric} is text, which only `where` can use"
    if (row.whole is not None) != (condition.stat == "value"):
        if row.whole is not None:
            return f"{condition.metric} is one figure of the whole group: its stat is value"
        return f"{condition.metric} is a figure of each call: value is no stat of it"
    if (condition.along is not None) != (condition.stat == "slope"):
        return "slope needs `along`, and nothing else has one"
    return None
