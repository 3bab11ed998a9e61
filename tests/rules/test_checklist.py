"""The integration checklist: which habits a file's calls keep, and whose do not."""

from collections.abc import Iterable
from typing import Any

import pytest

from latscope.rules.checklist import NAMES, Item, checklist
from latscope.rules.metrics.metric import Call
from latscope.rules.table import Gathered, gather
from latscope.units import MS, S
from tests.rules.made import call

GOOD: dict[str, Any] = {
    "ttft": 400 * MS,
    "itl_p50": 20 * MS,
    "input_tokens": 1000,
    "cached_tokens": 250,
    "output_tokens": 100,
    "max_output_tokens": 512,
    "usage_asked": True,
    "traced": True,
}
IDS = [
    "split-metrics",
    "output-capped",
    "caps-unchanged",
    "prompt-lengths",
    "cached-shares",
    "usage-requested",
    "cache-fields",
    "trace-context",
]


def lines(n: int = 20, **changes: Any) -> list[Call]:
    stated = {**GOOD, **changes}
    return [
        call(f"{at}", at * S, **{key: value for key, value in stated.items() if value is not ...})
        for at in range(n)
    ]


def gathered(calls: Iterable[Call]) -> Gathered:
    return gather(calls, NAMES)


def items(calls: Iterable[Call], baseline: Iterable[Call] | None = None) -> dict[str, Item]:
    found = checklist(gathered(calls), None if baseline is None else gathered(baseline))
    return {item.id: item for item in found}


def test_calls_that_keep_every_habit() -> None:
    found = items(lines(), lines())
    assert [*found] == IDS
    assert all(item.met for item in found.values())
    assert [item.id for item in found.values() if item.warns] == ["caps-unchanged"]


@pytest.mark.parametrize(
    ("id", "changes"),
    [
        ("split-metrics", {"streamed": False, "e2e": S, "ttft": ..., "itl_p50": ...}),
        ("output-capped", {"uncapped": True}),
        ("prompt-lengths", {"input_tokens": ...}),
        ("cached-shares", {"cached_tokens": ...}),
        ("cache-fields", {"cached_tokens": ...}),
        ("usage-requested", {"usage_asked": False}),
        ("trace-context", {"traced": False}),
    ],
)
def test_a_habit_that_is_not_kept_names_who_does_not(id: str, changes: dict[str, Any]) -> None:
    others = [{**line, "model": "model-b"} for line in lines(**changes)]
    found = items([*lines(), *others])
    assert found[id].met is False
    assert found[id].why.endswith("model-b at https://api.example.com/v1/chat/completions")
    assert "model-a" not in found[id].why


def test_distributions_are_the_proof() -> None:
    found = items([*lines(10, input_tokens=1000), *lines(10, input_tokens=9000)])
    said = "20 of 20 tell input_tokens (p50 1,000 tokens, p95 9,000 tokens)"
    assert found["prompt-lengths"].why == said
    assert "(p50 2.78 %, p95 25 %)" in found["cached-shares"].why


def test_one_answer_that_states_cached_tokens_is_enough() -> None:
    found = items([*lines(19, cached_tokens=...), *lines(1)])
    assert found["cache-fields"].met is True
    assert found["cached-shares"].met is False


def test_an_api_that_states_usage_unasked_needs_no_asking() -> None:
    assert items(lines(usage_asked=...))["usage-requested"].met is True


def test_where_usage_is_missing_and_nothing_says_whether_it_was_asked_for() -> None:
    found = items(lines(usage_asked=..., usage_seen=False))["usage-requested"]
    assert found.met is None


def test_no_complete_call_tells_nothing() -> None:
    found = items(lines(cut=True))
    assert found["split-metrics"].met is None
    assert found["split-metrics"].why == "no call tells"
    assert found["cache-fields"].met is None


def test_many_who_fall_short_are_counted() -> None:
    bare = [{**line, "model": f"m{n}"} for n in range(5) for line in lines(traced=False)]
    assert items(bare)["trace-context"].why.endswith("and 2 more")


def test_a_group_without_a_name_is_still_named() -> None:
    bare = [{**line, "model": None, "endpoint": None} for line in lines(traced=False)]
    assert items(bare)["trace-context"].why.endswith("not no model at no endpoint")


# -- caps against the baseline ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ({"max_output_tokens": 4096}, {}, "raised from 512 tokens to 4,096 tokens"),
        (
            {"uncapped": True},
            {},
            "removed (100 % of the calls state none, 0 % did in the baseline)",
        ),
        ({"uncapped": True}, {"uncapped": True}, None),
        ({"max_output_tokens": 256}, {}, None),
        ({"max_output_tokens": 540}, {}, None),
        ({}, {"uncapped": True}, None),
    ],
)
def test_a_raised_or_removed_cap_warns(
    now: dict[str, Any], then: dict[str, Any], said: str | None
) -> None:
    found = items(lines(**now), lines(**then))["caps-unchanged"]
    assert found.warns
    assert found.met is (said is None)
    if said is not None:
        assert found.why == f"model-a at https://api.example.com/v1/chat/completions: {said}"


def test_one_use_of_several_that_raises_its_cap_is_seen() -> None:
    then = [*lines(180), *lines(20, max_output_tokens=1024)]
    now = [*lines(180), *lines(20, max_output_tokens=8192)]
    found = items(now, then)["caps-unchanged"]
    assert found.met is False
    assert "raised from 1,024 tokens to 8,192 tokens" in found.why


def test_caps_are_not_compared_with_nothing() -> None:
    assert items(lines())["caps-unchanged"].why == "needs --baseline"
    other = [{**line, "model": "model-b"} for line in lines()]
    for baseline in (other, lines(3), lines(max_output_tokens=..., usage_asked=...)):
        found = items(lines(), baseline)["caps-unchanged"]
        assert found.met is None
        assert found.why.startswith("the baseline has no calls of the same model")
