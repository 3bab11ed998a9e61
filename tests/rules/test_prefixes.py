"""Where a prompt broke the cache."""

from dataclasses import replace
from typing import Any

import pytest

from latscope.attribution.request import request_shape
from latscope.protocols.prefix import prefix
from latscope.rules.prefixes import (
    BLOCK,
    Break,
    Prompt,
    blocks,
    breaks,
    common,
    cost_of,
    judged,
    part_at,
    prefill_slope,
    prompt_of,
    resumed,
    reusable,
    slope_of,
)
from latscope.units import MS
from tests import calls as recorded
from tests.rules.made import call, calls

KEY = b"k"
WORDS = "The quick brown fox jumps over the lazy dog. "


def prompt(request: dict[str, Any], api: str = "chat", tokens: int | None = 1000) -> Prompt:
    """The prompt of a request as it would be recorded."""
    made = recorded.call(recorded.attempt(), api=api, request=request)
    shape = request_shape(replace(made, prefix=prefix(request, api, KEY)), api)
    assert shape is not None
    sizes = (shape.system_bytes, shape.tools_bytes, shape.history_bytes, shape.last_bytes)
    return Prompt(hashes=shape.hashes, parts=shape.parts, sizes=sizes, tokens=tokens)


def said(*turns: str, system: str = WORDS * 40) -> list[dict[str, str]]:
    roles = ["user", "assistant"] * len(turns)
    rest = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=False)]
    return [{"role": "system", "content": system}, *rest]


def chat(*turns: str, **more: Any) -> Prompt:
    return prompt({"messages": said(*turns, **more)})


Q, A, NEXT = "Why? " * 80, "Because. " * 60, "And then? " * 40


def test_a_prompt_that_carries_the_one_before_it_on_breaks_nothing() -> None:
    found = judged([chat(Q)], chat(Q, A, NEXT))
    assert found is not None
    assert (found.part, found.tokens, found.share) == (None, 0, 1.0)


@pytest.mark.parametrize(
    ("api", "before", "after", "part"),
    [
        (
            "chat",
            {"messages": said(Q)},
            {"messages": said(Q, A, NEXT, system="12:01. " + WORDS * 40)},
            "messages[0] system",
        ),
        (
            "chat",
            {"messages": said(Q, A, NEXT)},
            {"messages": said(Q, A[:400] + "No! " + A[400:], NEXT, A, Q)},
            "messages[2] assistant",
        ),
        (
            "messages",
            {"system": WORDS * 40, "messages": said(Q)[1:]},
            {"system": "12:01. " + WORDS * 40, "messages": said(Q, A, NEXT)[1:]},
            "system",
        ),
        (
            "responses",
            {"instructions": WORDS * 40, "input": said(Q)[1:]},
            {"instructions": "12:01. " + WORDS * 40, "input": said(Q, A, NEXT)[1:]},
            "instructions",
        ),
        (
            "responses",
            {
                "tools": [{"name": "a", "d": WORDS * 20}, {"name": "b", "d": WORDS * 20}],
                "input": said(Q)[1:],
            },
            {
                "tools": [{"name": "b", "d": WORDS * 20}, {"name": "a", "d": WORDS * 20}],
                "input": said(Q, A, NEXT)[1:],
            },
            "tools",
        ),
    ],
)
def test_the_first_part_that_changed_is_named(
    api: str, before: dict[str, Any], after: dict[str, Any], part: str
) -> None:
    found = judged([prompt(before, api)], prompt(after, api))
    assert found is not None
    assert found.part == part
    assert found.kept < found.due
    assert found.tokens is not None
    assert found.tokens > 0


def test_what_a_break_costs_is_what_was_due_and_is_not_shared() -> None:
    """A prompt of 1,000 tokens, a change at its very front: all of the prompt before it."""
    before, after = chat(Q), chat(Q, A, NEXT, system="x" + WORDS * 40)
    found = judged([before], after)
    assert found is not None
    each = 1000 / (blocks(before.hashes) - 0.5)
    assert found == Break(
        kept=0,
        due=blocks(before.hashes) - 1,
        part="messages[0] system",
        to="messages[0] system",
        at=0.0,
        tokens=round(each * (blocks(before.hashes) - 1)),
    )
    assert found.share == 0
    by_the_other = judged([replace(before, tokens=None)], replace(after, tokens=3000))
    assert by_the_other is not None
    assert by_the_other.tokens == round(
        3000 / (blocks(after.hashes) - 0.5) * (blocks(before.hashes) - 1)
    )
    unknown = judged([replace(before, tokens=None)], replace(after, tokens=None))
    assert unknown is not None
    assert unknown.tokens is None


def test_a_block_that_ends_in_the_next_part_names_both() -> None:
    """The change is in one of them: which, a hash of 256 bytes cannot tell."""
    found = judged([chat(Q, A, NEXT)], chat(Q, "No! " + A, NEXT, A, Q))
    assert found is not None
    assert (found.part, found.to) == ("messages[1] user", "messages[2] assistant")


def test_trimmed_history_breaks_it_at_the_first_message() -> None:
    before = chat(Q, A, NEXT, A, Q, A, NEXT)
    found = judged([before], chat(NEXT, A, Q, A, NEXT, A, Q))
    assert found is not None
    assert str(found.part).startswith(("messages[0]", "messages[1]"))
    assert 0 < found.share < 1


def test_calls_of_one_template_should_share_tools_and_system_text() -> None:
    """Where nothing is carried on, another last turn is no break."""
    same = judged([chat(Q)], chat(NEXT))
    assert same is not None
    assert same.part is None
    moved = judged(
        [chat(Q, system="12:00 " + WORDS * 40)], chat(NEXT, system="12:01 " + WORDS * 40)
    )
    assert moved is not None
    assert (moved.part, moved.kept) == ("messages[0] system", 0)


def test_another_conversation_of_one_template_is_not_its_continuation() -> None:
    """A history far shorter than the turns before it is another's."""
    found = judged([chat(Q * 9)], chat("Hi.", "Hello.", NEXT))
    assert found is not None
    assert found.part is None


def test_a_call_is_judged_by_its_like_not_by_its_neighbour() -> None:
    other = chat(Q, system="Route the question. " * 9)
    found = judged([chat(Q), other, other], chat(Q, A, NEXT))
    assert found is not None
    assert found.part is None
    assert judged([other], chat(NEXT)) is None


def test_nothing_is_said_where_nothing_was_due() -> None:
    assert judged([], chat(Q)) is None
    assert judged([chat(Q)], Prompt()) is None
    short = prompt({"messages": [{"role": "user", "content": "hi"}]})
    assert judged([short], short) is None
    bare = Prompt(hashes=chat(Q).hashes)
    assert judged([bare], bare) is None


def test_a_template_of_another_size_that_shares_its_front_is_none_of_ours() -> None:
    long = chat(Q, system=WORDS * 80)
    assert judged([chat(Q)], long) is None


def test_a_first_call_of_a_session_is_judged_by_its_place() -> None:
    one, other = chat(Q), chat(NEXT)
    rows = [("a", "p", False, one), (None, "p", False, other), ("b", "q", False, other)]
    found = [*breaks(rows)]
    assert [broken is None for broken in found] == [True, False, True]
    assert [*breaks([("a", "p", False, one), ("a", "p", True, other)])][1] is None


def test_a_request_that_leaves_the_history_to_the_server_is_known() -> None:
    assert resumed({"previous_response_id": "r"})
    assert resumed({"api": "responses", "session_id": "conv"})
    assert not resumed({"api": "chat", "session_id": "conv"})
    half = call(previous_response_id="r", input_tokens=900, request__last_bytes=7)
    assert prompt_of(half).shares is None


def test_common_blocks_are_found_by_halving() -> None:
    one = chat(Q).hashes
    assert common(one, one) == blocks(one)
    assert common(one, "") == 0
    for kept in range(blocks(one)):
        other = one[: kept * 16] + "0" * (len(one) - kept * 16)
        assert common(one, other) == kept


def test_where_a_block_begins() -> None:
    parts = (("tools", 2), ("messages[0] system", 3))
    assert [part_at(parts, at) for at in (0, 1, 2, 4, 9)] == [
        "tools",
        "tools",
        *["messages[0] system"] * 3,
    ]
    assert part_at((), 0) is None


def test_what_a_cache_can_serve_is_known_to_a_block() -> None:
    """Ten and a half blocks, 1,050 tokens: 100 a block; the engine keeps 16 at a time."""
    made = Prompt(hashes="0" * 16 * 11, tokens=1050)
    assert reusable(0, made) == (0, 100)
    assert reusable(3, made, 16) == (288, 400)
    assert reusable(11, made) == (1050, 1050)
    longer = Prompt(hashes="0" * 16 * 21, tokens=4100)
    assert reusable(3, longer, 16, made) == (288, 400)
    assert reusable(3, longer, 16, Prompt(hashes=made.hashes)) == (592, 800)
    assert reusable(3, Prompt(hashes="0" * 32)) is None
    assert reusable(3, Prompt(tokens=5)) is None


def test_shares_are_of_bytes() -> None:
    assert Prompt(sizes=(10, 20, 30, 40)).shares == (0.1, 0.2, 0.3, 0.4)
    assert Prompt().shares is None
    assert BLOCK == 256


def test_a_prompt_is_read_from_a_call() -> None:
    made = call(
        input_tokens=50,
        cached_tokens=20,
        request__system_bytes=5,
        request__last_bytes=7,
        begins="x",
    )
    found = prompt_of(made)
    assert (found.sizes, found.tokens, found.cached) == ((5, 0, 0, 7), 50, 20)
    assert blocks(found.hashes) == 8
    assert prompt_of({}) == Prompt()


def test_the_price_of_a_break() -> None:
    broken = Break(kept=0, due=4, part="system", to="system", at=0.0, tokens=100)
    priced = {"money": {"rates": {"input": 3e-6, "cached_input": 3e-7}}}
    ns, cost = cost_of(broken, priced, 1000.0)
    assert ns == 100_000
    assert cost == pytest.approx(100 * 2.7e-6)
    assert cost_of(broken, {}, None) == (None, None)
    assert cost_of(replace(broken, tokens=None), priced, 1000.0) == (None, None)


def test_the_slope_of_prefill_is_the_servers_own_where_it_states_it() -> None:
    """100 us a token, on a base; a time to first token that says 200 is not asked."""
    made = [
        call(f"c{size}", input_tokens=size, cached_tokens=0, ttft=size * 2 * MS // 10)
        for size in range(100, 1100, 100)
    ]
    for one in made:
        share = next(part for part in one["segments"] if part["name"] == "prefill")
        share |= {"ns": 5 * MS + one["input_tokens"] * MS // 10, "provenance": "reported"}
    found = prefill_slope(made)
    assert found is not None
    assert found.value == pytest.approx(MS / 10)
    for one in made:
        next(part for part in one["segments"] if part["name"] == "prefill")["ns"] = 0
    waited = prefill_slope(made)
    assert waited is not None
    assert waited.value == pytest.approx(MS / 5)


def test_no_slope_is_told_of_few_calls_like_prompts_or_noise() -> None:
    assert prefill_slope(calls("input_tokens", [100, 200, 300])) is None
    assert slope_of([100.0] * 9, range(9)) is None
    assert slope_of([100.0, 200.0] * 5, [5.0, 5.0] * 5) is None
    assert slope_of([None, 0, 5], [1, 1, None]) is None
    many = slope_of(range(1, 1000), [float(n) for n in range(1, 1000)])
    assert many is not None
    assert (many.value, many.n) == (1.0, 250)
