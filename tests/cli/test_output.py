import io

import pytest
from rich.text import Text

from latscope.cli.output import Progress, screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_moves_on_a_terminal_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, written over, cleared at the end; ending twice clears once."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress()
    progress.begin("2 calls")
    progress.step(1, 2)
    progress.end()
    shown = terminal.getvalue()
    progress.end()
    assert shown.split("\r\x1b[2K")[1:] == [
        "latscope: 2 calls ...",
        "latscope: 1 of 2 calls ...",
        "",
    ]
    assert terminal.getvalue() == shown


def test_progress_is_one_line_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """A log gets the beginning only."""
    progress = Progress()
    progress.begin("2 calls")
    progress.step(1, 2)
    progress.end()
    assert capsys.readouterr().err == "latscope: 2 calls\n"


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("10", 60), ("93", 93), ("500", 160)])
def test_widths_are_kept_within_reason(
    columns: str | None, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """COLUMNS holds between what bars need and what eyes follow; a pipe has a fixed width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert screen().width == width


@pytest.mark.parametrize(
    ("setting", "colours"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_for_terminals_that_want_them(
    setting: dict[str, str], colours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal has them unless NO_COLOR or TERM says otherwise; a pipe never has."""
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    out = screen()
    assert out.colours is colours
    out.rule("title")
    out.note("note")
    out.lines([Text("text", "red")])
    assert ("\x1b[31m" in terminal.getvalue()) is colours
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert screen().colours is False
