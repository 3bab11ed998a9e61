"""LM Studio's native API: what its events mean, and the events the encoder writes."""

import json
from typing import Any

import pytest

from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.events import Event, Facts, Usage
from latscope.protocols.lmstudio import DIALECT
from latscope.units import MS

from .frames import decode, decode_wire, frame, words

STATS = {
    "input_tokens": 26,
    "total_output_tokens": 8,
    "reasoning_output_tokens": 4,
    "tokens_per_second": 50.0,
    "time_to_first_token_seconds": 0.081,
}
RESULT = {
    "model_instance_id": "lab/tiny",
    "output": [
        {"type": "reasoning", "content": "hm"},
        {"type": "tool_call", "tool": "lamp", "arguments": {"on": 1}, "output": "was off"},
        {"type": "message", "content": "Yes"},
    ],
    "stats": STATS,
    "response_id": "resp_1",
}


def read(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    return decode(DIALECT, [frame({"type": name, **more}, name=name) for name, more in told])


def test_a_whole_stream() -> None:
    """Every event is known; the tool's answer and the repeated output are no tokens."""
    events = read(
        ("chat.start", {"model_instance_id": "lab/tiny"}),
        ("prompt_processing.start", {}),
        ("prompt_processing.end", {}),
        ("reasoning.start", {}),
        ("reasoning.delta", {"content": "hm"}),
        ("reasoning.end", {}),
        ("tool_call.start", {"tool": "lamp"}),
        ("tool_call.arguments", {"tool": "lamp", "arguments": {"on": 1}}),
        ("tool_call.success", {"tool": "lamp", "arguments": {"on": 1}, "output": "was off"}),
        ("tool_call.failure", {"reason": "none", "metadata": {"type": "invalid_name"}}),
        ("message.start", {}),
        ("message.delta", {"content": "Yes"}),
        ("message.delta", {"content": ""}),
        ("message.end", {}),
        ("chat.end", {"result": RESULT}),
    )
    assert words(events) == (
        "lifecycle:chat.start lifecycle:prompt_processing.start lifecycle:prompt_processing.end"
        " lifecycle:reasoning.start reasoning=2 lifecycle:reasoning.end tool_call=4 tool_call=8"
        " lifecycle:tool_call.success lifecycle:tool_call.failure lifecycle:message.start"
        " content=3 empty lifecycle:message.end usage done:chat.end"
    )


@pytest.mark.parametrize(
    ("name", "milestone"),
    [
        ("chat.start", ""),
        ("model_load.start", "waiting"),
        ("model_load.progress", "waiting"),
        ("model_load.end", "waiting"),
        ("prompt_processing.start", "scheduled"),
        ("prompt_processing.progress", "scheduled"),
        ("prompt_processing.end", "prefilled"),
        ("message.start", ""),
    ],
)
def test_what_an_event_proves(name: str, milestone: str) -> None:
    """A model is loaded before the request is given to it: until then it waits."""
    (event,) = read((name, {"progress": 0.5}))
    assert event.milestone == milestone


def test_facts_usage_and_figures() -> None:
    (start, usage, done) = read(
        ("chat.start", {"model_instance_id": "lab/tiny"}), ("chat.end", {"result": RESULT})
    )
    assert start.facts == Facts(model="lab/tiny")
    assert usage.facts == Facts(model="lab/tiny", response_id="resp_1")
    assert usage.usage == Usage(input_tokens=26, output_tokens=8, reasoning_tokens=4)
    assert [figure.ns for figure in usage.reported] == [81 * MS]
    assert done.kind == "done"


def test_a_body_is_what_chat_end_holds() -> None:
    events = decode(DIALECT, [frame(RESULT, kind="body")])
    assert words(events) == "reasoning=2 tool_call=12 content=3 usage done:body"
    assert events[3].usage == Usage(input_tokens=26, output_tokens=8, reasoning_tokens=4)
    assert [figure.ns for figure in events[3].reported] == [81 * MS]
    assert events[0].facts == Facts(model="lab/tiny", response_id="resp_1")


def test_no_stats_no_usage() -> None:
    assert words(read(("chat.end", {"result": {"stats": {"tokens_per_second": 4.0}}}))) == (
        "done:chat.end"
    )


def test_errors_and_strangers() -> None:
    """An error event is followed by chat.end with what there was."""
    events = read(
        ("error", {"error": {"type": "model_not_found", "message": "canary", "code": "x"}}),
        ("chat.end", {"result": {}}),
    )
    events += decode(DIALECT, [frame({"error": {"type": "internal_error"}}), frame({"a": 1})])
    assert words(events) == "error:model_not_found done:chat.end error:internal_error unknown"
    assert events[0].code == "x"
    assert "canary" not in repr(events)


def test_the_name_of_a_cut_event_still_ends_the_stream() -> None:
    """`chat.end` repeats the whole answer and may pass the decoder's limit."""
    cut = frame('{"type":"chat.end","resu', name="chat.end", truncated=True)
    assert words(decode(DIALECT, [cut])) == "done:chat.end"


def test_the_encoder_writes_events_as_lm_studio_does() -> None:
    pieces = [
        Piece(channel="reasoning", text="h"),
        Piece(channel="reasoning", text="m"),
        Piece(channel="tool_call", text='{"on":'),
        Piece(channel="tool_call", text="1}"),
        Piece(channel="tool_call", text="free", tool=1),
        Piece(channel="content", text="Yes"),
    ]
    encoder = DIALECT.encoder(Reply(id="resp_1", model="lab/tiny"))
    stream = encoder.start() + b"".join(map(encoder.piece, pieces)) + encoder.finish("stop")
    stream += encoder.close(Usage(input_tokens=3, output_tokens=6), {"tokens_per_second": 4.0})
    stream += encoder.done()
    told = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: ")]
    assert [event["type"] for event in told] == [
        "chat.start",
        "reasoning.start",
        "reasoning.delta",
        "reasoning.delta",
        "reasoning.end",
        "tool_call.start",
        "tool_call.arguments",
        "tool_call.success",
        "tool_call.start",
        "tool_call.arguments",
        "tool_call.success",
        "message.start",
        "message.delta",
        "message.end",
        "chat.end",
    ]
    assert [event["arguments"] for event in told if event["type"] == "tool_call.arguments"] == [
        {"on": 1},
        {"text": "free"},
    ]
    result = told[-1]["result"]
    assert [item["type"] for item in result["output"]] == [
        "reasoning",
        "tool_call",
        "tool_call",
        "message",
    ]
    assert result["stats"] == {
        "input_tokens": 3,
        "total_output_tokens": 6,
        "reasoning_output_tokens": 0,
        "tokens_per_second": 4.0,
    }


def test_what_is_written_is_read_back() -> None:
    """Stream and body give the same output and usage."""
    pieces = [Piece(channel="reasoning", text="hm"), Piece(channel="refusal", text="No")]
    usage = Usage(input_tokens=3, output_tokens=2, reasoning_tokens=1)
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    stream = b"".join(map(encoder.piece, pieces)) + encoder.finish("stop")
    events = decode_wire(DIALECT, (5, stream + encoder.ping() + encoder.close(usage, None)))
    body = DIALECT.encoder(Reply(id="1", model="m")).whole(pieces, "stop", usage, None)
    whole = decode(DIALECT, [frame(body, kind="body")])
    assert words(event for event in events if event.size) == "reasoning=2 content=2"
    assert words(whole) == "reasoning=2 content=2 usage done:body"
    assert [event.usage for event in (*events, *whole) if event.usage] == [usage, usage]
