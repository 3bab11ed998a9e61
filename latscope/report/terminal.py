"""A call as a waterfall in text: strips on top, bars in their place, values, notes.

Every line fits the width it is given. With colours each segment has its own and bars are solid;
without, each has its own glyph. Unsplit time is hatched in the colours of all its candidates.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from textwrap import wrap

from rich.text import Text

from latscope.report import figures
from latscope.report.bars import Canvas, Cell, bar_cells, colour, strip_cells
from latscope.report.notes import Note
from latscope.report.view import CallView, Row, Strip
from latscope.report.words import MARKS, MEANING, OF
from latscope.units import Ns

NARROW = 80
VALUE = 8
LEAST_BOUNDS = 12
TRUTH = 11
TONES = {"bad": "bold red", "warn": "yellow", "strong": "bold", "plain": "", "dim": "dim"}


def call_lines(view: CallView, *, width: int, colours: bool) -> Iterator[Text]:
    """The whole picture of one call."""
    canvas = canvas_for(view, width, colours)
    yield from _header(view, width)
    yield Text()
    yield from _axis(view, canvas)
    for strip in view.strips:
        yield _strip_line(strip, view, canvas)
    yield Text()
    for row in _merged(view.rows, canvas.label):
        yield _row_line(row, view, canvas)
    yield Text()
    yield from _legend(view, width)
    for note in view.notes:
        yield from note_lines(note, label=canvas.label, width=width)


def canvas_for(view: CallView, width: int, colours: bool) -> Canvas:
    """Label, bar and figures side by side; the bar takes what is left, up to 100 cells."""
    label = 13 if width < NARROW else 16
    bounds = _bounds_width(view)
    side = 1 + VALUE + 2 + (1 + bounds if bounds else 0) + (TRUTH if view.has_truth else 0)
    bar = max(8, min(100, width - label - 1 - side))
    return Canvas(label=label, bar=bar, bounds=bounds, colours=colours)


def _header(view: CallView, width: int) -> Iterator[Text]:
    yield Text(_crop(view.title, width), "bold")
    yield Text(_crop(view.endpoint, width), "dim")
    mark, style = ("✓", "green") if view.ok else ("✗", "bold red")
    line = Text.assemble((f"{mark} ", style), (view.facts[0], "" if view.ok else style))
    for fact in view.facts[1:]:
        if line.cell_len + 3 + len(fact) > width:
            yield line
            line = Text("  " + fact)
        else:
            line.append(f" · {fact}")
    yield line


def _axis(view: CallView, canvas: Canvas) -> Iterator[Text]:
    unit, said, rule = ruler(view.wall_ns, canvas.bar)
    head = f" {'time':>{VALUE}}  "
    head += f" {'within':<{canvas.bounds}}" if canvas.bounds else ""
    head += f"{'truth':>{TRUTH - 3}}" if view.has_truth else ""
    yield Text(f"{unit:>{canvas.label}} {said}{head}".rstrip(), "dim")
    yield Text(f"{'':{canvas.label}} {rule}", "dim")


def ruler(wall_ns: Ns, bar: int) -> tuple[str, str, str]:
    """The unit, numbers over ticks, and the ticks; a step of 1, 2 or 5 that leaves ten cells
    between two numbers."""
    unit = figures.unit_for(wall_ns)
    scale = {"us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    step = _step(wall_ns / scale, max(2, bar // 7))
    numbers = [" "] * (bar + 8)
    rule = ["─"] * bar
    tick = 0
    while (at := round(tick * step * scale)) <= wall_ns:
        cell = min(bar - 1, int(at * bar / max(1, wall_ns)))
        said = f"{tick * step:g}"
        if cell + len(said) <= bar:
            rule[cell] = "┬"
            numbers[cell : cell + len(said)] = said
        tick += 1
    return figures.unit_name(unit), "".join(numbers)[:bar], "".join(rule)


def _bounds_width(view: CallView) -> int:
    """0 when no row has bounds wider than its digits."""
    unit = figures.unit_for(view.wall_ns)
    widest = max((len(figures.bounds(row.figure, unit)) for row in view.rows), default=0)
    return max(widest, LEAST_BOUNDS) if widest else 0


def _step(length: float, most: int) -> float:
    """The smallest of 1, 2, 5 x 10^k that cuts `length` into at most `most` stretches."""
    step = 10.0**-3
    while True:
        for factor in (1, 2, 5):
            if length / (step * factor) <= most:
                return step * factor
        step *= 10


def _strip_line(strip: Strip, view: CallView, canvas: Canvas) -> Text:
    line = Text(f"{strip.name:<{canvas.label}} ", "dim" if strip.name == "truth" else "bold")
    cells = strip_cells(strip.shares, view.wall_ns, canvas)
    append_bar(line, cells)
    unit = figures.unit_for(view.wall_ns)
    said = figures.duration(strip.ns, view.resolution_ns, unit)
    line.append(f" {said:>{VALUE}}", "dim" if strip.name == "truth" else "bold")
    return line


def _row_line(row: Row, view: CallView, canvas: Canvas) -> Text:
    unit = figures.unit_for(view.wall_ns)
    line = Text(no_wrap=True)
    _append_label(line, row, canvas)
    append_bar(line, bar_cells(row.bars, row.candidates, view.wall_ns, canvas))
    figure = row.figure
    said = figures.value(figure, unit)
    quiet = "dim" if said == "none" or row.part else ""
    line.append(f" {said:>{VALUE}}", quiet)
    line.append(f" {MARKS[row.provenance] if row.provenance else ' '}", quiet)
    within = figures.bounds(figure, unit)
    if canvas.bounds:
        line.append(f" {within:<{canvas.bounds}}", "dim")
    if row.truth_ns is not None:
        truth = figures.duration(row.truth_ns, view.resolution_ns, unit) if row.truth_ns else "none"
        line.append(f" {truth:>{TRUTH - 3}}", "dim" if truth == "none" else "")
        line.append(" ✓" if row.held else " ✗", "green" if row.held else "bold red")
    return line


def _append_label(line: Text, row: Row, canvas: Canvas) -> None:
    text = f"  {row.name.split('.', 1)[-1]}" if row.part else row.name
    if len(text) > canvas.label:
        text = text.replace(" | ", "|")
    if len(text) > canvas.label:
        several = OF.get(len(row.candidates))
        text = f"any of {several}" if several else text[: canvas.label - 1] + "…"
    if row.part or len(row.candidates) == 1:
        head, dot, tail = text.partition(".")
        line.append(head, "dim" if row.part else colour(row.candidates[0], canvas.colours))
        line.append(dot + tail, "dim")
    else:
        append_names(line, text, canvas.colours)
    line.append(" " * (canvas.label - len(text) + 1))


def append_names(line: Text, text: str, colours: bool) -> None:
    """`queue | prefill`, each name in its colour."""
    for index, word in enumerate(text.replace("|", "\0|\0").split("\0")):
        line.append(word, colour(word.strip(), colours) if index % 2 == 0 else "dim")


def append_bar(line: Text, cells: Sequence[Cell]) -> None:
    """Cells of one style go as one run."""
    for style, run in groupby(cells, key=itemgetter(1)):
        line.append("".join(glyph for glyph, _ in run), style)


def _merged(rows: Iterable[Row], label: int) -> Iterator[Row]:
    """A segment with one part that is all of it takes the part's name: one row says both."""
    for row, parts in _families(rows):
        if len(parts) == 1 and parts[0].figure == row.figure and len(parts[0].name) <= label:
            yield replace(row, name=parts[0].name)
        else:
            yield row
            yield from parts


def _families(rows: Iterable[Row]) -> list[tuple[Row, list[Row]]]:
    families: list[tuple[Row, list[Row]]] = []
    for row in rows:
        if row.part:
            families[-1][1].append(row)
        else:
            families.append((row, []))
    return families


def _legend(view: CallView, width: int) -> Iterator[Text]:
    """The marks in use, then the signs in use."""
    unit = figures.unit_for(view.wall_ns)
    said = [figures.value(row.figure, unit) for row in view.rows]
    signs = []
    if any(text.startswith("≥") for text in said):
        signs.append("≥ at least")
    if figures.UNKNOWN in said:
        signs.append(f"{figures.UNKNOWN} nothing sure of it alone")
    if _bounds_width(view):
        signs.append("within: the hard bounds")
    marks = [f"{MARKS[name]} {MEANING[name]}" for name in view.provenances]
    for line in (*packed(marks, width), *packed(signs, width)):
        yield Text(line, "dim")


def packed(sayings: Iterable[str], width: int) -> Iterator[str]:
    """As many to a line as fit, three blanks between them."""
    line = ""
    for said in sayings:
        if line and len(line) + 3 + len(said) > width:
            yield line
            line = ""
        line += f"   {said}" if line else said
    if line:
        yield line


def note_lines(note: Note, *, label: int, width: int) -> Iterator[Text]:
    """A label, then its lines, wrapped with a hanging indent."""
    head = note.label
    for entry in note.lines:
        parts = wrap(entry, max(20, width - label - 3), break_on_hyphens=False)
        for index, part in enumerate(parts or [""]):
            line = Text(f"{head:<{label}} ", TONES[note.tone] if head else "")
            line.append(part if index == 0 else f"  {part}")
            yield line
            head = ""


def _crop(text: str, width: int) -> str:
    """The text with its middle left out when it is too long."""
    if len(text) <= width:
        return text
    keep = width - 1
    return f"{text[: keep - keep // 2]}…{text[len(text) - keep // 2 :]}"
