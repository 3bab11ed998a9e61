"""`latscope explain`: recorded calls, attributed."""

from collections.abc import Iterator

import click

from latscope.attribution.model import Attribution, Mode
from latscope.cli import select
from latscope.cli.output import json_line, say, screen
from latscope.errors import InputError, UsageError
from latscope.report.jsonview import check_field

MODES: tuple[Mode, ...] = ("vendor", "self-hosted", "on-device")


@click.command("explain", short_help="where recorded calls spent their time")
@click.argument("files", nargs=-1, metavar="FILE...", type=str)
@select.options
@click.option("--by", default="model,endpoint", show_default=True, help="Fields to group by.")
@click.option("--all", "every", is_flag=True, help="Every call as a waterfall.")
@click.option("--slowest", type=click.IntRange(min=0), metavar="N", help="So many slowest calls.")
@click.option("--json", "as_json", is_flag=True, help="One attribution a line, nothing else.")
@click.option(
    "--mode", type=click.Choice(MODES), help="Whose servers, where the host does not tell."
)
@click.option("--owners", is_flag=True, help="Who owns which segment, and the lever that moves it.")
def explain_command(
    files: tuple[str, ...],
    since: str | None,
    until: str | None,
    where: str | None,
    call_id: str | None,
    by: str,
    every: bool,
    slowest: int | None,
    as_json: bool,
    mode: Mode | None,
    owners: bool,
) -> None:
    """Shows where the calls recorded in FILE... spent their time; `-` reads stdin.

    \b
      latscope explain calls.jsonl --where 'tags.team=search and ttft > 500ms'
      latscope explain calls.jsonl --slowest 3
    """
    if owners:
        _owners()
        if not files:
            return
    if not files:
        raise UsageError("explain needs a file of recordings, or - for stdin")
    keys = _keys(by)
    bad: list[InputError] = []
    wanted = select.selection(since=since, until=until, where_text=where, call_id=call_id)
    found = select.chosen(_attributions(files, mode, bad), wanted)
    if as_json:
        _print_json(found, slowest)
    else:
        _print(list(found), keys, every=every, slow=slowest, asked_id=call_id)
    if bad:  # after what could be read: nothing is lost
        raise bad[0]


def _print(
    found: list[Attribution],
    keys: list[str],
    *,
    every: bool,
    slow: int | None,
    asked_id: str | None,
) -> None:
    from latscope.cli import show

    if not found:
        if asked_id is not None:
            raise InputError(f"no call has an id that starts with {asked_id!r}")
        say("no call matches")
        return
    show.calls(screen(), found, by=keys, every=every, slow=slow)


def _print_json(found: Iterator[Attribution], slow: int | None) -> None:
    from latscope.report.jsonview import to_mapping
    from latscope.report.summary import slowest

    for call in found if slow is None else slowest(found, slow):
        json_line(to_mapping(call))


def _attributions(
    files: tuple[str, ...], mode: Mode | None, bad: list[InputError]
) -> Iterator[Attribution]:
    """Each usable recording, attributed. A broken line is told and left out; a file that cannot be
    read on ends there, its error goes to `bad` and the next file is read."""
    from latscope.attribution import attribute
    from latscope.documents import recordings

    usable = 0
    for file in files:
        problems: list[str] = []
        try:
            for recording in recordings.read(file, problems=problems):
                usable += 1
                _tell(problems)
                yield attribute(recording, mode=mode)
        except InputError as error:
            bad.append(error)
        _tell(problems)
    if usable == 0 and bad:
        for other in bad[1:]:
            say(str(other))
        raise bad[0]


def _tell(problems: list[str]) -> None:
    for problem in problems:
        say(problem)
    problems.clear()


def _keys(by: str) -> list[str]:
    keys = [key.strip() for key in by.split(",") if key.strip()]
    for key in keys:
        problem = check_field(key)
        if problem is not None:
            raise UsageError(f"--by: {problem}")
    if not keys:
        raise UsageError("--by: needs at least one field, such as model")
    return keys


def _owners() -> None:
    from latscope.attribution.owners import OWNERS_TABLE
    from latscope.report.table import owners_lines

    out = screen()
    out.lines(owners_lines(OWNERS_TABLE, width=out.width, colours=out.colours))
