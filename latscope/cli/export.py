"""`latscope export`: recorded calls to a collector, as traces and metrics with their own times."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from latscope.attribution.model import Mode
from latscope.cli import select
from latscope.cli.history import History, learnt, mode_option, profile_option, profiles, rereadable
from latscope.cli.output import LeftOut, Progress, json_line, say
from latscope.errors import EndpointError, InputError, UsageError
from latscope.export.otlp.settings import Protocol, Signal, Way, wants_delta, way
from latscope.report.figures import counted

SCHEMA = "latscope.export/1"
EVERY = 50
"""Calls between two looks of the progress line."""
SAID = 5
"""Different reasons of a collector that are told."""
NOUNS: dict[Signal, str] = {"traces": "span", "metrics": "point"}


@click.command("export", short_help="recorded calls to a collector, as traces and metrics")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=str)
@click.option("--otlp", "url", metavar="URL", help="The collector, like http://127.0.0.1:4318.")
@click.option("--protocol", type=click.Choice(("http", "grpc")), help="Default: grpc at port 4317.")
@click.option("--traces/--no-traces", default=True, help="A trace a call.")
@click.option("--metrics/--no-metrics", default=True, help="Histograms and counters.")
@click.option(
    "--headers", multiple=True, metavar="K=V", help="Sent along; a key is better in the variable."
)
@click.option(
    "--aliases", "--old-names", is_flag=True, help="Also the names of before, and of backends."
)
@click.option("--tag", "tags", multiple=True, metavar="NAME", help="A tag to put on metrics.")
@click.option("--patience", type=click.FloatRange(0), default=60.0, help="Seconds of retrying.")
@select.options
@profile_option
@click.option("--no-history", is_flag=True, help="Do not split calls by what the others teach.")
@mode_option
@click.option("--json", "as_json", is_flag=True, help="What became of it, as one JSON line.")
def export_command(
    files: tuple[str, ...],
    url: str | None,
    protocol: Protocol | None,
    traces: bool,
    metrics: bool,
    headers: tuple[str, ...],
    aliases: bool,
    tags: tuple[str, ...],
    patience: float,
    since: str | None,
    until: str | None,
    where: str | None,
    call_id: str | None,
    profile_files: tuple[Path, ...],
    no_history: bool,
    mode: Mode | None,
    as_json: bool,
) -> int:
    """Sends the calls recorded in FILE... (`-` reads stdin) to an OpenTelemetry collector.

    \b
      latscope export calls.jsonl --otlp http://127.0.0.1:4318
      latscope export calls.jsonl --otlp http://127.0.0.1:4317 --since 2h --no-metrics

    A call becomes a trace: its inference span, its HTTP attempts, and a span for each piece of its
    time. Spans and metrics carry the times of then; ids stay the same when a call is exported
    again. Lines of latscope.attribution/1 have no chunks and no pieces, and become metrics only.
    Prompts, answers and keys are in none of it.

    Without --otlp the address comes from OTEL_EXPORTER_OTLP_ENDPOINT; headers, TLS files, timeout
    (seconds), compression and temporality from the usual OTEL_EXPORTER_OTLP_* variables, the name
    of the service from OTEL_SERVICE_NAME.
    """
    if not traces and not metrics:
        raise UsageError("--no-traces and --no-metrics leave nothing to send")
    given: Any = {
        "url": url,
        "protocol": protocol,
        "headers": headers,
        "environment": os.environ,
    }
    ways = [
        way("traces", **given) if traces else None,
        way("metrics", **given) if metrics else None,
    ]
    wanted = select.selection(since=since, until=until, where_text=where, call_id=call_id)
    state = _State(wanted=wanted, mode=mode)
    with closing(
        _exporter(
            ways,
            aliases=aliases,
            tags=tags,
            delta=wants_delta(os.environ),
            patience_s=patience,
            waiting=state.waits,
        )
    ) as exporter:
        try:
            _feed(exporter, files, state, profiles(profile_files), history=not no_history)
            if state.calls:
                state.progress.reached("sending what is left")
                exporter.finish()
            if exporter.no_ids:
                state.waits(f"{counted(exporter.no_ids, 'call')} with ids that are none: no spans")
        except KeyboardInterrupt:
            state.progress.end()
            if metrics and state.calls:
                say("no metrics were sent: they are made when all calls are read")
            _tell(exporter.accounts(), state, traces, as_json=as_json)
            raise
        finally:
            state.progress.end()
        return _tell(exporter.accounts(), state, traces, as_json=as_json)


def _exporter(ways: Sequence[Way | None], **how: Any) -> Any:
    from latscope.export.otlp.exporter import Exporter

    return Exporter(traces=ways[0], metrics=ways[1], **how)


@dataclass(slots=True, kw_only=True)
class _State:
    """Mutable: how far the files are read."""

    wanted: select.Selection
    mode: Mode | None
    calls: int = 0
    lines: int = 0
    """Of them, lines of attributions."""
    progress: Progress = field(default_factory=Progress)
    left_out: LeftOut = field(init=False)

    def __post_init__(self) -> None:
        self.left_out = LeftOut(progress=self.progress)

    def step(self) -> None:
        self.calls += 1
        if self.calls % EVERY == 0:
            self.progress.reached(f"{counted(self.calls, 'call')} exported")

    def waits(self, why: str) -> None:
        self.progress.end()
        say(why)


def _feed(
    exporter: Any, files: Sequence[str], state: _State, given: dict[Any, Any], *, history: bool
) -> None:
    with rereadable(files) as copies:
        known = learnt(copies, given, state.progress) if history else History(given=dict(given))
        for line in _lines(files, state):
            if isinstance(line, dict):
                if not select.chosen(line, state.wanted):
                    continue
                exporter.take_line(line)
                state.lines += 1
            elif not _taken(exporter, line, state, known):
                continue
            state.step()
            if exporter.lost:
                return
    if not state.calls:
        raise InputError(f"{', '.join(files)}: no call matches what was asked for")


def _lines(files: Sequence[str], state: _State) -> Iterator[Any]:
    from latscope.documents import lines

    for file in files:
        problems: list[str] = []
        refused: list[str] = []
        for line in lines.read(file, problems=problems, refused=refused):
            if problems or refused:
                state.left_out.tell(problems, refused)
            yield line
        state.left_out.tell(problems, refused)


def _taken(exporter: Any, recording: Any, state: _State, known: History) -> bool:
    from latscope.attribution.attribute import attribute_timeline
    from latscope.timeline import build

    if not select.asked_for(recording, state.wanted):
        return False
    timeline = build(recording)
    profile = known.profile_of(recording)
    call = attribute_timeline(recording, timeline, profile=profile, mode=state.mode)
    if not select.passes(call, state.wanted):
        return False
    exporter.take(recording, timeline, call)
    return True


# -- what became of it -----------------------------------------------------------------------------


def _tell(accounts: Sequence[Any], state: _State, traces: bool, *, as_json: bool) -> int:
    state.left_out.end()
    if state.lines and traces:
        say(
            f"{counted(state.lines, 'line')} of latscope.attribution/1 hold no chunks and no"
            " pieces: they became metrics, not traces"
        )
    lost = [account for account in accounts if account.given_up is not None]
    if as_json:
        json_line(to_mapping(accounts, state))
    elif len(lost) < len(accounts) or any(account.sent for account in accounts):
        for account in accounts:
            click.echo(_words(account, state))
    for account in accounts:
        for reason, n in list(account.said.items())[:SAID]:
            said = f"{counted(n, NOUNS[account.signal])} refused" if n else "it warns"
            say(f"{account.url}: {said}: {reason or 'no reason given'}")
    if lost:
        raise EndpointError("; ".join(dict.fromkeys(_lost(account) for account in lost)))
    whole = all(account.whole for account in accounts) and not state.left_out.refused
    return 0 if whole else EndpointError.exit_code


def _words(account: Any, state: _State) -> str:
    noun = NOUNS[account.signal]
    text = f"{account.signal}: {counted(account.sent, noun)} of {counted(state.calls, 'call')}"
    text += f" taken by {account.url} in {counted(account.requests, 'request')}"
    for n, what in (
        (account.repeats, "of them repeated"),
        (account.rejected + account.refused, f"{noun}s refused"),
        (account.unsent, f"{noun}s not sent"),
    ):
        text += f"; {n} {what}" if n else ""
    return text


def _lost(account: Any) -> str:
    if account.unreachable:
        where = account.url.removesuffix(f"/v1/{account.signal}")
        return (
            f"{where} cannot be reached ({account.given_up}): check the address, the port (4317 is"
            " gRPC, 4318 HTTP; --protocol) and that the collector runs"
        )
    return f"{account.url} takes no {account.signal}: {account.given_up}"


def to_mapping(accounts: Sequence[Any], state: _State) -> dict[str, Any]:
    """`latscope.export/1`: the account as JSON-ready values."""
    return {
        "schema": SCHEMA,
        "calls": state.calls,
        "attribution_lines": state.lines,
        "left_out": state.left_out.count,
        **{
            account.signal: {
                "url": account.url,
                "taken": account.sent,
                "rejected": account.rejected,
                "refused": account.refused,
                "unsent": account.unsent,
                "requests": account.requests,
                "repeats": account.repeats,
                "reasons": dict(account.said),
                "given_up": account.given_up,
            }
            for account in accounts
        },
    }
