"""A receiver of spans over OTLP/HTTP (protobuf or JSON), for servers that trace while calls run.

    with Receiver("127.0.0.1", 4318) as receiver:
        ...                      # a vLLM started with --otlp-traces-endpoint, or a collector, sends
        spans = receiver.take()

It runs in a thread of its own, on an event loop of its own. While a body comes in it is unpacked
and checked, which costs little; spans are made of it only when they are taken, so that a probe's
streams are not held up. What comes is bounded, and never believed: a body that is no OTLP is
answered 400, and nothing that is sent can end the receiver. Whoever reaches the port can send.
"""

import asyncio
import json
import socket
import threading
import zlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from latscope.errors import EndpointError, MissingExtra, UsageError
from latscope.protocols.fields import as_list, as_map, parse
from latscope.protocols.otlp import decode
from latscope.recording import ServerSpan

try:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
        ExportTraceServiceResponse,
    )
except ModuleNotFoundError as missing:
    raise MissingExtra("receiving spans", "otel") from missing

PORT = 4318
PATHS = ("/v1/traces", "/")
"""Where spans are taken: some senders take an endpoint as it is, and add no path."""
PROTOBUF, JSON = "application/x-protobuf", "application/json"
MOST_SENT = 8 << 20
"""Bytes of a body as sent; collectors send far less at a time."""
MOST_BODY = 32 << 20
"""Bytes of a body unpacked."""
MOST_WAITING = 64 << 20
"""Bytes of bodies that wait to be taken; what comes past it is rejected and counted."""
MOST_AT_ONCE = 64
BODY_S = 30.0
"""How long a body may take to come."""
READY_S = 10.0
STOP_S = 5.0
GRPC = b"PRI * HTTP/2.0"
"""How a connection of HTTP/2, and so of gRPC, begins."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def address(text: str, option: str) -> tuple[str, int]:
    """HOST:PORT, or a port alone, which is this machine's. UsageError when it is neither."""
    host, _, port = text.strip().rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) < 65_536) or "/" in host:
        raise UsageError(f"{option}: {text!r} is no HOST:PORT: give one like 127.0.0.1:{PORT}")
    return host, int(port)


class Receiver:
    """Takes spans from `start` to `close`, which a `with` block calls.

    EndpointError when the port cannot be listened on. Port 0 takes a free one; `port` tells which.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = PORT, *, option: str = "") -> None:
        self.host, self.port = host, port
        self.requests = 0
        """Requests that were taken."""
        self.refused = 0
        """Requests that were answered an error."""
        self.rejected = 0
        """Spans there was no room for."""
        self.damaged = 0
        """Spans without usable ids or times."""
        self.grpc = 0
        """Connections that spoke gRPC, which is not spoken here."""
        self._option = f"{option}: " if option else ""
        self._waiting: list[tuple[int, Any]] = []
        self._held = 0
        self._lock = threading.Lock()
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1/traces"

    def start(self) -> None:
        listening = self._listen()
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            interface="asgi3",  # a method is not recognised as what it is
            http=self._protocol(),
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="latscope-receiver", daemon=True
        )
        self._thread.start()

    def _listen(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family)
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no host name"
            raise EndpointError(
                f"{self._option}{self.host}:{self.port} cannot be listened on: {why}"
            ) from error

    def _protocol(self) -> type[H11Protocol]:
        receiver = self

        class Listening(H11Protocol):
            def data_received(self, data: bytes) -> None:
                if data.startswith(GRPC):
                    receiver.grpc += 1
                super().data_received(data)

        return Listening

    def close(self) -> None:
        """Stops listening; what has come can still be taken."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STOP_S)
            self._server = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    # -- what has come ----------------------------------------------------------------------------

    def take(self) -> list[ServerSpan]:
        """The spans that came since the last call of this."""
        with self._lock:
            waiting, self._waiting, self._held = self._waiting, [], 0
        found: list[ServerSpan] = []
        for _, document in waiting:
            decoded = decode(_plain(document))
            if decoded is not None:
                found += decoded.spans
                self.damaged += decoded.damaged
        return found

    def _keep(self, document: Any, size: int) -> int:
        """Keeps a checked body to be taken; gives how many of its spans there was no room for."""
        with self._lock:
            if self._held + size <= MOST_WAITING:
                self._waiting.append((size, document))
                self._held += size
                self.requests += 1
                return 0
        lost = sum(1 for _ in _spans(document))
        self.rejected += lost
        return lost

    # -- requests ---------------------------------------------------------------------------------

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except _Refused as refused:
            self.refused += 1
            answer = _error(scope, refused)
        if answer is not None:
            await _reply(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> "_Answer | None":
        """Null when the sender has gone."""
        if scope["path"].rstrip("/") not in [path.rstrip("/") for path in PATHS]:
            raise _Refused(404, "spans are taken at /v1/traces")
        if scope["method"] != "POST":
            raise _Refused(405, "spans are sent with POST")
        kind = _header(scope, b"content-type").partition(";")[0].strip().lower() or PROTOBUF
        if kind not in (PROTOBUF, JSON):
            raise _Refused(415, f"spans are taken as {PROTOBUF} or {JSON}")
        try:
            async with asyncio.timeout(BODY_S):
                sent = await _body(receive)
        except TimeoutError:
            raise _Refused(408, f"the body did not come in {BODY_S:.0f} s") from None
        if sent is None:
            return None
        body = _unpacked(sent, _header(scope, b"content-encoding").strip().lower())
        document = _protobuf(body) if kind == PROTOBUF else _json(body)
        lost = self._keep(document, len(body))
        return _Answer(status=200, kind=kind, body=_success(kind, lost))


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    kind: str
    body: bytes


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


async def _body(receive: Receive) -> bytes | None:
    """The whole body as sent; null when the sender went away meanwhile."""
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        found += message.get("body", b"")
        if len(found) > MOST_SENT:
            raise _Refused(413, f"a body has at most {MOST_SENT >> 20} MiB here")
        if not message.get("more_body", False):
            return bytes(found)


def _unpacked(sent: bytes, coding: str) -> bytes:
    if coding in ("", "identity"):
        return sent
    if coding != "gzip":
        raise _Refused(415, "bodies are taken as they are or with gzip")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        body = unpacker.decompress(sent, MOST_BODY)
    except zlib.error:
        raise _Refused(400, "the body is no gzip") from None
    if unpacker.unconsumed_tail:
        raise _Refused(413, f"a body has at most {MOST_BODY >> 20} MiB unpacked here")
    if not unpacker.eof:
        raise _Refused(400, "the body's gzip is cut short")
    return body


def _protobuf(body: bytes) -> Any:
    found = ExportTraceServiceRequest()
    try:
        found.ParseFromString(body)
    except DecodeError:
        raise _Refused(400, "the body is no ExportTraceServiceRequest") from None
    return found


def _json(body: bytes) -> Any:
    found = parse(body)
    batches = as_map(found).get("resourceSpans")
    if not isinstance(found, dict) or not (found == {} or isinstance(batches, list)):
        raise _Refused(400, "the body is no OTLP JSON of spans (resourceSpans)")
    return found


def _plain(document: Any) -> object:
    """A message as the JSON form of OTLP, ids in base64."""
    if isinstance(document, ExportTraceServiceRequest):
        return MessageToDict(document, use_integers_for_enums=True) or {"resourceSpans": []}
    return document


def _spans(document: Any) -> Iterator[Any]:
    for batch in as_list(as_map(_plain(document)).get("resourceSpans")):
        for group in as_list(as_map(batch).get("scopeSpans")):
            yield from as_list(as_map(group).get("spans"))


FULL = "no room until the spans that came are taken"


def _success(kind: str, lost: int) -> bytes:
    if kind == JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(lost), "errorMessage": FULL}}
        return json.dumps(partial if lost else {}).encode()
    answer = ExportTraceServiceResponse()
    if lost:
        answer.partial_success.rejected_spans = lost
        answer.partial_success.error_message = FULL
    return bytes(answer.SerializeToString())


def _error(scope: Scope, refused: _Refused) -> _Answer:
    return _Answer(status=refused.status, kind="text/plain", body=f"{refused}\n".encode())


async def _reply(send: Send, answer: _Answer) -> None:
    headers = [
        (b"content-type", answer.kind.encode()),
        (b"content-length", str(len(answer.body)).encode()),
    ]
    if answer.status >= 400:
        # What was not read of a body must not be taken for the next request.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
