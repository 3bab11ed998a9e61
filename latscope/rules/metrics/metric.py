"""What a metric is: a named figure of a call, told from the call alone or from those around it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from latscope.attribution.model import Mode

Unit: TypeAlias = Literal[
    "ns", "tokens", "bytes", "count", "share", "money", "truth", "text", "per_hour"
]
"""`share` is 0 to 1; `truth` 0 or 1; `money` US dollars; `text` only for `where`."""

Value: TypeAlias = float | str | None
"""Null: this call does not tell it. Never 0 for what is unknown."""

Call: TypeAlias = Mapping[str, Any]
"""One line of `latscope.attribution/1`, parsed."""

Columns: TypeAlias = Mapping[str, Sequence[Value]]
"""By metric name one value a call, calls in the order they began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the table of metrics. Exactly one of `of`, `over` and `whole` is given.

    of: the figure of a call, from its own line. over: one figure a call, from columns of all calls
    of the group (`needs` names them; `started_ns`, wall clock, is always there). whole: one figure
    of the group, with no statistic to take. low, high: names of the metrics that bound it where an
    attribution gives bounds (`queue` is bounded by `queue.low` and `queue.high`). censored: the
    call was stopped before the figure was complete: it is at least what is stated.
    every: it is told from all calls of the group (`idle_before`): of a table from which calls were
    left out for memory's sake, no call tells it.
    modes: in which it can exist at all. collect: what to do to have it, in the imperative.
    """

    name: str
    unit: Unit
    means: str
    of: Callable[[Call], Value] | None = None
    over: Callable[[Columns], Sequence[Value]] | None = None
    whole: Callable[[Columns], float | None] | None = None
    needs: tuple[str, ...] = ()
    low: str | None = None
    high: str | None = None
    censored: Callable[[Call], bool] | None = None
    every: bool = False
    modes: tuple[Mode, ...] = ("vendor", "self-hosted", "on-device")
    collect: str = ""


def number(figure: Callable[[Call], float | None]) -> Callable[[Call], Value]:
    """What a figure or a truth of a call tells, as a number; null where it tells nothing."""

    def of(call: Call) -> Value:
        found = figure(call)
        return None if found is None else float(found)

    return of
