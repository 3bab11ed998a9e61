"""The truth lies inside the hard bounds, for any world of the kinds the estimator claims to cover.

The worlds are those of `tests.worlds`, where the grid is; here are the claims in their plain form,
and that no bytes whatever break the laws.
"""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.calls import attempt, attributed, call, sse
from tests.worlds import truth
from tests.worlds.case import Client, Path, Server
from tests.worlds.check import attributed as attributed_world
from tests.worlds.check import outside
from tests.worlds.draw import ms, worlds
from tests.worlds.world import World

SERVERS = st.builds(
    Server,
    queue=ms(0, 900),
    prefill=ms(1, 900),
    step=ms(2, 60),
    jitter=st.just(0.3),
    tokens=st.integers(2, 40),
    pauses=st.lists(st.tuples(st.integers(2, 40), ms(100, 900)), max_size=1).map(tuple),
    tail=ms(0, 3),
    usage=st.booleans(),
    reports=st.sampled_from(["none", "vllm"]),
)
CLIENTS = st.builds(Client, pool=ms(0.1, 30), connect=ms(0.1, 40))
DIRECT = st.builds(Path, rtt=ms(0.02, 0.2), delivery=ms(0, 20))
BY_TIME = st.builds(
    Path, rtt=ms(0.02, 0.2), delivery=ms(0, 20), hop=st.just("time"), quantum_ms=ms(20, 400)
)

plainly = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def assert_inside(world: World) -> None:
    """Each true segment within its bounds, of the whole call and of its time to first token."""
    found = attributed_world(world)
    first = truth.to_first_token(world)
    assert first is not None
    assert found.ttft_pieces is not None
    assert list(outside(found.pieces, truth.segments(world), "wall")) == []
    assert list(outside(found.ttft_pieces, first, "ttft")) == []


@plainly
@given(worlds(path=DIRECT, server=SERVERS, client=CLIENTS, stream=True, ending="complete"))
def test_on_a_direct_path(world: World) -> None:
    assert_inside(world)


@plainly
@given(worlds(path=BY_TIME, server=SERVERS, client=CLIENTS, stream=True, ending="complete"))
def test_behind_a_hop_that_flushes_by_time(world: World) -> None:
    assert_inside(world)


@plainly
@given(worlds(path=DIRECT, server=SERVERS, client=CLIENTS, stream=True, ending="complete"))
def test_a_dominant_segment_is_the_true_one(world: World) -> None:
    """When a winner is named, it is the winner; and it is always among the candidates."""
    found = attributed_world(world)
    ranked = sorted(truth.segments(world).items(), key=lambda pair: pair[1])
    (_, second), (true, most) = ranked[-2:]
    if most - second > found.instrument.bound_ns:
        assert found.dominant in (None, true)
        assert true in found.dominant_candidates


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=400),
    st.sampled_from(["chat", "completions", "responses", "messages"]),
    st.sampled_from([200, 404, 429, 500]),
    st.sampled_from(["text/event-stream", "application/json", "application/x-ndjson", "text/html"]),
    st.lists(st.integers(1, 60), max_size=6),
    st.sampled_from(["complete", "closed", "cancelled", "abandoned", "error"]),
)
def test_any_bytes_conserve_time(
    body: bytes, api: str, status: int, kind: str, cuts: list[int], reason: str
) -> None:
    """Laws 1 to 3 for garbage: attribution is total (`attributed` checks the laws)."""
    chunks, at, before = [], 10.0, 0
    for cut in [*cuts, len(body)]:
        chunks.append((at, body[before : before + cut]))
        before, at = before + cut, at + 7.0
    found = attributed(
        call(
            attempt(chunks, status=status, kind=kind),
            api=api,
            reason=reason,  # type: ignore[arg-type]
            stop=at if reason != "complete" else None,
        )
    )
    assert found.wall_ns >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "usage",
                    "content",
                    "metrics",
                    "timings",
                    "error",
                    "type",
                    "index",
                    "queue_time_ms",
                    "prompt_ms",
                    "response",
                    "finish_reason",
                    "tool_calls",
                    "object",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=4), st.sampled_from(["chat", "responses", "messages"]))
def test_any_json_conserves_time(payloads: list[object], api: str) -> None:
    chunks = [
        (10.0 + 5 * index, sse(json.dumps(payload))) for index, payload in enumerate(payloads)
    ]
    attributed(call(attempt(chunks), api=api))
