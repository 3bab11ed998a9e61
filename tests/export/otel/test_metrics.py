"""A call as points of metrics."""

from dataclasses import replace

from latscope.attribution.model import LoadExcess, Stall
from latscope.export.otel import names
from latscope.export.otel.metrics import metric_points
from latscope.units import MS
from tests import calls
from tests.export.otel.told_calls import healthy, of, silent, values

BASE = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "tiny-1",
    "gen_ai.response.model": "tiny",
    "server.address": "127.0.0.1",
    "server.port": 8000,
}


def test_the_conventions_own_metrics() -> None:
    points = metric_points(of(healthy()))
    assert values(points, "gen_ai.client.inference.duration") == [0.132]
    assert values(points, "gen_ai.client.inference.time_to_first_chunk") == [0.1]
    assert values(points, "gen_ai.client.inference.time_per_output_chunk") == [0.01] * 3
    assert values(points, "gen_ai.client.inference.usage.input_tokens") == [10]
    assert values(points, "gen_ai.client.inference.usage.output_tokens") == [4]
    assert values(points, "gen_ai.client.inference.operation.input_tokens") == [10]
    assert values(points, "gen_ai.client.inference.operation.output_tokens") == [4]
    assert not values(points, "gen_ai.client.inference.usage.cache_read.input_tokens")
    duration = next(p for p in points if p.instrument.name == "gen_ai.client.inference.duration")
    assert duration.attributes == BASE
    assert duration.instrument.buckets == (
        0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
    )  # fmt: skip
    usage = next(p for p in points if p.instrument.name.endswith("usage.input_tokens"))
    assert usage.attributes == {**BASE, "gen_ai.token.modality": "text"}
    assert (usage.instrument.unit, usage.instrument.buckets) == ("{token}", ())


def test_segments_by_provenance_add_up_and_an_unsplit_piece_stands_under_its_candidates() -> None:
    told = of(silent())
    points = [p for p in metric_points(told) if p.instrument.name == "latscope.segment.duration"]
    assert round(sum(sum(p.values) for p in points) * 1e9) == told.attribution.wall_ns
    joint = [p for p in points if "|" in str(p.attributes["latscope.segment"])]
    assert joint
    assert all(p.attributes["latscope.provenance"] == "bound" for p in joint)
    alone = {p.attributes["latscope.segment"] for p in points} - {
        p.attributes["latscope.segment"] for p in joint
    }
    assert "queue" not in alone
    assert "unattributed" not in alone
    first = [
        p for p in metric_points(told) if p.instrument.name == "latscope.ttft.segment.duration"
    ]
    assert round(sum(sum(p.values) for p in first) * 1e9) == told.attribution.first_token_ns


def test_error_type_stands_on_the_duration_only() -> None:
    told = of(calls.stream(calls.tokens(2, start=100.0, step=10.0), error="httpx2.ReadError"))
    points = metric_points(told, aliases=True)
    with_error = {p.instrument.name for p in points if "error.type" in p.attributes}
    assert with_error == {"gen_ai.client.inference.duration", "gen_ai.client.operation.duration"}


def test_a_cancelled_call_is_no_success_among_the_durations() -> None:
    chunks = calls.tokens(2, start=100.0, step=10.0)
    told = of(calls.stream(chunks, reason="cancelled", stop=115.0, end=115.0))
    (point,) = [p for p in metric_points(told) if p.instrument.name == names.M_DURATION]
    assert point.attributes["error.type"] == "cancelled"


def test_a_failed_call_used_no_tokens_and_one_without_usage_is_not_counted() -> None:
    refused = of(calls.call(calls.attempt(status=400, headers=10.0, end=10.0)))
    assert values(metric_points(refused), "gen_ai.client.inference.usage.input_tokens") == [0]
    assert values(metric_points(refused), "gen_ai.client.inference.usage.output_tokens") == [0]
    assert not values(metric_points(of(silent())), "gen_ai.client.inference.usage.input_tokens")


def test_only_tags_that_were_asked_for_become_attributes() -> None:
    told = of(healthy(tags={"team": "search", "user": "u-1"}))
    assert not [p for p in metric_points(told) if "latscope.tags" in str(p.attributes)]
    points = metric_points(told, tags=("team", "absent"))
    assert all(p.attributes["latscope.tags.team"] == "search" for p in points)
    assert not [p for p in points if "u-1" in str(p.attributes) or "absent" in str(p.attributes)]


def test_aliases_add_the_old_names_and_only_then() -> None:
    plain = {p.instrument.name for p in metric_points(of(healthy()))}
    added = {p.instrument.name for p in metric_points(of(healthy()), aliases=True)} - plain
    assert added == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.client.operation.time_per_output_chunk",
        "gen_ai.client.token.usage",
    }
    points = metric_points(of(healthy()), aliases=True)
    kinds = {
        p.attributes["gen_ai.token.type"]: sum(p.values)
        for p in points
        if p.instrument.name == "gen_ai.client.token.usage"
    }
    assert kinds == {"input": 10, "output": 4}


def test_what_another_tool_counts_is_not_counted_again() -> None:
    points = metric_points(of(healthy()), conventional=False, aliases=True)
    assert {p.instrument.name.partition(".")[0] for p in points} == {"latscope"}


def test_cached_share_stalls_excess_and_retries() -> None:
    told = of(healthy())
    excess = LoadExcess(ns=MS, low_ns=0, high_ns=2 * MS, floor_ns=MS, n=9, provenance="inferred")
    a = replace(
        told.attribution,
        cached_tokens=4,
        load_excess=excess,
        stalls=(Stall(at_ns=0, ns=5 * MS, cause="hold", confidence=0.9),),
        attempts=told.attribution.attempts * 3,
    )
    points = metric_points(replace(told, attribution=a))
    assert values(points, "latscope.cached_share") == [0.4]
    assert values(points, "latscope.load_excess") == [0.001]
    assert values(points, "latscope.stall.duration") == [0.005]
    assert values(points, "latscope.retries") == [2]
    assert values(points, "gen_ai.client.inference.usage.cache_read.input_tokens") == [4]


def test_what_is_no_inference_has_times_and_nothing_of_genai() -> None:
    listing = calls.call(calls.attempt([(10.0, b"{}")], kind="application/json"), path="/v1/models")
    points = metric_points(of(listing), aliases=True)
    assert {p.instrument.name for p in points} == {"latscope.segment.duration"}
    assert not [p for p in points if "gen_ai" in str(p.attributes)]


def test_an_answer_fetched_again_was_counted_when_it_was_made() -> None:
    told = replace(of(healthy()), operation="fetch_response")
    points = metric_points(told, aliases=True)
    assert not [p for p in points if "token" in p.instrument.name]


def test_the_gaps_between_chunks_can_be_left_out() -> None:
    points = metric_points(of(healthy()), chunks=False, aliases=True)
    assert not [p for p in points if "per_output_chunk" in p.instrument.name]
    assert values(points, "gen_ai.client.inference.time_to_first_chunk") == [0.1]
