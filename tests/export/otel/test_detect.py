"""Others that make spans of the same call: theirs is the inference, nothing counts twice.

The Anthropic SDK's own tracing is the real one. Other instrumentations are stood for by spans with
the attributes and scopes theirs have at their start.
"""

import sys
from types import ModuleType
from typing import Any

import anthropic
import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import INVALID_SPAN, SpanKind

import latscope
from latscope.export.otel import detect
from latscope.export.otel.sink import OTelSink
from latscope.recording import Recording
from tests.calls import sse
from tests.capture.scripted import serving, stream
from tests.export.otel.conftest import Seen, chat

BODY = {"model": "tiny-1", "stream": True, "messages": []}


def event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


def messages() -> list[Any]:
    start = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-tiny",
        "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    return stream(
        event("message_start", message=start),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hi"}),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}),
        event("message_stop"),
    )


@pytest.fixture
def global_tracers(otel: Seen, monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The Anthropic SDK traces where a global provider is set; this one goes with the test."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", otel.tracers)
    return otel


def counted(spans: list[ReadableSpan]) -> list[str]:
    """The spans that a backend would add tokens up of."""
    found = [(span, span.attributes or {}) for span in spans]
    return [span.name for span, attributes in found if any("usage" in key for key in attributes)]


def test_the_anthropic_sdks_own_span_is_the_inference(global_tracers: Seen) -> None:
    otel, calls = global_tracers, list[Recording]()
    with serving(messages()) as server:
        client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
        latscope.instrument(client, sink=[OTelSink(otel.tracers, otel.meters), calls.append])
        with client.messages.stream(
            model="claude-tiny", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        ) as answer:
            assert list(answer.text_stream) == ["hi"]
        client.close()
        sent = server.requests[0].headers["traceparent"]
    (theirs,) = otel.named("anthropic.messages.create")
    context = theirs.get_span_context()
    assert context is not None
    assert sent.split("-")[1:3] == [f"{context.trace_id:032x}", f"{context.span_id:016x}"]
    assert counted(list(otel.spans())) == ["anthropic.messages.create"]
    ours = otel.ours()
    assert {span.name for span in ours} >= {"latscope", "POST", "network.connect"}
    assert {span.parent.span_id for span in ours if span.parent} == {context.span_id}
    assert theirs.attributes is not None
    assert theirs.attributes["latscope.call_id"] == calls[0].call_id
    assert calls[0].trace is not None
    assert calls[0].trace.span_id == f"{context.span_id:016x}"
    # It records no metrics, so ours are the only ones; cumulative usage counts as the last value.
    (point,) = otel.metrics()["gen_ai.client.inference.usage.output_tokens"]
    assert point.value == 5  # type: ignore[attr-defined]


def test_told_to_we_make_the_inference_span_all_the_same(global_tracers: Seen) -> None:
    otel = global_tracers
    with serving(messages()) as server:
        client = anthropic.Anthropic(api_key="k", base_url=server.url, max_retries=0)
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters, inference=True))
        client.messages.create(
            model="claude-tiny",
            max_tokens=9,
            messages=[{"role": "user", "content": "x"}],
            stream=True,
        ).close()
        client.close()
    assert len(otel.named("chat claude-tiny")) == 1


SPANS = [
    ("opentelemetry.instrumentation.genai.openai", {"gen_ai.operation.name": "chat"}, True),
    ("opentelemetry.instrumentation.openai.v1", {"llm.request.type": "chat"}, True),
    ("openinference.instrumentation.openai", {"openinference.span.kind": "LLM"}, False),
    ("logfire.openai", {"gen_ai.operation.name": "chat"}, False),
    ("langfuse-sdk", {"langfuse.observation.type": "generation"}, False),
]


@pytest.mark.parametrize(("scope", "attributes", "counts"), SPANS)
def test_a_current_inference_span_is_taken_for_the_calls_own(
    scope: str, attributes: dict[str, str], counts: bool, otel: Seen
) -> None:
    tracer = otel.tracers.get_tracer(scope)
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters, aliases=True))
        with tracer.start_as_current_span("theirs", attributes=attributes) as theirs:
            client.post(f"{server.url}/v1/chat/completions", json=BODY)
            assert latscope.flush()
    assert not counted(list(otel.spans()))
    assert {s.parent.span_id for s in otel.ours() if s.parent} == {
        theirs.get_span_context().span_id
    }
    (span,) = otel.named("theirs")
    assert span.attributes is not None
    assert "latscope.ttft" in span.attributes  # it was open still
    names = set(otel.metrics())
    assert "latscope.segment.duration" in names
    assert ("gen_ai.client.inference.duration" in names) is not counts
    assert ("gen_ai.client.token.usage" in names) is not counts


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.operation.name": "invoke_agent"},
        {"gen_ai.operation.name": "execute_tool"},
        {"openinference.span.kind": "CHAIN"},
        {"langfuse.observation.type": "span"},
        {},
    ],
)
def test_an_agents_span_is_the_parent_and_not_the_inference(
    attributes: dict[str, str], otel: Seen
) -> None:
    tracer = otel.tracers.get_tracer("agents")
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        with tracer.start_as_current_span("agent", attributes=attributes):
            client.post(f"{server.url}/v1/chat/completions", json=BODY)
    assert counted(list(otel.spans())) == ["chat tiny-1"]


def test_a_span_that_is_not_recorded_or_over_is_nobodys() -> None:
    assert detect.other(INVALID_SPAN) is None
    tracer = TracerProvider().get_tracer("x")
    over = tracer.start_span("chat", attributes={"gen_ai.operation.name": "chat"})
    assert detect.other(over) is not None
    over.end()
    assert detect.other(over) is None


def loaded(monkeypatch: pytest.MonkeyPatch, name: str, instrumentor: str, on: bool) -> None:
    """A module of that name with an instrumentor, as if the application had used it."""
    module = ModuleType(name)
    made = type(instrumentor, (), {"_is_instrumented_by_opentelemetry": on})
    made._instance = made()  # type: ignore[attr-defined]
    setattr(module, instrumentor, made)
    monkeypatch.setitem(sys.modules, name, module)


def test_an_instrumentation_out_of_sight_makes_the_inference_span(
    otel: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openai

    loaded(monkeypatch, "opentelemetry.instrumentation.openai", "OpenAIInstrumentor", True)
    with (
        serving(chat()) as server,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client,
    ):
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        list(client.chat.completions.create(**BODY))  # type: ignore[call-overload]
    assert not counted(list(otel.spans()))
    (own,) = otel.named("latscope")
    assert own.kind is SpanKind.INTERNAL
    assert not [name for name in otel.metrics() if name.startswith("gen_ai")]


@pytest.mark.parametrize(
    ("inference", "name"), [(True, "chat tiny-1"), (False, "latscope"), (None, "latscope")]
)
def test_whose_the_inference_span_is_can_be_said(
    inference: bool | None, name: str, otel: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded(monkeypatch, "langfuse.openai", "", False)
    import openai

    with (
        serving(chat()) as server,
        openai.OpenAI(api_key="k", base_url=f"{server.url}/v1") as client,
    ):
        sink = OTelSink(otel.tracers, otel.meters, inference=inference)
        latscope.instrument(client, sink=sink)
        list(client.chat.completions.create(**BODY))  # type: ignore[call-overload]
    assert len(otel.named(name)) == 1


def test_told_not_to_we_make_none_and_count_nothing(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters, inference=False))
        client.post(f"{server.url}/v1/chat/completions", json=BODY)
    assert not counted(list(otel.spans()))
    assert not [name for name in otel.metrics() if name.startswith("gen_ai")]


@pytest.mark.parametrize(
    ("module", "instrumentor", "on", "sdk", "found"),
    [
        ("opentelemetry.instrumentation.openai", "OpenAIInstrumentor", True, "openai/3.57.0", True),
        ("opentelemetry.instrumentation.openai", "OpenAIInstrumentor", False, "openai/3.5", False),
        ("opentelemetry.instrumentation.openai", "OpenAIInstrumentor", True, "httpx2/2.16", False),
        (
            "opentelemetry.instrumentation.anthropic",
            "AnthropicInstrumentor",
            True,
            "anthropic",
            True,
        ),
        ("langfuse.openai", "Whatever", False, "openai/3.57.0", True),
        ("langfuse.openai", "Whatever", False, None, False),
    ],
)
def test_who_traces_beside_us(
    module: str,
    instrumentor: str,
    on: bool,
    sdk: str | None,
    found: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded(monkeypatch, module, instrumentor, on)
    assert (detect.beside(sdk) is not None) is found


def http_spans(otel: Seen) -> int:
    return len(otel.named("POST"))


def test_attempts_are_left_to_the_instrumentation_of_httpx(
    otel: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "opentelemetry.instrumentation.httpx"
    loaded(monkeypatch, name, "HTTPX2ClientInstrumentor", True)
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        client.post(f"{server.url}/v1/chat/completions", json=BODY)
    assert http_spans(otel) == 0
    assert len(otel.named("chat tiny-1")) == 1


def test_a_client_that_is_instrumented_by_itself_is_known_by_its_mark(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client() as client:
        client._is_instrumented_by_opentelemetry = True  # type: ignore[attr-defined]
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        client.post(f"{server.url}/v1/chat/completions", json=BODY)
    assert http_spans(otel) == 0
    assert len(otel.named("chat tiny-1")) == 1


def test_an_http_span_around_our_transport_is_seen(otel: Seen) -> None:
    tracer = TracerProvider().get_tracer("opentelemetry.instrumentation.httpx")
    with tracer.start_as_current_span("POST") as span:
        assert detect.http_traced(span)
    assert not detect.http_traced(INVALID_SPAN)
