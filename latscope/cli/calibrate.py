"""`latscope calibrate`: differential probes of an endpoint, and the profile they tell."""

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

import click

from latscope.attribution.profile import Profile
from latscope.cli.output import Progress, json_line, open_sink, say, screen, talk
from latscope.cli.probing import ask_of
from latscope.documents import profiles, series
from latscope.errors import EndpointError, UsageError
from latscope.export.jsonl import JSONLSink
from latscope.probe import targets
from latscope.probe.calibration.plan import (
    EXPERIMENTS,
    LONGEST,
    MOST_REQUESTS,
    MOST_TOKENS,
    Plan,
    plan,
)
from latscope.probe.calibration.price import price
from latscope.probe.calibration.session import Session, calibrate, profile
from latscope.probe.metrics import Mean, Scraper, load, means
from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.recording import Recording
from latscope.report.figures import counted

DAYS = 7.0


@click.command("calibrate", short_help="differential probes of an endpoint -> a profile")
@click.argument("target")
@click.option("--model", "-m", required=True, help="The model to ask.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The profile's file."
)
@click.option("--api", type=click.Choice(targets.APIS), help="Default: the vendor's, else chat.")
@click.option("--yes", "-y", is_flag=True, help="Send without asking first.")
@click.option("--max-requests", type=click.IntRange(1), default=MOST_REQUESTS, show_default=True)
@click.option("--max-tokens-total", type=click.IntRange(1), default=MOST_TOKENS, show_default=True)
@click.option(
    "--longest", type=click.IntRange(1), default=LONGEST, show_default=True, help="Prompt tokens."
)
@click.option("--expires", type=float, default=DAYS, show_default=True, help="Days it is good for.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the order.")
@click.option("-H", "header", multiple=True, metavar="'K: V'", help="An extra request header.")
@click.option("--extra-body", metavar="JSON", help="Merged into the request's body.")
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120.0, help="Seconds.")
@click.option(
    "--metrics", metavar="URL", help="Read the server's Prometheus page beside the calls."
)
@click.option("--no-rtt-probe", is_flag=True, help="Measure no round trips beside the streams.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Append recordings.")
@click.option("--json", "as_json", is_flag=True, help="The profile, latscope.profile/1.")
def calibrate_command(
    target: str, output: Path | None, yes: bool, save: Path | None, as_json: bool, **given: Any
) -> int:
    """Sends pairs of calls that differ in one thing only to TARGET, a URL or a vendor's name, and
    learns its profile: what a prompt token and a decode step take without load, what a cached
    prompt saves, what the response head means. What it will send is shown and confirmed first.

    \b
      latscope calibrate http://127.0.0.1:8000 --model tiny -o tiny.profile.json
      latscope calibrate openai --model gpt-5-mini -o mini.json --max-requests 120 --yes
    """
    ask = _ask(target, given)
    if output is None and not as_json:
        raise UsageError("give -o FILE for the profile, or --json to print it")
    if output is not None:
        profiles.check_writable(output)
    todo = plan(
        requests=given["max_requests"],
        tokens=given["max_tokens_total"],
        longest=given["longest"],
        seed=given["seed"],
    )
    with _page(given["metrics"]) as scraper:
        _announce(todo, ask)
        if not _confirmed(yes):
            say("nothing was sent")
            return 0
        session, interrupted, told = _run(todo, ask, open_sink(save), scraper, given)
    try:
        return _show(session, interrupted, output, as_json, given["expires"])
    finally:
        _tell(told, as_json)


@contextmanager
def _page(url: str | None) -> Iterator[Scraper | None]:
    """The server's metrics, read once: a wrong address is told before anything is announced."""
    if url is None:
        yield None
        return
    with closing(Scraper(url)) as scraper:
        scraper.read()
        yield scraper


def _run(
    todo: Plan,
    ask: Ask,
    sink: JSONLSink | None,
    scraper: Scraper | None,
    given: Mapping[str, Any],
) -> tuple[Session, bool, list[str]]:
    """The session, whether it was interrupted, and the server's own means in lines. What finished
    calls told is kept."""
    progress = Progress()

    def tell(text: str) -> None:
        progress.end()
        say(text)

    calls = len(todo.calls)
    session = Session(
        ask=ask,
        plan=todo,
        timeout_s=given["timeout"],
        keep=sink.write if sink is not None else _forget,
        tell=lambda done: progress.step(done, calls),
        say=tell,
        seed=given["seed"],
    )
    progress.begin(f"{counted(calls, 'call')} to {ask.target.name}")
    try:
        told = asyncio.run(_beside(session, scraper, rtt=not given["no_rtt_probe"]))
    except KeyboardInterrupt:
        return session, True, _lines("interrupted", session, scraper)
    finally:
        progress.end()
        _close(sink, scraper)
    return session, False, told


async def _beside(session: Session, scraper: Scraper | None, *, rtt: bool) -> list[str]:
    """The calibration, with what is measured beside its calls."""
    before: dict[str, float] = {}

    async def ready() -> None:
        if scraper is not None:
            before.update(await asyncio.to_thread(scraper.settled, {}, 0))
            scraper.start()

    session.ready = ready
    with RttProbe() if rtt else nullcontext() as session.rtt:
        await calibrate(session)
    if scraper is None:
        return []
    after = await asyncio.to_thread(scraper.settled, before, len(session.calls))
    return _lines(_means(session, scraper, before, after), session, scraper)


def _means(
    session: Session, scraper: Scraper, before: Mapping[str, float], after: Mapping[str, float]
) -> list[Mean] | str:
    """The server's own, where the difference is ours alone; else why they are not used."""
    if session.troubles:
        return "a call did not complete"
    if load(after):
        return f"{load(after):g} calls were in the server when ours had ended"
    crowds = (len(block.calls) for block in session.plan.blocks if block.at_once)
    during = [reading.values for reading in scraper.series]
    calls = len(session.calls)
    return means(before, after, during, calls=calls, at_once=max(crowds, default=1))


def _lines(found: list[Mean] | str, session: Session, scraper: Scraper | None) -> list[str]:
    from latscope.cli.means import mean_lines

    return list(mean_lines(found, session.calls, scraper)) if scraper is not None else []


def _close(sink: JSONLSink | None, scraper: Scraper | None) -> None:
    """The readings go where the recordings do, whatever ended the run."""
    if scraper is not None:
        scraper.close()
    if sink is not None:
        for reading in scraper.series if scraper is not None else ():
            sink.write_line(series.to_line(reading))
        sink.close()
        if sink.lost:
            say(f"{sink.path}: {sink.lost} recordings could not be written")


def _show(
    session: Session, interrupted: bool, output: Path | None, as_json: bool, days: float
) -> int:
    for text, times in session.troubles.items():
        say(f"{text}{f' ({times} calls)' if times > 1 else ''}; left out")
    try:
        found = profile(session, now=datetime.now(UTC), days=days)
    except EndpointError:
        if interrupted:
            say("interrupted before any call had completed; nothing was learned")
            return 130
        raise
    if interrupted:
        left = f"interrupted after {counted(session.done, 'call')} of {len(session.plan.calls)}"
        found = replace(found, skipped=(*found.skipped, left))
    if output is not None:
        profiles.write(output, found)
    _print(found, as_json)
    if output is not None:
        say(f"the profile is in {output}")
    if interrupted:
        say("interrupted; what was learned is kept")
        return 130
    return 0


def _print(found: Profile, as_json: bool) -> None:
    if as_json:
        json_line(profiles.to_mapping(found))
        return
    from latscope.report.calibration import profile_lines

    out = screen()
    out.lines(profile_lines(found, width=out.width, colours=out.colours))


def _tell(lines: list[str], as_json: bool) -> None:
    """Beside the profile; on stderr where stdout is JSON's alone."""
    if as_json:
        talk(lines)
        return
    out = screen()
    for line in lines:
        out.note(line)


def _forget(recording: Recording) -> None:
    """Where no --save is given."""


def _announce(todo: Plan, ask: Ask) -> None:
    """What will be sent, before anything is."""
    shows = {row.name: row.shows for row in EXPERIMENTS}
    blocks = ", ".join(
        f"{counted(number, 'block')} of {name} ({shows[name]})"
        for name, number in todo.experiments.items()
    )
    for text in (
        f"{counted(todo.requests, 'request')} to {ask.target.url}, model {ask.model}: about"
        f" {todo.prompt_tokens:,} prompt tokens and {todo.output_tokens:,} output tokens;"
        f" {price(todo, ask.target, ask.model)}",
        f"prompts of up to about {todo.longest:,} tokens; {blocks}",
        *(f"left out to keep under the caps: {text}" for text in todo.dropped),
    ):
        say(text)


def _confirmed(yes: bool) -> bool:
    """UsageError where there is nobody to ask."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("calibrate sends many requests: confirm with --yes, no terminal can ask")
    return click.confirm("latscope: send them?", err=True)


def _ask(target: str, given: Mapping[str, Any]) -> Ask:
    if not isfinite(given["timeout"]):
        raise UsageError("--timeout needs a finite number")
    if not isfinite(given["expires"]) or not 0 < given["expires"] <= 3650:
        raise UsageError("--expires needs a number of days, above 0 and at most 3650")
    return ask_of(target, {**given, "max_tokens": 1, "no_stream": False})
