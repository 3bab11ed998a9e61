"""OpenAI legacy completions, JSON in and events out, and back."""

import json
from typing import Any

import pytest
from openai.types import Completion

from latscope.protocols.dialect import Piece, Reply
from latscope.protocols.events import Usage
from latscope.protocols.openai_completions import DIALECT

from .frames import decode, decode_wire, frame, words


def chunk(text: Any, *, index: Any = 0, finish: Any = None, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "text": text, "finish_reason": finish, **more}
    return {"object": "text_completion", "choices": [choice]}


CASES: dict[str, tuple[list[Any], str]] = {
    "text": ([chunk("é")], "content=2"),
    "think": ([chunk("<think>")], "content=7<think>"),
    "empty text": ([chunk("")], "empty"),
    "text null": ([chunk(None)], "empty"),
    "finish": ([chunk("a", finish="length")], "content=1 finish:length"),
    "n > 1": ([chunk("a", index=1), chunk("b")], "content[1]=1 content=1"),
    "logprobs": ([chunk("ab", logprobs={"tokens": ["a", "b"]})], "content=2~2"),
    "logprobs of a wrong type": ([chunk("ab", logprobs=[1])], "content=2"),
    "filter": ([chunk("", content_filter_results={"hate": {}})], "filter"),
    "usage": ([{"choices": [], "usage": {"prompt_tokens": 1}}], "usage"),
    "continuous usage": (
        [chunk("ab") | {"usage": {"completion_tokens": 2}}],
        "content=2~2 usage",
    ),
    "error": ([{"error": {"type": "server_error"}}], "error:server_error"),
    "done": (["[DONE]"], "done:[DONE]"),
    "garbage": ([{"object": "x"}], "unknown"),
}


@pytest.mark.parametrize(("chunks", "expected"), CASES.values(), ids=CASES.keys())
def test_chunks_decode_to_events(chunks: list[Any], expected: str) -> None:
    """Each chunk gives the events its meaning has."""
    assert words(decode(DIALECT, [frame(one) for one in chunks])) == expected


PIECES = [
    Piece(channel="reasoning", text="hm"),
    Piece(channel="content", text="a"),
    Piece(channel="content", text="b", choice=1),
]
USAGE = Usage(input_tokens=9, output_tokens=3)
METRICS = {"queue_time_ms": 1.5}


def accepted(data: bytes) -> None:
    """The SDK's type takes it; a finish reason of null, which real servers send, it calls a str."""
    told = json.loads(data)
    for choice in told["choices"]:
        choice["finish_reason"] = choice["finish_reason"] or "stop"
    Completion.model_validate_json(json.dumps(told), strict=True)


def test_a_stream_reads_back_and_parses_in_the_sdk() -> None:
    """What the encoder writes, the decoder reads as written and the SDK's types accept."""
    encoder = DIALECT.encoder(Reply(id="cmpl-1", model="m"))
    stream = encoder.start() + b"".join(encoder.piece(piece) for piece in PIECES)
    stream += encoder.ping() + encoder.finish("tool_calls") + encoder.finish("length", 1)
    stream += encoder.close(USAGE, METRICS) + encoder.done()
    events = decode_wire(DIALECT, (0, stream))
    assert words(events) == (
        "content=2 content=1 content[1]=1 comment:keep-alive finish:stop finish[1]:length "
        "usage done:[DONE]"
    )
    assert next(event.usage for event in events if event.usage) == USAGE
    for line in stream.splitlines():
        if line.startswith(b"data: {"):
            accepted(line[6:])


@pytest.mark.parametrize(("metrics", "figures"), [(METRICS, 1), (None, 0)])
def test_a_body_reads_back_and_parses_in_the_sdk(
    metrics: dict[str, float] | None, figures: int
) -> None:
    """A whole answer has the stream's shape, with usage and metrics at the top."""
    encoder = DIALECT.encoder(Reply(id="cmpl-1", model="m", stream=False))
    body = encoder.whole(PIECES[:2], "stop", USAGE, metrics)
    accepted(body)
    events = decode(DIALECT, [frame(body, kind="body")])
    assert words(events) == "content=3~3 finish:stop usage done:body"
    assert sum(len(event.reported) for event in events) == figures


def test_no_usage_unless_asked_for() -> None:
    """A client that did not ask for usage gets neither it nor the metrics that ride on it."""
    encoder = DIALECT.encoder(Reply(id="c", model="m", include_usage=False))
    assert encoder.close(USAGE, METRICS) == b""


def test_errors_are_written_as_openai_does() -> None:
    """An error in the stream and an error body read back as an error named by its type."""
    encoder = DIALECT.encoder(Reply(id="c", model="m"))
    assert words(decode_wire(DIALECT, (0, encoder.error("server_error", "s")))) == (
        "error:server_error"
    )
    body = DIALECT.error_body(404, "not_found", "secret")
    assert words(decode(DIALECT, [frame(body, kind="body")])) == "error:not_found"
