"""Conditions: true, false, or not to be told."""

import random
from typing import Any

import pytest

from latscope.rules.conditions import all_of, any_of, check_condition, read, wanted
from latscope.rules.reference import Reference
from latscope.rules.runbook import Bound, Condition
from latscope.rules.table import Table, gather
from latscope.units import MS, S
from tests.rules.made import above, call, calls, table

NONE = Reference()


def around(middle: float, n: int = 40, spread: float = 0.2, seed: int = 0) -> list[float]:
    by = random.Random(seed)
    return [middle * by.lognormvariate(0, spread) for _ in range(n)]


def against(baseline: Table) -> Reference:
    return Reference(baseline)


def bound(against: str, **more: Any) -> Bound:
    return Bound(against=against, **more)  # type: ignore[arg-type]


# -- the logic ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("truths", "every", "some"),
    [
        ([], True, False),
        ([True], True, True),
        ([True, None], None, True),
        ([True, False], False, True),
        ([None, False], False, None),
        ([None, None], None, None),
        ([False, False], False, False),
    ],
)
def test_unknown_is_neither(truths: list[bool | None], every: Any, some: Any) -> None:
    assert all_of(truths) is every
    assert any_of(truths) is some


# -- against a value ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "value", "holds"),
    [
        ("above", 0.5 * S, True),
        ("above", 2 * S, False),
        ("above", S, None),
        ("below", 2 * S, True),
        ("below", 0.5 * S, False),
        ("below", S, None),
    ],
)
def test_a_value_is_passed_when_the_interval_is_beyond_it(
    how: str, value: float, holds: bool | None
) -> None:
    found = read(above(how=how, value=value), table("ttft", around(S)), NONE)
    assert found.holds is holds
    assert (found.unit, found.n, found.baseline) == ("ns", 40, None)
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    assert found.low < found.value < found.high


def test_with_sure_at_0_the_estimate_decides() -> None:
    found = table("ttft", around(S))
    reading = read(above(value=S, sure=0.0), found, NONE)
    assert reading.holds is not None
    assert reading.low == reading.value == reading.high


def test_few_calls_say_how_many_are_missing() -> None:
    few = table("ttft", around(S, 3))
    assert read(above(value=S / 2), few, NONE).why == "needs about 2 more calls"
    assert read(above(value=S / 2), few, NONE).holds is None
    p95 = above(stat="p95", value=9 * S)
    assert read(p95, table("ttft", around(S, 20)), NONE).why == "needs about 39 more calls"


def test_too_close_says_how_many_more_or_that_no_number_helps() -> None:
    values = around(S, 40)
    middle = read(above(), table("ttft", values), NONE).value or 0
    near = read(above(value=0.97 * middle), table("ttft", values), NONE)
    assert near.holds is None
    assert near.why.startswith("needs about ")
    exactly = read(above(value=middle), table("ttft", values), NONE)
    assert exactly.why == "too close to the bound to tell"


def test_what_no_call_tells_says_what_to_do() -> None:
    found = read(above("ttft"), table("ttft", [None] * 9), NONE)
    assert (found.holds, found.why) == (None, "no call tells ttft")
    none = read(above("ttft", where="reused = false"), table("ttft", [S] * 9, "reused"), NONE)
    assert none.why == "no call of those where reused = false tells ttft"
    assert none.where == "reused = false"
    assert read(above("floor"), table("floor", [None] * 9), NONE).why == "no call tells floor"


def test_a_rate_needs_a_span() -> None:
    found = read(above("failed", stat="rate"), table("failed", [True] * 5, every=0), NONE)
    assert (found.holds, found.why) == (None, "5 calls do not tell a rate")


@pytest.mark.parametrize(
    ("stat", "value", "holds"),
    [("n", 3.0, True), ("n", 4.0, False), ("share", 1.0, False), ("max", 1.0, True)],
)
def test_is_holds_for_the_very_figure(stat: str, value: float, holds: bool) -> None:
    found = table("reused", [True, False, False])
    one = above("reused", stat=stat, how="is", bound=bound("value", value=value), least=1)
    assert read(one, found, NONE).holds is holds


def test_is_of_what_calls_leave_open_is_false_only_outside_of_it() -> None:
    found = table("ttft", [S] * 9, "ttft.queue", blind=True)
    within = above("ttft.queue", how="is", bound=bound("value", value=0.0))
    assert read(within, found, NONE).holds is None
    outside = above("ttft.queue", how="is", bound=bound("value", value=2.0 * S))
    assert read(outside, found, NONE).holds is False


def test_a_count_of_nothing_is_0() -> None:
    none = table("ttft", [None] * 3)
    assert read(above("ttft", stat="n", how="is", value=0), none, NONE).holds is True
    assert read(above("ttft", stat="n", value=4), none, NONE).holds is False


# -- against the baseline -------------------------------------------------------------------------


def test_above_the_baseline_by_a_factor_and_by_an_amount() -> None:
    healthy = against(table("ttft", around(400 * MS, seed=1)))
    both = above(bound=bound("baseline", times=1.3, by=100 * MS))
    assert read(both, table("ttft", around(S)), healthy).holds is True
    assert read(both, table("ttft", around(400 * MS)), healthy).holds is False
    assert read(both, table("ttft", around(520 * MS)), healthy).holds is None
    # By the factor, and not by the amount.
    small = against(table("ttft", around(40 * MS, seed=1)))
    assert read(both, table("ttft", around(80 * MS)), small).holds is False
    far = read(above(bound=bound("baseline", by=100 * MS)), table("ttft", around(S)), healthy)
    assert far.holds is True
    assert far.baseline == pytest.approx(400 * MS, rel=0.1)


def test_below_the_baseline() -> None:
    healthy = against(table("ttft", around(S, seed=1)))
    half = above(how="below", bound=bound("baseline", times=0.8, by=100 * MS))
    assert read(half, table("ttft", around(S / 2)), healthy).holds is True
    assert read(half, table("ttft", around(S)), healthy).holds is False
    normal = above(how="below", bound=bound("baseline", times=1.5))
    assert read(normal, table("ttft", around(S)), healthy).holds is True


@pytest.mark.parametrize(
    ("middle", "spread", "holds"),
    [(1.0, 0.02, True), (1.5, 0.02, False), (0.5, 0.02, False), (1.0, 0.8, None)],
)
def test_near_the_baseline(middle: float, spread: float, holds: bool | None) -> None:
    healthy = against(table("ttft", around(S, spread=spread, seed=1)))
    near = above(how="near", bound=bound("baseline", times=1.1))
    assert read(near, table("ttft", around(middle * S, spread=spread)), healthy).holds is holds


def test_near_by_an_amount_or_a_share_whichever_is_more() -> None:
    healthy = against(table("ttft", [10 * MS] * 20))
    now = table("ttft", [30 * MS] * 20)
    assert read(above(how="near", bound=bound("baseline", by=50 * MS)), now, healthy).holds
    assert not read(above(how="near", bound=bound("baseline", times=1.1)), now, healthy).holds
    assert read(
        above(how="near", bound=bound("baseline", times=1.1, by=50 * MS)), now, healthy
    ).holds
    # Nothing is near nothing.
    nothing = table("failed", [False] * 20)
    near = above("failed", stat="mean", how="near", bound=bound("baseline", times=1.1))
    assert read(near, nothing, against(nothing)).holds is True


@pytest.mark.parametrize(("now", "near"), [(-1.5, True), (-0.1, True), (-2.5, False), (0.5, False)])
def test_near_a_figure_below_nothing(now: float, near: bool) -> None:
    """Within as much again of a slope of -1 ms a token: from -2 to 0."""

    def falling(slope: float) -> Table:
        lines = [
            call(f"{at}", at * S, ttft=S + round(slope * at * MS), input_tokens=1 + at)
            for at in range(40)
        ]
        return gather(lines, {"ttft", "input_tokens"}).file

    condition = above(
        stat="slope", along="input_tokens", how="near", bound=bound("baseline", times=2.0)
    )
    assert read(condition, falling(now), against(falling(-1.0))).holds is near


def test_apart_is_what_is_not_near() -> None:
    healthy = against(table("ttft", around(S, spread=0.02, seed=1)))
    one = above(how="apart", bound=bound("baseline", times=1.1))
    assert read(one, table("ttft", around(S / 2, spread=0.02)), healthy).holds is True
    assert read(one, table("ttft", around(S, spread=0.02)), healthy).holds is False
    assert read(one, table("ttft", around(S, spread=0.8)), healthy).holds is None


def test_a_figure_of_the_group_is_compared_as_it_is() -> None:
    flat = above("calls_per_hour", stat="value", how="near", bound=bound("baseline", times=1.15))
    healthy = against(table("ttft", [S] * 9, "calls_per_hour", every=60 * S))
    grown = table("ttft", [S] * 9, "calls_per_hour", every=40 * S)
    assert read(flat, grown, healthy).holds is False
    assert read(flat, table("ttft", [S] * 3, "calls_per_hour", every=62 * S), healthy).holds is True
    alone = table("ttft", [S], "calls_per_hour")
    assert read(flat, alone, healthy).why == "no call tells calls_per_hour"


def test_without_a_reference_nothing_is_said() -> None:
    found = read(above(bound=bound("baseline")), table("ttft", around(S)), NONE)
    assert found.holds is None
    assert "latscope check --save-baseline" in found.why


def test_a_reference_that_does_not_tell_it_either() -> None:
    healthy = against(table("ttft", [None] * 9))
    found = read(above(bound=bound("baseline")), table("ttft", around(S)), healthy)
    assert (found.holds, found.why) == (None, "the reference tells no such figure")


def test_both_sides_need_the_least_calls() -> None:
    healthy = against(table("ttft", around(S, 8)))
    found = read(above(bound=bound("baseline"), least=10), table("ttft", around(S)), healthy)
    assert found.why == "needs about 2 more calls"


def test_an_interval_of_a_difference_holds_its_level() -> None:
    """Of equal worlds at most a tenth are told apart, on either side together."""
    told = 0
    for seed in range(300):
        now = table("ttft", around(S, 20, 0.5, seed))
        then = against(table("ttft", around(S, 20, 0.5, 1000 + seed)))
        more = read(above(bound=bound("baseline")), now, then).holds
        less = read(above(how="below", bound=bound("baseline")), now, then).holds
        told += more is True or less is True
    assert told <= 33


# -- the other bounds -----------------------------------------------------------------------------


def test_against_the_floor_of_the_profile() -> None:
    found = table("ttft", around(S), "floor", floor=200 * MS)
    one = above(bound=bound("floor", times=1.5))
    assert read(one, found, NONE).holds is True
    assert read(one, found, NONE).baseline == pytest.approx(200 * MS)
    without = read(one, table("ttft", around(S), "floor"), NONE)
    assert without.why == "no floor is known: make a profile with latscope calibrate"
    other = above("e2e", bound=bound("floor"))
    assert read(other, table("ttft", around(S), "floor", "e2e", floor=MS), NONE).holds is None


def test_against_other_calls_of_the_same_file() -> None:
    lines = [
        call(f"c{at}", at * S, ttft=ns, reused=at % 2 == 0)
        for at, ns in enumerate(ns for one in around(S) for ns in (one, 2 * one))
    ]
    found = gather(lines, {"ttft", "reused"}).file
    one = above(where="reused = false", bound=bound("where", where="reused = true", times=1.5))
    assert read(one, found, NONE).holds is True
    assert wanted(one) == "above 1.5x that where reused = true"


def test_against_another_metric_of_the_same_calls() -> None:
    found = table("ttft", around(S), "e2e")
    one = above("e2e", bound=bound("metric", metric="ttft", times=1.5))
    assert read(one, found, NONE).holds is True
    assert wanted(one) == "above 1.5x ttft"


# -- what calls leave open ------------------------------------------------------------------------


def test_what_is_unsplit_is_true_only_at_its_least_and_false_only_at_its_most() -> None:
    names = ("ttft.queue", "ttft.queue+prefill")
    blind = table("ttft", around(S), *names, blind=True)
    healthy = against(table("ttft", around(400 * MS, seed=1), *names, blind=True))
    alone = read(above("ttft.queue", bound=bound("baseline", times=1.2)), blind, healthy)
    assert alone.holds is None
    assert alone.why.startswith("what the calls leave unsplit decides it (")
    assert (alone.low, alone.value) == (0, 0)
    together = above("ttft.queue+prefill", bound=bound("baseline", times=1.2))
    assert read(together, blind, healthy).holds is True
    surely = table("ttft", around(2 * S), *names, blind=True, **{"ttft.queue": 1.5 * S})
    assert read(above("ttft.queue", value=S), surely, NONE).holds is True
    assert read(above("ttft.queue", value=9 * S), blind, NONE).holds is False
    assert read(above("ttft.queue", how="below", value=9 * S), blind, NONE).holds is True
    assert read(above("ttft.queue", value=S / 2, sure=0.0), blind, NONE).holds is None


def test_an_estimate_is_no_proof() -> None:
    """A calibrated queue of 1 s that may have been nothing is not surely above half a second."""
    bounds = {"ttft.queue.low": 0.0, "ttft.queue.high": 2.0 * S}
    lean = table("ttft", [2 * S] * 20, "ttft.queue", **{"ttft.queue": 1.0 * S}, **bounds)
    assert read(above("ttft.queue", value=S / 2), lean, NONE).holds is None
    assert read(above("ttft.queue", how="below", value=1.5 * S), lean, NONE).holds is None
    sure = table("ttft", [2 * S] * 20, "ttft.queue", **{"ttft.queue": 1.0 * S})
    assert read(above("ttft.queue", value=S / 2), sure, NONE).holds is True
    half = above("ttft.queue", bound=bound("baseline", times=0.6))
    assert read(half, sure, against(lean)).holds is None
    assert read(half, sure, against(sure)).holds is True


def test_calls_that_were_stopped_leave_the_upper_end_open() -> None:
    lines = [
        *calls("ttft", around(S, 10)),
        *(call(f"t{at}", at * S, timed_out=True, first_token=False, e2e=9 * S) for at in range(12)),
    ]
    found = gather(lines, {"ttft"}).file
    assert read(above(value=S / 2), found, NONE).holds is True
    assert read(above(how="below", value=20 * S), found, NONE).holds is None
    assert read(above(value=20 * S), found, NONE).holds is None


# -- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (above(value=500 * MS), "above 500 ms"),
        (above(how="below", value=90_000 * MS), "below 90 s"),
        (above(value=3e12), "above 50 min"),
        (above(value=0), "above 0 ms"),
        (above(value=20), "above 20 ns"),
        (above(value=20_000), "above 20 us"),
        (above("reused", stat="share", value=0.5), "above 50 %"),
        (above("reused", stat="n", value=1234), "above 1,234"),
        (above("reused", stat="rate", value=2.5), "above 2.5 an hour"),
        (above("input_tokens", value=2048), "above 2,048 tokens"),
        (above("cost", value=0.0031), "above $0.0031"),
        (above("cost", value=12), "above $12.00"),
        (
            above(bound=bound("baseline", times=1.3, by=100 * MS)),
            "above 1.3x the baseline and 100 ms more",
        ),
        (above(how="below", bound=bound("floor", by=MS)), "below the floor and 1 ms less"),
        (above(how="near", bound=bound("baseline", times=1.15)), "within 15 % of the baseline"),
        (
            above(how="near", bound=bound("baseline", times=1.1, by=5 * MS)),
            "within 10 % or 5 ms of the baseline",
        ),
    ],
)
def test_a_comparison_in_words(condition: Condition, words: str) -> None:
    assert wanted(condition) == words


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        (above(), None),
        (above("tttf"), "no metric 'tttf'; did you mean ttft or ttfb?"),
        (above("model"), "model is text, which only `where` can use"),
        (above("ttft", stat="value"), "ttft is a figure of each call: value is no stat of it"),
        (
            above("calls_per_hour"),
            "calls_per_hour is one figure of the whole group: its stat is value",
        ),
        (above(stat="slope"), "slope needs `along`, and nothing else has one"),
        (above(stat="slope", along="started_ns"), None),
    ],
)
def test_what_makes_no_sense_whatever_the_calls(condition: Condition, problem: str | None) -> None:
    assert check_condition(condition) == problem
