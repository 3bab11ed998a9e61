"""Settings and commands of the path, and what one lane does with packets, without any kernel."""

import io
import json
import os
import random
import socket
import struct
from typing import Any

import pytest

from latscope.units import MS, S
from tests.lab import kernel
from tests.lab.profile import (
    Profile,
    ProfileError,
    Way,
    both,
    change,
    from_mapping,
    parse,
    to_mapping,
)
from tests.lab.relay import Lane, Log

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ("", Way()),
        ("delay=20ms", Way(delay_ns=20 * MS)),
        ("delay=1.5s,jitter=300us", Way(delay_ns=1_500 * MS, jitter_ns=300_000)),
        ("loss=1%", Way(loss=0.01)),
        ("loss=0.5", Way(loss=0.5)),
        ("rate=10mbit queue=64kB", Way(rate_bps=10_000_000, queue_bytes=64_000)),
        ("rate=any", Way(rate_bps=None)),
    ],
)
def test_settings(settings: str, way: Way) -> None:
    assert change(Way(), settings) == way


@pytest.mark.parametrize(
    "text",
    [
        "delay=20",
        "delay=-1ms",
        "loss=101%",
        "loss=x",
        "rate=0mbit",
        "rate=10",
        "queue=",
        "speed=1mbit",
    ],
)
def test_a_setting_nobody_can_follow_is_refused(text: str) -> None:
    with pytest.raises(ProfileError):
        change(Way(), text)


@pytest.mark.parametrize(
    ("text", "do", "ways", "ns", "packets"),
    [
        ("hold 300ms", "hold", ("up", "down"), 300 * MS, 0),
        ("hold down 300ms", "hold", ("down",), 300 * MS, 0),
        ("blackout both 1s", "blackout", ("up", "down"), S, 0),
        ("drop up 2", "drop", ("up",), 0, 2),
        ("at 1.5s hold down 300ms", "at", ("up", "down"), 1_500 * MS, 0),
    ],
)
def test_commands(text: str, do: str, ways: tuple[str, ...], ns: int, packets: int) -> None:
    found = parse(text)
    assert (found.do, found.ways, found.ns, found.packets) == (do, ways, ns, packets)


@pytest.mark.parametrize(
    "text",
    ["", "hold", "hold down", "hold 3", "drop x", "at 1s", "at 1s dance", "set", "set up x=1"],
)
def test_a_command_nobody_can_follow_is_refused(text: str) -> None:
    with pytest.raises(ProfileError):
        parse(text)


def test_a_profile_survives_json() -> None:
    made = both("delay=20ms loss=1%", seed=3, congestion="cubic")
    assert from_mapping(json.loads(json.dumps(to_mapping(made)))) == made
    assert from_mapping({}) == Profile()


def tcp(payload: int) -> bytes:
    """An IPv4 packet with a TCP segment of that many payload bytes."""
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + payload, 0, 0, 64, 6, 0, b"\0" * 4, b"\0" * 4)
    return head + b"\0" * 12 + bytes([5 << 4]) + b"\0" * 7 + b"x" * payload


@pytest.mark.parametrize(
    ("packet", "data"),
    [
        (tcp(0), False),
        (tcp(1), True),
        (b"\x60" + b"\0" * 60, False),
        (b"\x45" + b"\0" * 5, False),
        (tcp(9)[:9] + bytes([17]) + tcp(9)[10:], False),
    ],
    ids=["ack", "data", "ipv6", "stub", "udp"],
)
def test_which_packets_carry_data(packet: bytes, data: bool) -> None:
    assert kernel.carries_data(packet) is data


class Bench:
    """A lane over a socket pair of datagrams, and what it wrote into its log."""

    def __init__(self, settings: str, seed: int = 1) -> None:
        self.out, inlet = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.out.setblocking(False)
        self.inlet = inlet
        self.file = io.StringIO()
        self.lane = Lane(
            name="down",
            source=-1,
            target=inlet.fileno(),
            way=change(Way(), settings),
            log=Log(self.file),
            draw=random.Random(seed),
        )

    def carried(self, now: int) -> int:
        """How many packets come out when it is `now`."""
        self.lane.end_faults(now)
        self.lane.give(now)
        count = 0
        try:
            while os.read(self.out.fileno(), 65536):
                count += 1
        except BlockingIOError:
            return count
        return count

    def log(self, what: str) -> list[dict[str, Any]]:
        rows = [json.loads(line) for line in self.file.getvalue().splitlines()]
        return [row for row in rows if row["what"] == what]

    def close(self) -> None:
        self.out.close()
        self.inlet.close()


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Any:
    made: list[Bench] = []

    def make(settings: str, seed: int = 1) -> Bench:
        made.append(Bench(settings, seed))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_delay_is_exact(bench: Any) -> None:
    b = bench("delay=20ms")
    b.lane.take(tcp(10), 1_000)
    assert b.lane.next_ns() == 1_000 + 20 * MS
    assert b.carried(1_000 + 20 * MS - 1) == 0
    assert b.carried(1_000 + 20 * MS) == 1
    assert b.log("late") == []


def test_jitter_stays_in_its_range_and_keeps_the_order(bench: Any) -> None:
    b = bench("delay=20ms jitter=5ms")
    for index in range(200):
        b.lane.take(tcp(index), index * 100_000)
    dues = [due for due, _ in b.lane.waiting]
    assert dues == sorted(dues)
    assert [len(packet) for _, packet in b.lane.waiting] == [40 + index for index in range(200)]
    assert all(15 * MS <= due - i * 100_000 <= 25 * MS for i, due in enumerate(dues))
    assert len(set(dues)) > 10


def test_losses_follow_the_seed(bench: Any) -> None:
    """The same seed loses the same packets; the share is about what was asked."""
    sizes = []
    for seed in (1, 1, 2):
        b = bench("loss=10%", seed)
        for index in range(1000):
            b.lane.take(tcp(index), 0)
        sizes.append([row["bytes"] for row in b.log("drop")])
    assert sizes[0] == sizes[1] != sizes[2]
    assert 50 <= len(sizes[0]) <= 150


def test_a_rate_spaces_packets_and_drops_the_tail(bench: Any) -> None:
    """1000-byte packets at 1 Mbit/s are 8 ms apart; beyond the queue they are dropped."""
    b = bench("rate=1mbit queue=5kB")
    for _ in range(10):
        b.lane.take(tcp(960), 0)
    assert [due for due, _ in b.lane.waiting] == [8 * MS * (i + 1) for i in range(6)]
    assert [row["why"] for row in b.log("drop")] == ["tail"] * 4
    assert [row["ns"] for row in b.log("queued")] == [8 * MS * (i + 1) for i in range(5)]


def test_a_hold_lets_nothing_out_and_loses_nothing(bench: Any) -> None:
    b = bench("")
    b.lane.holding, b.lane.hold_until = True, 300 * MS
    b.lane.take(tcp(1), 10 * MS)
    b.lane.take(tcp(1), 20 * MS)
    assert b.carried(299 * MS) == 0
    assert b.carried(300 * MS) == 2
    assert b.log("hold.ended")[0]["kept"] == 2
    assert b.log("late") == []


def test_a_blackout_loses_what_comes_in_and_not_what_is_on_its_way(bench: Any) -> None:
    b = bench("delay=20ms")
    b.lane.take(tcp(1), 0)
    b.lane.dark, b.lane.blackout_until = True, 100 * MS
    b.lane.take(tcp(2), 50 * MS)
    assert b.carried(60 * MS) == 1
    assert b.carried(100 * MS) == 0
    b.lane.take(tcp(3), 100 * MS)
    assert b.carried(120 * MS) == 1
    assert [row["why"] for row in b.log("drop")] == ["blackout"]


def test_only_segments_with_data_are_dropped_on_request(bench: Any) -> None:
    b = bench("")
    b.lane.to_drop = 1
    for payload in (0, 5, 6):
        b.lane.take(tcp(payload), 0)
    assert [len(packet) for _, packet in b.lane.waiting] == [40, 46]
    assert [(row["why"], row["data"]) for row in b.log("drop")] == [("asked", True)]


def test_its_own_lateness_is_told(bench: Any) -> None:
    """A packet that leaves over a millisecond after it was due is a fault of ours."""
    b = bench("delay=1ms")
    b.lane.take(tcp(1), 0)
    b.carried(4 * MS)
    assert [row["ns"] for row in b.log("late")] == [3 * MS]
