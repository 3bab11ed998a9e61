"""Thousands of exact schedules: what the attribution says of each, against the world itself."""

from itertools import combinations, product
from random import Random

import pytest

from tests.worlds.check import broken
from tests.worlds.grid import AXES, CELLS, cell, deal, grid, pairs, rare

LEAST = 3000


@pytest.mark.parametrize(("shape", "path"), CELLS)
def test_the_attribution_holds_in_every_world(shape: str, path: str) -> None:
    """Laws, verdict, first times, every segment of the wall and of TTFT, and the winner."""
    wrong = {str(row): found for row, case in cell(shape, path) if (found := broken(case))}
    assert not wrong


def test_there_are_thousands_of_worlds() -> None:
    assert len({case for _, case in grid()}) >= LEAST


def test_and_in_the_rare_ones() -> None:
    """The rows that fill up the pairs of levels."""
    assert not {str(row): found for row, case in rare() if (found := broken(case))}


def test_every_pair_of_levels_meets() -> None:
    """Of any two features, each level of the one is in a world with each level of the other, but
    for those that make no sense together or always meet a known shortcoming."""
    met = {pair for row, _ in grid() for pair in pairs(row)}
    every = {
        ((one, level), (other, another))
        for one, other in combinations(AXES, 2)
        for level, another in product(AXES[one], AXES[other])
    }
    random = Random(1)
    assert not {pair for pair in every - met if list(deal(dict(pair), random))}
