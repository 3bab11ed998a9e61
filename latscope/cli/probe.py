"""`latscope probe`: sends calls to an endpoint and splits each."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import click

from latscope.attribution.model import Attribution
from latscope.cli.output import Progress, json_line, open_sink, say, screen
from latscope.errors import EndpointError, InputError, UsageError
from latscope.export.jsonl import JSONLSink
from latscope.probe import prompts, targets
from latscope.probe.outcome import Outcome, outcome
from latscope.probe.requests import Ask
from latscope.probe.run import Load, Result, models, run
from latscope.probe.trouble import offered
from latscope.report.figures import counted, duration
from latscope.report.jsonview import to_mapping


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
@click.option("--prompt-tokens", type=click.IntRange(1), help="Filler of about so many tokens.")
@click.option("--seed", type=int, default=0, help="Of the filler.")
@click.option("--reuse-prompt", is_flag=True, help="No nonce: let prefix caches serve it.")
@click.option("--no-stream", is_flag=True, help="Ask for the whole answer at once.")
@click.option("-H", "header", multiple=True, metavar="'K: V'", help="An extra request header.")
@click.option("--extra-body", metavar="JSON", help="Merged into the request's body.")
@click.option("--key-env", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=120.0, help="Seconds.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Append recordings.")
@click.option("--json", "as_json", is_flag=True, help="One attribution a line, nothing else.")
def probe_command(target: str, as_json: bool, save: Path | None, **given: Any) -> int:
    """Sends calls to TARGET, a URL (with or without /v1) or a vendor's name, and splits each.

    \b
      latscope probe http://127.0.0.1:8000 --model tiny
      latscope probe openai --model gpt-5-mini -n 10 --save calls.jsonl
    """
    ask = _ask(target, given)
    prompt = _prompt(given)
    load = _load(given)
    session = _Session(ask=ask, load=load, sink=open_sink(save), as_json=as_json)
    try:
        asyncio.run(_run(session, prompt))
    except KeyboardInterrupt:
        session.report()
        say("interrupted; what was learned is shown")
        return 130
    finally:
        session.close()
    session.report()
    return session.exit_code()


@dataclass(slots=True, kw_only=True)
class _Session:
    """Mutable: what one probe has learned so far. Every outcome is shown or saved as it comes."""

    ask: Ask
    load: Load
    sink: JSONLSink | None
    as_json: bool
    calls: list[Attribution] = field(default_factory=list)
    warm_up: Attribution | None = None
    completed: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    advice: dict[str, None] = field(default_factory=dict)
    lost_model: bool = False
    offered: str = ""
    warm_up_trouble: str | None = None
    progress: Progress = field(default_factory=Progress)

    def take(self, result: Result) -> None:
        found = outcome(result, self.load.timeout_s)
        self.lost_model = self.lost_model or found.lost_model
        if found.recording is not None and self.sink is not None:
            self.sink.write(found.recording)
        if result.warm_up:
            self._take_warm_up(found)
        else:
            self._take_call(found)

    def _take_warm_up(self, found: Outcome) -> None:
        self.warm_up = found.call
        self.warm_up_trouble = found.trouble

    def _take_call(self, found: Outcome) -> None:
        if found.trouble is None:
            self.completed += 1
        else:
            self.troubles[found.trouble] += 1
        if found.advice is not None:
            self.advice[found.advice] = None
        if found.call is not None:
            self.calls.append(found.call)
            if self.as_json:
                self.progress.end()  # on a terminal both streams share the row
                json_line(to_mapping(found.call))
        self.progress.step(found.result.number, self.load.calls)

    def say(self, text: str) -> None:
        """Talk in the middle of a run: the progress line makes room for it."""
        self.progress.end()
        say(text)

    def report(self) -> None:
        self.progress.end()
        if self.warm_up_trouble is not None and (
            self.completed or self.warm_up_trouble not in self.troubles
        ):
            say(f"warm-up, not counted: {self.warm_up_trouble}")
        for text, times in self.troubles.items():
            say(f"{text}{f' ({times} calls)' if times > 1 else ''}")
        for text in self.advice:
            say(text)
        if self.offered:
            say(self.offered)
        if self.as_json or not self.calls:
            return
        from latscope.cli import show

        out = screen()
        if self.warm_up is not None:
            out.note(_warm_up_line(self.warm_up))
        answered = any(call.headers_ns is not None for call in self.calls)
        show.calls(out, self.calls, slow=1 if answered else 0)

    def exit_code(self) -> int:
        return 0 if self.completed else EndpointError.exit_code

    def close(self) -> None:
        self.progress.end()
        if self.sink is not None:
            self.sink.close()
            if self.sink.lost:
                say(f"{self.sink.path}: {self.sink.lost} recordings could not be written")


async def _run(session: _Session, prompt: Callable[[], str]) -> None:
    session.progress.begin(f"{counted(session.load.calls, 'call')} to {session.ask.target.name}")
    session.ask = await run(
        session.ask, session.load, prompt=prompt, hand_over=session.take, say=session.say
    )
    if session.lost_model:
        session.offered = offered(await models(session.ask), session.ask.model)


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


def _ask(target: str, given: Mapping[str, Any]) -> Ask:
    if not given["model"].strip():
        raise UsageError("--model is empty: name the model to ask")
    found = targets.target(target, api=given["api"], key_variable=given["key_env"])
    return Ask(
        target=found,
        model=given["model"],
        max_tokens=given["max_tokens"],
        stream=not given["no_stream"],
        extra=_extra(given["extra_body"]),
        headers=tuple(_header(text) for text in given["header"]),
        key=targets.key(found, os.environ),
    )


def _load(given: Mapping[str, Any]) -> Load:
    for name in ("rate", "timeout"):
        if given[name] is not None and not isfinite(given[name]):
            raise UsageError(f"--{name} needs a finite number")
    if given["rate"] is not None and given["concurrency"] > 1:
        raise UsageError("give --rate (open loop) or --concurrency (closed loop), not both")
    return Load(
        calls=given["calls"],
        warm_up=not given["no_warm_up"],
        concurrency=given["concurrency"],
        rate=given["rate"],
        timeout_s=given["timeout"],
    )


def _prompt(given: Mapping[str, Any]) -> Callable[[], str]:
    chosen = [name for name in ("prompt", "prompt_file", "prompt_tokens") if given[name]]
    if len(chosen) > 1:
        raise UsageError("give one of --prompt, --prompt-file and --prompt-tokens")
    text = _prompt_text(given)
    if not text.strip():
        raise UsageError("the prompt is empty")
    return (lambda: text) if given["reuse_prompt"] else (lambda: prompts.fresh(text))


def _prompt_text(given: Mapping[str, Any]) -> str:
    if given["prompt_tokens"]:
        return prompts.filler(given["prompt_tokens"], given["seed"])
    if given["prompt_file"]:
        try:
            return Path(given["prompt_file"]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{given['prompt_file']}: cannot be read as text: {error}") from error
    if given["prompt"] == "-":
        return sys.stdin.read()
    return prompts.DEFAULT if given["prompt"] is None else str(given["prompt"])


def _extra(text: str | None) -> dict[str, Any]:
    try:
        extra = json.loads(text) if text else {}
    except ValueError as error:
        raise UsageError(f"--extra-body is no JSON: {error}") from error
    if not isinstance(extra, dict):
        raise UsageError("--extra-body must be a JSON object, like '{\"temperature\": 0}'")
    return extra


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    sound = name.isascii() and value.isascii() and (name + value).isprintable()
    if not colon or not name or " " in name or not sound:
        # Nothing of it is repeated: it may be a secret, before a missing colon too.
        raise UsageError("-H needs 'Name: value' in plain ASCII")
    if name.lower() in ("content-length", "transfer-encoding", "connection"):
        raise UsageError(f"-H: {name} is not for the user to set; leave it out")
    return name, value
