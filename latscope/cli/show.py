"""Attributions on the screen: one as a waterfall, many as a summary and the slowest."""

from collections.abc import Sequence

from latscope.attribution.model import Attribution
from latscope.cli.output import Screen
from latscope.report.summary import DEFAULT_KEYS, slowest, summary
from latscope.report.table import summary_lines
from latscope.report.terminal import call_lines
from latscope.report.view import call_view


def waterfall(screen: Screen, call: Attribution) -> None:
    screen.lines(call_lines(call_view(call), width=screen.width, colours=screen.colours))


def calls(
    screen: Screen,
    found: Sequence[Attribution],
    *,
    by: Sequence[str] = DEFAULT_KEYS,
    every: bool = False,
    slow: int | None = None,
) -> None:
    """One call in full; several as a summary, then the `slow` slowest (1), or every one."""
    if len(found) > 1:
        groups = summary(found, by)
        screen.lines(summary_lines(groups, width=screen.width, colours=screen.colours))
    if every or len(found) == 1:
        chosen, word = list(found), "call"
    else:
        chosen, word = slowest(found, 1 if slow is None else slow), "slowest"
    for index, call in enumerate(chosen, start=1):
        if len(found) > 1:
            many = f" {index} of {len(chosen)}" if len(chosen) > 1 else ""
            screen.lines([])
            screen.rule(f"{word}{many} · {call.call_id}")
        waterfall(screen, call)
