"""Which spans belong to which call: the order of evidence, and that nothing is guessed."""

from dataclasses import replace

import pytest

from latscope.recording import ServerSpan, Trace
from latscope.timeline.forest import DEEPEST, trees
from latscope.timeline.joins import Call, Joins, join, key_of
from latscope.units import MS
from tests.calls import stream, tokens
from tests.spans import CALL, START, TRACE, request, span

TRACED = Call(trace_id=TRACE, span_id=CALL, start_unix_ns=START, wall_ns=100 * MS)
UNTRACED = Call(response_id="chatcmpl-abc", start_unix_ns=START, wall_ns=100 * MS)


def names(joins: Joins, call: int = 0) -> list[tuple[str, str]]:
    return [(span.span_id.lstrip("0"), span.joined) for span in joins.spans[call]]


def account(joins: Joins) -> tuple[dict[str, int], int, int, int]:
    """joined, ambiguous, sampled out, unmatched; they add up to the calls."""
    found = joins.summary
    assert (
        sum(found.joined.values()) + found.ambiguous + found.sampled_out + found.unmatched
        == found.calls
    )
    assert found.joined_spans == sum(map(len, joins.spans))
    return dict(found.joined), found.ambiguous, found.sampled_out, found.unmatched


def test_the_parent_span_joins() -> None:
    found = join([TRACED], [request(1, parent=CALL)])
    assert names(found) == [("1", "parent")]
    assert account(found) == ({"parent": 1}, 0, 0, 0)


def test_a_chain_of_hops_joins_and_stays_whole() -> None:
    """Envoy's two spans and an auth sidecar's lie on the way; the call's own span does not."""
    spans = [
        request(3, parent=2, at=3, ms=80),
        span(2, parent=1, kind="client", at=2, ms=85),
        span(4, parent=1, kind="client", service="auth", at=1, ms=1),
        span(1, parent=CALL, ms=90),
        replace(span(9, kind="client", service="app", ms=100), span_id=CALL),
    ]
    found = join([TRACED], spans)
    assert names(found) == [("1", "parent"), ("4", "chain"), ("2", "chain"), ("3", "chain")]
    assert account(found) == ({"chain": 1}, 0, 0, 0)
    assert found.summary.spans - found.summary.joined_spans == 1


def test_ten_calls_of_one_trace_find_their_own() -> None:
    calls = [replace(TRACED, span_id=f"{0xC0 + n:016x}") for n in range(10)]
    spans = [span(n + 1, parent=0xC0 + n, ms=90) for n in range(10)]
    spans += [request(n + 101, parent=n + 1, at=1, ms=80) for n in range(10)]
    found = join(calls, reversed(spans))
    assert [[id for id, _ in names(found, n)] for n in range(10)] == [
        [f"{n + 1:x}", f"{n + 101:x}"] for n in range(10)
    ]
    assert account(found) == ({"chain": 10}, 0, 0, 0)


def test_another_traces_span_of_the_same_id_is_not_it() -> None:
    found = join([TRACED], [request(1, parent=CALL, trace="b" * 32)])
    assert account(found) == ({}, 0, 0, 1)
    assert found.summary.unmatched_requests == 1


def test_two_calls_with_one_span_id_are_ambiguous() -> None:
    found = join([TRACED, TRACED], [request(1, parent=CALL)])
    assert account(found) == ({}, 2, 0, 0)


def test_of_two_tries_the_answers_id_tells() -> None:
    """A retry shares the call's span; the failed try's hop is not the answer's."""
    spans = [
        span(1, parent=CALL),
        request(2, parent=1, rid="chatcmpl-first"),
        span(3, parent=CALL, at=50),
        request(4, parent=3, at=51, rid="chatcmpl-second"),
    ]
    told = replace(TRACED, response_id="chatcmpl-second")
    assert names(join([told], spans)) == [("3", "parent"), ("4", "chain")]
    assert account(join([TRACED], spans)) == ({}, 1, 0, 0)
    other = replace(UNTRACED, response_id="chatcmpl-first")
    assert account(join([TRACED, other], spans)) == ({}, 1, 0, 1)
    both = [*spans, request(5, parent=3, rid="chatcmpl-second")]
    assert account(join([told], both)) == ({}, 1, 0, 0)


def test_a_call_within_a_call_keeps_what_lies_under_it() -> None:
    """A gateway that is recorded too: its own call's span is a client's, not a server's."""
    inner = replace(TRACED, span_id="d" * 16)
    own = replace(span(9, parent=1, kind="client"), span_id="d" * 16)
    found = join([TRACED, inner], [span(1, parent=CALL), own, request(2, parent="d" * 16)])
    assert names(found, 0) == [("1", "parent")]
    assert names(found, 1) == [("2", "parent")]


def test_hops_alone_are_joined_and_said() -> None:
    found = join([TRACED], [span(1, parent=CALL), span(2, parent=1)])
    assert names(found) == [("1", "parent"), ("2", "chain")]
    assert account(found) == ({"parent": 1}, 0, 0, 0)
    assert found.summary.hops_only == 1


@pytest.mark.parametrize(
    ("response", "engine"),
    [
        ("chatcmpl-abc", "chatcmpl-abc"),
        ("chatcmpl-abc", "abc"),
        ("abc", "chatcmpl-abc"),
        ("cmpl-abc", "cmpl-abc-0"),
        ("resp_abc", "resp_abc_0"),
        ("msg_abc", "chatcmpl-abc"),
    ],
)
def test_the_answers_id_joins_with_the_prefixes_of_the_apis(response: str, engine: str) -> None:
    found = join([replace(UNTRACED, response_id=response)], [request(1, rid=engine)])
    assert account(found) == ({"response_id": 1}, 0, 0, 0)
    assert names(found) == [("1", "response_id")]


@pytest.mark.parametrize("engine", ["chatcmpl-abcd", "abc-0", "chatcmpl-abc-0", ""])
def test_ids_that_are_only_alike_do_not(engine: str) -> None:
    assert account(join([UNTRACED], [request(1, rid=engine)])) == ({}, 0, 0, 1)


def test_sglangs_own_id_joins() -> None:
    root = span(1, name="Req abc", source="sglang.otel", kind="internal", rid="abc")
    assert account(join([replace(UNTRACED, response_id="abc")], [root])) == (
        {"response_id": 1},
        0,
        0,
        0,
    )


def test_the_request_id_joins_where_the_answers_does_not() -> None:
    call = Call(response_id="gateway-1", request_ids=("abc",))
    assert account(join([call], [request(1, rid="chatcmpl-abc")])) == (
        {"request_id": 1},
        0,
        0,
        0,
    )


def test_an_id_used_twice_is_ambiguous_from_either_side() -> None:
    twice = [request(1, rid="abc"), request(2, rid="chatcmpl-abc")]
    assert account(join([UNTRACED], twice)) == ({}, 1, 0, 0)
    assert account(join([UNTRACED, UNTRACED], twice[:1])) == ({}, 2, 0, 0)


def test_an_id_of_another_day_is_another_requests() -> None:
    """Short ids of one's own come again; ids of a call whose time is unknown are still believed."""
    late = [request(1, rid="abc", at=86_400_000)]
    assert account(join([UNTRACED], late)) == ({}, 0, 0, 1)
    assert account(join([replace(UNTRACED, start_unix_ns=None)], late))[0] == {"response_id": 1}


def test_a_request_joined_by_id_brings_its_hops_but_not_the_clients_own_spans() -> None:
    """Above the topmost server's span lies the caller's side; what other requests share, or lasts
    longer than the call, is no hop of it."""
    spans = [
        span(1, service="app", kind="server", ms=500),
        span(2, parent=1, service="app", kind="client", ms=95),
        span(3, parent=2, ms=90, at=1),
        request(4, parent=3, rid="abc", at=2, ms=80),
        span(5, parent=4, name="stage", source="vllm.otel", kind="internal", at=3),
    ]
    found = join([UNTRACED], spans)
    assert [id for id, _ in names(found)] == ["3", "4", "5"]
    shared = [*spans, request(6, parent=3, rid="other")]
    assert [id for id, _ in names(join([UNTRACED], shared))] == ["4", "5"]


def test_within_one_trace_the_only_request_inside_the_call_is_its_own() -> None:
    """Its link is missing: the hop between was sampled out."""
    lone = request(1, parent=99, at=5, ms=80)
    found = join([TRACED], [lone])
    assert account(found) == ({"time": 1}, 0, 0, 0)
    assert names(found) == [("1", "time")]
    assert account(join([TRACED], [lone, request(2, parent=98, at=6)])) == ({}, 1, 0, 0)
    both = [TRACED, replace(TRACED, span_id="d" * 16)]
    assert account(join(both, [lone])) == ({}, 2, 0, 0)


@pytest.mark.parametrize(("at", "ms"), [(-30, 10), (5, 130), (500, 10)])
def test_a_request_outside_the_call_is_not(at: float, ms: float) -> None:
    found = join([TRACED], [request(1, parent=99, at=at, ms=ms)])
    assert account(found) == ({}, 0, 1, 0)
    assert found.summary.unmatched_requests == 1


def test_without_a_trace_or_a_time_nothing_is_joined_by_time() -> None:
    spans = [request(1, parent=99, at=5)]
    assert account(join([replace(TRACED, trace_id=None)], spans)) == ({}, 0, 0, 1)
    assert account(join([replace(TRACED, start_unix_ns=None)], spans)) == ({}, 0, 1, 0)


def test_hops_that_are_sure_stay_when_the_engine_is_not() -> None:
    hop = span(1, parent=CALL, ms=90)
    two = [hop, request(2, parent=98, at=5), request(3, parent=99, at=6)]
    found = join([TRACED], two)
    assert names(found) == [("1", "parent")]
    assert account(found) == ({"parent": 1}, 0, 0, 0)
    assert names(join([TRACED], two[:2])) == [("1", "parent"), ("2", "time")]


def test_a_span_that_comes_twice_counts_once() -> None:
    found = join([TRACED], [request(1, parent=CALL)] * 3)
    assert account(found) == ({"parent": 1}, 0, 0, 0)
    assert found.summary.repeated == 2


def test_further_ranks_of_an_engine_repeat_the_same_work() -> None:
    spans = [span(1, parent=CALL, name="Req", source="sglang.otel", kind="internal", rid="abc")]
    for rank in (0, 1):
        thread = 10 + rank
        spans += [
            span(thread, parent=1, name="Scheduler", source="sglang.otel", tp_rank=rank),
            span(thread + 10, parent=thread, name="prefill_waiting", source="sglang.otel"),
        ]
    assert sorted(id for id, _ in names(join([TRACED], spans))) == ["1", "14", "a"]


def test_spans_in_a_circle_end() -> None:
    circle = [span(1, parent=2), span(2, parent=1)]
    assert account(join([TRACED], circle)) == ({}, 0, 1, 0)
    chain = [span(n, parent=n + 1) for n in range(1, DEEPEST + 10)]
    assert account(join([TRACED], chain)) == ({}, 0, 1, 0)


def test_a_stage_below_a_request_is_no_request() -> None:
    inner = replace(request(2, parent=1), source="gen_ai.otel")
    found = join([TRACED], [request(1, parent=CALL), inner])
    assert account(found) == ({"parent": 1}, 0, 0, 0)
    assert len(found.spans[0]) == 2


def test_the_key_of_a_recording() -> None:
    call = stream(tokens(2, start=10, step=5), response_headers=[("x-request-id", "r1")])
    call = replace(call, trace=Trace(trace_id=TRACE.upper(), span_id=CALL.upper()))
    key = key_of(call, start_unix_ns=5, response_id="chatcmpl-1", wall_ns=7)
    assert key == Call(
        trace_id=TRACE,
        span_id=CALL,
        response_id="chatcmpl-1",
        request_ids=("r1",),
        start_unix_ns=5,
        wall_ns=7,
    )
    bare = replace(call, attempts=(), trace=None)
    assert key_of(bare, start_unix_ns=None, response_id=None, wall_ns=0) == Call()


def test_trees_are_of_one_request_each() -> None:
    spans = [span(9), span(1, parent=9), request(2, parent=1, at=1), request(3, parent=9, at=2)]
    found: dict[str, list[ServerSpan]] = {
        engine.span_id.lstrip("0"): list(tree) for engine, tree in trees(spans)
    }
    assert {id: [s.span_id.lstrip("0") for s in tree] for id, tree in found.items()} == {
        "2": ["1", "2"],
        "3": ["3"],
    }
