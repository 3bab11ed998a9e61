"""OpenAI Responses, JSON in and events out, and back."""

import json
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.events import Facts, Usage
from latscope.protocols.openai_responses import DIALECT

from .frames import decode, decode_wire, frame, words


def delta(kind: str, text: Any, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "delta": text, **more}


def item(**fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": fields}


def closed(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": fields}


USED = {"usage": {"input_tokens": 3, "output_tokens": 2}}
CUT = {"reason": "max_output_tokens"}
CALL = {"type": "function_call", "name": "look", "arguments": "{}"}

CASES: dict[str, tuple[list[Any], str]] = {
    "text": ([delta("output_text", "é")], "content=2"),
    "text with logprobs": ([delta("output_text", "ab", logprobs=[{}, {}])], "content=2~2"),
    "text empty": ([delta("output_text", "")], "empty"),
    "text null": ([delta("output_text", None)], "empty"),
    "think": ([delta("output_text", "<think>")], "content=7<think>"),
    "second output is no second choice": ([delta("output_text", "a", output_index=1)], "content=1"),
    "reasoning summary": ([delta("reasoning_summary_text", "hm")], "reasoning=2"),
    "reasoning text": ([delta("reasoning_text", "hm")], "reasoning=2"),
    "refusal": ([delta("refusal", "no")], "refusal=2"),
    "audio": ([delta("audio", "QUJD")], "content=4"),
    "transcript": ([delta("audio.transcript", "ab")], "content=2"),
    "function call": (
        [
            item(type="function_call", name="look", arguments=""),
            delta("function_call_arguments", "{}"),
            closed("completed", status="completed"),
        ],
        "tool_call=4 tool_call=2 finish:tool_calls done:response.completed",
    ),
    "custom tool": (
        [item(type="custom_tool_call", name="sh"), delta("custom_tool_call_input", "ls")],
        "tool_call=2 tool_call=2",
    ),
    "server's own tool": (
        [item(type="mcp_call", name="look"), closed("completed", status="completed")],
        "tool_call=4 finish:stop done:response.completed",
    ),
    "items without output": (
        [item(type="message"), item(type="reasoning"), {"type": "response.output_item.added"}],
        "lifecycle:response.output_item.added lifecycle:response.output_item.added "
        "lifecycle:response.output_item.added",
    ),
    "created": ([closed("created", status="in_progress")], "lifecycle:response.created"),
    "other envelope": (
        [{"type": "response.content_part.done"}],
        "lifecycle:response.content_part.done",
    ),
    "an event not known yet": ([{"type": "response.new.thing"}], "lifecycle:response.new.thing"),
    "completed": (
        [closed("completed", status="completed", **USED)],
        "finish:stop usage done:response.completed",
    ),
    "completed with a call in its output": (
        [closed("completed", status="completed", output=[CALL])],
        "finish:tool_calls done:response.completed",
    ),
    "incomplete": (
        [closed("incomplete", status="incomplete", incomplete_details=CUT, **USED)],
        "finish:length usage done:response.incomplete",
    ),
    "vllm: completed, status incomplete": (
        [closed("completed", status="incomplete", incomplete_details=CUT, **USED)],
        "finish:length usage done:response.completed",
    ),
    "incomplete, filtered": (
        [closed("incomplete", incomplete_details={"reason": "content_filter"})],
        "finish:content_filter done:response.incomplete",
    ),
    "incomplete without a reason": (
        [closed("incomplete", incomplete_details=None)],
        "finish:length done:response.incomplete",
    ),
    "failed": (
        [closed("failed", error={"code": "server_error", "message": "secret"})],
        "error:server_error finish:error done:response.failed",
    ),
    "failed without an error": (
        [closed("failed", status="failed", error=None)],
        "error:error finish:error done:response.failed",
    ),
    "error event": (
        [{"type": "error", "code": "rate_limit", "message": "secret"}],
        "error:rate_limit",
    ),
    "error event without a code": ([{"type": "error", "message": "secret"}], "error:error"),
    "error event with an object": (
        [{"type": "error", "error": {"type": "overloaded", "code": "x"}}],
        "error:overloaded",
    ),
    "error without a type": ([{"error": {"code": 404}}], "error:404"),
    "done": (["[DONE]"], "done:[DONE]"),
    "garbage": ([{"a": 1}], "unknown"),
    "type of a wrong type": ([{"type": ["response.created"]}], "unknown"),
    "response of a wrong type": (
        [{"type": "response.completed", "response": [1]}],
        "finish:stop done:response.completed",
    ),
    "output of a wrong type": (
        [closed("completed", output=[None, {"type": {}, "name": 1}])],
        "finish:stop done:response.completed",
    ),
}


@pytest.mark.parametrize(("events", "expected"), CASES.values(), ids=CASES.keys())
def test_stream_events_decode_to_events(events: list[Any], expected: str) -> None:
    """Each stream event gives the events its meaning has, and none raises."""
    assert words(decode(DIALECT, [frame(one) for one in events])) == expected


MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}
REFUSED = {"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}
THOUGHT = {"type": "reasoning", "summary": [{"text": "hm"}], "content": None}

BODIES: dict[str, tuple[Any, str]] = {
    "answer": (
        {"object": "response", "status": "completed", "output": [THOUGHT, MESSAGE], **USED},
        "reasoning=2 content=2 finish:stop usage done:body",
    ),
    "call": (
        {"object": "response", "status": "completed", "output": [CALL, REFUSED]},
        "tool_call=6 refusal=2 finish:tool_calls done:body",
    ),
    "cut": (
        {"object": "response", "status": "incomplete", "incomplete_details": CUT, "output": None},
        "finish:length done:body",
    ),
    "failed": (
        {"object": "response", "status": "failed", "error": {"code": "server_error"}},
        "error:server_error finish:error done:body",
    ),
    "queued in the background": ({"object": "response", "status": "queued"}, "done:body"),
    "http error": ({"error": {"type": "not_found", "code": 404}}, "error:not_found"),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_whole_bodies_decode_to_events(body: Any, expected: str) -> None:
    """A body that was not streamed gives the same events, and `done` with its last byte."""
    assert words(decode(DIALECT, [frame(body, kind="body")])) == expected


def test_a_terminal_event_too_long_to_keep_still_ends_the_stream() -> None:
    """A cut `response.completed` is known by its event name."""
    cut = frame('{"type":"response.completed","respon', name="response.completed", truncated=True)
    assert words(decode(DIALECT, [cut])) == "finish:stop done:response.completed"


def test_figures_inside_and_beside_the_response() -> None:
    """vLLM puts its metrics into the response object, llama.cpp its timings beside it."""
    inside = closed("completed", metrics={"queue_time_ms": 2.0}, **USED)
    beside = closed("completed", **USED) | {"timings": {"prompt_ms": 3.0}}
    for told, field in ((inside, "queue_time_ms"), (beside, "prompt_ms")):
        figures = [(e.kind, r.field) for e in decode(DIALECT, [frame(told)]) for r in e.reported]
        assert figures == [("usage", field)]


def test_facts_come_with_the_envelope() -> None:
    """Model, id and tier are told at the start and again at the end."""
    told = {"id": "resp_1", "model": "m", "service_tier": "flex"}
    frames = [frame(closed("created", **told)), frame(closed("completed", **told))]
    facts = Facts(model="m", response_id="resp_1", service_tier="flex")
    assert [e.facts for e in decode(DIALECT, frames)] == [facts, facts, None]


def test_usage_in_latscopes_words() -> None:
    """Details of input and output tokens are read."""
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3},
    }
    events = decode(DIALECT, [frame(closed("completed", usage=usage))])
    assert [event.usage for event in events if event.usage] == [
        Usage(
            input_tokens=10,
            cached_tokens=6,
            cache_write_tokens=2,
            output_tokens=4,
            reasoning_tokens=3,
        )
    ]


PIECES = [
    Piece(channel="reasoning", text="hm"),
    Piece(channel="content", text="a"),
    Piece(channel="content", text="bc"),
    Piece(channel="refusal", text="no"),
    Piece(channel="tool_call", text='{"a":'),
    Piece(channel="tool_call", text="1}"),
    Piece(channel="tool_call", text="{}", tool=1),
]
USAGE = Usage(
    input_tokens=9, cached_tokens=4, cache_write_tokens=3, output_tokens=8, reasoning_tokens=2
)
METRICS = {"queue_time_ms": 1.5}
STREAM_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def test_a_stream_reads_back_and_parses_in_the_sdk() -> None:
    """What the encoder writes, the decoder reads as written and the SDK's types accept."""
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    stream = encoder.start() + b"".join(encoder.piece(piece) for piece in PIECES)
    stream += encoder.ping() + encoder.finish("tool_calls")
    stream += encoder.close(USAGE, METRICS) + encoder.done()
    events = decode_wire(DIALECT, (0, stream))
    output = [event for event in events if event.kind != "lifecycle"]
    assert words(output) == (
        "reasoning=2 content=1 content=2 refusal=2 tool_call=8 tool_call=5 tool_call=2 "
        "tool_call=8 tool_call=2 comment:keep-alive finish:tool_calls usage done:response.completed"
    )
    assert next(event.usage for event in events if event.usage) == USAGE
    told = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    assert [one["sequence_number"] for one in told] == list(range(len(told)))
    for one in told:
        STREAM_EVENT.validate_json(json.dumps(one), strict=True)
    assert [one["type"].removeprefix("response.") for one in told[:9]] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
    ]
    assert [one["type"] for one in told[-1]["response"]["output"]] == [
        "reasoning",
        "message",
        "message",
        "function_call",
        "function_call",
    ]


@pytest.mark.parametrize(
    ("reason", "event"),
    [("stop", "completed"), ("length", "incomplete"), ("content_filter", "incomplete")],
)
def test_the_terminal_event_says_why(reason: str, event: str) -> None:
    """A capped or filtered answer ends incomplete, with its reason, and reads back so."""
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    stream = encoder.start() + encoder.finish(reason) + encoder.close(Usage(), None)
    assert words(decode_wire(DIALECT, (0, stream))).endswith(
        f"finish:{reason} usage done:response.{event}"
    )


def test_a_body_reads_back_and_parses_in_the_sdk() -> None:
    """A whole answer holds every piece, in the SDK's shape and in ours."""
    encoder = DIALECT.encoder(Reply(id="1", model="m", stream=False))
    body = encoder.whole(PIECES, "length", USAGE, METRICS)
    assert Response.model_validate_json(body, strict=True).output_text == "abc"
    events = decode(DIALECT, [frame(body, kind="body")])
    assert words(events) == (
        "reasoning=2 content=3 refusal=2 tool_call=15 tool_call=10 finish:length usage done:body"
    )
    assert [figure.covers for event in events for figure in event.reported] == ["queue.engine"]


def test_errors_are_written_as_openai_does() -> None:
    """An error in the stream and an error body read back as an error."""
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    written = encoder.error("server_error", "secret")
    assert words(decode_wire(DIALECT, (0, written))) == "error:server_error"
    STREAM_EVENT.validate_json(written.splitlines()[1][6:], strict=True)
    body = DIALECT.error_body(404, "not_found", "secret")
    assert words(decode(DIALECT, [frame(body, kind="body")])) == "error:not_found"
