"""The receiver of spans: takes what an exporter sends, refuses what is none, and never ends."""

import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from latscope.errors import EndpointError, UsageError
from latscope.probe import receiver as receivers
from latscope.probe.receiver import Receiver, address
from tests.spans import TRACE, otlp, otlp_span, vllm_attributes

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}


@pytest.fixture(name="receiver")
def started() -> Iterator[Receiver]:
    with Receiver(port=0) as found:
        yield found


def message(number: int = 1, **more: Any) -> ExportTraceServiceRequest:
    span = Span(
        trace_id=bytes.fromhex(TRACE),
        span_id=number.to_bytes(8, "big"),
        name="llm_request",
        kind=Span.SPAN_KIND_SERVER,
        start_time_unix_nano=1_700_000_000_000_000_001,
        end_time_unix_nano=1_700_000_000_500_000_001,
        **more,
    )
    scope = ScopeSpans(spans=[span])
    scope.scope.name = "vllm.llm_engine"
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[scope])])


def body(number: int = 1, **more: Any) -> bytes:
    return bytes(message(number, **more).SerializeToString())


def post(receiver: Receiver, content: bytes, headers: dict[str, str]) -> httpx2.Response:
    with httpx2.Client(trust_env=False, timeout=20) as client:
        return client.post(receiver.url, content=content, headers=headers)


def test_a_span_of_protobuf_comes_out_as_a_servers(receiver: Receiver) -> None:
    answer = post(receiver, body(), PROTOBUF)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")
    (span,) = receiver.take()
    assert (span.trace_id, span.span_id) == (TRACE, "0" * 15 + "1")
    assert (span.source, span.kind, span.name) == ("vllm.otel", "server", "llm_request")
    assert span.start_unix_ns == 1_700_000_000_000_000_001
    assert span.duration_ns == 500_000_000
    assert receiver.take() == []


def test_a_span_of_json_comes_out_the_same(receiver: Receiver) -> None:
    sent = otlp([otlp_span(1, at=4, ms=14, attributes=vllm_attributes(0.001, 0.003, 0.005))])
    answer = post(receiver, json.dumps(sent).encode(), JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    (span,) = receiver.take()
    assert span.trace_id == TRACE


def test_bodies_may_be_packed(receiver: Receiver) -> None:
    packed = {**PROTOBUF, "content-encoding": "gzip"}
    assert post(receiver, gzip.compress(body()), packed).status_code == 200
    assert len(receiver.take()) == 1


def test_an_empty_export_is_one(receiver: Receiver) -> None:
    assert post(receiver, b"", PROTOBUF).status_code == 200
    assert post(receiver, b"{}", JSON).status_code == 200
    assert receiver.take() == []


def test_a_sender_that_adds_no_path_is_heard(receiver: Receiver) -> None:
    url = receiver.url.removesuffix("/v1/traces")
    with httpx2.Client(trust_env=False) as client:
        assert client.post(url, content=body(), headers=PROTOBUF).status_code == 200
    assert len(receiver.take()) == 1


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"\x0a\xff", PROTOBUF, 400),
        (b"not json", JSON, 400),
        (b"[]", JSON, 400),
        (b'{"resourceMetrics": []}', JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b"no gzip", {**PROTOBUF, "content-encoding": "gzip"}, 400),
        (gzip.compress(body(), mtime=0)[:-4], {**PROTOBUF, "content-encoding": "gzip"}, 400),
        (b"", {**PROTOBUF, "content-encoding": "br"}, 415),
        (b"x", {"content-type": "text/plain"}, 415),
    ],
)
def test_what_is_no_export_is_refused_and_the_next_one_taken(
    content: bytes, headers: dict[str, str], status: int, receiver: Receiver
) -> None:
    assert post(receiver, content, headers).status_code == status
    assert post(receiver, body(), PROTOBUF).status_code == 200
    assert receiver.refused == 1
    assert len(receiver.take()) == 1


def test_other_paths_and_methods_are_refused(receiver: Receiver) -> None:
    base = receiver.url.removesuffix("/v1/traces")
    with httpx2.Client(trust_env=False) as client:
        assert client.post(f"{base}/v1/metrics", content=b"").status_code == 404
        assert client.get(receiver.url).status_code == 405


def test_a_body_has_a_largest_size(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "MOST_SENT", 1000)
    assert post(receiver, b"x" * 1001, PROTOBUF).status_code == 413
    monkeypatch.setattr(receivers, "MOST_BODY", 1000)
    packed = {**PROTOBUF, "content-encoding": "gzip"}
    assert post(receiver, gzip.compress(b"\0" * 100_000, mtime=0), packed).status_code == 413
    assert post(receiver, body(), PROTOBUF).status_code == 200


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
def test_past_the_room_spans_are_rejected_by_number(
    headers: dict[str, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receivers, "MOST_WAITING", 0)
    sent = body() if headers is PROTOBUF else json.dumps(otlp([otlp_span(1, at=4)])).encode()
    answer = post(receiver, sent, headers)
    assert answer.status_code == 200
    if headers is PROTOBUF:
        told = ExportTraceServiceResponse.FromString(answer.content).partial_success
        assert told.rejected_spans == 1
    else:
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "1"
    assert receiver.rejected == 1
    assert receiver.take() == []
    monkeypatch.undo()
    assert post(receiver, body(), PROTOBUF).status_code == 200
    assert len(receiver.take()) == 1


def test_a_span_without_a_time_is_counted(receiver: Receiver) -> None:
    broken = message()
    broken.resource_spans[0].scope_spans[0].spans[0].end_time_unix_nano = 0
    post(receiver, bytes(broken.SerializeToString()), PROTOBUF)
    assert receiver.take() == []
    assert receiver.damaged == 1


def test_a_sender_that_goes_away_midway_costs_nothing(receiver: Receiver) -> None:
    with socket.create_connection((receiver.host, receiver.port)) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\nhalf")
    assert post(receiver, body(), PROTOBUF).status_code == 200


def test_a_connection_that_speaks_grpc_is_noticed(receiver: Receiver) -> None:
    with socket.create_connection((receiver.host, receiver.port)) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        connection.settimeout(20)
        while connection.recv(4096):
            pass
    assert receiver.grpc == 1
    assert post(receiver, body(), PROTOBUF).status_code == 200


def test_what_came_can_be_taken_after_the_end() -> None:
    with Receiver(port=0) as found:
        post(found, body(), PROTOBUF)
    assert len(found.take()) == 1
    with pytest.raises(httpx2.ConnectError):
        post(found, body(), PROTOBUF)


def test_a_port_in_use_is_told(receiver: Receiver) -> None:
    with pytest.raises(EndpointError, match=r"--listen: 127.0.0.1:\d+ cannot be listened on"):
        Receiver(receiver.host, receiver.port, option="--listen").start()


def test_a_host_that_is_none_is_told() -> None:
    with pytest.raises(EndpointError, match="cannot be listened on"):
        Receiver("no.such.host.invalid", 0).start()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("4318", ("127.0.0.1", 4318)),
        (":4318", ("127.0.0.1", 4318)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:4318", ("::1", 4318)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, found: tuple[str, int]) -> None:
    assert address(text, "--listen") == found


@pytest.mark.parametrize("text", ["", "host", "host:", "host:99999", "http://host:1", "h:-1"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--listen"):
        address(text, "--listen")
