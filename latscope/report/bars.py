"""Cells of a bar: which glyph in which colour stands at each place of the axis."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from latscope.units import Ns

Cell: TypeAlias = tuple[str, str]
"""A glyph and its style."""

BLANK: Cell = (" ", "")

COLOURS: dict[str, str] = {
    "queue": "#e69f00",
    "prefill": "#56b4e9",
    "decode": "#00a878",
    "network": "#cc79a7",
    "client": "#e8613c",
    "unattributed": "#999999",
}
"""After Okabe and Ito: told apart by people who see colours differently, on dark and light."""

GLYPHS: dict[str, str] = {
    "queue": "▒",
    "prefill": "▓",
    "decode": "█",
    "network": "━",
    "client": "▪",
    "unattributed": "·",
}
"""Without colours the glyph tells the segment."""

SOLID = "█"
HATCH = "╱"
SLIVER = "▏"


@dataclass(frozen=True, slots=True, kw_only=True)
class Canvas:
    """How wide label, bar and bounds are (0: no bounds to show), and whether colours tell the
    segments apart."""

    label: int
    bar: int
    bounds: int = 0
    colours: bool


class Stretch(Protocol):
    @property
    def start_ns(self) -> Ns: ...
    @property
    def end_ns(self) -> Ns: ...
    @property
    def placed(self) -> bool: ...


class Sized(Protocol):
    @property
    def candidates(self) -> Sequence[str]: ...
    @property
    def ns(self) -> Ns: ...


def colour(name: str, colours: bool) -> str:
    return COLOURS.get(name, "") if colours else ""


def paint(candidates: Sequence[str], cell: int, colours: bool) -> Cell:
    """What fills one cell: hatched, in each candidate's colour in turn, when there are several."""
    if len(candidates) > 1:
        return HATCH, colour(candidates[cell % len(candidates)], colours)
    name = candidates[0]
    solid = colours and name != "unattributed"
    return SOLID if solid else GLYPHS[name], colour(name, colours)


def bar_cells(
    bars: Iterable[Stretch], candidates: Sequence[str], wall_ns: Ns, canvas: Canvas
) -> list[Cell]:
    """Bars on the axis. A cell is filled when at least half of it is covered; a stretch too short
    for that still shows, as a sliver where its middle lies."""
    bars = list(bars)
    covered = [0.0] * canvas.bar
    for bar in bars:
        _cover(covered, bar, wall_ns)
    cells = [BLANK] * canvas.bar
    for index, share in enumerate(covered):
        if share >= 0.5:
            cells[index] = paint(candidates, index, canvas.colours)
    for bar in bars:
        middle = _cell((bar.start_ns + bar.end_ns) // 2, wall_ns, canvas.bar)
        if cells[middle] == BLANK:
            cells[middle] = SLIVER, paint(candidates, middle, canvas.colours)[1]
    return cells


def strip_cells(shares: Iterable[Sized], wall_ns: Ns, canvas: Canvas) -> list[Cell]:
    """Shares laid end to end on the same axis, their ends rounded, so the strip's own length is."""
    cells = [BLANK] * canvas.bar
    reached = 0
    for share in shares:
        begin = _edge(reached, wall_ns, canvas.bar)
        reached += share.ns
        for index in range(begin, _edge(reached, wall_ns, canvas.bar)):
            cells[index] = paint(share.candidates, index, canvas.colours)
    return cells


def laid_cells(shares: Iterable[Sized], start_ns: Ns, wall_ns: Ns, canvas: Canvas) -> list[Cell]:
    """Shares laid end to end from `start_ns` on. A cell that is at least half covered shows what
    covers most of it; shares too short for any cell show as a sliver."""
    size = max(1, wall_ns) / canvas.bar
    most: list[tuple[float, Sequence[str]]] = [(0.0, ())] * canvas.bar
    covered = [0.0] * canvas.bar
    begin = end = start_ns
    for share in shares:
        begin, end = end, end + share.ns
        for index in range(int(begin / size), min(canvas.bar, int(end / size) + 1)):
            part = max(0.0, min(end / size, index + 1) - max(begin / size, index))
            covered[index] += part
            most[index] = max(most[index], (part, share.candidates))
    cells = [
        paint(able, index, canvas.colours) if able and share >= 0.5 else BLANK
        for index, (share, (_, able)) in enumerate(zip(covered, most, strict=True))
    ]
    if all(cell == BLANK for cell in cells):
        middle = _cell((start_ns + end) // 2, wall_ns, canvas.bar)
        able = most[middle][1]
        cells[middle] = SLIVER, paint(able, middle, canvas.colours)[1] if able else ""
    return cells


def _cover(covered: list[float], bar: Stretch, wall_ns: Ns) -> None:
    size = max(1, wall_ns) / len(covered)
    first, last = bar.start_ns / size, bar.end_ns / size
    for index in range(max(0, int(first)), min(len(covered), int(last) + 1)):
        covered[index] += max(0.0, min(last, index + 1) - max(first, index))


def _cell(at_ns: Ns, wall_ns: Ns, width: int) -> int:
    return max(0, min(width - 1, int(at_ns * width / max(1, wall_ns))))


def _edge(at_ns: Ns, wall_ns: Ns, width: int) -> int:
    return max(0, min(width, round(at_ns * width / max(1, wall_ns))))
