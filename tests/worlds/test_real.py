"""A handful of the worlds over real sockets: captured, attributed, held against the stamps.

The truth is made of the server's own stamps, so a busy machine changes what is true, not whether
it is found. One thing is assumed of the machine, as the attribution does: that what is sent is
delivered within 25 ms. By how much it was later, the stamps say, and by so much the bounds give.
"""

import asyncio
from dataclasses import replace

import httpx2
import pytest

from latscope.attribution import attribute, check_laws
from latscope.capture.httpx2 import AsyncCaptureTransport
from latscope.recording import Recording
from latscope.sim.stamps import Stamps
from latscope.sim.truth import truth
from latscope.units import MS, Ns
from latscope.wire.body import decode_attempt
from tests.calls import PATHS
from tests.worlds.case import Case, Path, Server
from tests.worlds.check import ROUNDING, outside
from tests.worlds.player import playing
from tests.worlds.truth import Shares

QUICK = Server(frontend=1.0, queue=15.0, prefill=25.0, step=6.0, tokens=14)
ALLOWED: Ns = 25 * MS

CASES = {
    "plain": Case(server=QUICK),
    "by hand": Case(server=QUICK, literal=True),
    "completions": Case(server=QUICK, api="completions"),
    "responses": Case(server=QUICK, api="responses"),
    "messages": Case(server=QUICK, api="messages"),
    "in one body": Case(server=QUICK, stream=False),
    "times reported": Case(server=replace(QUICK, reports="vllm")),
    "llama's times": Case(server=replace(QUICK, reports="llama", headers="slot")),
    "uncounted": Case(server=replace(QUICK, usage=False, headers="token")),
    "early role": Case(server=replace(QUICK, role="early")),
    "queued": Case(server=replace(QUICK, queue=200.0)),
    "long prompt": Case(server=replace(QUICK, prefill=200.0, pings=30.0)),
    "paused": Case(server=replace(QUICK, pauses=((6, 150.0),))),
    "speculative": Case(server=replace(QUICK, burst=3, interval=2)),
    "hidden": Case(server=replace(QUICK, hidden=8)),
    "tools": Case(api="responses", server=replace(QUICK, tools=2, pauses=((2, 120.0),))),
    "time quantum": Case(server=QUICK, path=Path(hop="time", quantum_ms=40.0)),
    "all at the end": Case(server=QUICK, path=Path(hop="all", holds_head=True)),
    "late flush": Case(server=QUICK, path=Path(hop="late", quantum_ms=60.0)),
    "cut": Case(server=QUICK, ending="cut", at=9),
    "error": Case(server=QUICK, ending="error", at=9),
    "refused": Case(ending="refused", status=404),
}

STATUS = {"cut": "cut", "error": "error", "refused": "error"}


@pytest.mark.parametrize("name", CASES)
async def test_the_stamps_lie_in_the_bounds(name: str) -> None:
    """Laws, verdict, and every segment of the wall and of TTFT, on real stamps."""
    recording, stamps = await played(CASES[name])
    found = attribute(recording)
    check_laws(found)
    assert found.status == STATUS.get(name, "complete")
    was = truth(stamps, recording)
    slack = ROUNDING + max(0, lateness(recording, stamps) - ALLOWED)
    wrong = list(outside(found.pieces, shares(was.segments), "wall", slack))
    if was.ttft is not None:
        assert found.ttft_pieces is not None
        wrong += outside(found.ttft_pieces, shares(was.ttft), "ttft", slack)
    assert not wrong
    assert (found.first_token_ns is None) == (was.ttft is None)


async def played(case: Case) -> tuple[Recording, Stamps]:
    """The call as captured, and what the server saw of it."""
    kept: list[Recording] = []
    async with playing(case) as player:
        transport = AsyncCaptureTransport(done=kept.append)
        async with httpx2.AsyncClient(transport=transport) as client:
            body = {"model": "tiny", "stream": case.stream, "messages": []}
            url = f"http://127.0.0.1:{player.port}{PATHS[case.api]}"
            try:
                async with client.stream("POST", url, json=body) as response:
                    async for _ in response.aiter_raw():
                        pass
            except httpx2.RemoteProtocolError:
                assert case.ending == "cut"
        async with asyncio.timeout(20):
            await player.over.wait()
    (call,) = kept
    assert player.seen is not None
    attempts = tuple(decode_attempt(attempt)[0] for attempt in call.attempts)
    return replace(call, attempts=attempts), player.seen


def shares(parts: object) -> Shares:
    assert isinstance(parts, tuple)
    return {part.name: part.ns for part in parts if part.name != "unattributed"}


def lateness(recording: Recording, stamps: Stamps) -> Ns:
    """What delivery took at most: the request's, and the slowest send's."""
    assert recording.clock is not None
    zero, attempt = recording.clock.zero_ns, recording.attempts[-1]
    written = attempt.mark("request.headers")
    assert written is not None
    there = stamps.received_ns - zero - written
    back = [
        next(read.got_ns for read in attempt.reads if read.body_offset >= sent.stop)
        - (sent.ns - zero)
        for sent in stamps.sends
    ]
    return there + max(back)
