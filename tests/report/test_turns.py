"""Turns as text and as JSON."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from rich.text import Text

from latscope.recording import ServerSpan
from latscope.report.money import money as spoken
from latscope.report.turnjson import SCHEMA, to_mapping
from latscope.report.turns import session_lines, turn_lines, turn_table
from latscope.rules.inbound import Inbound, with_inbound
from latscope.rules.turns import Session, sessions, with_tools
from latscope.units import S, wall_s
from tests.rules.made import call

ZERO = round(wall_s("2026-01-05T09:00:00Z")) * S
RATES: Mapping[Any, float | None] = {
    ("model-a", "https://api.example.com/v1/chat/completions"): 100_000.0
}


def at(seconds: float, lasts: float = 0.5, **more: Any) -> dict[str, Any]:
    made = call(
        f"c{seconds}",
        round(seconds * S),
        **{"turn": "t", "e2e": round(lasts * S), "ttft": round(lasts * S / 5), **more},
    )
    made.setdefault("money", None)
    return made


def paid(made: dict[str, Any], total: float | None, why: str = "") -> dict[str, Any]:
    parts = {"uncached_input": total, "cached_input": 0.0, "cache_write": 0.0, "output": 0.0}
    money = {
        "total": total, **parts, "reasoning": None, "visible": None,
        "currency": None if total is None else "USD",
        "source": None if total is None else "list", "why": why,
        "rates": None if total is None else {"input": 2e-6, "cached_input": 1e-6},
    }  # fmt: skip
    return {**made, "money": money}


def prompt(made: dict[str, Any], blocks: str, history: int = 0) -> dict[str, Any]:
    made["request"] = {
        "system_bytes": 512, "tools_bytes": 0, "history_bytes": history, "last_bytes": 512,
        "messages": 2, "tools": 0, "tool_results": 1 if history else 0,
        "hashes": "".join(letter * 16 for letter in blocks),
        "parts": [["messages[0] system", 2], ["messages[1] user", len(blocks) - 2]],
    }  # fmt: skip
    made |= {"input_tokens": 100 * len(blocks), "cached_tokens": 100, "output_tokens": 20}
    return made


def rich_turn() -> Session:
    """A loop of four calls, the third of which broke the cache; a tool in the first gap."""
    made = [
        paid(prompt(at(0), "abcd"), 0.001),
        paid(prompt(at(1.5), "abcdef", 700), 0.002),
        paid(prompt(at(3), "uvwxyz", 900), 0.003),
        paid(prompt(at(3.51), "uvwxyzst", 1200), 0.004),
    ]
    span = ServerSpan(
        name="execute_tool search", source="", service="app", trace_id="f" * 32, span_id="1" * 16,
        kind="internal", start_unix_ns=ZERO + 6 * S // 10, duration_ns=S // 2,
    )  # fmt: skip
    (found,) = with_tools(sessions(made), [span])
    return found


def several() -> list[Session]:
    made = [
        paid(at(9 * n, session="conv", turn=f"t{n}", input_tokens=100 + 50 * n), 0.01 + 0.002 * n)
        for n in range(4)
    ]
    return sessions([*made, at(99, turn="x", input_tokens=7), at(120, turn=None)])


def plain(lines: Any) -> str:
    return "\n".join(line.plain for line in lines)


def waterfall(session: Session, width: int = 100, colours: bool = False) -> str:
    return plain(turn_lines(session.turns[0], RATES, width=width, colours=colours))


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("colours", [True, False])
def test_every_line_fits(width: int, colours: bool) -> None:
    made = several()
    many = sessions([at(number / 2, 0.4) for number in range(40)])
    odd = sessions([at(0, 3), at(1, 0.001, status="error"), at(5)])
    lines: list[Text] = [*session_lines(made, width=width)]
    lines += turn_table(made[0], RATES, width=width)
    for session in (rich_turn(), *made, *many, *odd):
        lines += turn_lines(session.turns[0], RATES, width=width, colours=colours)
    assert max(line.cell_len for line in lines) <= width


def test_a_turn_tells_its_calls_its_gaps_and_what_to_do() -> None:
    said = waterfall(rich_turn())
    assert "✓ 4 calls in 4.0 s" in said.replace("4010 ms", "4.0 s")
    for text in (
        "outside them",
        "1000 ms search",
        "1000 ms you",
        "tools: search 500 ms; no span tells of the other 1510 ms",
        "calls 1 to 4: each goes on from the one before, 3 tool results in 3 rounds",
        "2 suffice if no tool waits for another's result",
        "the 2 calls between took 1000 ms and $0.0050",
        "call 3 in messages[0] system, 0 % into the prompt: about",
        "of the last call, by bytes: system 23 %, history 54 %, last turn 23 %",
        "tokens of what was said before in these prompts",
        "uncached input $0.010 (list)",
    ):
        assert " ".join(text.split()) in " ".join(said.split()), text


def test_calls_stand_at_their_place_on_the_axis() -> None:
    """A call of half the turn that begins at a half fills the right half of its bar."""
    (found,) = sessions([at(0, 1), at(1, 1)])
    first, second = [line for line in waterfall(found).splitlines() if line.startswith("call ")]
    bar = slice(13, 13 + len(first[13:].split("  ")[0]))
    assert first[bar].strip()
    assert len(first[bar].rstrip()) == pytest.approx(len(second[13:].rstrip()) / 2, abs=20)
    assert second[13 : 13 + len(first[bar].rstrip()) - 1].strip() == ""


def test_a_long_turn_is_folded_in_the_middle() -> None:
    said = waterfall(sessions([at(number, 0.9) for number in range(40)])[0])
    rows = [line for line in said.splitlines() if line.startswith(("call ", "… "))]
    assert len(rows) == 16 + 1 + 5
    assert rows[16].startswith("… 19 more")


def test_calls_at_once_show_the_critical_path() -> None:
    said = waterfall(sessions([at(0, 3), at(0.1, 1), at(4, 1)])[0])
    assert "call 1 •" in said
    assert "call 2 •" not in said
    assert "• on the critical path" in said


def test_what_failed_is_said() -> None:
    said = waterfall(sessions([at(0), at(1, status="error")])[0])
    assert "✗ 2 calls in 1500 ms · 1 error" in said
    assert "call 2 ✗" in said


def test_calls_of_one_template_one_after_the_other() -> None:
    more: dict[str, Any] = {"begins": "x", "messages": 2}
    said = waterfall(sessions([at(0, 1, **more), at(2, 1, **more)])[0])
    assert "calls 1 to 2 ask the same of other input" in said


def test_more_than_three_breaks_are_counted() -> None:
    made = [prompt(at(number), letter * 4) for number, letter in enumerate("abcdefg")]
    said = waterfall(sessions(made)[0])
    assert "and 3 more calls" in said
    assert "unknown number" not in said
    for one in made:
        one["input_tokens"] = None
    assert "an unknown number of tokens" in waterfall(sessions(made)[0])


def test_what_is_not_known_of_money_is_said() -> None:
    said = waterfall(sessions([paid(at(0), None, "no list price of model-a")])[0])
    assert "— total unknown: no list price of model-a" in said
    assert "$" not in said


def test_many_tools_are_named_by_the_time_they_took() -> None:
    spans = [
        ServerSpan(
            name=f"execute_tool t{number}",
            source="",
            service="",
            trace_id="f" * 32,
            span_id=f"{number + 1:016x}",
            kind="",
            start_unix_ns=ZERO + S,
            duration_ns=S * (number + 1) // 10,
        )
        for number in range(5)
    ]
    said = waterfall(with_tools(sessions([at(0), at(3)]), spans)[0])
    assert "tools: t4 500 ms, t3 400 ms, t2 300 ms and 2 more tools; no span" in said


def test_sessions_are_a_table() -> None:
    said = plain(session_lines(several(), width=120)).splitlines()
    assert said[0].split() == [
        "session", "turns", "calls", "in", "calls", "outside", "prompt", "a", "turn", "cost",
        "cost", "a", "turn", "TTFT", "a", "turn",
    ]  # fmt: skip
    assert "conv" in said[1]
    assert "100 → 250" in said[1]
    assert "+50" in said[1]
    assert "+$0.0020" in said[1]
    assert said[3].startswith("(alone)")
    assert "cost" not in plain(session_lines(several(), width=60))


def test_a_sessions_turns_are_a_table() -> None:
    said = plain(turn_table(several()[0], RATES, width=120)).splitlines()
    assert "added" in said[0]
    assert "+50" in said[2]
    assert len(said) == 5


def test_json_holds_all_of_it() -> None:
    """The sum of calls and gaps is the turn; a break has its price in tokens, time and money."""
    found = json.loads(json.dumps(to_mapping(rich_turn(), RATES)))
    assert (found["schema"], found["tie"], found["calls"]) == (SCHEMA, "turn", 4)
    (turn,) = found["turns"]
    assert turn["model_ns"] + turn["outside_ns"] == turn["wall_ns"]
    assert [gap["owner"] for gap in turn["gaps"]] == ["you"] * 3
    assert turn["gaps"][0]["tools"] == [{"name": "search", "ns": S // 2}]
    assert turn["loops"][0]["suffice"] == 2
    broken = turn["calls"][2]["prefix"]
    assert broken["broken_in"] == "messages[0] system"
    assert broken["ns"] == broken["tokens"] * 100_000
    assert broken["money"] == pytest.approx(broken["tokens"] * 1e-6)
    assert turn["calls"][0]["prefix"] is None
    assert found["money"]["total"] == pytest.approx(0.01)
    assert found["slopes"]["input_tokens"] is None
    grown = to_mapping(several()[0], RATES)["slopes"]["input_tokens"]
    assert (grown["value"], grown["turns"]) == (50, 4)


@pytest.mark.parametrize(
    ("value", "currency", "said"),
    [
        (None, None, "—"),
        (0.0, "USD", "$0.00"),
        (12.345, "USD", "$12.35"),
        (0.0123, "EUR", "€0.012"),
        (0.00000123, "USD", "$0.0000012"),
        (1234.5, "CHF", "1 234.50 CHF"),
        (-0.5, "USD", "-$0.50"),
    ],
)
def test_money_as_text(value: float | None, currency: str | None, said: str) -> None:
    assert spoken(value, currency) == said
    assert spoken(0.5, "USD", signed=True) == "+$0.50"


# -- the request a turn was made for ---------------------------------------------------------------


def asked(**more: Any) -> Inbound:
    """Six seconds from the clock's zero; its first byte 3.15 s in."""
    given: dict[str, Any] = {
        "turn": "t", "started_at": "2026-01-05T09:00:00.000000Z", "wall_ns": 6 * S,
        "first_byte_ns": 3150 * S // 1000, "status": 200, "method": "POST", "route": "/chat",
    }  # fmt: skip
    return Inbound(**(given | more))


def served(*requests: Inbound) -> Session:
    (session,) = with_inbound(sessions([at(1), at(3)]), requests)
    return session


def told(*requests: Inbound, width: int = 100) -> list[str]:
    (turn,) = served(*requests).turns
    return [line.plain for line in turn_lines(turn, RATES, width=width, colours=False)]


def test_a_request_lies_around_its_calls() -> None:
    """With its first byte where it left; the stretches before the first call and after the last
    have their rows, in order of time."""
    lines = told(asked())
    rows = [line.split()[0] for line in lines if line.startswith(("request", "  outside", "call "))]
    assert rows == ["request", "outside", "call", "outside", "call", "outside"]
    row = next(line for line in lines if line.startswith("request"))
    bar = row[13:-9]
    assert row.endswith(" 6000 ms")
    assert set(bar) == {"─", "◆"}
    assert abs(bar.index("◆") - 3.15 / 6 * len(bar)) <= 1
    assert "◆ first byte of your answer" in lines


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            asked(),
            "POST /chat after 3150 ms: 3000 ms until call 2 began, 100 ms to its first"
            " token, 50.0 ms from there, yours",
        ),
        (asked(first_byte_ns=S // 2, route=None), "POST after 500 ms, before any model's first"),
        (
            asked(first_byte_ns=None, end="error", detail="ValueError", method="", route=None),
            "your service sent none; failed (ValueError)",
        ),
        (asked(end="cut"), "yours; cut"),
        (asked(first_byte_ns=4 * S), "call 2 was over by then: nothing of its stream was passed"),
    ],
)
def test_the_first_byte_is_told(request_: Inbound, said: str) -> None:
    lines = " ".join(" ".join(told(request_)).split())
    assert said in lines


@pytest.mark.parametrize("width", [50, 80, 100, 200])
def test_a_request_fits_the_width(width: int) -> None:
    lines = told(asked(), asked(end="cut", wall_ns=1, first_byte_ns=1), width=width)
    assert all(len(line) <= width for line in lines)
    assert sum(line.startswith("request") for line in lines) == 2
    assert any(line.startswith("request ✗") for line in lines)


def test_json_has_the_request_and_its_split() -> None:
    (turn,) = to_mapping(served(asked(), asked(first_byte_ns=None)), RATES)["turns"]
    first, second = turn["inbound"]
    assert first["first_byte"] == {
        "call": "c3", "before_ns": 3 * S, "ttft_ns": S // 10, "after_ns": S // 20, "held": False,
    }  # fmt: skip
    assert (first["at_ns"], first["wall_ns"], first["route"]) == (0, 6 * S, "/chat")
    assert second["first_byte"] is None
    (bare,) = to_mapping(served(), RATES)["turns"]
    assert bare["inbound"] == []
