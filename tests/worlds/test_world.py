"""The world itself: its truth by hand, and against the truth the simulator makes of stamps."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from latscope.recording import Clock, SegmentTruth
from latscope.sim.stamps import Stamps
from latscope.sim.truth import truth as stamped_truth
from latscope.units import MS, US, Ns
from tests.worlds import truth
from tests.worlds.case import CORK_FIRST, CORK_NEXT, Case, Client, Failed, Path, Server
from tests.worlds.grid import grid
from tests.worlds.record import recording
from tests.worlds.world import World, build

SHARP = Path(rtt=2.0, delivery=0.0)
STEADY = Server(jitter=0.0, tokens=3, tail=0.0)
PLAIN = Case(server=STEADY, path=SHARP)
"""In ms: transport at 0.5, connected at 2.505, written at 2.715, received at 3.715, scheduled at
45.715, tokens at 105.715, 117.715, 129.715, read 1 ms later."""

WRITTEN = 500 * US + 2 * MS + 5 * US + 10 * US + 200 * US


def shares(world: World) -> dict[str, Ns]:
    return {name: ns for name, ns in truth.segments(world).items() if ns}


def to_first(world: World) -> dict[str, Ns]:
    found = truth.to_first_token(world)
    assert found is not None
    return {name: ns for name, ns in found.items() if ns}


def test_every_part_of_a_plain_call() -> None:
    """Pool; connect, upload and one round trip; queue with the front end; prefill; two steps."""
    assert shares(build(PLAIN)) == {
        "client": 500 * US,
        "network": WRITTEN - 500 * US + 2 * MS,
        "queue": 42 * MS,
        "prefill": 60 * MS,
        "decode": 24 * MS,
    }


def test_to_the_first_token_it_has_no_decode() -> None:
    found = to_first(build(PLAIN))
    assert found == {name: ns for name, ns in shares(build(PLAIN)).items() if name != "decode"}


def test_hidden_tokens_are_decode_before_the_first_one_shown() -> None:
    world = build(replace(PLAIN, server=replace(STEADY, hidden=2)))
    assert to_first(world)["decode"] == 24 * MS
    assert shares(world)["decode"] == 48 * MS


def test_a_hop_that_keeps_all_is_network_to_the_first_token_and_decode_to_the_end() -> None:
    world = build(replace(PLAIN, path=replace(SHARP, hop="all")))
    assert to_first(world)["network"] == shares(build(PLAIN))["network"] + 24 * MS
    assert shares(world) == shares(build(PLAIN))


@pytest.mark.parametrize(
    ("path", "leaves"),
    [
        (Path(hop="time", quantum_ms=50.0), (150, 150, 150)),
        (Path(hop="cork"), (105.715 + CORK_FIRST, 105.715 + CORK_FIRST, 105.715 + CORK_FIRST)),
        (Path(hop="late", quantum_ms=20.0), (125.715, 125.715, 129.715)),
        (Path(hop="pass", stalls=((1, 30.0),)), (105.715, 147.715, 147.715)),
    ],
    ids=["time", "cork", "late", "stall"],
)
def test_when_a_path_brings_the_three_tokens(path: Path, leaves: Sequence[float]) -> None:
    """The end of the answer empties a hop; a stalled chunk keeps those behind it."""
    slow = replace(PLAIN, path=replace(path, rtt=2.0, delivery=0.0))
    world = build(replace(slow, server=replace(STEADY, tail=600.0)))
    at = [
        next(c.at for c in world.answer.chunks if b"t%d " % index in world.answer.body[: c.stop])
        for index in range(3)
    ]
    assert at == [round(ms * MS) + MS for ms in leaves]


def test_after_its_first_chunk_haproxy_sends_bursts() -> None:
    server = replace(STEADY, tokens=60)
    world = build(Case(server=server, path=Path(hop="cork", rtt=2.0, delivery=0.0)))
    first, second, third = (chunk.at for chunk in world.answer.chunks[:3])
    assert [second - first, third - second] == [round(CORK_NEXT * MS)] * 2


def test_a_hop_of_blocks_passes_whole_ones() -> None:
    server = replace(STEADY, tokens=30)
    path = Path(hop="bytes", quantum_bytes=1000)
    chunks = build(Case(server=server, path=path)).answer.chunks
    assert len(chunks) > 3
    assert all(chunk.stop % 1000 == 0 for chunk in chunks[:-1])


def test_speculative_steps_and_intervals_group_tokens() -> None:
    """Three tokens a step exist at once; an interval of two sends them two by two."""
    burst = build(replace(PLAIN, server=replace(STEADY, tokens=7, burst=3)))
    assert [token.at - burst.tokens[0].at for token in burst.tokens] == [
        0,
        0,
        0,
        12 * MS,
        12 * MS,
        12 * MS,
        24 * MS,
    ]
    pairs = build(replace(PLAIN, server=replace(STEADY, tokens=6, interval=2)))
    sent = [chunk.at - pairs.answer.chunks[0].at for chunk in pairs.answer.chunks]
    assert sent == [0, 24 * MS, 48 * MS, 60 * MS]


def test_a_consumer_late_for_the_end_is_client() -> None:
    """Reads at 106.7, 147.7 (asked 41 ms later, its bytes there since 130.7)."""
    world = build(replace(PLAIN, client=Client(consumer=41.0)))
    last = world.reading.reads[-1]
    arrived = world.answer.chunks[-1].at
    assert last.asked_ns > arrived
    assert shares(world)["client"] == 500 * US + last.asked_ns - arrived


def test_a_stopped_call_ends_in_what_the_server_was_doing() -> None:
    """Stopped 70 ms after the request was written: 27 ms into prefill, and nothing came back."""
    world = build(replace(PLAIN, ending="cancelled", at=70.0))
    assert shares(world)["prefill"] == 27 * MS
    assert shares(world)["network"] == WRITTEN - 500 * US + MS
    assert truth.status(world) == "cancelled"


def test_failed_attempts_and_the_sleeps_after_them() -> None:
    """30 ms of refusal and 50 asked for are queue, the other 30 client; no answer is network."""
    tries = (Failed(retry_after=0.05), Failed(status=None, retry_after=9.0))
    found = shares(build(replace(PLAIN, retries=tries)))
    assert found["queue"] == (42 + 30 + 50) * MS
    assert found["client"] == 500 * US + 2 * 300 * US + (30 + 80) * MS
    assert found["network"] == shares(build(PLAIN))["network"] + 30 * MS


def test_stamps_tell_the_same_truth() -> None:
    """Of every world of the grid whose truth stamps can tell (no consumer, no stop): the
    simulator's own account, made of stamps and the recording, is this one to the nanosecond."""
    told = [build(case) for _, case in grid() if not case.client.consumer]
    told = [world for world in told if world.stop is None]
    assert len(told) > 1000
    for world in told:
        found = stamped_truth(stamps(world), replace(recording(world), clock=CLOCK))
        assert plain(found.segments) == truth.segments(world)
        assert plain(found.ttft) == truth.to_first_token(world)


CLOCK = Clock(name="perf_counter", zero_ns=0)


def stamps(world: World) -> Stamps:
    shown = [i for i, token in enumerate(world.tokens) if token.kind != "hidden"]
    return Stamps(
        id="w",
        scenario="world",
        api=world.case.api,
        stream=world.case.stream,
        received_ns=world.stamps.received,
        queued_ns=world.stamps.queued,
        scheduled_ns=world.stamps.scheduled,
        tokens=world.stamps.tokens,
        first_sent=shown[0] if shown else None,
        first_token_end=world.answer.first_end,
        terminal_end=world.answer.terminal_end,
        closed_ns=world.left,
    )


def plain(parts: Sequence[SegmentTruth] | None) -> dict[str, Ns] | None:
    if parts is None:
        return None
    return {part.name: part.ns for part in parts if part.name != "unattributed"}
