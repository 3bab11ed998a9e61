"""What a request asked for, from its skeleton: the same masked and not, and never its words."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution.model import RateLimit, RequestShape
from latscope.attribution.request import rate_limit, request_shape
from latscope.documents import recordings
from latscope.protocols.mask.request import skeleton
from latscope.recording import Attempt, Recording
from latscope.units import S

CALL = next(
    recordings.read(Path(__file__).parents[2] / "fixtures/recordings/vllm-chat-stream.jsonl")
)


def shape(request: Mapping[str, Any], api: str = "chat") -> RequestShape:
    """The same of the request as sent and of its skeleton."""
    sent = request_shape(replace(CALL, request=request, masked=False), api)
    masked = request_shape(replace(CALL, request=skeleton(request), masked=True), api)
    assert sent is not None
    assert sent == masked
    return sent


def of(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def test_chat_is_cut_at_the_models_last_answer() -> None:
    found = shape(
        {
            "messages": [
                of("system", "s" * 10),
                of("user", "u" * 20),
                of("assistant", "a" * 30),
                of("developer", "d" * 5),
                of("tool", "t" * 7, tool_call_id="c"),
                of("user", "é" * 40),
            ],
            "tools": [TOOL, TOOL],
        }
    )
    assert (found.system_bytes, found.history_bytes) == (15, 50)
    assert found.last_bytes == 7 + 1 + 80  # the call's id is a word of the prompt too
    assert (found.messages, found.tools, found.tool_results) == (6, 2, 1)
    assert found.tools_bytes > 0


def test_messages_keep_system_beside_and_results_inside() -> None:
    result = {"type": "tool_result", "tool_use_id": "x", "content": "r" * 9}
    found = shape(
        {
            "system": [{"type": "text", "text": "s" * 10}],
            "messages": [
                of("user", "u" * 3),
                of("assistant", "a" * 4),
                {"role": "user", "content": [result, result]},
            ],
        },
        "messages",
    )
    assert (found.system_bytes, found.history_bytes, found.tool_results) == (10, 7, 2)


def test_responses_items_of_the_model_are_history() -> None:
    found = shape(
        {
            "instructions": "i" * 6,
            "input": [
                {"type": "message", "role": "user", "content": "u" * 8},
                {"type": "function_call", "name": "f", "call_id": "c", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "o" * 11},
            ],
        },
        "responses",
    )
    assert found.system_bytes == 6
    assert found.history_bytes > 8
    assert found.tool_results == 1
    assert shape({"input": "u" * 8}, "responses").last_bytes == 8
    assert shape({"prompt": "p" * 8}, "completions").messages == 1
    assert shape({"model": "m"}).messages == 0


@pytest.mark.parametrize(
    ("request_", "api", "asked"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, "chat", True),
        ({"stream": True}, "chat", False),
        ({"stream": True, "stream_options": {"include_usage": False}}, "completions", False),
        ({}, "chat", None),
        ({"stream": True}, "messages", None),
    ],
)
def test_whether_usage_was_asked_for(request_: dict[str, Any], api: str, asked: object) -> None:
    assert shape({"messages": [], **request_}, api).usage_asked is asked


def test_cache_marks_are_counted_with_the_longest_lifetime() -> None:
    mark = {"type": "ephemeral"}
    text = {"type": "text", "text": "t"}
    found = shape(
        {
            "system": [{**text, "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [{**text, "cache_control": {**mark, "ttl": "1h"}}]}
            ],
        },
        "messages",
    )
    assert (found.cache_breakpoints, found.cache_ttl_ns) == (2, 3600 * S)
    assert shape({"messages": []}).cache_ttl_ns is None


@pytest.mark.parametrize(
    "grammar",
    [
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
        {"response_format": {"type": "json_object"}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": {}}}},
        {"guided_regex": "a+"},
        {"format": "json"},
    ],
)
def test_the_same_grammar_has_the_same_word(grammar: dict[str, Any]) -> None:
    first, again = shape({"messages": [], **grammar}), shape({"prompt": "p", **grammar})
    assert first.schema is not None
    assert first.schema == again.schema


@pytest.mark.parametrize(
    "free", [{}, {"response_format": {"type": "text"}}, {"text": {"format": {"type": "text"}}},
             {"text": "said"}]
)  # fmt: skip
def test_without_a_grammar_there_is_no_word(free: dict[str, Any]) -> None:
    assert shape({"messages": [], **free}).schema is None


def test_hashes_are_kept_with_the_parts_they_begin_in() -> None:
    rows = [("a" * 16, "system"), ("b" * 16, "system"), ("c" * 16, "messages[0]")]
    prefix = tuple({"hash": word, "part": part} for word, part in rows)
    found = request_shape(replace(CALL, prefix=prefix), "chat")
    assert found is not None
    assert found.hashes == "a" * 16 + "b" * 16 + "c" * 16
    assert found.parts == (("system", 2), ("messages[0] user", 1))


def test_a_part_says_whose_it_is_where_the_request_does() -> None:
    """A role, else the type of a Responses item; a name that could be prose is left out."""
    items = [
        {"type": "function_call_output", "output": "x"},
        {"content": "x"},
        "x",
        {"role": "Some One", "content": "x"},
    ]
    names = [f"input[{at}]" for at in range(5)]
    prefix = tuple({"hash": f"{at:016x}", "part": name} for at, name in enumerate(names))
    found = request_shape(replace(CALL, request={"input": items}, prefix=prefix), "responses")
    assert found is not None
    assert [name for name, _ in found.parts] == ["input[0] function_call_output", *names[1:]]


def test_without_a_request_there_is_no_shape() -> None:
    assert request_shape(replace(CALL, request=None), "chat") is None


def limits(*attempts: tuple[tuple[str, str], ...]) -> RateLimit | None:
    recording: Recording = replace(
        CALL, attempts=tuple(Attempt(headers=headers) for headers in attempts)
    )
    return rate_limit(recording)


def test_limits_are_read_under_both_vendors_names() -> None:
    openai = limits(
        (
            ("x-ratelimit-limit-requests", "500"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-remaining-tokens", "12"),
        )
    )
    assert openai == RateLimit(
        limit_requests=500,
        remaining_requests=0,
        limit_tokens=None,
        remaining_tokens=12,
        retry_after_ns=None,
    )
    anthropic = limits((("anthropic-ratelimit-tokens-limit", "9"),))
    assert anthropic is not None
    assert anthropic.limit_tokens == 9


def test_the_longest_wait_of_any_attempt_stays() -> None:
    found = limits((("retry-after", "3"),), (("retry-after", "1"),), ())
    assert found is not None
    assert found.retry_after_ns == 3 * S
    told = limits((("retry-after", "3"),), (("x-ratelimit-limit", "7"),))
    assert told is not None
    assert (told.limit_requests, told.retry_after_ns) == (7, 3 * S)


def test_what_no_header_says_is_unknown() -> None:
    assert limits(()) is None
    assert limits((("x-ratelimit-limit-requests", "many"),)) is None
