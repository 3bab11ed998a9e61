"""Same words, other intervals: every trap servers' own figures hold, one test each."""

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


# -- one name, several intervals ------------------------------------------------------------------


def test_time_to_first_token_starts_where_the_server_starts_it() -> None:
    """Scheduled -> first in vLLM's body, arrival -> first in its span, and with the queue in
    Fireworks, SambaNova, Dynamo, LM Studio and NIM."""
    assert body(metrics={"time_to_first_token_ms": 20.0}) == {
        "time_to_first_token_ms": ("prefill", 20.0)
    }
    span = reported.of_span("vllm.otel", {"gen_ai.latency.time_to_first_token": 0.5})
    assert list(covers(span).values()) == [("queue+prefill", 500.0)]
    for found in (
        body(perf_metrics={"server-time-to-first-token": "0.5"}),
        body(usage={"time_to_first_token": 0.5, "total_latency": 0.9}),
        body(nvext={"timing": {"ttft_ms": 500.0}}),
        body(stats={"time_to_first_token_seconds": 0.5}),
        body(stats={"time_to_first_token": 0.5, "generation_time": 0.9}),
        body(stats={"response_tokens": {"time_to_first_token_in_ms": 500.0}}),
    ):
        assert ("queue+prefill", 500.0) in found.values()
        assert "prefill" not in {told for told, _ in found.values()}


def test_time_in_model_prefill_is_prefill_in_vllm_and_holds_the_queue_in_sglang() -> None:
    """One attribute, two meanings: in SGLang it starts when the API process hands the request on,
    so what it leaves of the first token's time is the front end."""
    attributes = {
        "gen_ai.latency.time_in_model_prefill": 0.3,
        "gen_ai.latency.time_to_first_token": 0.35,
        "gen_ai.latency.time_in_model_inference": 0.9,
    }
    vllm = covers(reported.of_span("vllm.otel", attributes))
    assert vllm["gen_ai.latency.time_in_model_prefill"] == ("prefill", 300.0)
    assert vllm["gen_ai.latency.time_in_model_inference"] == ("prefill+decode", 900.0)
    sglang = covers(reported.of_span("sglang.otel", attributes))
    assert sglang["gen_ai.latency.time_in_model_prefill"] == ("stated", 300.0)
    assert sglang["gen_ai.latency.time_in_model_inference"] == ("stated", 900.0)
    difference = "gen_ai.latency.time_to_first_token - gen_ai.latency.time_in_model_prefill"
    assert sglang[difference] == ("queue.frontend", 50.0)


def test_sglangs_first_output_of_a_whole_answer_is_no_first_token() -> None:
    """It reaches the API process late, with decode in it: only a stream's counts."""
    attributes = {
        "gen_ai.latency.time_to_first_token": 0.9,
        "gen_ai.latency.time_in_model_decode": 0.1,
        "gen_ai.latency.e2e": 1.0,
    }
    whole = covers(reported.of_span("sglang.otel", attributes, streamed=False))
    assert whole == {"gen_ai.latency.e2e": ("queue+prefill+decode", 1000.0)}
    stream = covers(reported.of_span("sglang.otel", attributes, streamed=True))
    assert stream["gen_ai.latency.time_to_first_token"] == ("queue+prefill", 900.0)
    assert stream["gen_ai.latency.time_in_model_decode"] == ("decode", 100.0)


def test_sglangs_stages_have_spans_of_their_own() -> None:
    """The only place where its OpenAI streams tell queue and prefill apart."""
    assert covers(reported.of_span("sglang.otel", {"prefill_waiting": 5_000_000})) == {
        "prefill_waiting": ("queue.engine", 5.0)
    }
    assert covers(reported.of_span("sglang.otel", {"prefill_forward": 7_000_000})) == {
        "prefill_forward": ("prefill", 7.0)
    }


def test_a_stage_told_twice_counts_not_at_all() -> None:
    """A retracted request is prefilled again: which of the two is meant is not said."""
    once, again = ("sglang.otel", {"prefill_forward": 7}), ("sglang.otel", {"prefill_forward": 9})
    assert reported.of_call((), (), [once, ("sglang.otel", {"prefill_waiting": 4})]) != ()
    (left,) = reported.of_call((), (), [once, again, ("sglang.otel", {"prefill_waiting": 4})])
    assert left.field == "prefill_waiting"


def test_dynamos_prefill_holds_the_workers_queue() -> None:
    """Its router stamps the prefill's start when it hands the request on: what came before is the
    front end, what comes after is queue and prefill together."""
    timing = {
        "request_received_ms": 1_795_971_377_000,
        "prefill_wait_time_ms": 12.5,
        "prefill_time_ms": 70.0,
        "ttft_ms": 82.5,
        "total_time_ms": 1000.0,
        "kv_hit_rate": 0.8,
    }
    assert body(nvext={"timing": timing}) == {
        "prefill_wait_time_ms": ("queue.frontend", 12.5),
        "ttft_ms": ("queue+prefill", 82.5),
        "prefill_time_ms": ("stated", 70.0),
        "total_time_ms": ("queue+prefill+decode", 1000.0),
    }
    assert "prefill_wait_time_ms" not in body(nvext={"timing": {"ttft_ms": 82.5}})


def test_a_total_is_not_the_same_total_everywhere() -> None:
    """Groq's leaves the queue out, Cerebras' is the wall, Ollama's includes loading, Converse has
    a total and nothing else."""
    parts = {"queue_time": 0.5, "prompt_time": 0.25, "completion_time": 1.0}
    groq = body(usage={**parts, "total_time": 1.25})
    assert groq["total_time"] == ("prefill+decode", 1250.0)
    cerebras = body(time_info={**parts, "total_time": 2.0, "created": 1_795_971_377})
    assert cerebras["total_time"] == ("queue+prefill+decode", 2000.0)
    assert "created" not in cerebras
    ollama = body(
        done=True,
        total_duration=1_500_000_000,
        load_duration=400_000_000,
        prompt_eval_duration=300_000_000,
        eval_count=32,
        eval_duration=700_000_000,
    )
    assert ollama == {
        "load_duration": ("queue.frontend", 400.0),
        "prompt_eval_duration": ("prefill", 300.0),
        "eval_duration": ("decode", 700.0),
        "total_duration": ("queue+prefill+decode", 1500.0),
    }
    assert body(metrics={"latencyMs": 700}) == {"latencyMs": ("queue+prefill+decode", 700.0)}


def test_litellms_duration_is_that_of_the_head() -> None:
    """On a stream it ends with the upstream's head: it is no total there, and never decode."""
    found = heads(EVENT_STREAM, ("x-litellm-response-duration-ms", "450.25"))
    assert found == {"x-litellm-response-duration-ms": ("headers", 450.25)}


# -- what is missing, empty, or of another type ---------------------------------------------------


@pytest.mark.parametrize("metrics", [None, {}, {"queue_time_ms": None}])
def test_metrics_may_be_missing_although_they_are_on(metrics: Any) -> None:
    """Without usage, for n > 1, on other endpoints, on a stream that was cut."""
    assert body(metrics=metrics) == {}


def test_fireworks_writes_numbers_as_text_and_with_two_names() -> None:
    """In perf_metrics bare, in headers with a prefix; three queues on dedicated deployments."""
    dedicated = {
        "prompt-tokens": "120",
        "tokenizer-queue-duration": "0",
        "tokenizer-duration": "0.002",
        "prefill-queue-duration": "0.1",
        "prefill-duration": 0.25,
        "generation-queue-duration": "0.003",
        "generation-duration": "1.5",
        "server-time-to-first-token": "0.36",
        "server-processing-time": "1.87",
    }
    expected = {
        "tokenizer-queue-duration + tokenizer-duration": ("queue.frontend", 2.0),
        "prefill-queue-duration": ("queue.engine", 100.0),
        "prefill-duration": ("prefill", 250.0),
        "generation-queue-duration": ("stated", 3.0),
        "generation-duration": ("decode", 1500.0),
        "server-time-to-first-token": ("queue+prefill", 360.0),
        "server-processing-time": ("queue+prefill+decode", 1870.0),
    }
    assert body(perf_metrics=dedicated) == expected
    named = [(f"fireworks-{name}", str(value)) for name, value in dedicated.items()]
    whole = heads(JSON, *named)
    assert {field.replace("fireworks-", ""): told for field, told in whole.items()} == expected
    stream = heads(EVENT_STREAM, *named)
    assert set(whole) - set(stream) == {
        "fireworks-generation-duration",
        "fireworks-server-processing-time",
    }


def test_fireworks_serverless_states_the_first_token_only() -> None:
    found = body(perf_metrics={"server-time-to-first-token": "0.21", "prompt-tokens": "9"})
    assert found == {"server-time-to-first-token": ("queue+prefill", 210.0)}


def test_litellm_leaves_its_overhead_out_or_loses_track_of_the_provider() -> None:
    """An overhead as long as the call means that no provider call was tracked."""
    duration = ("x-litellm-response-duration-ms", "1000.0")
    assert set(heads(duration)) == {duration[0]}
    right = heads(duration, ("x-litellm-overhead-duration-ms", "8.5"))
    assert right["x-litellm-overhead-duration-ms"] == ("network.gateway", 8.5)
    assert set(heads(duration, ("x-litellm-overhead-duration-ms", "1000.0"))) == {duration[0]}


def test_groqs_whole_answer_has_another_x_groq() -> None:
    """Cache counters, no times; a stream's last chunk states each figure once."""
    assert body(x_groq={"usage": {"dram_cached_tokens": 5, "sram_cached_tokens": 0}}) == {}
    times = {"queue_time": 0.25, "prompt_time": 0.5, "completion_time": 1.0, "total_time": 1.5}
    twice = reported.read({"usage": times, "x_groq": {"id": "req_1", "usage": times}})
    assert twice == reported.read({"x_groq": {"usage": times}}) == reported.read({"usage": times})
    assert len(twice) == 4


def test_names_alone_do_not_make_a_vendor() -> None:
    """Common names count only where something beside them says whose they are."""
    assert body(usage={"time_to_first_token": 0.5}) == {}
    assert body(usage={"total_time": 0.5}) == {}
    assert body(stats={"time_to_first_token": 0.5}) == {}
    assert body(data={"latency": 5, "generation_time": 7}) == {}
    assert heads(("x-queue-time", "12"), ("x-inference-time", "1")) == {}


def test_nims_other_names_claim_nothing() -> None:
    """Its experimental `stats` is read by the names its documentation has, and by no others."""
    stats = {
        "type": "NIM LLM Model Stats",
        "version": "0.1.0",
        "llm_input_token_length": 12,
        "time_in_queue_in_ms": 4.5,
        "generation_time_in_ms": 300.0,
        "prefill_ms": 12.0,
        "response_tokens": {"time_to_first_token_in_ms": 30.0, "tokens_per_second": 99.0},
    }
    assert body(stats=stats) == {
        "time_in_queue_in_ms": ("queue.engine", 4.5),
        "generation_time_in_ms": ("stated", 300.0),
        "time_to_first_token_in_ms": ("queue+prefill", 30.0),
    }


# -- rounding -------------------------------------------------------------------------------------


def test_tgi_cuts_to_whole_milliseconds() -> None:
    """A zero there is under one millisecond, not unmeasured; the seconds field is finer and so
    comes before the whole milliseconds of the same total."""
    headers = (
        JSON,
        ("x-compute-type", "1-nvidia"),
        ("x-compute-time", "0.734982"),
        ("x-total-time", "734"),
        ("x-validation-time", "0"),
        ("x-queue-time", "0"),
        ("x-inference-time", "733"),
        ("x-time-per-token", "22"),
    )
    figures = reported.of_call((), headers)
    assert [(f.field, f.covers, f.ns, f.resolution_ns) for f in figures] == [
        ("x-compute-time", "queue+prefill+decode", 734_982_000, 1_000),
        ("x-validation-time", "queue.frontend", 0, MS),
        ("x-queue-time", "queue.engine", 0, MS),
        ("x-inference-time", "prefill+decode", 733 * MS, MS),
        ("x-total-time", "queue+prefill+decode", 734 * MS, MS),
    ]


def test_envoys_zero_is_a_measurement_and_openais_is_not() -> None:
    assert heads(("x-envoy-upstream-service-time", "0")) == {
        "x-envoy-upstream-service-time": ("headers", 0.0)
    }
    assert heads(("openai-processing-ms", "0")) == {}


def test_differences_below_zero_are_no_figures() -> None:
    """Rounded or re-stamped clocks can run backwards."""
    info = {"forward_entry_time": 1_795_971_377.5, "prefill_finished_time": 1_795_971_377.25}
    assert body(meta_info=info) == {}


# -- SGLang ---------------------------------------------------------------------------------------


SGLANG = {
    "id": "a",
    "prompt_tokens": 12,
    "queue_time": 0.04,
    "forward_entry_time": 1_795_971_377.5,
    "prefill_finished_time": 1_795_971_377.75,
    "first_token_latency": 0.31,
    "e2e_latency": 0.9,
    "request_received_ts": 1_795_971_377.4,
    "num_retractions": 0,
}


def test_sglangs_meta_info_natively_and_inside_the_choice() -> None:
    """Native at the top, OpenAI-like in the only choice; wall-clock stamps as a difference."""
    expected = {
        "queue_time": ("queue.engine", 40.0),
        "prefill_finished_time - forward_entry_time": ("prefill", 250.0),
        "first_token_latency": ("queue+prefill", 310.0),
        "e2e_latency": ("queue+prefill+decode", 900.0),
    }
    assert body(text="x", meta_info=SGLANG) == expected
    assert body(choices=[{"index": 0, "meta_info": SGLANG}]) == expected
    assert body(choices=[{"meta_info": SGLANG}, {"meta_info": SGLANG}]) == {}


def test_sglangs_queue_after_a_retraction_is_not_one_wait() -> None:
    """It sums later stays, which lie inside decode."""
    found = body(meta_info={**SGLANG, "num_retractions": 1})
    assert set(found) == {"first_token_latency", "e2e_latency"}
