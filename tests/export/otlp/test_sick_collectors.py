"""An application that exports to a collector which refuses, hangs, resets or is busy: its streams
are what they would be without, nothing piles up, and latscope's own queue is empty."""

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import latscope
from latscope.export.otel.sink import OTelSink
from latscope.middleware import worker
from tests.calls import DONE
from tests.capture.scripted import serving
from tests.export.otel.conftest import chat
from tests.export.otlp.collector import Reply, collecting

CALLS = 60
QUEUE = 64
"""Spans the application's processor may hold; the calls make many more."""
BODY = {"model": "tiny-1", "stream": True, "messages": [{"role": "user", "content": "hi"}]}

SICK = {
    "hangs": Reply(how="hang"),
    "resets": Reply(how="reset"),
    "429": Reply(status=429, headers=(("retry-after", "60"),)),
    "503": Reply(status=503),
}


@contextmanager
def collector_that(how: str) -> Iterator[str]:
    if how == "refuses":
        with socket.create_server(("127.0.0.1", 0)) as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        yield url
        return
    with collecting(traces=deque([SICK[how]] * 1000)) as collector:
        yield collector.url
        assert collector.came == []


@pytest.mark.parametrize("how", ["refuses", *SICK])
def test_streams_go_on_and_nothing_piles_up(how: str) -> None:
    with collector_that(how) as url, serving(*[chat()] * CALLS) as server:
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", timeout=0.2)
        processor = BatchSpanProcessor(
            exporter, max_queue_size=QUEUE, max_export_batch_size=QUEUE, schedule_delay_millis=20
        )
        tracers = TracerProvider()
        tracers.add_span_processor(processor)
        dropped = worker.current().dropped
        with httpx2.Client() as client:
            latscope.instrument(client, sink=OTelSink(tracers))
            seen = {
                client.post(f"{server.url}/v1/chat/completions", json=BODY).content
                for _ in range(CALLS)
            }
            assert latscope.flush()
        assert len(seen) == 1
        assert seen.pop().endswith(DONE)
        assert worker.current().pending == 0
        assert worker.current().dropped == dropped
        assert len(processor._batch_processor._queue) <= QUEUE
        tracers.shutdown()
