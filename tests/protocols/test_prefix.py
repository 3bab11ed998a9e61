"""Prefix hashes: equal beginnings have equal hashes, and nothing else does."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latscope.errors import UsageError
from latscope.protocols.prefix import BLOCK, prefix

KEY = b"k" * 32


def hashes(request: dict[str, Any], api: str = "chat", key: bytes = KEY) -> list[str]:
    return [row["hash"] for row in prefix(request, api, key)]


def parts(request: dict[str, Any], api: str) -> list[str]:
    """The parts in the order they first appear."""
    return list(dict.fromkeys(row["part"] for row in prefix(request, api, KEY)))


def shared(one: list[str], two: list[str]) -> int:
    """How many leading hashes are equal; none further on may be."""
    count = next((i for i, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), None)
    if count is None:
        return min(len(one), len(two))
    assert not set(one[count:]) & set(two[count:])
    return count


def said(*texts: str, role: str = "user") -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for text in texts]}


def test_a_row_is_a_hash_of_8_bytes_and_a_part() -> None:
    """And holds nothing of the prompt."""
    (row,) = prefix(said("hello"), "chat", KEY)
    assert sorted(row) == ["hash", "part"]
    assert bytes.fromhex(row["hash"])
    assert len(row["hash"]) == 16
    assert row["part"] == "messages[0]"


def test_hashes_depend_on_the_key() -> None:
    """Keys of any length; a key longer than BLAKE2b takes counts whole."""
    long = b"k" * 64
    keys = [KEY, b"j" * 32, long, long + b"a", long + b"b"]
    assert len({hashes(said("hello"), key=key)[0] for key in keys}) == len(keys)


def test_no_key_no_hashes() -> None:
    """An unkeyed hash could be tested against guesses."""
    with pytest.raises(UsageError, match="need a key"):
        prefix(said("hello"), "chat", b"")


@settings(deadline=None)
@given(
    st.text("ab", min_size=0, max_size=900),
    st.text("cd", min_size=1, max_size=400),
    st.text("ef", min_size=1, max_size=400),
)
def test_prompts_share_the_blocks_of_their_common_beginning(same: str, a: str, b: str) -> None:
    """Exactly those that end before the first difference."""
    head = len(b'\x1e"user"\x1f\x1f"') + len(same)
    assert shared(hashes(said(same + a)), hashes(said(same + b))) == head // BLOCK


def test_a_difference_early_changes_every_later_hash() -> None:
    """Each block is chained over all before it."""
    rest = "x" * 2000
    assert shared(hashes(said("a" + rest)), hashes(said("b" + rest))) == 0


def test_a_conversation_that_goes_on_keeps_its_hashes() -> None:
    """All but that of the last block, which was not full."""
    turn = hashes(said("x" * 700, "y" * 700))
    longer = hashes(said("x" * 700, "y" * 700, "z" * 700))
    assert shared(turn, longer) == len(turn) - 1


LONG = "x" * 400
ORDER: dict[str, tuple[dict[str, Any], list[str]]] = {
    "chat": (
        {"messages": [{"role": "system", "content": LONG}] * 2, "tools": [{"name": LONG}]},
        ["tools", "messages[0]", "messages[1]"],
    ),
    "messages": (
        {"messages": [{"role": "user", "content": LONG}], "system": LONG, "tools": [{"d": LONG}]},
        ["tools", "system", "messages[0]"],
    ),
    "responses": (
        {"input": [{"role": "user", "content": LONG}, {"type": "x", "output": LONG}], "tools": []}
        | {"instructions": LONG},
        ["tools", "instructions", "input[0]", "input[1]"],
    ),
    "completions": ({"prompt": LONG, "messages": [LONG]}, ["prompt"]),
}


@pytest.mark.parametrize("api", ORDER)
def test_parts_come_in_the_order_engines_render_them(api: str) -> None:
    """Tools, then system text, then messages; a block is named by the part it begins in."""
    request, expected = ORDER[api]
    assert parts(request, api) == expected


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"input": LONG}, ["input"]),
        ({"input": [LONG, LONG]}, ["input[0]", "input[1]"]),
        ({}, []),
    ],
)
def test_input_may_be_a_text(request_: dict[str, Any], expected: list[str]) -> None:
    """Or a list of texts; or absent."""
    assert parts(request_, "responses") == expected


def test_token_ids_are_a_prompt() -> None:
    """Two prompts of ids share what they share."""
    ids = list(range(1000, 1300))
    a, b = ({"prompt": [*ids, last]} for last in (1, 2))
    one, two = hashes(a, "completions"), hashes(b, "completions")
    assert 0 < shared(one, two) < len(one)


SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "order of keys": (
        {"messages": [{"role": "user", "content": [{"type": "x", "a": 1, "b": 2}]}]},
        {"messages": [{"content": [{"b": 2, "a": 1, "type": "x"}], "role": "user"}]},
    ),
    "text bare or as a part": (
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    ),
    "cache marks": (
        {"system": [{"type": "text", "text": "hi"}], "tools": [{"name": "f"}]},
        {
            "system": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
            "tools": [{"name": "f", "cache_control": {"type": "ephemeral"}}],
        },
    ),
    "settings": (
        {"messages": [{"role": "user", "content": "hi"}], "temperature": 0, "user": "a"},
        {"messages": [{"role": "user", "content": "hi"}], "temperature": 1, "stream": True},
    ),
    "the type of a message": (
        {"input": [{"type": "message", "role": "user", "content": "hi"}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    ),
}
DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "roles": (said("hi"), said("hi", role="assistant")),
    "where a message ends": (said("ab", "c"), said("a", "bc")),
    "one message or two": (said("a\x1eb"), said("a", "b")),
    "tool calls": (
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]}]},
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "b"}]}]},
    ),
    "tools or not": (said("hi"), said("hi") | {"tools": [{"name": "f"}]}),
    "system or instructions": ({"system": "hi"}, {"instructions": "hi"}),
}


def whole(request: dict[str, Any]) -> list[list[str]]:
    return [hashes(request, api) for api in ("chat", "messages", "responses")]


@pytest.mark.parametrize("name", SAME)
def test_spellings_of_one_prompt_are_equal(name: str) -> None:
    """What no engine renders does not count."""
    one, two = SAME[name]
    assert whole(one) == whole(two)
    assert any(whole(one))


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_prompts_differ(name: str) -> None:
    """No text can pass for a division between parts."""
    one, two = DIFFERENT[name]
    assert whole(one) != whole(two)


def test_odd_values_are_hashed_all_the_same() -> None:
    """A lone surrogate, a value JSON does not know; the request is left as it was."""
    request = said("\ud800") | {"tools": [{"x": {1, 2}}]}
    before = copy.deepcopy(request)
    assert len(prefix(request, "unknown", KEY)) == 1
    assert request == before
