import io
import json

import pytest
from rich.text import Text

from latscope.cli.output import Progress, _spelled, json_line, screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_moves_on_a_terminal_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, written over, cleared at the end; ending twice clears once."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
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


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_that_cannot_clear_a_line_gets_one_that_stays(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No control sequence reaches it."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", kind)
    progress = Progress()
    progress.begin("2 calls")
    progress.step(1, 2)
    progress.end()
    assert terminal.getvalue() == "latscope: 2 calls\n"


def test_one_call_is_no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """`1 of 1 call`."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    Progress().step(1, 1)
    assert terminal.getvalue().endswith("1 of 1 call ...")


class Latin(io.TextIOWrapper):
    """stdout of a machine that speaks no UTF-8."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="latin-1", errors="replace")

    @property
    def said(self) -> str:
        self.flush()
        self.seek(0)
        return self.read()


def test_a_verdict_is_spelled_where_its_mark_cannot_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right and wrong would both be `?`; a cell is kept for the longer word, the colour stays."""
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = screen().width
    stdout = Latin()
    monkeypatch.setattr("sys.stdout", stdout)
    out = screen()
    line = Text.assemble(("✓", "green"), " done ", ("✗", "red"))
    out.lines([line, Text("neither", "bold"), Text("✗")])
    assert out.width == wide - 1
    assert stdout.said == "ok done x\nneither\nx\n"
    spelled = _spelled(line)
    assert [(spelled.plain[span.start : span.end], span.style) for span in spelled.spans] == [
        ("ok", "green"),
        ("x", "red"),
    ]


def test_json_is_whole_on_any_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the encoding lacks is escaped, not lost."""
    stdout = Latin()
    monkeypatch.setattr("sys.stdout", stdout)
    json_line({"model": "名"})
    assert json.loads(stdout.said) == {"model": "名"}


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
