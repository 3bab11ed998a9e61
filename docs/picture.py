"""Draws the pictures of docs/ from real output: demo.svg, the README's, from `latscope demo`;
summary.svg from `latscope explain` of many calls; turns.svg from `latscope turns` of a file.

    python docs/picture.py [SCENARIO ...] [-o FILE]
    python docs/picture.py --summary [SCENARIO ...] [-o FILE]
    python docs/picture.py --turns "calls.jsonl --prices prices.toml" [-o FILE]

Bars are drawn as shapes and every character at its own place, so the picture looks the same
whatever monospace font the reader's machine has.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from rich.color import ColorType
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from latscope.cli.demo import scene_lines, scenes
from latscope.documents.scenarios import DEMO, by_name
from latscope.report import table
from latscope.report.summary import summary

WIDTH = 96
CELL = (8.4, 19.0)
MARGIN = 22.0
HEAD = 40.0
SHOWN = ("loaded-queue", "blind")
BACK = "#15181e"
FRONT = "#d5d9e0"
THEME = TerminalTheme(
    (21, 24, 30),
    (213, 217, 224),
    [
        (70, 75, 85),
        (235, 87, 87),
        (89, 196, 130),
        (226, 185, 82),
        (97, 160, 235),
        (200, 130, 210),
        (90, 190, 200),
        (213, 217, 224),
    ],
)
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the pictures of docs/ from real output.")
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--summary", action="store_true", help="many calls instead of single ones")
    parser.add_argument("--turns", metavar="ARGUMENTS", help="what `latscope turns` is to show")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    folder = Path(__file__).parent
    if given.turns:
        lines, file, label = turns_lines(shlex.split(given.turns)), "turns.svg", "turns"
    elif given.summary:
        lines, file, label = summary_lines(given.scenarios or list(DEMO)), "summary.svg", "explain"
    else:
        lines, file, label = demo_lines(given.scenarios or list(SHOWN)), "demo.svg", "demo"
    output = given.output or folder / file
    output.write_text(picture(list(lines), f"latscope {label}"), encoding="utf-8")
    print(output)


def demo_lines(names: list[str]) -> Iterator[Text]:
    yield Text.assemble(("$ ", "dim"), ("latscope demo", "bold"))
    for scene in scenes(by_name(names), save=None):
        yield Text()
        yield from scene_lines(scene, width=WIDTH, colours=True)


def summary_lines(names: list[str]) -> Iterator[Text]:
    """As of a file that `latscope demo --save` appended to three times."""
    said = "latscope explain demo.jsonl --by model --slowest 0"
    yield Text.assemble(("$ ", "dim"), (said, "bold"))
    yield Text()
    calls = [scene.call for _ in range(3) for scene in scenes(by_name(names), save=None)]
    yield from table.summary_lines(summary(calls, ("model",)), width=WIDTH, colours=True)


def turns_lines(arguments: list[str]) -> Iterator[Text]:
    """What the command itself prints, in its colours."""
    said = " ".join(["latscope turns", *(Path(argument).name for argument in arguments)])
    yield Text.assemble(("$ ", "dim"), (said, "bold"))
    yield Text()
    command = [sys.executable, "-m", "latscope", "turns", *arguments]
    look = {"COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm"}
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(command, env=env | look, capture_output=True, text=True, check=True)
    yield from Text.from_ansi(done.stdout).split("\n")


def picture(lines: list[Text], label: str) -> str:
    width = WIDTH * CELL[0] + 2 * MARGIN
    height = len(lines) * CELL[1] + HEAD + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{label}">',
        f'<rect width="100%" height="100%" rx="10" fill="{BACK}"/>',
        *(
            f'<circle cx="{22 + 20 * index}" cy="20" r="6" fill="{fill}"/>'
            for index, fill in enumerate(("#ff5f57", "#febc2e", "#28c840"))
        ),
        f'<g font-family="{FONT}" font-size="14" xml:space="preserve">',
    ]
    console = Console(width=WIDTH, color_system="truecolor", force_terminal=True)
    for row, text in enumerate(lines):
        parts += _line(console.render(text), HEAD + row * CELL[1])
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _line(segments: Iterable[Segment], top: float) -> Iterator[str]:
    column = 0
    for segment in segments:
        plain = segment.text.rstrip("\n")
        for run in re.finditer("█+|╱|▏|[^█╱▏ ]+", plain):
            style = segment.style or Style()
            yield _run(run.group(), style, column + run.start(), top)
        column += len(plain)


def _run(text: str, style: Style, column: int, top: float) -> str:
    """A stretch without blanks: a bar as a shape, a word at its own place."""
    fill = _colour(style)
    look = f'fill="{fill}"' + (' opacity="0.55"' if style.dim else "")
    if text[0] == "█":
        return _block(column, len(text), top, look)
    if text == "╱":
        return _slash(column, top, fill, 0.55 if style.dim else 1.0)
    if text == "▏":
        return _sliver(column, top, look)
    weight = ' font-weight="bold"' if style.bold else ""
    x = MARGIN + column * CELL[0]
    return (
        f'<text x="{x:.1f}" y="{top + 14:.1f}" textLength="{len(text) * CELL[0]:.1f}"'
        f' lengthAdjust="spacingAndGlyphs" {look}{weight}>{escape(text)}</text>'
    )


def _block(column: int, cells: int, top: float, look: str) -> str:
    x, wide = MARGIN + column * CELL[0], cells * CELL[0]
    return f'<rect x="{x:.1f}" y="{top + 2.5:.1f}" width="{wide:.1f}" height="14" {look}/>'


def _sliver(column: int, top: float, look: str) -> str:
    x = MARGIN + column * CELL[0]
    return f'<rect x="{x:.1f}" y="{top + 2.5:.1f}" width="2" height="14" {look}/>'


def _slash(column: int, top: float, stroke: str, opacity: float) -> str:
    x = MARGIN + column * CELL[0]
    return (
        f'<path d="M{x:.1f} {top + 16.5:.1f} l{CELL[0]:.1f} -14" stroke="{stroke}"'
        f' stroke-width="3" opacity="{opacity}"/>'
    )


def _colour(style: Style) -> str:
    if style.color is None or style.color.type is ColorType.DEFAULT:
        return FRONT
    triplet: ColorTriplet = style.color.get_truecolor(THEME)
    return triplet.hex


if __name__ == "__main__":
    main()
