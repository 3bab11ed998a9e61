"""`latscope claims`: what the source document claims, on its model, a fleet, and real calls."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import click

from latscope.claims import calls, cost, fleet, observed
from latscope.claims.endpoint import Session, measure
from latscope.claims.model import CLAIMS, SOURCES, ClaimId, Row, Source, document
from latscope.claims.plan import CAPS, CROWD_CAP, CROWDS, LONGEST, MOST_REQUESTS, Plan, plan
from latscope.cli import select
from latscope.cli.output import Progress, json_line, open_sink, say, screen
from latscope.errors import EndpointError, InputError, UsageError
from latscope.probe import targets
from latscope.probe.requests import Ask
from latscope.recording import Recording
from latscope.report.figures import counted

TOLD = 10
"""Lines left out of files that are told one by one."""


@click.command("claims", short_help="the source document's claims against measurement")
@click.argument("files", nargs=-1, metavar="[FILE...]", type=str)
@click.option("--url", metavar="TARGET", help="A URL or vendor name: also on this endpoint.")
@click.option("--model", "-m", help="The model to ask, with --url.")
@click.option("--api", type=click.Choice(targets.APIS), help="Default: the vendor's, else chat.")
@click.option(
    "--requests",
    type=click.IntRange(1, 10_000),
    default=MOST_REQUESTS,
    show_default=True,
    help="Sent at most.",
)
@click.option(
    "--longest", type=click.IntRange(1), default=LONGEST, show_default=True, help="Prompt tokens."
)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120.0, help="Seconds.")
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Append recordings.")
@select.options
@click.option("--claim", "asked", multiple=True, type=click.Choice(list(CLAIMS)), metavar="ID")
@click.option("--source", "only", multiple=True, type=click.Choice(SOURCES), help="Only this one.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--strict", is_flag=True, help="Exit with 1 when a claim fails.")
@click.option("--allow-insufficient", is_flag=True, help="With --claim: no exit with 4.")
@click.option("--json", "as_json", is_flag=True, help="latscope.claims/1 on one line.")
def claims_command(
    files: tuple[str, ...],
    asked: tuple[ClaimId, ...],
    only: tuple[Source, ...],
    strict: bool,
    allow_insufficient: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Tests what "Inference Fundamentals" claims of latency: on its own cost model, on a simulated
    fleet, and where asked on an endpoint (--url) and on the calls recorded in FILE... (- for
    stdin). Each row: a slope, its 90 % interval, and holds, fails or insufficient evidence.

    \b
      latscope claims
      latscope claims --url http://127.0.0.1:8000 --model M
      latscope claims calls.jsonl --source file

    Exit codes: 1 a claim fails (--strict), 4 the evidence for a --claim is insufficient.
    """
    found = _Found(asked=asked)
    interrupted = False
    try:
        for source in _sources(files, only, given):
            found.take(_ROWS[source](files, given))
    except KeyboardInterrupt:
        interrupted = True
    found.show(as_json=as_json)
    if interrupted:
        say("interrupted; what was learned is shown")
        return 130
    return found.exit_code(strict=strict, allow_insufficient=allow_insufficient)


@dataclass(slots=True, kw_only=True)
class _Found:
    """Mutable: the rows there are so far, of the claims asked for (none: all)."""

    asked: tuple[ClaimId, ...]
    rows: list[Row] = field(default_factory=list)

    def take(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if not self.asked or row.id in self.asked:
                self.rows.append(row)

    def show(self, *, as_json: bool) -> None:
        if as_json:
            json_line(document(self.rows))
        elif self.rows:
            from latscope.report.claims import claims_lines

            out = screen()
            out.lines(claims_lines(document(self.rows), width=out.width, colours=out.colours))

    def exit_code(self, *, strict: bool, allow_insufficient: bool) -> int:
        """A claim that was asked for by name is open when a source that could tell does not, or
        when there is no source that could."""
        if strict and any(row.verdict == "fails" for row in self.rows):
            return 1
        open_ones = [claim for claim in self.asked if self._open(claim)]
        return 4 if open_ones and not allow_insufficient else 0

    def _open(self, claim: ClaimId) -> bool:
        told = [row for row in self.rows if row.id == claim and row.testable]
        return not told or any(row.verdict == "insufficient evidence" for row in told)


def _sources(
    files: tuple[str, ...], only: tuple[Source, ...], given: Mapping[str, Any]
) -> list[Source]:
    """The models always, an endpoint and files where they are given; of these, `only`. What may go
    wrong comes first, so that nobody waits for it."""
    there: list[Source] = ["file"] if files else []
    there += ["url"] if given["url"] is not None else []
    there += ["cost", "fleet"]
    for source, needs in (("url", "--url"), ("file", "a FILE of recordings")):
        if source in only and source not in there:
            raise UsageError(f"--source {source} needs {needs}")
    for name in ("since", "until", "where", "call_id"):
        if given[name] is not None and not files:
            option = "id" if name == "call_id" else name
            raise UsageError(f"--{option} chooses among recorded calls: give a FILE")
    for name in ("model", "api", "key_env", "save"):
        if given[name] is not None and given["url"] is None:
            raise UsageError(f"--{name.replace('_', '-')} is for --url")
    return [source for source in there if not only or source in only]


# -- the models -----------------------------------------------------------------------------------


def _cost_rows(files: tuple[str, ...], given: Mapping[str, Any]) -> Iterator[Row]:
    return cost.rows()


def _fleet_rows(files: tuple[str, ...], given: Mapping[str, Any]) -> Iterator[Row]:
    progress = Progress()
    try:
        yield from fleet.rows(
            given["seed"], lambda what: progress.reached(f"simulating a fleet: {what}")
        )
    finally:
        progress.end()


# -- an endpoint ----------------------------------------------------------------------------------


def _url_rows(files: tuple[str, ...], given: Mapping[str, Any]) -> Iterator[Row]:
    """Sends the plan's calls. What was learned before an interrupt is judged too."""
    ask = _ask(given)
    todo = plan(given["requests"], given["longest"], given["seed"])
    sink = open_sink(given["save"])
    progress = Progress()

    def tell(text: str) -> None:
        progress.end()
        say(text)

    session = Session(
        ask=ask,
        plan=todo,
        timeout_s=given["timeout"],
        keep=sink.write if sink is not None else _forget,
        tell=lambda done: progress.reached(f"{done} of {counted(todo.requests, 'request')}"),
        say=tell,
    )
    _announce(session)
    interrupted = False
    try:
        asyncio.run(measure(session))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        progress.end()
        if sink is not None:
            sink.close()
    for text, times in session.troubles.items():
        say(f"{text}{f' ({times} calls)' if times > 1 else ''}; left out")
    if not session.calls and not interrupted:
        raise EndpointError(f"{ask.target.url}: no call streamed a token to its end")
    yield from observed.rows(session.calls, "url", session.stopped)
    if interrupted:
        raise KeyboardInterrupt


def _forget(recording: Recording) -> None:
    """Recordings are kept only where --save says so."""


def _announce(session: Session) -> None:
    """What will be sent, before it is."""
    todo: Plan = session.plan
    alone = [block for block in todo.blocks if not block.crowd]
    crowd = sum(len(block.prompts) for block in todo.blocks if block.crowd)
    prompts = sorted({tokens for block in alone for tokens in block.prompts})
    for text in (
        f"{counted(todo.requests, 'request')} ({todo.most} at most) to {session.ask.target.url},"
        f" model {session.ask.model}: about {todo.prompt_tokens:,} prompt tokens and at most"
        f" {todo.output_tokens:,} output tokens",
        f"1 to warm up; {sum(len(block.prompts) for block in alone)} one at a time, prompts of"
        f" about {_listed(prompts)} tokens, {_listed(CAPS)} tokens out; {crowd} of"
        f" {CROWD_CAP} tokens out, {_listed(CROWDS)} at once",
    ):
        say(text)


def _listed(values: Iterable[int]) -> str:
    return ", ".join(f"{value:,}" for value in values)


def _ask(given: Mapping[str, Any]) -> Ask:
    if not (given["model"] or "").strip():
        raise UsageError("--url needs --model: name the model to ask")
    if not isfinite(given["timeout"]):
        raise UsageError("--timeout needs a finite number")
    found = targets.target(given["url"], api=given["api"], key_variable=given["key_env"])
    return Ask(
        target=found, model=given["model"], max_tokens=None, key=targets.key(found, os.environ)
    )


# -- recorded calls -------------------------------------------------------------------------------


def _file_rows(files: tuple[str, ...], given: Mapping[str, Any]) -> Iterator[Row]:
    """Calls of the model that has most of them: slopes across models would compare the models."""
    wanted = select.selection(
        since=given["since"],
        until=given["until"],
        where_text=given["where"],
        call_id=given["call_id"],
    )
    problems: list[str] = []
    seen = [
        call
        for recording in _recordings(files, problems)
        if select.asked_for(recording, wanted)
        and (call := calls.observe(recording, passes=lambda call: select.passes(call, wanted)))
    ]
    for text in problems[:TOLD]:
        say(text)
    if len(problems) > TOLD:
        say(f"and {counted(len(problems) - TOLD, 'more line')} left out")
    if not seen:
        raise InputError(f"{', '.join(files)}: no complete streamed call to judge by")
    chosen = calls.largest(seen)
    if len(chosen) < len(seen):
        endpoint, name = chosen[0].model
        say(
            f"{len(chosen)} of {counted(len(seen), 'call')} judged, those of {name or 'a model'}"
            f" at {endpoint}; --where 'model=...' chooses others"
        )
    return observed.rows(calls.overlapping(chosen), "file")


def _recordings(files: tuple[str, ...], problems: list[str]) -> Iterator[Recording]:
    from latscope.documents import recordings

    for file in files:
        yield from recordings.read(file, problems=problems)


_ROWS: dict[Source, Callable[[tuple[str, ...], Mapping[str, Any]], Iterator[Row]]] = {
    "cost": _cost_rows,
    "fleet": _fleet_rows,
    "url": _url_rows,
    "file": _file_rows,
}
