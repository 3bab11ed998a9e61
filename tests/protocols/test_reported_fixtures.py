"""Hand-written answers of vendors, through the whole way: their figures reach the timeline."""

from dataclasses import replace

import pytest

from latscope.documents.recordings import read
from latscope.protocols.mask import mask
from latscope.recording import Recording, ServerSpan, to_line
from latscope.timeline import build
from latscope.units import MS
from tests.protocols.synthetic import CASES, FOLDER, Case, recording

Told = tuple[tuple[str, str, float], ...]
"""(source, covers, ms) of a recording's figures."""

FIREWORKS: Told = (
    ("fireworks.perf_metrics", "queue+prefill", 42.0),
    ("fireworks.perf_metrics", "queue+prefill+decode", 82.0),
    ("fireworks.headers", "queue+prefill", 42.0),
)
EXPECTED: dict[str, Told] = {
    "groq-chat-stream": (
        ("groq.usage", "queue.engine", 12.0),
        ("groq.usage", "prefill", 30.0),
        ("groq.usage", "decode", 40.0),
        ("groq.usage", "prefill+decode", 70.0),
    ),
    "cerebras-chat-stream": (
        ("cerebras.time_info", "queue.engine", 11.5),
        ("cerebras.time_info", "prefill", 30.0),
        ("cerebras.time_info", "decode", 40.0),
        ("cerebras.time_info", "queue+prefill+decode", 83.0),
    ),
    "fireworks-chat_dedicated-stream": (
        ("fireworks.perf_metrics", "queue.frontend", 1.0),
        ("fireworks.perf_metrics", "stated", 0.2),
        ("fireworks.perf_metrics", "queue.engine", 11.0),
        ("fireworks.perf_metrics", "prefill", 29.0),
        ("fireworks.perf_metrics", "decode", 40.0),
        *FIREWORKS,
    ),
    "fireworks-chat_serverless-stream": FIREWORKS,
    "sambanova-chat-stream": (
        ("sambanova.usage", "queue+prefill", 42.0),
        ("sambanova.usage", "queue+prefill+decode", 82.0),
    ),
    "xai-chat-body": (
        ("xai.headers", "queue+prefill", 41.7),
        ("xai.headers", "queue+prefill+decode", 81.9),
    ),
    "together-chat-body": (
        ("together.headers", "stated", 3.0),
        ("together.headers", "queue+prefill+decode", 78.0),
    ),
    "openrouter-chat-stream": (
        ("openrouter.metadata", "stated", 76.0),
        ("openrouter.debug", "headers", 26.0),
        ("openrouter.debug", "stated", 38.0),
        ("openrouter.debug", "stated", 38.0),
    ),
    "dynamo-chat-stream": (
        ("dynamo.timing", "queue.frontend", 2.5),
        ("dynamo.timing", "queue+prefill", 42.0),
        ("dynamo.timing", "stated", 39.5),
        ("dynamo.timing", "queue+prefill+decode", 82.0),
    ),
    "sglang-chat_meta_info-body": (
        ("sglang.meta_info", "queue.engine", 11.0),
        ("sglang.meta_info", "queue+prefill", 42.0),
        ("sglang.meta_info", "queue+prefill+decode", 82.0),
        ("sglang.meta_info", "prefill", 29.0),
    ),
    "tgi-chat-body": (
        ("tgi.headers", "queue+prefill+decode", 82.471),
        ("tgi.headers", "queue.frontend", 0.0),
        ("tgi.headers", "queue.engine", 11.0),
        ("tgi.headers", "prefill+decode", 70.0),
        ("tgi.headers", "queue+prefill+decode", 82.0),
    ),
    "bedrock-messages-stream": (
        ("bedrock.metrics", "queue+prefill", 42.0),
        ("bedrock.metrics", "queue+prefill+decode", 82.0),
    ),
    "anthropic-messages-stream": (
        ("envoy.headers", "headers", 39.0),
        ("anthropic.server-timing", "headers", 42.0),
    ),
    "openai-chat-stream": (("openai.headers", "headers", 38.0),),
    "litellm-chat-stream": (
        ("litellm.headers", "headers", 51.25),
        ("litellm.headers", "network.gateway", 3.25),
        ("openai.headers", "headers", 38.0),
    ),
    "litellm-chat_cached-stream": (
        ("groq.usage", "stated", 12.0),
        ("groq.usage", "stated", 30.0),
        ("groq.usage", "stated", 40.0),
        ("groq.usage", "stated", 70.0),
        ("litellm.headers", "stated", 4.5),
    ),
    "mistral-chat-stream": (
        ("envoy.headers", "headers", 37.0),
        ("kong.headers", "headers", 39.0),
        ("kong.headers", "network.gateway", 3.0),
    ),
    "gemini-chat-stream": (("google.server-timing", "headers", 42.0),),
}


def kept(name: str) -> Recording:
    (found,) = read(FOLDER / f"synthetic-{name}.jsonl")
    return found


def told(call: Recording) -> Told:
    return tuple((f.source, f.covers, round(f.ns / MS, 4)) for f in build(call).reported)


def test_every_case_is_expected() -> None:
    assert sorted(case.name for case in CASES) == sorted(EXPECTED)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_file_is_what_the_script_writes_and_says_what_it_is(case: Case) -> None:
    """Nobody mends a fixture by hand, and nobody takes it for a real server's."""
    path = FOLDER / f"synthetic-{case.name}.jsonl"
    assert path.read_text(encoding="utf-8") == to_line(recording(case)) + "\n"
    tags = kept(case.name).tags
    assert tags["origin"] == "synthetic"
    assert tags["source"] == case.source


@pytest.mark.parametrize("name", EXPECTED)
def test_the_figures_of_a_vendor(name: str) -> None:
    """The finer statement first; a masked recording states the same."""
    call = kept(name)
    assert told(call) == EXPECTED[name]
    assert build(mask(call)).reported == build(call).reported


@pytest.mark.parametrize("name", EXPECTED)
def test_only_the_cached_answer_is_flagged(name: str) -> None:
    assert ("replayed_answer" in build(kept(name)).flags) == (name == "litellm-chat_cached-stream")


def span(name: str, source: str, **attributes: float) -> ServerSpan:
    return ServerSpan(
        name=name,
        source=source,
        service="engine",
        trace_id="1" * 32,
        span_id=name.ljust(16, "0"),
        parent_id=None,
        kind="SERVER",
        start_unix_ns=1,
        duration_ns=7 * MS,
        attributes={f"gen_ai.latency.{key}": value for key, value in attributes.items()},
    )


def test_joined_spans_state_their_figures_too() -> None:
    """By attribute, and SGLang's stages by their length; a hop's span states nothing."""
    call = kept("openai-chat-stream")
    spans = (
        span("llm_request", "vllm.otel", time_in_queue=0.0125),
        span("prefill_waiting", "sglang.otel"),
        span("ingress", ""),
    )
    assert told(replace(call, spans=spans)) == (
        ("vllm.otel", "queue.engine", 12.5),
        ("sglang.otel", "queue.engine", 7.0),
        ("openai.headers", "headers", 38.0),
    )


def test_an_sglang_span_knows_whether_the_answer_was_streamed() -> None:
    """Of a whole answer its first output says nothing; a call that got no answer has no such
    doubt."""
    spans = (span("request", "sglang.otel", time_to_first_token=0.04),)
    assert told(replace(kept("openai-chat-stream"), spans=spans))[0][1:] == ("queue+prefill", 40.0)
    whole = replace(kept("xai-chat-body"), spans=spans)
    assert "sglang.otel" not in {source for source, _, _ in told(whole)}
    assert told(replace(whole, attempts=()))[0][1:] == ("queue+prefill", 40.0)
