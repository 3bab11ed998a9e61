"""OpenAI chat completions: `POST /v1/chat/completions`, the API most servers speak.

Stream: `data:` lines of `chat.completion.chunk` objects, the last with usage and no choices when
the client asked for it, then `[DONE]`. Body: one `chat.completion`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from latscope.protocols.alike import ChunkDecoder
from latscope.protocols.chunks import Shape, State
from latscope.protocols.dialect import Decoder, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import EventKind, Usage
from latscope.protocols.fields import as_int, as_list, as_map, as_str, dig
from latscope.protocols.writing import (
    COMMENT,
    DONE,
    chat_usage,
    merged,
    openai_error,
    openai_error_body,
    sse,
    text_of,
    tool_name,
)

REASONING_KEYS = ("reasoning_content", "reasoning")
"""String spellings of reasoning; servers that send two of them send the same text twice."""

PLAIN: Mapping[str, EventKind] = {
    "content": "content",
    "refusal": "refusal",
    **dict.fromkeys(REASONING_KEYS, "reasoning"),
}
"""Keys of a delta whose output is one string."""


def decoder() -> Decoder:
    return ChunkDecoder(_SHAPE)


def _delta(choice: dict[str, Any]) -> dict[str, Any]:
    return as_map(choice.get("delta")) or as_map(choice.get("message"))


def _plain(choice: dict[str, Any]) -> tuple[EventKind, str] | None:
    delta = choice.get("delta")
    found: tuple[EventKind, str] | None = None
    for key, value in delta.items() if type(delta) is dict else ():
        if value and key != "role":
            kind = PLAIN.get(key)
            if kind is None or found is not None or type(value) is not str:
                return None
            found = kind, value
    return found


def _pieces(state: State, index: int, choice: dict[str, Any]) -> list[tuple[EventKind, str]]:
    delta = _delta(choice)
    if not delta:
        return []
    return [
        ("reasoning", _reasoning(delta)),
        *_content(delta.get("content")),
        ("content", _audio(delta.get("audio"))),
        ("refusal", as_str(delta.get("refusal"))),
        ("tool_call", _tool_calls(state, index, delta)),
    ]


def _reasoning(delta: dict[str, Any]) -> str:
    for key in REASONING_KEYS:
        if text := as_str(delta.get(key)):
            return text
    details = [as_map(detail) for detail in as_list(delta.get("reasoning_details"))]
    return "".join(as_str(d.get("text")) or as_str(d.get("summary")) for d in details)


def _content(content: object) -> list[tuple[EventKind, str]]:
    """Content is a string, or (Mistral) parts of type `text` and `thinking`."""
    if not isinstance(content, list):
        return [("content", as_str(content))]
    parts = [as_map(part) for part in content]
    thought = [as_map(t) for part in parts for t in as_list(part.get("thinking"))]
    return [
        ("reasoning", "".join(as_str(part.get("text")) for part in thought)),
        ("content", "".join(as_str(part.get("text")) for part in parts)),
    ]


def _audio(audio: object) -> str:
    return as_str(dig(audio, "transcript")) + as_str(dig(audio, "data"))


def _tool_calls(state: State, index: int, delta: dict[str, Any]) -> str:
    """What the chunk adds to tool calls: each name once, and argument text.

    Servers leave `index` out, give two calls the same one, repeat the name in every chunk, or
    send null arguments; a repeated name is no new output.
    """
    if not (delta.get("tool_calls") or delta.get("function_call")):
        return ""
    calls = [as_map(call) for call in as_list(delta.get("tool_calls"))]
    text = "".join(_tool_call(state, index, call) for call in calls)
    return text + _named(state, (index, -1, ""), as_map(delta.get("function_call")))


def _tool_call(state: State, index: int, call: dict[str, Any]) -> str:
    given = as_int(call.get("index"))
    place = (index, -1 if given is None else given)
    ident = as_str(call.get("id")) or state.ids.get(place, "")
    state.ids[place] = ident
    function = as_map(call.get("function")) or as_map(call.get("custom"))
    return _named(state, (*place, ident), function)


def _named(state: State, call: tuple[int, int, str], function: dict[str, Any]) -> str:
    name = as_str(function.get("name"))
    if (*call, name) in state.named:
        name = ""
    elif name:
        state.named.add((*call, name))
    return name + as_str(function.get("arguments")) + as_str(function.get("input"))


def _blank(choice: dict[str, Any]) -> EventKind:
    if as_str(_delta(choice).get("role")):
        return "role"
    return "filter" if choice.get("content_filter_results") else "empty"


def _logprobs(choice: dict[str, Any]) -> int:
    logprobs = choice.get("logprobs")
    if logprobs is None:  # as in nearly every chunk
        return 0
    return len(as_list(dig(logprobs, "content"))) + len(as_list(dig(logprobs, "refusal")))


_SHAPE = Shape(plain=_plain, pieces=_pieces, blank=_blank, logprobs=_logprobs)


@dataclass(slots=True)
class ChatEncoder:
    """Writes a chat answer the way OpenAI and vLLM do."""

    reply: Reply
    opened: set[int] = field(default_factory=set)
    called: set[tuple[int, int]] = field(default_factory=set)

    def start(self) -> bytes:
        return self._role(0)

    def piece(self, piece: Piece) -> bytes:
        head = b"" if piece.choice in self.opened else self._role(piece.choice)
        return head + self._chunk(piece.choice, self._delta(piece))

    def finish(self, reason: str, choice: int = 0) -> bytes:
        return self._chunk(choice, {}, reason)

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        if not self.reply.include_usage:
            return b""
        tail: dict[str, Any] = {"choices": [], "usage": chat_usage(usage)}
        if metrics is not None:
            tail["metrics"] = dict(metrics)
        return sse(self._envelope("chat.completion.chunk") | tail)

    def done(self) -> bytes:
        return DONE

    def error(self, kind: str, message: str) -> bytes:
        return sse(openai_error(kind, message))

    def ping(self) -> bytes:
        return COMMENT

    def whole(
        self,
        pieces: list[Piece],
        reason: str,
        usage: Usage,
        metrics: Mapping[str, Any] | None,
    ) -> bytes:
        indexes = sorted({piece.choice for piece in pieces} | {0})
        choices = [self._whole_choice(pieces, reason, index) for index in indexes]
        body = self._envelope("chat.completion")
        body |= {"choices": choices, "usage": chat_usage(usage)}
        if metrics is not None:
            body["metrics"] = dict(metrics)
        return text_of(body)

    def _envelope(self, kind: str) -> dict[str, Any]:
        reply = self.reply
        return {"id": reply.id, "object": kind, "created": reply.created, "model": reply.model}

    def _role(self, choice: int) -> bytes:
        self.opened.add(choice)
        return self._chunk(choice, {"role": "assistant", "content": ""})

    def _chunk(self, choice: int, delta: dict[str, Any], reason: str | None = None) -> bytes:
        entry = {"index": choice, "delta": delta, "logprobs": None, "finish_reason": reason}
        return sse(self._envelope("chat.completion.chunk") | {"choices": [entry]})

    def _delta(self, piece: Piece) -> dict[str, Any]:
        if piece.channel == "reasoning":
            return self._reasoning(piece.text)
        if piece.channel != "tool_call":
            return {piece.channel: piece.text}
        call: dict[str, Any] = {"index": piece.tool, "function": {"arguments": piece.text}}
        if (piece.choice, piece.tool) not in self.called:
            self.called.add((piece.choice, piece.tool))
            call = {"index": piece.tool} | self._call(piece)
        return {"tool_calls": [call]}

    def _reasoning(self, text: str) -> dict[str, Any]:
        key = self.reply.reasoning_key
        if key == "reasoning_details":
            return {key: [{"type": "reasoning.text", "text": text, "index": 0}]}
        return {key: text}

    def _call(self, piece: Piece) -> dict[str, Any]:
        return {
            "id": f"call_{self.reply.id}_{piece.choice}_{piece.tool}",
            "type": "function",
            "function": {"name": tool_name(piece.tool), "arguments": piece.text},
        }

    def _whole_choice(self, pieces: list[Piece], reason: str, index: int) -> dict[str, Any]:
        mine = [piece for piece in pieces if piece.choice == index]
        text = {
            channel: "".join(piece.text for piece in mine if piece.channel == channel)
            for channel in ("reasoning", "content", "refusal")
        }
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text["content"] or None,
            "refusal": text["refusal"] or None,
        }
        if text["reasoning"]:
            message |= self._reasoning(text["reasoning"])
        calls = sorted((p for p in mine if p.channel == "tool_call"), key=lambda p: p.tool)
        if calls:
            message["tool_calls"] = [self._call(piece) for piece in merged(calls)]
        return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}


def encoder(reply: Reply) -> Encoder:
    return ChatEncoder(reply)


DIALECT = Dialect(
    name="openai.chat",
    api="chat",
    paths=("/chat/completions",),
    decoder=decoder,
    encoder=encoder,
    error_body=openai_error_body,
    signs=frozenset(
        {"chat.completion.chunk", "chat.completion", "choices.delta", "choices.message"}
    ),
)
