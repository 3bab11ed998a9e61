"""The summary of many calls, and the table of owners and levers, as text of a given width."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TypeAlias

from rich.text import Text

from latscope.attribution.model import Mode
from latscope.attribution.owners import Owner
from latscope.report import figures
from latscope.report.bars import HATCH, Canvas, colour, paint, strip_cells
from latscope.report.summary import LEAST_P95, OPEN, Group, Part, Times
from latscope.report.terminal import append_bar, append_names, packed
from latscope.report.view import Share
from latscope.rules.censored import Quantile
from latscope.rules.group import Counts
from latscope.units import MS, Ns

COUNTS = ("calls", "stopped", "errors")
TIMES = ("TTFT p50", "p95", "E2E p50", "p95")
LEAST = 8
STEP = MS // 10
"""How finely times are told."""
WHOLE = 1_000_000
MODES: tuple[Mode, ...] = ("vendor", "self-hosted", "on-device")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """counts: of COUNTS those shown; time: width of a time's column; gap: blanks between columns;
    units: of TTFT and of E2E; intervals: whether there is room for them."""

    counts: tuple[str, ...]
    time: int
    gap: int
    units: tuple[figures.Unit | None, figures.Unit | None]
    intervals: bool

    @property
    def left(self) -> int:
        return sum(map(len, self.counts)) + self.gap * (len(self.counts) - 1)


def summary_lines(groups: Sequence[Group], *, width: int, colours: bool) -> Iterator[Text]:
    """A heading, then for each group: its name, its figures, a bar of median shares; a legend."""
    layout = _layout(groups, width)
    yield Text(_row(layout, layout.counts, TIMES), "dim")
    for group in groups:
        yield from _group_lines(group, layout, width, colours)
    for line in packed(_legend(groups, layout), width):
        yield Text(line, "dim")


def _layout(groups: Sequence[Group], width: int) -> _Layout:
    """Columns as wide as what stands in them. Intervals only where they fit, and `stopped` only
    where some call was."""
    some = any(group.counts.stopped for group in groups)
    kept = COUNTS if some else tuple(name for name in COUNTS if name != "stopped")
    units = (
        figures.common_unit(_sizes(group.ttft for group in groups)),
        figures.common_unit(_sizes(group.e2e for group in groups)),
    )
    left = sum(map(len, kept)) + 2 * (len(kept) - 1)
    told, within = ([_cells(say, group, units) for group in groups] for say in _SAYINGS)
    plain = max([LEAST, *(len(cell) for row in told for cell in row)])
    wide = max([plain, *(len(cell) for row in within for cell in row)])
    intervals = any(any(row) for row in within) and left + len(TIMES) * (wide + 2) <= width
    time = wide if intervals else plain
    gap = 2 if left + len(TIMES) * (time + 2) <= width else 1
    return _Layout(counts=kept, time=time, gap=gap, units=units, intervals=intervals)


def _sizes(times: Iterable[Times]) -> Iterator[Ns | None]:
    for found in times:
        for one in _both(found):
            yield None if one is None else one.ns if one.ns is not None else one.at_least_ns


def _both(times: Times) -> tuple[Quantile | None, Quantile | None]:
    return times.p50, times.p95


_Say: TypeAlias = Callable[[Quantile | None, Ns, figures.Unit | None], str]
_SAYINGS: tuple[_Say, _Say] = (figures.quantile, figures.interval)


def _cells(
    say: _Say, group: Group, units: tuple[figures.Unit | None, figures.Unit | None]
) -> list[str]:
    """One text a time: its value, or its interval."""
    pairs = zip((group.ttft, group.e2e), units, strict=True)
    return [say(found, STEP, unit) for times, unit in pairs for found in _both(times)]


def _row(layout: _Layout, counts: Iterable[str], times: Iterable[str]) -> str:
    cells = [f"{text:>{len(name)}}" for name, text in zip(layout.counts, counts, strict=True)]
    return (" " * layout.gap).join([*cells, *(f"{text:>{layout.time}}" for text in times)])


def _legend(groups: Sequence[Group], layout: _Layout) -> Iterator[str]:
    """What a reader of these groups may ask, and nothing of what they do not show."""
    done = [group for group in groups if group.completed]
    parts = [part for group in done for part in group.parts]
    if done:
        yield "bars: medians over the calls that completed"
    if any(group.counts.stopped for group in groups):
        yield "stopped: cancelled, timed out or cut: at least that long"
    if any(map(_limited, groups)):
        yield "> more than: stopped calls hide how much"
    if layout.intervals:
        yield "n: calls that count, and the 90 % intervals"
    if any(group.e2e.p95 is None for group in groups if group.e2e.p50.n):
        yield f"p95 {figures.UNKNOWN}: below {LEAST_P95} calls it is only the slowest one"
    if any(len(part.candidates) > 1 for part in parts):
        yield f"{HATCH} unsplit: the sum is known, the split is not"
    if any(not part.sure for part in parts):
        yield f"{figures.UNKNOWN} nothing sure of it alone"
    if any(name == OPEN for group in done for name, _ in group.dominant):
        yield "open: the unsplit time could decide"


def _limited(group: Group) -> bool:
    found = (*_both(group.ttft), *_both(group.e2e), *(part.p50 for part in group.parts))
    return any(one is not None and one.at_least_ns for one in found)


def _group_lines(group: Group, layout: _Layout, width: int, colours: bool) -> Iterator[Text]:
    for index, text in enumerate(wrap(" · ".join(group.key), width)):
        yield Text(text, "bold" if index == 0 else "")
    yield _figures(group, layout)
    within = _cells(figures.interval, group, layout.units)
    if layout.intervals and any(within):
        yield Text(f"{_counted(group):<{layout.left}}{_times(layout, within)}", "dim")
    if group.counts.sampled:
        yield from (Text(line) for line in wrap(_sampled(group.counts), width))
    if group.completed:
        yield _strip(group, min(width, 100), colours)
        yield from _shares(group, width, colours)
        said = ", ".join(f"{name} {n}" for name, n in group.dominant)
        yield Text(f"dominant: {said}")
    yield Text()


def _figures(group: Group, layout: _Layout) -> Text:
    numbers = dict(
        zip(COUNTS, (group.counts.calls, group.counts.stopped, group.counts.failed), strict=True)
    )
    looks = {"stopped": "yellow", "errors": "bold red"}
    line = Text()
    for index, name in enumerate(layout.counts):
        line.append(" " * layout.gap if index else "")
        line.append(f"{numbers[name]:>{len(name)}}", looks.get(name, "") if numbers[name] else "")
    line.append(_times(layout, _cells(figures.quantile, group, layout.units)))
    return line


def _times(layout: _Layout, cells: Iterable[str]) -> str:
    return "".join(f"{'':{layout.gap}}{text:>{layout.time}}" for text in cells)


def _counted(group: Group) -> str:
    """How many calls the quantiles are of; TTFT's first, where they differ."""
    return "n " + ", ".join(dict.fromkeys((str(group.ttft.p50.n), str(group.e2e.p50.n))))


def _sampled(found: Counts) -> str:
    said = [f"sampled, so about {figures.counted(round(found.total), 'call')}"]
    if found.total_stopped:
        said.append(f"{figures.count(round(found.total_stopped))} stopped")
    if found.total_failed:
        said.append(figures.counted(round(found.total_failed), "error"))
    return ", ".join(said)


def _strip(group: Group, width: int, colours: bool) -> Text:
    """Medians need not add up to the whole, so they are drawn in proportion to their sum."""
    total = sum(part.share for part in group.parts) or 1.0
    shares = [
        Share(candidates=part.candidates, ns=round(WHOLE * part.share / total))
        for part in group.parts
    ]
    line = Text()
    append_bar(line, strip_cells(shares, WHOLE, Canvas(label=0, bar=width, colours=colours)))
    return line


def _shares(group: Group, width: int, colours: bool) -> Iterator[Text]:
    """Each part with its look in the bar, its name, its share and its median time."""
    line = Text()
    for part in group.parts:
        said = Text()
        looks = [paint(part.candidates, place, colours) for place in range(len(part.candidates))]
        append_bar(said, looks)
        said.append(" ")
        append_names(said, part.name, colours)
        size = figures.percent(part.share, 1) if part.sure else figures.UNKNOWN
        said.append(f" {size}", colour(part.name, colours))
        said.append(_time(part), "dim")
        if line.plain and line.cell_len + 3 + said.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, "   ", said) if line.plain else said
    yield line


def _time(part: Part) -> str:
    """Nothing where there is none, or where nothing is sure of it."""
    known = part.p50.at_least_ns if part.p50.ns is None else part.p50.ns
    return f" {figures.quantile(part.p50, STEP, None)}" if known and part.sure else ""


def owners_lines(rows: Iterable[Owner], *, width: int, colours: bool) -> Iterator[Text]:
    """Each segment, and each part with an owner of its own: who in which mode, and the lever."""
    for row in rows:
        name = f"{row.segment}.{row.part}" if row.part else row.segment
        yield Text(name, f"bold {colour(row.segment, colours)}".strip())
        owned = [(mode, row.of(mode)) for mode in MODES if row.of(mode) != "-"]
        for label, said in (*owned, ("lever", row.lever)):
            yield from _labelled(label, said, width)


def _labelled(label: str, said: str, width: int) -> Iterator[Text]:
    for index, text in enumerate(wrap(said, max(20, width - 14))):
        yield Text.assemble((f"  {label if index == 0 else '':<12}", "dim"), text)
