"""Statistics with intervals that cover."""

import random
from collections.abc import Callable, Sequence
from statistics import NormalDist, mean, median
from typing import Any

import pytest

from latscope.rules.drawn import drawn
from latscope.rules.measured import Interval, enough, exact, measure, wilson
from latscope.rules.table import Table, gather
from latscope.units import MS, S
from tests.rules.made import calls, table

HOUR = 3600 * S


def one(found: Table, metric: str, stat: Any, level: float = 0.9, **more: Any) -> Interval:
    return measure(found, metric, stat, level=level, **more).est


def test_the_estimates_are_the_plain_ones() -> None:
    values = [*range(1, 101)]
    found = table("input_tokens", values, every=HOUR)
    assert one(found, "input_tokens", "p50").value == 50
    assert one(found, "input_tokens", "p95").value == 95
    assert one(found, "input_tokens", "p99").value == 99
    assert one(found, "input_tokens", "mean").value == mean(values)
    assert one(found, "input_tokens", "max") == Interval(100, 100, 100, 100)
    assert one(found, "input_tokens", "sum") == Interval(5050, 5050, 5050, 100)
    assert one(found, "input_tokens", "n") == Interval(100, 100, 100, 100)
    assert one(found, "input_tokens", "rate").value == pytest.approx(50.5)
    slope = one(found, "input_tokens", "slope", along="started_ns")
    assert slope.value == pytest.approx(1 / HOUR)


def test_share_is_of_the_calls_that_tell() -> None:
    found = table("reused", [True, False, False, False])
    assert one(found, "reused", "share").value == 0.25
    assert one(found, "reused", "n").value == 4
    half = table("cached_tokens", [5, 0, None, None], input_tokens=9)
    assert one(half, "cached_tokens", "share").value == 0.5
    assert one(half, "cached_tokens", "n").value == 2


def test_at_no_level_the_estimate_stands_alone() -> None:
    found = one(table("input_tokens", [1, 2, 9]), "input_tokens", "p95", level=0)
    assert found == Interval(9, 9, 9, 3)


def test_what_no_call_tells_has_no_statistic_but_a_count() -> None:
    found = table("input_tokens", [None, None])
    assert one(found, "input_tokens", "p50") == Interval(None, None, None, 0)
    assert one(found, "input_tokens", "n") == Interval(0, 0, 0, 0)
    assert one(table("model", ["a"]), "model", "p50").n == 0


def test_a_figure_of_the_group_is_what_it_is() -> None:
    found = table("ttft", [S] * 5, "calls_per_hour", every=HOUR)
    assert measure(found, "calls_per_hour", "value", level=0.9).most.high == pytest.approx(1)
    assert one(found, "ttft", "value").value is None


def test_a_measure_is_made_once() -> None:
    found = table("ttft", [S, 2 * S])
    assert measure(found, "ttft", "p50", level=0.9) is measure(found, "ttft", "p50", level=0.9)
    assert not exact(3).bounded


# -- how many calls ------------------------------------------------------------------------------


@pytest.mark.parametrize(("stat", "needs"), [("p50", 5), ("p95", 59), ("p99", 299), ("mean", 5)])
def test_an_interval_needs_so_many_calls(stat: str, needs: int) -> None:
    by = random.Random(0)
    values = [by.random() for _ in range(needs)]
    enough_ = one(table("cached_share", values, input_tokens=10**6), "cached_share", stat)
    assert enough_.short == 0
    assert None not in (enough_.low, enough_.high)
    few = one(table("cached_share", values[1:], input_tokens=10**6), "cached_share", stat)
    assert few.short == 1
    assert few.high is None


def test_enough_calls_are_those_whose_extremes_bound_the_quantile() -> None:
    assert (enough(0.5, 0.9), enough(0.95, 0.9), enough(0.95, 0)) == (5, 59, 1)


# -- coverage -------------------------------------------------------------------------------------


def coverage(
    draw: Callable[[random.Random], float], truth: float, stat: str, n: int, metric: str
) -> float:
    """How often of 300 the 90 % interval holds the truth."""
    held = 0
    for seed in range(300):
        by = random.Random(seed)
        found = one(column(metric, [draw(by) for _ in range(n)]), metric, stat)
        low = float("-inf") if found.low is None else found.low
        high = float("inf") if found.high is None else found.high
        held += low <= truth <= high
    return held / 300


def column(metric: str, values: list[float], **more: list[Any]) -> Table:
    """A table of one metric as it stands."""
    n = len(values)
    own: dict[str, Any] = {metric: values, "weight": [1.0] * n}
    own["started_ns"] = [float(at * HOUR) for at in range(n)]
    return Table(columns={**own, **more}, size=n, n=n)


LOG = NormalDist()


@pytest.mark.parametrize("n", [12, 60, 200])
@pytest.mark.parametrize(("stat", "q"), [("p50", 0.5), ("p95", 0.95)])
def test_intervals_of_quantiles_cover(stat: str, q: float, n: int) -> None:
    truth = 2.718281828 ** (0.8 * LOG.inv_cdf(q))
    assert coverage(lambda by: by.lognormvariate(0, 0.8), truth, stat, n, "tpot") >= 0.87


@pytest.mark.parametrize("n", [8, 40, 200])
def test_intervals_of_means_cover(n: int) -> None:
    assert coverage(lambda by: by.gammavariate(4, 1), 4, "mean", n, "tpot") >= 0.86


@pytest.mark.parametrize("n", [10, 50, 300])
@pytest.mark.parametrize("p", [0.05, 0.3, 0.5])
def test_intervals_of_shares_cover(p: float, n: int) -> None:
    assert coverage(lambda by: float(by.random() < p), p, "share", n, "failed") >= 0.84


@pytest.mark.parametrize("p", [0.05, 0.5])
def test_intervals_of_rates_cover(p: float) -> None:
    """A call an hour, each an event with probability p: Poisson's interval is wider than that."""
    assert coverage(lambda by: float(by.random() < p), p, "rate", 100, "failed") >= 0.87


def test_intervals_of_slopes_cover() -> None:
    held = 0
    for seed in range(200):
        by = random.Random(seed)
        xs = [float(by.randrange(10)) for _ in range(30)]
        ys = [3 * x + by.gauss(0, 5) for x in xs]
        found = one(column("tpot", ys, turn_index=xs), "tpot", "slope", along="turn_index")
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 3 <= found.high
    assert held / 200 >= 0.86


def test_wilson_keeps_to_0_and_1() -> None:
    assert wilson(0, 10, 0.9)[0] == 0
    assert wilson(1, 10, 0.9)[1] == 1
    assert 0.1 < wilson(0, 10, 0.9)[1] < 0.3


# -- weights, censoring ---------------------------------------------------------------------------


def weighted(rates: Sequence[float], ttfts: Sequence[float]) -> Table:
    lines = [
        drawn(
            {"ttft": ttft, "sample.rate": rate, "reused": ttft > S, "input_tokens": 10},
            f"{at}",
            at * S,
        )
        for at, (rate, ttft) in enumerate(zip(rates, ttfts, strict=True))
    ]
    return gather(lines, {"ttft", "reused", "input_tokens"}).file


def test_a_sampled_call_counts_for_all_it_stands_for() -> None:
    found = weighted([0.1] * 5 + [1.0] * 5, [S] * 5 + [2 * S] * 5)
    assert one(found, "ttft", "p50").value == S
    assert one(found, "reused", "share").value == pytest.approx(5 / 55)
    assert one(found, "ttft", "mean").value == pytest.approx((50 * S + 10 * S) / 55)
    assert one(found, "input_tokens", "sum").value == pytest.approx(550)
    assert one(found, "reused", "n").value == pytest.approx(55)
    same = weighted([0.5] * 10, [S] * 5 + [2 * S] * 5)
    assert one(same, "input_tokens", "sum").value == pytest.approx(200)


def test_unequal_weights_tell_less_than_as_many_calls() -> None:
    by = random.Random(0)
    ttfts = [by.lognormvariate(20, 0.5) for _ in range(40)]
    alike = one(weighted([1.0] * 40, ttfts), "ttft", "mean")
    unlike = one(weighted([1.0] * 20 + [0.1] * 20, ttfts), "ttft", "mean")
    width = [one.high - one.low for one in (alike, unlike) if one.high and one.low]
    assert width[1] > width[0]
    few = one(weighted([1.0] * 5 + [0.001], ttfts[:6]), "ttft", "mean")
    assert (few.low, few.short) == (None, 4)


def test_stopped_calls_hold_a_quantile_up() -> None:
    lines = [
        *calls("ttft", [S] * 5),
        *(
            drawn({"timed_out": True, "first_token": False, "e2e": 9 * S}, f"t{at}", at * S)
            for at in range(15)
        ),
    ]
    found = one(gather(lines, {"ttft"}).file, "ttft", "p50")
    assert (found.value, found.high) == (9 * S, None)
    assert found.short == 1
    known = one(gather(lines, {"ttft"}).file, "ttft", "p50", level=0)
    assert known.value == 9 * S


def test_a_slope_of_censored_times_is_known_by_the_pairs_that_tell() -> None:
    lines = [
        drawn({"ttft": (1 + at) * S, "in_flight": at}, f"{at}", at * S) for at in range(20)
    ] + [
        drawn(
            {"timed_out": True, "first_token": False, "e2e": 30 * S, "in_flight": 25}, "t", 30 * S
        )
    ]
    found = one(gather(lines, {"ttft"}).file, "ttft", "slope", along="in_flight")
    assert found.value == pytest.approx(S)


def test_a_slope_needs_two_places() -> None:
    found = table("input_tokens", [1, 2, 3], in_flight=4)
    assert one(found, "input_tokens", "slope", along="in_flight") == Interval(
        None, None, None, 3, 1
    )
    few = one(table("input_tokens", [1, 2]), "input_tokens", "slope", along="started_ns")
    assert few.short == 3


def test_a_slope_of_many_calls_takes_some_by_lot() -> None:
    xs = [float(at % 5) for at in range(1000)]
    found = one(
        column("tpot", [2 * x for x in xs], turn_index=xs), "tpot", "slope", along="turn_index"
    )
    assert (found.value, found.n) == (2, 200)


def test_the_rate_of_what_never_happened_is_below_so_many() -> None:
    found = one(column("failed", [0.0] * 10), "failed", "rate")
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(NormalDist().inv_cdf(0.95) ** 2 / 10)
    assert one(column("tpot", [0.0] * 10), "tpot", "rate").high is None
    assert one(column("failed", [0.0] * 10), "failed", "rate", level=0).high == 0
    alone = column("failed", [1.0])
    assert one(alone, "failed", "rate") == Interval(None, None, None, 1, 1)


# -- what attributions leave open -----------------------------------------------------------------


def test_a_segment_is_measured_at_its_least_and_at_its_most() -> None:
    found = table("ttft", [S] * 10, "ttft.queue", "ttft.queue+prefill", blind=True)
    side = measure(found, "ttft.queue", "p50", level=0.9)
    assert side.bounded
    assert (side.least.value, side.est.value, side.most.value) == (0, 0, S)
    both = measure(found, "ttft.queue+prefill", "p50", level=0.9)
    assert not both.bounded
    assert both.est.value == S


def test_the_median_of_what_varies_covers_its_own() -> None:
    by = random.Random(3)
    values = [by.lognormvariate(0, 1) * 100 * MS for _ in range(50)]
    found = one(table("ttft", values), "ttft", "p50")
    assert found.low is not None
    assert found.high is not None
    assert found.low < median(values) < found.high


def test_the_rate_of_sizes_is_as_sure_as_the_number_of_events() -> None:
    small = one(table("input_tokens", [1] * 100, every=HOUR), "input_tokens", "rate")
    large = one(table("input_tokens", [1000] * 100, every=HOUR), "input_tokens", "rate")
    ends = [(found.low or 0, found.value or 0, found.high or 0) for found in (small, large)]
    assert [end * 1000 for end in ends[0]] == pytest.approx([*ends[1]])
    assert 0.8 < ends[0][0] < ends[0][1] < ends[0][2] < 1.25
