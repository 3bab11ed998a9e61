"""The path itself: a process that carries packets between two namespaces and does what it is told.

    python -m tests.lab.relay '{"profile": {...}, "log": FILE, "control": SOCKET}'

It makes both namespaces and their devices, says so on stdout as one JSON line, and runs until its
stdin ends: then it kills what still runs in them, and with it everything is gone. Commands (see
profile.py) come as datagrams on the control socket and are answered with the instant they took
effect, or with the error. What it did is in the log, one JSON object a line, `at_ns` being
CLOCK_MONOTONIC: the truth about the path. Its own failings are in there too: `late` when packets
left over 1 ms after they were due, `starved` when it was kept from running that long.
"""

import contextlib
import heapq
import json
import os
import random
import select
import socket
import sys
import time
from collections import Counter, deque
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from latscope.units import MS, Ns, S
from tests.lab import kernel
from tests.lab.profile import (
    WAYS,
    Command,
    Profile,
    ProfileError,
    Way,
    change,
    from_mapping,
    parse,
)

CLIENT, SERVER = "10.77.0.1", "10.77.0.2"
HICCUP: Ns = MS
PACKETS_A_TURN = 64
PACKET = 65536
IDLE: Ns = S


@dataclass
class Log:
    """The truth, as lines."""

    file: TextIO

    def note(self, what: str, at_ns: Ns | None = None, **fields: Any) -> None:
        """Write one line, stamped now unless it says when."""
        row = {"at_ns": time.monotonic_ns() if at_ns is None else at_ns, "what": what, **fields}
        self.file.write(json.dumps(row) + "\n")


@dataclass
class Lane:
    """One way: what waits in it, and what is being done to it."""

    name: str
    source: int
    target: int
    way: Way
    log: Log
    draw: random.Random
    waiting: deque[tuple[Ns, bytes]] = field(default_factory=deque)
    free_ns: Ns = 0
    hold_until: Ns = 0
    holding: bool = False
    blackout_until: Ns = 0
    dark: bool = False
    to_drop: int = 0
    trace: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def take(self, packet: bytes, now: Ns) -> None:
        """Receive a packet: drop it, or find when it is due."""
        if packet[0] >> 4 != 4:  # IPv6 chatter of a fresh namespace
            return
        why = self._doomed(packet)
        if why:
            self._drop(why, packet, now)
            return
        start = now
        if self.way.rate_bps is not None:
            start = max(now, self.free_ns)
            if (start - now) * self.way.rate_bps > self.way.queue_bytes * 8 * S:
                self._drop("tail", packet, now)
                return
            self.free_ns = start + len(packet) * 8 * S // self.way.rate_bps
            if start > now:
                self.log.note("queued", now, way=self.name, ns=start - now, bytes=len(packet))
            start = self.free_ns
        jitter = round(self.draw.uniform(-1, 1) * self.way.jitter_ns) if self.way.jitter_ns else 0
        due = max(start + max(0, self.way.delay_ns + jitter), now)
        if self.waiting:
            due = max(due, self.waiting[-1][0])
        self.waiting.append((due, packet))

    def _doomed(self, packet: bytes) -> str | None:
        if self.dark:
            return "blackout"
        if self.to_drop and kernel.carries_data(packet):
            self.to_drop -= 1
            return "asked"
        if self.way.loss and self.draw.random() < self.way.loss:
            return "loss"
        return None

    def _drop(self, why: str, packet: bytes, now: Ns) -> None:
        self.counts[why] += 1
        data = kernel.carries_data(packet)
        self.log.note("drop", now, way=self.name, why=why, bytes=len(packet), data=data)

    def end_faults(self, now: Ns) -> None:
        """Take back a hold or blackout whose time is over."""
        if self.holding and now >= self.hold_until:
            self.holding = False
            self.log.note("hold.ended", now, way=self.name, kept=self._due_by(now))
        if self.dark and now >= self.blackout_until:
            self.dark = False
            self.log.note("blackout.ended", now, way=self.name)

    def give(self, now: Ns) -> None:
        """Send what is due on."""
        if self.holding:
            return
        late, packets = 0, 0
        while self.waiting and self.waiting[0][0] <= now:
            due, packet = self.waiting.popleft()
            late = max(late, now - max(due, self.hold_until))
            packets += 1
            self.counts["carried"] += 1
            if self.trace and kernel.carries_data(packet):
                source, to, seq, size = kernel.segment(packet)
                self.log.note("data", way=self.name, source=source, to=to, seq=seq, bytes=size)
            os.write(self.target, packet)
        if late > HICCUP:
            self.log.note("late", now, way=self.name, ns=late, packets=packets)

    def next_ns(self) -> Ns:
        """When something is to be done in this lane; far away when nothing is."""
        times = [self.waiting[0][0]] if self.waiting and not self.holding else []
        times += [self.hold_until] if self.holding else []
        times += [self.blackout_until] if self.dark else []
        return min(times, default=sys.maxsize)

    def _due_by(self, now: Ns) -> int:
        return sum(1 for due, _ in self.waiting if due <= now)


@dataclass
class Relay:
    """Both lanes and the ways to be told something."""

    lanes: dict[str, Lane]
    control: socket.socket
    log: Log
    later: list[tuple[Ns, int, str]] = field(default_factory=list)
    starved_ns: Ns = 0

    def run(self, lifeline: int) -> None:
        """Carry packets until the lifeline's other end is closed."""
        by_source = {lane.source: lane for lane in self.lanes.values()}
        watched: list[Any] = [*by_source, self.control, lifeline]
        stat = os.open("/proc/self/schedstat", os.O_RDONLY)
        while True:
            ready, _, _ = select.select(watched, [], [], self._patience())
            now = time.monotonic_ns()
            self._notice_starving(stat, now)
            self._by_timetable(now)
            for source in ready:
                if source in by_source:
                    self._receive(by_source[source], now)
            if self.control in ready:
                self._obey()
            for lane in self.lanes.values():
                lane.end_faults(time.monotonic_ns())
                lane.give(time.monotonic_ns())
            if lifeline in ready and not os.read(lifeline, PACKET):
                return

    def _patience(self) -> float:
        now = time.monotonic_ns()
        times = [lane.next_ns() for lane in self.lanes.values()]
        times += [self.later[0][0]] if self.later else []
        return max(0, min(*times, now + IDLE) - now) / S

    def _notice_starving(self, stat: int, now: Ns) -> None:
        """The kernel counts how long we could have run and did not: then packets lay unseen."""
        waited = int(os.pread(stat, 64, 0).split()[1])
        if self.starved_ns and waited - self.starved_ns > HICCUP:
            self.log.note("starved", now, ns=waited - self.starved_ns)
        self.starved_ns = waited

    def _receive(self, lane: Lane, now: Ns) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(PACKETS_A_TURN):
                lane.take(os.read(lane.source, PACKET), now)

    def _by_timetable(self, now: Ns) -> None:
        while self.later and self.later[0][0] <= now:
            self._do(parse(heapq.heappop(self.later)[2]), now)

    def _obey(self) -> None:
        text, sender = self.control.recvfrom(PACKET)
        now = time.monotonic_ns()
        reply: dict[str, Any] = {"at_ns": now}
        try:
            self._do(parse(text.decode(errors="replace")), now)
        except ProfileError as error:
            reply = {"error": str(error)}
        with contextlib.suppress(OSError):  # the asker may be gone
            self.control.sendto(json.dumps(reply).encode(), sender)

    def _do(self, command: Command, now: Ns) -> None:
        if command.do == "at":
            heapq.heappush(self.later, (now + command.ns, len(self.later), command.then))
            return
        for name in command.ways:
            lane = self.lanes[name]
            if command.do == "set":
                lane.way = change(lane.way, command.settings)
                self.log.note("set", now, way=name, **asdict(lane.way))
            elif command.do == "hold":
                lane.holding, lane.hold_until = True, now + command.ns
                self.log.note("hold", now, way=name, ns=command.ns)
            elif command.do == "blackout":
                lane.dark, lane.blackout_until = True, now + command.ns
                self.log.note("blackout", now, way=name, ns=command.ns)
            else:
                lane.to_drop += command.packets
                self.log.note("will_drop", now, way=name, packets=command.packets)


def place(profile: Profile) -> tuple[dict[str, int], dict[str, int]]:
    """Make the two namespaces; give their descriptors and their devices'."""
    namespaces, devices = {}, {}
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    for side, address in (("client", CLIENT), ("server", SERVER)):
        namespaces[side] = kernel.new_namespace()
        devices[side] = kernel.make_tun("path", address)
        if profile.congestion:
            kernel.congestion(profile.congestion)
    kernel.enter(home)
    os.close(home)
    return namespaces, devices


def main() -> None:
    """Be the path."""
    asked = json.loads(sys.argv[1])
    profile = from_mapping(asked["profile"])
    # Before the namespaces: a socket belongs to the one it was made in.
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(asked["control"])
    namespaces, devices = place(profile)
    kernel.sharp_timers()
    kernel.go_ahead()
    with open(asked["log"], "w", buffering=1, encoding="utf-8") as file:
        log = Log(file)
        ends = {"up": ("client", "server"), "down": ("server", "client")}
        lanes = {
            name: Lane(
                name=name,
                source=devices[ends[name][0]],
                target=devices[ends[name][1]],
                way=getattr(profile, name),
                log=log,
                draw=random.Random(f"{profile.seed} {name}"),
                trace=profile.trace and name == "down",
            )
            for name in WAYS
        }
        for lane in lanes.values():
            log.note("set", way=lane.name, **asdict(lane.way))
        print(json.dumps({"namespaces": namespaces}), flush=True)
        try:
            Relay(lanes, control, log).run(sys.stdin.fileno())
        finally:
            for namespace in namespaces.values():
                kernel.end_inhabitants(namespace)
            log.note("stopped", packets={name: dict(lane.counts) for name, lane in lanes.items()})


if __name__ == "__main__":
    main()
