"""What model servers send, as the scripted server plays it."""

import json
from typing import Any

from tests.capture.scripted import Step, json_answer, stream

MESSAGES = [{"role": "user", "content": "say hello"}]


def _chat_chunk(**choice: Any) -> bytes:
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "finish_reason": None, **choice}],
    }
    return b"data: " + json.dumps(body).encode() + b"\n\n"


CHAT_PARTS: list[bytes] = [
    _chat_chunk(delta={"role": "assistant", "content": ""}),
    _chat_chunk(delta={"content": "hel"}),
    _chat_chunk(delta={"content": "lo"}),
    _chat_chunk(delta={}, finish_reason="stop"),
    b"data: [DONE]\n\n",
]

CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": '{"word": "hello"}'},
        }
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "tiny",
    "content": [{"type": "text", "text": "hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


def _event(name: str, **body: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **body})}\n\n".encode()


MESSAGE_PARTS: list[bytes] = [
    _event("message_start", message={**MESSAGE, "content": [], "stop_reason": None}),
    _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    _event("ping"),
    _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "hel"}),
    _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "lo"}),
    _event("content_block_stop", index=0),
    _event(
        "message_delta",
        delta={"stop_reason": "end_turn", "stop_sequence": None},
        usage={"output_tokens": 2},
    ),
    _event("message_stop"),
]


def chat_stream() -> list[Step]:
    return stream(*CHAT_PARTS, x_request_id="req_1")


def chat() -> list[Step]:
    return json_answer(CHAT, x_request_id="req_1")


def message_stream() -> list[Step]:
    return stream(*MESSAGE_PARTS, request_id="req_1")


def message() -> list[Step]:
    return json_answer(MESSAGE, request_id="req_1")


def refused(status: int, **headers: str) -> list[Step]:
    return json_answer({"error": {"message": "not now", "type": "busy"}}, status, **headers)
