"""Statistics of paired figures: known values, symmetries, and the cover an interval promises."""

import random
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latscope.attribution.paired import hodges_lehmann
from latscope.rules.stats import (
    Estimate,
    bootstrap_interval,
    centre,
    expanded_tail,
    student,
    theil_sen,
)

VALUES = st.lists(st.integers(-1000, 1000), min_size=3, max_size=12)


def test_hodges_lehmann_is_the_median_of_pairwise_means() -> None:
    """Of 1, 2, 9 the means are 1, 1.5, 2, 5, 5.5, 9; the middle ones are 2 and 5."""
    assert hodges_lehmann([1, 2, 9]) == 3.5
    assert hodges_lehmann([4]) == 4


def test_one_wild_value_hardly_moves_the_centre() -> None:
    """Unlike the mean, which goes where it goes."""
    calm = [10.0, 11.0, 9.0, 10.0, 10.0]
    assert abs(hodges_lehmann([*calm, 1e6]) - 10) < 1
    assert mean([*calm, 1e6]) > 1e5


@settings(max_examples=10, deadline=None)
@given(VALUES, st.integers(-500, 500))
def test_a_shift_of_all_values_shifts_centre_and_interval(values: list[int], by: int) -> None:
    """And the same seed gives the same interval."""
    before, after = centre(values, seed=3), centre([value + by for value in values], seed=3)
    assert after.value == before.value + by
    assert before.low is not None
    assert before.high is not None
    assert (after.low, after.high) == (before.low + by, before.high + by)
    assert before.low <= before.value <= before.high
    assert centre(values, seed=3) == before


def test_too_few_values_have_no_interval() -> None:
    """Two calls differ by something; how surely, they cannot say."""
    found = centre([5.0, 7.0])
    assert found == Estimate(value=6.0, low=None, high=None, n=2)
    assert not found.clear
    assert bootstrap_interval([1.0, 2.0], mean) is None


def test_clear_is_an_interval_without_zero() -> None:
    """On either side of it."""
    assert Estimate(value=2, low=1, high=3, n=5).clear
    assert Estimate(value=-2, low=-3, high=-1, n=5).clear
    assert not Estimate(value=2, low=0, high=3, n=5).clear


@pytest.mark.parametrize("n", [5, 8])
def test_the_interval_covers_what_it_promises(n: int) -> None:
    """Nine in ten, whatever the number of values: of 200 draws 20 should miss; 34 is three
    standard deviations. Seeded, so the count is the same each time."""
    drawing = random.Random(n)
    hits = 0
    for seed in range(200):
        values = [drawing.gauss(0, 1) for _ in range(n)]
        found = bootstrap_interval(values, hodges_lehmann, resamples=200, seed=seed)
        assert found is not None
        hits += found[0] <= 0 <= found[1]
    assert 166 <= hits <= 194


def test_tails_are_cut_further_out_for_few_values() -> None:
    """To the normal's own percentile as values grow many."""
    assert expanded_tail(0.05, 5) < expanded_tail(0.05, 20) < 0.05
    assert expanded_tail(0.05, 100_000) == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(4, -2.132), (9, -1.833), (30, -1.697), (120, -1.658)]
)
def test_students_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    """To the hundredth."""
    assert student(0.05, freedom) == pytest.approx(quantile, abs=0.01)


def test_many_values_take_fewer_resamples() -> None:
    """A resample's cost grows with the square of the values: of many, two hundred must do."""
    values = [float(value * value % 97) for value in range(71)]
    found = centre(values, seed=1)
    assert (found.low, found.high) == bootstrap_interval(
        values, hodges_lehmann, resamples=200, seed=1
    )


def test_theil_sen_finds_the_slope_through_outliers() -> None:
    """A line of slope 2 with two points thrown off it."""
    xs = list(range(20))
    ys = [2.0 * x + 1 for x in xs]
    ys[3], ys[11] = 500.0, -500.0
    found = theil_sen(xs, ys)
    assert found is not None
    assert found.value == pytest.approx(2.0, abs=0.01)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 2 <= found.high
    assert found.clear


def test_theil_sen_says_nothing_of_one_place() -> None:
    """All x equal: no slope. Three points: a slope without an interval."""
    assert theil_sen([1, 1, 1], [1, 2, 3]) is None
    found = theil_sen([1, 2, 3], [1, 2, 3])
    assert found is not None
    assert (found.value, found.low, found.high) == (1, None, None)


def test_theil_sens_interval_covers_under_ties() -> None:
    """Three prompt sizes in turn, as a probe sends them; the true slope is 0.1."""
    drawing = random.Random(5)
    xs = [[64, 512, 2048][index % 3] for index in range(12)]
    hits = 0
    for _ in range(300):
        found = theil_sen(xs, [0.1 * x + drawing.gauss(0, 20) for x in xs])
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.1 <= found.high
    assert 252 <= hits <= 294
