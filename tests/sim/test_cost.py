"""The two-stage cost model: the source's figures, and closed forms equal to its loop."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from latscope.errors import UsageError
from latscope.sim.cost import (
    MOST_POINTS,
    MOST_TOKENS,
    SCENARIOS,
    Axis,
    Constants,
    Units,
    compare,
    parse_sweep,
    parse_units,
    sweep,
    to_mapping,
)

TOKENS = some.integers(1, 300)
PRICES = some.fractions(0, 50, max_denominator=20)


def loop(prompt: int, output: int, constants: Constants, *, cache: bool) -> list[Units]:
    """Every decode step in turn, as the source's program takes them."""
    held = prompt
    steps = []
    for _ in range(output):
        if cache:
            steps.append(constants.forward + held * constants.kv_read)
        else:
            steps.append(sum((constants.forward for _ in range(held + 1)), Fraction(0)))
        held += 1
    return steps


def test_the_figures_are_the_source_s() -> None:
    """Prompt 200, output 40, 12 units to compute a token, 1 to read one."""
    assert to_mapping(compare()) == {
        "schema": "latscope.cost/1",
        "prompt": 200,
        "output": 40,
        "with_cache": {
            "ttft": 2400,
            "decode": 9260,
            "total": 11660,
            "average_per_token": 291.5,
            "steps": {"first": 212, "mid": 232, "last": 251},
            "tokens_per_1k_units": 3.43,
        },
        "without_cache": {
            "ttft": 2400,
            "decode": 105840,
            "total": 108240,
            "average_per_token": 2706,
            "steps": {"first": 2412, "mid": 2652, "last": 2880},
            "tokens_per_1k_units": 0.37,
        },
        "saved_percent": 89.2,
        "constants": {"forward": 12, "kv_read": 1},
        "sweeps": [],
    }


@settings(deadline=None)
@given(TOKENS, TOKENS, PRICES.filter(bool), PRICES, some.booleans())
def test_the_closed_form_is_the_loop(
    prompt: int, output: int, forward: Units, kv_read: Units, cache: bool
) -> None:
    """Sum and single steps, exactly, for any lengths and constants."""
    constants = Constants(forward=forward, kv_read=kv_read)
    call = compare(prompt, output, constants)
    found = call.with_cache if cache else call.without_cache
    steps = loop(prompt, output, constants, cache=cache)
    assert found.ttft == sum(forward for _ in range(prompt))
    assert found.decode == sum(steps)
    assert (found.steps.first, found.steps.mid, found.steps.last) == (
        steps[0],
        steps[output // 2],
        steps[-1],
    )
    assert found.total == found.ttft + found.decode
    assert found.average_per_token * output == found.total
    assert found.tokens_per_1k_units * found.total == 1000 * output


@given(TOKENS, TOKENS)
def test_the_cache_leaves_ttft_and_a_step_a_token_alone(prompt: int, output: int) -> None:
    """The same TTFT; a step grows by one KV read a token with the cache, one forward without."""
    call, longer = compare(prompt, output), compare(prompt + 1, output)
    assert call.with_cache.ttft == call.without_cache.ttft
    for side, slope in (("with_cache", 1), ("without_cache", 12)):
        grown = getattr(longer, side).steps.first - getattr(call, side).steps.first
        assert grown == slope


def test_reading_dearer_than_computing_saves_nothing() -> None:
    """The share saved is negative then."""
    assert compare(10, 10, Constants(forward=Fraction(1), kv_read=Fraction(9))).saved_percent < 0


def test_the_longest_call_is_counted_exactly() -> None:
    """Ten million tokens in and out take no loop and lose no unit."""
    call = compare(MOST_TOKENS, MOST_TOKENS)
    n = MOST_TOKENS
    assert call.with_cache.decode == 12 * n + n * n + n * (n - 1) // 2


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("prompt=100..3200", (100, 200, 400, 800, 1600, 3200)),
        ("prompt=100..3000", (100, 200, 400, 800, 1600, 3000)),
        ("output=100..500/100", (100, 200, 300, 400, 500)),
        ("output=1..6/2", (1, 3, 5, 6)),
        ("output=7", (7,)),
        ("output=7..7", (7,)),
        (" prompt = 5,3,5 ", (3, 5)),
    ],
)
def test_a_sweep_is_doubled_stepped_or_listed(text: str, values: tuple[int, ...]) -> None:
    """Ascending, each once, both ends of a range among them."""
    assert parse_sweep(text) == (text.split("=")[0].strip(), values)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("speed=1..2", "sweeps prompt or output"),
        ("prompt", "is no range"),
        ("prompt=", "is no range"),
        ("prompt=1...5", "is no range"),
        ("prompt=-1..5", "is no range"),
        ("prompt=0..5", "from 1 to 10,000,000 tokens, not 0"),
        ("prompt=3,0", "from 1 to 10,000,000 tokens, not 0"),
        ("output=1..10000001", "from 1 to 10,000,000 tokens"),
        ("output=1.." + "9" * 5000, "from 1 to 10,000,000 tokens"),
        ("output=1..5/0", "the step must be from 1"),
        ("output=9..5", "9..5 ends before it starts"),
        ("output=1..1001/1", "1,001 points; at most 1,000"),
        ("output=1..10000000/1", "10,000,000 points; at most 1,000"),
        ("output=" + ",".join(map(str, range(1, 1002))), "1,001 points; at most 1,000"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused(text: str, said: str) -> None:
    """Whatever the size, at once."""
    with pytest.raises(UsageError, match=r"sweep|must be") as caught:
        parse_sweep(text)
    assert said in str(caught.value)


def test_two_small_sweeps_may_be_too_many_together() -> None:
    values: dict[Axis, tuple[int, ...]] = {
        "prompt": tuple(range(1, 41)),
        "output": tuple(range(1, 27)),
    }
    with pytest.raises(UsageError, match="1,040 points"):
        sweep(compare(), values)
    values["output"] = tuple(range(1, 26))
    assert len(sweep(compare(), values).points) == MOST_POINTS


@pytest.mark.parametrize(
    ("values", "name", "points"),
    [
        ({"prompt": (100, 200)}, "basic", [(100, 40), (200, 40)]),
        ({"output": (5, 9)}, "common", [(200, 5), (200, 9)]),
        ({"output": (5, 9), "prompt": (1, 2)}, "combined", [(1, 5), (1, 9), (2, 5), (2, 9)]),
    ],
)
def test_a_sweep_is_one_of_three_scenarios(
    values: dict[Axis, tuple[int, ...]], name: str, points: list[tuple[int, int]]
) -> None:
    """By what is swept; each point is the call computed alone."""
    found = sweep(compare(), values)
    assert found.scenario.name == name
    assert found.points == tuple(compare(*point) for point in points)
    (plain,) = to_mapping(compare(), [found])["sweeps"]
    assert plain["scenario"] == name
    assert plain["varies"] == sorted(values, reverse=True)
    alone: list[Any] = [to_mapping(compare(*point)) for point in points]
    for shown, expected in zip(plain["points"], alone, strict=True):
        assert shown == {key: expected[key] for key in shown}
    assert plain["fits"]
    assert (plain["does_not_fit"] is None) is (name == "combined")


def test_every_scenario_says_what_to_watch() -> None:
    assert len(SCENARIOS) == 3
    assert all(scenario.watch and scenario.title for scenario in SCENARIOS.values())


@pytest.mark.parametrize(
    ("text", "value"), [("12", Fraction(12)), ("0.1", Fraction(1, 10)), (" 1/3 ", Fraction(1, 3))]
)
def test_constants_are_read_exactly(text: str, value: Units) -> None:
    assert parse_units(text) == value


@pytest.mark.parametrize("text", ["", "nan", "inf", "1e9", "1/0", "twelve", "1" * 30, "٣"])
def test_what_is_no_number_of_units_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"units|zero"):
        parse_units(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 40), "prompt must be from 1"),
        ((200, 0), "output must be from 1"),
        ((-5, 40), "not -5"),
        ((200, MOST_TOKENS + 1), "not 10,000,001"),
        ((200, 40, Constants(forward=Fraction(0))), "forward must be above 0"),
        ((200, 40, Constants(forward=Fraction(2 * 10**9))), "forward must be above 0"),
        ((200, 40, Constants(kv_read=Fraction(-1))), "KV read must be from 0"),
    ],
)
def test_calls_that_make_no_sense_are_refused(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compare(*arguments)


def test_a_tiny_figure_is_no_zero() -> None:
    """What two decimals would hide keeps two digits."""
    plain = to_mapping(compare(MOST_TOKENS, MOST_TOKENS))
    assert plain["with_cache"]["tokens_per_1k_units"] == pytest.approx(6.7e-05)
