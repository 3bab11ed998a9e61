"""Hazards that no other test has: faults of ours at every event, odd arguments, odd deltas."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.capture.instrument import attach
from latscope.capture.recorder import AttemptRecorder
from latscope.capture.snapshots import Snapshots
from latscope.middleware.pipeline import finish
from latscope.recording import Recording
from tests.capture import bodies, clients, outcomes, styles
from tests.capture.h2server import serving_h2
from tests.capture.scripted import serving, stream
from tests.capture.test_ways import over_h2

KINDS = ["openai", "openai-httpx", "anthropic"]


@pytest.fixture
def recordings() -> list[Recording]:
    return []


class Raising(dict[str, str]):
    """A table that fails whoever looks."""

    def get(self, *_: object) -> Any:
        raise RuntimeError


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_callback_that_fails_costs_no_connection(
    kind: str, recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours fails at each event, that of the closed response too: answers, pool and reuse are as
    ever, and the recording says what is missing."""
    monkeypatch.setattr("latscope.capture.recorder.TRACE_MARKS", Raising())
    whole = bodies.chat if kind.startswith("openai") else bodies.message
    with serving(*[whole()] * 3) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        for _ in range(3):
            assert clients.api(client).create(**outcomes.arguments(client)).model == "tiny"
        assert clients.pool_state(client) == [" HTTP/1.1, IDLE, Request Count: 3]>"]
        assert server.connections == 1
    assert [recording.broken for recording in recordings] == [("trace: RuntimeError",)] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_over_http2(
    kind: str, recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latscope.capture.recorder.TRACE_MARKS", Raising())
    parts = bodies.CHAT_PARTS if kind.startswith("openai") else bodies.MESSAGE_PARTS
    with serving_h2(parts, parts) as url, over_h2(kind, url) as client:
        attach(client, done=recordings.append)
        for _ in range(2):
            assert len(outcomes.exhausted(client, None)) >= 4  # type: ignore[arg-type]
        assert clients.pool_state(client) == [" HTTP/2, IDLE, Request Count: 2]>"]
    assert [recording.broken for recording in recordings] == [("trace: RuntimeError",)] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_recorder_whose_every_step_fails_is_not_felt(
    kind: str, recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stamps that cannot be taken at the end, at the headers, in the body: the stream is whole."""

    def fail(*_: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(Snapshots, "take", fail)
    monkeypatch.setattr(AttemptRecorder, "_ended", fail)
    parts = bodies.CHAT_PARTS if kind.startswith("openai") else bodies.MESSAGE_PARTS
    with serving(*outcomes.whole(parts)) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        assert len(outcomes.exhausted(client, server)) >= 4
    (recording,) = recordings
    assert {"trace: RuntimeError", "responded: RuntimeError"} <= set(recording.broken)


@pytest.mark.parametrize("kind", KINDS)
def test_messages_that_are_a_one_shot_iterator_are_sent(
    kind: str, recordings: list[Recording]
) -> None:
    """Nothing of the arguments is looked at before the SDK does."""

    def once() -> Iterator[dict[str, str]]:
        yield from bodies.MESSAGES

    whole = bodies.chat if kind.startswith("openai") else bodies.message
    with serving(whole()) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        given = {**outcomes.arguments(client), "messages": once()}
        clients.api(client).create(**given)
    assert json.loads(server.requests[0].body)["messages"] == bodies.MESSAGES
    assert recordings[0].sent == server.requests[0].body


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_the_sdk_sees_are_the_bytes_that_were_sent(
    kind: str, recordings: list[Recording]
) -> None:
    parts = bodies.CHAT_PARTS if kind.startswith("openai") else bodies.MESSAGE_PARTS
    with serving(*outcomes.whole(parts)) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        api = clients.api(client).with_streaming_response
        with api.create(**outcomes.arguments(client), stream=True) as raw:
            seen = hashlib.sha256(b"".join(raw.iter_bytes())).digest()
    assert seen == hashlib.sha256(b"".join(parts)).digest()
    kept = hashlib.sha256(b"".join(recordings[0].attempts[0].wire or ())).digest()
    assert kept == seen


def tool(**call: Any) -> bytes:
    delta = {"tool_calls": [call]}
    choice = {"index": 0, "finish_reason": None, "delta": delta}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "tiny",
        "choices": [choice],
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


ODD_CALLS = [
    bodies.CHAT_PARTS[0],
    tool(index=0, id="call_1", type="function", function={"name": "look", "arguments": None}),
    tool(index=None, function={"arguments": '{"a":'}),
    tool(function={"arguments": ""}),
    tool(index=0, id="call_2", type="function", function={"name": "go", "arguments": "{}"}),
    tool(index=7, function={"arguments": "1}"}),
    *bodies.CHAT_PARTS[-2:],
]


def test_odd_tool_calls_pass_and_have_a_first_token(recordings: list[Recording]) -> None:
    """No index, the same twice, out of order; no arguments: all reach the caller as they came, and
    an answer of nothing but tool calls has its first token at the first name. Usage that nobody
    stated is absent."""
    seen = []
    for instrumented in (False, True):
        with serving(stream(*ODD_CALLS)) as server, clients.make("openai", server.url) as client:
            if instrumented:
                attach(client, done=recordings.append)
            api = client.chat.completions.with_streaming_response
            with api.create(**styles.CHAT, stream=True) as raw:
                seen.append([line for line in raw.iter_lines() if line])
    assert seen[0] == seen[1]
    told = attribute(finish(recordings[0]))
    assert told.status == "complete"
    assert told.first_token_ns is not None
    assert told.first_visible_token_ns is None
    assert (told.input_tokens, told.output_tokens) == (None, None)
