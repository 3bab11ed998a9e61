"""The pictures as text, at three widths, with colours and without.

The files in `golden/` are what a reader sees; after a wanted change write them anew with
`UPDATE_GOLDEN=1 pytest tests/report` and read the difference.
"""

import io
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from latscope.attribution.model import Attribution
from latscope.attribution.owners import OWNERS_TABLE
from latscope.recording import Sample
from latscope.report.summary import summary
from latscope.report.table import owners_lines, summary_lines
from latscope.report.terminal import call_lines
from latscope.report.view import call_view
from latscope.units import MS, S

from . import samples

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (60, 80, 120)

Draw = Callable[[int, bool], Iterable[Text]]


def waterfall(call: Attribution) -> Draw:
    return lambda width, colours: call_lines(call_view(call), width=width, colours=colours)


def groups(width: int, colours: bool) -> Iterable[Text]:
    calls = [samples.reported_call(), samples.blind_call(), samples.blind_call()]
    calls += [samples.failed_call()]
    calls += [replace(samples.failed_call(), model="other", wall_ns=12_345_678_901)]
    return summary_lines(summary(calls), width=width, colours=colours)


def many(width: int, colours: bool) -> Iterable[Text]:
    """A hundred calls of which 20 were left and 3 refused; some of another model, sampled."""
    calls = [
        replace(call, wall_ns=call.wall_ns + 7 * at * MS, first_token_ns=300 * MS + 3 * at * MS)
        for at in range(77)
        for call in [samples.reported_call()]
    ]
    left = samples.attribution([samples.piece(S, "queue|prefill")], None)
    calls += [replace(left, status="cancelled", headers_ns=None)] * 20
    calls += [replace(samples.refused_call(), model="tiny")] * 3
    sampling = Sample(rate=0.1, why="random")
    calls += [replace(samples.blind_call(), model="vendor", sample=sampling)] * 12
    return summary_lines(summary(calls), width=width, colours=colours)


def owners(width: int, colours: bool) -> Iterable[Text]:
    return owners_lines(OWNERS_TABLE, width=width, colours=colours)


PICTURES: dict[str, Draw] = {
    "reported": waterfall(samples.reported_call()),
    "blind": waterfall(samples.blind_call()),
    "truth": waterfall(samples.with_truth(samples.reported_call(), queue=3_000_000)),
    "blind-truth": waterfall(samples.with_truth(samples.blind_call())),
    "failed": waterfall(samples.failed_call()),
    "retried": waterfall(samples.retried_call()),
    "long": waterfall(samples.long_call()),
    "summary": groups,
    "many": many,
    "owners": owners,
}


def drawn(draw: Draw, width: int, colours: bool) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        force_terminal=colours,
        color_system="truecolor" if colours else None,
        highlight=False,
    )
    for text in draw(width, colours):
        text.rstrip()
        console.print(text, soft_wrap=True)
    return file.getvalue()


@pytest.mark.parametrize("colours", [False, True], ids=["plain", "colour"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_the_one_on_file(name: str, width: int, colours: bool) -> None:
    """Nothing in a picture changes unnoticed."""
    file = GOLDEN / f"{name}-{width}{'-colour' if colours else ''}.txt"
    text = drawn(PICTURES[name], width, colours)
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [*WIDTHS, 100, 160])
@pytest.mark.parametrize("name", PICTURES)
def test_every_line_fits_its_width(name: str, width: int) -> None:
    """No line is longer than the terminal, so none wraps."""
    for line in drawn(PICTURES[name], width, False).splitlines():
        assert len(line) <= width, line


@pytest.mark.parametrize("name", PICTURES)
def test_colours_change_bars_and_nothing_else(name: str) -> None:
    """Without colours the same words stand at the same places; only bar glyphs differ."""
    bars = str.maketrans(dict.fromkeys("█▓▒━▪", "#"))
    plain, coloured = (
        ["".join(text.plain) for text in PICTURES[name](80, colours)] for colours in (False, True)
    )
    assert [line.translate(bars) for line in plain] == [line.translate(bars) for line in coloured]


def test_without_colours_no_escape_is_written() -> None:
    """A pipe gets text only."""
    assert "\x1b" not in drawn(PICTURES["reported"], 80, False)
    assert "\x1b" in drawn(PICTURES["reported"], 80, True)
