"""`latscope demo`: a short story on a simulated server, each call split beside the truth."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

import click
from rich.text import Text

from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.attribution.model import Attribution
from latscope.cli.output import Progress, Screen, json_line, open_sink, screen
from latscope.documents.scenarios import DEMO, Scenario, by_name
from latscope.errors import EndpointError
from latscope.probe.outcome import outcome
from latscope.probe.requests import Ask
from latscope.probe.run import Load, Result, run
from latscope.probe.targets import Target
from latscope.recording import Recording
from latscope.report.terminal import call_lines
from latscope.report.view import CallView, call_view
from latscope.sim.process import Running, start
from latscope.sim.prompt import prompt_of
from latscope.sim.truth import truth

SCHEMA = "latscope.demo/1"
TOLD = ("error", "cut", "dominant", "unsplit", "stalls")
"""Notes the story keeps; the rest is for `explain`."""
TIMEOUT_S = 30.0


@click.command("demo", short_help="six simulated calls, each beside the truth")
@click.option("--json", "as_json", is_flag=True, help="The six attributions with their truth.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Append recordings.")
def demo_command(as_json: bool, save: Path | None) -> None:
    """Starts a simulated server, sends it six calls, and shows what latscope makes of each beside
    what truly happened. Needs no key and no network.

    \b
      latscope demo --save demo.jsonl && latscope explain demo.jsonl
    """
    tellers = by_name(DEMO)
    out = None if as_json else screen()
    told = []
    for scene in scenes(tellers, save):
        told.append(scene)
        if out is not None:
            scenario = scene.scenario
            out.rule(f"{len(told)} of {len(tellers)} · {scenario.title or scenario.name}")
            out.lines(scene_lines(scene, width=out.width, colours=out.colours))
            out.lines([Text()])
    if out is None:
        calls = [to_mapping(scene.call) for scene in told]
        json_line({"schema": SCHEMA, "calls": calls})
    else:
        _close(out, told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    scenario: Scenario
    call: Attribution

    @property
    def view(self) -> CallView:
        view = call_view(self.call)
        notes = tuple(note for note in view.notes if note.label in TOLD)
        return replace(view, notes=notes, title=f"{view.title} (simulated)")

    @property
    def held(self) -> tuple[int, int]:
        """In how many of how many segments the truth lies inside the hard bounds."""
        verdicts = [row.held for row in call_view(self.call).rows if row.held is not None]
        return sum(verdicts), len(verdicts)

    @property
    def truly_dominant(self) -> str | None:
        if self.call.truth is None:
            return None
        return max(self.call.truth.segments, key=lambda share: share.ns).name


def scenes(scenarios: list[Scenario], save: Path | None) -> Iterator[Scene]:
    """Plays the scenarios one after another on a server that lives as long as this runs."""
    progress = Progress()
    progress.begin("starting the simulated server")
    sink = open_sink(save)
    try:
        with start(scenarios) as running:
            for number, scenario in enumerate(scenarios, start=1):
                progress.step(number, len(scenarios))
                recording = _play(running, scenario, warm_up=number == 1)
                if sink is not None:
                    sink.write(recording)
                progress.end()
                yield Scene(scenario=scenario, call=attribute(recording))
    finally:
        progress.end()
        if sink is not None:
            sink.close()


def _play(running: Running, scenario: Scenario, *, warm_up: bool) -> Recording:
    """One call of the scenario, masked, with its truth."""
    asked = scenario.call
    ask = Ask(
        target=Target(base_url=f"{running.base_url}/v1", api=asked.api),
        model=scenario.name,
        max_tokens=asked.max_tokens,
        stream=asked.stream,
    )
    seeds = iter(range(2))
    results: list[Result] = []
    asyncio.run(
        run(
            ask,
            Load(calls=1, warm_up=warm_up, timeout_s=TIMEOUT_S),
            prompt=lambda: prompt_of(asked.prompt_tokens, f"{scenario.name}{next(seeds)}"),
            hand_over=results.append,
            say=lambda text: None,
        )
    )
    found = outcome(results[-1], TIMEOUT_S)
    if found.recording is None:
        raise EndpointError(found.trouble or "the simulated server did not answer")
    stamps = running.truth(results[-1].request_id)
    return replace(found.recording, truth=truth(stamps, found.recording))


def scene_lines(scene: Scene, *, width: int, colours: bool) -> Iterator[Text]:
    """The story, the call beside its truth, the verdict."""
    for line in wrap(scene.scenario.story, width):
        yield Text(line)
    yield Text()
    yield from call_lines(scene.view, width=width, colours=colours)
    yield from _verdict(scene, width)


def _verdict(scene: Scene, width: int) -> Iterator[Text]:
    held, of = scene.held
    mark, style = ("✓", "green") if held == of else ("✗", "bold red")
    dominant = scene.call.dominant or "left open"
    said = f"the truth lies inside the bounds of {held} of {of} segments"
    said += f"; dominant: {dominant}, truly {scene.truly_dominant}"
    for index, part in enumerate(wrap(said, width - 2)):
        yield Text.assemble((mark if index == 0 else " ", style), " ", part)


def _close(out: Screen, told: list[Scene]) -> None:
    held, of = (sum(scene.held[place] for scene in told) for place in (0, 1))
    joint = {"queue", "prefill"}
    blind = [
        scene.scenario.name
        for scene in told
        if any(joint <= set(entry.candidates) for entry in scene.call.unsplit)
    ]
    out.rule("what to try next")
    said = (
        f"The truth lay inside the bounds in {held} of {of} segments."
        " Where the server reports its own queue and prefill, the split follows it; where it is"
        f" silent ({', '.join(blind) or 'none of these'}), the two stay one hatched bar, and the"
        " line below it says what would split them."
    )
    out.lines(Text(line) for line in wrap(said, out.width))
    out.lines([Text()])
    for command, does in (
        ("latscope probe URL --model M", "split calls to your own endpoint"),
        ("latscope run -o calls.jsonl -- python app.py", "record your application, unchanged"),
        ("latscope explain calls.jsonl", "see where its calls spent their time"),
        ("latscope sim serve", "keep this simulated server running"),
    ):
        if 50 + len(does) <= out.width:
            out.lines([Text.assemble(f"  {command:<46}", (does, "dim"))])
        else:
            out.lines([Text(f"  {command}"), Text(f"      {does}", "dim")])
