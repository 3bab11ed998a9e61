"""Round trips beside a stream: which way they are taken, what is kept, and when none are sent."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic, perf_counter_ns, sleep

import pytest

from latscope.documents.recordings import read_text
from latscope.probe import rtt
from latscope.probe.rtt import MOST_SAMPLES, RttProbe, chosen, thinned
from latscope.recording import Clock, Recording, RttSample, to_line
from latscope.units import MS, US, S
from tests.calls import stream, tokens

PATIENCE_S = 20.0


@contextmanager
def listening(family: int = socket.AF_INET) -> Iterator[tuple[str, list[int]]]:
    """A peer's address, and a list that grows by one with each connection it accepts."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=socket.AddressFamily(family)) as server:
        accepted: list[int] = []
        stop = threading.Event()

        def accept() -> None:
            while not stop.is_set():
                connection, _ = server.accept()
                connection.close()
                accepted.append(1)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield f"{host}:{port}" if ":" not in host else f"[{host}]:{port}", accepted
        stop.set()
        socket.create_connection((host, port)).close()
        thread.join(PATIENCE_S)


def beside(peer: str, zero_ns: int, wall_ns: int = 10**15) -> Recording:
    """A call that went to `peer` and was open from `zero_ns`."""
    call = stream(tokens(2, start=20, step=10), peer=peer, end=wall_ns / MS)
    return replace(call, clock=Clock(name="perf_counter", zero_ns=zero_ns))


def gathered(probe: RttProbe, peer: str, zero: int, least: int) -> tuple[RttSample, ...]:
    """Waits for so many samples."""
    until = monotonic() + PATIENCE_S
    while len(found := probe.during(beside(peer, zero)).rtt_probe) < least:
        assert monotonic() < until
        sleep(0.01)
    return found


def decided(host: rtt._Host) -> None:
    """Waits until one of the two ways was chosen."""
    until = monotonic() + PATIENCE_S
    while host.way is None:
        assert monotonic() < until
        sleep(0.01)


def test_a_near_server_is_spared_after_the_first_few() -> None:
    """Once refusals have shown to take as long as handshakes, it has nothing more to accept."""
    zero = perf_counter_ns()
    with listening() as (peer, accepted), RttProbe() as probe:
        probe.follow(peer)
        probe.resume()
        host = next(iter(probe._hosts.values()))
        decided(host)
        met = len(gathered(probe, peer, zero, 8))
        settled = len(accepted)
        samples = gathered(probe, peer, zero, met + 20)
        assert len(accepted) - settled <= rtt.TRIALS  # those that were under way
    assert host.way == "refusal"
    assert all(sample.rtt_ns is not None and sample.rtt_ns > 0 for sample in samples)
    assert list(samples) == sorted(samples)


def test_samples_are_the_calls_own() -> None:
    """Those sent before its zero or after its end, or to another address, are not among them; they
    survive the file."""
    zero = perf_counter_ns()
    with listening() as (peer, _), RttProbe() as probe:
        probe.follow(peer)
        probe.resume()
        samples = gathered(probe, peer, zero, 6)
        moved = samples[2].sent_ns
        later = probe.during(beside(peer, zero + moved))
        until = probe.during(beside(peer, zero, wall_ns=moved))
        elsewhere = probe.during(beside("10.0.0.1:80", zero))
        unknown = probe.during(replace(beside(peer, zero), clock=None))
    assert later.rtt_probe[0] == RttSample(0, samples[2].rtt_ns)
    assert [sample.sent_ns for sample in until.rtt_probe] == [s.sent_ns for s in samples[:3]]
    assert elsewhere.rtt_probe == unknown.rtt_probe == ()
    assert read_text(to_line(later)).rtt_probe == later.rtt_probe


def test_nothing_is_sent_while_no_call_is_open() -> None:
    """Not before the first, and not after a pause."""
    with listening() as (peer, accepted), RttProbe() as probe:
        probe.follow(peer)
        sleep(0.1)
        assert accepted == []
        zero = perf_counter_ns()
        probe.resume()
        gathered(probe, peer, zero, 2)
        probe.pause()
        sleep(0.1)
        paused = perf_counter_ns()
        sleep(0.1)
        assert probe.during(beside(peer, paused)).rtt_probe == ()


def test_a_silent_refusal_leads_to_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a firewall that drops: here the closed port is one whose backlog is full, so its
    kernel answers nothing. That silence is not told as loss."""
    monkeypatch.setattr(rtt, "GIVE_UP", 50 * MS)
    zero = perf_counter_ns()
    with listening() as (peer, accepted), socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        monkeypatch.setattr(rtt, "CLOSED_PORT", full.getsockname()[1])
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        with RttProbe() as probe:
            probe.follow(peer)
            probe.resume()
            host = next(iter(probe._hosts.values()))
            decided(host)
            samples = gathered(probe, peer, zero, len(accepted) + 2)
        for filler in fillers:
            filler.close()
    assert host.way == "handshake"
    assert host.period_ns == rtt.NEAR_HANDSHAKES
    assert all(sample.rtt_ns is not None for sample in samples)


def test_an_ipv6_peer_is_probed_too() -> None:
    """Its address stands in brackets."""
    zero = perf_counter_ns()
    try:
        with listening(socket.AF_INET6) as (peer, _), RttProbe() as probe:
            probe.follow(peer)
            probe.resume()
            assert gathered(probe, peer, zero, 2)
    except OSError:
        pytest.skip("no IPv6 here")


@pytest.mark.parametrize("peer", [None, "", "unix:/run/x.sock", "name.test:80", "127.0.0.1"])
def test_what_is_no_address_is_not_probed(peer: str | None) -> None:
    """A name would have to be looked up, and may lead elsewhere."""
    with RttProbe() as probe:
        probe.follow(peer)
        probe.resume()
        assert probe._hosts == {}


def test_far_hosts_get_at_most_one_a_second() -> None:
    """Never a refusal: a stranger's closed port is none of ours. Near ones every 20 ms."""
    with RttProbe() as probe:
        for peer in ("192.0.2.1:443", "8.8.8.8:443", "10.1.2.3:80", "[fd00::1]:80", "8.8.8.8:80"):
            probe.follow(peer)
        found = {str(host.address): (host.way, host.period_ns) for host in probe._hosts.values()}
    near, far = (None, 20 * MS), ("handshake", S)
    assert found["8.8.8.8"] == far
    assert found["10.1.2.3"] == found["fd00::1"] == near
    assert len(found) == 4


@pytest.mark.parametrize(
    ("refusals", "handshakes", "way"),
    [
        ([], [], None),
        ([US] * 4, [US] * 3, None),
        ([300 * US] * 4, [500 * US] * 4, "refusal"),
        ([20 * MS, None, 21 * MS, 20 * MS], [25 * MS] * 4, "refusal"),
        ([1 * MS] * 4, [20 * MS] * 4, "handshake"),
        ([None, None, 1 * MS, 1 * MS], [1 * MS] * 4, "handshake"),
        ([None] * 4, [1 * MS] * 4, "handshake"),
        ([1 * MS] * 4, [None] * 4, "handshake"),
    ],
)
def test_refusals_are_chosen_where_they_come_the_whole_way(
    refusals: list[int | None], handshakes: list[int | None], way: str | None
) -> None:
    """Too few, alike, one lost, answered by a nearer router, mostly dropped, dropped, none."""
    assert chosen(refusals, handshakes) == way


def test_thinning_keeps_floor_and_delays() -> None:
    """Of neighbours the quickest and the slowest; one without an answer is the slowest."""
    samples = [RttSample(at, 1000 + at % 7) for at in range(3 * MOST_SAMPLES)]
    samples[5000] = RttSample(5000, None)
    samples[7000] = RttSample(7000, 80 * MS)
    samples[9000] = RttSample(9000, 10)
    kept = thinned(samples)
    assert len(kept) <= MOST_SAMPLES
    assert {samples[5000], samples[7000], samples[9000]} <= set(kept)
    assert list(kept) == sorted(kept, key=lambda sample: sample.sent_ns)
    assert thinned(samples[:10]) == tuple(samples[:10])
