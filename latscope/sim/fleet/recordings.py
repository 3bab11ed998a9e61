"""Calls of a run as a client would have recorded them, the truth attached.

One client beside the network path: its request takes half a round trip to the server, every token
half of one back, nothing is lost or held. The stream is a chat answer as vLLM sends it: role and
first token in one chunk's read, then a token a read, the last with the finish reason, usage and
[DONE]. The truth is laid on the recording by the rules of sim/truth.py; the estimator gets reads
and marks only, unless it is given the engine's own figures (`metrics`), as real vLLM can send them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random

from latscope.protocols.dialect import Encoder, Piece, Reply
from latscope.protocols.openai_chat import encoder
from latscope.recording import (
    Attempt,
    Clock,
    Connection,
    Mark,
    Read,
    Recording,
    Target,
    TcpInfo,
)
from latscope.sim.answer import usage, vllm_metrics
from latscope.sim.engine import WORDS
from latscope.sim.fleet.engine import Run
from latscope.sim.stamps import Stamps
from latscope.sim.truth import truth
from latscope.units import US, Ns, S

SOURCE = "latscope sim fleet: the simulation's own clock"
MODEL = "fleet"
BEGIN: Ns = 1000 * S
"""The clock's reading at the start of the run; a client's zero lies before its call's arrival."""
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
SEND: Ns = 100 * US
"""A client's own time before its transport begins."""
WRITE: Ns = 40 * US
"""Until the request is written."""
TURN: Ns = 20 * US
"""Between a read and the next, and from the last to the end of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """rtt_ns: round trip between client and server; jitter_ns: mean of what each token's way back
    takes on top of it (exponential, in order, drawn by the call's name); metrics: whether the
    server states its own queue, prefill and decode time, as vLLM does with
    --enable-per-request-metrics."""

    rtt_ns: Ns = 0
    jitter_ns: Ns = 0
    metrics: bool = False


def sampled(calls: int, count: int, seed: int) -> list[int]:
    """Numbers of `count` calls of a run of `calls` (all, when it has no more), in order."""
    return sorted(Random(f"{seed}:recordings").sample(range(calls), min(count, calls)))


def recordings(run: Run, path: Path) -> Iterator[Recording]:
    """The calls whose tokens the run has traced, in order."""
    for number in run.traced:
        yield recording(run, number, path)


def recording(run: Run, number: int, path: Path) -> Recording:
    stamps, call = _stamps(run, number), run.traced[number]
    there, back = path.rtt_ns // 2, path.rtt_ns - path.rtt_ns // 2
    zero = stamps.received_ns - there - WRITE - SEND
    headers = SEND + WRITE + there + back
    reason = "length" if call.output == call.cap else "stop"
    body, reads = _answer(stamps, path, reason, first_asked=headers + TURN, shift=back - zero)
    made = Recording(
        call_id=stamps.id,
        started_at=_wall_clock(zero),
        target=Target(scheme="http", host="fleet.internal", port=8000, path="/v1/chat/completions"),
        marks=(Mark("entry", 0), Mark("end", reads[-1].got_ns + TURN)),
        attempts=(
            Attempt(
                marks=_marks(headers, reads[-1].got_ns),
                connection=CONNECTION,
                status=200,
                headers=HEADERS,
                reads=reads,
                body=body,
                tcp_info=(TcpInfo(at="headers", rtt_ns=path.rtt_ns, min_rtt_ns=path.rtt_ns),),
            ),
        ),
        tags={"engine": "latscope-fleet", "replica": str(run.table.replica[number])},
        request={
            "model": MODEL,
            "max_tokens": call.cap,
            "stream": True,
            "stream_options": {"include_usage": True},
        },
        clock=Clock(name="simulated", zero_ns=zero),
    )
    return replace(made, truth=replace(truth(stamps, made), source=SOURCE))


CONNECTION = Connection(id=1, reused=True, http="HTTP/1.1", tls=False, peer="10.0.0.1:8000")
HEADERS = (
    ("server", "uvicorn"),
    ("content-type", "text/event-stream; charset=utf-8"),
    ("transfer-encoding", "chunked"),
)


def _wall_clock(ns: Ns) -> str:
    at = STARTED + timedelta(microseconds=(ns - BEGIN) // US)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _stamps(run: Run, number: int) -> Stamps:
    """The engine's stamps of the call, as the embedded server would have taken them."""
    table = run.table
    arrival = BEGIN + table.arrival_ns[number]
    tokens = [BEGIN + at for at in run.tokens[number]]
    return Stamps(
        id=f"fleet-{number:08d}",
        scenario="fleet",
        api="chat",
        stream=True,
        status=200,
        received_ns=arrival,
        queued_ns=arrival,
        scheduled_ns=BEGIN + table.scheduled_ns[number],
        tokens=tokens,
        first_sent=0,
        closed_ns=tokens[-1],
        prompt_tokens=table.prompt_tokens[number],
        cached_tokens=table.cached_tokens[number],
    )


def _answer(
    stamps: Stamps, path: Path, reason: str, *, first_asked: Ns, shift: Ns
) -> tuple[bytes, tuple[Read, ...]]:
    """The body and its reads; where the first token and the end lie in it goes into `stamps`.
    shift: from a token's existence to its read on the call's axis."""
    write = encoder(Reply(id=stamps.id, model=MODEL, created=int(STARTED.timestamp())))
    body = bytearray()
    reads: list[Read] = []
    asked = first_asked
    dice = Random(f"{stamps.id}:jitter")
    for index, at in enumerate(stamps.tokens):
        before = len(body)
        if index == 0:
            body += write.start()
        body += write.piece(Piece(channel="content", text=_word(index)))
        if index == 0:
            stamps.first_token_end = len(body)
        if index == len(stamps.tokens) - 1:
            body += _tail(write, stamps, path, reason)
            stamps.terminal_end = len(body)
        late = round(dice.expovariate(1 / path.jitter_ns)) if path.jitter_ns else 0
        got = max(at + shift + late, asked if reads else 0)
        reads.append(Read(min(asked, got), got, len(body) - before, len(body)))
        asked = got + TURN
    return bytes(body), tuple(reads)


def _tail(write: Encoder, stamps: Stamps, path: Path, reason: str) -> bytes:
    metrics = vllm_metrics(stamps) if path.metrics else None
    return write.finish(reason) + write.close(usage(stamps), metrics) + write.done()


def _word(index: int) -> str:
    word = WORDS[index % len(WORDS)]
    return f" {word}" if index else word


def _marks(headers: Ns, last: Ns) -> tuple[Mark, ...]:
    return (
        Mark("entry", SEND // 2),
        Mark("request.started", SEND),
        Mark("request.headers", SEND + WRITE // 2),
        Mark("request.sent", SEND + WRITE),
        Mark("headers", headers),
        Mark("body.end", last),
        Mark("closed", last + TURN),
    )
