"""`latscope run`: records a program's calls without a change to its code."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import click

import latscope.cli.startup
from latscope.errors import InputError

RECORDING = b'{"schema":"latscope.recording/'
"""How the sink begins a call's line; a series or an inbound request begins otherwise."""

FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
FROM_TERMINAL = ("SIGINT", "SIGQUIT", "SIGWINCH")
"""Signals a terminal sends to the whole foreground group: the program has them already."""


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="record a program's calls without changing it",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("calls.jsonl"),
    show_default=True,
    help="File the recordings are appended to.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run_command(context: click.Context, output: Path, command: tuple[str, ...]) -> None:
    """Runs COMMAND and records the calls of its OpenAI, Anthropic, httpx and httpx2 clients.

    \b
      latscope run -o calls.jsonl -- python app.py
      latscope explain calls.jsonl

    The exit code is the program's (128 + n when signal n ended it). Works for every Python the
    program starts that has latscope installed and reads PYTHONPATH (not `python -I`).
    """
    output = output.absolute()
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise InputError(f"{output}: cannot be written; nothing was run")
    before = _size(output)
    code = _run(command, _environment(output))
    calls = _lines_after(output, before)
    click.echo(f"latscope: {calls} call{'' if calls == 1 else 's'} recorded in {output}", err=True)
    context.exit(code)


def _environment(output: Path) -> dict[str, str]:
    startup = os.path.dirname(os.path.abspath(latscope.cli.startup.__file__))
    before = os.environ.get("PYTHONPATH")
    path = startup + os.pathsep + before if before else startup
    return {**os.environ, "LATSCOPE_FILE": str(output), "PYTHONPATH": path}


def _run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    """The program's exit code; 127 and 126 as a shell has them when it cannot be started."""
    with _forwarding() as children:
        try:
            child = subprocess.Popen(command, env=environment, close_fds=False)
        except FileNotFoundError:
            click.echo(f"latscope: command not found: {command[0]}", err=True)
            return 127
        except OSError as error:
            click.echo(f"latscope: cannot run {command[0]}: {error.strerror}", err=True)
            return 126
        children.append(child)
        code = child.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _forwarding() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Passes signals on to the program; it decides what they mean, and this process outlives it."""
    children: list[subprocess.Popen[bytes]] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if signal.Signals(number).name in FROM_TERMINAL and _in_foreground():
            return
        for child in children:
            child.send_signal(number)

    # One that is ignored (nohup) stays so: the program inherits that.
    numbers = [getattr(signal, name) for name in FORWARDED]
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    previous = {number: signal.signal(number, forward) for number in heeded}
    try:
        yield children
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    with suppress(OSError), open("/dev/tty", "rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _lines_after(path: Path, offset: int) -> int:
    """How many recordings were added to the file after that byte."""
    with suppress(OSError), path.open("rb") as file:
        file.seek(offset)
        return sum(1 for line in file if line.startswith(RECORDING))
    return 0
