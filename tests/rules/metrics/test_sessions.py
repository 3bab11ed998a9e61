"""Metrics of sessions, turns, prompts' prefixes and money, as columns of a table."""

from collections.abc import Sequence
from typing import Any

import pytest

from latscope.rules.metrics import METRICS, Call
from latscope.rules.metrics.metric import Value
from latscope.rules.table import gather
from latscope.units import MS, S
from tests.rules.made import call


def at(seconds: float, lasts: float = 0.5, **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"e2e": round(lasts * S), "ttft": round(lasts * S / 5)}
    return call(f"c{seconds}", round(seconds * S), **(given | more))


def column(name: str, calls: Sequence[Call]) -> Sequence[Value]:
    return gather(calls, {name}).file.columns[name]


def whole(name: str, calls: Sequence[Call]) -> float | None:
    return gather(calls, {name}).file.whole(name)


def test_where_a_call_stands() -> None:
    made = [at(0, session="a", turn="t"), at(1, session="a", turn="t"), at(2), at(3, session="a")]
    assert column("session", made) == ["a", "a", None, "a"]
    assert column("session.tie", made) == ["conversation", "conversation", None, "conversation"]
    assert column("turn_index", made) == [0, 0, None, 1]
    assert column("calls_in_turn", made) == [2, 2, None, 1]
    assert column("session.turns", made) == [2, None, None, None]


def test_gaps_are_between_the_calls_of_a_turn() -> None:
    made = [at(0, turn="t"), at(2, turn="t", e2e=3 * S), at(3, turn="t"), at(9, turn="u")]
    assert column("gap_before", made) == [None, 1.5 * S, 0, None]


def test_figures_of_a_turn_stand_at_its_first_call() -> None:
    made = [at(1.5 * number, turn="t") for number in range(5)]
    figures = {
        "turn.calls": 5,
        "turn.wall": 6.5 * S,
        "turn.outside": 4 * S,
        "turn.model": 2.5 * S,
        "turn.outside_share": 4 / 6.5,
        "turn.longest_gap": S,
        "turn.ttft": 500 * MS,
        "turn.loop": 0,
        "turn.apart": 0,
    }
    for name, value in figures.items():
        found = column(name, made)
        assert found[0] == pytest.approx(value), name
        assert found[1:] == [None] * 4, name


def test_a_turn_of_one_call_has_no_inside() -> None:
    assert column("turn.calls", [at(0, turn="t")]) == [1]
    assert column("turn.outside_share", [at(0, turn="t")]) == [None]
    assert column("turn.outside_share", [at(0, 0, turn="t"), at(0, 0, turn="t")])[0] is None
    assert column("turn.apart_share", [at(0, 0, turn="t"), at(0, 0, turn="t")])[0] is None


def test_spare_calls_are_those_of_loops_with_one_result_a_round() -> None:
    made = [at(0, turn="t"), *(at(number, turn="t", tool_results=1) for number in range(1, 19))]
    assert column("turn.spare_calls", made)[0] == 17
    assert column("turn.spare", made)[0] == 8.5 * S
    assert column("turn.loop", made)[0] == 19
    several = [{**one, "request": {**(one["request"] or {}), "tool_results": 2}} for one in made]
    assert column("turn.spare_calls", several)[0] == 0


def test_serial_calls_that_could_overlap() -> None:
    more: dict[str, Any] = {"begins": "x", "messages": 2, "turn": "t"}
    made = [at(0, **more), at(1, **more), at(1.2, **more), at(3, turn="t")]
    assert column("serial_with_previous", made) == [None, 1, 0, None]
    assert column("turn.apart", made)[0] == 0.5 * S
    assert column("turn.apart_share", made)[0] == pytest.approx(0.5 / 3.5)


def test_sums_leave_no_call_out() -> None:
    made = [at(0, turn="t", input_tokens=5), at(1, turn="t", input_tokens=6), at(2, turn="u")]
    assert column("turn.input_tokens", made) == [11, None, None]
    assert column("turn.ttft", [at(0, turn="t"), at(1, turn="t", ttft=None)])[0] is None


def test_how_a_session_grows() -> None:
    made = [at(number, session="a", input_tokens=100 + 40 * number) for number in range(4)]
    assert column("session.input_growth", made) == [40, None, None, None]
    assert column("session.input_growth", made[:2]) == [None, None]


def test_sessions_an_hour() -> None:
    """Two sessions begun within a second."""
    made = [at(0, session="a"), at(0.5, session="b"), at(1, session="a")]
    assert whole("sessions_per_hour", made) == pytest.approx(7200)
    assert whole("sessions_per_hour", [at(0), at(1)]) is None
    assert whole("sessions_per_hour", [at(0, session="a")]) is None


# -- prompts ---------------------------------------------------------------------------------------


def prompt(seconds: float, blocks: str, **more: Any) -> dict[str, Any]:
    """A call whose prompt's blocks hash as these letters; 100 tokens a block but for the last."""
    made = at(seconds, input_tokens=round(100 * (len(blocks) - 0.5)), **more)
    made["request"] = {
        "system_bytes": 512, "tools_bytes": 0, "history_bytes": 0, "last_bytes": 512,
        "messages": 2, "tools": 0, "tool_results": 0,
        "hashes": "".join(letter * 16 for letter in blocks),
        "parts": [["messages[0] system", 2], ["messages[1] user", len(blocks) - 2]],
    }  # fmt: skip
    return made


def test_what_is_shared_with_the_call_before() -> None:
    """Four blocks, two of them system text: another question is no break, another system is."""
    made = [prompt(0, "abcd"), prompt(1, "abef"), prompt(2, "xyzw"), at(3)]
    assert column("prefix_kept", made) == [None, 1, 0, None]
    assert column("break_part", made) == [None, None, "messages[0] system", None]
    assert column("break_tokens", made) == [None, 0, 100, None]
    assert column("break_at", made) == [None, None, 0, None]
    assert column("prefix.parts", made)[0] == "messages[0] system:2,messages[1] user:2"


def test_a_server_that_keeps_the_history_is_not_judged() -> None:
    made = [prompt(0, "abcd"), prompt(1, "wxyz", previous_response_id="r")]
    assert column("prefix_kept", made) == [None, None]


def test_unknown_tokens_make_an_unknown_cost() -> None:
    blind = [prompt(0, "abcd"), prompt(1, "xyzw")]
    for one in blind:
        one["input_tokens"] = None
    assert column("break_tokens", blind) == [None, None]
    assert column("break_ns", blind) == [None, None]
    assert column("prefix_kept", blind) == [None, 0]


def test_the_time_of_a_break_is_by_this_files_own_slope() -> None:
    """A tenth of a millisecond a token, in ten calls of several lengths."""
    made: list[dict[str, Any]] = []
    for number in range(10):
        one = prompt(number, "abcd" + "efghijklmnop"[: number + 1])
        size = one["input_tokens"]
        one |= {"sent_ns": 0, "first_token_ns": size * MS // 10}
        made.append(one)
    made.append(prompt(99, "xyzw"))
    assert column("break_ns", made)[-1] == pytest.approx(10 * MS)
    assert column("break_ns", made[:3])[-1] is None
    stated = [{**one, "segments": [dict(part) for part in one["segments"]]} for one in made]
    for one in stated:
        part = next(part for part in one["segments"] if part["name"] == "prefill")
        part |= {"ns": one["input_tokens"] * MS // 5, "provenance": "reported"}
    assert column("break_ns", stated)[-1] == pytest.approx(20 * MS)


def test_shares_of_the_prompt() -> None:
    assert column("system_share", [prompt(0, "abcd"), at(1)]) == [0.5, None]
    assert column("last_share", [prompt(0, "abcd")]) == [0.5]


# -- money -----------------------------------------------------------------------------------------


def paid(made: dict[str, Any], total: float | None) -> dict[str, Any]:
    rates = {"input": 3e-6, "cached_input": 1e-6}
    return {**made, "money": {"total": total, "reasoning": 0.25, "rates": rates}}


def test_money_is_that_of_the_call_or_unknown() -> None:
    made = [paid(at(0), 1.5), at(1)]
    assert column("cost", made) == [1.5, None]
    assert column("cost.reasoning", made) == [0.25, None]
    assert column("rate.input", made) == [3e-6, None]


def test_money_by_turn_and_session() -> None:
    made = [paid(at(number, session="a", turn=f"t{number // 2}"), number) for number in range(6)]
    assert column("cost_per_turn", made) == [1, None, 5, None, 9, None]
    assert column("cost_per_session", made) == [15, *[None] * 5]
    assert column("session.cost_growth", made) == [4, *[None] * 5]
    assert column("cost_per_session", [*made, paid(at(9, session="a"), None)])[0] is None


def test_the_price_of_a_break() -> None:
    made = [prompt(0, "abcd"), paid(prompt(1, "xyzw"), 1.0), prompt(2, "mnop")]
    assert column("break_cost", made) == [None, pytest.approx(100 * 2e-6), None]


def test_every_row_says_what_it_means() -> None:
    for subject in ("session.", "turn.", "prefix", "break_", "cost", "rate."):
        rows = [row for name, row in METRICS.items() if name.startswith(subject)]
        assert rows
        assert all(row.means for row in rows)
