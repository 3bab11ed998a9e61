"""Real proxies on free loopback ports: `with hops.nginx(upstream_port) as hop: ... hop.url ...`.

Each is started from a template in this folder, is waited for until it accepts connections, and is
gone with its folder at the end of the block. When the block fails its configuration and log are
kept, and the error says where.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from tests.engines.servers import free_port, log_tail
from tests.lab import install, kernel, leftovers

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
HOST = "127.0.0.1"
READY_S = 30.0
STOP_S = 10.0
POLL_S = 0.02


class HopError(Exception):
    """A hop did not start; the message ends with the tail of its log."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate of 127.0.0.1; both: certificate and key in one file."""

    cert: Path
    key: Path
    both: Path


@dataclass(frozen=True, slots=True)
class Hop:
    """A proxy that accepts connections. origin and version: what a recording's tags say of it."""

    url: str
    origin: str
    version: str
    log: Path
    pid: int


@contextlib.contextmanager
def nginx(
    upstream: int,
    *,
    http: str = "1.1",
    buffering: bool = True,
    gzip: bool = False,
    tls: Certificate | None = None,
) -> Iterator[Hop]:
    """Run nginx. With buffering it holds a stream with HTTP/1.0 before an upstream that sends no
    chunks, with gzip, and over TLS to an HTTP/1.1 client; otherwise only the head."""
    secure = ""
    if tls is not None:
        secure = f" ssl http2; ssl_certificate {tls.cert}; ssl_certificate_key {tls.key}"
    values = {"http": http, "buffering": _on(buffering), "gzip": _on(gzip), "tls": secure}
    command = ["-p", "${folder}", "-c", "${config}", "-e", "stderr"]
    with _hop("nginx", "nginx.conf", values, command, upstream, tls) as hop:
        yield hop


@contextlib.contextmanager
def haproxy(
    upstream: int, *, no_delay: bool = False, tls: Certificate | None = None
) -> Iterator[Hop]:
    """Run haproxy. By default it corks what it sends to HTTP/1.1 clients (MSG_MORE)."""
    secure = f" ssl crt {tls.both} alpn h2,http/1.1" if tls else ""
    values = {"no_delay": "option http-no-delay" if no_delay else "", "tls": secure}
    command = ["-db", "-f", "${config}"]
    with _hop("haproxy", "haproxy.cfg", values, command, upstream, tls) as hop:
        yield hop


FILTER = '- {{name: {name}, typed_config: {{"@type": type.googleapis.com/{kind}, {rest}}}}}'
FILTERS: Mapping[str, str] = {
    "": "",
    "request-buffer": FILTER.format(
        name="envoy.filters.http.buffer",
        kind="envoy.extensions.filters.http.buffer.v3.Buffer",
        rest="max_request_bytes: 1048576",
    ),
    "lua-body": FILTER.format(
        name="envoy.filters.http.lua",
        kind="envoy.extensions.filters.http.lua.v3.Lua",
        rest='default_source_code: {inline_string: "function envoy_on_response(h) h:body() end"}',
    ),
}
TRACING = (
    "tracing: {spawn_upstream_span: ${own}, "
    "provider: {name: envoy.tracers.opentelemetry, typed_config: "
    '{"@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig, service_name: hop, '
    "http_service: {http_uri: {uri: 'http://127.0.0.1:${collector}/v1/traces', "
    "cluster: collector, timeout: 0.2s}}}}}"
)
ENVOY_TLS = (
    "transport_socket: {{name: envoy.transport_sockets.tls, typed_config: "
    '{{"@type": type.googleapis.com/'
    "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext, "
    "common_tls_context: {{alpn_protocols: [h2, http/1.1], tls_certificates: "
    "[{{certificate_chain: {{filename: {cert}}}, private_key: {{filename: {key}}}}}]}}}}}}"
)


@contextlib.contextmanager
def envoy(
    upstream: int,
    *,
    filter: str = "",
    tracing: bool = False,
    collector: int = 1,
    own_span: bool = False,
    tls: Certificate | None = None,
) -> Iterator[Hop]:
    """Run envoy. filter: `request-buffer` (the whole request first) or `lua-body` (a filter that
    reads the response body). tracing: spans for the collector at that port of 127.0.0.1 (OTLP over
    HTTP), by default one that is not there. own_span: a second span of the request upstream."""
    secure = ENVOY_TLS.format(cert=tls.cert, key=tls.key) if tls else ""
    places = {"collector": str(collector), "own": str(own_span).lower()}
    values = {
        "filter": FILTERS[filter],
        "tracing": Template(TRACING).substitute(places) if tracing else "",
        "collector": str(collector),
        "tls": secure,
    }
    command = ["-c", "${config}", "--disable-hot-restart", "--concurrency", "1", "-l", "warning"]
    with _hop("envoy", "envoy.yaml", values, command, upstream, tls) as hop:
        yield hop


@contextlib.contextmanager
def caddy(upstream: int, *, tls: Certificate | None = None) -> Iterator[Hop]:
    """Run caddy."""
    values = {
        "scheme": "https" if tls else "http",
        "tls": f"tls {tls.cert} {tls.key}" if tls else "",
    }
    command = ["run", "--config", "${config}", "--adapter", "caddyfile"]
    with _hop("caddy", "Caddyfile", values, command, upstream, tls) as hop:
        yield hop


@contextlib.contextmanager
def gateway(upstream: int, *, ping: str = "50ms") -> Iterator[Hop]:
    """Run the gateway that pings before the upstream answers (gateway.py)."""
    port = free_port()
    command = [sys.executable, "-m", "tests.lab.hops.gateway", str(port), str(upstream), ping]
    with _running("gateway", command, port, leftovers.make_folder("gateway")) as (log, pid):
        yield Hop(f"http://{HOST}:{port}", "gateway", "lab", log, pid)


def certificate(folder: Path) -> Certificate:
    """Make a certificate for 127.0.0.1 with openssl."""
    found = Certificate(folder / "cert.pem", folder / "key.pem", folder / "both.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(found.key), "-out", str(found.cert)]
    subprocess.run(command, check=True, capture_output=True)
    found.both.write_bytes(found.cert.read_bytes() + found.key.read_bytes())
    return found


def version(proxy: str) -> str:
    """Ask the program for its version, as its one telling word."""
    flag = {"caddy": "version", "envoy": "--version"}.get(proxy, "-v")
    told = subprocess.run([_binary(proxy), flag], capture_output=True, text=True, check=True)
    words = (told.stdout + told.stderr).replace("/", " ").split()
    return next(
        word.lstrip("v") for word in words if word.lstrip("v")[:1].isdigit() and "." in word
    )


@contextlib.contextmanager
def _hop(
    proxy: str,
    template: str,
    values: Mapping[str, str],
    arguments: Sequence[str],
    upstream: int,
    tls: Certificate | None,
) -> Iterator[Hop]:
    port, folder = free_port(), leftovers.make_folder(proxy)
    config = folder / template
    text = Template((HERE / template).read_text(encoding="utf-8"))
    values = {**values, "port": str(port), "upstream": str(upstream)}
    config.write_text(text.substitute(values), encoding="utf-8")
    places = {"folder": str(folder), "config": str(config)}
    command = [_binary(proxy), *(Template(part).substitute(places) for part in arguments)]
    scheme = "https" if tls else "http"
    with _running(proxy, command, port, folder) as (log, pid):
        yield Hop(f"{scheme}://{HOST}:{port}", proxy, version(proxy), log, pid)


@contextlib.contextmanager
def _running(
    name: str, command: Sequence[str], port: int, folder: Path
) -> Iterator[tuple[Path, int]]:
    """Start a process, wait until it accepts connections, and take it down with its folder."""
    log = folder / "log"
    places = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env=leftovers.marked_env(TMPDIR=str(folder), **places),
            start_new_session=True,
        )
    kernel.go_ahead(process.pid)
    try:
        _wait_until_open(name, process, port, log)
        yield log, process.pid
    except BaseException as error:
        error.add_note(f"{name}: configuration and log are in {_keep(name, folder)}")
        raise
    finally:
        _stop(process)
        leftovers.remove(folder)


def _wait_until_open(name: str, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not _open(port):
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout=POLL_S)
            raise HopError(f"{name} exited with {status}:\n{log_tail(log)}")
        if time.monotonic() > deadline:
            raise HopError(f"{name} took no connection in {READY_S:.0f} s:\n{log_tail(log)}")


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _keep(name: str, folder: Path) -> Path:
    kept = leftovers.KEPT / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, ignore_dangling_symlinks=True)
    return kept


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to stop; end the whole group when it has not in time."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=STOP_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _binary(proxy: str) -> str:
    found = install.binary(proxy)
    if found is None:
        raise HopError(f"{proxy} is not installed: python -m tests.lab.install {proxy}")
    return str(found)


def _on(value: bool) -> str:
    return "on" if value else "off"
