"""`latscope check`: the runbooks judged over recorded calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latscope.attribution.model import Mode
from latscope.cli import select
from latscope.cli.baseline import Keep, check_target
from latscope.cli.calls import Reader, spoken
from latscope.cli.history import MODES, mode_option, profile_option, profiles
from latscope.cli.output import json_line, say, screen, talk, write_text
from latscope.errors import InputError, UsageError
from latscope.report.figures import counted
from latscope.rules.finding import Finding
from latscope.rules.runbook import SEVERITIES, Runbook, Severity
from latscope.rules.table import Gathered

if TYPE_CHECKING:
    from latscope.documents.settings import Settings

INSUFFICIENT = 4
SHOWN = 3
"""Groups that an error names one by one."""


@click.command("check", short_help="what is wrong, whose it is, what to do: the runbooks")
@click.argument("files", nargs=-1, metavar="FILE...", type=str)
@click.option("--baseline", metavar="FILE", help="Healthy calls to compare with.")
@click.option("--before", metavar="FILE", help="Calls of before a fix: is it resolved?")
@click.option(
    "--save-baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Keep the calls as a baseline.",
)
@profile_option
@click.option("--runbooks", "folders", multiple=True, metavar="DIR", help="Pages of your own.")
@click.option("--rule", "asked", multiple=True, metavar="ID", help="Only this runbook.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Exit with 1 from this severity on.",
)
@click.option("--allow-insufficient", is_flag=True, help="No exit with 4.")
@click.option("--config", metavar="FILE", help="Default: the nearest latscope.toml above here.")
@click.option("--prices", metavar="FILE", help="A file of [[prices]].")
@click.option(
    "--list", "listing", is_flag=True, help="The runbooks, and how many cases prove each."
)
@click.option("--checklist", is_flag=True, help="Whether these calls tell what they should.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line.")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="JUnit XML."
)
@click.option("--github", is_flag=True, help="Annotations for GitHub Actions.")
@mode_option
@select.options
def check_command(files: tuple[str, ...], listing: bool, checklist: bool, **given: Any) -> int:
    """Judges the calls in FILE... (recordings, or lines of explain --json; - for stdin) by the
    runbooks: what is wrong, by which evidence, who owns it, what to do, and when it is fixed.

    \b
      latscope check calls.jsonl --save-baseline healthy.jsonl
      latscope check calls.jsonl --baseline healthy.jsonl
      latscope check after.jsonl --baseline healthy.jsonl --before calls.jsonl

    Exit codes: 1 a finding is open, 4 evidence is missing (1 comes first), 3 unusable input.
    """
    asked = _Asked(files=files, given=given)
    settings = _settings(given["config"])
    pages = _pages(settings, given)
    if listing:
        return _list(pages, as_json=given["as_json"])
    if not files:
        raise UsageError("check needs a file of calls, or - for stdin")
    run = _Run(asked=asked, reader=_reader(settings, given))
    return run.checklist() if checklist else run.findings(pages)


# -- what is asked for -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The command line: the files, and the options by name."""

    files: tuple[str, ...]
    given: dict[str, Any]

    def __post_init__(self) -> None:
        sources = [*self.files, self.given["baseline"], self.given["before"]]
        if sources.count("-") > 1:
            raise UsageError("- stands for stdin, which can be read once")
        target = self.given["save_baseline"]
        if target is not None:
            others = [self.given["before"]] if self.given["before"] is not None else []
            check_target(target, [*self.files, *others])

    def selection(self, *, reference: bool) -> select.Selection:
        """Of a reference only what kind of calls are asked for holds, not when they were."""
        given = self.given
        return select.selection(
            since=None if reference else given["since"],
            until=None if reference else given["until"],
            where_text=given["where"],
            call_id=None if reference else given["call_id"],
        )


def _settings(config: str | None) -> "Settings":
    from latscope.documents import settings

    path = Path(config) if config is not None else settings.found(Path.cwd())
    return settings.Settings() if path is None else settings.read(path)


def _pages(settings: "Settings", given: dict[str, Any]) -> tuple[Runbook, ...]:
    from latscope.documents.settings import pages

    found = pages(settings, given["folders"])
    known = [page.id for page in found]
    for name in given["asked"]:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "latscope check --list names them"
            raise UsageError(f"--rule: no runbook {name!r}; {hint}")
    return tuple(page for page in found if not given["asked"] or page.id in given["asked"])


def _reader(settings: "Settings", given: dict[str, Any]) -> Reader:
    from latscope.documents import prices

    own = settings.prices if given["prices"] is None else prices.read(given["prices"])
    return Reader(given=profiles(given["profile_files"]), mode=given["mode"], prices=own)


# -- the run ---------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Run:
    """Mutable through its reader: the calls, read, and what is said of them."""

    asked: _Asked
    reader: Reader

    def findings(self, pages: Sequence[Runbook]) -> int:
        from latscope.rules.check import check, names_of

        given = self.asked.given
        names = names_of(pages)
        calls = self._calls(names)
        baseline = self._reference("baseline", names, calls)
        before = self._reference("before", names, calls)
        found = check(pages, calls, baseline=baseline, before=before, asked=given["asked"])
        self.reader.left_out.end()
        self._show(found, calls)
        return self._exit_code(found)

    def checklist(self) -> int:
        from latscope.rules.checklist import NAMES, checklist

        calls = self._calls(NAMES)
        items = checklist(calls, self._reference("baseline", NAMES, calls))
        self.reader.left_out.end()
        given = self.asked.given
        if given["as_json"]:
            from latscope.report.checklist import document

            json_line(document(items))
        else:
            from latscope.report.checklist import checklist_lines

            out = screen()
            out.lines(checklist_lines(items, width=out.width, colours=out.colours))
        if given["github"]:
            from latscope.report.checklist import annotations

            self._annotate(list(annotations(items)))
        unmet = [item for item in items if item.met is False]
        least = "warning" if any(item.warns for item in unmet) else "info"
        if unmet and SEVERITIES.index(least) >= SEVERITIES.index(given["fail_on"]):
            return 1
        return InputError.exit_code if self.reader.refused else 0

    def _calls(self, names: Any) -> Gathered:
        target = self.asked.given["save_baseline"]
        keep = None if target is None else Keep()
        wanted = self.asked.selection(reference=False)
        found = self.reader.gathered(self.asked.files, names, wanted, keep=keep)
        if keep is not None:
            kept = keep.write(target)
            say(f"{kept} of {counted(found.file.n, 'call')} kept in {target}")
        return found

    def _reference(self, option: str, names: Any, calls: Gathered) -> Gathered | None:
        """The calls of `--baseline` or `--before`. InputError when none of them is of a model and
        endpoint of the file."""
        file: str | None = self.asked.given[option]
        if file is None:
            return None
        found = self.reader.gathered([file], names, self.asked.selection(reference=True))
        missing = [key for key in calls.groups if key not in found.groups]
        if missing and len(missing) == len(calls.groups):
            raise InputError(
                f"--{option}: {file} holds {_groups(found)}, not {_groups(calls)} that is to be"
                " judged; give calls of the same model and endpoint"
            )
        for key in missing[:SHOWN]:
            say(f"--{option}: {file} holds no call of {spoken(key)}: it is judged without")
        if len(missing) > SHOWN:
            say(f"--{option}: nor of {counted(len(missing) - SHOWN, 'other group')}")
        return found

    def _show(self, found: Sequence[Finding], calls: Gathered) -> None:
        from latscope.report import checked

        given = self.asked.given
        if given["as_json"]:
            json_line(checked.document(found))
        else:
            from latscope.report.findings import finding_lines

            out = screen()
            modes = {key: _mode(table.columns["mode"]) for key, table in calls.groups.items()}
            out.lines(finding_lines(found, width=out.width, colours=out.colours, modes=modes))
        if given["github"]:
            self._annotate(list(checked.annotations(found, given["fail_on"])))
        if given["junit"] is not None:
            lenient = given["allow_insufficient"]
            write_text(
                "--junit", given["junit"], checked.junit(found, given["fail_on"], lenient=lenient)
            )

    def _annotate(self, lines: Sequence[str]) -> None:
        """On stdout, where GitHub looks for them too; with --json that is for one line alone."""
        if self.asked.given["as_json"]:
            talk(lines)
        else:
            for line in lines:
                click.echo(line)

    def _exit_code(self, found: Sequence[Finding]) -> int:
        from latscope.report.checked import fails, lacks

        fail_on: Severity = self.asked.given["fail_on"]
        if any(fails(one, fail_on) for one in found):
            return 1
        if self.reader.refused:
            return InputError.exit_code
        lacking = any(lacks(one, fail_on) for one in found)
        return INSUFFICIENT if lacking and not self.asked.given["allow_insufficient"] else 0


def _mode(column: Sequence[Any]) -> Mode:
    """That of the latest call: a group is one endpoint."""
    return next((mode for mode in reversed(column) if mode in MODES), "vendor")


def _groups(found: Gathered) -> str:
    names = [spoken(key) for key in found.groups]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


# -- the runbooks themselves -----------------------------------------------------------------------


def _list(pages: Sequence[Runbook], *, as_json: bool) -> int:
    from latscope.documents.runbooks import counts
    from latscope.report.runbooks import Listed, document, listed_lines

    rows = [
        Listed(id=page.id, title=page.title, severity=page.severity, fires=fires, silent=silent)
        for page in pages
        for fires, silent in (counts(page),)
    ]
    if as_json:
        json_line(document(rows))
    else:
        out = screen()
        out.lines(listed_lines(rows, width=out.width, colours=out.colours))
    return 0
