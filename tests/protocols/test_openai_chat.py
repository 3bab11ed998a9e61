"""OpenAI chat completions, JSON in and events out, and back."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.events import Facts, Usage
from latscope.protocols.openai_chat import DIALECT

from .frames import decode, decode_wire, frame, words


def chunk(delta: Any, *, index: Any = 0, finish: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice], **more}


def call(**fields: Any) -> dict[str, Any]:
    return {"tool_calls": [fields]}


def counted(tokens: int) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": 5, "completion_tokens": tokens}}


def logprobs(**lists: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": "ab"}, "logprobs": lists}]}


NAMED = call(index=0, id="a", function={"name": "look", "arguments": ""})

CASES: dict[str, tuple[list[Any], str]] = {
    "role chunk, empty content": ([chunk({"role": "assistant", "content": ""})], "role"),
    "role chunk, null content": ([chunk({"role": "assistant", "content": None})], "role"),
    "role with text is text": ([chunk({"role": "assistant", "content": "é"})], "content=2"),
    "blank chunk": ([chunk({"content": ""})], "empty"),
    "empty delta": ([chunk({})], "empty"),
    "no choices": ([{"choices": []}], "empty"),
    "reasoning_content": ([chunk({"reasoning_content": "hmm", "content": ""})], "reasoning=3"),
    "reasoning": ([chunk({"reasoning": "hmm", "content": None})], "reasoning=3"),
    "reasoning_details": (
        [
            chunk(
                {
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": "hm"},
                        {"type": "reasoning.summary", "summary": "mm"},
                        {"type": "reasoning.encrypted", "data": "zzz"},
                        None,
                    ]
                }
            )
        ],
        "reasoning=4",
    ),
    "two spellings of one reasoning": (
        [chunk({"reasoning": "hm", "reasoning_details": [{"text": "hm"}]})],
        "reasoning=2",
    ),
    "encrypted reasoning alone": ([chunk({"reasoning_details": [{"data": "zz"}]})], "empty"),
    "reasoning and content in one chunk": (
        [chunk({"reasoning_content": "hm", "content": "a"})],
        "reasoning=2 content=1",
    ),
    "content in parts": (
        [
            chunk(
                {
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                        {"type": "text", "text": "abc"},
                    ]
                }
            )
        ],
        "reasoning=2 content=3",
    ),
    "literal think": ([chunk({"content": "a<think>"})], "content=8<think>"),
    "think in reasoning is not flagged": ([chunk({"reasoning": "<think>"})], "reasoning=7"),
    "refusal": ([chunk({"refusal": "no"})], "refusal=2"),
    "audio": ([chunk({"audio": {"id": "x", "data": "QUJD", "transcript": "ab"}})], "content=6"),
    "audio expiry": ([chunk({"audio": {"id": "x", "expires_at": 5}})], "empty"),
    "finish alone": ([chunk({}, finish="stop")], "finish:stop"),
    "finish with text": ([chunk({"content": "a"}, finish="length")], "content=1 finish:length"),
    "finish in an old word": ([chunk({}, finish="function_call")], "finish:tool_calls"),
    "finish filtered": ([chunk({}, finish="content_filter")], "finish:content_filter"),
    "finish in a word of its own": ([chunk({}, finish="wandered")], "finish:wandered"),
    "finish of a wrong type": ([chunk({}, finish=3)], "empty"),
    "tool call, name first": (
        [
            chunk(NAMED),
            chunk(call(index=0, function={"arguments": '{"a'})),
            chunk(call(index=0, function={"arguments": None})),
        ],
        "tool_call=4 tool_call=3 empty",
    ),
    "tool call, id before name": (
        [chunk(call(index=0, id="a")), chunk(call(index=0, function={"name": "look"}))],
        "empty tool_call=4",
    ),
    "tool call, name repeated": (
        [chunk(NAMED), chunk(NAMED), chunk(call(index=0, function={"name": "look"}))],
        "tool_call=4 empty empty",
    ),
    "tool calls sharing an index": (
        [chunk(NAMED), chunk(call(index=0, id="b", function={"name": "look"}))],
        "tool_call=4 tool_call=4",
    ),
    "tool calls without index": (
        [
            chunk(call(id="a", function={"name": "look", "arguments": "{}"})),
            chunk(call(id="b", function={"name": "look", "arguments": "{}"})),
        ],
        "tool_call=6 tool_call=6",
    ),
    "custom tool": ([chunk(call(index=0, custom={"name": "sh", "input": "ls"}))], "tool_call=4"),
    "function_call of old": (
        [
            chunk({"function_call": {"name": "look", "arguments": ""}}),
            chunk({"function_call": {"arguments": "{}"}}),
        ],
        "tool_call=4 tool_call=2",
    ),
    "n > 1": (
        [
            chunk({"content": "a"}, index=1),
            chunk({"content": "b"}),
            chunk({}, index=1, finish="stop"),
        ],
        "content[1]=1 content=1 finish[1]:stop",
    ),
    "choices without an index": (
        [{"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}],
        "content=1 content[1]=1",
    ),
    "usage chunk": ([{"choices": [], **counted(3)}], "usage"),
    "usage null": ([chunk({"content": "a"}, usage=None)], "content=1"),
    "usage without counts": ([{"choices": [], "usage": {"total": "x"}}], "empty"),
    "groq's usage": ([chunk({}, finish="stop", x_groq=counted(3))], "finish:stop usage"),
    "continuous usage": (
        [
            chunk({"role": "assistant", "content": ""}, **counted(0)),
            chunk({"content": "ab"}, **counted(2)),
            chunk({}, **counted(3)),
            chunk({"content": "c"}, **counted(4)),
            {"choices": [], **counted(4)},
        ],
        "role usage content=2~2 usage empty~1 usage content=1~1 usage usage",
    ),
    "continuous usage that falls": (
        [chunk({"content": "a"}, **counted(2)), chunk({"content": "b"}, **counted(1))],
        "content=1~2 usage content=1 usage",
    ),
    "usage on the last chunk only": (
        [chunk({"content": "a"}), chunk({"content": "b"}, finish="stop", **counted(2))],
        "content=1 content=1 finish:stop usage",
    ),
    "usage of two choices in one chunk": (
        [{"choices": [{"delta": {"content": "a"}}, {"index": 1, "delta": {}}], **counted(2)}],
        "content=1 empty[1] usage",
    ),
    "logprobs": ([logprobs(content=[{}, {}])], "content=2~2"),
    "logprobs of a refusal": ([logprobs(content=None, refusal=[{}])], "content=2~1"),
    "logprobs empty": ([logprobs(content=[])], "content=2"),
    "logprobs of a token without text": (
        [{"choices": [{"delta": {}, "finish_reason": "length", "logprobs": {"content": [{}]}}]}],
        "empty~1 finish:length",
    ),
    "azure: prompt annotation": (
        [{"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "object": ""}],
        "filter",
    ),
    "azure: annotation of the answer": (
        [{"choices": [{"index": 0, "delta": {}, "content_filter_results": {"hate": {}}}]}],
        "filter",
    ),
    "error": ([{"error": {"type": "server_error", "message": "secret"}}], "error:server_error"),
    "error with a code": ([{"error": {"code": "rate_limit"}}], "error:rate_limit"),
    "error with a number": ([{"error": {"message": "secret", "code": 503}}], "error:503"),
    "error as text": ([{"error": "secret"}], "error:error"),
    "error beside a choice": (
        [chunk({"content": ""}, finish="error", error={"code": 502})],
        "error:502 finish:error",
    ),
    "error null": ([chunk({"content": "a"}, error=None)], "content=1"),
    "error of old vllm": (
        [{"object": "error", "type": "NotFoundError", "message": "secret"}],
        "error:NotFoundError",
    ),
    "done": ([" [DONE]"], "done:[DONE]"),
    "no JSON": (["{"], "unknown"),
    "no object": ([[1]], "unknown"),
    "no chunk": ([{"a": 1}], "unknown"),
    "blank data": ([" "], "empty"),
    "lone surrogate": ([rb'{"choices":[{"delta":{"content":"\ud83d"}}]}'], "unknown"),
    "choices of a wrong type": ([{"choices": {"a": 1}}], "empty"),
    "choice of a wrong type": ([{"choices": [None]}], "empty"),
    "delta of a wrong type": ([chunk("text")], "empty"),
    "index of a wrong type": ([chunk({"content": "a"}, index=True)], "content=1"),
    "index below zero": ([chunk({"content": "a"}, index=-1)], "content=1"),
    "whole message in place of a delta": (
        [{"choices": [{"message": {"content": "ab"}}]}],
        "content=2",
    ),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES.keys())
def test_chunks_decode_to_events(chunks: list[Any], expected: str) -> None:
    """Each chunk gives the events its meaning has, and none raises."""
    assert words(decode(DIALECT, [frame(one) for one in chunks])) == expected


BODIES: dict[str, tuple[Any, str]] = {
    "answer": (
        {
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": "ab",
                        "reasoning": "hm",
                        "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
                    },
                }
            ],
            **counted(7),
        },
        "reasoning=2~7 content=2 tool_call=3 finish:tool_calls usage done:body",
    ),
    "error": ({"error": {"type": "not_found", "code": 404}}, "error:not_found"),
    "html": ("<html>", "unknown"),
    "nothing": ("", "unknown"),
    "other JSON": ({"detail": "Not Found"}, "unknown"),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_whole_bodies_decode_to_events(body: Any, expected: str) -> None:
    """A body that was not streamed gives the same events, and `done` unless it is an error."""
    events = decode(DIALECT, [frame(body, kind="body", ns=9)])
    assert words(events) == expected
    assert {event.ns for event in events} == {9}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (frame(" OPENROUTER PROCESSING", kind="comment"), "comment:OPENROUTER"),
        (frame("", kind="comment"), "comment"),
        (frame("", name="ping"), "ping:ping"),
        (frame({"error": {"type": "overloaded"}}, name="error"), "error:overloaded"),
        (frame({"type": "overloaded", "message": "m"}, name="error"), "error:overloaded"),
        (frame("broken", name="error"), "error:error"),
        (frame('{"choices":[{"del', truncated=True), "unknown"),
    ],
)
def test_frames_that_are_no_chunk(one: Any, expected: str) -> None:
    """Comments, pings and errors are known by their frame, a cut one by nothing."""
    assert words(decode(DIALECT, [one])) == expected


USAGES: list[tuple[dict[str, Any], Usage]] = [
    (
        {
            "prompt_tokens": 10,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
        Usage(
            input_tokens=10,
            cached_tokens=6,
            cache_write_tokens=2,
            output_tokens=4,
            reasoning_tokens=3,
        ),
    ),
    (
        {"prompt_tokens_details": {"cached_tokens": 0, "created_cache_tokens": 5}},
        Usage(cached_tokens=0, cache_write_tokens=5),
    ),
    (
        {"prompt_tokens": 9, "prompt_cache_hit_tokens": 7},
        Usage(input_tokens=9, cached_tokens=7),
    ),
    ({"prompt_tokens": 9, "cached_tokens": 7}, Usage(input_tokens=9, cached_tokens=7)),
    ({"completion_tokens": 3, "reasoning_tokens": 2}, Usage(output_tokens=3, reasoning_tokens=2)),
    (
        {"prompt_tokens": -1, "completion_tokens": True, "reasoning_tokens": 1},
        Usage(reasoning_tokens=1),
    ),
]


@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_in_every_spelling(usage: dict[str, Any], expected: Usage) -> None:
    """Every vendor's spelling gives the same counts; what is no count gives none."""
    (event,) = decode(DIALECT, [frame({"choices": [], "usage": usage})])
    assert event.usage == expected


def test_facts_are_told_when_they_are_new() -> None:
    """Model, id, tier and fingerprint ride on the first event that tells them."""
    told = {"id": "c1", "model": "m"}
    frames = [
        frame(chunk({"content": "a"}, **told)),
        frame(chunk({"content": "b"}, **told)),
        frame(chunk({}, finish="stop", service_tier="flex", system_fingerprint="fp", **told)),
        frame({"error": {"code": 500}}),
    ]
    facts = [event.facts for event in decode(DIALECT, frames)]
    assert facts == [
        Facts(model="m", response_id="c1"),
        None,
        Facts(model="m", response_id="c1", service_tier="flex", fingerprint="fp"),
        None,
    ]


TIMINGS = {"timings": {"prompt_ms": 2.5, "predicted_ms": 7.5, "predicted_n": 4}}


def test_timings_ride_on_usage_or_on_the_last_event() -> None:
    """The server's timings are read where they ride: usage chunk, or finish chunk without usage."""
    with_usage = decode(DIALECT, [frame(chunk({}, finish="stop") | counted(4) | TIMINGS)])
    without = decode(DIALECT, [frame(chunk({}, finish="stop") | TIMINGS)])
    assert [(e.kind, len(e.reported)) for e in with_usage] == [("finish", 0), ("usage", 2)]
    assert [(e.kind, len(e.reported)) for e in without] == [("finish", 2)]


def test_llama_slots_add_up() -> None:
    """llama.cpp ends each of n choices with usage and timings of its own slot: outputs add up,
    and timings of one slot are not taken for the call's."""
    tail = frame({"choices": [], **counted(4), **TIMINGS})
    frames = [frame(chunk({"content": "a"}, index=index)) for index in (0, 1)]
    events = decode(DIALECT, [*frames, tail, tail])
    assert [e.usage.output_tokens for e in events if e.usage] == [4, 8]
    assert not any(event.reported for event in events)


PIECES = [
    Piece(channel="reasoning", text="hm"),
    Piece(channel="content", text="a"),
    Piece(channel="content", text="bc"),
    Piece(channel="tool_call", text='{"a":'),
    Piece(channel="tool_call", text="1}"),
    Piece(channel="tool_call", text="{}", tool=1),
    Piece(channel="refusal", text="no", choice=1),
]
USAGE = Usage(
    input_tokens=9, cached_tokens=4, cache_write_tokens=3, output_tokens=8, reasoning_tokens=2
)
METRICS = {"queue_time_ms": 1.5, "time_to_first_token_ms": 2.5, "generation_time_ms": 3.5}


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "reasoning_details"])
def test_a_stream_reads_back_and_parses_in_the_sdk(key: str) -> None:
    """What the encoder writes, the decoder reads as written and the SDK's types accept."""
    encoder = DIALECT.encoder(Reply(id="chatcmpl-1", model="m", reasoning_key=key))
    stream = [encoder.start(), *(encoder.piece(piece) for piece in PIECES), encoder.ping()]
    stream += [encoder.finish("tool_calls"), encoder.finish("stop", 1)]
    stream += [encoder.close(USAGE, METRICS), encoder.done()]
    events = decode_wire(DIALECT, (0, b"".join(stream)))
    assert words(events) == (
        "role reasoning=2 content=1 content=2 tool_call=13 tool_call=2 tool_call=10 "
        "role[1] refusal[1]=2 comment:keep-alive finish:tool_calls finish[1]:stop usage done:[DONE]"
    )
    assert next(event.usage for event in events if event.usage) == USAGE
    for line in b"".join(stream).splitlines():
        if line.startswith(b"data: {"):
            ChatCompletionChunk.model_validate_json(line[6:], strict=True)


def test_metrics_ride_on_the_usage_chunk() -> None:
    """The usage chunk has no choices and carries the server's metrics when there are any."""
    encoder = DIALECT.encoder(Reply(id="c", model="m"))
    (event,) = decode_wire(DIALECT, (0, encoder.close(USAGE, METRICS)))
    assert [(figure.covers, figure.ns) for figure in event.reported] == [
        ("queue.engine", 1_500_000),
        ("prefill", 2_500_000),
        ("decode", 3_500_000),
    ]
    assert b'"choices":[]' in encoder.close(USAGE, None)
    assert b"metrics" not in encoder.close(USAGE, None)


def test_no_usage_unless_asked_for() -> None:
    """A client that did not ask for usage gets neither it nor the metrics that ride on it."""
    encoder = DIALECT.encoder(Reply(id="c", model="m", include_usage=False))
    assert encoder.close(USAGE, METRICS) == b""


@pytest.mark.parametrize("metrics", [METRICS, None])
def test_a_body_reads_back_and_parses_in_the_sdk(metrics: dict[str, float] | None) -> None:
    """A whole answer holds every piece, in the SDK's shape and in ours."""
    encoder = DIALECT.encoder(Reply(id="chatcmpl-1", model="m", stream=False))
    body = encoder.whole(PIECES, "stop", USAGE, metrics)
    parsed = ChatCompletion.model_validate_json(body, strict=True)
    first, second = parsed.choices
    assert first.message.content == "abc"
    assert [
        c.type == "function" and c.function.arguments for c in first.message.tool_calls or []
    ] == ['{"a":1}', "{}"]
    assert second.message.refusal == "no"
    events = decode(DIALECT, [frame(body, kind="body")])
    assert words(events) == (
        "reasoning=2 content=3 tool_call=25 finish:stop refusal[1]=2 finish[1]:stop usage done:body"
    )
    assert ("metrics" in json.loads(body)) is (metrics is not None)


def test_errors_are_written_as_openai_does() -> None:
    """An error in the stream and an error body read back as an error named by its type."""
    encoder = DIALECT.encoder(Reply(id="c", model="m"))
    inband = decode_wire(DIALECT, (0, encoder.error("server_error", "secret")))
    body = DIALECT.error_body(429, "rate_limit_exceeded", "secret")
    assert words(inband) == "error:server_error"
    assert words(decode(DIALECT, [frame(body, kind="body")])) == "error:rate_limit_exceeded"
