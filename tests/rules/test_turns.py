"""One turn on its own axis."""

from typing import Any

import pytest

from latscope.recording import ServerSpan
from latscope.rules.turns import (
    Session,
    Turn,
    history_of,
    money,
    sessions,
    slopes,
    tool_name,
    with_tools,
)
from latscope.units import MS, S, wall_s
from tests.rules.made import call

ZERO = round(wall_s("2026-01-05T09:00:00Z")) * S


def at(seconds: float, lasts: float = 0.5, **more: Any) -> dict[str, Any]:
    """A call of turn `t` that begins so long in."""
    given: dict[str, Any] = {"turn": "t", "e2e": round(lasts * S), "ttft": round(lasts * S / 5)}
    return call(f"c{seconds}", round(seconds * S), **(given | more))


def turn(*calls: dict[str, Any]) -> Turn:
    (session,) = sessions(calls)
    (only,) = session.turns
    return only


def priced(made: dict[str, Any], total: float, currency: str = "USD") -> dict[str, Any]:
    rates = {"input": 2e-6, "cached_input": 1e-6}
    return {**made, "money": {"total": total, "currency": currency, "rates": rates}}


def test_calls_and_gaps_add_up_to_the_turn() -> None:
    """Five calls of half a second, a second between each two."""
    found = turn(*(at(1.5 * number) for number in range(5)))
    assert [(gap.at_ns, gap.ns) for gap in found.gaps] == [
        (number * 3 * S // 2 + S // 2, S) for number in range(4)
    ]
    assert (found.wall_ns, found.busy_ns, found.outside_ns) == (6.5 * S, 2.5 * S, 4 * S)
    assert found.critical == (0, 1, 2, 3, 4)
    assert found.waits_ns == 4 * S
    assert found.ttft_ns == 500 * MS
    assert not found.overlaps


def test_the_critical_path_goes_back_from_the_end() -> None:
    """Two at once, the longer of them before the last; the short one is not on the path."""
    found = turn(at(0, 3), at(0.1, 1), at(4, 1))
    assert found.critical == (0, 2)
    assert found.overlaps
    assert (found.outside_ns, found.waits_ns) == (S, S)


def test_a_call_that_began_late_while_another_ran_waited_on_the_path() -> None:
    """Nothing was outside: a call was open all the time; yet its late begin made the turn long."""
    found = turn(at(0, 3), at(2, 3))
    assert found.critical == (1,)
    assert (found.outside_ns, found.waits_ns) == (0, 2 * S)


def test_calls_that_take_no_time_end_the_walk() -> None:
    found = turn(at(0, 0), at(0, 0), at(1, 0))
    assert len(found.critical) == 2
    assert found.wall_ns == S


def test_a_loop_is_calls_that_go_on_from_one_another() -> None:
    """19 calls, one result a round: two suffice, and the 17 between took what they took."""
    found = turn(at(0), *(at(number, tool_results=1) for number in range(1, 19)))
    (loop,) = found.loops
    assert (loop.first, loop.calls, loop.results, loop.one_each) == (0, 19, 18, True)
    assert loop.saved_ns == 17 * S // 2
    assert loop.suffice == 2


def test_a_loop_with_several_results_a_round_is_told_and_not_blamed() -> None:
    (loop,) = turn(at(0), at(1, tool_results=3), at(2, tool_results=1)).loops
    assert (loop.results, loop.one_each, loop.suffice) == (4, False, None)


def test_two_calls_are_no_loop_nor_are_calls_at_once() -> None:
    assert turn(at(0), at(1, tool_results=1)).loops == ()
    assert turn(at(0, 9), at(1, tool_results=1), at(2, tool_results=1)).loops == ()


def test_calls_that_ask_the_same_of_other_input_could_run_at_once() -> None:
    more = {"begins": "x", "messages": 2}
    found = turn(at(0, 1, **more), at(2, 3, **more), at(6, 2, **more), at(9))
    (apart,) = found.apart
    assert (apart.places, apart.saved_ns) == ((0, 1, 2), 3 * S)


def test_sessions_are_in_the_order_they_began_and_single_calls_stand_alone() -> None:
    made = [at(0, turn=None), at(1, session="a"), at(2, turn=None), at(3, session="a", turn="u")]
    found = sessions(made)
    assert [(one.name, len(one.turns), one.tie) for one in found] == [
        (None, 1, "nothing"),
        ("a", 2, "conversation"),
        (None, 1, "nothing"),
    ]
    assert [one["call_id"] for one in found[1].calls] == ["c1", "c3"]


# -- what it took ----------------------------------------------------------------------------------


def test_figures_of_a_turn_are_over_the_calls_that_tell_them() -> None:
    found = turn(at(0, 1, input_tokens=100, cached_tokens=50), at(2, 1, input_tokens=300), at(4, 1))
    assert found.input_tokens == 400
    assert found.cached_share == 0.5
    assert found.ttft_ns_a_token == pytest.approx(S / 5 * 2 / 400)
    bare = turn(at(0, ttft=None))
    assert (bare.ttft_ns, bare.input_tokens, bare.cached_share, bare.ttft_ns_a_token) == (None,) * 4


def test_history_costs_what_its_tokens_cost_that_no_cache_served() -> None:
    """1,000 tokens, 600 of them history behind 200 of system text; 500 from the cache."""
    sizes = {"request__system_bytes": 2, "request__history_bytes": 6, "request__last_bytes": 2}
    made = priced(at(0, input_tokens=1000, cached_tokens=500, **sizes), 1.0)
    rates = {(made["model"], made["endpoint"]): 1000.0}
    found = history_of(turn(made), rates)
    assert (found.tokens, found.computed, found.ns) == (600, 300, 300_000)
    assert found.money == pytest.approx(300 * 2e-6 + 300 * 1e-6)


def test_history_is_unknown_where_something_of_it_is() -> None:
    sizes = {"request__system_bytes": 2, "request__history_bytes": 6, "request__last_bytes": 2}
    blind = history_of(turn(at(0, **sizes)), {})
    assert (blind.tokens, blind.computed, blind.ns, blind.money) == (None,) * 4
    unpriced = history_of(turn(at(0, input_tokens=1000, **sizes)), {})
    assert (unpriced.tokens, unpriced.ns, unpriced.money) == (600, None, None)
    served = priced(at(0, input_tokens=1000, cached_tokens=1000, **sizes), 1.0)
    served["money"]["rates"]["cached_input"] = None
    found = history_of(turn(served), {})
    assert (found.computed, found.ns, found.money) == (0, 0, None)


def test_a_sum_of_money_leaves_none_out() -> None:
    one, two = priced(at(0), 1.5), priced(at(1), 2.5)
    assert money([one, two]) == 4.0
    assert money([one, at(1)]) is None
    assert money([one, priced(at(1), 1.0, "EUR")]) is None
    assert money([]) is None


def test_slopes_are_by_turn_from_three_turns_on() -> None:
    def session(turns: int) -> Session:
        made = [
            priced(
                at(number * 9, turn=f"t{number}", session="a", input_tokens=100 + 50 * number),
                number,
            )
            for number in range(turns)
        ]
        (found,) = sessions(made)
        return found

    found = slopes(session(4))
    assert found.input_tokens is not None
    assert found.money is not None
    assert (found.input_tokens.value, found.money.value) == (50, 1)
    assert found.cached_share is None
    assert slopes(session(2)).input_tokens is None


# -- what ran between the calls --------------------------------------------------------------------


def span(name: str, begins: float, lasts: float, trace: str = "f" * 32, **more: str) -> ServerSpan:
    return ServerSpan(
        name=name,
        source="",
        service="app",
        trace_id=trace,
        span_id=f"{round(begins * 1000):016x}",
        kind="internal",
        start_unix_ns=ZERO + round(begins * S),
        duration_ns=round(lasts * S),
        attributes={key.replace("__", "."): value for key, value in more.items()},
    )


def tools(found: list[Session]) -> list[list[tuple[str, int]]]:
    return [
        [(tool.name, tool.ns) for tool in gap.tools]
        for session in found
        for one in session.turns
        for gap in one.gaps
    ]


def test_a_tools_span_names_the_gap_it_lies_in() -> None:
    made = sessions([at(0, trace="F" * 32), at(2, trace="F" * 32), at(3, trace="F" * 32)])
    spans = [
        span("execute_tool search", 0.6, 1.0),
        span("execute_tool look", 2.49, 0.52),
        span("execute_tool look", 0.7, 0.1),
        span("chat tiny", 0, 0.5),
        span("execute_tool long", 0.6, 9.0),
        span("execute_tool other", 0.6, 1.0, trace="e" * 32),
    ]
    assert tools(with_tools(made, spans)) == [
        [("search", S), ("look", 100 * MS)],
        [("look", 500 * MS)],
    ]


def test_without_a_trace_a_span_is_a_turns_only_where_no_other_could_have_it() -> None:
    one = [at(0), at(2)]
    assert tools(with_tools(sessions(one), [span("execute_tool a", 0.6, 1)])) == [[("a", S)]]
    two = [*one, at(0.01, turn="u"), at(2.01, turn="u")]
    assert tools(with_tools(sessions(two), [span("execute_tool a", 0.6, 1)])) == [[], []]


def test_the_name_of_a_tool() -> None:
    assert tool_name(span("x", 0, 1, gen_ai__tool__name="search")) == "search"
    assert tool_name(span("x", 0, 1, gen_ai__operation__name="retrieval")) == "retrieval"
    assert tool_name(span("execute_tool", 0, 1)) == "execute_tool"
    assert tool_name(span("embeddings model-a", 0, 1)) == "model-a"
    assert tool_name(span("chat model-a", 0, 1)) is None
