"""Prompt counting and the prefix cache."""

from typing import Any

import pytest

from latscope.protocols.dialect import Api
from latscope.sim.prompt import BLOCK, PrefixCache, prompt_of, prompt_text, tokenise


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("   ", 0), ("word", 1), ("words", 2), ("a bc  def\nghij", 4), ("0123456789", 3)],
)
def test_a_token_is_at_most_four_characters_of_a_word(text: str, tokens: int) -> None:
    assert len(tokenise(text)) == tokens


@pytest.mark.parametrize("tokens", [1, 64, 6000])
def test_a_made_prompt_has_exactly_the_length_asked(tokens: int) -> None:
    assert len(tokenise(prompt_of(tokens))) == tokens


def test_made_prompts_differ_by_seed_from_their_first_block_on() -> None:
    assert prompt_of(200, "a") == prompt_of(200, "a")
    assert tokenise(prompt_of(200, "a"))[:BLOCK] != tokenise(prompt_of(200, "b"))[:BLOCK]


@pytest.mark.parametrize(
    ("api", "body", "text"),
    [
        ("chat", {"messages": [{"role": "user", "content": "hi"}]}, "user\nhi"),
        (
            "chat",
            {
                "messages": [{"content": [{"type": "text", "text": "hi"}], "role": "user"}],
                "tools": [{"type": "function", "function": {"name": "f", "strict": True}}],
                "user": "someone",
            },
            "f\nhi\nuser",
        ),
        ("completions", {"prompt": "once"}, "once"),
        ("completions", {"prompt": [12, 7]}, "12\n7"),
        ("responses", {"input": "x", "instructions": "be brief"}, "be brief\nx"),
        ("messages", {"system": "s", "messages": [{"role": "user", "content": "x"}]}, "s\nuser\nx"),
        ("messages", {"messages": None}, ""),
    ],
)
def test_the_prompt_is_all_text_a_model_reads(api: Api, body: dict[str, Any], text: str) -> None:
    assert prompt_text(api, body) == text


def test_only_whole_leading_blocks_are_shared() -> None:
    """What two prompts have in common, rounded down to blocks of 64 tokens."""
    cache = PrefixCache()
    prompt = [f"{n}" for n in range(300)]
    assert cache.cached(prompt) == 0
    cache.add(prompt)
    assert cache.cached(prompt) == 4 * BLOCK
    assert cache.cached([*prompt[:150], "other", *prompt[151:]]) == 2 * BLOCK
    assert cache.cached(["other", *prompt]) == 0
    assert cache.cached(prompt[:63]) == 0


def test_the_last_token_is_always_computed() -> None:
    """A prompt of whole blocks, seen before in full, still prefills its last block."""
    cache = PrefixCache()
    prompt = [f"{n}" for n in range(2 * BLOCK)]
    cache.add(prompt)
    assert cache.cached(prompt) == BLOCK


def test_a_block_counts_only_behind_the_same_blocks() -> None:
    """Equal text at another place in the prompt is another block."""
    cache = PrefixCache()
    first, second = ["a"] * BLOCK, ["b"] * BLOCK
    cache.add([*first, *second])
    assert cache.cached([*second, "x"]) == 0
    assert cache.cached([*first, *first, "x"]) == BLOCK


def test_the_least_recently_used_block_is_forgotten_first() -> None:
    cache = PrefixCache(limit=2)
    prompts = {name: [name] * BLOCK for name in "abc"}
    cache.add(prompts["a"])
    cache.add(prompts["b"])
    cache.add(prompts["a"])
    cache.add(prompts["c"])
    held = {name: cache.cached([*prompts[name], "x"]) for name in "abc"}
    assert held == {"a": BLOCK, "b": 0, "c": BLOCK}
