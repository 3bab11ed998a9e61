"""When the kernel is asked about an attempt's connection, and what it answered."""

from typing import Any

from latscope.capture import rtt, sockets
from latscope.units import MS, US, Ns

BRIEF: Ns = 200 * US
"""Reads this close together tell nothing of the stream's pace: they came in one piece."""
QUIET: Ns = 25 * MS
"""No silence shorter than this stands out of a stream."""
TICK: Ns = 500 * MS
"""So long after the last snapshot the next read takes one, and in the long run after the 64th part
of the stream's age: what a counter moved by is then known to lie between two that are near."""
GAPS = 64
"""Silences of an attempt whose end is snapped; after these the 128th, the 256th and so on."""


class Snapshots:
    """One attempt's. Each costs its caller one getsockopt: a microsecond or two."""

    __slots__ = ("_due", "_first", "_gaps", "_limit", "stream", "taken", "transport", "window")

    def __init__(self) -> None:
        self.taken: list[tuple[str, Ns, bytes]] = []
        """(at, when, TCP_INFO undecoded)."""
        self.window: tuple[Ns, Ns] | None = None
        """When the headers came, and the smallest round trip to the peer of late."""
        self.transport: Any = None
        """What the request was handed to."""
        self.stream: Any = None
        """The network stream it goes out on, once known."""
        self._limit: Ns = 0
        """A silence longer than this stands out; 0 before the first read."""
        self._gaps = 0
        self._first: Ns = 0
        self._due: Ns = 0

    def started(self, request: Any, stamp: Ns) -> None:
        """A request begins on a connection that was there before it."""
        self.stream = sockets.stream_of(self.transport, request)
        self.take("started", stamp, sockets.socket_of(self.stream))

    def forget(self) -> None:
        """Nothing of the client's is held on to once the request is sent."""
        self.stream = self.transport = None

    def headers(self, link: sockets.Link, stamp: Ns) -> None:
        """The headers came; also what other calls to the same address saw."""
        raw = self.take("headers", stamp, link.sock)
        if raw is not None and link.peer is not None:
            lowest = rtt.lowest(link.peer, sockets.min_rtt(raw), stamp)
            self.window = None if lowest is None else (stamp, lowest)

    def read(self, silence: Ns, got: Ns, link: sockets.Link | None) -> Ns:
        """A read ended a silence: a snapshot if the read was the first, or if the silence stands
        out of those before. Gives how long a silence may be without being told of here: where it
        would change nothing."""
        limit = self._limit
        if limit == 0:
            self._limit = QUIET
            self._first, self._due = got, got + TICK
            self.take("first", got, link and link.sock)
            return QUIET // 3
        # Three times the running mean of the silences, one of which moves it by 3/8 at most. In
        # plain steps: this is paid for by each read of a slow stream.
        aim = 3 * silence
        if aim > 4 * limit:
            aim = 4 * limit
        self._limit = moved = limit + ((aim - limit) >> 3)
        if silence > limit:
            self._gaps += 1
            if self._gaps <= GAPS or self._gaps & (self._gaps - 1) == 0:
                self._due = got + TICK
                self.take("gap", got, link and link.sock)
        elif got > self._due:
            self._due = got + max(TICK, (got - self._first) >> 6)
            self.take("tick", got, link and link.sock)
        if moved > QUIET:
            return BRIEF
        self._limit = QUIET
        return QUIET // 3

    def take(self, at: str, stamp: Ns, sock: Any) -> bytes | None:
        raw = sockets.tcp_info(sock)
        if raw is not None:
            self.taken.append((at, stamp, raw))
        return raw
