"""Ollama's native API: what its lines mean, and the lines the encoder writes."""

import json
from datetime import datetime
from typing import Any

import pytest

from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.events import Event, Facts, Usage
from latscope.protocols.ollama import DIALECT
from latscope.units import MS

from .frames import decode, decode_wire, frame, words

ENDING = {
    "done": True,
    "done_reason": "stop",
    "total_duration": 640_000_000,
    "load_duration": 410_000_000,
    "prompt_eval_count": 26,
    "prompt_eval_cached_count": 12,
    "prompt_eval_duration": 80_000_000,
    "eval_count": 8,
    "eval_duration": 141_000_000,
}


def line(**fields: Any) -> Any:
    head = {"model": "tiny:1b", "created_at": "2026-11-29T12:00:00Z", "done": False}
    return frame({**head, **fields}, kind="line")


def chat(content: str = "", **fields: Any) -> Any:
    return line(message={"role": "assistant", "content": content, **fields})


def call(name: str, arguments: Any) -> dict[str, Any]:
    return {"function": {"index": 0, "name": name, "arguments": arguments}}


def read(*lines: Any) -> list[Event]:
    return decode(DIALECT, lines)


def test_thinking_then_content_then_the_end() -> None:
    events = read(chat(thinking="hm"), chat("Yes"), line(message={"content": ""}, **ENDING))
    assert words(events) == "reasoning=2 content=3 finish:stop usage done:done"


def test_a_line_without_output() -> None:
    """A role with nothing said is no token; nor is a line with no role."""
    assert words(read(chat(), line(response=""), line(message=None))) == "role empty empty"


def test_generate_keeps_its_output_at_the_top() -> None:
    """The last line may hold text too; `context` (token ids) is no output."""
    lines = [
        line(response="", thinking="hm"),
        line(response="ab"),
        line(response="!", context=[1, 2], **ENDING),
    ]
    assert words(read(*lines)) == "reasoning=2 content=2 content=1 finish:stop usage done:done"


def test_a_tool_call_comes_whole_and_ends_the_answer_for_it() -> None:
    """Ollama says `stop` then as well. Its arguments are an object, perhaps an empty one."""
    calls = [call("lamp", {"on": True}), call("bell", {})]
    events = read(chat(tool_calls=calls), line(message={}, **ENDING))
    assert words(events) == "tool_call=19 finish:tool_calls usage done:done"


def test_a_tool_call_cut_at_the_limit_ends_for_length() -> None:
    events = read(chat(tool_calls=[call("a", {})]), line(done=True, done_reason="length"))
    assert words(events) == "tool_call=1 finish:length done:done"


@pytest.mark.parametrize("broken", [None, 3, "x", [None], [{}], [{"function": "x"}]])
def test_broken_tool_calls_say_nothing(broken: Any) -> None:
    assert words(read(chat(tool_calls=broken))) == "role"


def test_logprobs_count_the_tokens_of_a_line() -> None:
    events = read(
        line(message={"content": "ab"}, logprobs=[{"token": "a"}, {"token": "b"}]),
        line(message={"content": ""}, logprobs=[{"token": "a"}]),
    )
    assert words(events) == "content=2~2 empty"


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_loading_a_model_is_an_answer_without_output(reason: str) -> None:
    """What a chat without messages does."""
    assert words(read(line(done=True, done_reason=reason))) == f"finish:{reason} done:done"


def test_an_end_without_a_reason() -> None:
    """Old servers give none, and none is given when the model's connection broke."""
    assert words(read(line(response="a", done=True))) == "content=1 done:done"


def test_a_body_is_one_object() -> None:
    body = {"model": "m", "message": {"content": "Yes", "thinking": "hm"}, **ENDING}
    events = read(frame(body, kind="body"))
    assert words(events) == "reasoning=2 content=3 finish:stop usage done:body"


def test_counts() -> None:
    """prompt_eval_count is the whole prompt, what was cached included."""
    usage = next(event.usage for event in read(line(**ENDING)) if event.usage)
    assert usage == Usage(input_tokens=26, cached_tokens=12, output_tokens=8)


def test_the_last_lines_durations_ride_on_the_usage() -> None:
    figures = next(event for event in read(line(**ENDING)) if event.kind == "usage").reported
    stated = {figure.field: figure.ns for figure in figures}
    assert stated["load_duration"] == 410 * MS
    assert stated["prompt_eval_duration"] == 80 * MS
    assert stated["eval_duration"] == 141 * MS


def test_the_model_is_told_once() -> None:
    facts = [event.facts for event in read(chat("a"), chat("b"), line(**ENDING, model="other"))]
    assert facts == [Facts(model="tiny:1b"), None, Facts(model="other"), None, None]


def test_errors_and_strangers() -> None:
    """An error line may follow output; an object of another kind is unknown, not empty."""
    events = read(chat("a"), line(error="canary: broken"), frame({"status": "pulling"}))
    assert words(events) == "content=1 error:error unknown"
    assert "canary" not in repr(events)


def encoded(*pieces: Piece, reason: str = "stop", **metrics: Any) -> list[dict[str, Any]]:
    encoder = DIALECT.encoder(Reply(id="1", model="m", created=1_796_000_000))
    stream = encoder.start() + b"".join(map(encoder.piece, pieces)) + encoder.ping()
    stream += encoder.finish(reason)
    stream += encoder.close(Usage(input_tokens=3, output_tokens=2), metrics or None)
    return [json.loads(text) for text in (stream + encoder.done()).splitlines()]


def test_the_encoder_writes_lines_as_ollama_does() -> None:
    """Thinking and text in lines of their own, a call whole, durations at the top of the last."""
    pieces = [
        Piece(channel="reasoning", text="hm"),
        Piece(channel="content", text="a"),
        Piece(channel="refusal", text="b"),
        Piece(channel="tool_call", text='{"on":'),
        Piece(channel="tool_call", text="1}"),
        Piece(channel="tool_call", text="free", tool=1),
    ]
    lines = encoded(*pieces, reason="tool_calls", total_duration=5)
    assert [line["message"] for line in lines] == [
        {"role": "assistant", "content": "", "thinking": "hm"},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"index": 0, "name": "lookup_0", "arguments": {"on": 1}}}],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"index": 1, "name": "lookup_1", "arguments": {"text": "free"}}}
            ],
        },
        {"role": "assistant", "content": ""},
    ]
    assert {line["created_at"] for line in lines} == {"2026-11-30T00:53:20Z"}
    assert [line["done"] for line in lines] == [False] * 5 + [True]
    assert lines[-1]["done_reason"] == "stop"
    assert (lines[-1]["total_duration"], lines[-1]["eval_count"]) == (5, 2)
    assert "prompt_eval_cached_count" not in lines[-1]


@pytest.mark.parametrize(
    "moment",
    [
        "1970-01-01T00:00:00",
        "1999-12-31T23:59:59",
        "2000-02-29T12:00:00",
        "2000-03-01T00:00:00",
        "2024-02-29T23:59:59",
        "2026-11-29T01:02:03",
        "2099-12-31T00:00:00",
        "2100-03-01T00:00:00",
    ],
)
def test_dates_are_the_calendars(moment: str) -> None:
    """Leap days and turns of years included."""
    created = int(datetime.fromisoformat(f"{moment}+00:00").timestamp())
    line = DIALECT.encoder(Reply(id="1", model="m", created=created)).close(Usage(), None)
    assert json.loads(line)["created_at"] == f"{moment}Z"


def test_a_held_call_goes_out_before_the_text_that_follows_it() -> None:
    lines = encoded(Piece(channel="tool_call", text="{}"), Piece(channel="content", text="a"))
    assert [bool(line["message"].get("tool_calls")) for line in lines] == [True, False, False]


def test_what_is_written_is_read_back() -> None:
    """Stream and body give the same events but for their times and the last one's name."""
    pieces = [Piece(channel="reasoning", text="hm"), Piece(channel="content", text="Yes")]
    encoder = DIALECT.encoder(Reply(id="1", model="m"))
    usage = Usage(input_tokens=3, cached_tokens=1, output_tokens=2)
    stream = b"".join(map(encoder.piece, pieces)) + encoder.finish("length")
    events = decode_wire(DIALECT, (5, stream + encoder.close(usage, None)))
    assert words(events) == "reasoning=2 content=3 finish:length usage done:done"
    body = DIALECT.encoder(Reply(id="1", model="m")).whole(pieces, "length", usage, None)
    whole = read(frame(body, kind="body"))
    assert words(whole) == "reasoning=2 content=3 finish:length usage done:body"
    assert events[3].usage == whole[3].usage == usage
