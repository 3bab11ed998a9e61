"""Where text goes: results to stdout, talk to stderr; widths, colours and pipes respected."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from latscope.errors import InputError
from latscope.export.jsonl import JSONLSink
from latscope.report.figures import counted

LEAST = 60
MOST = 160
"""Narrower, bars say nothing; wider, lines only get harder to read."""
PIPED = 100
"""Width where there is no terminal and COLUMNS does not say."""


@dataclass(frozen=True, slots=True)
class Screen:
    """stdout for people. colours: whether segments are told apart by colour."""

    console: Console
    width: int
    colours: bool
    marks: bool = True
    """Whether ✓ and ✗ can be shown; else they are spelled out: they are a verdict, not a look."""

    def lines(self, texts: Iterable[Text]) -> None:
        for text in texts:
            text.rstrip()
            text.plain = harmless(text.plain)
            said = text if self.marks else _spelled(text)
            self.console.print(said, soft_wrap=True, highlight=False)

    def note(self, text: str) -> None:
        """A quiet line."""
        self.console.print(Text(harmless(text), "dim"), soft_wrap=True)

    def rule(self, title: str) -> None:
        said = f"── {harmless(title)} "
        self.console.print(Text(said + "─" * max(0, self.width - len(said)), "bold"))


MARKS = {"✓": "ok", "✗": "x"}


def _spelled(text: Text) -> Text:
    """The marks in letters, in their own colour."""
    said = Text(end="")
    for part in text.divide(
        [at + end for at, char in enumerate(text.plain) if char in MARKS for end in (0, 1)]
    ):
        word = MARKS.get(part.plain)
        said.append_text(
            part if word is None else Text(word, part.spans[0].style if part.spans else "")
        )
    said.end = text.end
    return said


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Left to the one door errors leave through; rich would end the process with 1."""
        raise BrokenPipeError


def screen() -> Screen:
    console = _Console(file=sys.stdout, highlight=False, emoji=False, markup=False)
    asked = console.width if console.is_terminal or "COLUMNS" in os.environ else PIPED
    marks = _can_show("".join(MARKS))
    console.width = max(LEAST, min(MOST, asked))
    width = console.width if marks else console.width - 1  # `ok` takes a cell more than its mark
    colours = console.color_system is not None and not console.no_color
    return Screen(console=console, width=width, colours=colours, marks=marks)


def _can_show(text: str) -> bool:
    """Whether stdout's encoding has these characters."""
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def harmless(text: str) -> str:
    """The text with each control or direction character as `\ufffd`: what a server or a file says
    must not steer the terminal, nor start a line of its own."""
    return "".join("\ufffd" if unicodedata.category(char) in STEERING else char for char in text)


STEERING = ("Cc", "Cf", "Zl", "Zp")


def say(text: str) -> None:
    """Talk: one line on stderr."""
    click.echo(f"latscope: {harmless(text)}", err=True)


def talk(lines: Iterable[str]) -> None:
    """Several lines on stderr that belong together, laid out as they are."""
    for line in lines:
        click.echo(harmless(line.rstrip()), err=True)


def json_line(value: Mapping[str, Any]) -> None:
    """One JSON line on stdout, out at once; escaped where stdout cannot show it all."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not _can_show(text):
        text = json.dumps(value, separators=(",", ":"))
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Without its errno click leaves it alone; with it click would end the process with 1.
        raise BrokenPipeError from None


def open_sink(path: Path | None) -> JSONLSink | None:
    """A sink for `--save`; InputError now, not after the calls, when the file cannot be written."""
    if path is None:
        return None
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError as error:
        raise InputError(f"--save: {path} cannot be written: {error.strerror}") from error
    return JSONLSink(path)


def write_text(option: str, path: Path, text: str) -> None:
    """A file a user asked for; InputError, naming the option, when it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{option}: {path} cannot be written: {error.strerror}") from error


TOLD = 10
"""Lines left out that are told one by one."""

UNMOVED = ("dumb", "unknown")
"""Kinds of terminal without a way to clear a line."""


class Progress:
    """One line on stderr that says how far a run is; nothing moves where stderr is no terminal, or
    one that cannot clear a line."""

    def __init__(self) -> None:
        self.moving = sys.stderr.isatty() and os.environ.get("TERM") not in UNMOVED
        self.shown = False

    def begin(self, text: str) -> None:
        if self.moving:
            self._show(text)
        else:
            say(text)

    def step(self, number: int, of: int, noun: str = "call") -> None:
        self.reached(f"{number} of {counted(of, noun)}")

    def reached(self, text: str) -> None:
        """How far it is, where a line can move; else nothing."""
        if self.moving:
            self._show(text)

    def end(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
            self.shown = False

    def _show(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2Klatscope: {text} ...")
        sys.stderr.flush()
        self.shown = True


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """Mutable: the lines of files that could not be used. The first few are told one by one, the
    others counted. refused: whether some were whole, yet of another version or out of range."""

    progress: Progress
    count: int = 0
    refused: bool = False

    def tell(self, problems: list[str], refused: list[str]) -> None:
        """Empties both lists."""
        self.refused = self.refused or bool(refused)
        for problem in (*problems, *refused):
            self.count += 1
            if self.count <= TOLD:
                self.progress.end()
                say(problem)
        problems.clear()
        refused.clear()

    def end(self) -> None:
        """Tells how many there were beyond those told."""
        if self.count > TOLD:
            say(f"and {counted(self.count - TOLD, 'more line')} left out")
