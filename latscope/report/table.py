"""The summary of many calls, and the table of owners and levers, as text of a given width."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from latscope.attribution.model import Mode
from latscope.attribution.owners import Owner
from latscope.report import figures
from latscope.report.bars import Canvas, colour, strip_cells
from latscope.report.summary import Group
from latscope.report.terminal import append_bar
from latscope.report.view import Share
from latscope.units import MS

COLUMNS = ("calls", "failed", "TTFT p50", "p95", "E2E p50", "p95")
WIDTHS = (5, 6, 8, 8, 8, 8)
NAMES = {"unattributed": "unsplit"}
WHOLE = 1_000_000
MODES: tuple[Mode, ...] = ("vendor", "self-hosted", "on-device")


def summary_lines(groups: Sequence[Group], *, width: int, colours: bool) -> Iterator[Text]:
    """A heading, then for each group: its name, its figures, a strip of median shares."""
    head = "".join(f"  {name:>{size}}" for name, size in zip(COLUMNS, WIDTHS, strict=True))
    yield Text(f"{head[2:]}", "dim")
    for group in groups:
        yield from _group_lines(group, width, colours)
    yield Text("strip and shares: medians over the calls that completed", "dim")


def _group_lines(group: Group, width: int, colours: bool) -> Iterator[Text]:
    for index, text in enumerate(wrap(" · ".join(group.key), width)):
        yield Text(text, "bold" if index == 0 else "")
    yield _figures(group)
    if group.calls > group.failed:
        yield _strip(group, min(width, 100), colours)
        yield from _shares(group, width, colours)
        said = ", ".join(f"{NAMES.get(name, name)} {n}" for name, n in group.dominant)
        yield Text(f"dominant: {said}")
    yield Text()


def _figures(group: Group) -> Text:
    times = (group.ttft_p50_ns, group.ttft_p95_ns, group.wall_p50_ns, group.wall_p95_ns)
    said = [str(group.calls), str(group.failed), *(figures.duration(ns, MS // 10) for ns in times)]
    line = Text()
    for index, (text, size) in enumerate(zip(said, WIDTHS, strict=True)):
        bad = index == 1 and group.failed > 0
        line.append(f"{'' if index == 0 else '  '}{text:>{size}}", "bold red" if bad else "")
    return line


def _strip(group: Group, width: int, colours: bool) -> Text:
    """Medians need not add up to the whole, so they are drawn in proportion to their sum."""
    total = sum(group.shares.values()) or 1.0
    shares = [
        Share(candidates=(name,), ns=round(WHOLE * share / total))
        for name, share in group.shares.items()
    ]
    line = Text()
    append_bar(line, strip_cells(shares, WHOLE, Canvas(label=0, bar=width, colours=colours)))
    return line


def _shares(group: Group, width: int, colours: bool) -> Iterator[Text]:
    line = Text()
    for name, share in group.shares.items():
        size = figures.UNKNOWN if name in group.unknown else figures.percent(share, 1)
        said = f"{NAMES.get(name, name)} {size}"
        if line.cell_len + 3 + len(said) > width:
            yield line
            line = Text()
        line.append(said if not line.plain else f"   {said}", colour(name, colours))
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
