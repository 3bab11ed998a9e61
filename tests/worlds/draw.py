"""Worlds drawn at random, for hypothesis: any feature, any size, within what a case can say."""

from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.worlds.case import Case, Client, Ending, Failed, Hop, Path, Server
from tests.worlds.findings import beyond, shortcomings
from tests.worlds.grid import sensible
from tests.worlds.world import World, build

Draw = st.DrawFn


def ms(low: float, high: float) -> st.SearchStrategy[float]:
    """Milliseconds, to the microsecond."""
    return st.integers(round(low * 1000), round(high * 1000)).map(lambda us: us / 1000)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


SERVERS = st.builds(
    Server,
    frontend=ms(0, 300),
    queue=ms(0, 900),
    prefill=ms(1, 900),
    step=ms(2, 60),
    jitter=st.sampled_from([0.0, 0.3, 0.9]),
    tokens=st.integers(1, 24),
    burst=st.integers(1, 4),
    interval=st.integers(1, 5),
    hidden=st.just(0) | st.integers(1, 10),
    reasoning=st.just(0) | st.integers(1, 6),
    tools=st.just(0) | st.integers(1, 3),
    pauses=st.lists(st.tuples(st.integers(1, 20), ms(50, 900)), max_size=2).map(tuple),
    tail=ms(0, 8),
    headers=st.sampled_from(["early", "slot", "token"]),
    role=st.sampled_from(["early", "first"]),
    pings=maybe(ms(10, 200)),
    usage=st.booleans(),
    reports=st.sampled_from(["none", "vllm", "llama"]),
)

HOPS: tuple[Hop, ...] = ("none", "pass", "time", "bytes", "all", "cork", "late")

PATHS = st.builds(
    Path,
    rtt=ms(0.02, 0.2) | ms(1, 90),
    known=st.booleans(),
    delivery=ms(0, 20),
    stalls=st.lists(st.tuples(st.integers(-2, 12), ms(20, 400)), max_size=1).map(
        tuple
    ),  # a fault at a time
    hop=st.sampled_from(HOPS),
    quantum_ms=ms(30, 400),
    quantum_bytes=st.integers(64, 9000),
    announced=st.booleans(),
    far=st.booleans(),
    holds_head=st.booleans(),
)

CLIENTS = st.builds(
    Client,
    pool=ms(0.1, 60),
    connect=maybe(ms(0.1, 40)),
    tls=maybe(ms(1, 60)),
    upload=ms(0, 80),
    late_stamp=ms(0, 20),
    body=st.sampled_from([None, 900, 3_000_000]),
    consumer=st.just(0.0) | ms(2, 120),
    coalesce=st.booleans(),
)

TRIES = st.builds(
    Failed,
    status=st.sampled_from([None, 408, 409, 429, 500, 503, 529]),
    pool=ms(0, 20),
    took=ms(0.1, 300),
    sleep=ms(0, 400),
    retry_after=maybe(ms(0, 0.5)),
)

ENDINGS: tuple[Ending, ...] = (
    "complete",
    "complete",
    "no_done",
    "cut",
    "error",
    "cancelled",
    "timeout",
    "refused",
)


@st.composite
def worlds(draw: Draw, /, *, path: st.SearchStrategy[Path] = PATHS, **fixed: Any) -> World:
    """Any world of no known shortcoming. fixed: fields of the case that are not drawn."""
    ending = fixed.get("ending") or draw(st.sampled_from(ENDINGS))
    case = Case(
        api=draw(st.sampled_from(["chat", "completions", "responses", "messages"])),
        stream=fixed.get("stream", draw(st.booleans() | st.just(True))),
        literal=draw(st.booleans()),
        server=draw(fixed.get("server", SERVERS)),
        path=draw(path),
        client=draw(fixed.get("client", CLIENTS)),
        retries=tuple(draw(st.lists(TRIES, max_size=2))),
        ending=ending,
        at=draw(_moments(ending)),
        status=draw(st.sampled_from([400, 401, 404, 422])),
        seed=draw(st.integers(0, 1 << 20)),
    )
    assume(sensible(case))
    world = build(case)
    assume(not beyond(world) and not shortcomings(world))
    return world


def _moments(ending: Ending) -> st.SearchStrategy[float]:
    if ending in ("cut", "error"):
        return st.integers(0, 20).map(float)
    return ms(-1, 1500) if ending == "cancelled" else ms(5, 1500)
