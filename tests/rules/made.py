"""Calls, tables and pages made from a few figures, for the tests of rules."""

from collections.abc import Iterable
from typing import Any

from latscope.rules.drawn import drawn
from latscope.rules.metrics.metric import Call
from latscope.rules.runbook import Bound, Cause, Condition, Runbook
from latscope.rules.table import Table, gather
from latscope.units import S


def call(name: str = "c", at_ns: int = 0, **values: Any) -> dict[str, Any]:
    """A call of these figures; `__` in a keyword stands for a dot."""
    return drawn({key.replace("__", "."): value for key, value in values.items()}, name, at_ns)


def calls(metric: str, values: Iterable[Any], *, every: int = S, **others: Any) -> list[Call]:
    """A call for each value of one metric."""
    return [
        drawn({**others, metric: value}, f"c{at}", at * every) for at, value in enumerate(values)
    ]


def table(metric: str, values: Iterable[Any], *more: str, **others: Any) -> Table:
    """A table of such calls, with the columns of that metric and of `more`."""
    return gather(calls(metric, values, **others), {metric, *more}).file


def above(metric: str = "ttft", value: float = 0.0, **more: Any) -> Condition:
    given = {"stat": "p50", "how": "above", "bound": Bound(against="value", value=value), **more}
    return Condition(metric=metric, **given)


def page(**more: Any) -> Runbook:
    given: dict[str, Any] = {
        "id": "slow",
        "title": "Slow",
        "severity": "warning",
        "symptom": (above("ttft", 1 * S),),
    }
    return Runbook(**(given | more))


def cause(name: str, *conditions: Condition, **more: Any) -> Cause:
    given: dict[str, Any] = {"says": f"it is {name}", "segment": name, **more}
    return Cause(id=name, conditions=conditions, **given)
