"""Content, where it is asked for twice, in the conventions' form; never otherwise."""

import json
from typing import Any

import httpx2
import pytest

import latscope
from latscope.export.otel.content import VARIABLE, messages
from latscope.export.otel.sink import OTelSink
from tests import calls
from tests.capture.scripted import json_answer, serving
from tests.export.otel.conftest import Seen, chat
from tests.export.otel.told_calls import of

CHAT: dict[str, Any] = {
    "model": "tiny-1",
    "stream": True,
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ],
    "tools": [{"type": "function", "function": {"name": "f"}}],
}


def asked(monkeypatch: pytest.MonkeyPatch, value: str = "span_only") -> None:
    monkeypatch.setenv(VARIABLE, value)


def made(otel: Seen, body: dict[str, Any], *, keep_content: bool) -> dict[str, Any]:
    with serving(chat()) as server, httpx2.Client() as client:
        sink = OTelSink(otel.tracers, otel.meters)
        latscope.instrument(client, sink=sink, keep_content=keep_content)
        client.post(f"{server.url}/v1/chat/completions", json=body)
    (own,) = otel.named("chat tiny-1")
    return dict(own.attributes or {})


@pytest.mark.parametrize(
    ("value", "keep"),
    [("", True), ("no_content", True), ("event_only", True), ("span_only", False)],
)
def test_content_needs_both_switches(
    value: str, keep: bool, otel: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(monkeypatch, value)
    assert not [key for key in made(otel, CHAT, keep_content=keep) if "messages" in key]


@pytest.mark.parametrize("value", ["span_only", "SPAN_AND_EVENT", "true"])
def test_a_chat_with_both(value: str, otel: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch, value)
    found = made(otel, CHAT, keep_content=True)
    assert json.loads(found["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "be brief"}]},
        {"role": "user", "parts": [{"type": "text", "content": "hi"}, {"type": "image_url"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "42"}]},
    ]
    assert json.loads(found["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "one two"}],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(found["gen_ai.tool.definitions"]) == CHAT["tools"]


def told_of(request: dict[str, Any], body: bytes, api: str, kind: str) -> dict[str, Any]:
    recording = calls.call(calls.attempt([(9.0, body)], kind=kind), api=api, request=request)
    return {name: json.loads(text) for name, text in messages(of(recording)).items()}


def test_anthropic_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)

    def event(kind: str, **fields: Any) -> bytes:
        return calls.sse({"type": kind, **fields}, event=kind)

    body = b"".join(
        [
            event("message_start", message={"id": "m", "type": "message", "usage": {}}),
            event("content_block_delta", index=0, delta={"type": "t", "thinking": "hm"}),
            event("content_block_delta", index=1, delta={"type": "t", "text": "yes"}),
            event("content_block_delta", index=2, delta={"type": "t", "partial_json": "{}"}),
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={}),
            event("message_stop"),
        ]
    )
    request = {
        "system": "be brief",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "42"},
                    {"type": "text", "text": "go on"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
                ],
            },
        ],
    }
    found = told_of(request, body, "messages", "text/event-stream")
    assert found["gen_ai.system_instructions"] == [{"type": "text", "content": "be brief"}]
    assert found["gen_ai.input.messages"][0]["parts"][0]["response"] == "42"
    assert found["gen_ai.input.messages"][1]["parts"] == [
        {"type": "reasoning", "content": "hm"},
        {"type": "tool_call", "id": "t1", "name": "f", "arguments": {"a": 1}},
    ]
    (answer,) = found["gen_ai.output.messages"]
    assert answer["parts"] == [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "yes"},
        {"type": "tool_call", "arguments": "{}"},
    ]


def test_responses_whole_and_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)
    text = {"type": "output_text", "text": "yes"}
    response = {
        "object": "response",
        "status": "completed",
        "output": [
            {"type": "message", "role": "assistant", "content": [text]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ],
    }
    request = {
        "instructions": "be brief",
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "function_call_output", "call_id": "c0", "output": "42"},
        ],
    }
    whole = told_of(request, json.dumps(response).encode(), "responses", "application/json")
    done = calls.sse({"type": "response.completed", "response": response}, "response.completed")
    streamed = told_of(request, done, "responses", "text/event-stream")
    assert whole == streamed
    assert whole["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "yes"}],
            "finish_reason": "completed",
        },
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": "{}"}],
            "finish_reason": "completed",
        },
    ]
    assert whole["gen_ai.input.messages"][1] == {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": "c0", "response": "42"}],
    }


def test_a_whole_chat_answer_and_a_plain_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)
    choice = {"message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    body = json.dumps({"object": "chat.completion", "choices": [choice]}).encode()
    found = told_of({"messages": ["hi"]}, body, "chat", "application/json")
    assert found["gen_ai.output.messages"][0]["parts"] == [{"type": "text", "content": "yes"}]
    body = json.dumps({"object": "text_completion", "choices": [{"text": "yes"}]}).encode()
    found = told_of({"prompt": "hi"}, body, "completions", "application/json")
    assert found["gen_ai.input.messages"] == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    ]
    assert found["gen_ai.output.messages"][0]["parts"] == [{"type": "text", "content": "yes"}]


def test_anthropic_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)
    (body,) = json_answer(
        {
            "type": "message",
            "role": "assistant",
            "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "yes"}],
        }
    )
    assert isinstance(body, bytes)
    found = told_of(
        {"messages": [{"role": "user", "content": "hi"}]},
        body.partition(b"\r\n\r\n")[2],
        "messages",
        "application/json",
    )
    assert found["gen_ai.output.messages"] == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "yes"}],
            "finish_reason": "end_turn",
        }
    ]


def test_a_call_without_an_answer_has_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    asked(monkeypatch)
    recording = calls.call(api="chat", request={"messages": [{"role": "user", "content": "hi"}]})
    assert set(messages(of(recording))) == {"gen_ai.input.messages"}
