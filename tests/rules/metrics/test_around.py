"""What the calls around a call tell of it."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some

from latscope.rules.metrics.around import ROWS
from latscope.rules.metrics.metric import Metric, Value
from latscope.units import S

HOUR = 3600 * S
TABLE = {row.name: row for row in ROWS}


def over(name: str, **columns: Sequence[Value]) -> Sequence[Value]:
    row = TABLE[name]
    assert row.over is not None
    return row.over({key.replace("__", "."): column for key, column in columns.items()})


def whole(name: str, **columns: Sequence[Value]) -> float | None:
    row: Metric = TABLE[name]
    assert row.whole is not None
    return row.whole(columns)


def test_calls_an_hour_are_counted_over_the_time_between_the_first_and_the_last() -> None:
    at = [0.0, 0.5 * HOUR, 1.0 * HOUR, 2.0 * HOUR]
    assert whole("calls_per_hour", started_ns=at, weight=[1.0] * 4) == 1.5


def test_a_sampled_call_counts_for_all_it_stands_for() -> None:
    assert whole("calls_per_hour", started_ns=[0.0, 1.0 * HOUR], weight=[4.0, 4.0]) == 4.0


@pytest.mark.parametrize("at", [[], [5.0], [5.0, 5.0]])
def test_no_rate_without_a_span(at: list[float]) -> None:
    assert whole("calls_per_hour", started_ns=at, weight=[1.0] * len(at)) is None


def test_the_hour_of_the_day_is_utc() -> None:
    assert over("hour", started_ns=[0.0, 23.5 * HOUR, 25.0 * HOUR]) == [0.0, 23.0, 1.0]


def test_concurrent_counts_those_that_had_begun_and_not_ended() -> None:
    at = [0.0, 1.0 * S, 2.0 * S, 10.0 * S]
    found = over("concurrent", started_ns=at, e2e=[5.0 * S, 0.5 * S, None, 1.0 * S])
    assert found == [0.0, 1.0, 1.0, 0.0]


def test_idle_before_counts_from_the_end_of_the_last_one_running() -> None:
    at = [0.0, 1.0 * S, 20.0 * S, 25.0 * S]
    found = over("idle_before", started_ns=at, e2e=[10.0 * S, 1.0 * S, 30.0 * S, 1.0 * S])
    assert found == [None, 0.0, 10.0 * S, 0.0]


def test_no_call_no_idle_time() -> None:
    assert over("idle_before", started_ns=[], e2e=[]) == []


def test_connecting_is_both_parts_and_leaves_the_rest_of_the_first_token() -> None:
    told = over("connecting", network__connect=[30.0, 0.0, None], network__tls=[40.0, 0.0, 1.0])
    assert told == [70.0, 0.0, None]
    left = over("ttft_connected", ttft=[100.0, 50.0, 50.0, None], connecting=[70.0, 80.0, None, 1])
    assert left == [30.0, 0.0, None, None]


def test_a_schema_is_new_once() -> None:
    assert over("new_schema", schema=["a", None, "b", "a"]) == [1.0, None, 1.0, 0.0]


def test_tags_are_one_text_in_order_of_their_names() -> None:
    of = TABLE["tag"].of
    assert of is not None
    assert of({"tags": {"team": "search", "job": "eval"}}) == "job=eval team=search"
    assert of({"tags": {}}) is None


# -- neighbours -----------------------------------------------------------------------------------


def test_the_neighbour_is_the_largest_prompt_that_began_between_first_token_and_end() -> None:
    columns: dict[str, Sequence[Value]] = {
        "started_ns": [0.0, 0.5 * S, 2.0 * S, 3.0 * S, 9.0 * S],
        "ttft": [1.0 * S, None, 1.0 * S, 1.0 * S, 1.0 * S],
        "e2e": [5.0 * S, 1.0 * S, 1.5 * S, 2.0 * S, 2.0 * S],
        "uncached_tokens": [100.0, 9000.0, 5000.0, None, 7000.0],
        "tag": ["app=chat", "app=early", "app=batch", "app=none", "app=late"],
    }
    # The second began before the first one's first token, the last after its end.
    assert over("neighbour_prefill", **columns) == [5000.0, None, 0.0, 0.0, 0.0]
    assert over("neighbour_tag", **columns) == ["app=batch", None, None, None, None]


def test_the_delay_is_what_a_gap_has_beyond_the_usual_one() -> None:
    sizes: list[Value] = [0.0, 999.0, 1000.0, 4000.0, 5000.0, None, 9000.0]
    gaps: list[Value] = [50.0, 70.0, 500.0, 160.0, 10.0, 90.0, None]
    found = over("neighbour_delay", neighbour_prefill=sizes, itl_max=gaps)
    assert found == [0.0, 0.0, 0.0, 100.0, 0.0, None, None]
    alone = over("neighbour_delay", neighbour_prefill=[5000.0], itl_max=[90.0])
    assert alone == [None]


def test_a_small_neighbour_is_not_named() -> None:
    columns: dict[str, Sequence[Value]] = {
        "started_ns": [0.0, 2.0 * S],
        "ttft": [1.0 * S, 1.0 * S],
        "e2e": [5.0 * S, 1.5 * S],
        "uncached_tokens": [100.0, 3999.0],
        "tag": ["app=chat", "app=batch"],
    }
    assert over("neighbour_prefill", **columns) == [3999.0, 0.0]
    assert over("neighbour_tag", **columns) == [None, None]


@given(
    some.lists(
        some.tuples(
            some.integers(0, 20), some.integers(0, 5), some.integers(0, 9), some.integers(0, 50)
        ),
        max_size=24,
    )
)
def test_neighbours_are_those_a_plain_search_finds(rows: list[tuple[int, int, int, int]]) -> None:
    calls = sorted(rows)
    at = [float(call[0]) for call in calls]
    found = over(
        "neighbour_prefill",
        started_ns=at,
        ttft=[float(call[1]) for call in calls],
        e2e=[float(call[1] + call[2]) for call in calls],
        uncached_tokens=[float(call[3]) for call in calls],
    )
    assert found == [
        max(
            (
                float(other[3])
                for other in calls
                if call[0] + call[1] < other[0] < call[0] + call[1] + call[2]
            ),
            default=0.0,
        )
        for call in calls
    ]
