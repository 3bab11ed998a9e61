"""The hops worth knowing, how each is asked, and what it does to a stream.

A signature is what the client can see of a hop:

    passes      every token as it is made
    bursts      several tokens at a time, or each a good while late
    collected   all tokens together, after the last of them was sent
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from latscope.recording import Recording
from latscope.units import MS
from tests.lab import hops, kernel, leftovers
from tests.lab.client import ask
from tests.lab.truth import stamps_of, truth_of
from tests.lab.upstream import Schedule

PLAIN = Schedule()
CLOSE = Schedule(framing="close")
DENSE = Schedule(events=300, every_ns=10 * MS)
PAIRS = Schedule(events=16, every_ns=150 * MS)
SLOW = Schedule(events=40, every_ns=230 * MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One hop and one call through it.

    options: what the hop's function is given; tls: terminated at the hop, `h2` or `h1` over it;
    encoding: what the client accepts; head_held: the hop keeps the response head too, until it has
    something to send with it. kept: a recording of it belongs into fixtures/recordings.
    """

    hop: Callable[..., AbstractContextManager[hops.Hop]] | None
    proxy: str
    signature: str
    options: tuple[tuple[str, Any], ...] = ()
    tls: str = ""
    encoding: str = "identity"
    schedule: Schedule = PLAIN
    head_held: bool = False
    kept: bool = True


def case(proxy: str, signature: str, **fields: Any) -> Case:
    """Make a case; what is no field of Case is an option of the hop."""
    known = {name: fields.pop(name) for name in list(fields) if name in Case.__slots__}
    hop = HOPS[proxy]
    return Case(hop=hop, proxy=proxy, signature=signature, options=tuple(fields.items()), **known)


HOPS: dict[str, Callable[..., AbstractContextManager[hops.Hop]] | None] = {
    "direct": None,
    "nginx": hops.nginx,
    "haproxy": hops.haproxy,
    "envoy": hops.envoy,
    "caddy": hops.caddy,
    "gateway": hops.gateway,
}
CASES: dict[str, Case] = {
    "direct": case("direct", "passes", kept=False),
    "nginx-http10": case("nginx", "collected", http="1.0", schedule=CLOSE, head_held=True),
    "nginx-http10_unbuffered": case("nginx", "passes", http="1.0", buffering=False, schedule=CLOSE),
    "nginx-http10_chunked": case("nginx", "passes", http="1.0", head_held=True),
    "nginx-http11": case("nginx", "passes", head_held=True),
    "nginx-http11_unbuffered": case("nginx", "passes", buffering=False),
    "nginx-gzip": case("nginx", "collected", gzip=True, encoding="gzip", head_held=True),
    "nginx-gzip_unbuffered": case("nginx", "passes", gzip=True, buffering=False, encoding="gzip"),
    "nginx-tls_h1": case("nginx", "collected", tls="h1", head_held=True),
    "nginx-tls_h1_long": case(
        "nginx", "bursts", tls="h1", schedule=DENSE, head_held=True, kept=False
    ),
    "nginx-tls_h1_unbuffered": case("nginx", "passes", tls="h1", buffering=False),
    "nginx-tls_h2": case("nginx", "passes", tls="h2", head_held=True),
    "haproxy-default": case("haproxy", "bursts", head_held=True),
    "haproxy-default_pairs": case(
        "haproxy",
        "bursts",
        schedule=PAIRS,
        head_held=True,
    ),
    "haproxy-default_slow": case(
        "haproxy",
        "bursts",
        schedule=SLOW,
        head_held=True,
    ),
    "haproxy-no_delay": case("haproxy", "passes", no_delay=True),
    "haproxy-tls_h1": case("haproxy", "passes", tls="h1"),
    "haproxy-tls_h2": case("haproxy", "passes", tls="h2"),
    "envoy-default": case("envoy", "passes"),
    "envoy-tracing": case("envoy", "passes", tracing=True),
    "envoy-request_buffer": case("envoy", "passes", filter="request-buffer"),
    "envoy-lua_body": case("envoy", "collected", filter="lua-body", head_held=True),
    "envoy-tls_h1": case("envoy", "passes", tls="h1"),
    "envoy-tls_h2": case("envoy", "passes", tls="h2"),
    "caddy-default": case("caddy", "passes"),
    "caddy-tls_h1": case("caddy", "passes", tls="h1"),
    "caddy-tls_h2": case("caddy", "passes", tls="h2"),
    "gateway-pings": case("gateway", "passes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A scripted model server that listens."""

    port: int
    stamps: Path
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A call through a hop: what latscope captured, its truth in it, and the upstream's stamps."""

    recording: Recording
    stamps: dict[str, Any]


@contextmanager
def upstream(schedule: Schedule) -> Iterator[Upstream]:
    """Run a model server of that schedule on the loopback."""
    folder = leftovers.make_folder("upstream")
    stamps = folder / "stamps.jsonl"
    command = [sys.executable, "-m", "tests.lab.upstream", "--stamps", str(stamps)]
    with subprocess.Popen(
        [*command, *schedule.options()],
        stdout=subprocess.PIPE,
        text=True,
        cwd=hops.ROOT,
        env=leftovers.marked_env(),
    ) as process:
        try:
            assert process.stdout is not None
            yield Upstream(port=int(process.stdout.readline()), stamps=stamps, pid=process.pid)
        finally:
            process.kill()
            leftovers.remove(folder)


@contextmanager
def through(wanted: Case, port: int, certificate: hops.Certificate) -> Iterator[hops.Hop]:
    """Run the case's hop before that upstream."""
    if wanted.hop is None:
        yield hops.Hop(f"http://127.0.0.1:{port}", "direct", "lab", Path(), 0)
        return
    secure = {"tls": certificate} if wanted.tls else {}
    with wanted.hop(port, **dict(wanted.options), **secure) as hop:
        yield hop


STARVED = 10 * MS
TRIES = 5


def make_call(name: str, certificate: hops.Certificate) -> Told:
    """Make the case's call and lay the truth beside it. A call in which this machine kept one of
    the processes waiting is not the hop's: it is made again, a few times."""
    wanted = CASES[name]
    with (
        upstream(wanted.schedule) as server,
        through(wanted, server.port, certificate) as hop,
    ):
        tags = {"origin": hop.origin, "version": hop.version, "case": name.partition("-")[2]}
        ours = (server.pid, hop.pid, os.getpid())
        count = 0
        while True:
            count, before = count + 1, kernel.starved_ns(*ours)
            told = _call(wanted, hop, certificate, tags, server, count)
            if count == TRIES or kernel.starved_ns(*ours) - before < STARVED:
                return told


def _call(
    wanted: Case,
    hop: hops.Hop,
    certificate: hops.Certificate,
    tags: dict[str, str],
    server: Upstream,
    count: int,
) -> Told:
    with kernel.ahead():
        recording = ask(
            hop.url,
            http2=wanted.tls == "h2",
            trust=certificate.cert if wanted.tls else None,
            encoding=wanted.encoding,
            tags=tags,
        )
    stamps = stamps_of(server.stamps, count)
    recording = replace(recording, truth=truth_of(recording, stamps))
    return Told(recording=recording, stamps=stamps)
