"""Round trips measured beside the streams, to the address they come from.

A silence in a stream that the path made shows in these round trips; one the server or a proxy made
does not. A thread of its own sends, so that a blocked event loop stops nothing, and each round trip
is a TCP handshake's first half, answered by the peer's kernel and never by a program:

- To loopback and private addresses every 20 ms, to a port where nothing listens: the refusal takes
  one round trip and costs the server nothing. (A handshake with its own port would: uvicorn spends
  about 1.8 ms of CPU on each connection it accepts and loses, 9 % of a core at this pace, and when
  the server hangs, its full backlog would look like a lost packet.) First a few of both kinds are
  compared. Where refusals do not come (a firewall drops them) or come from elsewhere (a router that
  forwards the server's port alone answers sooner), a handshake with the server's own port it is,
  every 200 ms.
- To any other address a handshake with the port in use, at most one a second.

A sample is as good as this thread is awake: it looks at least every 5 ms while one is under way,
and an answer that it may have seen more than 10 ms late is dropped, not blamed on the network.
"""

import errno
import selectors
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from time import perf_counter_ns as now
from types import TracebackType
from typing import Literal, Self, TypeAlias

from latscope.recording import Recording, RttSample
from latscope.units import MS, US, Ns, S

NEAR_PERIOD: Ns = 20 * MS
NEAR_HANDSHAKES: Ns = 200 * MS
FAR_PERIOD: Ns = S
GIVE_UP: Ns = 950 * MS
"""Before the kernel repeats a lost SYN after its first second (RFC 6298, 2.1): what is answered
later answers the repetition."""
LOOK: Ns = 5 * MS
LATE: Ns = 10 * MS
TRIALS = 4
"""Refusals and handshakes compared before one of the two is chosen."""
ALIKE: Ns = 300 * US
"""Two ways whose quickest round trips lie no further apart are one path."""
CLOSED_PORT = 1
"""tcpmux (RFC 1078): nothing listens there. If something did, its handshake is a round trip too."""
MOST_SAMPLES = 4096
"""Kept of one call; at 20 ms the first 82 seconds fit whole."""
MOST_HELD = 65_536

Way: TypeAlias = Literal["refusal", "handshake"]
WAYS: tuple[Way, Way] = ("refusal", "handshake")

_UNDER_WAY = {
    errno.EINPROGRESS,
    errno.EWOULDBLOCK,
    getattr(errno, "WSAEWOULDBLOCK", errno.EWOULDBLOCK),
}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flight:
    """One probe on its way."""

    host: "_Host"
    way: Way
    sock: socket.socket
    sent_ns: int


@dataclass(slots=True, kw_only=True)
class _Host:
    """Mutable. One address that calls come from. port: the one they use. way: null while the two
    are being compared. trials: round trips of each way so far, null for one without an answer."""

    address: IPv4Address | IPv6Address
    port: int
    way: Way | None
    period_ns: Ns
    due_ns: int = 0
    trials: dict[Way, list[Ns | None]] = field(
        default_factory=lambda: {"refusal": [], "handshake": []}
    )
    samples: deque[RttSample] = field(default_factory=lambda: deque(maxlen=MOST_HELD))


class RttProbe:
    """Probes each address that `follow` names while `resume`d; `during` gives a call its share.

    Its methods may be called from any thread. Stamps are those of capture (`perf_counter_ns`).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[IPv4Address | IPv6Address, _Host] = {}
        self._flights: dict[int, _Flight] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._running = False
        self._stop = False
        self._looked_ns = now()
        self._thread = threading.Thread(target=self._run, name="latscope-rtt", daemon=True)
        self._thread.start()

    def follow(self, peer: str | None) -> None:
        """Probes this address too from now on; `host:port`, `[host]:port`. What is no IP address
        with a port is passed over."""
        known = _parsed(peer)
        with self._lock:
            if known is None or known[0] in self._hosts:
                return
            near = known[0].is_private or known[0].is_loopback
            self._hosts[known[0]] = _Host(
                address=known[0],
                port=known[1],
                way=None if near else "handshake",
                period_ns=NEAR_PERIOD if near else FAR_PERIOD,
            )
        self._nudge()

    def resume(self) -> None:
        """Sends from now on: a call is open."""
        if not self._running:
            self._running = True
            self._nudge()

    def pause(self) -> None:
        """Sends no more until the next call; what is under way is still waited for."""
        self._running = False

    def during(self, recording: Recording) -> Recording:
        """The recording with the round trips that began while it was open, to its own peer."""
        attempt = recording.attempts[-1] if recording.attempts else None
        known = _parsed(attempt.connection.peer if attempt and attempt.connection else None)
        clock = recording.clock
        if known is None or clock is None or clock.name != "perf_counter":
            return recording
        with self._lock:
            host = self._hosts.get(known[0])
            held = list(host.samples) if host is not None else []
        end = clock.zero_ns + recording.last_ns
        moved = [
            RttSample(sample.sent_ns - clock.zero_ns, sample.rtt_ns)
            for sample in held
            if clock.zero_ns <= sample.sent_ns <= end
        ]
        return replace(recording, rtt_probe=thinned(sorted(moved, key=_sent)))

    def close(self) -> None:
        self._stop = True
        self._nudge()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _nudge(self) -> None:
        try:
            self._wake.send(b"x")
        except OSError:  # full of nudges, or closed
            return

    def _run(self) -> None:
        try:
            while not self._stop:
                self._turn()
        finally:
            for flight in self._flights.values():
                flight.sock.close()
            self._selector.close()
            self._wake.close()
            self._woken.close()

    def _turn(self) -> None:
        """Sends what is due, waits for what comes first, takes what has come."""
        begun = now()
        with self._lock:
            hosts = list(self._hosts.values())
        for host in hosts if self._running else ():
            if begun >= host.due_ns:
                host.due_ns = max(host.due_ns + host.period_ns, begun + host.period_ns // 2)
                self._send(host)
        ready = self._selector.select(self._wait_s(hosts) if hosts else None)
        seen = now()
        for key, _ in ready:
            if key.fileobj is self._woken:
                _drained(self._woken)
            else:
                self._answered(self._flights[key.fd], seen)
        for flight in list(self._flights.values()):
            if seen - flight.sent_ns > GIVE_UP:
                self._landed(flight, None)
        self._looked_ns = seen

    def _wait_s(self, hosts: Sequence[_Host]) -> float | None:
        """Until the next probe is due, and never longer than LOOK while one is under way."""
        waits = [LOOK] if self._flights else []
        if self._running:
            waits += [max(0, host.due_ns - now()) for host in hosts]
        return min(waits) / S if waits else None

    def _send(self, host: _Host) -> None:
        way = host.way or self._tried(host)
        family = socket.AF_INET6 if host.address.version == 6 else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # out of descriptors: the calls need them more
            return
        sock.setblocking(False)
        # Closed without waiting and without leaving a port in TIME_WAIT behind.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        flight = _Flight(host=host, way=way, sock=sock, sent_ns=now())
        self._flights[sock.fileno()] = flight
        port = CLOSED_PORT if way == "refusal" else host.port
        code = sock.connect_ex((str(host.address), port))
        if code in _UNDER_WAY:
            self._selector.register(sock, selectors.EVENT_WRITE)
        else:
            self._judge(flight, code, now())

    def _tried(self, host: _Host) -> Way:
        """While the two are compared: whichever was tried less. A server has four to accept."""
        under_way = Counter(flight.way for flight in self._flights.values() if flight.host is host)
        fast, full = (len(host.trials[way]) + under_way[way] for way in WAYS)
        return "handshake" if full < min(TRIALS, fast) else "refusal"

    def _answered(self, flight: _Flight, seen: int) -> None:
        self._judge(flight, flight.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), seen)

    def _judge(self, flight: _Flight, code: int, seen: int) -> None:
        """A handshake or a refusal is a round trip; anything else (no route, a filter's word) is
        none, and what was seen late may be the network's time or this process's own."""
        if code not in (0, errno.ECONNREFUSED, getattr(errno, "WSAECONNREFUSED", 0)):
            self._landed(flight, None)
        elif seen - max(self._looked_ns, flight.sent_ns) > LATE:
            self._forget(flight)
        else:
            self._landed(flight, seen - flight.sent_ns)

    def _forget(self, flight: _Flight) -> None:
        fd = flight.sock.fileno()
        del self._flights[fd]
        if fd in self._selector.get_map():
            self._selector.unregister(flight.sock)
        flight.sock.close()

    def _landed(self, flight: _Flight, rtt_ns: Ns | None) -> None:
        self._forget(flight)
        host = flight.host
        # A refusal that does not come says nothing of the path before one ever came.
        if rtt_ns is not None or host.way == flight.way:
            with self._lock:
                host.samples.append(RttSample(flight.sent_ns, rtt_ns))
        if host.way is None:
            host.trials[flight.way].append(rtt_ns)
            host.way = chosen(host.trials["refusal"], host.trials["handshake"])
            if host.way == "handshake":
                host.period_ns = NEAR_HANDSHAKES


def chosen(refusals: Sequence[Ns | None], handshakes: Sequence[Ns | None]) -> Way | None:
    """Which way is taken to a near address; null while there are too few of either to tell.

    Refusals when most come and take as long as handshakes do; handshakes otherwise.
    """
    if min(len(refusals), len(handshakes)) < TRIALS:
        return None
    fast = [ns for ns in refusals if ns is not None]
    full = [ns for ns in handshakes if ns is not None]
    if 2 * len(fast) <= len(refusals) or not full:
        return "handshake"
    alike = abs(min(fast) - min(full)) <= max(ALIKE, min(full) // 2)
    return "refusal" if alike else "handshake"


def thinned(samples: Sequence[RttSample], most: int = MOST_SAMPLES) -> tuple[RttSample, ...]:
    """At most so many, in order: of each run of neighbours the quickest and the slowest, one
    without an answer being the slowest of all. So neither a delay nor the floor is lost."""
    if len(samples) <= most:
        return tuple(samples)
    run = -(-2 * len(samples) // most)
    kept: list[RttSample] = []
    for at in range(0, len(samples), run):
        part = samples[at : at + run]
        ends = {min(part, key=_length), max(part, key=_length)}
        kept += sorted(ends, key=_sent)
    return tuple(kept)


def _sent(sample: RttSample) -> Ns:
    return sample.sent_ns


def _length(sample: RttSample) -> Ns:
    return GIVE_UP if sample.rtt_ns is None else sample.rtt_ns


def _parsed(peer: str | None) -> tuple[IPv4Address | IPv6Address, int] | None:
    host, colon, port = (peer or "").rpartition(":")
    try:
        return (ip_address(host.strip("[]")), int(port)) if colon else None
    except ValueError:
        return None


def _drained(woken: socket.socket) -> None:
    try:
        while woken.recv(4096):
            pass
    except BlockingIOError:
        return
