"""`latscope sim cost`: the source's figures, its three scenarios, errors of one line."""

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from rich.console import Console

from latscope.cli.main import run
from latscope.report.cost import call_lines, figure, sweep_lines
from latscope.sim.cost import MOST_TOKENS, Axis, Constants, compare, parse_units, sweep

Capture = pytest.CaptureFixture[str]
WIDTHS = (60, 80, 100, 120, 160)
PROMPTS, OUTPUTS = ["--sweep", "prompt=100..3200"], ["--sweep", "output=10..1280"]


def printed(capsys: Capture, *arguments: str) -> str:
    assert run(["sim", "cost", *arguments]) == 0
    found = capsys.readouterr()
    assert not found.err
    return found.out


def drawn(
    prompt: int,
    output: int,
    constants: Constants,
    swept: dict[Axis, Any],
    width: int,
    colours: bool,
) -> str:
    base = compare(prompt, output, constants)
    file = io.StringIO()
    console = Console(file=file, width=width, color_system="truecolor" if colours else None,
                      force_terminal=colours, highlight=False)  # fmt: skip
    found = call_lines(base, width=width, colours=colours)
    if swept:
        found = sweep_lines(sweep(base, swept), width=width, colours=colours)
    for text in found:
        text.rstrip()
        console.print(text, soft_wrap=True)
    return file.getvalue()


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_the_figures_are_printed_as_the_source_has_them(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Each figure of both columns, in its row."""
    monkeypatch.setenv("COLUMNS", columns)
    said = " ".join(printed(capsys).split())
    for row in (
        "TTFT (prefill) 2,400 2,400",
        "decode, 40 tokens 9,260 105,840",
        "total 11,660 108,240",
        "average per token 291.5 2706",
        "step 1st/mid/last 212 / 232 / 251 2,412 / 2,652 / 2,880",
        "tokens per 1k units 3.43 0.37",
        "the KV cache saves 89.2 % of the total",
        "that is 12 times a token of context; whole steps differ 11.4 to 11.5 times",
    ):
        assert row in said


def test_json_has_them_as_numbers(capsys: Capture) -> None:
    said = json.loads(printed(capsys, "--json"))
    assert said["schema"] == "latscope.cost/1"
    assert said["with_cache"]["average_per_token"] == 291.5
    assert said["without_cache"]["steps"] == {"first": 2412, "mid": 2652, "last": 2880}
    assert (said["saved_percent"], said["sweeps"]) == (89.2, [])


def test_every_constant_is_an_option(capsys: Capture) -> None:
    arguments = ["--prompt", "3", "--output", "2", "--forward", "0.5", "--kv-read", "2", "--json"]
    said = json.loads(printed(capsys, *arguments))
    assert said["constants"] == {"forward": 0.5, "kv_read": 2}
    assert said["with_cache"]["ttft"] == 1.5
    assert said["with_cache"]["steps"] == {"first": 6.5, "mid": 8.5, "last": 8.5}


@pytest.mark.parametrize(
    ("sweeps", "name", "fits", "not_fits"),
    [
        (PROMPTS, "basic · a longer prompt", "look into prefill first", "watch the total"),
        (OUTPUTS, "common · a longer answer", "a cap on max_tokens", "watch TTFT"),
        ([*OUTPUTS, *PROMPTS], "combined · a longer prompt and", "trim the context", "—"),
    ],
)
def test_each_scenario_says_when_it_fits(
    sweeps: list[str], name: str, fits: str, not_fits: str, capsys: Capture
) -> None:
    said = printed(capsys, *sweeps)
    (fit,) = [line for line in said.splitlines() if line.startswith("✓ fits ")]
    (unfit,) = [line for line in said.splitlines() if line.startswith("✗ does not fit ")]
    assert name in said
    assert fit.endswith(fits)
    assert unfit.endswith(not_fits)


def test_the_prompt_chart_shows_ttft_growing_in_line(capsys: Capture) -> None:
    """A row a prompt: its bar, TTFT, the total; and the ratio of the ends."""
    said = printed(capsys, *PROMPTS)
    found = {
        row[0]: row for row in rows(said) if len(row) > 3 and row[0].replace(",", "").isdigit()
    }
    assert list(found) == ["100", "200", "400", "800", "1,600", "3,200"]
    assert found["3,200"][2:4] == ["38,400", "167,660"]
    assert "prompt ×32, TTFT ×32" in said


def test_what_is_too_short_for_a_cell_still_shows(capsys: Capture) -> None:
    said = printed(capsys, "--sweep", "prompt=1,100000")
    (row,) = [row for row in rows(said) if row and row[0] == "1"]
    assert row[:4] == ["1", "▏", "12", "1,312"]


def test_the_output_chart_shows_decode_s_share(capsys: Capture) -> None:
    said = printed(capsys, *OUTPUTS)
    (row,) = [row for row in rows(said) if row and row[0] == "1,280"]
    assert row[2:5] == ["99.8", "%", "1,092,320"]
    assert "TTFT stays at 2,400" in said


def test_the_grid_shows_both_pushing_a_step_up(capsys: Capture) -> None:
    said = printed(capsys, "--sweep", "prompt=100,3200", "--sweep", "output=10,1280")
    assert ["3,200", "▓▓", "3,221", "██", "4,491"] in rows(said)
    assert "3,100 of it from the longer prompt, 1,270 from the longer answer" in said


@pytest.mark.parametrize(
    "sweeps", [["prompt=1..1000/1"], ["prompt=1..100/1", "output=1..10/1"]], ids=str
)
def test_a_long_sweep_is_thinned_and_says_so(sweeps: list[str], capsys: Capture) -> None:
    """The ends stay; --json has every point."""
    said = printed(capsys, *(word for text in sweeps for word in ("--sweep", text)))
    assert "more points in --json" in said
    assert len(said.splitlines()) < 40
    ends = [row[0] for row in rows(said) if row and row[0] in ("1", "100", "1,000")]
    assert len(ends) >= 2
    answer = json.loads(printed(capsys, "--json", *(w for s in sweeps for w in ("--sweep", s))))
    assert len(answer["sweeps"][0]["points"]) == 1000


@pytest.mark.parametrize(
    "arguments",
    [
        ["--prompt", "0"],
        ["--output", "-3"],
        ["--prompt", "10000001"],
        ["--prompt", "many"],
        ["--forward", "0"],
        ["--forward", "nan"],
        ["--kv-read", "-1"],
        ["--kv-read", "1/0"],
        ["--sweep", "prompt=0..10"],
        ["--sweep", "speed=1..10"],
        ["--sweep", "prompt=1..5000/1"],
        ["--sweep", "prompt=1..2", "--sweep", "prompt=3..4"],
        ["--sweep", "prompt=1..100/1", "--sweep", "output=1..100/1"],
    ],
)
def test_what_makes_no_sense_is_one_line_and_two(arguments: list[str], capsys: Capture) -> None:
    assert run(["sim", "cost", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("latscope: ")


COUNTS = some.integers(1, 50) | some.integers(1, MOST_TOKENS)


@settings(max_examples=60, deadline=None)
@given(
    COUNTS, COUNTS, some.sampled_from(["12", "0.001", "1/3", "999999999"]),
    some.sampled_from(["1", "0", "0.25", "123456789"]),
    some.sampled_from(WIDTHS), some.sampled_from(["", "prompt", "output", "prompt output"]),
    some.lists(COUNTS, min_size=1, max_size=25, unique=True),
)  # fmt: skip
def test_every_line_fits_its_width(
    prompt: int, output: int, forward: str, kv_read: str, width: int, axes: str, values: list[int]
) -> None:
    """Whatever the figures, no line wraps; colours change bars and nothing else."""
    constants = Constants(forward=parse_units(forward), kv_read=parse_units(kv_read))
    swept: dict[Axis, Any] = {axis: sorted(values) for axis in ("prompt", "output") if axis in axes}
    plain = drawn(prompt, output, constants, swept, width, False)
    assert all(len(line) <= width for line in plain.splitlines()), plain
    assert "\x1b" not in plain
    assert "\x1b" in drawn(prompt, output, constants, swept, width, True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2400", "2,400"),
        ("0.5", "0.50"),
        ("1/3", "0.33"),
        ("0.0012", "0.0012"),
        ("9999999999", "9,999,999,999"),
        ("100000000000", "100.0 G"),
    ],
)
def test_figures_are_exact_until_they_are_too_long(value: str, said: str) -> None:
    assert figure(parse_units(value)) == said
