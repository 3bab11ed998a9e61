"""The claims as text: what each says, then a line a source with slope, interval and verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

from rich.text import Text

LOOKS = {
    "holds": ("✓", "green"),
    "fails": ("✗", "bold red"),
    "insufficient evidence": ("?", "yellow"),
}
NAMES = {
    "cost": "cost model",
    "fleet": "fleet simulator",
    "url": "endpoint",
    "file": "recorded calls",
}
INDENT = 4
ROOMY = 76
"""From this width on sources have their full names."""
SCALES = (("s", 1e-3), ("ms", 1.0), ("µs", 1e3), ("ns", 1e6))
UNKNOWN = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """names of the sources; source, figure: widths of their columns."""

    names: Mapping[str, str]
    source: int
    figure: int
    colours: bool


def claims_lines(found: Mapping[str, Any], *, width: int, colours: bool) -> Iterator[Text]:
    """found: `latscope.claims/1`."""
    table = _table(found, width, colours)
    for claim, rows in groupby(found["claims"], key=lambda row: row["id"]):
        units = found["units"].get(claim, {})
        yield from _head(found["statements"][claim], claim, units, width)
        for row in rows:
            yield _figures(row, units.get(row["source"], ""), table)
            yield from (
                Text(f"{'':{INDENT + 2}}{line}", "dim")
                for line in wrap(row["note"], width - INDENT - 2)
            )
        yield Text()
    yield from _tally(found["claims"], table)
    interval = found["interval"]
    legend = f"{100 * interval['level']:.0f} % intervals in brackets. {interval['method']}"
    yield from (Text(line, "dim") for line in wrap(legend, width))


def _table(found: Mapping[str, Any], width: int, colours: bool) -> _Table:
    """Columns as wide as what stands in them."""
    names = NAMES if width >= ROOMY else {name: name for name in NAMES}
    rows = found["claims"]
    figures = (
        _shown(row, found["units"].get(row["id"], {}).get(row["source"], "")) for row in rows
    )
    return _Table(
        names=names,
        source=max((len(names[row["source"]]) for row in rows), default=0) + 2,
        figure=max(map(len, figures), default=0) + 3,
        colours=colours,
    )


def _head(statement: str, claim: str, units: Mapping[str, str], width: int) -> Iterator[Text]:
    """The statement; under it its id and what the figures are."""
    yield from (Text(line, "bold") for line in wrap(statement, width))
    whats = dict.fromkeys(_what(unit) for unit in units.values())
    said = f"{claim}: {', or '.join(whats)}" if whats else claim
    yield from (Text(line, "dim") for line in wrap(said, width))


def _figures(row: Mapping[str, Any], unit: str, table: _Table) -> Text:
    mark, style = LOOKS[row["verdict"]]
    style = style if table.colours else ""
    name = table.names[row["source"]]
    return Text.assemble(
        f"{'':{INDENT}}",
        (mark, style),
        f" {name:<{table.source}}{_shown(row, unit):<{table.figure}}",
        (row["verdict"], style),
    )


def _shown(row: Mapping[str, Any], unit: str) -> str:
    """`50 ns [48, 53]`: the interval in the slope's own unit."""
    if row["slope"] is None:
        return UNKNOWN
    name, factor = _scale(row, unit)
    ends = [row["slope"], row["low"], row["high"]]
    value, low, high = (None if end is None else end * factor for end in ends)
    places = _places([end for end in (value, low, high) if end is not None])
    return (
        f"{_fixed(value, places)}{f' {name}' if name else ''}"
        f" [{_fixed(low, places)}, {_fixed(high, places)}]"
    )


def _scale(row: Mapping[str, Any], unit: str) -> tuple[str, float]:
    """A time in the unit that leaves the interval's larger end before the point."""
    if not unit.startswith("ms "):
        return ("units" if unit.startswith("units ") else "", 1.0)
    size = max(abs(row[key] or 0.0) for key in ("slope", "low", "high"))
    return next(((name, by) for name, by in SCALES if size * by >= 1), ("ms", 1.0))


def _places(values: Sequence[float]) -> int:
    """Decimals that show three digits of the largest figure, four of what is near 1."""
    size = max(abs(value) for value in values)
    if all(value == round(value) for value in values):
        return 0
    return next((places for places, least in enumerate((100, 10, 2)) if size >= least), 3)


def _fixed(value: float | None, places: int) -> str:
    if value is None:
        return UNKNOWN
    shown = f"{value:,.{places}f}"
    return shown.removeprefix("-") if float(shown.replace(",", "")) == 0 else shown


def _what(unit: str) -> str:
    """What a figure is, without the unit that stands beside it."""
    return unit.removeprefix("ms ").removeprefix("units ")


def _tally(rows: Sequence[Mapping[str, Any]], table: _Table) -> Iterator[Text]:
    """How many of each verdict, a source a line."""
    for source in dict.fromkeys(row["source"] for row in rows):
        line = Text(f"{table.names[source]:<{table.source + INDENT + 2}}")
        told = [row["verdict"] for row in rows if row["source"] == source]
        parts = [
            (f"{LOOKS[verdict][0]} {told.count(verdict)} {verdict}", LOOKS[verdict][1])
            for verdict in LOOKS
            if verdict in told
        ]
        for index, (text, style) in enumerate(parts):
            line.append("   " if index else "")
            line.append(text, style if table.colours else "")
        yield line
