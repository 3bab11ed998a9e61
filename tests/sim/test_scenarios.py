"""Scenario files: what they say, and what is said of those that cannot be used."""

from pathlib import Path

import pytest

from latscope.documents.scenarios import (
    DEMO,
    Quantum,
    Scenario,
    by_name,
    from_mapping,
    parse,
    read,
    shipped,
)
from latscope.errors import InputError, UsageError
from latscope.sim.engine import Ask, plan

SHIPPED = {
    *DEMO,
    "hidden-reasoning",
    "visible-reasoning",
    "quantum-hold",
    "byte-hold",
    "cut",
    "error-in-band",
    "rate-limited",
    "flaky",
    "bursts",
    "pings",
    "early-role",
    "slot-headers",
    "llama",
}


def test_an_empty_file_is_a_scenario_named_after_it(tmp_path: Path) -> None:
    """Everything has a default."""
    path = tmp_path / "plain.toml"
    path.write_text("")
    assert read(path) == Scenario(name="plain")


def test_a_file_states_only_what_is_special() -> None:
    """Tables, lists and both kinds of quantum are read as they are written."""
    text = """
        schema = "latscope.scenario/1"
        name = "mine"
        queue_ms = 4
        holds = {quantum_bytes = 512}
        stalls = [{after_token = 3, ms = 9.5, kind = "hold"}]
        [headers]
        Via = "1.1 hop"
    """
    scenario = parse(text, "mine.toml")
    assert (scenario.name, scenario.queue_ms) == ("mine", 4)
    assert scenario.holds == Quantum(quantum_bytes=512)
    assert scenario.stalls[0].kind == "hold"
    assert scenario.headers == {"via": "1.1 hop"}


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_scenario_survives_the_way_to_another_process(name: str) -> None:
    """As JSON-ready values and back it is the same."""
    scenario = shipped()[name]
    assert from_mapping(scenario.model_dump(mode="json", by_alias=True), name) == scenario


def test_the_shipped_ones_are_complete_and_the_demo_comes_first() -> None:
    """Every scenario has a title and a one-sentence story, and its file's name."""
    found = shipped()
    assert set(found) == SHIPPED
    assert tuple(found)[: len(DEMO)] == DEMO
    assert all(scenario.title and scenario.story.endswith(".") for scenario in found.values())
    assert all(name == scenario.name for name, scenario in found.items())


def test_the_demo_is_short() -> None:
    """Each of its calls is planned to take 0.5 to 2.5 s, the six together under 12 s."""
    lengths = []
    for scenario in by_name(list(DEMO)):
        planned = plan(scenario, Ask(prompt_tokens=scenario.call.prompt_tokens), 1)
        ms = scenario.frontend_ms + scenario.queue_ms + planned.steps[-1].at_ns / 1e6
        lengths.append(ms)
    assert all(500 <= ms <= 2500 for ms in lengths)
    assert sum(lengths) < 12_000


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no scenario 'nope'; there are: healthy, long-prompt"):
        by_name(["healthy", "nope"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue_ms", "s.toml: not TOML: "),
        ('schema = "latscope.scenario/9"', "s.toml: schema is 'latscope.scenario/9'; this"),
        ("quue_ms = 3", "s.toml: quue_ms: no such field; did you mean 'queue_ms'?"),
        ("zzzzz = 3", "s.toml: zzzzz: no such field; known: schema, name, "),
        ("[[stalls]]\nat = 3", "s.toml: stalls.0.after_token: Field required (and 2 more)"),
        (
            "[[stalls]]\nafter_token = 3\nms = 1\nmz = 1",
            "stalls.0.mz: no such field; known: after_token, ms, kind",
        ),
        ("[call]\nstreem = true", "s.toml: call.streem: no such field; did you mean 'stream'?"),
        (
            "queue_ms = -1",
            "s.toml: queue_ms: Input should be greater than or equal to 0 (found -1)",
        ),
        ("queue_ms = nan", "s.toml: queue_ms: Input should be a finite number"),
        ('holds = "some"', 's.toml: holds: must be "none", "all", {quantum_ms = N}'),
        ("holds = {quantum_ms = 0}", "s.toml: holds: must be"),
        ("holds = {quantum_ms = true}", "s.toml: holds: must be"),
        ("holds = {quantum_bytes = 0.5}", "s.toml: holds: must be"),
        ("holds = {quantum_ms = 1, quantum_bytes = 1}", "s.toml: holds: must be"),
        ("holds = {other = 1}", "s.toml: holds: must be"),
        ("statuses = [301]", "s.toml: statuses: 301 is neither 200 nor an HTTP error"),
        (
            'headers = {content-length = "3"}',
            "s.toml: headers: 'content-length' is the simulator's",
        ),
        ('headers = {via = "a\\nb"}', "s.toml: headers.via: String should match"),
        ('metrics = "tgi"', "s.toml: metrics: Input should be 'vllm', 'llama' or 'none'"),
        ("cut_after_token = 1\nerror_in_band_after_token = 1", "s.toml: scenario: give cut_after_"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(text: str, said: str) -> None:
    """The file, the field, what is wrong, what to write instead."""
    with pytest.raises(InputError) as caught:
        parse(text, "s.toml", "s")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.toml: cannot be read"):
        read(tmp_path / "absent.toml")
