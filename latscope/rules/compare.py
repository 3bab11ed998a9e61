"""Two sets of calls compared: which figure moved, by how much, and how sure that is.

The effect comes first; how it and its interval are found stands in `rules.shift`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, TypeAlias

from latscope.rules.metrics import Value, known
from latscope.rules.shift import (
    Difference,
    Point,
    quantile_of,
    quantiles_apart,
    rounds,
    shift,
)
from latscope.rules.table import CENSORED, Table

SCHEMA = "latscope.compare/1"
LEAST = 8
"""Calls a side below which no interval is believed."""
LEAST_P95 = 40
SMALL = 0.05
"""Of the old median: what moves less than this matters to nobody."""

Verdict: TypeAlias = Literal["moved", "same", "cannot tell"]
Unit: TypeAlias = Literal["ns", "tokens", "share", "count"]

LEAST_MOVE: dict[str, float] = {"ns": 2e6, "tokens": 1.0, "share": 0.02, "count": 0.05}
"""By unit, the smallest move of a measure that matters, where it has none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """name: a metric; segment: whose time it is, for the answer to "which segment"; a joint one
    (`queue | prefill`) is asked only where its parts cannot be told. least: the smallest move that
    matters however small the old figure is; null: the unit's."""

    name: str
    unit: Unit
    segment: str | None = None
    least: float | None = None
    parts: tuple[str, ...] = ()


MEASURES: tuple[Measure, ...] = (
    Measure(name="e2e", unit="ns"),
    Measure(name="ttft", unit="ns"),
    Measure(name="itl_p50", unit="ns", least=2e5),
    Measure(name="tpot", unit="ns", least=2e5),
    Measure(name="queue", unit="ns", segment="queue"),
    Measure(name="prefill", unit="ns", segment="prefill"),
    Measure(name="decode", unit="ns", segment="decode"),
    Measure(name="network", unit="ns", segment="network"),
    Measure(name="client", unit="ns", segment="client"),
    Measure(name="queue+prefill", unit="ns", segment="queue | prefill", parts=("queue", "prefill")),
    Measure(
        name="decode+network", unit="ns", segment="decode | network", parts=("decode", "network")
    ),
    Measure(
        name="queue+prefill+network",
        unit="ns",
        segment="queue | prefill | network",
        parts=("queue", "prefill", "network"),
    ),
    Measure(name="load_excess", unit="ns"),
    Measure(name="tokens_per_chunk", unit="count"),
    Measure(name="input_tokens", unit="tokens"),
    Measure(name="uncached_tokens", unit="tokens"),
    Measure(name="cached_share", unit="share"),
    Measure(name="output_tokens", unit="tokens"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """base, new: the medians. n_base, n_new: calls that tell the measure. shift: null where too few
    do; p50, p95: differences of the quantiles. p: how likely such a shift is if nothing moved.
    matters: the smallest shift called a move. more: calls a side that would tell, about; null where
    that is told, or no number of calls would (only bounds are known)."""

    measure: Measure
    n_base: int
    n_new: int
    base: float | None
    new: float | None
    shift: Difference | None
    p50: Difference | None
    p95: Difference | None
    p: float | None
    matters: float
    verdict: Verdict
    more: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One model at one endpoint, before and after. segment: what moved E2E (or TTFT) most, or
    `queue | prefill` where only that can be told; null when nothing surely moved."""

    model: str | None
    endpoint: str | None
    calls_base: int
    calls_new: int
    moves: tuple[Move, ...]
    segment: str | None
    new_model: str | None = None
    new_endpoint: str | None = None

    @property
    def whole(self) -> tuple[Move, ...]:
        """What a caller waits for: E2E and TTFT."""
        return tuple(move for move in self.moves if move.measure.name in ("e2e", "ttft"))

    @property
    def slower(self) -> bool:
        return any(move.verdict == "moved" and _value(move) > 0 for move in self.whole)

    @property
    def unsure(self) -> bool:
        """Whether it cannot be told that nothing got slower."""
        return any(move.verdict == "cannot tell" for move in self.whole) or not self.whole


Points: TypeAlias = Mapping[str, Sequence[Point | None]]
"""By measure one point a call, calls in the order they began; null: the call does not tell it."""


NAMES: tuple[str, ...] = (*(measure.name for measure in MEASURES), "itl.unit", "instrument.clock")
"""Metrics to gather for a comparison."""


def points(table: Table) -> Points:
    """What the calls of a group tell of every measure."""
    return {measure.name: _points(table, measure.name) for measure in MEASURES}


def _points(table: Table, name: str) -> list[Point | None]:
    row = known(name)
    values = table.columns[name]
    lows = values if row.low is None else table.columns[row.low]
    highs = values if row.high is None else table.columns[row.high]
    stopped = [False] * len(values) if row.censored is None else table.columns[name + CENSORED]
    return [
        None
        if None in (value, low, high)
        else Point(_number(value), _number(low), _number(high), bool(cut))
        for value, low, high, cut in zip(values, lows, highs, stopped, strict=True)
    ]


def _number(value: Value) -> float:
    return value if isinstance(value, float | int) else 0.0


def differing(base: Table, new: Table) -> str | None:
    """Why two sides cannot be laid beside each other; null when they can."""
    clocks = [_texts(side, "instrument.clock") for side in (base, new)]
    if clocks[0] != clocks[1]:
        return f"their times come from different clocks ({' against '.join(map(_listed, clocks))})"
    units = [_texts(side, "itl.unit") for side in (base, new)]
    if all(units) and not units[0] & units[1]:
        return (
            f"one counts gaps between {_listed(units[0])}s, the other between {_listed(units[1])}s"
        )
    return None


def _texts(table: Table, name: str) -> frozenset[str]:
    return frozenset(value for value in table.columns[name] if isinstance(value, str))


def _listed(words: Collection[str]) -> str:
    return ", ".join(sorted(words)) or "none"


def compare(base: Points, new: Points, *, seed: int = 0) -> tuple[Move, ...]:
    """Every measure that both sides tell, in the order of MEASURES; a joint one only where a part
    of it cannot be told."""
    told: dict[str, Move] = {}
    for measure in MEASURES:
        old = [point for point in base.get(measure.name, ()) if point is not None]
        now = [point for point in new.get(measure.name, ()) if point is not None]
        if old and now and not _settled(measure, told.values()):
            told[measure.name] = _move(measure, old, now, seed)
    return tuple(told.values())


def _settled(measure: Measure, told: Iterable[Move]) -> bool:
    """Whether each part of a joint time is told already, alone or in a smaller sum."""
    known = {
        name
        for move in told
        if move.verdict != "cannot tell"
        for name in (move.measure.name, *move.measure.parts)
    }
    return bool(measure.parts) and known.issuperset(measure.parts)


def segment_that_moved(moves: Sequence[Move]) -> str | None:
    """The segment whose time moved most, the way the whole did; null when none surely did."""
    by_name = {move.measure.name: move for move in moves}
    whole = next(
        (
            by_name[name].shift
            for name in ("e2e", "ttft")
            if name in by_name and by_name[name].verdict == "moved"
        ),
        None,
    )
    sure = [
        move
        for move in moves
        if move.measure.segment
        and move.verdict == "moved"
        and move.shift
        and (whole is None or (move.shift.value > 0) == (whole.value > 0))
    ]
    # A joint time counts only where none of its parts is named.
    named = {move.measure.name for move in sure}
    own = [move for move in sure if not named.intersection(move.measure.parts)]
    best = max(own, key=lambda move: abs(_value(move)), default=None)
    return best.measure.segment if best else None


def _value(move: Move) -> float:
    return move.shift.value if move.shift else 0.0


# -- one measure ----------------------------------------------------------------------------------


def _move(measure: Measure, old: Sequence[Point], now: Sequence[Point], seed: int) -> Move:
    base, new = quantile_of(old, 0.5), quantile_of(now, 0.5)
    least = LEAST_MOVE[measure.unit] if measure.least is None else measure.least
    matters = max(least, SMALL * abs(base or 0.0))
    found = Move(
        measure=measure,
        n_base=len(old),
        n_new=len(now),
        base=base,
        new=new,
        shift=None,
        p50=None,
        p95=None,
        p=None,
        matters=matters,
        verdict="cannot tell",
    )
    fewest = min(len(old), len(now))
    if fewest < LEAST:
        return replace(found, more=LEAST - fewest)
    drawn = rounds(old, now, seed)
    apart, p = shift(old, now, drawn)
    verdict = _verdict(apart, matters)
    return replace(
        found,
        shift=apart,
        p=p,
        p50=quantiles_apart(base, new, [row.p50 for row in drawn]),
        p95=quantiles_apart(
            quantile_of(old, 0.95), quantile_of(now, 0.95), [row.p95 for row in drawn]
        )
        if fewest >= LEAST_P95
        else None,
        verdict=verdict,
        more=_more(apart, matters, old, now) if verdict == "cannot tell" else None,
    )


def _verdict(apart: Difference, matters: float) -> Verdict:
    if -matters <= apart.low and apart.high <= matters:
        return "same"
    if (apart.low > 0 or apart.high < 0) and abs(apart.value) >= matters:
        return "moved"
    return "cannot tell"


def _more(
    apart: Difference, matters: float, old: Sequence[Point], now: Sequence[Point]
) -> int | None:
    """Calls a side beyond those there are at which the interval would be narrow enough, since its
    width falls with the root of their number; null where bounds, not numbers, make it wide."""
    if any(point.low != point.high for side in (old, now) for point in side):
        return None
    size = abs(apart.value)
    wanted = size if size >= matters else max(matters - size, matters / 4)
    half = (apart.high - apart.low) / 2
    fewest = min(len(old), len(now))
    return max(1, ceil(fewest * (half / wanted) ** 2) - fewest)
