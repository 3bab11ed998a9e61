"""What a Prometheus is asked for, and what becomes of its answer."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from latscope.documents.series import to_line, understood
from latscope.errors import EndpointError, UsageError
from latscope.probe import prometheus
from latscope.units import S
from tests.probe.prometheus import prometheus_at, ranges

AT = 1_700_000_000
RUNNING = "vllm:num_requests_running"


def row(name: str, *points: tuple[Any, Any], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": name, **labels}, "values": [list(point) for point in points]}


def test_the_padded_time_of_the_calls_is_asked_for() -> None:
    """Whole seconds around it, every second of it, for the known names alone."""
    with prometheus_at(ranges(row(RUNNING, (AT, "1")))) as (url, asked):
        prometheus.read(f"{url}/", first=AT * S + 1, last=(AT + 60) * S + 1)
    parts = urlsplit(asked[0])
    parameters = parse_qs(parts.query)
    assert parts.path == "/api/v1/query_range"
    assert parameters["start"] == [str(AT - 5)]
    assert parameters["end"] == [str(AT + 66)]
    assert parameters["step"] == ["1"]
    (query,) = parameters["query"]
    names = query.removeprefix('{__name__=~"').removesuffix('"}').split("|")
    assert {RUNNING, "sglang:token_usage", "tgi_queue_size", "llamacpp:requests_deferred"} < {
        *names
    }
    assert "vllm:request_queue_time_seconds_sum" in names


@pytest.mark.parametrize("seconds", [0, 589, 590, 3600, 86_400])
def test_a_range_has_at_most_600_points(seconds: int) -> None:
    asked = {k: int(v) for k, v in prometheus.asked_for(0, seconds * S).items() if k != "query"}
    length = asked["end"] - asked["start"]
    assert length == seconds + 10
    assert length // asked["step"] + 1 <= 600
    assert asked["step"] == 1 or length // (asked["step"] - 1) + 1 > 600


def test_an_answer_becomes_series_by_time_and_instance() -> None:
    """Engines of one instance add up, the fullest cache counts, instances stay apart; what is no
    number, no point or not known is passed over."""
    answer = ranges(
        row(RUNNING, (AT, "1"), (AT + 1.5, "2"), instance="a:8000", engine="0"),
        row(RUNNING, (AT, "3"), (AT + 1.5, "NaN"), instance="a:8000", engine="1"),
        row(RUNNING, (AT, "7"), instance="b:8000"),
        row("vllm:kv_cache_usage_perc", (AT, "0.5"), instance="a:8000", engine="0"),
        row("vllm:kv_cache_usage_perc", (AT, "0.25"), instance="a:8000", engine="1"),
        row("sglang:per_stage_req_latency_seconds_sum", (AT, "1"), stage="tokenize"),
        row("up", (AT, "1"), instance="a:8000"),
        row("tgi_queue_size", (None, "1"), (AT, "x"), (1e300, "1"), (float(AT), None)),
        {"values": 3},
    )
    found = prometheus.parsed(json.loads(answer), "http://p")
    assert [(each.at, each.source, each.values) for each in found] == [
        (
            "2023-11-14T22:13:20.000000Z",
            "http://p",
            {'sglang:per_stage_req_latency_seconds_sum{stage="tokenize"}': 1.0},
        ),
        (
            "2023-11-14T22:13:20.000000Z",
            "http://p#a:8000",
            {RUNNING: 4.0, "vllm:kv_cache_usage_perc": 0.5},
        ),
        ("2023-11-14T22:13:20.000000Z", "http://p#b:8000", {RUNNING: 7.0}),
        ("2023-11-14T22:13:21.500000Z", "http://p#a:8000", {RUNNING: 2.0}),
    ]
    assert [understood(to_line(each)) for each in found] == found


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (
            400,
            '{"status":"error","error":"bad\\nquery"}',
            r"query_range answered 400 \(bad query\)",
        ),
        (200, '{"status":"error"}', "answered 200, no range"),
        (200, "<html>", "answered 200, no range"),
        (503, "", "answered 503, no range"),
        (200, ranges(), "kept no figure"),
        (200, " " * 100, "longer than"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused(
    status: int, body: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "MOST_BYTES", 99)
    with (
        prometheus_at(body, status=status) as (url, _),
        pytest.raises(EndpointError, match=why) as raised,
    ):
        prometheus.read(url, first=0, last=0)
    assert "\n" not in str(raised.value)


def test_nobody_there() -> None:
    with prometheus_at("") as (url, _):
        pass
    with pytest.raises(EndpointError, match="cannot be read"):
        prometheus.read(url, first=0, last=0)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:9090", "http://127.0.0.1:9090"),
        ("https://h/prometheus/?x=1", "https://h/prometheus"),
        ("http://h:9090/api/v1/query_range", "http://h:9090"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    assert prometheus.address(text) == url


@pytest.mark.parametrize("text", ["ftp://h", "http://", "http://h:x", "http://u:p@h"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics"):
        prometheus.address(text)
