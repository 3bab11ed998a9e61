"""Rows as OTLP's protobuf messages.

From the messages themselves, not through an SDK's spans: times, ids and links are set as they
were, and nothing of a running provider (limits, samplers, clocks) comes between.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from latscope import __version__
from latscope.errors import MissingExtra
from latscope.export.otel import names
from latscope.export.otel.rows import SpanRow, Value
from latscope.export.otlp.aggregate import Exemplar, Point, Series

try:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceRequest,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import (
        AnyValue,
        ArrayValue,
        InstrumentationScope,
        KeyValue,
    )
    from opentelemetry.proto.metrics.v1 import metrics_pb2
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1 import trace_pb2
    from opentelemetry.sdk.resources import OTELResourceDetector
except ModuleNotFoundError as missing:
    raise MissingExtra("sending to a collector", "otel") from missing

SERVICE = "latscope"
SAMPLED = 1
KINDS = {
    "client": trace_pb2.Span.SPAN_KIND_CLIENT,
    "internal": trace_pb2.Span.SPAN_KIND_INTERNAL,
}


def resource(instance: str) -> Any:
    """Whose telemetry it is: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, as of any exporter;
    without a name, this program's. instance: told apart from other exports by it."""
    stated = OTELResourceDetector().detect().attributes
    own = {"service.name": SERVICE, "service.instance.id": instance}
    return Resource(attributes=_attributes({**own, **stated}))


def span(row: SpanRow) -> Any:
    """One span. ValueError when an id is no hex of its length."""
    trace_id, span_id = bytes.fromhex(row.trace_id), bytes.fromhex(row.span_id)
    parent = bytes.fromhex(row.parent_id) if row.parent_id else b""
    if len(trace_id) != 16 or len(span_id) != 8 or len(parent) not in (0, 8):
        raise ValueError("a span's ids are 16 and 8 bytes")
    found = trace_pb2.Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        flags=SAMPLED,
        name=_text(row.name),
        kind=KINDS[row.kind],
        start_time_unix_nano=row.start_unix_ns,
        end_time_unix_nano=row.end_unix_ns,
        attributes=_attributes(row.attributes),
        events=[
            trace_pb2.Span.Event(
                name=_text(moment.name),
                time_unix_nano=moment.unix_ns,
                attributes=_attributes(moment.attributes),
            )
            for moment in row.events
        ],
    )
    if row.failed:
        found.status.code = trace_pb2.Status.STATUS_CODE_ERROR
    return found


def traces_request(spans: Sequence[Any], of: Any) -> bytes:
    """The body of a request that exports these spans."""
    request = ExportTraceServiceRequest(
        resource_spans=[
            trace_pb2.ResourceSpans(
                resource=of,
                scope_spans=[trace_pb2.ScopeSpans(scope=_scope(), spans=spans)],
            )
        ]
    )
    return bytes(request.SerializeToString())


def metric(series: Series, points: Iterable[Point], *, delta: bool) -> Any:
    """Points of one series as a metric: a histogram where it has buckets, else a growing sum."""
    instrument = series.instrument
    found = metrics_pb2.Metric(
        name=instrument.name, unit=instrument.unit, description=instrument.description
    )
    kind = (
        metrics_pb2.AGGREGATION_TEMPORALITY_DELTA
        if delta
        else metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    attributes = _attributes(dict(series.attributes))
    if instrument.buckets:
        found.histogram.aggregation_temporality = kind
        found.histogram.data_points.extend(
            _histogram(point, attributes, instrument.buckets) for point in points
        )
        return found
    found.sum.aggregation_temporality = kind
    found.sum.is_monotonic = True
    found.sum.data_points.extend(_number(point, attributes) for point in points)
    return found


def metrics_request(metrics: Sequence[Any], of: Any) -> bytes:
    """The body of a request that exports these metrics, those of one name together."""
    merged: dict[str, Any] = {}
    for item in metrics:
        held = merged.get(item.name)
        if held is None:
            merged[item.name] = held = metrics_pb2.Metric()
        held.MergeFrom(item)
    request = ExportMetricsServiceRequest(
        resource_metrics=[
            metrics_pb2.ResourceMetrics(
                resource=of,
                scope_metrics=[metrics_pb2.ScopeMetrics(scope=_scope(), metrics=merged.values())],
            )
        ]
    )
    return bytes(request.SerializeToString())


def points_in(metric: Any) -> int:
    """How many points a metric of `metric` holds."""
    return len(metric.histogram.data_points) + len(metric.sum.data_points)


def _histogram(point: Point, attributes: list[Any], bounds: tuple[float, ...]) -> Any:
    found = metrics_pb2.HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=point.start_unix_ns,
        time_unix_nano=point.unix_ns,
        count=point.count,
        sum=point.sum,
        explicit_bounds=bounds,
        bucket_counts=point.buckets,
    )
    if point.exemplar is not None:
        found.exemplars.append(_exemplar(point.exemplar))
    return found


def _number(point: Point, attributes: list[Any]) -> Any:
    return metrics_pb2.NumberDataPoint(
        attributes=attributes,
        start_time_unix_nano=point.start_unix_ns,
        time_unix_nano=point.unix_ns,
        as_int=round(point.sum),
    )


def _exemplar(exemplar: Exemplar) -> Any:
    return metrics_pb2.Exemplar(
        time_unix_nano=exemplar.unix_ns,
        as_double=exemplar.value,
        trace_id=bytes.fromhex(exemplar.trace_id),
        span_id=bytes.fromhex(exemplar.span_id),
    )


def _scope() -> Any:
    return InstrumentationScope(name=names.SCOPE, version=__version__)


def _attributes(pairs: Mapping[str, Any]) -> list[Any]:
    return [KeyValue(key=_text(key), value=_value(value)) for key, value in pairs.items()]


def _value(value: Value | Sequence[Value]) -> Any:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return AnyValue(int_value=value)
        return AnyValue(double_value=float(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=_text(value))
    return AnyValue(array_value=ArrayValue(values=[_value(item) for item in value]))


def _text(text: str) -> str:
    """A file may hold half a surrogate pair, which is no text for protobuf."""
    return text.encode("utf-8", "replace").decode("utf-8")
