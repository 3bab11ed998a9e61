"""One OTLP request and what became of it, over HTTP with protobuf or over gRPC.

Which answers may be repeated, and when: https://opentelemetry.io/docs/specs/otlp/. Nothing here
raises for what a collector does: it refuses, hangs, resets, answers nonsense or more than asked.
"""

import gzip
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import httpx2

from latscope import __version__
from latscope.errors import InputError, MissingExtra
from latscope.export.otlp.settings import Signal, Way

try:
    import grpc  # type: ignore[import-untyped]
    from google.protobuf.message import DecodeError
    from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
        ExportMetricsServiceResponse,
    )
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
except ModuleNotFoundError as missing:
    raise MissingExtra("sending to a collector", "otel") from missing

Became: TypeAlias = Literal["taken", "later", "larger", "refused", "never", "away"]
"""taken; later: may be repeated; larger: than the collector takes at once; refused: these items,
for what is in them; never: the collector takes no such request at all; away: nobody answers there.
"""

MOST_ANSWER = 64 * 1024
SAID = 300
"""Characters of a collector's own words that are kept."""
USER_AGENT = f"latscope/{__version__}"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

SERVICES: dict[Signal, tuple[str, Any, str]] = {
    "traces": (
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        ExportTraceServiceResponse,
        "rejected_spans",
    ),
    "metrics": (
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        ExportMetricsServiceResponse,
        "rejected_data_points",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """rejected: items left out of a request that was taken. said: why, in the collector's words or
    ours. after_s: when it wants to be asked again."""

    became: Became
    rejected: int = 0
    said: str = ""
    after_s: float | None = None


class Transport(Protocol):
    def send(self, body: bytes) -> Answer: ...

    def close(self) -> None: ...


def transport(way: Way) -> Transport:
    """InputError when its certificates are none."""
    return Grpc(way) if way.protocol == "grpc" else Http(way)


def taken(signal: Signal, body: bytes) -> Answer:
    """What a collector that took the request says of single items."""
    _, kind, field = SERVICES[signal]
    answer = kind()
    with suppress(DecodeError):  # an answer that is none refuses nothing
        answer.ParseFromString(body)
    return _partial(answer, field)


def _partial(answer: Any, field: str) -> Answer:
    partial = answer.partial_success
    rejected = max(0, getattr(partial, field))
    return Answer(became="taken", rejected=rejected, said=partial.error_message[:SAID])


# -- HTTP ------------------------------------------------------------------------------------------

LATER = frozenset({429, 502, 503, 504})
NEVER = frozenset({401, 403, 404, 405, 407, 415, 501})
TOO_LARGE = 413


class Http:
    """OTLP/HTTP with protobuf. A redirect is not followed: keys would go with it."""

    def __init__(self, way: Way) -> None:
        self.way = way
        headers = {
            "content-type": "application/x-protobuf",
            "user-agent": USER_AGENT,
            **({"content-encoding": "gzip"} if way.gzip else {}),
            **dict(way.headers),
        }
        self._client = httpx2.Client(
            headers=headers,
            timeout=way.timeout_s,
            verify=_tls(way) if way.secure else True,
            trust_env=way.host not in LOOPBACK,  # a proxy is for the world outside
        )

    def send(self, body: bytes) -> Answer:
        content = gzip.compress(body) if self.way.gzip else body
        try:
            with self._client.stream("POST", self.way.url, content=content) as response:
                return self._judged(response, self._read(response))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            return Answer(became="away", said=_words(error))
        except httpx2.TimeoutException:
            return Answer(became="later", said=f"no answer in {self.way.timeout_s:g} s")
        except httpx2.RemoteProtocolError as error:
            hung_up = "disconnected" in str(error) or "closed" in str(error)
            said = _words(error) if hung_up else f"no HTTP/1.1 is spoken there ({_words(error)})"
            return Answer(became="later" if hung_up else "never", said=said)
        except httpx2.HTTPError as error:
            return Answer(became="later", said=_words(error))

    def _read(self, response: httpx2.Response) -> bytes:
        """The answer's start, as far as it comes in time: it may drip, or never end."""
        until = monotonic() + self.way.timeout_s
        head = bytearray()
        for chunk in response.iter_bytes():
            head += chunk[: MOST_ANSWER - len(head)]
            if len(head) >= MOST_ANSWER or monotonic() > until:
                break
        return bytes(head)

    def _judged(self, response: httpx2.Response, body: bytes) -> Answer:
        status = response.status_code
        if 200 <= status < 300:
            return taken(self.way.signal, body)
        said = f"{status} {response.reason_phrase}".strip()
        told = _status_text(body, response.headers.get("content-type", ""))
        said = f"{said}: {told}" if told else said
        if status in LATER:
            return Answer(became="later", said=said, after_s=_after(response))
        if status == TOO_LARGE:
            return Answer(became="larger", said=said)
        never = status in NEVER or 300 <= status < 400
        return Answer(became="never" if never else "refused", said=said)

    def close(self) -> None:
        self._client.close()


def _tls(way: Way) -> ssl.SSLContext:
    try:
        found = ssl.create_default_context(cafile=way.certificate)
        if way.client_certificate is not None:
            found.load_cert_chain(way.client_certificate, way.client_key)
    except (ssl.SSLError, OSError) as error:
        raise InputError(f"the certificates for {way.url} are unusable: {error}") from error
    return found


def _status_text(body: bytes, kind: str) -> str:
    """The message of a google.rpc.Status, or the text of an answer that is some."""
    if kind.startswith("application/x-protobuf"):
        status = status_pb2.Status()
        with suppress(DecodeError):
            status.ParseFromString(body)
            return str(status.message)[:SAID]
        return ""
    text = body.decode("utf-8", "replace").strip()
    return "" if text.startswith("<") else " ".join(text.split())[:SAID]


def _after(response: httpx2.Response) -> float | None:
    """Retry-After in seconds: a number, or a date (RFC 9110, 10.2.3)."""
    text = response.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - datetime.now(UTC)).total_seconds())


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:SAID]


# -- gRPC ------------------------------------------------------------------------------------------

GRPC_LATER = frozenset({"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "DATA_LOSS"})
GRPC_NEVER = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "NOT_FOUND"})


class Grpc:
    """OTLP/gRPC."""

    def __init__(self, way: Way) -> None:
        self.way = way
        target = urlsplit(way.url).netloc
        options = [("grpc.primary_user_agent", USER_AGENT)]
        if way.host in LOOPBACK:
            options.append(("grpc.enable_http_proxy", 0))  # type: ignore[arg-type]
        packed = grpc.Compression.Gzip if way.gzip else grpc.Compression.NoCompression
        if way.secure:
            self._channel = grpc.secure_channel(target, _credentials(way), options, packed)
        else:
            self._channel = grpc.insecure_channel(target, options, packed)
        path, kind, self._field = SERVICES[way.signal]
        self._call = self._channel.unary_unary(path, None, kind.FromString)
        self._reached = False

    def send(self, body: bytes) -> Answer:
        try:
            answer = self._call(body, timeout=self.way.timeout_s, metadata=self.way.headers)
        except grpc.RpcError as error:
            return self._judged(error)
        self._reached = True
        return _partial(answer, self._field)

    def _judged(self, error: Any) -> Answer:
        code = error.code().name
        said = f"{code}: {error.details() or ''}"[:SAID].rstrip(": ")
        if code == "UNAVAILABLE":
            if not self._reached and _unconnected(said):
                return Answer(became="away", said=said)
            return Answer(became="later", said=said, after_s=_retry_info(error))
        if code in GRPC_LATER:
            return Answer(became="later", said=said, after_s=_retry_info(error))
        if code == "RESOURCE_EXHAUSTED":
            after = _retry_info(error)
            return Answer(became="larger" if after is None else "later", said=said, after_s=after)
        return Answer(became="never" if code in GRPC_NEVER else "refused", said=said)

    def close(self) -> None:
        self._channel.close()


def _unconnected(said: str) -> bool:
    """Whether no connection was made at all; the code is the same for a server that is busy."""
    return any(part in said for part in ("onnect", "DNS", "resol", "andshak"))


def _credentials(way: Way) -> Any:
    def held(path: Any) -> bytes | None:
        return None if path is None else path.read_bytes()

    return grpc.ssl_channel_credentials(
        held(way.certificate), held(way.client_key), held(way.client_certificate)
    )


def _retry_info(error: Any) -> float | None:
    """The delay in the answer's RetryInfo, in seconds; null when it states none."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status()
            with suppress(DecodeError):
                status.ParseFromString(value)
            for detail in status.details:
                info = error_details_pb2.RetryInfo()
                if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
                    return max(0.0, float(info.retry_delay.ToTimedelta().total_seconds()))
    return None
