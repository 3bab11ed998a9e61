"""Providers that keep what they are given in memory, and a server that answers by script."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

import latscope
from tests.calls import DONE, delta, finish, usage
from tests.capture.scripted import Step, stream


@dataclass
class Seen:
    """Both providers, and what came out of them so far."""

    tracers: TracerProvider
    meters: MeterProvider
    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    def spans(self) -> Sequence[ReadableSpan]:
        assert latscope.flush()
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]

    def ours(self) -> list[ReadableSpan]:
        scopes = [(span, span.instrumentation_scope) for span in self.spans()]
        return [span for span, scope in scopes if scope is not None and scope.name == "latscope"]

    def metrics(self) -> dict[str, list[object]]:
        assert latscope.flush()
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: list(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


def seen(sampler: Sampler | None = None) -> Seen:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider() if sampler is None else TracerProvider(sampler=sampler)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    reader = InMemoryMetricReader()
    return Seen(tracers, MeterProvider(metric_readers=[reader]), exporter, reader)


@pytest.fixture
def otel() -> Iterator[Seen]:
    found = seen()
    yield found
    latscope.flush()
    found.tracers.shutdown()
    found.meters.shutdown()


def chat(**headers: str) -> list[Step]:
    """A whole streamed chat answer."""
    return stream(
        delta("", role="assistant"),
        delta("one "),
        delta("two"),
        finish(),
        usage(2),
        DONE,
        **headers,
    )
