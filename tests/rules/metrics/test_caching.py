"""What the vendors' caches could do for a call, and what they did."""

from collections.abc import Sequence
from typing import Any

import pytest

from latscope.rules.cacheable import rule_of
from latscope.rules.metrics.caching import ROWS
from latscope.rules.metrics.metric import Value
from latscope.units import S

TABLE = {row.name: row for row in ROWS}


def of(name: str, **call: Any) -> Value:
    row = TABLE[name]
    assert row.of is not None
    return row.of({"mode": "vendor", "model": "gpt-5.6-sol", **call})


def over(name: str, **columns: Sequence[Value]) -> Sequence[Value]:
    row = TABLE[name]
    assert row.over is not None
    return row.over(columns)


def hashes(*blocks: int) -> str:
    return "".join(f"{block:016x}" for block in blocks)


# -- the vendors' rules ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "minimum"),
    [
        ("claude-opus-5", 512),
        ("claude-opus-5-5", 512),
        ("claude-opus-4-8", 1024),
        ("claude-sonnet-4-20250514", 1024),
        ("claude-sonnet-4.6", 1024),
        ("claude-opus-4-7", 2048),
        ("claude-3-5-haiku-20241022", 2048),
        ("claude-3-haiku-20240307", 2048),
        ("anthropic.claude-haiku-4-5-20251001-v1:0", 4096),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 4096),
    ],
)
def test_anthropic_states_a_minimum_by_model(model: str, minimum: int) -> None:
    rule = rule_of(model)
    assert rule is not None
    assert (rule.minimum, rule.explicit, rule.ttl_ns) == (minimum, True, 300 * S)


@pytest.mark.parametrize(
    ("model", "minutes"),
    [
        ("gpt-4o-mini", 10),
        ("gpt-4.1", 10),
        ("gpt-5-2025-08-07", 10),
        ("openai/gpt-5.5", 10),
        ("o3", 10),
        ("gpt-5.6-sol", 30),
        ("gpt-6", 30),
    ],
)
def test_openai_caches_by_itself_from_1024_tokens_on(model: str, minutes: int) -> None:
    rule = rule_of(model)
    assert rule is not None
    assert (rule.minimum, rule.explicit, rule.ttl_ns) == (1024, False, minutes * 60 * S)


@pytest.mark.parametrize(
    "model",
    [None, "", "gpt-4-turbo", "gpt-3.5-turbo", "gpt-oss-20b", "llama-3-8b", "claude-2.1",
     "claude-opus-9", "claude-instant", "chat"],
)  # fmt: skip
def test_of_other_models_nothing_is_said(model: str | None) -> None:
    assert rule_of(model) is None


def test_a_prompt_fills_its_minimum_or_does_not() -> None:
    assert of("cache_minimum") == 1024.0
    assert of("cache_fill", input_tokens=512) == 0.5
    assert of("below_minimum", input_tokens=1023) == 1.0
    assert of("below_minimum", input_tokens=1024) == 0.0
    assert of("below_minimum", input_tokens=None) is None


def test_an_engine_of_ones_own_has_no_vendor_rule() -> None:
    assert of("cache_minimum", mode="self-hosted") is None
    assert of("cache_fill", mode="self-hosted", input_tokens=10) is None
    assert of("vendor_ttl", mode="self-hosted") is None


def test_an_explicit_cache_lives_as_long_as_the_request_asks() -> None:
    claude = "claude-sonnet-5"
    assert of("vendor_ttl", model=claude, request={"cache_ttl_ns": 3600 * S}) == 3600.0 * S
    assert of("vendor_ttl", model=claude, request=None) is None
    assert of("vendor_ttl") == 1800.0 * S


# -- the same prompt again ------------------------------------------------------------------------


def test_prompts_that_begin_alike_have_one_key() -> None:
    same = [*range(8)]
    one = of("prefix_key", request={"hashes": hashes(*same, 90, 91)}, session_id="s")
    two = of("prefix_key", request={"hashes": hashes(*same, 70)}, session_id="t")
    assert one == two == f"prefix {7:016x}"


def test_without_hashes_the_session_tells_and_without_both_nothing() -> None:
    assert of("prefix_key", request={"hashes": hashes(1, 2)}, session_id="s") == "session s"
    assert of("prefix_key", session_id=None) is None


def test_the_ladder_holds_the_hashes_at_doubling_depths() -> None:
    told = of("prefix_ladder", request={"hashes": hashes(*range(40))})
    assert told == hashes(7, 15, 31)
    assert of("prefix_ladder", request={"hashes": hashes(*range(7))}) is None


def test_a_block_has_its_share_of_the_tokens() -> None:
    request = {"hashes": hashes(*range(10))}
    assert of("block_tokens", request=request, input_tokens=640) == 64.0
    assert of("block_tokens", request=request, input_tokens=None) is None
    assert of("block_tokens", input_tokens=640) is None


def ages(
    keys: Sequence[Value],
    ladders: Sequence[Value],
    at: Sequence[Value],
    tokens: Value = None,
    least: Value = None,
) -> Sequence[Value]:
    return over(
        "same_prefix_age",
        prefix_key=keys,
        prefix_ladder=ladders,
        block_tokens=[tokens] * len(at),
        cache_minimum=[least] * len(at),
        started_ns=at,
    )


def test_age_counts_from_the_last_call_of_the_same_key() -> None:
    at = [0.0, 10.0 * S, 400.0 * S, 401.0 * S]
    found = ages(["a", "b", "a", None], [None] * 4, at)
    assert found == [None, None, 400.0 * S, None]
    ttl: list[Value] = [300.0 * S, 300.0 * S, 300.0 * S, 300.0 * S]
    assert over("past_ttl", same_prefix_age=found, vendor_ttl=ttl) == [None, None, 1.0, None]
    assert over("past_ttl", same_prefix_age=[9.0 * S], vendor_ttl=[300.0 * S]) == [0.0]


def test_age_is_that_of_the_longest_beginning_that_had_been_sent() -> None:
    """The second call shares its system text with the first, the third its document too."""
    system, one, other = "5" * 16, "1" * 16, "2" * 16
    at = [0.0, 200.0 * S, 500.0 * S]
    ladders: list[Value] = [system + one, system + other, system + one]
    assert ages(["prefix 5"] * 3, ladders, at) == [None, 200.0 * S, 500.0 * S]
    # 8 blocks of 100 tokens are too short for the cache, 16 are not: the system text alone is no
    # beginning that could have been kept.
    assert ages(["prefix 5"] * 3, ladders, at, 100.0, 1024.0) == [None, None, 500.0 * S]
    # Of a prompt that is too short itself the deepest counts.
    assert ages(["prefix 5"] * 3, ladders, at, 10.0, 1024.0) == [None, None, 500.0 * S]


def seen(**columns: Sequence[Value]) -> Sequence[Value]:
    n = len(columns["started_ns"])
    nothing: dict[str, Sequence[Value]] = {
        name: [None] * n
        for name in ("prefix_ladder", "prefix_key", "block_tokens", "input_tokens", "output_tokens")
    }
    return over("seen_prefix", **{**nothing, **columns})


def test_a_prefix_counts_as_seen_once_its_call_has_answered_and_for_a_minute() -> None:
    deep = hashes(7, 15, 31)
    found = seen(
        started_ns=[0.0, 0.5 * S, 2.0 * S, 3.0 * S, 90.0 * S],
        prefix_ladder=[deep, deep, deep, hashes(7, 99), deep],
        block_tokens=[64.0] * 5,
        ttft=[1.0 * S] * 5,
    )
    assert found == [0.0, 0.0, 32 * 64.0, 8 * 64.0, 0.0]


def test_of_a_prompt_without_hashes_or_an_answer_nothing_is_seen() -> None:
    found = seen(
        started_ns=[0.0, 5.0 * S, 9.0 * S],
        prefix_ladder=[hashes(7), None, hashes(7)],
        block_tokens=[64.0, None, 64.0],
        ttft=[None, 1.0 * S, 1.0 * S],
    )
    assert found == [0.0, None, 0.0]


def test_without_hashes_a_session_whose_prompt_grew_resends_what_it_had() -> None:
    found = seen(
        started_ns=[0.0, 5.0 * S, 10.0 * S, 10.5 * S, 20.0 * S, 200.0 * S],
        prefix_key=["session a"] * 6,
        ttft=[1.0 * S] * 6,
        input_tokens=[1000.0, 1200.0, 1210.0, 2000.0, None, 3000.0],
        output_tokens=[200.0, 100.0, None, 100.0, 100.0, 100.0],
    )
    # The third has lost something, the fourth began before the third had answered, the last came
    # after more than a minute.
    assert found == [None, 1000.0, None, None, None, None]


def test_calls_of_no_session_resend_nothing() -> None:
    found = seen(
        started_ns=[0.0, 5.0 * S],
        ttft=[1.0 * S] * 2,
        input_tokens=[1000.0, 1200.0],
        output_tokens=[100.0, 100.0],
    )
    assert found == [None, None]


def test_a_miss_is_less_than_half_of_what_was_seen() -> None:
    found = over(
        "repeat_miss",
        seen_prefix=[2000.0, 2000.0, 400.0, None, 2000.0],
        cached_tokens=[999.0, 1000.0, 0.0, 0.0, None],
    )
    assert found == [1.0, 0.0, None, None, None]
