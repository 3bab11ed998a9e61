"""Sinks, samplers and exporters that raise or hang; secrets; what the caller feels: nothing."""

import contextlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

import latscope
from latscope.export.otel.sink import OTelSink
from latscope.middleware import worker
from latscope.recording import Recording
from tests.calls import DONE, delta, finish, sse, usage
from tests.capture.scripted import Reset, answer, serving, stream
from tests.export.otel.conftest import Seen, chat

BODY = {"model": "tiny-1", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


def texts(client: httpx2.Client, url: str, times: int = 1) -> list[bytes]:
    return [client.post(f"{url}/v1/chat/completions", json=BODY).content for _ in range(times)]


class Raises(Sampler):
    def should_sample(self, *args: Any, **how: Any) -> SamplingResult:
        raise RuntimeError("secret")

    def get_description(self) -> str:
        return "raises"


def test_a_sampler_that_raises_is_noted_and_not_felt(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Recording] = []
    with serving(chat()) as server, httpx2.Client() as client:
        sink = OTelSink(TracerProvider(sampler=Raises()))
        latscope.instrument(client, sink=[calls.append, sink])
        with caplog.at_level(logging.WARNING, "latscope"):
            (text,) = texts(client, server.url)
            assert latscope.flush()
    assert text.endswith(DONE)
    assert calls[0].broken == ("outgoing: RuntimeError",)
    assert "a sink fails, recordings are lost: RuntimeError" in caplog.text
    assert "secret" not in caplog.text


class Broken(OTelSink):
    """Every one of its parts raises."""

    def begin(self, **how: Any) -> Any:
        raise RuntimeError

    def finish(self, *args: Any) -> Any:
        raise SystemExit(3)


def test_a_sink_that_raises_everywhere_costs_its_own_spans_only() -> None:
    calls: list[Recording] = []
    with serving(chat(), chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=[Broken(), calls.append])
        assert all(text.endswith(DONE) for text in texts(client, server.url, 2))
        assert latscope.flush()
        assert "traceparent" in server.requests[0].headers
    assert len(calls) == 2


class Hangs(SpanExporter):
    def __init__(self) -> None:
        self.go, self.entered = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.entered.set()
        self.go.wait(20)
        return SpanExportResult.SUCCESS


def test_an_exporter_that_hangs_holds_the_background_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = worker.Worker(limit=3)
    monkeypatch.setattr(worker, "_worker", mine)
    exporter = Hangs()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    calls = 10
    with serving(*[chat() for _ in range(calls)]) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=OTelSink(tracers))
        (first,) = texts(client, server.url)
        assert exporter.entered.wait(20)
        rest = texts(client, server.url, calls - 1)
    assert {first, *rest} == {first}
    assert mine.dropped == calls - 1 - mine.limit  # counted, and nothing grew
    exporter.go.set()
    mine.stop(20)


CANARIES = {
    "prompt": "canary-prompt",
    "system": "canary-system",
    "tool": "canary-tool-argument",
    "schema": "canary-schema",
    "output": "canary-output",
    "user": "canary-user",
    "header": "canary-header",
    "key": "sk-canarykeycanarykeycanarykey",
    "query": "canary-query",
    "fragment": "canary-path-that-is-long-0123456789",
    "error": "canary-error-text",
    "cookie": "canary-cookie",
}


def exported(otel: Seen) -> bytes:
    """The bytes an OTLP exporter would send."""
    spans = encode_spans(otel.spans()).SerializeToString()
    data = otel.reader.get_metrics_data()
    assert data is not None
    return bytes(spans + encode_metrics(data).SerializeToString())


SECRETIVE: dict[str, Any] = {
    "model": "tiny-1",
    "stream": True,
    "user": CANARIES["user"],
    "messages": [
        {"role": "system", "content": CANARIES["system"]},
        {"role": "user", "content": CANARIES["prompt"]},
    ],
    "tools": [
        {
            "type": "function",
            "function": {"name": "f", "description": CANARIES["schema"], "parameters": {}},
        }
    ],
}


def secretive() -> list[Any]:
    call = {
        "index": 0,
        "id": "call_1",
        "function": {"name": "f", "arguments": CANARIES["tool"]},
    }
    return stream(
        delta("", role="assistant"),
        delta(CANARIES["output"]),
        delta("", tool_calls=[call]),
        finish("tool_calls"),
        usage(5),
        DONE,
        set_cookie=CANARIES["cookie"],
        x_team=CANARIES["header"],
    )


@pytest.mark.parametrize("keep_content", [False, True])
def test_no_secret_is_in_any_exported_byte(keep_content: bool, otel: Seen) -> None:
    failed = sse({"error": {"type": "server_error", "message": CANARIES["error"]}})
    replies = (secretive(), answer(400, failed), stream(delta("a"), failed))
    with serving(*replies) as server:
        client = openai.OpenAI(
            api_key=CANARIES["key"],
            base_url=f"{server.url}/{CANARIES['fragment']}/v1",
            max_retries=0,
            default_headers={"x-secret": CANARIES["header"]},
            default_query={"token": CANARIES["query"]},
        )
        latscope.instrument(
            client,
            sink=OTelSink(otel.tracers, otel.meters, aliases=True),
            keep_content=keep_content,
        )
        for _ in replies:
            with contextlib.suppress(openai.OpenAIError):
                list(client.chat.completions.create(**SECRETIVE))
        client.close()
        assert latscope.flush()
    sent = exported(otel)
    assert b"chat tiny-1" in sent
    assert b"gen_ai.client.inference.duration" in sent
    assert not [name for name, canary in CANARIES.items() if canary.encode() in sent]


def test_an_exceptions_text_is_not_exported(otel: Seen) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError(CANARIES["error"])

    with httpx2.Client(transport=httpx2.MockTransport(refuse)) as client:
        latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
        with pytest.raises(httpx2.ConnectError):
            client.post(f"http://u:{CANARIES['key']}@model/v1/chat/completions?k=1", json=BODY)
        assert latscope.flush()
    sent = exported(otel)
    assert b"httpx2.ConnectError" in sent
    assert CANARIES["error"].encode() not in sent
    assert CANARIES["key"].encode() not in sent


def test_a_call_whose_masking_failed_exports_times_only(otel: Seen) -> None:
    from tests.export.otel.told_calls import healthy

    bare = healthy()
    blank = [replace(attempt, body=None, headers=()) for attempt in bare.attempts]
    OTelSink(otel.tracers, otel.meters).write(replace(bare, attempts=tuple(blank), request=None))
    assert otel.named("chat")


COLLECTORS: dict[str, list[Any]] = {
    "refuses": answer(400, b"no"),
    "hangs": [threading.Event()],
    "resets": [Reset],
    "429": answer(429, b"", retry_after="60"),
    "503": answer(503, b""),
}


@pytest.mark.parametrize("how", COLLECTORS)
def test_a_bad_collector_is_not_felt_and_holds_nothing_up(how: str) -> None:
    """The application's own set-up: a batch processor and an OTLP exporter over HTTP."""
    reply = COLLECTORS[how]
    with serving(*[reply] * 20) as collector, serving(*[chat()] * 5) as server:
        exporter = OTLPSpanExporter(f"{collector.url}/v1/traces", timeout=1)
        tracers = TracerProvider()
        tracers.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1))
        with httpx2.Client() as client:
            latscope.instrument(client, sink=OTelSink(tracers))
            (first,) = texts(client, server.url)
            assert collector.arrived.acquire(timeout=20)  # it is at work, and in trouble
            assert set(texts(client, server.url, 4)) == {first}
            assert latscope.flush(20)
        for step in reply:
            if isinstance(step, threading.Event):
                step.set()
        exporter.shutdown()  # type: ignore[no-untyped-call]
        tracers.shutdown()
