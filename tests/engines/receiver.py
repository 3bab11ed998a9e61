"""Store what an OTLP exporter sends, as a collector's file exporter would: a JSON line each.

    python receiver.py PORT FILE

Spans go to FILE, metrics to the same name with `.metrics` before its suffix.
Needs only `opentelemetry-proto` beside the standard library; it runs in the environment of
install.py's `collector`. Ids are hex and 64-bit numbers strings, as OTLP's JSON form wants them.
"""

import base64
import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

IDS = ("traceId", "spanId", "parentSpanId")


def hexed(value: Any) -> Any:
    """Write the ids, which protobuf's JSON form gives in base64, as OTLP's does."""
    if isinstance(value, list):
        return [hexed(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(item).hex() if name in IDS else hexed(item)
        for name, item in value.items()
    }


class Receiver(BaseHTTPRequestHandler):
    """One POST, one line."""

    protocol_version = "HTTP/1.1"
    file: Path
    lock = Lock()

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        metrics = self.path.endswith("/metrics")
        request = ExportMetricsServiceRequest() if metrics else ExportTraceServiceRequest()
        request.ParseFromString(body)
        line = json.dumps(hexed(MessageToDict(request, use_integers_for_enums=True)))
        path = self.file.with_suffix(f".metrics{self.file.suffix}") if metrics else self.file
        with self.lock, path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        answer = ExportMetricsServiceResponse() if metrics else ExportTraceServiceResponse()
        self.answer(answer.SerializeToString())

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Receiver.file = Path(sys.argv[2])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
