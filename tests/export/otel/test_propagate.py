"""Trace context on requests: exact headers, only where asked for, never over another's."""

from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import latscope
from latscope.export.otel.propagate import carried, send, signed
from latscope.export.otel.sink import OTelSink
from latscope.recording import Recording, Trace
from tests.capture.scripted import serving
from tests.export.otel.conftest import Seen, chat, seen

BODY = {"model": "tiny-1", "messages": []}
TRACE = Trace(trace_id="a" * 32, span_id="b" * 16)


def sent_with(
    headers: dict[str, str] | None = None, **how: Any
) -> tuple[dict[str, str], Recording]:
    """The headers a server got, and the recording of that call."""
    calls: list[Recording] = []
    sinks = [calls.append, *how.pop("sinks", ())]
    with serving(chat()) as server, httpx2.Client() as client:
        latscope.instrument(client, sink=sinks, **how)
        client.post(f"{server.url}/v1/chat/completions", json=BODY, headers=headers)
        assert latscope.flush()
        return server.requests[0].headers, calls[0]


def test_by_default_nothing_is_sent_and_a_call_outside_of_a_trace_has_no_ids() -> None:
    headers, recorded = sent_with()
    assert "traceparent" not in headers
    assert "x-request-id" not in headers
    assert recorded.trace is None


def test_asked_for_a_call_has_ids_of_its_own_and_sends_them() -> None:
    headers, recorded = sent_with(propagate=True)
    assert recorded.trace is not None
    assert headers["traceparent"] == (f"00-{recorded.trace.trace_id}-{recorded.trace.span_id}-01")
    assert headers["x-request-id"] == recorded.call_id
    assert recorded.trace.parent_id is None


def test_in_a_trace_it_is_that_trace_and_its_decision(otel: Seen) -> None:
    with otel.tracers.get_tracer("app").start_as_current_span("user") as user:
        headers, recorded = sent_with(propagate=True)
    context = user.get_span_context()
    assert recorded.trace is not None
    assert recorded.trace.trace_id == f"{context.trace_id:032x}"
    assert recorded.trace.parent_id == f"{context.span_id:016x}"
    assert headers["traceparent"].endswith("-01")
    with seen(ALWAYS_OFF).tracers.get_tracer("app").start_as_current_span("user"):
        headers, _ = sent_with(propagate=True)
    assert headers["traceparent"].endswith("-00")


def test_a_sink_that_traces_sends_unless_told_not_to(otel: Seen) -> None:
    sink = OTelSink(otel.tracers, otel.meters)
    assert "traceparent" in sent_with(sinks=[sink])[0]
    headers, recorded = sent_with(sinks=[sink], propagate=False)
    assert "traceparent" not in headers
    assert "x-request-id" not in headers
    assert recorded.trace is not None


def test_headers_that_are_there_stay(otel: Seen) -> None:
    mine = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-00", "X-Request-Id": "mine"}
    headers, _ = sent_with(mine, sinks=[OTelSink(otel.tracers, otel.meters)])
    assert headers["traceparent"] == mine["traceparent"]
    assert headers["x-request-id"] == "mine"


@pytest.mark.parametrize(
    "header",
    [
        {"authorization": "AWS4-HMAC-SHA256 Credential=x, SignedHeaders=host, Signature=y"},
        {"authorization": "aws4-ecdsa-p256-sha256 Credential=x"},
        {"X-Amz-Date": "20261129T120000Z"},
        {"x-amz-security-token": "t"},
        {"Signature-Input": 'sig1=("@method")'},
        {"authorization": 'Signature keyId="k"'},
    ],
)
def test_a_signed_request_is_left_as_it_is(header: dict[str, str], otel: Seen) -> None:
    assert signed(header)
    headers, _ = sent_with(header, sinks=[OTelSink(otel.tracers, otel.meters)])
    assert "traceparent" not in headers
    assert "x-request-id" not in headers


def test_a_key_is_no_signature() -> None:
    assert not signed({"authorization": "Bearer k", "x-api-key": "k"})


def test_what_a_request_carries_can_be_read_back() -> None:
    headers: dict[str, str] = {}
    assert send(headers, trace=TRACE, sampled=False, call_id="c") == TRACE
    assert headers == {"traceparent": f"00-{'a' * 32}-{'b' * 16}-00", "x-request-id": "c"}
    assert carried({"traceparent": "garbage"}) is None
    assert carried({}) is None
