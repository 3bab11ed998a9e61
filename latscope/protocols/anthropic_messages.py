"""Anthropic Messages: `POST /v1/messages`, also spoken by vLLM, llama.cpp and SGLang.

Stream: `message_start`, then content blocks (`content_block_start`, `_delta`, `_stop`) of type
text, thinking or tool_use, `message_delta` with the stop reason and cumulative usage, and
`message_stop`; `ping` events anywhere. Body: one `message`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from latscope.protocols.alike import AlikeDecoder
from latscope.protocols.dialect import Channel, Decoder, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import Event, EventKind, Usage
from latscope.protocols.fields import as_int, as_list, as_map, as_str, dig, parse
from latscope.protocols.reading import (
    annotated,
    error,
    event,
    facts_of,
    figures_in,
    finish,
    output,
)
from latscope.protocols.writing import known, merged, sse, text_of, tool_name
from latscope.wire.frames import Frame

COUNTS: Mapping[str, tuple[str, ...]] = {
    "input": ("input_tokens",),
    "read": ("cache_read_input_tokens",),
    "write": ("cache_creation_input_tokens",),
    "output": ("output_tokens",),
    "reasoning": ("output_tokens_details", "thinking_tokens"),
}
"""Where each count lies in a usage object."""

BLOCK_TEXT: Mapping[str, tuple[EventKind, str]] = {
    "text": ("content", "text"),
    "thinking": ("reasoning", "thinking"),
    "tool_use": ("tool_call", "name"),
    "server_tool_use": ("tool_call", "name"),
    "mcp_tool_use": ("tool_call", "name"),
}
"""Block types that carry output, their channel, and the key of what they open with."""

DELTA_TEXT: Mapping[str, tuple[EventKind, str]] = {
    "text_delta": ("content", "text"),
    "thinking_delta": ("reasoning", "thinking"),
    "input_json_delta": ("tool_call", "partial_json"),
}
"""Delta types that carry output; the others (signature_delta, citations_delta) carry none."""

Counts: TypeAlias = dict[str, int]
"""What the answer's usage objects have stated so far: each is cumulative and may be partial."""


def decoder() -> Decoder:
    return AlikeDecoder(partial(_events, {}), _only_text)


_SILENT = frozenset({"type", "index", "delta"})
"""Keys of a delta's event that say no more than where the text belongs."""


def _only_text(frame: Frame, data: dict[str, Any]) -> tuple[int, EventKind, str] | None:
    """Of a delta that writes some output and says nothing else: its choice, channel and text."""
    delta = data.get("delta")
    if data.get("type") != "content_block_delta" or frame.name not in _NAMES:
        return None
    if type(delta) is not dict or len(delta) != 2 or not data.keys() <= _SILENT:
        return None
    kind, key = DELTA_TEXT.get(as_str(delta.get("type")), ("empty", ""))
    text = as_str(delta.get(key))
    return (0, kind, text) if text else None


_NAMES = ("content_block_delta", "")


def _events(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """Figures ride at the top (Bedrock: `amazon-bedrock-invocationMetrics` on `message_stop`) or
    inside the message."""
    handler = _HANDLERS.get(as_str(data.get("type")) or frame.name)
    if handler is not None:
        figures = figures_in(data, as_map(data.get("message")))
        return annotated(handler(counts, frame, data), figures=figures)
    return [error(frame, data["error"])] if data.get("error") else []


def _start(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    message = as_map(data.get("message"))
    told = facts_of(message)
    facts = replace(told, service_tier=_tier(message) or told.service_tier)
    events = [event(frame, "lifecycle", name="message_start")]
    return annotated(events, facts=facts) + _usage(counts, frame, message.get("usage"))


def _tier(message: dict[str, Any]) -> str | None:
    return as_str(dig(message, "usage", "service_tier")) or None


def _block_start(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    block = as_map(data.get("content_block"))
    kind, key = BLOCK_TEXT.get(as_str(block.get("type")), ("lifecycle", ""))
    if text := as_str(block.get(key)):
        return [output(frame, kind, text)]
    return [event(frame, "lifecycle", name="content_block_start")]


def _block_delta(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    delta = as_map(data.get("delta"))
    kind, key = DELTA_TEXT.get(as_str(delta.get("type")), ("empty", ""))
    return [output(frame, kind, as_str(delta.get(key)))]


def _block_stop(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [event(frame, "lifecycle", name="content_block_stop")]


def _message_delta(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    reason = as_str(dig(data, "delta", "stop_reason"))
    events = [finish(frame, reason)] if reason else []
    events += _usage(counts, frame, data.get("usage"))
    return events or [event(frame, "lifecycle", name="message_delta")]


def _stop(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [event(frame, "done", name="message_stop")]


def _ping(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [event(frame, "ping", name="ping")]


def _error(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [error(frame, data.get("error"))]


def _message(counts: Counts, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The whole answer of a call that was not streamed."""
    blocks = [as_map(block) for block in as_list(data.get("content"))]
    events = [output(frame, *piece) for block in blocks if (piece := _block_piece(block))[1]]
    if reason := as_str(data.get("stop_reason")):
        events.append(finish(frame, reason))
    events += _usage(counts, frame, data.get("usage"))
    events.append(event(frame, "done", name="body"))
    told = facts_of(data)
    return annotated(events, facts=replace(told, service_tier=_tier(data) or told.service_tier))


def _block_piece(block: dict[str, Any]) -> tuple[EventKind, str]:
    kind, key = BLOCK_TEXT.get(as_str(block.get("type")), ("empty", ""))
    given = as_map(block.get("input")) if kind == "tool_call" else {}
    return kind, as_str(block.get(key)) + (text_of(given).decode() if given else "")


_HANDLERS: Mapping[str, Callable[[Counts, Frame, dict[str, Any]], list[Event]]] = {
    "message_start": _start,
    "content_block_start": _block_start,
    "content_block_delta": _block_delta,
    "content_block_stop": _block_stop,
    "message_delta": _message_delta,
    "message_stop": _stop,
    "ping": _ping,
    "error": _error,
    "message": _message,
}


def _usage(counts: Counts, frame: Frame, told: object) -> list[Event]:
    stated = {name: as_int(dig(told, *path)) for name, path in COUNTS.items()}
    counts |= {name: count for name, count in stated.items() if count is not None}
    if all(count is None for count in stated.values()):
        return []
    read_, written = counts.get("read"), counts.get("write")
    given = counts.get("input")
    usage = Usage(
        # The API's own input_tokens leaves out what was read from or written to the cache.
        input_tokens=None if given is None else given + (read_ or 0) + (written or 0),
        cached_tokens=read_,
        cache_write_tokens=written,
        output_tokens=counts.get("output"),
        reasoning_tokens=counts.get("reasoning"),
    )
    return [event(frame, "usage")._replace(usage=usage)]


BLOCKS: Mapping[Channel, tuple[str, str, str]] = {
    "content": ("text", "text", "text_delta"),
    "refusal": ("text", "text", "text_delta"),
    "reasoning": ("thinking", "thinking", "thinking_delta"),
    "tool_call": ("tool_use", "partial_json", "input_json_delta"),
}
"""Per channel: block type, key of the text in a delta, delta type."""

STOP: Mapping[str, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


@dataclass(slots=True)
class MessagesEncoder:
    """Writes a message the way Anthropic does. One answer a call: `choice` is not used, and the
    API carries no per-request metrics."""

    reply: Reply
    index: int = -1
    block: tuple[str, int] | None = None
    reason: str = "end_turn"

    def start(self) -> bytes:
        usage = _usage_body(replace(self.reply.prompt, output_tokens=0))
        message = self._message([], None, usage)
        return _event("message_start", message=message)

    def piece(self, piece: Piece) -> bytes:
        kind, key, delta = BLOCKS[piece.channel]
        head = b""
        if self.block != (kind, piece.tool):
            head = self._close_block() + self._open_block(kind, piece.tool)
        told = {"type": delta, key: piece.text}
        return head + _event("content_block_delta", index=self.index, delta=told)

    def finish(self, reason: str, choice: int = 0) -> bytes:
        self.reason = STOP.get(reason, "end_turn")
        return self._close_block()

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        delta = {"stop_reason": self.reason, "stop_sequence": None}
        return _event("message_delta", delta=delta, usage=_usage_body(usage))

    def done(self) -> bytes:
        return _event("message_stop")

    def error(self, kind: str, message: str) -> bytes:
        return _event("error", error={"type": kind, "message": message})

    def ping(self) -> bytes:
        return _event("ping")

    def whole(
        self,
        pieces: list[Piece],
        reason: str,
        usage: Usage,
        metrics: Mapping[str, Any] | None,
    ) -> bytes:
        content = [self._block(piece) for piece in merged(pieces)]
        stop = STOP.get(reason, "end_turn")
        return text_of(self._message(content, stop, _usage_body(usage)))

    def _message(
        self, content: list[dict[str, Any]], stop: str | None, usage: dict[str, Any]
    ) -> dict[str, Any]:
        return {
            "id": self.reply.id,
            "type": "message",
            "role": "assistant",
            "model": self.reply.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def _open_block(self, kind: str, tool: int) -> bytes:
        self.index += 1
        self.block = (kind, tool)
        block = _empty_block(kind, self._call_id(tool), tool)
        return _event("content_block_start", index=self.index, content_block=block)

    def _close_block(self) -> bytes:
        if self.block is None:
            return b""
        sign = b""
        if self.block[0] == "thinking":
            delta = {"type": "signature_delta", "signature": "c2ln"}
            sign = _event("content_block_delta", index=self.index, delta=delta)
        self.block = None
        return sign + _event("content_block_stop", index=self.index)

    def _call_id(self, tool: int) -> str:
        return f"toolu_{self.reply.id}_{tool}"

    def _block(self, piece: Piece) -> dict[str, Any]:
        kind, key, _ = BLOCKS[piece.channel]
        block = _empty_block(kind, self._call_id(piece.tool), piece.tool)
        if kind == "tool_use":
            given = parse(piece.text.encode())
            return block | {"input": given if isinstance(given, dict) else {"text": piece.text}}
        return block | {key: piece.text}


def _event(name: str, **fields: Any) -> bytes:
    return sse({"type": name, **fields}, name)


def _empty_block(kind: str, ident: str, tool: int) -> dict[str, Any]:
    if kind == "tool_use":
        return {"type": kind, "id": ident, "name": tool_name(tool), "input": {}}
    return {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})


def _usage_body(usage: Usage) -> dict[str, Any]:
    cached, written = usage.cached_tokens, usage.cache_write_tokens
    fresh = (usage.input_tokens or 0) - (cached or 0) - (written or 0)
    thought = usage.reasoning_tokens
    return {
        "input_tokens": max(0, fresh),
        **known(cache_read_input_tokens=cached, cache_creation_input_tokens=written),
        "output_tokens": usage.output_tokens or 0,
        **known(output_tokens_details=None if thought is None else {"thinking_tokens": thought}),
    }


def error_body(status: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error as Anthropic sends it; the status is not in it."""
    return text_of({"type": "error", "error": {"type": kind, "message": message}})


def encoder(reply: Reply) -> Encoder:
    return MessagesEncoder(reply)


DIALECT = Dialect(
    name="anthropic.messages",
    api="messages",
    paths=("/v1/messages", "/messages"),
    decoder=decoder,
    encoder=encoder,
    error_body=error_body,
    signs=frozenset(_HANDLERS) - {"ping", "error"},
)
