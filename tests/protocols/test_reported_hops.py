"""Figures of gateways, of vendors' headers, of records, and of one call as a whole."""

from typing import Any

import pytest

from latscope.protocols import reported
from latscope.protocols.events import Reported
from latscope.units import MS

EVENT_STREAM = ("content-type", "text/event-stream; charset=utf-8")
JSON = ("content-type", "application/json")


def covers(figures: tuple[Reported, ...]) -> dict[str, tuple[str, float]]:
    """Per field: what it covers, and its length in ms."""
    return {figure.field: (figure.covers, figure.ns / MS) for figure in figures}


def body(**fields: Any) -> dict[str, tuple[str, float]]:
    return covers(reported.read(fields))


def heads(*headers: tuple[str, str]) -> dict[str, tuple[str, float]]:
    return covers(reported.of_headers(headers))


# -- gateways -------------------------------------------------------------------------------------


def test_processing_headers_nest_and_are_never_added() -> None:
    """OpenAI behind LiteLLM behind Envoy: three times the head, one inside the other."""
    headers = (
        EVENT_STREAM,
        ("x-envoy-upstream-service-time", "470"),
        ("x-litellm-response-duration-ms", "460.5"),
        ("x-litellm-overhead-duration-ms", "10.5"),
        ("llm_provider-openai-processing-ms", "441"),
    )
    figures = reported.of_headers(headers)
    found = [figure for figure in figures if figure.covers == "headers"]
    assert len(found) == 3
    inner = reported.innermost(figures)
    assert inner is not None
    assert (inner.source, inner.field) == ("openai.headers", "llm_provider-openai-processing-ms")


def test_litellm_passes_on_any_row() -> None:
    """TGI's times behind LiteLLM, with its mark passed on too."""
    found = heads(
        JSON,
        ("llm_provider-x-compute-type", "cpu"),
        ("llm_provider-x-queue-time", "12"),
        ("x-inference-time", "99"),
    )
    assert found == {"llm_provider-x-queue-time": ("queue.engine", 12.0)}


def test_litellms_details_are_parts_of_its_overhead() -> None:
    """Parts of a figure that is there: shown, never added to it."""
    found = heads(
        ("x-litellm-timing-llm-api-ms", "400.5"),
        ("x-litellm-timing-pre-processing-ms", "3.5"),
        ("x-litellm-timing-post-processing-ms", "2.5"),
        ("x-litellm-timing-message-copy-ms", "0.5"),
        ("x-litellm-callback-duration-ms", "7.5"),
    )
    assert [told for told, _ in found.values()] == [
        "stated",
        "headers",
        "stated",
        "stated",
        "stated",
    ]


@pytest.mark.parametrize(
    "header",
    [
        ("helicone-cache", "HIT"),
        ("x-portkey-cache-status", "SEMANTIC HIT"),
        ("cf-aig-cache-status", "HIT"),
        ("x-litellm-cache-key", "586bf3f3"),
        ("x-litellm-cache-key", "xxxxxxxx"),
        ("llm_provider-cf-aig-cache-status", "hit"),
        ("x-cache", "Hit from cloudfront"),
    ],
)
def test_a_cached_answer_replays_another_calls_figures(header: tuple[str, str]) -> None:
    """Its usage, its timings and its upstream's headers are shown and fill nothing."""
    usage = {"queue_time": 0.25, "prompt_time": 0.5, "completion_time": 1.0}
    before = reported.read({"usage": usage})
    headers = [("openai-processing-ms", "441"), header]
    assert reported.replayed(headers)
    figures = reported.of_call(before, headers)
    assert len(figures) == 4
    assert {figure.covers for figure in figures} == {"stated"}


@pytest.mark.parametrize(
    "header",
    [
        ("helicone-cache", "MISS"),
        ("x-portkey-cache-status", "DISABLED"),
        ("cf-aig-cache-status", "MISS"),
        ("cf-cache-status", "DYNAMIC"),
        ("x-cache", "Miss from cloudfront"),
        ("x-litellm-cache-key", ""),
        ("x-prompt-cache", "hit"),
    ],
)
def test_a_missed_cache_replays_nothing(header: tuple[str, str]) -> None:
    assert not reported.replayed([header])


def test_helicones_cache_latency_is_the_original_answers() -> None:
    """Whatever it says, it is not this call's."""
    headers = [("helicone-cache", "HIT"), ("helicone-cache-latency", "1834")]
    assert reported.of_headers(headers) == ()


def test_kongs_own_time_and_its_upstreams() -> None:
    found = heads(
        ("x-kong-proxy-latency", "0"),
        ("x-kong-upstream-latency", "312"),
        ("x-kong-response-latency", "2"),
    )
    assert found == {
        "x-kong-upstream-latency": ("headers", 312.0),
        "x-kong-response-latency": ("headers", 2.0),
        "x-kong-proxy-latency": ("network.gateway", 0.0),
    }


# -- Server-Timing --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("gfet4t7; dur=512", {"gfet4t7": ("headers", 512.0)}),
        (
            "gfet4t7; dur=512, afe;dur=30.5",
            {"gfet4t7": ("headers", 512.0), "afe": ("stated", 30.5)},
        ),
        ("x-originResponse;dur=684", {"x-originresponse": ("headers", 684.0)}),
        ("x-originResponse;dur=", {}),
        ('cache;desc="a, b; dur=5", db ; DUR = 53 ; desc=x', {"db": ("stated", 53.0)}),
        ('db;desc="open, total;dur=9', {}),
        ('total;dur="12.5"', {"total": ("stated", 12.5)}),
        ("a;dur=1;dur=2, a;dur=3", {"a": ("stated", 1.0)}),
        ("miss, ;dur=3, , a b;dur=4, =;dur=5, ;", {}),
        (f"{'n' * 65};dur=3", {}),
        ("total;dur=xx", {}),
        ("", {}),
    ],
)
def test_server_timing_is_a_list_with_quoted_text(
    value: str, found: dict[str, tuple[str, float]]
) -> None:
    """Names mean what the server wants: but for the two that are known, they are only shown."""
    assert heads(("server-timing", value)) == found


def test_a_repeated_header_is_one_list() -> None:
    """Server-Timing may come on several lines; a number that comes twice is none."""
    twice = heads(("server-timing", "a;dur=1"), ("Server-Timing", "b;dur=2"))
    assert set(twice) == {"a", "b"}
    assert heads(("openai-processing-ms", "441"), ("openai-processing-ms", "441")) == {}


def test_the_longest_server_timing_is_read_as_far_as_the_mask_keeps_it() -> None:
    value = f'cfL4;desc="{"x" * 300}", late;dur=7'
    assert heads(("server-timing", value)) == {"late": ("stated", 7.0)}
    assert heads(("server-timing", f'cfL4;desc="{"x" * 3000}", late;dur=7')) == {}


# -- headers of vendors ---------------------------------------------------------------------------


def test_xais_headers_count_on_whole_answers() -> None:
    """A stream's head leaves before its end is known."""
    headers = (
        ("x-metrics-ttft-ms", "295.3"),
        ("x-metrics-e2e-ms", "2570.6"),
        ("x-metrics-mean-itl-ms", "12.7"),
    )
    assert heads(JSON, *headers) == {
        "x-metrics-ttft-ms": ("queue+prefill", 295.3),
        "x-metrics-e2e-ms": ("queue+prefill+decode", 2570.6),
    }
    assert heads(EVENT_STREAM, *headers) == {}


def test_togethers_stamps_are_differences_of_its_own_clock() -> None:
    """Never against ours; and a stream's end is not known when the head leaves."""
    headers = (
        ("x-api-received", "2026-05-25T16:23:50.354Z"),
        ("x-api-call-start", "2026-05-25T16:23:50.390Z"),
        ("x-api-call-end", "2026-05-25T16:23:51.390Z"),
    )
    before = {"x-api-call-start - x-api-received": ("stated", 36.0)}
    total = {"x-api-call-end - x-api-call-start": ("queue+prefill+decode", 1000.0)}
    assert heads(JSON, *headers) == {**before, **total}
    assert heads(EVENT_STREAM, *headers) == before


def test_bedrock_states_first_byte_and_total() -> None:
    metrics = {"inputTokenCount": 9, "invocationLatency": 1405, "firstByteLatency": 985}
    assert body(type="message_stop", **{"amazon-bedrock-invocationMetrics": metrics}) == {
        "firstByteLatency": ("queue+prefill", 985.0),
        "invocationLatency": ("queue+prefill+decode", 1405.0),
    }
    header = ("x-amzn-bedrock-invocation-latency", "1405")
    assert heads(JSON, header) == {header[0]: ("queue+prefill+decode", 1405.0)}


def test_localais_extra_usage() -> None:
    usage = {
        "completion_tokens": 9,
        "timing_prompt_processing": 12.5,
        "timing_token_generation": 80.5,
    }
    assert body(usage=usage) == {
        "timing_prompt_processing": ("prefill", 12.5),
        "timing_token_generation": ("decode", 80.5),
    }


# -- OpenRouter -----------------------------------------------------------------------------------


def milestone(event: str, at: int) -> tuple[Reported, ...]:
    timings = {"event": event, "epoch_ms": 1_795_971_377_000 + at, "start_ms": at}
    return reported.read({"type": "response.debug", "debug": {"timings": timings}})


def test_openrouters_milestones_are_differences_of_its_own_clock() -> None:
    """One a chunk; a clock reading itself is no figure."""
    marks = [
        *milestone("adapter_request", 12),
        *milestone("upstream_headers_received", 250),
        *milestone("first_token_received", 300),
        *milestone("upstream_body_ended", 900),
        *milestone("something_new", 950),
    ]
    assert covers(reported.of_call(marks)) == {
        "upstream_headers_received - adapter_request": ("headers", 238.0),
        "first_token_received - adapter_request": ("stated", 288.0),
        "upstream_body_ended - first_token_received": ("stated", 600.0),
    }
    assert reported.of_call(marks[1:2]) == ()
    assert reported.of_call([*milestone("adapter_request", 500), *marks[1:2]]) == ()


def test_openrouters_metadata_and_generation_lookup() -> None:
    """Their times hold the way to the provider, or are not defined: shown; moderation comes before
    the provider is called."""
    assert body(openrouter_metadata={"attempt": 1, "generation_time": 812.5}) == {
        "generation_time": ("stated", 812.5)
    }
    data = {
        "native_tokens_prompt": 12,
        "latency": 400,
        "moderation_latency": 30,
        "generation_time": 800,
        "provider_responses": [{"status": 503, "latency": 90}],
    }
    assert body(data=data) == {
        "moderation_latency": ("network.gateway", 30.0),
        "generation_time": ("stated", 800.0),
        "latency": ("stated", 400.0),
    }


# -- TensorRT-LLM ---------------------------------------------------------------------------------


ENGINE = {
    "arrival_time": 1000.5,
    "first_scheduled_time": 1000.75,
    "first_token_time": 1001.0,
    "last_token_time": 1003.0,
    "server_arrival_time": 1000.25,
    "server_first_token_time": 1001.125,
    "kv_cache_transfer_start": None,
}


def test_tensorrt_llms_records_hold_stamps() -> None:
    """Differences of one steady clock, from the record or its timing alone."""
    expected = {
        "first_scheduled_time - arrival_time": ("queue.engine", 250.0),
        "first_token_time - first_scheduled_time": ("prefill", 250.0),
        "last_token_time - first_token_time": ("decode", 2000.0),
        "server_first_token_time - server_arrival_time": ("queue+prefill", 875.0),
    }
    record = {"request_id": 7, "status": "ok", "perf_metrics": {"timing_metrics": ENGINE}}
    assert covers(reported.of_record(record)) == expected
    assert covers(reported.of_record({"timing_metrics": ENGINE})) == expected
    assert reported.of_record({}) == ()


def test_separate_context_and_generation_servers() -> None:
    """Queue and prefill are the context server's; the generation server's first token is the
    call's second."""
    generation = {**ENGINE, "kv_cache_transfer_start": 1001.0, "kv_cache_transfer_end": 1001.5}
    record = {
        "disagg_server_arrival_time": 1000.0,
        "disagg_server_first_token_time": 1002.0,
        "ctx_perf_metrics": {"perf_metrics": {"timing_metrics": ENGINE}},
        "gen_perf_metrics": {"perf_metrics": {"timing_metrics": generation}},
    }
    assert covers(reported.of_record(record)) == {
        "first_scheduled_time - arrival_time": ("queue.engine", 250.0),
        "first_token_time - first_scheduled_time": ("prefill", 250.0),
        "last_token_time - first_token_time": ("stated", 2000.0),
        "disagg_server_first_token_time - disagg_server_arrival_time": ("queue+prefill", 2000.0),
        "kv_cache_transfer_end - kv_cache_transfer_start": ("stated", 500.0),
    }


def test_a_span_of_an_unknown_source_states_nothing() -> None:
    assert reported.of_span("", {"gen_ai.latency.e2e": 1.0}) == ()
    assert covers(reported.of_span("trtllm.otel", {"gen_ai.latency.time_in_queue": "0.5"})) == {
        "gen_ai.latency.time_in_queue": ("queue.engine", 500.0)
    }


# -- one call -------------------------------------------------------------------------------------


def test_a_repeated_figure_counts_as_it_was_told_last_and_the_finer_first() -> None:
    """llama.cpp repeats its timings; whole milliseconds of progress stand behind them."""
    progress = {"total": 8, "processed": 8, "time_ms": 21}
    told = [
        *reported.read({"prompt_progress": progress}),
        *reported.read({"timings": {"prompt_ms": 20.5, "predicted_ms": 1.5}}),
        *reported.read({"timings": {"prompt_ms": 20.5, "predicted_ms": 60.5}}),
    ]
    figures = reported.of_call(told)
    assert [(f.source, f.ns / MS) for f in figures] == [
        ("llama.timings", 20.5),
        ("llama.timings", 60.5),
        ("llama.prompt_progress", 21.0),
    ]


def test_figures_of_body_headers_and_spans_stand_together() -> None:
    """Each with its source, the body's first."""
    span = ("vllm.otel", {"gen_ai.latency.time_in_queue": 0.0125, "llm_request": 9})
    figures = reported.of_call(
        reported.read({"metrics": {"queue_time_ms": 12.25}}),
        [("openai-processing-ms", "441.5")],
        [span],
    )
    assert [f.source for f in figures] == ["vllm.metrics", "vllm.otel", "openai.headers"]
