"""A collector that does what it is told to: over HTTP and over gRPC, on a port of its own."""

import gzip
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

KINDS: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer. how: `hang` says nothing until the test is over, `reset` ends the connection,
    `endless` sends a body that does not end."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    how: str = "answer"


OK = Reply()


def partial_spans(rejected: int, why: str) -> bytes:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = why
    return bytes(answer.SerializeToString())


def partial_points(rejected: int, why: str) -> bytes:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = rejected
    answer.partial_success.error_message = why
    return bytes(answer.SerializeToString())


@dataclass(slots=True)
class Collector:
    """Mutable: what came, decoded. `traces` and `metrics` answer in turn, then with 200."""

    url: str = ""
    traces: deque[Reply] = field(default_factory=deque)
    metrics: deque[Reply] = field(default_factory=deque)
    came: list[tuple[str, Any]] = field(default_factory=list)
    """(signal, request) of each request that was answered 200."""
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    endless: int = 0
    """Bytes of an endless answer that were taken."""
    over: threading.Event = field(default_factory=threading.Event)

    def spans(self) -> list[Any]:
        return [
            span
            for signal, request in self.came
            if signal == "traces"
            for batch in request.resource_spans
            for scope in batch.scope_spans
            for span in scope.spans
        ]

    def points(self, name: str) -> list[Any]:
        """The data points of one metric, in the order they came."""
        return [
            point
            for signal, request in self.came
            if signal == "metrics"
            for batch in request.resource_metrics
            for scope in batch.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in (*metric.histogram.data_points, *metric.sum.data_points)
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    found: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        signal = self.path.rpartition("/")[2]
        self.found.paths.append(self.path)
        self.found.headers.append({name.lower(): value for name, value in self.headers.items()})
        replies = self.found.traces if signal == "traces" else self.found.metrics
        reply = replies.popleft() if replies else OK
        if reply.how != "answer":
            self._misbehave(reply)
            return
        if reply.status == 200:
            request = KINDS[signal]()
            request.ParseFromString(body)
            self.found.came.append((signal, request))
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def _misbehave(self, reply: Reply) -> None:
        self.close_connection = True
        if reply.how == "endless":
            self.send_response(reply.status)
            self.end_headers()
            with suppress(OSError):
                while not self.found.over.is_set():
                    self.found.endless += self.wfile.write(b"a" * 65_536)
        elif reply.how == "hang":
            self.found.over.wait()
        else:
            # Lingering for no time makes the kernel send a reset instead of an end.
            off = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, off)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def collecting(
    traces: Sequence[Reply] = (),
    metrics: Sequence[Reply] = (),
    *,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Collector]:
    """A collector over HTTP, or HTTPS."""
    found = Collector(traces=deque(traces), metrics=deque(metrics))

    handler = type("Handler", (_Handler,), {"found": found})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            found.url = found.url.replace("http:", "https:")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield found
        finally:
            found.over.set()
            server.shutdown()
            thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A gRPC status instead of an answer; details: its `grpc-status-details-bin`."""

    code: str
    said: str = ""
    details: bytes = b""


@contextmanager
def collecting_grpc(
    traces: Sequence[Failure | bytes] = (), *, tls: Path | None = None
) -> Iterator[Collector]:
    """A collector over gRPC. traces: answers in turn, bytes being a response. tls: a folder with
    key.pem and cert.pem; its clients must bring the same certificate."""
    from concurrent.futures import ThreadPoolExecutor

    found = Collector()
    waiting = deque(traces)

    def answer(signal: str, body: bytes, context: Any) -> bytes:
        found.headers.append(dict(context.invocation_metadata()))
        reply = waiting.popleft() if signal == "traces" and waiting else b""
        if isinstance(reply, Failure):
            if reply.details:
                context.set_trailing_metadata((("grpc-status-details-bin", reply.details),))
            context.abort(grpc.StatusCode[reply.code], reply.said)
        request = KINDS[signal]()
        request.ParseFromString(body)
        found.came.append((signal, request))
        return reply if isinstance(reply, bytes) else b""

    class Services(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            signal = "traces" if ".trace." in details.method else "metrics"
            return grpc.unary_unary_rpc_method_handler(
                lambda body, context: answer(signal, body, context)
            )

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((Services(),))
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        key, cert = ((tls / name).read_bytes() for name in ("key.pem", "cert.pem"))
        asked = grpc.ssl_server_credentials([(key, cert)], cert, require_client_auth=True)
        port = server.add_secure_port("127.0.0.1:0", asked)
    server.start()
    found.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield found
    finally:
        server.stop(None).wait()
