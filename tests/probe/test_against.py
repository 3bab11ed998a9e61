"""Two targets in pairs: the order, the differences, what they grow with, and what may be said."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from latscope.probe.against import (
    ARMS,
    SCHEMA,
    Comparison,
    Pair,
    Side,
    compared,
    order,
    paired,
    run_pairs,
    to_mapping,
)
from latscope.probe.requests import Ask
from latscope.probe.run import Load, Result
from latscope.probe.targets import Target
from latscope.recording import Recording
from latscope.units import MS, S
from tests.calls import DONE, attributed, finish, metrics, stream, tokens, usage
from tests.probe.scripted import good, serving


def recorded(first: float, *, count: int = 5, model: str = "tiny", **reported: Any) -> Recording:
    """A call whose first token came after so many ms, its tokens 10 ms apart."""
    last = first + 10 * count
    extra: dict[str, Any] = {"metrics": metrics(**reported)} if reported else {}
    chunks = [
        *tokens(count, start=first, step=10),
        (last, finish() + usage(count, **extra) + DONE),
    ]
    call = stream(chunks, headers=first - 1)
    body = (call.attempts[0].body or b"").replace(b'"tiny"', f'"{model}"'.encode())
    return replace(call, attempts=(replace(call.attempts[0], body=body),))


def side(first: float, *, size: int = 1000, at: int = 0, **how: Any) -> Side:
    hops = how.pop("hops", ())
    return Side(call=attributed(recorded(first, **how)), at_ns=at, body_bytes=size, hops=hops)


def found_in(pairs: list[Pair]) -> Comparison:
    return compared(pairs, seed=1)


JITTER = (0.0, 1.5, -1.0, 0.5, -0.5, 1.0, -1.5, 0.25)


def two(by: float, grows: float = 0.0, **how: Any) -> list[Pair]:
    """Eight pairs: the second target `by` ms later, and `grows` ms more each KiB of request."""
    pairs = []
    for index, jitter in enumerate(JITTER):
        size = 1024 * (1 + index % 4)
        later = by + grows * size / 1024 + jitter
        pairs.append(
            Pair(
                a=side(50.0, size=size),
                b=side(50.0 + later, size=size, **how),
                at_s=float(index),
            )
        )
    return pairs


def test_each_target_goes_first_as_often() -> None:
    """In an order drawn from the seed; the same seed, the same order."""
    ways = order(9, seed=4)
    assert ways == order(9, seed=4)
    assert ways != order(9, seed=5)
    assert ways[0] == ARMS
    assert sorted(Counter(first for first, _ in ways[1:]).values()) == [4, 5]


def test_a_difference_is_the_second_less_the_first() -> None:
    """20 ms in TTFT and so in E2E; nothing in decode."""
    found = found_in(two(20.0))
    rows = {row.name: row for row in found.differences}
    assert (found.pairs, found.used) == (8, 8)
    assert rows["ttft"].a_ns == 50 * MS
    assert abs(rows["ttft"].by.value - 20 * MS) < MS
    assert rows["ttft"].by.clear
    assert rows["e2e"].by.clear
    assert not rows["decode"].by.clear
    assert found.words[0] == "TARGET2 is clearly slower in TTFT and E2E"
    assert found.words[1].startswith(
        "if both lead to the same server, what differs in the unsplit time is network.gateway"
    )


def test_segments_add_up_to_the_difference() -> None:
    """The medians of the parts are of the same calls as the whole: with no jitter they add up."""
    pairs = [Pair(a=side(50.0), b=side(70.0), at_s=0.0)] * 3
    rows = {row.name: row for row in found_in(pairs).differences}
    whole = rows.pop("e2e").by.value
    rows.pop("ttft")
    assert sum(row.by.value for row in rows.values()) == whole == 20 * MS


def test_where_a_gateway_may_hide_is_named() -> None:
    """Where nothing before the first token can be the network's, TTFT as a whole is named."""
    pairs = [
        Pair(
            a=replace(pair.a, call=replace(pair.a.call, unsplit=())),
            b=replace(pair.b, call=replace(pair.b.call, unsplit=())),
            at_s=pair.at_s,
        )
        for pair in two(20.0)
    ]
    assert "what differs in TTFT is network.gateway" in found_in(pairs).words[1]


def test_what_does_not_differ_is_said_not_to() -> None:
    """And nothing is blamed on a gateway."""
    found = found_in(two(0.0))
    assert list(found.words) == ["neither TTFT nor E2E differs clearly: every interval holds zero"]


def test_the_faster_second_target_is_named_too() -> None:
    """Slower in one and faster in the other is said as such."""
    assert found_in(two(-20.0)).words[0] == "TARGET is clearly slower in TTFT and E2E"
    pairs = [
        replace(pair, b=side(60.0 + jitter, count=2))
        for pair, jitter in zip(two(0.0), JITTER, strict=True)
    ]
    words = found_in(pairs).words
    assert words[0] == "TTFT and E2E differ clearly, in opposite directions"
    assert any("unlike length (medians 5 and 2 tokens)" in said for said in words)


def test_what_a_difference_grows_with_is_found() -> None:
    """4 ms a KiB: with the request's bytes, not with time, and tokens never changed."""
    found = {(row.of, row.along): row for row in found_in(two(5.0, grows=4.0)).growth}
    bytes_row = found["ttft", "body_bytes"].by
    assert bytes_row is not None
    assert bytes_row.clear
    assert abs(bytes_row.value * 1024 - 4 * MS) < MS
    time_row = found["ttft", "time_s"].by
    assert time_row is not None
    assert not time_row.clear
    assert found["e2e", "output_tokens"].why_not == "the same in all pairs"


def test_bytes_and_tokens_that_grew_together_are_not_told_apart() -> None:
    """Either may be the cause, and that is said."""
    pairs = [
        replace(
            pair,
            a=replace(pair.a, call=replace(pair.a.call, input_tokens=pair.a.body_bytes)),
            b=replace(pair.b, call=replace(pair.b.call, input_tokens=pair.b.body_bytes)),
        )
        for pair in two(5.0, grows=4.0)
    ]
    assert (
        "request bytes and input tokens grew together, so either may be the cause"
        in found_in(pairs).words
    )


def test_an_axis_nobody_knows_shows_nothing() -> None:
    """One side without its size is a pair without one."""
    pairs = [replace(pair, a=replace(pair.a, body_bytes=None)) for pair in two(5.0)]
    row = next(row for row in found_in(pairs).growth if row.along == "body_bytes")
    assert row.why_not == "too few pairs tell it"


def test_what_the_servers_state_themselves_is_no_gateways() -> None:
    """vLLM says that its own prefill took 20 ms longer; models that differ are named; so are
    hops."""
    pairs = [
        Pair(
            a=side(50.0 + jitter, queue=1.0, prefill=20.0, decode=40.0),
            b=side(70.0, model="big", queue=1.0, prefill=40.0, decode=40.0, hops=("via",)),
            at_s=float(index),
        )
        for index, jitter in enumerate(JITTER)
    ]
    words = " / ".join(found_in(pairs).words)
    assert "but not the difference in prefill, which the servers themselves state" in words
    assert "the models differ (tiny; big)" in words
    assert "the answers of TARGET2 name a hop on their way: via" in words


def test_pairs_without_two_complete_calls_are_left_out() -> None:
    """And counted, by target."""
    failed = replace(side(50.0), call=replace(side(50.0).call, status="error"))
    pairs = [*two(20.0), Pair(a=side(50.0), b=failed, at_s=9.0)]
    found = found_in(pairs)
    assert (found.pairs, found.used, found.failed_a, found.failed_b) == (9, 8, 0, 1)
    nothing = found_in([Pair(a=failed, b=failed, at_s=0.0)])
    assert not nothing.differences
    assert not nothing.growth
    assert nothing.words == ("no pair completed, so nothing can be compared",)


def test_two_pairs_differ_by_something_unsure() -> None:
    """No interval, so no verdict."""
    found = found_in(two(20.0)[:2])
    assert found.differences[0].by.low is None
    assert "raise -n" in found.words[0]


def test_calls_without_a_first_token_have_no_ttft() -> None:
    """An answer that came whole: E2E is still compared."""
    whole = replace(side(50.0), call=replace(side(50.0).call, first_token_ns=None))
    found = found_in([Pair(a=whole, b=whole, at_s=0.0)] * 4)
    assert "ttft" not in {row.name for row in found.differences}
    row = next(row for row in found.growth if row.of == "ttft" and row.along == "time_s")
    assert row.why_not == "too few pairs tell it"


def test_halves_are_put_together_by_their_tags() -> None:
    """Whatever their order; a half alone is no pair; time runs from the earliest call."""
    halves = [("b", "1", 7), ("a", "1", 5), ("a", "3", 20), ("a", "2", 8), ("b", "2", 9)]
    sides = [
        Side(
            call=replace(attributed(recorded(50.0)), tags={"arm": arm, "pair": pair}),
            at_ns=at * S,
            body_bytes=None,
        )
        for arm, pair, at in halves
    ]
    assert [(p.a.at_ns // S, p.b.at_ns // S, p.at_s) for p in paired(sides)] == [
        (5, 7, 0.0),
        (8, 9, 3.0),
    ]
    assert paired([]) == []


def asks(first: str, second: str) -> tuple[Ask, Ask]:
    made = [
        Ask(target=Target(base_url=f"{url}/v1"), model="m", max_tokens=4) for url in (first, second)
    ]
    return made[0], made[1]


def test_the_mapping_names_schema_targets_and_units() -> None:
    """`latscope.against/1`: an axis without a slope says why."""
    told = to_mapping(found_in(two(20.0)), asks=asks("http://a", "http://b"), seed=1)
    assert told["schema"] == SCHEMA
    assert told["b"] == {"target": "http://b/v1/chat/completions", "model": "m", "api": "chat"}
    ttft = told["differences"][0]
    assert ttft["name"] == "ttft"
    assert ttft["low_ns"] <= ttft["by_ns"] <= ttft["high_ns"]
    assert ttft["clear"] is True
    assert {row.get("why_not") for row in told["growth"]} == {None, "the same in all pairs"}


@pytest.mark.parametrize("warm_up", [True, False])
def test_pairs_are_sent_one_call_at_a_time(warm_up: bool) -> None:
    """Both targets get every pair's prompt; results are tagged; recordings too."""
    results: list[Result] = []
    with serving(good()) as a, serving(good()) as b:
        asyncio.run(
            run_pairs(
                asks(a.url, b.url),
                Load(calls=3, warm_up=warm_up),
                prompt=lambda number: f"prompt {number}",
                hand_over=results.append,
                say=lambda said: None,
                seed=2,
            )
        )
    first = 0 if warm_up else 1
    for server in (a, b):
        assert [body["messages"][0]["content"] for body in server.bodies] == [
            f"prompt {number}" for number in range(first, 4)
        ]
    sent = [(result.tags["pair"], result.tags["arm"]) for result in results]
    ways = order(3, seed=2)
    assert sent == [(str(n), arm) for n in range(first, 4) for arm in ways[n]]
    assert all(result.recording and result.recording.tags == result.tags for result in results)
