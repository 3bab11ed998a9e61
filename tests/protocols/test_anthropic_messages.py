"""Anthropic Messages, JSON in and events out, and back."""

import json
from typing import Any

import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from latscope.protocols.anthropic_messages import DIALECT
from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.events import Facts, Usage

from .frames import decode, decode_wire, frame, words


def start(usage: Any = None, **message: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": usage, **message}}


def block(kind: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": kind, **fields}}


def delta(kind: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": kind, **fields}}


def ending(reason: Any = None, usage: Any = None) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


OPEN = "lifecycle:content_block_start"

CASES: dict[str, tuple[list[Any], str]] = {
    "start": ([start({"input_tokens": 3})], "lifecycle:message_start usage"),
    "start without usage": ([start()], "lifecycle:message_start"),
    "start of a wrong type": (
        [{"type": "message_start", "message": [1]}],
        "lifecycle:message_start",
    ),
    "text block": ([block("text", text="")], OPEN),
    "text block opening with text": ([block("text", text="ab")], "content=2"),
    "thinking block": ([block("thinking", thinking="", signature="")], OPEN),
    "redacted thinking": ([block("redacted_thinking", data="zz")], OPEN),
    "tool block": ([block("tool_use", id="t", name="look", input={})], "tool_call=4"),
    "server tool": ([block("server_tool_use", name="web_search")], "tool_call=10"),
    "mcp tool": ([block("mcp_tool_use", name="look")], "tool_call=4"),
    "tool block without a name": ([block("tool_use", name=None)], OPEN),
    "tool result": ([block("web_search_tool_result", content=[])], OPEN),
    "block of a wrong type": ([block({})], OPEN),
    "text": ([delta("text_delta", text="é")], "content=2"),
    "think": ([delta("text_delta", text="<think>")], "content=7<think>"),
    "text empty": ([delta("text_delta", text="")], "empty"),
    "thinking": ([delta("thinking_delta", thinking="hm")], "reasoning=2"),
    "signature": ([delta("signature_delta", signature="zz")], "empty"),
    "citation": ([delta("citations_delta", citation={})], "empty"),
    "arguments": ([delta("input_json_delta", partial_json='{"a')], "tool_call=3"),
    "arguments null": ([delta("input_json_delta", partial_json=None)], "empty"),
    "delta of a wrong type": ([{"type": "content_block_delta", "delta": "text"}], "empty"),
    "delta of an unhashable type": ([delta(["text_delta"])], "empty"),
    "block stop": (
        [{"type": "content_block_stop", "index": 0}],
        "lifecycle:content_block_stop",
    ),
    "ping": ([{"type": "ping"}], "ping:ping"),
    "end of turn": ([ending("end_turn", {"output_tokens": 3})], "finish:stop usage"),
    "stop sequence": ([ending("stop_sequence")], "finish:stop"),
    "length": ([ending("max_tokens")], "finish:length"),
    "context full": ([ending("model_context_window_exceeded")], "finish:length"),
    "tool use": ([ending("tool_use")], "finish:tool_calls"),
    "pause": ([ending("pause_turn")], "finish:stop"),
    "refused": ([ending("refusal")], "finish:content_filter"),
    "usage on the way": ([ending(None, {"output_tokens": 3})], "usage"),
    "nothing on the way": ([ending()], "lifecycle:message_delta"),
    "stop": ([{"type": "message_stop"}], "done:message_stop"),
    "error": (
        [{"type": "error", "error": {"type": "overloaded_error", "message": "secret"}}],
        "error:overloaded_error",
    ),
    "error without type": ([{"error": {"code": 500, "message": "secret"}}], "error:500"),
    "garbage": ([{"a": 1}], "unknown"),
    "unknown type": ([{"type": "message_dance"}], "unknown"),
    "type of a wrong type": ([{"type": ["message_stop"]}], "unknown"),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES.keys())
def test_stream_events_decode_to_events(events: list[Any], expected: str) -> None:
    """Each stream event gives the events its meaning has, and none raises."""
    assert words(decode(DIALECT, [frame(one) for one in events])) == expected


BODIES: dict[str, tuple[Any, str]] = {
    "answer": (
        {
            "type": "message",
            "stop_reason": "tool_use",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "ab"},
                {"type": "tool_use", "name": "look", "input": {"a": 1}},
                {"type": "tool_use", "name": "look", "input": {}},
                {"type": "other", "text": "no"},
                None,
            ],
            "usage": {"input_tokens": 3, "output_tokens": 9},
        },
        "reasoning=2 content=2 tool_call=11 tool_call=4 finish:tool_calls usage done:body",
    ),
    "nothing said": ({"type": "message", "content": None, "stop_reason": None}, "done:body"),
    "error": ({"type": "error", "error": {"type": "not_found_error"}}, "error:not_found_error"),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_whole_bodies_decode_to_events(body: Any, expected: str) -> None:
    """A body that was not streamed gives the same events, and `done` with its last byte."""
    assert words(decode(DIALECT, [frame(body, kind="body")])) == expected


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        (
            [
                {
                    "input_tokens": 3,
                    "cache_read_input_tokens": 4,
                    "cache_creation_input_tokens": 5,
                    "output_tokens": 1,
                },
                {"output_tokens": 9},
            ],
            Usage(input_tokens=12, cached_tokens=4, cache_write_tokens=5, output_tokens=9),
        ),
        (
            # vLLM knows of its cache only at the end; input_tokens falls by what it then names.
            [
                {"input_tokens": 19, "output_tokens": 0},
                {"input_tokens": 3, "cache_read_input_tokens": 16, "output_tokens": 9},
            ],
            Usage(input_tokens=19, cached_tokens=16, output_tokens=9),
        ),
        (
            [None, {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}}],
            Usage(output_tokens=9, reasoning_tokens=4),
        ),
    ],
)
def test_usage_is_cumulative_and_counts_the_cache(stated: list[Any], expected: Usage) -> None:
    """Usage of start and end is one: later counts replace earlier ones, and input_tokens gains
    what was read from and written to the cache."""
    events = decode(DIALECT, [frame(start(stated[0])), frame(ending("end_turn", stated[1]))])
    assert [event.usage for event in events if event.usage][-1] == expected


def test_facts_come_with_the_start_or_the_body() -> None:
    """Model, id and tier are told by message_start, or by the whole message."""
    told = {"id": "msg_1", "model": "m", "usage": {"service_tier": "priority"}}
    facts = Facts(model="m", response_id="msg_1", service_tier="priority")
    streamed = decode(DIALECT, [frame({"type": "message_start", "message": told})])
    whole = decode(DIALECT, [frame({"type": "message", **told}, kind="body")])
    assert streamed[0].facts == facts
    assert whole[0].facts == facts


def test_the_event_name_stands_in_for_a_missing_type() -> None:
    """A server that names its events but leaves `type` out is still read."""
    assert words(decode(DIALECT, [frame({}, name="message_stop")])) == "done:message_stop"


PIECES = [
    Piece(channel="reasoning", text="hm"),
    Piece(channel="content", text="a"),
    Piece(channel="content", text="bc"),
    Piece(channel="tool_call", text='{"a":'),
    Piece(channel="tool_call", text="1}"),
    Piece(channel="tool_call", text="no JSON", tool=1),
    Piece(channel="refusal", text="no"),
]
USAGE = Usage(
    input_tokens=9, cached_tokens=4, cache_write_tokens=3, output_tokens=8, reasoning_tokens=2
)
STREAM_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("content_filter", "content_filter"),
    ],
)
def test_a_stream_reads_back_and_parses_in_the_sdk(reason: str, word: str) -> None:
    """What the encoder writes, the decoder reads as written and the SDK's types accept."""
    prompt = Usage(input_tokens=9, cached_tokens=4, cache_write_tokens=3)
    encoder = DIALECT.encoder(Reply(id="1", model="m", prompt=prompt))
    stream = encoder.start() + encoder.ping()
    stream += b"".join(encoder.piece(piece) for piece in PIECES)
    stream += encoder.finish(reason) + encoder.close(USAGE, {"queue_time_ms": 1.5}) + encoder.done()
    events = decode_wire(DIALECT, (0, stream))
    output = [event for event in events if event.kind != "lifecycle"]
    assert words(output) == (
        "usage ping:ping reasoning=2 empty content=1 content=2 tool_call=8 tool_call=5 "
        f"tool_call=2 tool_call=8 tool_call=7 content=2 finish:{word} usage done:message_stop"
    )
    first, last = [event.usage for event in events if event.usage]
    assert (first.input_tokens, first.cached_tokens, first.output_tokens) == (9, 4, 0)
    assert last == USAGE
    for line in stream.splitlines():
        if line.startswith(b"data: ") and b'"ping"' not in line:
            STREAM_EVENT.validate_json(line[6:], strict=True)


def test_an_answer_without_blocks_is_legal() -> None:
    """Start, finish, close and done without a piece give a stream with no block in it."""
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    stream = encoder.start() + encoder.finish("stop") + encoder.close(Usage(), None)
    assert words(decode_wire(DIALECT, (0, stream + encoder.done()))) == (
        "lifecycle:message_start usage finish:stop usage done:message_stop"
    )


def test_a_body_reads_back_and_parses_in_the_sdk() -> None:
    """A whole answer holds every piece, in the SDK's shape and in ours."""
    encoder = DIALECT.encoder(Reply(id="1", model="m", stream=False))
    body = encoder.whole(PIECES, "tool_calls", USAGE, None)
    Message.model_validate_json(body, strict=True)
    assert [block["type"] for block in json.loads(body)["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "tool_use",
        "text",
    ]
    events = decode(DIALECT, [frame(body, kind="body")])
    assert words(events) == (
        "reasoning=2 content=3 tool_call=15 tool_call=26 content=2 "
        "finish:tool_calls usage done:body"
    )
    assert next(event.usage for event in events if event.usage) == USAGE


def test_errors_are_written_as_anthropic_does() -> None:
    """An error in the stream and an error body read back as an error named by its type."""
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    written = encoder.error("overloaded_error", "secret")
    assert words(decode_wire(DIALECT, (0, written))) == "error:overloaded_error"
    body = DIALECT.error_body(404, "not_found_error", "secret")
    assert words(decode(DIALECT, [frame(body, kind="body")])) == "error:not_found_error"
