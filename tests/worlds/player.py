"""The same cases over real sockets: a server that plays a script against the clock.

Every step has its deadline, counted from the request's last byte, and every stamp is taken when it
happened: being late never adds up, and the truth is what was, not what was planned.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import NamedTuple

from latscope.sim.stamps import Sent
from latscope.sim.stamps import Stamps as Seen
from latscope.units import Ns, S
from tests.worlds.case import Case
from tests.worlds.path import Chunk, through_hop
from tests.worlds.server import Script, Stamps, Step, Writer, script
from tests.worlds.world import ends

HOP_HEADER = b"via: 1.1 hop\r\n"


class Cue(NamedTuple):
    """At `at` after the request: `stage` 0 token `number` exists, 1 step `number` is made, 2 what
    was made up to and with step `number` leaves."""

    at: Ns
    stage: int
    number: int


@dataclass(slots=True, kw_only=True)
class Player:
    """One case being served. seen: what the server saw of the exchange, once it is over."""

    case: Case
    port: int = 0
    seen: Seen | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _request(reader)
            exchange = _Exchange(self.case, writer, perf_counter_ns())
            self.seen = exchange.seen
            await exchange.play()
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, which is what some cases are about
        finally:
            if self.seen is not None and self.seen.closed_ns is None:
                self.seen.closed_ns = perf_counter_ns()
            writer.close()
            self.over.set()


@asynccontextmanager
async def playing(case: Case) -> AsyncIterator[Player]:
    """A server on a free port of the loopback that plays the case to whoever asks."""
    player = Player(case=case)
    server = await asyncio.start_server(player.serve, "127.0.0.1", 0)
    player.port = server.sockets[0].getsockname()[1]
    async with server:
        yield player
        await player.over.wait()


async def _request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.partition(b":")[2]))


class _Exchange:
    """made: the bytes of each step so far; sent: how many steps of them have left."""

    def __init__(self, case: Case, writer: asyncio.StreamWriter, received: Ns) -> None:
        self.case = case
        self.writer = writer
        self.plan: Script = script(case)
        self.stamps = Stamps(received=received, queued=received, scheduled=None, tokens=[])
        self.made: list[bytes] = []
        self.sent = 0
        self.head_left = False
        self.words = Writer(case, self.plan.tokens)
        self.seen = Seen(
            id="w", scenario="world", api=case.api, stream=case.stream, received_ns=received
        )

    async def play(self) -> None:
        plan, seen = self.plan, self.seen
        await self._until(plan.queued)
        seen.queued_ns = self.stamps.queued = perf_counter_ns()
        if plan.scheduled is not None:
            await self._until(plan.scheduled)
            seen.scheduled_ns = self.stamps.scheduled = perf_counter_ns()
        for cue in cues(self.case, plan):
            await self._until(cue.at)
            if self.writer.transport.is_closing():
                raise ConnectionResetError
            (self._exists, self._make, self._leave)[cue.stage](cue.number)
        await self._end()

    async def _until(self, at: Ns) -> None:
        deadline = self.stamps.received + at
        while (left := deadline - perf_counter_ns()) > 0:
            await asyncio.sleep(left / S)

    def _exists(self, index: int) -> None:
        self.stamps.tokens.append(perf_counter_ns())
        self.seen.tokens = self.stamps.tokens

    def _make(self, index: int) -> None:
        step = self.plan.steps[index]
        self.made.append(self.words.write(step, self.stamps))
        found = ends(self.case, self.plan, self.made, upto=index + 1)
        self.seen.first_token_end, self.seen.terminal_end = (
            found["first_end"],
            found["terminal_end"],
        )
        if step.what == "emit" and self.seen.first_sent is None:
            self.seen.first_sent = step.first
        if step.what == "head" and not self.case.path.holds_head:
            self._head()

    def _leave(self, index: int) -> None:
        data = b"".join(self.made[self.sent : index + 1])
        start = sum(map(len, self.made[: self.sent]))
        self.sent = max(self.sent, index + 1)
        if not data:
            return
        self._head(len(data))
        self.seen.sends.append(Sent(perf_counter_ns(), start, start + len(data)))
        self.writer.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    @property
    def _chunked(self) -> bool:
        return self.case.stream and self.case.ending != "refused"

    def _head(self, length: int = 0) -> None:
        if self.head_left:
            return
        self.head_left = True
        status = self.case.status if self.case.ending == "refused" else 200
        size = b"transfer-encoding: chunked" if self._chunked else b"content-length: %d" % length
        kind = b"text/event-stream" if self._chunked else b"application/json"
        hop = HOP_HEADER if self.case.path.hop != "none" and self.case.path.announced else b""
        self.seen.status, self.seen.headers_ns = status, perf_counter_ns()
        self.writer.write(
            b"HTTP/1.1 %d -\r\nserver: uvicorn\r\ncontent-type: %b\r\n%b%b\r\n\r\n"
            % (status, kind, hop, size)
        )

    async def _end(self) -> None:
        if self.plan.drop is not None:
            await self._until(self.plan.drop)
        elif self._chunked:
            self.writer.write(b"0\r\n\r\n")
        self.seen.closed_ns = perf_counter_ns()
        with suppress(ConnectionError):
            await self.writer.drain()


def cues(case: Case, plan: Script) -> list[Cue]:
    """The plan in the order it is played; a hop lets whole steps pass, never parts of them."""
    left = plan.steps[-1].at if plan.drop is None and plan.steps else plan.drop or 0
    shown = next((token.at for token in plan.tokens if token.kind != "hidden"), None)
    numbered = [Chunk(step.at, index) for index, step in enumerate(plan.steps) if _says(step)]
    found = [Cue(token.at, 0, index) for index, token in enumerate(plan.tokens)]
    found += [Cue(step.at, 1, index) for index, step in enumerate(plan.steps)]
    found += [Cue(at, 2, index) for at, index in through_hop(case.path, numbered, left, shown)]
    return sorted(found)


def _says(step: Step) -> bool:
    return step.what != "head"
