"""Traces and metrics of calls as they come out of a real collector, over OTLP gRPC and HTTP; and a
real vLLM's own span joined to them by the trace context the call sent."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import latscope
from latscope.export.otel.sink import OTelSink
from latscope.recording import Recording
from tests.engines import collector, servers, traced
from tests.engines.conftest import need
from tests.middleware import server as scripted

WAIT_S = 40.0
RESOURCE = Resource.create({"service.name": "latscope-test"})


@pytest.fixture(scope="module", name="found")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[collector.Collector]:
    need("collector")
    with collector.running(tmp_path_factory.mktemp("otel")) as running:
        yield running


def providers(found: collector.Collector, protocol: str) -> tuple[TracerProvider, MeterProvider]:
    """An application's own set-up: a batch processor and a periodic reader."""
    if protocol == "grpc":
        end = f"http://127.0.0.1:{found.grpc}"
        spans: Any = GrpcSpans(endpoint=end, insecure=True)
        metrics: Any = GrpcMetrics(endpoint=end, insecure=True)
    else:
        end = f"http://127.0.0.1:{found.http}"
        spans, metrics = HttpSpans(f"{end}/v1/traces"), HttpMetrics(f"{end}/v1/metrics")
    tracers = TracerProvider(resource=RESOURCE)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    reader = PeriodicExportingMetricReader(metrics, export_interval_millis=60_000)
    return tracers, MeterProvider(metric_readers=[reader], resource=RESOURCE)


def until(look: Callable[[], Any]) -> Any:
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + WAIT_S
    while not (seen := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return seen


def spans_in(file: Path, trace_id: str) -> list[dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [
        span
        for line in lines
        for batch in json.loads(line)["resourceSpans"]
        for scope in batch["scopeSpans"]
        for span in scope["spans"]
        if span["traceId"] == trace_id
    ]


def metrics_in(file: Path) -> dict[str, dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {
        metric["name"]: metric
        for line in lines
        for batch in json.loads(line)["resourceMetrics"]
        for scope in batch["scopeMetrics"]
        for metric in scope["metrics"]
    }


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {item["key"]: next(iter(item["value"].values())) for item in span["attributes"]}


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_waterfall_and_the_metrics_arrive_at_a_real_collector(
    protocol: str, found: collector.Collector
) -> None:
    tracers, meters = providers(found, protocol)
    calls: list[Recording] = []
    with scripted.serving() as base, httpx2.Client() as client:
        latscope.instrument(client, sink=[OTelSink(tracers, meters), calls.append])
        with tracers.get_tracer("app").start_as_current_span("user"):
            client.post(f"{base}/chat/completions", json=scripted.REQUEST, headers=scripted.HEADERS)
        assert latscope.flush()
    tracers.shutdown()
    meters.shutdown()
    (call,) = calls
    assert call.trace is not None
    trace_id = call.trace.trace_id
    pieces = latscope.attribute(call).pieces
    seen = until(lambda: found_all(spans_in(found.file, trace_id), len(pieces) + 3))
    (own,) = [span for span in seen if span["name"] == "chat tiny"]
    (user,) = [span for span in seen if span["name"] == "user"]
    children = [span for span in seen if span.get("parentSpanId") == own["spanId"]]
    assert own["parentSpanId"] == user["spanId"]
    assert own["spanId"] == call.trace.span_id
    assert own["kind"] == 3  # CLIENT
    assert len(children) == len(pieces) + 1
    waterfall = [span for span in children if "latscope.segment" in attributes(span)]
    begin = int(own["startTimeUnixNano"])
    for span in sorted(waterfall, key=lambda span: int(span["startTimeUnixNano"])):
        assert int(span["startTimeUnixNano"]) == begin
        begin = int(span["endTimeUnixNano"])
    assert begin == int(own["endTimeUnixNano"])
    metrics = until(lambda: metrics_in(found.metrics))
    assert "gen_ai.client.inference.duration" in metrics
    assert "latscope.segment.duration" in metrics
    text = found.file.read_text() + found.metrics.read_text()
    assert not [secret for secret in scripted.SECRETS if secret in text]


def found_all(spans: list[dict[str, Any]], wanted: int) -> list[dict[str, Any]]:
    return spans if len(spans) >= wanted else []


@pytest.fixture(scope="module", name="bed")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traced.Bed]:
    for name in ("vllm", "collector"):
        need(name)
    with traced.bed(tmp_path_factory.mktemp("otel-vllm")) as found:
        yield found


def test_vllms_own_span_is_a_child_of_the_call_in_one_trace(bed: traced.Bed) -> None:
    """No hand in it: an instrumented openai client, a tracing vLLM, one collector for both."""
    tracers, meters = providers(bed.collector, "grpc")
    calls: list[Recording] = []
    with openai.OpenAI(api_key="k", base_url=f"{bed.vllm.base_url}/v1") as client:
        latscope.instrument(client, sink=[OTelSink(tracers, meters), calls.append])
        for number in range(3):
            list(
                client.chat.completions.create(
                    model=servers.MODEL,
                    messages=[{"role": "user", "content": f"call {number}"}],
                    max_tokens=8,
                    stream=True,
                )
            )
        assert latscope.flush()
    tracers.shutdown()
    meters.shutdown()
    for call in calls:
        assert call.trace is not None
        trace_id = call.trace.trace_id
        seen = until(lambda: _with_engine(spans_in(bed.collector.file, trace_id)))  # noqa: B023
        (own,) = [span for span in seen if span["name"] == f"chat {servers.MODEL}"]
        (theirs,) = [span for span in seen if span["name"] == "llm_request"]
        assert theirs["parentSpanId"] == own["spanId"] == call.trace.span_id
        assert int(own["startTimeUnixNano"]) < int(theirs["startTimeUnixNano"])
        assert int(theirs["endTimeUnixNano"]) < int(own["endTimeUnixNano"])


def _with_engine(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {span["name"] for span in spans}
    return spans if {"llm_request", f"chat {servers.MODEL}"} <= names else []
