"""The shapes synthetic answers have in common: a chat stream, its body, an Anthropic stream.

The client's side of all of them: the server has the request at 35 ms, one way is 10 ms.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.calls import DONE, Chunk, sse

SENT, FIRST, STEP, TOKENS = 25.0, 87.0, 10.0, 5
"""The request's last byte, the first token and the steps after it, as the client sees them, ms."""
LAST = FIRST + (TOKENS - 1) * STEP

COUNTS = {"prompt_tokens": 12, "completion_tokens": TOKENS, "total_tokens": 12 + TOKENS}


def chat(
    *,
    model: str,
    finish: dict[str, Any] | None = None,
    usage: dict[str, Any] | None = None,
    waiting: Sequence[Chunk] = (),
    after: Sequence[Chunk] = (),
) -> list[Chunk]:
    """A chat stream. finish: what else its last choice's chunk holds; usage: the trailing chunk
    without choices, none when null; waiting: what came before the first token."""

    def chunk(choices: list[dict[str, Any]], **fields: Any) -> bytes:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": model}
        return sse({**head, "choices": choices, **fields})

    def choice(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "finish_reason": reason}

    chunks = [*waiting, (FIRST, chunk([choice({"role": "assistant", "content": ""})]))]
    words = [chunk([choice({"content": f"w{index} "})]) for index in range(TOKENS)]
    chunks += [(FIRST + index * STEP, word) for index, word in enumerate(words)]
    chunks.append((LAST, chunk([choice({}, "stop")], **(finish or {}))))
    if usage is not None:
        chunks.append((LAST, chunk([], **usage)))
    return [*chunks, *after, (LAST, DONE)]


def whole(*, model: str, choice: dict[str, Any] | None = None, **fields: Any) -> list[Chunk]:
    """The chat answer in one body, at the time its last token would have come."""
    message = {"role": "assistant", "content": "w0 w1 w2 w3 w4"}
    first = {"index": 0, "message": message, "finish_reason": "stop", **(choice or {})}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "model": model, "choices": [first]}
    return [(LAST, json.dumps({**body, "usage": COUNTS, **fields}).encode())]


def messages(model: str, *, stop: dict[str, Any] | None = None) -> list[Chunk]:
    """An Anthropic stream; stop: what else its last event holds."""

    def event(kind: str, **fields: Any) -> bytes:
        return sse({"type": kind, **fields}, kind)

    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
    opened = {**message, "usage": {"input_tokens": 12, "output_tokens": 1}}
    block = {"type": "text", "text": ""}
    chunks = [
        (FIRST, event("message_start", message=opened)),
        (FIRST, event("content_block_start", index=0, content_block=block)),
    ]
    for index in range(TOKENS):
        delta = {"type": "text_delta", "text": f"w{index} "}
        at = FIRST + index * STEP
        chunks.append((at, event("content_block_delta", index=0, delta=delta)))
    chunks += [
        (LAST, event("content_block_stop", index=0)),
        (
            LAST,
            event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}),
        ),
        (LAST, event("message_stop", **(stop or {}))),
    ]
    return chunks
