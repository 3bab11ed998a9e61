"""What the server said of itself while a call ran."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from latscope.documents.series import Series
from latscope.probe.metrics import KEPT, NAMES
from latscope.rules.metrics.server import ROWS, WORDS, Board

TABLE = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Said:
    at: str
    values: Mapping[str, float]
    source: str = "http://10.0.0.1:8000/metrics"


def call(at_s: int = 30, seconds: float = 2.0, endpoint: str = "http://10.0.0.1:8000/v1") -> Any:
    return {
        "started_at": f"2026-11-29T10:00:{at_s:02d}Z",
        "wall_ns": int(seconds * 1e9),
        "endpoint": endpoint,
    }


def said(*rows: tuple[int, Mapping[str, float]], source: str = Said.source) -> list[Said]:
    return [Said(f"2026-11-29T10:00:{at:02d}Z", values, source) for at, values in rows]


def test_a_level_is_the_mean_from_the_last_reading_before_to_the_first_after() -> None:
    name = "vllm:num_requests_waiting"
    board = Board(
        said((20, {name: 99}), (29, {name: 2}), (31, {name: 4}), (33, {name: 6}), (40, {name: 99}))
    )
    assert board.of(call()) == {name: 4.0, "waiting": 4.0}


def test_of_the_cache_in_use_the_height_counts() -> None:
    board = Board(
        said((29, {"vllm:kv_cache_usage_perc": 0.4}), (31, {"vllm:kv_cache_usage_perc": 0.97}))
    )
    assert board.of(call())["kv_usage"] == 0.97


def test_a_counter_is_what_it_grew_by() -> None:
    name = "vllm:num_preemptions_total"
    found = Board(said((29, {name: 5}), (31, {name: 6}), (33, {name: 8}))).of(call())
    assert found == {name: 3.0, "preemptions": 3.0}


@pytest.mark.parametrize(
    "readings", [said((29, {"a_total": 5.0}), (33, {"a_total": 1.0})), said((31, {"a_total": 5.0})),
                 said((29, {"a_total": 1.0}), (33, {"b": 1.0}))]
)  # fmt: skip
def test_no_growth_of_a_server_that_started_anew_or_was_read_once(readings: list[Said]) -> None:
    assert "a_total" not in Board(readings).of(call())


def test_a_histogram_gives_the_mean_of_what_ended_meanwhile() -> None:
    total, count = "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"
    found = Board(said((29, {total: 1.0, count: 10}), (33, {total: 3.0, count: 14}))).of(call())
    assert found["queue_time"] == 0.5e9
    idle = Board(said((29, {total: 1.0, count: 10}), (33, {total: 1.0, count: 10}))).of(call())
    assert "queue_time" not in idle


def test_a_share_of_two_counters_has_no_unit() -> None:
    hits, asked = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
    found = Board(said((29, {hits: 0, asked: 0}), (33, {hits: 30, asked: 40}))).of(call())
    assert found["cache_hits"] == 0.75


def test_a_far_reading_says_nothing() -> None:
    board = Board(said((0, {"tgi_queue_size": 1}), (59, {"tgi_queue_size": 1})))
    assert board.of(call()) == {}
    assert Board([]).of(call()) == {}


def test_a_reading_without_a_time_is_left_out() -> None:
    assert Board([Said("yesterday", {"tgi_queue_size": 1})]).of(call()) == {}


def test_of_several_servers_the_calls_own_is_asked() -> None:
    here = said((29, {"tgi_queue_size": 1}))
    there = said((29, {"tgi_queue_size": 7}), source="http://10.0.0.2:8000/metrics")
    assert Board([*here, *there]).of(call())["waiting"] == 1.0
    assert Board([*here, *there]).of(call(endpoint="http://10.0.0.3:8000/v1")) == {}


def test_a_line_of_the_series_format_is_a_reading() -> None:
    line = Series(at="2026-11-29T10:00:30Z", source=Said.source, values={"tgi_queue_size": 3.0})
    assert Board([line]).of(call())["waiting"] == 3.0


def test_the_words_speak_of_figures_that_are_kept() -> None:
    for word in WORDS:
        names = (*word.level, *word.grown, *(name for pair in word.ratio for name in pair))
        assert set(names) <= set(NAMES), word.word


def test_what_is_folded_as_the_fullest_engine_is_read_at_its_height() -> None:
    kept = {row.name for row in KEPT if row.kind == "most"} - {"sglang:cache_hit_rate"}
    assert kept == {name for word in WORDS if word.word == "kv_usage" for name in word.level}


def test_the_rows_read_what_lies_in_the_call() -> None:
    waiting = TABLE["server.waiting"].of
    assert waiting is not None
    assert waiting({"server_series": {"waiting": 2.0}}) == 2.0
    assert waiting({}) is None


def test_pressure_is_a_full_cache_and_somebody_who_suffers() -> None:
    row = TABLE["kv_pressed"].over
    assert row is not None
    found = row(
        {
            "server.kv_usage": [0.95, 0.95, 0.95, 0.5, None, 0.95],
            "server.preemptions": [2.0, 0.0, 0.0, 2.0, 2.0, None],
            "server.waiting": [0.0, 1.5, 0.0, 2.0, 2.0, None],
        }
    )
    assert found == [1.0, 1.0, 0.0, 0.0, None, 0.0]
