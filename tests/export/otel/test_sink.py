"""Calls of real clients as spans of a real SDK: ids, parents, sampling, metrics, exemplars."""

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import httpx2
import openai
import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, StatusCode, TraceState
from opentelemetry.util.types import Attributes

import latscope
from latscope.errors import UsageError
from latscope.export.otel.sink import OTelSink
from tests.capture.scripted import ScriptedServer, answer, serving
from tests.export.otel.conftest import Seen, chat, seen
from tests.export.otel.told_calls import healthy

BODY = {"model": "tiny-1", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


def openai_client(server: ScriptedServer, **how: Any) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", **how)


def call(client: httpx2.Client, server: ScriptedServer, **how: Any) -> httpx2.Response:
    return client.post(f"{server.url}/v1/chat/completions", json=BODY, **how)


def ids(span: ReadableSpan) -> tuple[int, int]:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id, context.span_id


def test_a_call_is_a_child_of_the_span_it_was_made_in(otel: Seen) -> None:
    tracer = otel.tracers.get_tracer("app")
    with serving(chat()) as server, openai_client(server) as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        with tracer.start_as_current_span("user") as user:
            stream = client.chat.completions.create(**BODY)  # type: ignore[call-overload]
            for number, _ in enumerate(stream):
                with tracer.start_as_current_span(f"between-{number}"):
                    assert trace.get_current_span() is not user
                assert trace.get_current_span() is user
    (own,) = otel.named("chat tiny-1")
    assert own.kind is SpanKind.CLIENT
    assert own.parent == user.get_span_context()
    between = [span for span in otel.spans() if span.name.startswith("between")]
    assert between
    assert {span.parent.span_id for span in between if span.parent} == {
        user.get_span_context().span_id
    }
    children = [span for span in otel.ours() if span is not own]
    assert {span.name for span in children} >= {"POST", "client.pool_wait", "network.connect"}
    assert {span.parent.span_id for span in children if span.parent} == {ids(own)[1]}
    assert {ids(span)[0] for span in children} == {ids(user)[0]} if isinstance(user, Span) else True


def test_spans_have_the_times_at_which_things_happened(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client() as client:
        calls: list[latscope.Recording] = []
        latscope.instrument(client, sink=[OTelSink(otel.tracers, otel.meters), calls.append])
        call(client, server)
    (own,) = otel.named("chat tiny-1")
    (recorded,) = calls
    a = latscope.attribute(recorded)
    assert own.start_time is not None
    assert own.end_time is not None
    assert own.end_time - own.start_time == a.wall_ns
    assert own.attributes is not None
    assert own.attributes["latscope.call_id"] == recorded.call_id
    assert recorded.trace is not None
    assert ids(own) == (int(recorded.trace.trace_id, 16), int(recorded.trace.span_id, 16))


def test_the_server_is_sent_the_ids_of_the_calls_own_span(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        call(client, server)
        (own,) = otel.named("chat tiny-1")
        sent = server.requests[0].headers
    trace_id, span_id = ids(own)
    assert sent["traceparent"] == f"00-{trace_id:032x}-{span_id:016x}-01"
    assert own.attributes is not None
    assert sent["x-request-id"] == own.attributes["latscope.call_id"]


def test_each_retry_carries_the_same_ids_and_is_an_attempt_of_one_span(otel: Seen) -> None:
    with serving(answer(500, b"{}"), chat()) as server:
        with openai_client(server, max_retries=1) as client:
            latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
            list(client.chat.completions.create(**BODY))  # type: ignore[call-overload]
        sent = {request.headers["traceparent"] for request in server.requests}
    assert len(server.requests) == 2
    assert len(sent) == 1
    assert len(otel.named("chat tiny-1")) == 1
    assert len(otel.named("POST")) == 2
    counts = otel.metrics()["gen_ai.client.inference.usage.output_tokens"]
    assert [point.value for point in counts] == [2]  # type: ignore[attr-defined]


class Asked(Sampler):
    """Notes what it is asked, and says what it is told to."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.questions: list[tuple[str, SpanKind | None, Attributes]] = []

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        self.questions.append((name, kind, attributes))
        return SamplingResult(self.decision, {"sampler.said": "yes"})

    def get_description(self) -> str:
        return "asked"


def test_the_sampler_is_asked_once_before_the_request_goes_out() -> None:
    sampler = Asked(Decision.RECORD_AND_SAMPLE)
    otel = seen(sampler)
    before: list[int] = []

    def reply(request: object) -> list[Any]:
        before.append(len(sampler.questions))
        return chat()

    with serving(reply) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        call(client, server)
        (own,) = otel.named("chat tiny-1")
        asked = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "tiny-1",
            "server.address": "127.0.0.1",
            "server.port": server.port,
        }
    assert before == [1]
    assert sampler.questions == [("chat tiny-1", SpanKind.CLIENT, asked)]
    assert own.attributes is not None
    assert own.attributes["sampler.said"] == "yes"


def test_a_call_that_is_not_sampled_says_so_to_the_server_and_makes_no_span() -> None:
    otel = seen(ALWAYS_OFF)
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        call(client, server)
        assert server.requests[0].headers["traceparent"].endswith("-00")
    assert not otel.spans()
    assert "gen_ai.client.inference.duration" in otel.metrics()


def test_exemplars_lead_from_a_metric_to_the_span(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        call(client, server)
    (own,) = otel.named("chat tiny-1")
    (point,) = otel.metrics()["gen_ai.client.inference.duration"]
    (exemplar,) = point.exemplars  # type: ignore[attr-defined]
    assert (exemplar.trace_id, exemplar.span_id) == ids(own)


class OnStart(SpanProcessor):
    """What baggage processors do: copy from the context the span is made in."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        span.set_attribute("user", str(baggage.get_baggage("user", parent_context)))


def test_processors_see_the_context_of_the_calls_entry(otel: Seen) -> None:
    otel.tracers.add_span_processor(OnStart())
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        token = contexts.attach(baggage.set_baggage("user", "u-1"))
        try:
            call(client, server)
        finally:
            contexts.detach(token)
    assert {span.attributes["user"] for span in otel.ours() if span.attributes} == {"u-1"}


class Numbered(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        return 0xABC


def test_ids_come_from_the_providers_own_generator() -> None:
    otel = seen()
    otel.tracers.id_generator = Numbered()
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        call(client, server)
    assert ids(otel.named("chat tiny-1")[0])[0] == 0xABC


def test_a_failed_call_has_a_status_and_no_words(otel: Seen) -> None:
    refusal = answer(400, b'{"error":{"type":"bad_thing","message":"secret"}}')
    with serving(refusal) as server, openai_client(server, max_retries=0) as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(**BODY)  # type: ignore[call-overload]
    (own,) = otel.named("chat tiny-1")
    assert own.status.status_code is StatusCode.ERROR
    assert own.status.description is None
    assert own.attributes is not None
    assert own.attributes["error.type"] == "bad_thing"


def test_a_call_without_an_answer_is_a_span_too(otel: Seen) -> None:
    with httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        with pytest.raises(httpx2.ConnectError):
            client.post("http://127.0.0.1:9/v1/chat/completions", json=BODY)
    (own,) = otel.named("chat tiny-1")
    assert own.attributes is not None
    assert own.attributes["error.type"] == "httpx2.ConnectError"


def test_async_calls_leave_the_current_span_as_it_was(otel: Seen) -> None:
    tracer = otel.tracers.get_tracer("app")

    async def main(server: ScriptedServer) -> None:
        async with httpx2.AsyncClient() as client:
            latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
            with tracer.start_as_current_span("user") as user:
                async with client.stream(
                    "POST", f"{server.url}/v1/chat/completions", json=BODY
                ) as answer:
                    assert trace.get_current_span() is user
                    async for _ in answer.aiter_bytes():
                        assert trace.get_current_span() is user
                assert trace.get_current_span() is user

    with serving(chat()) as server:
        anyio.run(main, server)
    assert len(otel.named("chat tiny-1")) == 1


class SpanInside(httpx2.BaseTransport):
    """A transport that makes a span of each request, as HTTPX's instrumentation does."""

    def __init__(self, provider: TracerProvider) -> None:
        self.inner = httpx2.HTTPTransport()
        self.tracer = provider.get_tracer("http")

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        with self.tracer.start_as_current_span("http-request"):
            return self.inner.handle_request(request)

    def close(self) -> None:
        self.inner.close()


def test_spans_made_inside_the_transport_are_children_of_the_call(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client(transport=SpanInside(otel.tracers)) as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        call(client, server)
        assert not trace.get_current_span().get_span_context().is_valid
    (own,) = otel.named("chat tiny-1")
    (inside,) = otel.named("http-request")
    assert inside.parent is not None
    assert (inside.parent.trace_id, inside.parent.span_id) == ids(own)


def test_a_transport_that_fails_leaves_the_context_as_it_was(otel: Seen) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("no")

    with httpx2.Client(transport=httpx2.MockTransport(refuse)) as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        with pytest.raises(httpx2.ConnectError):
            client.post("http://model/v1/chat/completions", json=BODY)
    assert not trace.get_current_span().get_span_context().is_valid


def test_without_a_provider_there_are_no_spans_and_one_line_says_so(
    otel: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(chat(), chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(meter_provider=otel.meters))
        with caplog.at_level(logging.WARNING, "latscope"):
            call(client, server)
            call(client, server)
            assert latscope.flush()
        assert len(server.requests[0].headers["traceparent"]) == 55
    assert [record.message for record in caplog.records] == [
        "no spans are made: set an OpenTelemetry SDK tracer provider, or give one to OTelSink"
    ]
    assert "latscope.segment.duration" in otel.metrics()


def test_a_provider_that_another_tool_wraps_is_found(otel: Seen) -> None:
    class Wrapped:
        provider = otel.tracers

    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(Wrapped(), otel.meters))
        call(client, server)
    assert len(otel.named("chat tiny-1")) == 1


def test_a_recording_from_elsewhere_keeps_its_ids(otel: Seen) -> None:
    from latscope.recording import Trace

    known = Trace(trace_id="a" * 32, span_id="b" * 16, parent_id="c" * 16)
    OTelSink(otel.tracers, otel.meters).write(healthy(trace=known))
    own = next(span for span in otel.ours() if span.name == "chat tiny-1")
    assert ids(own) == (int("a" * 32, 16), int("b" * 16, 16))
    assert own.parent is not None
    assert own.parent.span_id == int("c" * 16, 16)


def test_somebody_who_asks_for_no_telemetry_gets_none(otel: Seen) -> None:
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        token = contexts.attach(contexts.set_value("suppress_instrumentation", True))
        try:
            call(client, server)
        finally:
            contexts.detach(token)
        assert "traceparent" not in server.requests[0].headers
    assert not otel.spans()
    assert not otel.metrics()


def test_metric_tags_are_a_list_of_names() -> None:
    with pytest.raises(UsageError, match="metric_tags is a list"):
        OTelSink(metric_tags="team")


def test_the_other_sinks_get_the_same_call(otel: Seen) -> None:
    calls: list[latscope.Recording] = []
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(
            client,
            sink=[OTelSink(otel.tracers, otel.meters, metric_tags=["team"]), calls.append],
            tags={"team": "search"},
        )
        call(client, server)
    (own,) = otel.named("chat tiny-1")
    assert own.attributes is not None
    assert own.attributes["latscope.tags.team"] == calls[0].tags["team"] == "search"
    (point,) = otel.metrics()["gen_ai.client.inference.duration"]
    assert point.attributes["latscope.tags.team"] == "search"  # type: ignore[attr-defined]
