"""`latscope probe`: sends calls to an endpoint and splits each."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latscope.attribution.jsonview import to_mapping
from latscope.attribution.model import Attribution
from latscope.cli.history import History, profiles
from latscope.cli.output import Progress, json_line, open_sink, say, screen, talk
from latscope.cli.probing import Sizes, ask_of, load_of, prompts_of, second_ask_of
from latscope.documents import series
from latscope.errors import EndpointError, InputError, UsageError
from latscope.export.jsonl import JSONLSink
from latscope.probe import against, targets
from latscope.probe.metrics import Mean, Scraper, means
from latscope.probe.outcome import Outcome, outcome
from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.probe.run import Load, Result, models, run
from latscope.probe.trouble import offered
from latscope.recording import ServerSpan
from latscope.report.figures import counted, duration
from latscope.timeline.build import path_of

if TYPE_CHECKING:
    from latscope.cli.receiving import Held


@click.command("probe", short_help="send calls to an endpoint and split them")
@click.argument("target")
@click.option("--model", "-m", required=True, help="The model to ask.")
@click.option("--api", type=click.Choice(targets.APIS), help="Default: the vendor's, else chat.")
@click.option("-n", "calls", type=click.IntRange(1), default=5, show_default=True, help="Calls.")
@click.option("--no-warm-up", is_flag=True, help="Send no first call that does not count.")
@click.option("--concurrency", type=click.IntRange(1), default=1, help="So many calls at a time.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Calls a second instead.")
@click.option("--max-tokens", type=click.IntRange(1), default=64, show_default=True)
@click.option("--prompt", help="The prompt; - reads stdin.")
@click.option("--prompt-file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--prompt-tokens", type=Sizes(), help="Filler of about so many; several in turn.")
@click.option("--seed", type=int, default=0, help="Of the filler, and of the order within pairs.")
@click.option("--reuse-prompt", is_flag=True, help="No nonce: let prefix caches serve it.")
@click.option("--no-stream", is_flag=True, help="Ask for the whole answer at once.")
@click.option("-H", "header", multiple=True, metavar="'K: V'", help="An extra request header.")
@click.option("--extra-body", metavar="JSON", help="Merged into the request's body.")
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120.0, help="Seconds.")
@click.option(
    "--against", "second", metavar="TARGET2", help="Pairs of calls to both, and what differs."
)
@click.option("--model2", metavar="M", help="TARGET2's model; else the same.")
@click.option("--api2", type=click.Choice(targets.APIS), help="TARGET2's API; else as TARGET's.")
@click.option("--key-env2", metavar="NAME", help="TARGET2's key; TARGET's is never sent to it.")
@click.option("--header2", multiple=True, metavar="'K: V'", help="A header for TARGET2.")
@click.option("--compare-out", type=click.Path(dir_okay=False, path_type=Path), help="JSON of it.")
@click.option(
    "--metrics", metavar="URL", help="Read the server's Prometheus page beside the calls."
)
@click.option(
    "--receive-spans",
    metavar="HOST:PORT",
    help="Take the server's spans (OTLP/HTTP); calls are shown joined, at the end.",
)
@click.option(
    "--profile",
    "profile_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What is known of an endpoint (latscope calibrate -o).",
)
@click.option("--no-rtt-probe", is_flag=True, help="Measure no round trips beside the streams.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Append recordings.")
@click.option("--json", "as_json", is_flag=True, help="One attribution a line, nothing else.")
def probe_command(target: str, as_json: bool, save: Path | None, **given: Any) -> int:
    """Sends calls to TARGET, a URL (with or without /v1) or a vendor's name, and splits each.

    \b
      latscope probe http://127.0.0.1:8000 --model tiny
      latscope probe openai --model gpt-5-mini -n 10 --save calls.jsonl
      latscope probe http://10.0.0.5:8000 --model M --against https://gateway.example -n 20
    """
    ask = ask_of(target, given)
    second = second_ask_of(given["second"], given) if given["second"] else None
    _check(given)
    prompt = prompts_of(given)
    load = load_of(given)
    held = _held(given["receive_spans"])
    session = _Session(
        ask=ask,
        second=second,
        load=load,
        seed=given["seed"],
        history=History(given=profiles(given["profile_files"])),
        sink=open_sink(save),
        as_json=as_json,
        compare_out=_writable(given["compare_out"]),
        held=held,
    )
    try:
        asyncio.run(_run(session, prompt, rtt=not given["no_rtt_probe"], metrics=given["metrics"]))
    except KeyboardInterrupt:
        session.release()
        session.report()
        say("interrupted; what was learned is shown")
        return 130
    finally:
        session.close()
    session.report()
    return session.exit_code()


def _check(given: Mapping[str, Any]) -> None:
    """What goes together, and what does not."""
    alone = ("model2", "api2", "key_env2", "header2", "compare_out")
    lonely = next((name for name in alone if given[name] and not given["second"]), None)
    if lonely is not None:
        raise UsageError(f"--{lonely.replace('_', '-')} says something of --against TARGET2")
    if given["second"] and (given["rate"] is not None or given["concurrency"] > 1):
        raise UsageError("--against sends one call at a time: leave out --rate and --concurrency")
    if given["second"] and given["metrics"]:
        raise UsageError("--metrics reads one server's page: leave it out, or --against")


def _held(address: str | None) -> "Held | None":
    from latscope.cli import receiving

    if address is None:
        return None
    return receiving.Held(receiver=receiving.receiver_at(address, "--receive-spans"))


def _writable(path: Path | None) -> Path | None:
    """InputError now, not after the calls, when the file cannot be written."""
    if path is not None:
        try:
            path.open("a").close()
        except OSError as error:
            raise InputError(
                f"--compare-out: {path} cannot be written: {error.strerror}"
            ) from error
    return path


@dataclass(slots=True, kw_only=True)
class _Session:
    """Mutable: what one probe has learned so far. Every outcome is shown or saved as it comes."""

    ask: Ask
    second: Ask | None
    load: Load
    seed: int
    history: History
    sink: JSONLSink | None
    as_json: bool
    compare_out: Path | None
    held: "Held | None" = None
    """Keeps calls back until their server's spans have come; null: each is shown as it ends."""
    calls: list[Attribution] = field(default_factory=list)
    sides: list[against.Side] = field(default_factory=list)
    warm_ups: list[Outcome] = field(default_factory=list)
    completed: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    advice: dict[str, None] = field(default_factory=dict)
    lost_model: Ask | None = None
    offered: str = ""
    told: list[str] = field(default_factory=list)
    """What the server's own figures say, in lines."""
    progress: Progress = field(default_factory=Progress)

    def take(self, result: Result) -> None:
        if self.held is None:
            self._take(result, ())
            return
        self.held.results.append(result)
        self.progress.step(result.number, self.load.calls, self.noun)

    def release(self) -> None:
        """Takes the calls that were kept back, with the spans that came."""
        if self.held is not None and self.held.results:
            self.progress.end()
            for result, spans in self.held.joined():
                self._take(result, spans)

    def _take(self, result: Result, spans: tuple[ServerSpan, ...]) -> None:
        found = outcome(result, self.load.timeout_s, self.history.profile_of, spans)
        if found.lost_model:
            self.lost_model = result.ask
        if found.recording is not None and self.sink is not None:
            self.sink.write(found.recording)
        if result.warm_up:
            self.warm_ups.append(found)
        else:
            self._take_call(found)

    def _take_call(self, found: Outcome) -> None:
        if found.trouble is None:
            self.completed += 1
        else:
            self.troubles[found.trouble] += 1
        if found.advice is not None:
            self.advice[found.advice] = None
        if found.call is not None:
            self.calls.append(found.call)
            if self.second is not None:
                self.sides.append(_side(found, found.call))
            if self.as_json:
                self.progress.end()  # on a terminal both streams share the row
                json_line(to_mapping(found.call))
        self.progress.step(found.result.number, self.load.calls, self.noun)

    def say(self, text: str) -> None:
        """Talk in the middle of a run: the progress line makes room for it."""
        self.progress.end()
        say(text)

    @property
    def noun(self) -> str:
        return "call" if self.second is None else "pair"

    def report(self) -> None:
        self.progress.end()
        for warm_up in self.warm_ups:
            said = warm_up.trouble
            if said is not None and (self.completed or said not in self.troubles):
                say(f"warm-up, not counted: {said}")
        for text, times in self.troubles.items():
            say(f"{text}{f' ({times} calls)' if times > 1 else ''}")
        for text in self.advice:
            say(text)
        if self.offered:
            say(self.offered)
        if not self.as_json and self.calls:
            self._show()
        if self.second is not None and self.calls:
            self._compare(self.second)
        if self.told and self.as_json:
            talk(self.told)

    def _show(self) -> None:
        from latscope.cli import show

        out = screen()
        for warm_up in self.warm_ups:
            if warm_up.call is not None:
                out.note(_warm_up_line(warm_up.call))
        answered = any(call.headers_ns is not None for call in self.calls)
        by = ("model", "endpoint") if self.second is None else ("tags.arm", "model", "endpoint")
        show.calls(out, self.calls, by=by, slow=1 if answered and self.second is None else 0)
        for line in self.told:
            out.note(line)

    def _compare(self, second: Ask) -> None:
        """The comparison: on stdout for people, on stderr beside JSON, whole in `--compare-out`."""
        from latscope.cli.against import comparison_lines

        asks = (self.ask, second)
        found = against.compared(against.paired(self.sides), seed=self.seed)
        out = screen()
        lines = comparison_lines(found, asks, width=out.width, colours=out.colours)
        if self.as_json:
            talk(line.plain for line in lines)
        else:
            out.lines(lines)
        if self.compare_out is not None:
            whole = against.to_mapping(found, asks=asks, seed=self.seed)
            self.compare_out.write_text(json.dumps(whole) + "\n", encoding="utf-8")

    def exit_code(self) -> int:
        return 0 if self.completed else EndpointError.exit_code

    def hear(
        self, scraper: Scraper, before: Mapping[str, float], after: Mapping[str, float]
    ) -> None:
        """The server's own means, where the difference is ours alone; else why they are not."""
        from latscope.cli.means import mean_lines

        during = [reading.values for reading in scraper.series]
        found: list[Mean] | str
        if self.load.rate is not None or self.load.concurrency > 1:
            found = "only calls one at a time tell whose the server's time is"
        elif self.troubles:
            found = "a call did not complete"
        else:
            found = means(before, after, during, calls=self.completed)
        self.told = list(mean_lines(found, self.calls, scraper))

    def keep_series(self, scraper: Scraper) -> None:
        """The readings go where the recordings do, whatever ended the run."""
        if self.sink is not None:
            for reading in scraper.series:
                self.sink.write_line(series.to_line(reading))

    def close(self) -> None:
        self.progress.end()
        if self.sink is not None:
            self.sink.close()
            if self.sink.lost:
                say(f"{self.sink.path}: {self.sink.lost} recordings could not be written")


async def _run(
    session: _Session, prompt: Callable[[int], str], *, rtt: bool, metrics: str | None
) -> None:
    with ExitStack() as stack:
        if session.held is not None:
            stack.enter_context(session.held.receiver)  # before anything is paid for
        scraper = Scraper(metrics) if metrics else None
        if scraper is not None:
            stack.callback(session.keep_series, scraper)
            stack.enter_context(closing(scraper))
            await asyncio.to_thread(scraper.read)  # a wrong address is told before calls are paid
        beside = stack.enter_context(RttProbe()) if rtt else None
        if session.second is not None:
            await _run_pairs(session, session.second, prompt, beside)
        else:
            await _run_alone(session, prompt, beside, scraper)
        await _released(session)
    if session.lost_model is not None:
        session.offered = offered(await models(session.lost_model), session.lost_model.model)


async def _released(session: _Session) -> None:
    if session.held is not None and session.held.results:
        session.progress.reached("waiting for the server's spans")
        await session.held.come()
        session.release()


async def _run_pairs(
    session: _Session, second: Ask, prompt: Callable[[int], str], rtt: RttProbe | None
) -> None:
    names = f"{session.ask.target.name} and {second.target.name}"
    session.progress.begin(f"{counted(session.load.calls, 'pair')} of calls to {names}")
    session.ask, session.second = await against.run_pairs(
        (session.ask, second),
        session.load,
        prompt=prompt,
        hand_over=session.take,
        say=session.say,
        seed=session.seed,
        rtt=rtt,
    )


async def _run_alone(
    session: _Session, prompt: Callable[[int], str], rtt: RttProbe | None, scraper: Scraper | None
) -> None:
    load = session.load
    session.progress.begin(f"{counted(load.calls, 'call')} to {session.ask.target.name}")
    numbers = count(0 if load.warm_up else 1)
    before: dict[str, float] = {}

    async def ready() -> None:
        if scraper is not None:
            before.update(await asyncio.to_thread(scraper.settled, {}, 0))
            scraper.start()

    session.ask = await run(
        session.ask,
        load,
        prompt=lambda: prompt(next(numbers)),
        hand_over=session.take,
        say=session.say,
        rtt=rtt,
        ready=ready,
    )
    if scraper is not None:
        await _released(session)  # whether a call completed is known then
        after = await asyncio.to_thread(scraper.settled, before, session.completed)
        session.hear(scraper, before, after)


def _warm_up_line(call: Attribution) -> str:
    first = call.first_token_ns
    said = f"warm-up, not counted: {call.status}, {duration(call.wall_ns)}"
    if first is not None:
        said += f", first token {duration(first)}"
    parts = [
        f"{part.name} {duration(part.ns)}"
        for share in call.segments
        if share.name == "network"
        for part in share.parts
        if part.name in ("connect", "tls") and part.ns > 0
    ]
    return ", ".join([said, *parts])


def _side(found: Outcome, call: Attribution) -> against.Side:
    recording = found.recording
    if recording is None:
        return against.Side(call=call, at_ns=0, body_bytes=None)
    return against.Side(
        call=call,
        at_ns=recording.clock.zero_ns if recording.clock is not None else 0,
        body_bytes=recording.request_bytes,
        hops=path_of(recording.attempts[-1]).hops if recording.attempts else (),
    )
