"""Slopes, ratios and their intervals: exact on exact data, honest about noise and outliers."""

from random import Random

import pytest

from latscope.claims.fit import (
    MOST_POINTS,
    Estimate,
    Point,
    at_least,
    bends,
    quotient,
    ratio,
    shift,
    slope,
    thinned,
)


def line(slope: float, xs: range, *, start: float = 5.0) -> list[Point]:
    return [Point(x=x, y=start + slope * x) for x in xs]


def noisy(slope: float, dice: Random, count: int = 20) -> list[Point]:
    return [Point(x=x, y=slope * x + dice.gauss(0, 3)) for x in range(count)]


def test_a_line_has_its_slope_and_no_interval() -> None:
    """Exact data, exact answer."""
    assert slope(line(2.0, range(10))) == Estimate(value=2.0, low=2.0, high=2.0)


def test_the_interval_is_sen_s() -> None:
    """Ten points: 45 slopes, variance of Kendall's S 125, so ranks 13 and 32 of them."""
    dice = Random(1)
    points = [Point(x=x, y=dice.random()) for x in range(10)]
    slopes = sorted((b.y - a.y) / (b.x - a.x) for a in points for b in points if b.x > a.x)
    found = slope(points)
    assert found is not None
    assert (found.low, found.value, found.high) == (slopes[12], slopes[22], slopes[32])


@pytest.mark.parametrize("true", [0.0, 1.5])
def test_intervals_cover_at_their_rate(true: float) -> None:
    """Of 400 seeded noisy lines about 90 % hold the true slope."""
    dice = Random(2)
    found = [slope(noisy(true, dice)) for _ in range(400)]
    held = sum(1 for one in found if one is not None and one.low <= true <= one.high)
    assert 0.86 <= held / 400 <= 0.95


def test_outliers_do_not_move_the_slope() -> None:
    """Three of twenty points a thousand off."""
    points = line(2.0, range(20))
    points[3] = Point(x=3, y=1000)
    points[9] = Point(x=9, y=-1000)
    points[15] = Point(x=15, y=1000)
    found = slope(points)
    assert found is not None
    assert found.value == 2.0


def test_only_points_of_a_group_are_compared() -> None:
    """Each group rises by 1 an x; compared across, the second would pull the slope down."""
    points = [Point(x=x, y=x, group="a") for x in range(5)]
    points += [Point(x=x, y=x - 100, group="b") for x in range(10, 15)]
    assert slope(points) == Estimate(value=1.0, low=1.0, high=1.0)


@pytest.mark.parametrize(
    "points", [[], line(1, range(1)), line(1, range(3)), line(1, range(1)) * 9]
)
def test_too_few_points_give_no_slope(points: list[Point]) -> None:
    """None, one, three, or many at the same x."""
    assert slope(points) is None


@pytest.mark.parametrize(
    ("count", "low", "high"), [(4, None, None), (5, 1, 5), (7, 1, 7), (8, 2, 7), (11, 3, 9)]
)
def test_a_ratio_s_interval_is_the_sign_test_s(
    count: int, low: float | None, high: float | None
) -> None:
    """Tables of the sign test: at 90 % five values allow no cut, eight one from each end, eleven
    two."""
    found = ratio([Point(x=2, y=2 * value) for value in range(1, count + 1)])
    assert (found and found.low, found and found.high) == (low, high)


def test_a_ratio_needs_something_to_divide_by() -> None:
    assert ratio([Point(x=0, y=1)] * 9) is None


def test_a_quotient_of_exact_slopes_is_exact() -> None:
    found = quotient(line(12, range(10)), line(1, range(10)))
    assert found == Estimate(value=12.0, low=12.0, high=12.0)


def test_a_quotient_holds_both_intervals() -> None:
    """Its own is the widest the two allow at 95 % each, so wider than at 90 %."""
    dice = Random(3)
    over, under = noisy(12, dice), noisy(4, dice)
    found, above, below = quotient(over, under), slope(over), slope(under)
    assert found is not None
    assert above is not None
    assert below is not None
    assert found.low <= above.low / below.high
    assert found.high >= above.high / below.low


@pytest.mark.parametrize("under", [line(0, range(10)), line(-1, range(10)), []])
def test_nothing_is_divided_by_a_slope_that_may_be_zero(under: list[Point]) -> None:
    """A flat one, a falling one, none at all."""
    assert quotient(line(12, range(10)), under) is None


def test_a_slope_that_may_be_zero_still_bounds_the_quotient() -> None:
    flat = noisy(0, Random(4))
    found = slope(flat, 0.95)
    assert found is not None
    assert at_least(line(12, range(10)), flat) == 12 / found.high
    assert at_least(line(12, range(10)), line(-1, range(10))) is None


def test_a_shift_is_the_median_difference() -> None:
    assert shift([1, 2, 3, 4], [11, 12, 13, 14]) == Estimate(value=10, low=8, high=12)


def test_a_bend_is_two_slopes_that_lie_apart() -> None:
    """Up by 1, from the middle on by 5; a straight line has none."""
    bent = [Point(x=x, y=x if x < 10 else 10 + 5 * (x - 10)) for x in range(21)]
    found = bends(bent)
    assert found is not None
    assert (found[0].value, found[1].value) == (1, 5)
    assert bends(line(3, range(21))) is None


def test_many_points_are_thinned_over_the_whole_reach() -> None:
    points = thinned(line(1, range(10 * MOST_POINTS)))
    assert len(points) == MOST_POINTS
    assert points[0].x == 0
    assert points[-1].x > 10 * MOST_POINTS - 20
