"""`latscope`: the group of commands, and the one door errors leave through.

Commands are imported when they are asked for, so `latscope --help` costs little. Every error a
user can cause is one line on stderr and an exit code: 2 wrong usage, 3 unusable input or endpoint,
130 interrupted. stdout carries results only.
"""

import errno
import os
import sys
from importlib import import_module
from typing import Any

import click

from latscope import __version__
from latscope.errors import LatscopeError

COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("latscope.cli.demo", "demo_command", "six simulated calls, each beside the truth"),
    "probe": ("latscope.cli.probe", "probe_command", "send calls to an endpoint and split them"),
    "calibrate": (
        "latscope.cli.calibrate",
        "calibrate_command",
        "probe an endpoint in pairs for its profile",
    ),
    "budget": ("latscope.cli.budget", "budget_command", "what prompt and output keep a target"),
    "explain": ("latscope.cli.explain", "explain_command", "where recorded calls spent their time"),
    "check": ("latscope.cli.check", "check_command", "what is wrong, and what to do: the runbooks"),
    "compare": ("latscope.cli.compare", "compare_command", "which segment moved, and how sure"),
    "turns": (
        "latscope.cli.turns",
        "turns_command",
        "one waterfall a user action: its calls, and the time outside them",
    ),
    "join": ("latscope.cli.join", "join_command", "server spans joined to recorded calls"),
    "export": (
        "latscope.cli.export",
        "export_command",
        "recorded calls to a collector, as traces and metrics",
    ),
    "run": ("latscope.cli.run", "run_command", "record a program's calls without changing it"),
    "kv": ("latscope.cli.kv", "kv_command", "memory of the KV cache, and what fits"),
    "claims": (
        "latscope.cli.claims",
        "claims_command",
        "what is said of latency, against measurement",
    ),
    "sim": ("latscope.cli.sim", "sim_group", "the simulated server, fleet and cost model"),
}
"""Name -> (module, attribute, one line of help), in the order help shows them."""


class Lazy(click.Group):
    """A group that knows its commands' names and help without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        command: click.Command = getattr(import_module(row[0]), row[1])
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[2]) for name, row in COMMANDS.items()])


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="latscope %(version)s")
def cli() -> None:
    """Where each millisecond of an LLM request went, and how sure that is.

    \b
      latscope demo                                   no key, no network
      latscope probe http://127.0.0.1:8000 --model M
      latscope explain calls.jsonl
    """


def main(arguments: list[str] | None = None) -> None:
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Runs a command line; gives its exit code. Never a traceback for what a user can cause."""
    _tolerant(sys.stdout)
    _tolerant(sys.stderr)
    try:
        outcome: Any = cli.main(args=arguments, prog_name="latscope", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone; a last flush at exit would complain about it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LatscopeError as error:
        return _complain(" ".join(str(error).split()), error.exit_code)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.UsageError as error:
        return _misused(error)
    except click.ClickException as error:
        return _complain(" ".join(error.format_message().split()), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", 130)
    except Exception as error:
        return _bug(error)
    return outcome if isinstance(outcome, int) else 0


def _misused(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)  # the help itself, as it is laid out
        return 2
    hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
    return _complain(" ".join(error.format_message().split()) + hint, 2)


def _bug(error: Exception) -> int:
    """A fault of latscope's own. The message is left out: it may quote what it stumbled over."""
    if os.environ.get("LATSCOPE_DEBUG"):
        raise error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO, errno.EDQUOT):
        return _complain(f"the output cannot be written: {error.strerror}", 3)
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at else "?"
    kind = type(error).__name__
    return _complain(
        f"a fault of latscope itself ({kind} at {where}); LATSCOPE_DEBUG=1 shows it", 3
    )


def _complain(text: str, code: int) -> int:
    from latscope.cli.output import say

    say(text)
    return code


def _tolerant(stream: Any) -> None:
    """Bars have no ASCII form: where the terminal cannot show one, a `?` stands, not a failure."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
