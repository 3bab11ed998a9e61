"""A masked recording says the same: events, timeline and attribution are those of the original."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.documents.recordings import read
from latscope.protocols import DIALECTS
from latscope.protocols.dialect import Channel, Piece, Reply
from latscope.protocols.events import Event, Usage
from latscope.protocols.mask import mask
from latscope.recording import Attempt, Mark, Read, Recording, Target
from latscope.units import MS
from latscope.wire.framing import frames

RECORDED = sorted((Path(__file__).parents[2] / "fixtures/recordings").glob("*.jsonl"))

CHANNELS: tuple[Channel, ...] = ("reasoning", "content", "tool_call")
METRICS = {"queue_time_ms": 3.5, "time_to_first_token_ms": 20.25, "generation_time_ms": 60.5}
USAGE = Usage(input_tokens=9, cached_tokens=4, output_tokens=7, reasoning_tokens=2)


def call(chunks: Iterable[bytes], path: str, kind: str = "text/event-stream") -> Recording:
    """A call whose chunks came 10 ms apart."""
    body, reads = b"", []
    for index, chunk in enumerate(chunks):
        body += chunk
        at = (10 + 10 * index) * MS
        reads.append(Read(at - 9 * MS, at, len(chunk), len(body)))
    end = reads[-1].got_ns
    attempt = Attempt(
        marks=(Mark("entry", 0), Mark("request.sent", MS), Mark("headers", 2 * MS)),
        status=200,
        headers=(("content-type", kind), ("server", "uvicorn"), ("x-envoy-peer-metadata", "a")),
        reads=tuple(reads),
        body=body,
    )
    return Recording(
        call_id="c",
        started_at="2026-11-29T10:00:00Z",
        target=Target(scheme="http", host="127.0.0.1", port=8000, path=path),
        marks=(Mark("entry", 0), Mark("end", end)),
        attempts=(attempt,),
        request={"model": "m", "stream": True, "max_tokens": 8, "service_tier": "flex"},
    )


def encoded(api: str, *, stream: bool) -> Recording:
    dialect = next(d for d in DIALECTS if d.api == api)
    streamed = "application/x-ndjson" if api == "ollama" else "text/event-stream"
    kind = streamed if stream else "application/json"
    writer = dialect.encoder(Reply(id="chatcmpl-1", model="m/x-1", stream=stream))
    pieces = [Piece(channel=c, text=t) for c in CHANNELS for t in ("Bob ", "<think>", 'é\n"')]
    if not stream:
        return call([writer.whole(pieces, "length", USAGE, METRICS)], dialect.paths[0], kind)
    chunks = [writer.start(), writer.ping(), *map(writer.piece, pieces)]
    chunks += [writer.finish("length"), writer.close(USAGE, METRICS), writer.done()]
    return call([chunk for chunk in chunks if chunk], dialect.paths[0], kind)


def chat(*deltas: dict[str, Any], **fields: Any) -> Recording:
    """A chat stream of deltas, each chunk with `fields`."""
    choices = [{"index": 0, "finish_reason": None, "delta": delta} for delta in deltas]
    chunks = [{"object": "chat.completion.chunk", "choices": [c], **fields} for c in choices]
    return call([sse(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"], "/v1/chat/completions")


def sse(data: Any, name: str = "") -> bytes:
    event = f"event: {name}\n" if name else ""
    return f"{event}data: {json.dumps(data)}\n\n".encode()


LISTED = {"content": [{"token": "Bob", "bytes": [66]}, {"token": "!"}]}
USED = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
CALLS = {
    **{f"{d.api}, streamed": encoded(d.api, stream=True) for d in DIALECTS},
    **{f"{d.api}, whole": encoded(d.api, stream=False) for d in DIALECTS},
    "reasoning in all spellings": chat(
        {"role": "assistant", "content": None},
        {"reasoning": "Bob"},
        {"reasoning_content": "Bob"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "Bob"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Bob"}]}]},
        {"content": "</think>"},
    ),
    "tool calls": chat(
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": '{"a": 1}'}}]},
        {"function_call": {"name": "g"}},
    ),
    "tool calls told apart by id only": chat(
        {"tool_calls": [{"id": f"call_{'0a1b' * 6}", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"id": f"call_{'0a1c' * 6}", "function": {"name": "f", "arguments": ""}}]},
    ),
    "audio and refusal": chat({"audio": {"id": "a", "transcript": "Bob"}}, {"refusal": "no"}, {}),
    "tokens counted by logprobs": call(
        [sse({"choices": [{"index": 0, "delta": {"content": "Bob!"}, "logprobs": LISTED}]})],
        "/v1/chat/completions",
    ),
    "tokens counted by legacy logprobs": call(
        [sse({"choices": [{"text": "Bob!", "logprobs": {"tokens": ["Bob", "!"]}}]})],
        "/v1/completions",
    ),
    "usage and timings of other servers": chat(
        {"content": "Bob"}, usage=USED, timings={"prompt_ms": 5.5, "predicted_ms": 9.5}
    ),
    "filters": call(
        [
            sse({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
            sse({"choices": [{"delta": {}, "content_filter_results": {"hate": {"n": "safe"}}}]}),
        ],
        "/chat/completions",
    ),
    "an error in a stream": chat({"content": "Bob"}, error={"type": "server_error", "code": 500}),
    "an error named by its event": call(
        [sse({"code": "busy", "message": "Bob", "type": "Internal Server Error"}, "error")],
        "/v1/chat/completions",
    ),
    "an error of Responses": call(
        [sse({"code": "rate_limit", "message": "Bob", "type": "error"}, "error")], "/v1/responses"
    ),
    "an unknown path": call([sse({"choices": [{"delta": {"content": "Bob"}}]})], "/x"),
    "an unknown body": call([b"<html>Bob</html>"], "/v1/messages", "text/html"),
    "JSON lines": call([b'{"a":"Bob"}\n', b'{"a":"Bo'], "/api/chat", "application/x-ndjson"),
    "a cut stream": call([sse({"choices": []}), b'data: {"choices":[{"del'], "/v1/completions"),
}


def events(recording: Recording) -> list[Event]:
    """What every dialect makes of the call, but for how long texts are and what comments say."""
    found = []
    for dialect in DIALECTS:
        decoder = dialect.decoder()
        for frame in frames(recording.attempts[0]):
            found += [_plain(event) for event in decoder(frame)]
    return found


def _plain(event: Event) -> Event:
    name = "" if event.kind == "comment" else event.name
    return event._replace(size=min(event.size, 1), name=name)


@pytest.mark.parametrize("name", CALLS)
def test_a_masked_call_is_attributed_the_same(name: str) -> None:
    """Every field of the attribution, and every event of every dialect."""
    original = CALLS[name]
    masked = mask(original)
    assert b"Bob" not in (masked.attempts[0].body or b"")
    assert events(masked) == events(original)
    assert attribute(masked) == attribute(original)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recordings_of_real_servers_are_attributed_the_same(path: Path) -> None:
    """Masking them once more, too."""
    for original in read(path):
        assert attribute(mask(original)) == attribute(original)
