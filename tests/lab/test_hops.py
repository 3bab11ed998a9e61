"""What real proxies do to a stream, and that latscope claims nothing about them that is not so."""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from latscope.attribution import attribute, check_laws
from latscope.units import MS
from tests.lab import hops, leftovers
from tests.lab.cases import CASES, Told, through, upstream
from tests.lab.client import ask
from tests.lab.conftest import need
from tests.lab.truth import (
    bursts,
    lags,
    since_zero,
    stamps_of,
    token_reads,
    violations,
)
from tests.lab.upstream import Schedule
from tests.sim.client import body_of, read_at

pytestmark = pytest.mark.lab

Calls = Callable[[str], Told]
HELD = 80 * MS
"""A token this late was kept by the hop, or once or twice by a busy machine."""
HEAD_HELD = 150 * MS
"""The shortest hold of a head is haproxy's 200 ms."""


def named(signature: str) -> list[str]:
    return [name for name, case in CASES.items() if case.signature == signature]


def late(told: Told) -> list[bool]:
    """Which tokens the hop kept."""
    return [lag > HELD for lag in lags(told.recording, told.stamps)]


@pytest.mark.parametrize("name", named("passes"))
def test_a_hop_that_passes_gives_each_token_by_itself(name: str, call_through: Calls) -> None:
    """The busiest machine merges or delays one or two of ten, no more."""
    told = call_through(name)
    assert len(bursts(token_reads(told.recording))) >= 8
    assert sum(late(told)) <= 2


@pytest.mark.parametrize("name", named("collected"))
def test_a_hop_that_collects_gives_nothing_before_the_last_token(
    name: str, call_through: Calls
) -> None:
    told = call_through(name)
    arrived = token_reads(told.recording)
    assert arrived[0] > since_zero(told.recording, told.stamps["tokens"][-1])
    assert len(bursts(arrived)) <= 2


@pytest.mark.parametrize("name", named("bursts"))
def test_a_hop_that_bursts_holds_most_tokens_but_not_all_until_the_end(
    name: str, call_through: Calls
) -> None:
    told = call_through(name)
    assert sum(late(told)) >= 0.4 * len(late(told))
    assert token_reads(told.recording)[0] < since_zero(told.recording, told.stamps["tokens"][-1])
    assert len(bursts(token_reads(told.recording))) >= 2


@pytest.mark.parametrize("name", ["haproxy-default", "haproxy-default_pairs"])
def test_haproxys_quantum_is_time(name: str, call_through: Calls) -> None:
    """It sends when the kernel's cork times out, about 200 ms after the first byte it kept: no two
    bursts but the last are nearer, however many tokens are in them."""
    starts = [group[0] for group in bursts(token_reads(call_through(name).recording))]
    assert all(after - at >= 180 * MS for at, after in list(pairwise(starts))[:-1])


def test_nginxs_quantum_over_tls_is_bytes(call_through: Calls) -> None:
    """With an HTTP/1.1 client it fills a TLS record (16 KiB) before it sends one."""
    told = call_through("nginx-tls_h1_long")
    groups = bursts(token_reads(told.recording))
    ends = [read_at_most(told, group[-1]) for group in groups]
    assert all(after - before >= 12_000 for before, after in pairwise([0, *ends[:-1]]))


def read_at_most(told: Told, ns: int) -> int:
    """How many bytes of the body had been read by then."""
    reads = told.recording.attempts[-1].reads
    return max(read.body_offset for read in reads if read.got_ns <= ns)


@pytest.mark.parametrize("name", list(CASES))
def test_the_head_comes_when_the_table_says(name: str, call_through: Calls) -> None:
    """The upstream sends its head at once; nginx with buffering, haproxy's cork and a filter that
    wants the body keep it, though the stream may pass."""
    told = call_through(name)
    headers = told.recording.attempts[-1].mark("headers")
    assert headers is not None
    kept = headers - since_zero(told.recording, told.stamps["headers_ns"])
    assert (kept > HEAD_HELD) is CASES[name].head_held


@pytest.mark.parametrize("name", list(CASES))
def test_the_truth_lies_inside_the_hard_bounds(name: str, call_through: Calls) -> None:
    """Law 2, with the upstream's own stamps as the truth, both for the call and for TTFT."""
    recording = call_through(name).recording
    check_laws(attribute(recording))
    assert violations(recording) == []


@pytest.mark.parametrize("name", list(CASES))
def test_http_version_and_origin_are_as_asked(name: str, call_through: Calls) -> None:
    recording = call_through(name).recording
    connection = recording.attempts[-1].connection
    assert connection is not None
    assert connection.http == ("HTTP/2" if CASES[name].tls == "h2" else "HTTP/1.1")
    assert connection.tls is bool(CASES[name].tls)
    assert recording.tags["origin"] == CASES[name].proxy
    assert recording.tags["version"]


def test_a_gateways_pings_come_before_anything_the_model_says(call_through: Calls) -> None:
    """First byte and head say nothing of the model then; comments are no tokens."""
    told = call_through("gateway-pings")
    first = since_zero(told.recording, told.stamps["tokens"][0])
    body = body_of(told.recording)
    assert body.startswith(b": ping\n\n: ping\n\n")
    assert read_at(told.recording, body.index(b"data:")) < first
    found = attribute(told.recording)
    assert found.first_token_ns is not None
    assert found.first_token_ns >= first


def test_tracing_reaches_the_upstream(call_through: Calls) -> None:
    """Envoy joins the call to a trace even when its collector is not there."""
    assert "traceparent" in call_through("envoy-tracing").stamps["request_headers"]
    assert "traceparent" not in call_through("envoy-default").stamps["request_headers"]


@pytest.mark.parametrize(("filter_name", "buffers"), [("", False), ("request-buffer", True)])
def test_a_request_buffer_keeps_the_head_until_the_body_is_whole(
    filter_name: str, buffers: bool
) -> None:
    """The client takes 300 ms over its body; the filter alone makes that invisible upstream."""
    need("envoy")

    def slowly() -> Iterator[bytes]:
        yield b'{"model": "lab", "stream": true, '
        time.sleep(0.3)
        yield b'"messages": []}'

    schedule = Schedule(events=2, every_ns=MS, queue_ns=0, prefill_ns=0)
    with upstream(schedule) as server, hops.envoy(server.port, filter=filter_name) as hop:
        ask(hop.url, content=slowly())
        stamps = stamps_of(server.stamps)
    took = stamps["received_ns"] - stamps["head_ns"]
    assert (took < 150 * MS) is buffers


@pytest.mark.parametrize("proxy", ["nginx", "haproxy", "envoy", "caddy", "gateway"])
def test_nothing_of_a_hop_stays(proxy: str, certificate: hops.Certificate) -> None:
    need(proxy)
    name = next(name for name, case in CASES.items() if case.proxy == proxy)
    with through(CASES[name], 1, certificate) as hop:
        assert hop.pid in leftovers.mine()
    assert leftovers.mine() == []
    assert not hop.log.parent.exists()


def test_a_hop_that_cannot_start_shows_its_log_and_keeps_it() -> None:
    need("nginx")
    never = hops.nginx(1, http="9")
    with pytest.raises(hops.HopError, match='invalid value "9"') as failed:
        never.__enter__()
    (note,) = failed.value.__notes__
    kept = note.rpartition(" ")[2]
    with open(f"{kept}/nginx.conf", encoding="utf-8") as config:
        assert "proxy_http_version 9;" in config.read()
