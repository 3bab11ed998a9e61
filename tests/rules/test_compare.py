"""Two sets of calls: what moved, by how much, and when it cannot be told."""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from latscope.rules.compare import (
    LEAST,
    MEASURES,
    NAMES,
    Comparison,
    Measure,
    Move,
    Points,
    compare,
    differing,
    points,
    segment_that_moved,
)
from latscope.rules.shift import Difference, Point
from latscope.rules.table import Table, gather
from latscope.units import MS, S
from tests.rules.made import calls


def exact(values: Sequence[float]) -> list[Point | None]:
    return [Point(value, value, value) for value in values]


def around(ms: float, n: int = 120, seed: int = 0, spread: float = 0.1) -> list[Point | None]:
    dice = Random(f"{ms} {n} {seed}")
    return exact([ms * MS * dice.lognormvariate(0, spread) for _ in range(n)])


def open_between(low: float, high: float, n: int = 120) -> list[Point | None]:
    return [Point(low * MS, low * MS, high * MS) for _ in range(n)]


def by_name(base: Points, new: Points) -> dict[str, Move]:
    return {move.measure.name: move for move in compare(base, new)}


def test_a_shift_is_found_with_its_size_and_its_segment() -> None:
    base = {"e2e": around(500), "ttft": around(100), "queue": around(20), "prefill": around(80)}
    new = {
        "e2e": around(700, seed=1),
        "ttft": around(300, seed=1),
        "queue": around(220, seed=1),
        "prefill": around(80, seed=1),
    }
    moves = by_name(base, new)
    shift = moves["queue"].shift
    assert shift is not None
    assert shift.low <= 200 * MS <= shift.high
    assert moves["queue"].verdict == "moved"
    assert moves["prefill"].verdict == "same"
    assert moves["queue"].p is not None
    assert moves["queue"].p < 0.01
    assert segment_that_moved(tuple(moves.values())) == "queue"


def test_what_moved_the_other_way_than_the_whole_is_not_named() -> None:
    base = {"e2e": around(500), "decode": around(300), "network": around(100)}
    new = {
        "e2e": around(600, seed=1),
        "decode": around(150, seed=1),
        "network": around(220, seed=1),
    }
    assert segment_that_moved(compare(base, new)) == "network"


def test_without_a_move_no_segment_is_named() -> None:
    same = {"e2e": around(500), "queue": around(20)}
    assert (
        segment_that_moved(compare(same, {"e2e": around(500, seed=3), "queue": around(20)})) is None
    )


def test_where_only_bounds_are_known_the_sum_is_named() -> None:
    """Nothing splits these calls: what is between 0 and 400 ms may not have moved at all."""
    base = {
        "e2e": around(500),
        "queue": open_between(0, 100),
        "prefill": open_between(0, 100),
        "queue+prefill": around(100),
    }
    new = {
        "e2e": around(800, seed=1),
        "queue": open_between(0, 400),
        "prefill": open_between(0, 400),
        "queue+prefill": around(400, seed=1),
    }
    moves = by_name(base, new)
    assert moves["queue"].verdict == moves["prefill"].verdict == "cannot tell"
    assert moves["queue"].more is None  # no number of calls would tell
    assert segment_that_moved(tuple(moves.values())) == "queue | prefill"


def test_a_sum_is_not_asked_for_where_its_parts_are_told() -> None:
    told = {"queue": around(20), "prefill": around(80), "queue+prefill": around(100)}
    assert "queue+prefill" not in by_name(told, told)


def test_too_few_calls_say_how_many_are_missing() -> None:
    move = by_name({"e2e": around(500, n=LEAST - 3)}, {"e2e": around(900, n=50)})["e2e"]
    assert (move.verdict, move.more, move.shift) == ("cannot tell", 3, None)


def test_a_noisy_figure_says_how_many_more_would_tell() -> None:
    base, new = around(100, n=20, spread=0.8), around(115, n=20, seed=1, spread=0.8)
    move = by_name({"e2e": base}, {"e2e": new})["e2e"]
    assert move.verdict == "cannot tell"
    assert move.more is not None
    assert move.more > 20


def test_quantiles_stand_beside_the_shift() -> None:
    move = by_name({"e2e": around(100)}, {"e2e": around(150, seed=1)})["e2e"]
    assert move.p50 is not None
    assert move.p50.low <= 50 * MS <= move.p50.high
    assert move.p95 is not None
    few = by_name({"e2e": around(100, n=20)}, {"e2e": around(150, n=20, seed=1)})["e2e"]
    assert few.p95 is None  # of twenty calls the 95th percentile is the slowest but one


def test_stopped_calls_make_no_side_look_fast() -> None:
    """Half of the new calls were left after 50 ms; those that stayed took twice as long."""
    base = around(100)
    new = [
        Point(50 * MS, 50 * MS, 50 * MS, censored=True) if at % 2 else point
        for at, point in enumerate(around(200, seed=1))
    ]
    move = by_name({"ttft": base}, {"ttft": new})["ttft"]
    assert move.new is not None
    assert move.new > 180 * MS
    assert move.p50 is not None
    assert move.p50.value > 80 * MS


def test_when_most_were_stopped_the_quantile_is_unknown() -> None:
    new: list[Point | None] = [Point(50 * MS, 50 * MS, 50 * MS, censored=True)] * 40
    move = by_name({"ttft": around(100, n=40)}, {"ttft": new})["ttft"]
    assert move.new is None
    assert move.p50 is None


def test_the_same_input_gives_the_same_answer() -> None:
    base, new = {"e2e": around(100, n=300)}, {"e2e": around(104, n=300, seed=1)}
    assert compare(base, new) == compare(base, new)


def test_two_draws_of_one_distribution_rarely_differ() -> None:
    """At 90 %, of 60 pairs about six intervals miss 0; 14 or more would be one in a thousand."""
    missed = 0
    for seed in range(60):
        base = {"e2e": around(100, n=50, seed=seed, spread=0.3)}
        new = {"e2e": around(100, n=50, seed=seed + 1000, spread=0.3)}
        shift = by_name(base, new)["e2e"].shift
        missed += shift is None or not shift.low <= 0 <= shift.high
    assert missed < 14


def test_calls_that_hang_together_count_for_fewer() -> None:
    """Runs of ten equal calls: 200 calls tell about as much as 20."""
    dice = Random(5)
    runs = [ms for _ in range(20) for ms in [dice.lognormvariate(0, 0.3) * 100 * MS] * 10]
    alone = [dice.lognormvariate(0, 0.3) * 100 * MS for _ in range(200)]
    apart = by_name({"e2e": exact(alone)}, {"e2e": exact(alone[::-1])})["e2e"].shift
    together = by_name({"e2e": exact(runs)}, {"e2e": exact(runs[::-1])})["e2e"].shift
    assert apart is not None
    assert together is not None
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_every_measure_can_be_compared(measure: Measure) -> None:
    scale = {"ns": MS, "tokens": 10, "share": 0.001, "count": 0.1}[measure.unit]
    base = {measure.name: exact([scale * (100 + at % 7) for at in range(60)])}
    new = {measure.name: exact([scale * (200 + at % 7) for at in range(60)])}
    move = by_name(base, new)[measure.name]
    assert move.verdict == "moved"
    assert isinstance(move.shift, Difference)


# -- from columns, and what can be laid beside each other ------------------------------------------


def gathered(**more: Any) -> Table:
    return gather(calls("ttft", [100 * MS, 200 * MS, None], **more), NAMES).file


def test_points_are_what_the_columns_tell() -> None:
    """A call without a first token tells no TTFT; its length it does tell."""
    found = points(gathered(e2e=S))
    assert found["ttft"][:2] == [
        Point(100.0 * MS, 100.0 * MS, 100.0 * MS),
        Point(200.0 * MS, 200.0 * MS, 200.0 * MS),
    ]
    assert found["ttft"][2] is None
    assert [point.value for point in found["e2e"] if point] == [S] * 3


def test_a_call_that_nothing_splits_is_a_range() -> None:
    (point, *_) = points(gathered(e2e=S, blind=True))["queue"]
    assert point is not None
    assert point.low < point.high


def test_other_clocks_and_other_gaps_are_not_laid_side_by_side() -> None:
    base = gathered()
    assert differing(base, base) is None
    other = with_column(base, "instrument.clock", "sundial")
    said = differing(with_column(base, "instrument.clock", "monotonic"), other)
    assert said == "their times come from different clocks (monotonic against sundial)"
    by_token = with_column(base, "itl.unit", "token")
    by_chunk = with_column(base, "itl.unit", "chunk")
    assert differing(by_token, by_chunk) == (
        "one counts gaps between tokens, the other between chunks"
    )


def with_column(table: Table, name: str, value: str) -> Table:
    columns = dict(table.columns)
    columns[name] = [value] * table.size
    return Table(columns=columns, size=table.size, n=table.n)


def comparison(*moves: Move) -> Comparison:
    return Comparison(model="m", endpoint="e", calls_base=1, calls_new=1, moves=moves, segment=None)


def test_slower_and_unsure_go_by_what_a_caller_waits_for() -> None:
    base = {"e2e": around(500), "queue": around(20)}
    slow = comparison(*compare(base, {"e2e": around(700, seed=1), "queue": around(20)}))
    same = comparison(*compare(base, {"e2e": around(500, seed=1), "queue": around(90)}))
    few = comparison(*compare(base, {"e2e": around(500, n=3), "queue": around(20)}))
    assert (slow.slower, slow.unsure) == (True, False)
    assert (same.slower, same.unsure) == (False, False)
    assert (few.slower, few.unsure) == (False, True)
    assert comparison().unsure
