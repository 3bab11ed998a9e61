"""Paired statistics against their definitions, exact small cases and the rate they promise."""

from collections.abc import Sequence
from itertools import product
from random import Random
from statistics import median

import pytest

from latscope.attribution.paired import (
    LEVEL,
    estimate,
    hodges_lehmann,
    p_value,
    shorth,
    spread,
)


def test_hodges_lehmann_is_the_median_of_pairwise_means() -> None:
    assert hodges_lehmann([1.0, 2.0, 6.0]) == median([1, 2, 6, 1.5, 3.5, 4])
    assert hodges_lehmann([5.0]) == 5.0


def test_one_wild_pair_moves_it_little() -> None:
    calm = [float(value) for value in range(20)]
    assert abs(hodges_lehmann([*calm[:-1], 1e9]) - hodges_lehmann(calm)) < 1


def test_shorth_is_where_most_values_lie() -> None:
    """Half of the calls met no load; how long the others waited is no matter."""
    middle, half = shorth([10.0, 10.2, 10.1, 10.3, 9.9, 10.05, 90.0, 300.0])
    assert 9.9 <= middle <= 10.3
    assert half <= 0.2
    assert shorth([7.0]) == (7.0, 0.0)


def test_fewer_than_four_values_have_no_interval() -> None:
    assert estimate([1.0, 2.0, 3.0]) is None


def test_equal_values_have_an_interval_of_no_width() -> None:
    found = estimate([2.0] * 6)
    assert found is not None
    assert (found.low, found.value, found.high, found.n) == (2.0, 2.0, 2.0, 6)
    assert found.positive


def test_the_interval_covers_as_often_as_it_says() -> None:
    """100 worlds of eight pairs, one-sided noise on both calls of each."""
    covered = 0
    for seed in range(100):
        dice = Random(seed)
        values = [1.0 + dice.expovariate(1.0) - dice.expovariate(1.0) for _ in range(8)]
        found = estimate(values, seed=seed)
        assert found is not None
        covered += found.low <= 1.0 <= found.high
    assert LEVEL - 0.06 <= covered / 100 <= LEVEL + 0.06


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [float(value**2) for value in range(9)]
    assert estimate(values, seed=3) == estimate(values, seed=3)
    assert estimate(values, seed=3) != estimate(values, seed=4)


@pytest.mark.parametrize("values", [(1, 2, 3, 4, 5), (-1, 2, 3, -4, 5), (1, 1, -1, 2, 2), (3,)])
def test_p_value_counts_every_way_the_signs_could_have_fallen(values: tuple[int, ...]) -> None:
    """Against the enumeration of all sign patterns, ties sharing their ranks."""
    sizes = sorted(abs(value) for value in values)
    ranks: dict[float, float] = {
        size: sum(at + 1 for at, other in enumerate(sizes) if other == size) / sizes.count(size)
        for size in sizes
    }

    def sum_above(signed: Sequence[float]) -> float:
        return sum((ranks[abs(value)] for value in signed if value > 0), 0.0)

    total = sum(ranks[size] for size in sizes)
    seen = min(sum_above(values), total - sum_above(values))
    ways = list(product(*[(size, -size) for size in sizes]))
    extreme = sum(1 for way in ways if sum_above(way) <= seen)
    assert p_value([float(value) for value in values]) == min(1.0, 2 * extreme / len(ways))


def test_no_difference_is_no_evidence() -> None:
    assert p_value([]) == 1.0
    assert p_value([0.0, 0.0]) == 1.0


def test_spread_is_the_median_absolute_deviation() -> None:
    assert spread([1.0, 2.0, 3.0, 100.0, 5.0]) == 2.0
