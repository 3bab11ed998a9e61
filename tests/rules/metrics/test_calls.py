"""Metrics a call's own line tells."""

import json
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution.attribute import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.documents.recordings import read
from latscope.errors import UsageError
from latscope.rules.metrics import METRICS, Metric, known, merged, metric_of, no_metric
from latscope.units import MS, S
from tests.rules.made import call


def told(name: str, line: dict[str, Any]) -> Any:
    row = known(name)
    assert row.of is not None
    return row.of(line)


@pytest.mark.parametrize(
    ("name", "stated", "value"),
    [
        ("ttft", {"ttft": 2 * S}, 2 * S),
        ("e2e", {"e2e": 3 * S, "ttft": S}, 3 * S),
        ("ttfb", {"ttft": S, "ttfb": 7}, 7),
        ("headers", {"ttft": S, "headers": 7}, 7),
        ("sent", {"ttft": S, "sent": 7}, 7),
        ("tpot", {"ttft": S, "tpot": 9 * MS}, 9 * MS),
        ("itl_p50", {"ttft": S, "itl_p50": 9 * MS}, 9 * MS),
        ("itl_p95", {"ttft": S, "itl_p95": 99 * MS}, 99 * MS),
        ("itl_max", {"ttft": S, "itl_max": 999 * MS}, 999 * MS),
        ("tokens_per_chunk", {"ttft": S, "tokens_per_chunk": 3.5}, 3.5),
        ("load_excess", {"ttft": S, "load_excess": 300 * MS}, 300 * MS),
        ("load_excess", {"ttft": S, "floor": 300 * MS}, 700 * MS),
        ("load_excess", {"ttft": S}, None),
        ("load_excess.low", {"ttft": S, "load_excess": 5}, 5),
        ("load_excess.high", {"ttft": S, "load_excess": 5}, 5),
        ("floor", {"ttft": S, "load_excess": 300 * MS}, 700 * MS),
        ("floor", {"ttft": S}, None),
        ("cached_share", {"input_tokens": 200, "cached_tokens": 50}, 0.25),
        ("cached_share", {"input_tokens": 200}, None),
        ("cached_tokens", {"input_tokens": 200, "cached_share": 0.25}, 50),
        ("uncached_tokens", {"input_tokens": 200, "cached_tokens": 50}, 150),
        ("uncached_tokens", {"input_tokens": 200}, None),
        ("cached_tokens", {"input_tokens": 200, "uncached_tokens": 150}, 50),
        ("cap_share", {"output_tokens": 50, "max_output_tokens": 200}, 0.25),
        ("cap_share", {"output_tokens": 50}, None),
        ("max_output_tokens", {"output_tokens": 50, "cap_share": 0.25}, 200),
        ("uncapped", {"max_output_tokens": 50}, 0),
        ("uncapped", {"uncapped": True}, 1),
        ("uncapped", {}, None),
        ("attempts", {"attempts": 3}, 3),
        ("retried", {"retried": True}, 1),
        ("retried", {}, 0),
        ("refused", {"refused": True}, 1),
        ("refused", {"attempts": 2}, 0),
        ("failed", {"failed": True}, 1),
        ("failed", {"timed_out": True}, 0),
        ("failed", {"status": "error"}, 1),
        ("timed_out", {"timed_out": True, "ttft": S}, 1),
        ("timed_out", {"failed": True}, 0),
        ("timed_out", {}, 0),
        ("cut", {"cut": True}, 1),
        ("cut_age", {"cut": True, "cut_age": 29 * S}, 29 * S),
        ("cut_age", {"cut_age": 29 * S}, None),
        ("cancelled", {"status": "cancelled"}, 1),
        ("completed", {"cancelled": True}, 0),
        ("streamed", {"streamed": False}, 0),
        ("stalls", {"ttft": S, "stalls": 3}, 3),
        ("stalls", {}, None),
        ("stall_time", {"ttft": S, "stall_time": 300 * MS}, 300 * MS),
        ("stall_time", {}, None),
        ("stall.hold", {"ttft": S, "stall.hold": 300 * MS}, 300 * MS),
        ("stall.hold", {"ttft": S}, 0),
        ("stall.hold", {}, None),
        ("stall_unsplit", {"ttft": S, "stalls": 2}, 2),
        ("stall_unsplit", {}, None),
        ("at_once", {"ttft": S, "output_tokens": 100}, 0),
        ("at_once", {"ttft": S, "output_tokens": 100, "at_once": True}, 1),
        ("at_once", {"ttft": S, "output_tokens": 5, "at_once": True}, None),
        ("at_once", {"ttft": S, "output_tokens": 5}, None),
        ("at_once", {"ttft": S, "output_tokens": 90, "itl_p50": 10_000, "e2e": 1.01 * S}, 1),
        ("at_once", {"ttft": S, "cut": True}, None),
        ("length_stop", {"length_stop": True}, 1),
        ("length_stop", {}, 0),
        ("length_stop", {"failed": True}, None),
        ("reused", {"reused": False}, 0),
        ("new_connection", {"reused": False}, 1),
        ("reused", {"new_connection": True}, 0),
        ("new_connection", {"connection.reused": None}, None),
        ("in_flight", {"in_flight": 4}, 4),
        ("in_flight", {}, None),
        ("quota_left", {"quota_left": 0.25}, 0.25),
        ("quota_left", {"limit_tokens": 100, "remaining_tokens": 5, "quota_left": 0.25}, 0.05),
        ("quota_left", {}, None),
        ("limit_requests", {"limit_requests": 60}, 60),
        ("retry_after", {"retry_after": 2 * S}, 2 * S),
        ("tier_differs", {"tier_differs": True}, 1),
        ("tier_differs", {}, None),
        ("usage_asked", {"usage_asked": True}, 1),
        ("usage_asked", {}, None),
        ("usage_seen", {"output_tokens": 5, "usage_seen": False}, 0),
        ("usage_seen", {"output_tokens": 5}, 1),
        ("usage_seen", {"output_tokens": 5, "cut": True}, None),
        ("cache_fields_seen", {"cached_tokens": 5, "cache_fields_seen": False}, 0),
        ("traced", {"traced": True}, 1),
        ("traced", {"trace": "t"}, 1),
        ("traced", {}, 0),
        ("request.tools_bytes", {"request.tools_bytes": 900}, 900),
        ("request.tools_bytes", {}, None),
        ("request_bytes", {"request.tools_bytes": 900, "request.last_bytes": 50}, 950),
        ("request_bytes", {}, None),
        ("messages", {"messages": 3}, 3),
        ("cache_ttl", {"cache_ttl": 300 * S}, 300 * S),
        ("schema", {"schema": "abc"}, "abc"),
        ("schema", {"schema": 7.0}, "7"),
        ("schema", {}, None),
        ("model", {"model": "m"}, "m"),
        ("endpoint", {}, "https://api.example.com/v1/chat/completions"),
        ("mode", {"mode": "self-hosted"}, "self-hosted"),
        ("status", {}, "complete"),
        ("server", {"server": "uvicorn"}, "uvicorn"),
        ("hops", {"hops": "nginx envoy"}, "nginx envoy"),
        ("hops", {}, ""),
        ("finish_reason", {}, "stop"),
        ("weight", {"sample.rate": 0.25}, 4),
        ("weight", {"sample.rate": 0.0}, 1),
        ("tags.team", {"tags.team": "search"}, "search"),
        ("tags.size", {"tags.size": 3.0}, "3"),
        ("flag.one_read", {"flag.one_read": True}, 1),
        ("flag.one_read", {"flag.one_read": False}, 0),
        ("server.kv", {"server.kv": 0.5}, 0.5),
        ("server.kv", {}, None),
        ("itl.n", {"ttft": S, "output_tokens": 10}, 9),
        ("service_tier.served", {"service_tier.served": "default"}, "default"),
        ("error.type", {"error.type": "Odd"}, "Odd"),
        ("streamed", {}, 1),
    ],
)
def test_a_call_tells(name: str, stated: dict[str, Any], value: Any) -> None:
    assert told(name, call(**stated)) == (None if value is None else value)


def test_a_field_that_is_true_or_false_is_a_truth() -> None:
    row = metric_of("connection.reused")
    assert row is not None
    assert (row.unit, told("connection.reused", call())) == ("truth", 1.0)
    assert known("wall_ns").unit == "ns"


def test_a_call_without_a_first_token_waited_at_least_until_it_was_stopped() -> None:
    row = METRICS["ttft"]
    assert row.censored is not None
    waited = call(timed_out=True, first_token=False, e2e=5 * S)
    assert told("ttft", waited) == 5 * S
    assert row.censored(waited)
    assert not row.censored(call(ttft=S, cut=True))
    unasked = call(streamed=False, headers=5, cancelled=True, e2e=S)
    assert told("ttft", unasked) is None


@pytest.mark.parametrize("name", ["ttft", "e2e", "itl_p50", "queue", "queue.engine", "headers"])
def test_a_failed_call_says_nothing_of_how_long_an_answer_takes(name: str) -> None:
    assert told(name, call(ttft=S, failed=True)) is None


def test_a_stopped_call_is_a_lower_limit_of_what_it_had_not_done_yet() -> None:
    stopped = call(ttft=S, ttft__queue=S / 2, cancelled=True, e2e=2 * S)
    censored = {name: METRICS[name].censored for name in ("queue", "prefill", "decode", "e2e")}
    assert {name for name, test in censored.items() if test and test(stopped)} == {"decode", "e2e"}
    early = call(first_token=False, cancelled=True, e2e=2 * S)
    assert METRICS["queue"].censored is not None
    assert METRICS["queue"].censored(early)
    assert METRICS["ttft.queue"].censored is None


# -- segments, parts, sums ------------------------------------------------------------------------


def test_segments_their_shares_of_the_first_token_and_their_bounds() -> None:
    line = call(ttft=S, ttft__queue=200 * MS, blind=True, output_tokens=11, itl_p50=10 * MS)
    assert told("queue", line) == told("queue.low", line) == 200 * MS
    assert told("queue.high", line) == S
    assert told("ttft.queue", line) == told("ttft.queue.low", line) == 200 * MS
    assert told("ttft.queue.high", line) == S
    assert told("decode", line) == 100 * MS
    assert told("unattributed", line) == 800 * MS
    assert (METRICS["queue"].low, METRICS["queue"].high) == ("queue.low", "queue.high")


def test_parts_that_are_always_told_are_0_where_there_is_none() -> None:
    line = call(ttft=S, queue__rate_limit=100 * MS)
    assert told("queue.rate_limit", line) == 100 * MS
    assert told("network.tls", line) == 0
    assert told("queue.engine", line) is None


def test_what_a_client_cannot_tell_apart_is_known_together() -> None:
    line = call(ttft=S, ttft__network=100 * MS, blind=True, output_tokens=11, itl_p50=10 * MS)
    for name in ("ttft.queue+prefill", "queue+prefill", "prefill+queue"):
        assert told(name, line) == told(f"{name}.low", line) == told(f"{name}.high", line) == 9e8
    assert told("queue+decode", line) == 100 * MS
    assert told("queue+decode.low", line) == 100 * MS
    assert told("queue+decode.high", line) == S
    assert told("ttft.queue+network", line) == 100 * MS
    assert told("ttft.queue+network.high", line) == S


def test_a_sum_is_what_the_others_leave_of_the_whole() -> None:
    """An estimate splits the piece, and nothing says any more that it was one."""
    line = call(ttft=S, ttft__queue=400 * MS, ttft__prefill=600 * MS)
    for share in line["segments"][:2]:
        share |= {"ttft_low_ns": 0, "ttft_high_ns": S, "low_ns": 0, "high_ns": S}
    assert told("ttft.queue.low", line) == 0
    assert told("ttft.queue+prefill.low", line) == S
    assert told("queue+prefill.low", line) == S


def test_a_line_of_an_earlier_version_states_no_interval_of_the_first_token() -> None:
    line = call(ttft=S)
    for share in line["segments"]:
        del share["ttft_low_ns"]
        share["ttft_high_ns"] = None
    assert (told("ttft.prefill.low", line), told("ttft.prefill.high", line)) == (0, S)


def test_a_call_without_segments_or_first_token_tells_none() -> None:
    line = call(ttft=S)
    line["segments"][0]["ttft_ns"] = None
    assert told("ttft.queue", line) is None
    line["segments"] = []
    assert told("queue", line) is None
    assert told("queue+prefill", line) is None
    assert told("ttft.queue", call(streamed=False)) is None


@pytest.mark.parametrize("name", ["queue+nothing", "queue+queue", "a+b", "ttft.queue+"])
def test_what_is_no_sum_of_segments_is_no_metric(name: str) -> None:
    assert metric_of(name) is None


# -- names ----------------------------------------------------------------------------------------


def test_every_row_says_what_it_means_and_how_to_tell_it() -> None:
    for name, row in METRICS.items():
        assert row.name == name
        assert row.means
        assert [row.of, row.over, row.whole].count(None) == 2, name
        assert {row.low, row.high} - {None} <= {*METRICS}, name


def test_a_name_that_is_none_is_told_with_what_may_be_meant() -> None:
    with pytest.raises(UsageError, match=r"no metric 'tttf'; did you mean ttft"):
        known("tttf")
    assert no_metric("zzzzzzzz") == "no metric 'zzzzzzzz'"
    assert metric_of("segments") is None
    assert metric_of("flag.") is None


def test_two_rows_of_one_name_are_an_error() -> None:
    row = Metric(name="one", unit="count", means="1", of=lambda call: 1.0)
    with pytest.raises(ValueError, match="two metrics are named one"):
        merged([[row], [row]])


def test_real_calls_tell_every_metric_without_error() -> None:
    """And what the line says is what the attribution says."""
    home = Path(__file__).parents[3] / "fixtures/recordings"
    files = sorted(home.glob("vllm-*.jsonl")) + sorted(home.glob("hop-*.jsonl"))
    for path in files[:12]:
        for recording in read(path):
            line = json.loads(json.dumps(to_mapping(attribute(recording))))
            for row in METRICS.values():
                assert row.of is None or row.of(line) is None or row.of(line) is not False
            assert told("e2e", line) in (None, line["wall_ns"])
            assert told("ttft", line) == line["first_token_ns"] or line["status"] != "complete"
