"""A floor that moved, load that came and went, and two kinds of machine."""

from random import Random

from latscope.attribution.changes import modes, newest_regime, quantile


def course(
    n: int, seed: int, *, floor: float = 0.0, idle: float = 0.3, delay: float = 20.0
) -> list[float]:
    dice = Random(seed)
    return [
        floor + dice.random() + (0.0 if dice.random() < idle else dice.expovariate(1 / delay))
        for _ in range(n)
    ]


def test_a_floor_that_rose_or_fell_begins_a_regime() -> None:
    for before, after in ((0.0, 30.0), (30.0, 0.0)):
        values = course(150, 1, floor=before) + course(120, 2, floor=after)
        assert 130 <= newest_regime(values, 5.0) <= 170


def test_only_the_newest_of_several_counts() -> None:
    values = course(120, 1) + course(120, 2, floor=60.0) + course(120, 3, floor=20.0)
    assert 220 <= newest_regime(values, 5.0) <= 260


def test_busy_hours_are_no_change_of_the_floor() -> None:
    """The median moves by a hundred, the least does not."""
    values = course(150, 1, idle=0.6) + course(150, 2, idle=0.15, delay=150.0)
    assert newest_regime(values, 5.0) == 0


def test_nothing_moves_in_a_steady_course() -> None:
    assert [newest_regime(course(300, seed), 5.0) for seed in range(5)] == [0] * 5


def test_few_calls_show_no_regime() -> None:
    assert newest_regime(course(20, 1) + course(20, 2, floor=90.0), 5.0) == 0


def test_the_same_values_give_the_same_answer() -> None:
    values = course(100, 4) + course(100, 5, floor=12.0)
    assert newest_regime(values, 5.0) == newest_regime(values, 5.0)


def test_two_machines_leave_a_gap_and_a_tail_does_not() -> None:
    dice = Random(1)
    fast = [dice.gauss(0.0, 0.02) for _ in range(60)]
    slow = [dice.gauss(0.8, 0.03) for _ in range(50)]
    found = modes(fast + slow)
    assert found is not None
    assert abs(found[0]) < 0.05
    assert abs(found[1] - 0.8) < 0.05
    assert modes([abs(dice.gauss(0.0, 0.02)) for _ in range(110)]) is None
    assert modes(course(110, 2)) is None
    assert modes([0.0] * 5 + [1.0] * 5) is None  # too few to tell


def test_a_break_near_an_end_is_none() -> None:
    assert newest_regime(course(290, 1) + course(10, 2, floor=90.0), 5.0) == 0


def test_quantiles_are_values_that_were_seen() -> None:
    values = [3.0, 1.0, 2.0, 4.0]
    assert [quantile(values, share) for share in (0.0, 0.5, 1.0)] == [1.0, 3.0, 4.0]
