"""What makes a world: the features of a server, a path and a client, in milliseconds.

A case is what a test writes down or draws; `world.build` turns it into instants. Every field has a
default, so a case states only what is special about it.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from latscope.protocols.dialect import Api
from latscope.units import MS, Ns

Ending: TypeAlias = Literal[
    "complete",
    "no_done",  # chat: every choice has its finish reason, then the body ends without [DONE]
    "cut",  # the connection drops
    "error",  # an error object in the open stream
    "cancelled",  # the caller stops
    "timeout",  # the caller gives up reading
    "refused",  # an HTTP error instead of an answer
]

Hop: TypeAlias = Literal[
    "none",
    "pass",  # a hop that lets everything through at once
    "time",  # passes on every `quantum_ms`
    "bytes",  # passes on blocks of `quantum_bytes`
    "all",  # keeps the answer to its end
    "cork",  # haproxy without `option http-no-delay`: the first chunk late, then bursts
    "late",  # nothing passes for `quantum_ms` from the first token on
]

CORK_FIRST, CORK_NEXT = 207.0, 224.0
"""haproxy 2.6 over HTTP/1.1, in ms: how long its first chunk waits, and each burst after it."""


def ns(ms: float) -> Ns:
    return round(ms * MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """frontend, queue: received -> queued -> scheduled; prefill: -> first token; step: between two
    engine steps, times a factor even in [1 - jitter, 1 + jitter]; burst: tokens an accepted step
    makes (speculative decoding); interval: tokens collected into one event after the first.
    hidden, reasoning, tools, tokens: how many of each channel, in that order. pauses: (after how
    many tokens, how long) decode stands still, be it a preemption or a server-side tool loop.
    tail: last token -> terminal event; holds: (token, how long) the server keeps what it made."""

    frontend: float = 2.0
    queue: float = 40.0
    prefill: float = 60.0
    step: float = 12.0
    jitter: float = 0.2
    tokens: int = 12
    burst: int = 1
    interval: int = 1
    hidden: int = 0
    reasoning: int = 0
    tools: int = 0
    pauses: tuple[tuple[int, float], ...] = ()
    tail: float = 0.5
    headers: Literal["early", "slot", "token"] = "early"
    role: Literal["early", "first"] = "first"
    pings: float | None = None
    usage: bool = True
    reports: Literal["none", "vllm", "llama"] = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """rtt: round trip to the server, of which the kernel knows it when `known`; delivery: most that
    is late beyond it, half of it on the way there, half of it on the way back; there: how much
    later still the request is. stalls: (chunk, how long) a lost segment keeps it and all behind
    it, counted from the one with the first token, or back from the end. hop: what stands between;
    announced: the response's headers say so; far: the peer is no private address; holds_head: the
    hop keeps the response's head until the first byte of body."""

    rtt: float = 0.1
    known: bool = True
    delivery: float = 2.0
    there: float = 0.0
    stalls: tuple[tuple[int, float], ...] = ()
    hop: Hop = "none"
    quantum_ms: float = 100.0
    quantum_bytes: int = 4096
    announced: bool = True
    far: bool = False
    holds_head: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """pool: wait before the first transport event; connect, tls: null on a reused connection;
    upload: headers written -> the kernel has the body; late_stamp: how much later than that the
    client says so; body: request bytes. consumer: pause before each read, the first included;
    coalesce: a read takes all that is there, not one chunk of it."""

    pool: float = 0.5
    connect: float | None = 0.6
    tls: float | None = None
    upload: float = 0.2
    late_stamp: float = 0.0
    body: int | None = 900
    consumer: float = 0.0
    coalesce: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An attempt before the answered one: it took so long, then the client slept. status: null
    when there was no response, and then no retry_after: what the server asked for, in seconds."""

    status: int | None = 429
    pool: float = 0.3
    took: float = 30.0
    sleep: float = 80.0
    retry_after: float | None = None
    error: str = "httpx2.ConnectError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """api, stream: what is asked; literal: chat in JSON written by hand, not by latscope's encoder.
    at: how the ending's moment is said: `cut`, `error`: after so many tokens exist; `cancelled`,
    `timeout`: so many ms after the request was sent; status: of a refusal."""

    api: Api = "chat"
    stream: bool = True
    literal: bool = False
    server: Server = field(default_factory=Server)
    path: Path = field(default_factory=Path)
    client: Client = field(default_factory=Client)
    retries: tuple[Failed, ...] = ()
    ending: Ending = "complete"
    at: float = 0.0
    status: int = 400
    seed: int = 0
