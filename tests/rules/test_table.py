"""Calls as columns, in bounded memory."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from latscope.documents.series import Series
from latscope.errors import UsageError
from latscope.rules import table as tables
from latscope.rules.drawn import drawn
from latscope.rules.measured import measure
from latscope.rules.metrics import Call
from latscope.rules.table import gather
from latscope.units import S
from tests.rules.made import call, calls, table


def test_columns_are_in_the_order_the_calls_began() -> None:
    lines = calls("input_tokens", [3, 1, 2])
    found = gather([lines[2], lines[0], lines[1]], {"input_tokens"})
    assert found.file.columns["input_tokens"] == [3, 1, 2]
    assert (found.file.n, found.file.size) == (3, 3)


def test_calls_are_grouped_by_model_and_endpoint() -> None:
    found = gather(calls("model", ["a", "b", "a"], endpoint="http://x"), {"model"})
    assert {key: one.n for key, one in found.groups.items()} == {
        ("a", "http://x"): 2,
        ("b", "http://x"): 1,
    }
    assert found.file.columns["model"] == ["a", "b", "a"]
    assert found.groups["a", "http://x"].key == ("a", "http://x")


def test_no_call_makes_an_empty_table() -> None:
    found = gather([], {"ttft", "calls_per_hour"})
    assert (found.groups, found.file.n, found.file.size) == ({}, 0, 0)
    assert found.file.whole("calls_per_hour") is None
    assert found.file.where("ttft > 1s").n == 0


def test_metrics_of_several_calls_are_made_of_the_columns_they_need() -> None:
    found = gather(calls("ttft", [S, S, S], every=10 * S), {"idle_before", "calls_per_hour"})
    idle = found.file.columns["idle_before"]
    assert idle[0] is None
    assert idle[1] == pytest.approx(10 * S - S - 49 * 0.02 * S)
    assert found.file.whole("calls_per_hour") == pytest.approx(360)
    assert found.file.whole("ttft") is None


def test_a_part_keeps_what_its_neighbours_told() -> None:
    found = table("input_tokens", [1, 2, 1, 2], "idle_before", every=10 * S)
    part = found.where("input_tokens = 2")
    assert (part.size, part.n) == (2, 2)
    assert part.columns["idle_before"] == [found.columns["idle_before"][i] for i in (1, 3)]
    assert found.where("input_tokens = 2") is part
    assert found.where(None) is found
    assert found.where("input_tokens > 0").size == 4


def test_a_column_nobody_asked_for_is_an_error() -> None:
    with pytest.raises(KeyError, match="output_tokens"):
        table("input_tokens", [1]).columns["output_tokens"]


def test_a_name_that_is_no_metric_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean ttft"):
        gather([], {"ttftt"})


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("reused = true", [0]),
        ("reused = false", [1]),
        ("reused = null", [2]),
        ("hops ~ nginx", [1]),
        ("ttft > 1.5s and streamed = true", [1, 2]),
        ("wall_ns > 0 and tags.team = search", [2]),
        ("cached_share < 0.3", [0]),
    ],
)
def test_where_reads_metrics_and_the_fields_of_a_call(text: str, kept: list[int]) -> None:
    lines = [
        call("0", 0, ttft=S, input_tokens=100, cached_tokens=10),
        call("1", S, ttft=2 * S, reused=False, hops="nginx"),
        call("2", 2 * S, ttft=3 * S, connection__reused=None, tags__team="search"),
    ]
    found = gather(lines, {"input_tokens", *tables.test_of(text)[1]}).file
    part = found.where(text)
    assert part.columns["started_ns"] == [found.columns["started_ns"][i] for i in kept]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("tttf > 1s", "no metric 'tttf'"),
        ("calls_per_hour > 1", "is a figure of the whole group"),
        ("reused > 1", "needs a field with an order"),
    ],
)
def test_where_refuses_what_makes_no_sense(text: str, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        tables.test_of(text)


def test_what_the_servers_said_meanwhile_becomes_metrics() -> None:
    series = [
        Series(at="2026-01-05T09:00:00Z", source="http://s/metrics", values={"vllm:x": 3.0}),
        Series(at="2026-01-05T09:00:02Z", source="http://s/metrics", values={"vllm:x": 5.0}),
    ]
    lines = calls("ttft", [S])
    found = gather(lines, {"server.vllm:x"}, series=series)
    assert found.file.columns["server.vllm:x"] == [4.0]
    assert gather(lines, {"server.vllm:x"}).file.columns["server.vllm:x"] == [None]


# -- memory ---------------------------------------------------------------------------------------


def sessions(n: int, turns: int = 5, **more: Any) -> Iterator[Call]:
    """Calls of sessions of so many turns, one after another."""
    for at in range(n):
        values = {"ttft": S, "session": f"s{at // turns}", "input_tokens": at % turns, **more}
        yield drawn(values, f"c{at}", at * S)


def test_beyond_the_limit_whole_sessions_are_left_out() -> None:
    found = gather(sessions(2000), {"input_tokens", "session_id"}, most=300)
    one = found.file
    assert one.n == 2000
    assert 75 <= one.size <= 300
    assert sum(one.hours.values()) == 2000
    kept = [*zip(one.columns["session_id"], one.columns["input_tokens"], strict=True)]
    assert len(kept) == 5 * len({session for session, _ in kept})
    assert sum(one.columns["weight"]) == pytest.approx(2000)  # type: ignore[arg-type]
    assert measure(one, "input_tokens", "n", level=0).est.value == pytest.approx(2000)


def test_calls_are_left_out_singly_where_one_session_is_nearly_all() -> None:
    found = gather(sessions(2000, turns=2000), {"input_tokens"}, most=300)
    assert 75 <= found.file.size <= 300
    assert sum(found.file.columns["weight"]) == pytest.approx(2000)  # type: ignore[arg-type]


def test_a_rare_group_stays_whole_and_the_file_keeps_whole_sessions() -> None:
    many = [
        *sessions(2000),
        *(drawn({"model": "rare", "session": f"s{at}"}, f"r{at}", at * 7 * S) for at in range(40)),
    ]
    found = gather(many, {"session_id", "model"}, most=300)
    rare = next(one for (model, _), one in found.groups.items() if model == "rare")
    assert (rare.size, rare.n) == (40, 40)
    assert rare.columns["weight"] == [1.0] * 40
    one = found.file
    assert one.n == 2040
    assert sum(one.columns["weight"]) == pytest.approx(2040)  # type: ignore[arg-type]
    by = [*zip(one.columns["model"], one.columns["session_id"], strict=True)]
    common = {session for model, session in by if model == "model-a"}
    assert {s for m, s in by if m == "rare"} == {f"s{at}" for at in range(40) if f"s{at}" in common}


def test_sessions_are_told_by_what_ties_their_calls() -> None:
    """All calls of a session are kept, or none."""
    ties: dict[str, list[dict[str, Any]]] = {
        "chain": [
            {"response_id": f"{at}", "previous_response_id": f"{at - 1}" if at % 4 else None}
            for at in range(800)
        ],
        "trace": [{"trace": f"t{at // 4}"} for at in range(800)],
        "prompt": [
            {
                "request.hashes": "0" * 16 + f"{at // 4:016}",
                "request.parts": [["system", 1], ["messages", 1]],
            }
            for at in range(800)
        ],
    }
    for tie, stated in ties.items():
        shaped = [{"messages": 1, **one} for one in stated]
        lines = [drawn(one, f"c{at}", at * S) for at, one in enumerate(shaped)]
        one = gather(lines, {"call_id"}, most=100).file
        places = [int(str(name)[1:]) // 4 for name in one.columns["call_id"]]
        assert 0 < len(places) <= 100, tie
        assert all(places.count(place) == 4 for place in places), tie


def test_what_continues_an_answer_not_seen_still_has_a_session() -> None:
    lines = [
        drawn({"previous_response_id": "r", "response_id": f"{at}"}, f"{at}", at) for at in (1, 2)
    ]
    assert gather(lines, {"ttft"}, most=2).file.size == 2


def test_memory_does_not_grow_with_the_calls() -> None:
    def peak(n: int) -> int:
        tracemalloc.start()
        gather(sessions(n), {"ttft", "input_tokens", "session_id", "queue"}, most=200)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(400)
    assert peak(4000) < 1.5 * peak(1000)


def test_what_takes_every_call_is_untold_once_some_are_left_out() -> None:
    lines = [*sessions(400)]
    names = {"idle_before", "concurrent", "neighbour_prefill", "ttft"}
    whole = gather(lines, names).file
    assert whole.columns["concurrent"][-1] is not None
    one = gather(lines, names, most=100).file
    assert one.left_out
    assert {*one.columns["concurrent"]} == {None}
    assert one.where("ttft > 2s").left_out
    assert tables.untold(one, "concurrent").startswith("concurrent takes every call")
    assert tables.untold(one, "past_ttl").startswith("past_ttl takes every call")
    assert tables.untold(one, "floor") == "no call tells floor"
    assert tables.untold(whole, "concurrent") == "no call tells concurrent"
