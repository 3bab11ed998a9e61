"""Where the two signals go: `--otlp` and the environment variables of OTLP exporters.

https://opentelemetry.io/docs/specs/otel/protocol/exporter/. A variable of one signal
(`OTEL_EXPORTER_OTLP_TRACES_HEADERS`) comes before the common one; an option before both. Timeouts
are in seconds, as OpenTelemetry's Python reads them (its specification says milliseconds).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit

from latscope.errors import InputError, UsageError

Signal: TypeAlias = Literal["traces", "metrics"]
Protocol: TypeAlias = Literal["http", "grpc"]

PREFIX = "OTEL_EXPORTER_OTLP_"
TIMEOUT_S = 10.0
GRPC_PORT = 4317
HTTP_PORT = 4318
PROTOCOLS: Mapping[str, Protocol] = {
    "http/protobuf": "http",
    "http": "http",
    "grpc": "grpc",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How one signal is sent. url: of the request itself over HTTP, else scheme, host and port.
    timeout_s: of one request."""

    signal: Signal
    protocol: Protocol
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    certificate: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    timeout_s: float = TIMEOUT_S
    gzip: bool = False

    @property
    def secure(self) -> bool:
        return self.url.startswith("https:")

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""


def way(
    signal: Signal,
    *,
    url: str | None,
    protocol: Protocol | None,
    headers: Sequence[str],
    environment: Mapping[str, str],
) -> Way:
    """How `signal` is sent. url, protocol, headers: as given on the command line.

    UsageError when an option or a variable makes no sense, or nothing says where; InputError when
    a file of TLS cannot be read.
    """

    def variable(name: str) -> tuple[str, str | None]:
        """A setting's name and text: the signal's own, else the common one."""
        own = f"{PREFIX}{signal.upper()}_{name}"
        chosen = own if environment.get(own, "").strip() else f"{PREFIX}{name}"
        return chosen, environment.get(chosen, "").strip() or None

    base, named = _endpoint(url, environment, variable("ENDPOINT"), signal)
    parts = _parts(base, named, environment.get(f"{PREFIX}INSECURE", ""))
    spoken = protocol or _protocol(variable("PROTOCOL"), parts)
    whole = f"{PREFIX}{signal.upper()}_ENDPOINT" == named
    return Way(
        signal=signal,
        protocol=spoken,
        url=_url(parts, spoken, signal, whole=whole),
        headers=_headers(headers, environment, signal),
        certificate=_file(variable("CERTIFICATE")),
        client_certificate=_file(variable("CLIENT_CERTIFICATE")),
        client_key=_file(variable("CLIENT_KEY")),
        timeout_s=_timeout(variable("TIMEOUT")),
        gzip=_gzip(variable("COMPRESSION")),
    )


def _endpoint(
    url: str | None,
    environment: Mapping[str, str],
    variable: tuple[str, str | None],
    signal: Signal,
) -> tuple[str, str]:
    """The address, and what it was given by."""
    if url is not None:
        return url, "--otlp"
    name, text = variable
    if text is None:
        raise UsageError(
            f"nothing says where the {signal} go: give --otlp http://HOST:{HTTP_PORT}"
            f" (or set {PREFIX}ENDPOINT)"
        )
    return text, name


def _parts(text: str, named: str, insecure: str) -> SplitResult:
    """The address taken apart. Its user name, password or query would be a secret in a place that
    is shown; headers are where keys go."""
    scheme = "https" if insecure.strip().lower() == "false" else "http"
    text = text if "//" in text else f"{scheme}://{text}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = SplitResult("", "", "", "", ""), False
    if not usable:
        raise UsageError(f"{named}: no http or https URL: give one like http://HOST:{HTTP_PORT}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError(
            f"{named}: the URL holds more than scheme, host, port and path; a key goes into"
            f" {PREFIX}HEADERS"
        )
    return parts


def _protocol(variable: tuple[str, str | None], parts: SplitResult) -> Protocol:
    name, text = variable
    if text is None:
        return "grpc" if parts.port == GRPC_PORT else "http"
    try:
        return PROTOCOLS[text.lower()]
    except KeyError:
        raise UsageError(f"{name}={text!r} is not spoken here: grpc or http/protobuf is") from None


def _url(parts: SplitResult, protocol: Protocol, signal: Signal, *, whole: bool) -> str:
    """whole: the address is a signal's own, and is taken as it is."""
    if protocol == "grpc":
        default = 443 if parts.scheme == "https" else GRPC_PORT
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return f"{parts.scheme}://{host}:{parts.port or default}"
    path = parts.path.rstrip("/")
    if not whole:
        for ending in ("/v1/traces", "/v1/metrics"):
            path = path.removesuffix(ending)
        path += f"/v1/{signal}"
    return f"{parts.scheme}://{parts.netloc}{path or '/'}"


def _headers(
    given: Sequence[str], environment: Mapping[str, str], signal: Signal
) -> tuple[tuple[str, str], ...]:
    """The common ones, the signal's over them, those of the command line over both. Values are
    percent-encoded in a variable (W3C Baggage), plain in an option."""
    found: dict[str, str] = {}
    for name in (f"{PREFIX}HEADERS", f"{PREFIX}{signal.upper()}_HEADERS"):
        for item in environment.get(name, "").split(","):
            if item.strip():
                key, value = _pair(item, name)
                found[key] = unquote(value)
    for item in given:
        key, value = _pair(item, "--headers")
        found[key] = value
    return tuple(found.items())


def _pair(text: str, named: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name, value = name.strip().lower(), value.strip()
    sound = name.isascii() and value.isascii() and (name + value).isprintable()
    if not equals or not name or " " in name or not sound:
        # It may be a secret, before a missing sign too.
        raise UsageError(f"{named} needs NAME=VALUE in plain ASCII")
    return name, value


def _file(variable: tuple[str, str | None]) -> Path | None:
    name, text = variable
    if text is None:
        return None
    path = Path(text)
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"{name}: {text} cannot be read: {error.strerror}") from error
    return path


def _timeout(variable: tuple[str, str | None]) -> float:
    name, text = variable
    if text is None:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not isfinite(seconds) or seconds <= 0:
        raise UsageError(f"{name}={text!r} is no number of seconds above 0")
    return seconds


def _gzip(variable: tuple[str, str | None]) -> bool:
    name, text = variable
    if text is not None and text.lower() not in ("gzip", "none"):
        raise UsageError(f"{name}={text!r} is not spoken here: gzip or none is")
    return text is not None and text.lower() == "gzip"


def wants_delta(environment: Mapping[str, str]) -> bool:
    """Whether counters and histograms state what was added since the point before, not sums."""
    name = f"{PREFIX}METRICS_TEMPORALITY_PREFERENCE"
    text = environment.get(name, "").strip().lower()
    if text not in ("", "cumulative", "delta", "lowmemory"):
        raise UsageError(f"{name}={text!r} is none of cumulative, delta and lowmemory")
    return text in ("delta", "lowmemory")
