"""What every encoder does the same way: one SSE event, one JSON text, one error body, one count."""

import json
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from latscope.protocols.dialect import Piece
from latscope.protocols.events import Usage

COMMENT = b": keep-alive\n\n"
"""The keep-alive of the APIs that have no ping event; vLLM's words."""

DONE = b"data: [DONE]\n\n"


def text_of(data: Mapping[str, Any]) -> bytes:
    """`data` as compact JSON, as servers send it."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


def sse(data: Mapping[str, Any], name: str = "") -> bytes:
    """One SSE event, with an `event:` line when it has a name."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + text_of(data) + b"\n\n"


def openai_error(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def openai_error_body(status: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error as OpenAI's APIs send it; the status is not in it."""
    return text_of(openai_error(kind, message))


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """`pieces` with neighbours of one channel, choice and tool call joined to one."""
    runs = groupby(pieces, key=lambda piece: (piece.channel, piece.choice, piece.tool))
    return [
        Piece(channel=channel, choice=choice, tool=tool, text="".join(p.text for p in run))
        for (channel, choice, tool), run in runs
    ]


def tool_name(tool: int) -> str:
    """The name an encoder gives a tool call: a piece carries only its arguments."""
    return f"lookup_{tool}"


def chat_usage(usage: Usage) -> dict[str, Any]:
    """Usage as chat and legacy completions spell it; details only where they are known."""
    given, written = usage.input_tokens or 0, usage.output_tokens or 0
    plain: dict[str, Any] = {
        "prompt_tokens": given,
        "completion_tokens": written,
        "total_tokens": given + written,
    }
    prompt = known(cached_tokens=usage.cached_tokens, cache_write_tokens=usage.cache_write_tokens)
    if prompt:
        plain["prompt_tokens_details"] = prompt
    if usage.reasoning_tokens is not None:
        plain["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return plain


def responses_usage(usage: Usage) -> dict[str, Any]:
    """Usage as Responses spells it, which leaves no count out."""
    given, written = usage.input_tokens or 0, usage.output_tokens or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": given + written,
    }


def known(**values: Any) -> dict[str, Any]:
    """The values that are not null."""
    return {name: value for name, value in values.items() if value is not None}
