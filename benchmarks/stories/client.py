"""Our side: connections, the event loop, the code that reads; and the recordings that come of it.

A call's request leaves when a connection is free and the loop has time; bytes are read when they
are there, the loop is not busy, and the consumer has asked for them. The recording holds what
`latscope.instrument` would have kept: marks, reads, bodies, the request's skeleton and prefix
hashes, how late the loop was and how long the consumer held the stream.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import pairwise
from random import Random
from typing import Any

from benchmarks.stories.service import REFUSING, Refusal, Served, served
from benchmarks.stories.traffic import Ask, Part, asks
from benchmarks.stories.way import Chunk, arrivals
from benchmarks.stories.world import World
from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.mask.request import skeleton
from latscope.protocols.openai_chat import encoder
from latscope.protocols.prefix import prefix
from latscope.recording import (
    Attempt,
    ClientSide,
    Connection,
    End,
    Mark,
    Read,
    Recording,
    Target,
    TcpInfo,
)
from latscope.sim.answer import usage, vllm_metrics
from latscope.sim.engine import WORDS
from latscope.sim.stamps import Stamps
from latscope.units import MS, US, Ns, S

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
KEY = b"stories"
SEND, WRITE, TURN, READ = 80 * US, 40 * US, 20 * US, 15 * US
"""Before the request, writing it, between two reads, and handing over bytes that were there."""
KEPT: Ns = 60 * S
"""How long an idle connection is kept."""
TYPICAL: Ns = 2 * S
"""A call's length, for who finds a connection free, where the pool has no limit."""
LATE: Ns = 5 * MS
"""A loop's lateness below this is not noted."""
BLOCKS_MS = (120.0, 450.0)
SOME_ID = b"chatcmpl-an-id"
LETTERS = "".join(chr(97 + byte % 26) for byte in blake2b(b"text", digest_size=64).digest() * 3000)
BYTES_A_TOKEN = 4


def week(world: World, file: str) -> list[Recording]:
    """The recordings of one file of a world, in order. file: its name, which seeds its dice."""
    seed = f"{world.seed}:{world.setting}:{file}"
    ours = asks(world, Random(f"{seed}:asks"))
    busy = _Loop(_blocks(world, ours, Random(f"{seed}:loop")))
    starts = [busy.free(ask.at_ns) for ask in ours]
    lengths = [TYPICAL] * len(ours)
    if world.pool:
        lengths = _lengths(world, ours, starts, seed)
    slots = _slots(world, starts, lengths)
    sent = [_reaches(world, slot) for slot in slots]
    order = sorted(range(len(ours)), key=sent.__getitem__)
    outcome = served(world, [(sent[i], ours[i]) for i in order], seed)
    by_call = dict(zip(order, outcome, strict=True))
    made = [
        _recording(world, by_call[i], starts[i], slots[i], busy, f"{seed}:{i}")
        for i in range(len(ours))
    ]
    return _in_flight(made, starts)


# -- connections -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """When a call's transport begins, on which connection, and whether that was there already."""

    at_ns: Ns
    connection: int
    reused: bool


def _lengths(world: World, ours: Sequence[Ask], starts: Sequence[Ns], seed: str) -> list[Ns]:
    """How long each call would hold a connection, were there enough of them."""
    order = sorted(range(len(ours)), key=starts.__getitem__)
    outcome = served(world, [(starts[i], ours[i]) for i in order], seed)
    return [
        (one.tokens[-1] - one.arrived_ns if one.tokens else 0) + round(2 * world.rtt_ms * MS)
        for _, one in sorted(zip(order, outcome, strict=True))
    ]


def _slots(world: World, starts: Sequence[Ns], lengths: Sequence[Ns]) -> list[Slot]:
    """The latest used idle connection, else a new one, else a place in the line."""
    order = sorted(range(len(starts)), key=starts.__getitem__)
    found: dict[int, Slot] = {}
    idle: list[tuple[Ns, int]] = []
    running: list[tuple[Ns, int]] = []
    made = 0
    for i in order:
        at = starts[i]
        if world.pool and len(running) >= world.pool and running[0][0] > at:
            at = running[0][0]
        while running and running[0][0] <= at:
            idle.append(heappop(running))
        idle = [(since, name) for since, name in idle if at - since <= KEPT]
        if idle:
            name, reused = max(idle)[1], True
            idle.remove(max(idle))
        else:
            made += 1
            name, reused = made, False
        found[i] = Slot(at, name, reused)
        heappush(running, (at + lengths[i], name))
    return [found[i] for i in range(len(starts))]


def _connect_ns(world: World, slot: Slot) -> Ns:
    trips = 0 if slot.reused else 1 + world.vendor
    return round(trips * world.rtt_ms * MS)


def _reaches(world: World, slot: Slot) -> Ns:
    """When the request's last byte reaches the server."""
    return slot.at_ns + SEND + _connect_ns(world, slot) + WRITE + round(world.rtt_ms * MS / 2)


# -- the loop --------------------------------------------------------------------------------------


class _Loop:
    """When the event loop was busy with something else: stretches (begin, end) in order."""

    def __init__(self, blocks: Sequence[tuple[Ns, Ns]]) -> None:
        self.blocks = blocks
        self.begins = [begin for begin, _ in blocks]

    def free(self, at: Ns) -> Ns:
        """`at`, or the end of the block it falls into."""
        i = bisect_right(self.begins, at) - 1
        return max(at, self.blocks[i][1]) if i >= 0 else at

    def between(self, begin: Ns, end: Ns) -> Iterator[tuple[Ns, Ns]]:
        first = max(0, bisect_left(self.begins, begin) - 1)
        for start, stop in self.blocks[first:]:
            if start >= end:
                return
            if stop > begin:
                yield max(start, begin), min(stop, end)


def _blocks(world: World, ours: Sequence[Ask], dice: Random) -> list[tuple[Ns, Ns]]:
    """Around our calls, stretches of blocking work that add up to the wanted share."""
    if not world.blocked:
        return []
    found: list[tuple[Ns, Ns]] = []
    mean = sum(BLOCKS_MS) / 2 * MS
    until = 0
    for ask in ours:
        at = max(until, ask.at_ns - 2 * S)
        until = ask.at_ns + 8 * S
        while at < until:
            at += round(dice.expovariate(1.0) * mean * (1 - world.blocked) / world.blocked)
            took = round(dice.uniform(*BLOCKS_MS) * MS)
            found.append((at, at + took))
            at += took
    return found


# -- the recording ---------------------------------------------------------------------------------


def _recording(
    world: World, one: Served, start: Ns, slot: Slot, busy: _Loop, name: str
) -> Recording:
    """Times in it count from the call's zero, `start` in the week."""
    ask = one.ask
    dice = Random(f"{name}:way")
    attempts, at = _refused(world, one, start, slot, busy)
    if one.tokens:
        attempts.append(
            _answered(world, one, at, start, slot if not attempts else None, busy, dice, name)
        )
    end_ns = (
        max(attempts[-1].marks[-1].ns, *(read.got_ns for read in attempts[-1].reads[-1:])) + TURN
    )
    host = "api.openai.com" if world.vendor else "vllm.internal"
    request = _request(world, ask)
    return Recording(
        call_id=blake2b(name.encode(), digest_size=16).hexdigest(),
        started_at=_wall(start),
        target=Target(
            scheme="https" if world.vendor else "http",
            host=host,
            port=443 if world.vendor else 8000,
            path="/v1/chat/completions",
        ),
        end=End() if one.tokens else End(reason="error", detail=_error(one)),
        marks=(Mark("entry", 0), Mark("end", end_ns)),
        attempts=tuple(attempts),
        tags={"app": "summaries" if ask.job else "assistant"},
        session=ask.session,
        turn=None if ask.session is None else f"{ask.session}:{ask.turn}",
        request_bytes=BYTES_A_TOKEN * ask.prompt + 400,
        request=skeleton(request),
        prefix=prefix(request, "chat", KEY),
        client=_client_side(world, attempts, start, start + end_ns, busy),
        masked=True,
    )


def _error(one: Served) -> str:
    status = one.refusals[-1].status
    return "openai.RateLimitError" if status == 429 else "openai.InternalServerError"


def _wall(ns: Ns) -> str:
    return (MONDAY + timedelta(microseconds=ns // US)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _refused(
    world: World, one: Served, start: Ns, slot: Slot, busy: _Loop
) -> tuple[list[Attempt], Ns]:
    """The attempts that were refused, and when the next one's transport begins in the week."""
    found: list[Attempt] = []
    at = slot.at_ns
    for number, refusal in enumerate(one.refusals):
        entry = start if not number else at
        first = slot if not number else None
        answered = busy.free(refusal.at_ns + REFUSING + round(world.rtt_ms * MS / 2))
        marks, _ = _sent(world, entry, at, start, first)
        left = one.left[number] if number < len(one.left) else 0.0
        body = json.dumps({"error": {"type": "refused", "message": ""}}).encode()
        got = answered - start
        found.append(
            Attempt(
                marks=(*marks, Mark("headers", got - TURN), Mark("body.end", got)),
                connection=_connection(world, slot, reused=first is None or slot.reused),
                status=refusal.status,
                headers=(*_headers(world, left, "application/json"), *_asked(refusal)),
                reads=(Read(got - TURN, got, len(body), len(body)),),
                body=body,
                tcp_info=_tcp(world),
            )
        )
        at = _next(one, number, answered, world)
    return found, at


def _next(one: Served, number: int, answered: Ns, world: World) -> Ns:
    """When the attempt after number `number` began: its arrival is known from the gate."""
    upto = SEND + WRITE + round(world.rtt_ms * MS / 2)
    if number + 1 < len(one.refusals):
        return max(answered, one.refusals[number + 1].at_ns - upto)
    return max(answered, one.through_ns - upto)


def _asked(refusal: Refusal) -> tuple[tuple[str, str], ...]:
    return () if refusal.wait_s is None else (("retry-after", str(refusal.wait_s)),)


def _sent(
    world: World, entry: Ns, at: Ns, start: Ns, slot: Slot | None
) -> tuple[tuple[Mark, ...], Ns]:
    """The marks up to the request's last byte, which is the second. slot: of a first attempt."""
    marks = [Mark("entry", entry - start)]
    now = at - start + SEND
    if slot is not None and not slot.reused:
        trip = round(world.rtt_ms * MS)
        marks += [Mark("connect.started", now), Mark("connect.complete", now + trip)]
        now += trip
        if world.vendor:
            marks += [Mark("tls.started", now), Mark("tls.complete", now + trip)]
            now += trip
    marks += [Mark("request.started", now), Mark("request.headers", now + WRITE // 2)]
    marks.append(Mark("request.sent", now + WRITE))
    return tuple(marks), now + WRITE


def _connection(world: World, slot: Slot, *, reused: bool) -> Connection:
    peer = "104.18.7.192:443" if world.vendor else "10.0.0.7:8000"
    if not world.vendor and world.buffer != "none":
        peer = "10.0.0.2:8000"
    return Connection(
        id=slot.connection, reused=reused, http="HTTP/1.1", tls=world.vendor, peer=peer
    )


def _headers(world: World, left: float, kind: str) -> tuple[tuple[str, str], ...]:
    found = [("content-type", kind)]
    if world.buffer != "none":
        found += [("server", "nginx/1.22.1"), ("via", "1.1 gateway")]
    elif world.edge:
        found += [("server", "cloudflare"), ("cf-ray", "8e1f00d3cafe-FRA")]
    elif not world.vendor:
        found.append(("server", "uvicorn"))
    if world.vendor:
        limit = 200_000
        found += [
            ("x-ratelimit-limit-tokens", str(limit)),
            ("x-ratelimit-remaining-tokens", str(round(limit * left))),
        ]
    return tuple(found)


def _tcp(world: World) -> tuple[TcpInfo, ...]:
    rtt = round(world.rtt_ms * MS)
    return (
        TcpInfo(at="headers", rtt_ns=rtt, rttvar_ns=round(world.jitter_ms * MS), min_rtt_ns=rtt),
    )


def _answered(
    world: World,
    one: Served,
    at: Ns,
    start: Ns,
    first: Slot | None,
    busy: _Loop,
    dice: Random,
    name: str,
) -> Attempt:
    """The attempt that was answered. at: when its transport began; first: where it is the first."""
    entry = start if first is not None else at
    marks, _ = _sent(world, entry, at, start, first)
    body, sends = _body(world, one, name)
    came = arrivals(world, sends, dice)
    head = came[0].at
    if world.early and world.buffer == "none":
        head = min(head, one.arrived_ns + round((world.rtt_ms / 2 + world.jitter_ms) * MS))
    headers = busy.free(head)
    reads = tuple(_reads(world, came, headers + TURN, busy))
    shifted = tuple(
        Read(asked - start, got - start, wire, stop) for asked, got, wire, stop in reads
    )
    last = shifted[-1].got_ns
    slot = first or Slot(at, 1, reused=True)
    return Attempt(
        marks=(
            *marks,
            Mark("headers", headers - start),
            Mark("body.end", last),
            Mark("closed", last + TURN),
        ),
        connection=_connection(world, slot, reused=slot.reused),
        status=200,
        headers=_headers(
            world, one.left[-1] if one.left else 1.0, "text/event-stream; charset=utf-8"
        ),
        reads=shifted,
        body=body,
        tcp_info=_tcp(world),
    )


def _body(world: World, one: Served, name: str) -> tuple[bytes, list[Chunk]]:
    """The answer as vLLM or OpenAI write it, and when each token's frame leaves the server."""
    reply = Reply(
        id=f"chatcmpl-{blake2b(name.encode(), digest_size=8).hexdigest()}", model=one.ask.model
    )
    write = encoder(reply)
    stamps = Stamps(
        id=reply.id,
        scenario="story",
        api="chat",
        stream=True,
        received_ns=one.arrived_ns,
        queued_ns=one.arrived_ns,
        scheduled_ns=one.scheduled_ns,
        tokens=list(one.tokens),
        first_sent=0,
        prompt_tokens=one.ask.prompt,
        cached_tokens=one.cached,
    )
    body = bytearray(write.start())
    sends: list[Chunk] = []
    for index, at in enumerate(one.tokens):
        word = WORDS[index % len(WORDS)]
        frame = _frame(reply.model, f" {word}" if index else word)
        body += frame.replace(SOME_ID, reply.id.encode())
        if index == len(one.tokens) - 1:
            reason = "length" if one.ask.output >= one.ask.cap else "stop"
            metrics = vllm_metrics(stamps) if world.states else None
            body += write.finish(reason) + write.close(usage(stamps), metrics) + write.done()
        sends.append(Chunk(at, len(body)))
    return bytes(body), sends


@cache
def _frame(model: str, text: str) -> bytes:
    """A token's frame, with SOME_ID in it: the same in every answer but for that."""
    write = encoder(Reply(id=SOME_ID.decode(), model=model))
    write.start()
    return write.piece(Piece(channel="content", text=text))


def _reads(world: World, came: Sequence[Chunk], asked: Ns, busy: _Loop) -> Iterator[Read]:
    """What the reader gets when it asks: all that is there, or the next that comes."""
    held = round(world.consumer_ms * MS)
    i, before = 0, 0
    while i < len(came):
        got, first = busy.free(max(came[i].at, asked + READ)), i
        while i + 1 < len(came) and came[i + 1].at <= got:
            i += 1
        stop = came[i].stop
        yield Read(asked, got, stop - before, stop)
        asked = got + TURN + held * (i + 1 - first)
        before, i = stop, i + 1


def _client_side(
    world: World, attempts: Sequence[Attempt], start: Ns, end: Ns, busy: _Loop
) -> ClientSide:
    lag = [(begin - start, stop - begin) for begin, stop in busy.between(start, end)]
    held: list[tuple[Ns, Ns]] = []
    if world.consumer_ms:
        reads = attempts[-1].reads
        held = [(a.got_ns, b.asked_ns - a.got_ns) for a, b in pairwise(reads)]
    return ClientSide(
        loop_lag=tuple(row for row in lag if row[1] >= LATE), consumer=tuple(held[:256])
    )


def _in_flight(made: Sequence[Recording], starts: Sequence[Ns]) -> list[Recording]:
    """Each with how many others were open at its zero; in order of their zeros."""
    open_until: list[Ns] = []
    found = []
    for i in sorted(range(len(made)), key=starts.__getitem__):
        open_until = [end for end in open_until if end > starts[i]]
        found.append(replace(made[i], in_flight=len(open_until)))
        open_until.append(starts[i] + made[i].last_ns)
    return found


# -- the request -----------------------------------------------------------------------------------


def _request(world: World, ask: Ask) -> dict[str, Any]:
    messages = [
        {"role": part.role, "content": _text(part)} for part in ask.parts if part.role != "tools"
    ]
    request: dict[str, Any] = {
        "model": ask.model,
        "messages": messages,
        "max_tokens": ask.cap,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    tools = [part for part in ask.parts if part.role == "tools"]
    if tools:
        parameters = {"type": "object", "description": _text(tools[0])}
        request["tools"] = [
            {"type": "function", "function": {"name": "search", "parameters": parameters}}
        ]
    return request


def _text(part: Part) -> str:
    return "".join(_drawn_text(key, tokens) for key, tokens in part.texts)


@cache
def _offset(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(), digest_size=4).digest()) % (len(LETTERS) // 3)


def _drawn_text(key: str, tokens: int) -> str:
    size = BYTES_A_TOKEN * tokens
    begin = _offset(key)
    mark = f"{_offset(key + ':mark'):08x}"
    text = LETTERS[begin : begin + size]
    while len(text) < size:
        text += LETTERS
    return (mark + text)[:size]
