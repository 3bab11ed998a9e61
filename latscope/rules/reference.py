"""What a condition is compared with: the calls that are known, or taken, to be healthy.

In this order: the same group of the baseline file; for the time to first token the profile's floor;
the quieter hours of the same file, against which its busiest hours are then held; else nothing.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias

from latscope.rules.metrics import known
from latscope.rules.table import HOUR, Table

Kind: TypeAlias = Literal["baseline file", "profile's floor", "quieter hours of this file"]

SAVE = "no reference: save one with latscope check --save-baseline"
HOURS = 3
"""Distinct hours of traffic, at least, for some of them to be called quiet."""
BUSIER = 1.3
"""How many times the calls of a quiet hour a busy one has at least, and by how many standard
deviations of their difference, were both alike (Poisson's): else the hours differ by chance."""
DEVIATIONS = 3.0
COVERED = 0.25
"""Of an hour in which the file begins or ends, so much must lie within it."""
FEWEST = 5


@dataclass(frozen=True, slots=True)
class Reference:
    """baseline: the same group of the baseline file, null without one."""

    baseline: Table | None = None

    def sides(
        self, table: Table, metric: str, where: str | None
    ) -> tuple[Table, Table, str, Kind] | None:
        """The calls to judge, those to hold them against, the name the metric has there, and what
        they are; null where there is nothing to compare with."""
        mine = table.where(where)
        if self.baseline is not None and self.baseline.size:
            return mine, self.baseline.where(where), metric, "baseline file"
        floored = floors(mine) if metric == "ttft" else None
        if floored is not None:
            return floored, floored, "floor", "profile's floor"
        # A figure of the whole group is of its traffic, which is what these hours differ in.
        split = None if known(metric).whole is not None else quieter(table)
        if split is None:
            return None
        quiet, busy = split
        return busy.where(where), quiet.where(where), metric, "quieter hours of this file"


def floors(table: Table) -> Table | None:
    """The calls whose floor is known; null where too few are."""
    if "floors" not in table.memory:
        column = table.columns["floor"]
        at = [i for i, value in enumerate(column) if value is not None]
        table.memory["floors"] = table.take(at) if len(at) >= FEWEST else None
    found: Table | None = table.memory["floors"]
    return found


def quieter(table: Table) -> tuple[Table, Table] | None:
    """The third of the hours with the fewest calls, and that with the most; null where there are
    too few hours, or they differ by no more than chance."""
    if "quieter" not in table.memory:
        table.memory["quieter"] = _quieter(table)
    found: tuple[Table, Table] | None = table.memory["quieter"]
    return found


def _quieter(table: Table) -> tuple[Table, Table] | None:
    began: list[float] = [*table.columns["started_ns"]]  # type: ignore[list-item]
    rates = _rates(table, began)
    if len(rates) < HOURS:
        return None
    busy_ns = _in_flight(table, began)
    order = sorted(rates, key=lambda hour: (rates[hour], busy_ns.get(hour, 0.0), hour))
    third = len(order) // 3
    quiet, busy = order[:third], order[-third:]
    few, many = (sum(rates[hour] for hour in hours) for hours in (quiet, busy))
    if many < BUSIER * few or many - few < DEVIATIONS * sqrt(many + few):
        return None
    return _within(table, began, quiet), _within(table, began, busy)


def _rates(table: Table, began: list[float]) -> dict[int, float]:
    """Calls an hour in each hour that lies, for the most part, within the file."""
    if not began:
        return {}
    first, last = began[0], began[-1]
    found = {}
    for hour, calls in table.hours.items():
        covered = min(last, (hour + 1) * HOUR) - max(first, hour * HOUR)
        if covered >= COVERED * HOUR:
            found[hour] = calls * HOUR / covered
    return found


def _in_flight(table: Table, began: list[float]) -> dict[int, float]:
    """The mean number of other calls under way, by hour."""
    found: dict[int, list[float]] = {}
    for at, busy in zip(began, table.columns["in_flight"], strict=True):
        if isinstance(busy, int | float):
            found.setdefault(int(at // HOUR), []).append(busy)
    return {hour: sum(values) / len(values) for hour, values in found.items()}


def _within(table: Table, began: list[float], hours: list[int]) -> Table:
    wanted = {*hours}
    return table.take([i for i, at in enumerate(began) if int(at // HOUR) in wanted])
