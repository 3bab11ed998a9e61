"""The summary of many calls, and the table of owners and levers, as text of a given width."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from latscope.attribution.model import Mode
from latscope.attribution.owners import Owner
from latscope.report import figures
from latscope.report.bars import HATCH, Canvas, colour, paint, strip_cells
from latscope.report.summary import LEAST_P95, OPEN, Group
from latscope.report.terminal import append_bar, append_names, packed
from latscope.report.view import Share
from latscope.units import MS

COLUMNS = ("calls", "failed", "TTFT p50", "p95", "E2E p50", "p95")
WIDTHS = (5, 6, 8, 8, 8, 8)
WHOLE = 1_000_000
MODES: tuple[Mode, ...] = ("vendor", "self-hosted", "on-device")
Units = tuple[figures.Unit | None, figures.Unit | None]


def summary_lines(groups: Sequence[Group], *, width: int, colours: bool) -> Iterator[Text]:
    """A heading, then for each group: its name, its figures, a bar of median shares; a legend."""
    head = "".join(f"  {name:>{size}}" for name, size in zip(COLUMNS, WIDTHS, strict=True))
    yield Text(f"{head[2:]}", "dim")
    units = (
        figures.common_unit(
            ns for group in groups for ns in (group.ttft_p50_ns, group.ttft_p95_ns)
        ),
        figures.common_unit(
            ns for group in groups for ns in (group.wall_p50_ns, group.wall_p95_ns)
        ),
    )
    for group in groups:
        yield from _group_lines(group, units, width, colours)
    for line in packed(_legend(groups), width):
        yield Text(line, "dim")


def _legend(groups: Sequence[Group]) -> Iterator[str]:
    """What a reader of these groups may ask, and nothing of what they do not show."""
    done = [group for group in groups if group.calls > group.failed]
    parts = [part for group in done for part in group.parts]
    if done:
        yield "bars: medians over the calls that completed"
    if any(group.wall_p95_ns is None for group in done):
        yield f"p95 {figures.UNKNOWN}: below {LEAST_P95} calls it is only the slowest one"
    if any(len(part.candidates) > 1 for part in parts):
        yield f"{HATCH} unsplit: the sum is known, the split is not"
    if any(not part.sure for part in parts):
        yield f"{figures.UNKNOWN} nothing sure of it alone"
    if any(name == OPEN for group in done for name, _ in group.dominant):
        yield "open: the unsplit time could decide"


def _group_lines(group: Group, units: Units, width: int, colours: bool) -> Iterator[Text]:
    for index, text in enumerate(wrap(" · ".join(group.key), width)):
        yield Text(text, "bold" if index == 0 else "")
    yield _figures(group, units)
    if group.calls > group.failed:
        yield _strip(group, min(width, 100), colours)
        yield from _shares(group, width, colours)
        said = ", ".join(f"{name} {n}" for name, n in group.dominant)
        yield Text(f"dominant: {said}")
    yield Text()


def _figures(group: Group, units: Units) -> Text:
    times = (group.ttft_p50_ns, group.ttft_p95_ns, group.wall_p50_ns, group.wall_p95_ns)
    said = [str(group.calls), str(group.failed)]
    said += [figures.duration(ns, MS // 10, units[place // 2]) for place, ns in enumerate(times)]
    line = Text()
    for index, (text, size) in enumerate(zip(said, WIDTHS, strict=True)):
        bad = index == 1 and group.failed > 0
        line.append(f"{'' if index == 0 else '  '}{text:>{size}}", "bold red" if bad else "")
    return line


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
    """Each part with its look in the bar, its name and its share."""
    line = Text()
    for part in group.parts:
        said = Text()
        looks = [paint(part.candidates, place, colours) for place in range(len(part.candidates))]
        append_bar(said, looks)
        said.append(" ")
        append_names(said, part.name, colours)
        size = figures.percent(part.share, 1) if part.sure else figures.UNKNOWN
        said.append(f" {size}", colour(part.name, colours))
        if line.plain and line.cell_len + 3 + said.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, "   ", said) if line.plain else said
    yield line


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
