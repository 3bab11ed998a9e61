"""The calls a page's cases describe, and what the page says of them."""

from dataclasses import replace
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latscope.attribution.jsonview import KEYS
from latscope.attribution.model import OWNERS, SEGMENTS
from latscope.attribution.stalls import CAUSES
from latscope.errors import UsageError
from latscope.rules.cases import calls_of, run_case
from latscope.rules.metrics import Call, known
from latscope.rules.runbook import Bound, Case
from latscope.rules.table import gather
from latscope.units import MS, S
from tests.rules.made import above, call, cause, page


def column(metric: str, *tables: dict[str, Any], seed: int = 0) -> list[Any]:
    return [*gather(calls_of(tables, seed), {metric}).file.columns[metric]]


# -- tables ---------------------------------------------------------------------------------------


def test_a_table_makes_n_calls_every_so_long() -> None:
    lines = calls_of([{"n": 3, "every": 30.0 * S, "start": 60.0 * S, "ttft": S}])
    assert [line["started_at"] for line in lines] == [
        "2026-01-05T09:01:00.000000000Z",
        "2026-01-05T09:01:30.000000000Z",
        "2026-01-05T09:02:00.000000000Z",
    ]
    assert len({line["call_id"] for line in lines}) == 3
    assert len(calls_of([{}])) == 1


def test_calls_of_several_tables_come_in_the_order_they_began() -> None:
    tables = ({"n": 2, "every": 10 * S, "ttft": S}, {"n": 1, "start": 5 * S, "ttft": 2 * S})
    assert column("ttft", *tables) == [S, 2 * S, S]


def test_lists_cycle_and_growth_grows() -> None:
    assert column("in_flight", {"n": 5, "in_flight": [1, 2]}) == [1, 2, 1, 2, 1]
    assert column("in_flight", {"n": 2, "in_flight": []}) == [None, None]
    grown = {"n": 3, "input_tokens": {"from": 500, "step": 120}}
    assert column("input_tokens", grown) == [500, 620, 740]
    assert column("input_tokens", {"n": 2, "input_tokens": {"step": 5}}) == [0, 5]
    five = {"n": 6, "session": {"from": 0, "step": 0.34}}
    assert column("session_id", five) == ["0", "0", "0", "1", "1", "1"]


def test_spread_varies_times_and_sizes_by_the_seed_and_nothing_else() -> None:
    table = {
        "n": 200, "ttft": S, "input_tokens": 900, "in_flight": 4, "max_output_tokens": 500,
        "reused": True, "spread": 0.2,
    }  # fmt: skip
    ttft = column("ttft", table)
    assert ttft == column("ttft", table)
    assert ttft != column("ttft", table, seed=1)
    assert median(ttft) == pytest.approx(S, rel=0.06)
    assert len({*ttft}) == 200
    assert {*column("in_flight", table)} == {4}
    assert {*column("max_output_tokens", table)} == {500}
    assert len({*column("input_tokens", table)}) > 100


def test_shares_that_vary_apart_stay_shares_of_the_whole() -> None:
    table = {
        "n": 200, "ttft": 1400 * MS, "ttft.queue": S, "ttft.prefill": 300 * MS, "spread": 0.3,
    }  # fmt: skip
    assert median(column("ttft.queue", table)) == pytest.approx(S, rel=0.1)
    assert median(column("ttft.prefill", table)) == pytest.approx(300 * MS, rel=0.1)
    assert median(column("ttft", table)) == pytest.approx(1400 * MS, rel=0.1)
    assert median(column("ttft.network", table)) == pytest.approx(100 * MS, rel=0.1)


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ({"tttf": 1}, "a case cannot state 'tttf'.*did you mean ttft"),
        ({"zzzzzz": 1}, "it is no figure of one call$"),
        ({"schema_of.what": 1}, "cannot state"),
        ({"calls_per_hour": 1}, "cannot state"),
        ({"tpot.low": 1}, "cannot state"),
        ({"ttft": {"from": 1, "by": 2}}, r"a value, a list or \{from, step\}"),
        ({"file": "gone.jsonl"}, "no recordings of the name 'gone.jsonl'"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(table: dict[str, Any], wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        calls_of([table])


def test_recordings_beside_the_page_are_a_table() -> None:
    lines: list[Call] = [call("a", ttft=S)]
    assert calls_of([{"file": "x.jsonl"}], files={"x.jsonl": lines}) == lines


# -- lawful calls ---------------------------------------------------------------------------------

TIME = st.floats(0, 10 * S)


@st.composite
def stated(draw: st.DrawFn) -> dict[str, Any]:
    names = [*OWNERS, *(f"ttft.{name}" for name in OWNERS), *(f"stall.{one}" for one in CAUSES)]
    names += ["ttft", "e2e", "queue.engine", "network.hold", "itl_p50", "stall_time", "cut_age"]
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=6))
    table: dict[str, Any] = {name: draw(TIME) for name in chosen}
    table["blind"] = draw(st.sampled_from([False, True, "queue prefill network", "decode"]))
    table["streamed"] = draw(st.booleans())
    table["first_token"] = draw(st.booleans())
    return table


@given(stated())
def test_whatever_is_stated_the_segments_add_up(table: dict[str, Any]) -> None:
    """To the whole, and their shares to the time to first token; and the bounds hold."""
    (line,) = calls_of([table])
    assert set(line) == {*KEYS}
    shares = {share["name"]: share for share in line["segments"]}
    assert [*shares] == [*SEGMENTS]
    assert sum(share["ns"] for share in shares.values()) == line["wall_ns"]
    assert sum(piece["ns"] for piece in line["unsplit"]) == shares["unattributed"]["ns"]
    for share in shares.values():
        assert 0 <= share["low_ns"] <= share["ns"] <= share["high_ns"] <= line["wall_ns"]
    if line["first_token_ns"] is None:
        assert {share["ttft_ns"] for share in shares.values()} == {None}
        return
    assert sum(share["ttft_ns"] for share in shares.values()) == line["first_token_ns"]
    assert line["first_token_ns"] <= line["wall_ns"]
    for share in shares.values():
        assert 0 <= share["ttft_low_ns"] <= share["ttft_ns"] <= share["ttft_high_ns"]
        assert share["ttft_ns"] <= share["ns"]


@pytest.mark.parametrize(
    ("table", "metric", "value"),
    [
        ({"ttft": S, "ttft.queue": 300 * MS}, "ttft.prefill", 700 * MS),
        ({"ttft": S, "ttft.queue": 3e8, "ttft.prefill": 3e8}, "ttft.network", 400 * MS),
        ({"ttft.queue": 300 * MS, "ttft.prefill": 300 * MS}, "ttft", 600 * MS),
        ({"ttft": S, "queue": 300 * MS}, "ttft.queue", 300 * MS),
        ({"ttft": S, "queue.engine": 300 * MS}, "ttft.queue", 300 * MS),
        ({"ttft": S, "ttft.queue": 3e8, "queue.engine": 2e8}, "queue", 300 * MS),
        ({"ttft": S, "e2e": 3 * S}, "decode", 2 * S),
        ({"ttft": S, "output_tokens": 101, "itl_p50": 10 * MS}, "e2e", 2 * S),
        ({"ttft": S, "output_tokens": 1}, "itl_p50", None),
        ({"ttft": S, "decode": 5 * S}, "e2e", 6 * S),
        ({"ttft": S, "decode": 5 * S, "stall.server_pause": S}, "decode", 5 * S),
        ({"ttft": S, "output_tokens": 1, "stall.server_pause": S}, "decode", S),
        ({"ttft": S, "stall.hold": S}, "network", S),
        ({"ttft": S, "stall.hold": S}, "itl_max", S),
        ({"ttft": S, "stall_time": S}, "unattributed", S),
        ({"streamed": False, "e2e": 3 * S, "blind": "queue prefill decode"}, "unattributed", 3e9),
        ({"first_token": False, "cancelled": True}, "e2e", S),
        ({"ttft": S, "ttft.queue.high": 5e8}, "ttft.queue.high", 5e8),
        ({"ttft": S, "queue.low": 5e8}, "queue.low", 5e8),
        ({"ttft": S, "at_once": True, "output_tokens": 50, "ttft.queue": 1e8}, "ttft.queue", 1e8),
        ({"ttft": S, "load_excess": 9 * S}, "load_excess", S),
        ({"money.total": 0.5}, "money.total", None),
        ({"service_tier.requested": "flex", "service_tier.served": "x"}, "tier_differs", 1),
        ({"rate_limit.limit_tokens": 9.0}, "limit_tokens", 9),
    ],
)
def test_what_is_stated_is_what_the_metrics_tell(
    table: dict[str, Any], metric: str, value: float | None
) -> None:
    (line,) = calls_of([table])
    if metric.startswith("money"):
        assert line["money"] == {"total": 0.5}
        return
    row = known(metric)
    assert row.of is not None
    assert row.of(line) == value


def test_a_timeout_before_any_answer_has_no_head() -> None:
    (line,) = calls_of([{"timed_out": True, "first_token": False, "e2e": 9 * S}])
    assert (line["headers_ns"], line["first_token_ns"], line["status"]) == (None, None, "error")
    assert line["error"] == {"type": "ReadTimeout", "phase": "first_token"}


def test_a_refused_call_that_failed_was_not_tried_again() -> None:
    (line,) = calls_of([{"failed": True, "refused": True}])
    assert [attempt["status"] for attempt in line["attempts"]] == [429]
    (line,) = calls_of([{"refused": True}])
    assert [attempt["status"] for attempt in line["attempts"]] == [429, 200]


def test_prompts_that_begin_alike_hash_alike() -> None:
    one, two, other = calls_of([{"n": 3, "begins": ["a", "a", "b"]}])
    hashes = [line["request"]["hashes"] for line in (one, two, other)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert len(hashes[0]) == 8 * 16


# -- cases ----------------------------------------------------------------------------------------

SLOW = page(
    symptom=(above("ttft", bound=Bound(against="baseline", times=1.3, by=100 * MS)),),
    evidence=(cause("queue", above("ttft.queue", bound=Bound(against="baseline", times=1.2))),),
)
CALLS = {"n": 60, "every": 30.0 * S, "ttft": 1.4 * S, "ttft.queue": 1.0 * S, "spread": 0.2}
BEFORE = {"n": 60, "every": 30.0 * S, "ttft": 0.4 * S, "ttft.queue": 20 * MS, "spread": 0.2}


def case(*calls: dict[str, Any], **more: Any) -> Case:
    return Case(**{"says": "one", "verdict": "open", "calls": calls, **more})


def test_a_case_is_judged_by_its_page() -> None:
    one = run_case(SLOW, case(CALLS, baseline=(BEFORE,)))
    assert (one.verdict, one.segment) == ("open", "queue")
    assert run_case(SLOW, case(BEFORE, baseline=(BEFORE,))).verdict == "not seen"
    assert run_case(SLOW, case(CALLS)).verdict == "insufficient evidence"
    fixed = run_case(SLOW, case(BEFORE, baseline=(BEFORE,), before=(CALLS,)))
    assert fixed.verdict == "resolved"


def test_calls_and_baseline_of_a_case_are_drawn_apart() -> None:
    one = run_case(SLOW, case(BEFORE, baseline=(BEFORE,))).evidence[0]
    assert one.value != one.baseline


def test_of_several_groups_the_most_open_one_counts() -> None:
    other = {**BEFORE, "model": "b"}
    one = run_case(SLOW, case(other, CALLS, baseline=(BEFORE, other)))
    assert (one.verdict, one.model) == ("open", "model-a")


def test_a_case_without_a_call_is_refused() -> None:
    with pytest.raises(UsageError, match="the case 'one' has no call"):
        run_case(SLOW, case())
    whole = replace(SLOW, scope="file")
    assert run_case(whole, case()).verdict == "not seen"
