"""`latscope explain`: recorded calls, attributed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import TypeAlias

import click
from rich.text import Text

from latscope.attribution.model import Attribution, Mode
from latscope.cli import select, serverside
from latscope.cli.history import History, learnt, mode_option, profile_option, profiles, rereadable
from latscope.cli.output import LeftOut, Progress, json_line, say, screen
from latscope.errors import InputError, UsageError
from latscope.recording import Recording, ServerSpan
from latscope.report.figures import counted
from latscope.rules.fields import check_field, check_plain

EVERY = 100
"""Calls between two looks of the progress line."""
TICKET = 3
"""Calls of a ticket where `--slowest` does not say: the slowest."""
Pair: TypeAlias = tuple[Recording, Attribution]


@click.command("explain", short_help="where recorded calls spent their time")
@click.argument("files", nargs=-1, metavar="FILE...", type=str)
@select.options
@click.option("--by", default="model,endpoint", show_default=True, help="Fields to group by.")
@click.option("--all", "every", is_flag=True, help="Every call as a waterfall.")
@click.option("--slowest", type=click.IntRange(min=0), metavar="N", help="So many slowest calls.")
@click.option(
    "--spans", "span_files", multiple=True, metavar="FILE", help="Server spans, joined first."
)
@profile_option
@click.option("--no-history", is_flag=True, help="Do not split calls by what the others teach.")
@click.option("--json", "as_json", is_flag=True, help="One attribution a line, nothing else.")
@mode_option
@click.option(
    "--ticket", is_flag=True, help="An account for the vendor: ids, times, bounds, no content."
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
    span_files: tuple[str, ...],
    profile_files: tuple[Path, ...],
    no_history: bool,
    as_json: bool,
    mode: Mode | None,
    ticket: bool,
    owners: bool,
) -> int:
    """Shows where the calls recorded in FILE... spent their time; `-` reads stdin.

    \b
      latscope explain calls.jsonl --where 'tags.team=search and ttft > 500ms'
      latscope explain calls.jsonl --slowest 3
      latscope explain calls.jsonl --id 01JD --ticket > ticket.md
      latscope explain --spans traces.json            what servers alone tell, no client
    """
    if owners:
        _owners()
        if not files:
            return 0
    if span_files and not files:
        _needs_recordings(since, until, where, call_id)
        return serverside.explain(span_files, as_json=as_json, every=every, slowest=slowest)
    _check_files(files, ticket=ticket, as_json=as_json)
    keys = _keys(by)
    wanted = select.selection(since=since, until=until, where_text=where, call_id=call_id)
    reading = _Reading(wanted=wanted, mode=mode)
    reading.history.given.update(profiles(profile_files))
    with rereadable(files) as copies:
        if not no_history:
            reading.history = learnt(copies, reading.history.given, reading.progress)
        if span_files:
            reading.spans = serverside.joined(copies, span_files)
        pairs = _attributed(files, reading)
        found = (call for _, call in pairs)
        try:
            if ticket:
                shown = _print_ticket(reading, pairs, TICKET if slowest is None else slowest)
            elif as_json:
                shown = _print_json(reading, found, slowest)
            else:
                shown = _print(reading, found, keys, every=every, slow=slowest)
        finally:
            reading.progress.end()
    if not shown:
        reading.nothing()
    return reading.end()  # after what could be read: nothing is lost


@dataclass(slots=True, kw_only=True)
class _Reading:
    """Mutable: how far the files are read, and what of them could not be."""

    wanted: select.Selection
    mode: Mode | None
    usable: int = 0
    bad: list[InputError] = field(default_factory=list)
    history: History = field(default_factory=History)
    spans: Iterator[tuple[ServerSpan, ...]] = field(default_factory=lambda: iter(()))
    """Of each recording, in their order, what `--spans` joined to it."""
    progress: Progress = field(default_factory=Progress)
    left_out: LeftOut = field(init=False)

    def __post_init__(self) -> None:
        self.left_out = LeftOut(progress=self.progress)

    def step(self) -> None:
        self.usable += 1
        if self.usable % EVERY == 0:
            self.progress.reached(f"{counted(self.usable, 'call')} read")

    def nothing(self) -> None:
        """No call is what was asked for: told, unless none could be read at all."""
        if self.usable and self.wanted.call_id is not None:
            text = f"no call has an id that starts with {self.wanted.call_id!r}"
            self.bad.append(InputError(text))
        elif self.usable:
            say("no call matches")

    def end(self) -> int:
        self.left_out.end()
        for error in self.bad[:-1]:
            say(str(error))
        if self.bad:
            raise self.bad[-1]
        return InputError.exit_code if self.left_out.refused else 0


def _print(
    reading: _Reading,
    calls: Iterator[Attribution],
    keys: list[str],
    *,
    every: bool,
    slow: int | None,
) -> bool:
    from latscope.cli import show

    found = list(calls)
    reading.progress.end()
    if found:
        show.calls(screen(), found, by=keys, every=every, slow=slow)
    return bool(found)


def _print_json(reading: _Reading, calls: Iterator[Attribution], slow: int | None) -> bool:
    from latscope.attribution.jsonview import to_mapping
    from latscope.report.summary import slowest

    shown = False
    for call in calls if slow is None else slowest(calls, slow):
        reading.progress.end()  # on a terminal both streams share the row
        json_line(to_mapping(call))
        shown = True
    return shown or slow == 0


def _check_files(files: tuple[str, ...], *, ticket: bool, as_json: bool) -> None:
    if not files:
        raise UsageError("explain needs a file of recordings, or - for stdin")
    if ticket and as_json:
        raise UsageError("--ticket is a text to paste; leave out --json, or --ticket")


def _print_ticket(reading: _Reading, pairs: Iterator[Pair], calls: int) -> bool:
    """The slowest calls, in the order they began."""
    from latscope import __version__
    from latscope.report.ticket import Told, ticket

    slowest = nlargest(calls, pairs, key=lambda pair: pair[1].wall_ns)
    reading.progress.end()
    if slowest:
        told = [
            Told(recording=recording, call=call)
            for recording, call in sorted(slowest, key=lambda pair: pair[0].started_at)
        ]
        screen().lines(Text(line) for line in ticket(told, version=__version__))
    return bool(slowest)


def _attributed(files: tuple[str, ...], reading: _Reading) -> Iterator[Pair]:
    """Each usable recording that is asked for, attributed. A line that cannot be used is told and
    left out; the error of a file that cannot be read goes to `bad`, and the next one is read."""
    from latscope.attribution import attribute
    from latscope.documents import recordings

    for file in files:
        problems: list[str] = []
        refused: list[str] = []
        try:
            for recording in recordings.read(file, problems=problems, refused=refused):
                reading.left_out.tell(problems, refused)
                reading.step()
                recording = serverside.with_spans(recording, next(reading.spans, ()))
                if not select.asked_for(recording, reading.wanted):
                    continue
                profile = reading.history.profile_of(recording)
                call = attribute(recording, profile=profile, mode=reading.mode)
                if select.passes(call, reading.wanted):
                    yield recording, call
        except InputError as error:
            reading.bad.append(error)
        reading.left_out.tell(problems, refused)


def _needs_recordings(*options: str | None) -> None:
    if any(option is not None for option in options):
        raise UsageError("--id, --since, --until and --where choose among recordings; give a file")


def _keys(by: str) -> list[str]:
    keys = [key.strip() for key in by.split(",") if key.strip()]
    for key in keys:
        problem = check_field(key) or check_plain(key)
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
