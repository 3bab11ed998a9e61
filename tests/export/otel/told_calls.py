"""Recordings as spans and metrics take them."""

from typing import Any

from latscope.attribution.attribute import attribute_timeline
from latscope.export.otel.rows import MetricPoint, SpanRow
from latscope.export.otel.told import Told, told
from latscope.recording import Recording
from latscope.timeline import build
from tests import calls

REQUEST: dict[str, Any] = {"model": "tiny-1", "stream": True, "max_tokens": 8}


def of(recording: Recording) -> Told:
    timeline = build(recording)
    return told(recording, timeline, attribute_timeline(recording, timeline))


def healthy(**how: Any) -> Recording:
    """Four tokens 10 ms apart after 100 ms, and the server's own figures."""
    chunks = [
        *calls.tokens(4, start=100.0, step=10.0),
        (131.0, calls.finish()),
        (131.5, calls.usage(4, metrics=calls.metrics(40.0, 50.0, 30.0))),
        (132.0, calls.DONE),
    ]
    how.setdefault("request", REQUEST)
    how.setdefault("request_bytes", 321)
    return calls.stream(chunks, **how)


def silent(**how: Any) -> Recording:
    """The same without a word from the server but its tokens."""
    chunks = [
        *calls.tokens(4, start=100.0, step=10.0),
        (131.0, calls.finish()),
        (132.0, calls.DONE),
    ]
    how.setdefault("request", REQUEST)
    return calls.stream(chunks, **how)


def pieces(rows: tuple[SpanRow, ...]) -> list[SpanRow]:
    return [row for row in rows if "latscope.segment" in row.attributes]


def values(points: tuple[MetricPoint, ...], name: str) -> list[float]:
    return [v for point in points if point.instrument.name == name for v in point.values]
