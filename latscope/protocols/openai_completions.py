"""OpenAI legacy completions: `POST /v1/completions`, prompt in, text out.

Stream: `data:` lines of `text_completion` objects, then `[DONE]`; the body has the same shape. It
knows one channel only: reasoning and tool calls, where a model writes them, are part of the text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from latscope.protocols.alike import ChunkDecoder
from latscope.protocols.chunks import Shape, State
from latscope.protocols.dialect import Decoder, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import EventKind, Usage
from latscope.protocols.fields import as_list, as_str, dig
from latscope.protocols.writing import (
    COMMENT,
    DONE,
    chat_usage,
    openai_error,
    openai_error_body,
    sse,
    text_of,
)


def decoder() -> Decoder:
    return ChunkDecoder(_SHAPE)


def _plain(choice: dict[str, Any]) -> tuple[EventKind, str] | None:
    text = choice.get("text")
    return ("content", text) if text and type(text) is str else None


def _pieces(state: State, index: int, choice: dict[str, Any]) -> list[tuple[EventKind, str]]:
    return [("content", as_str(choice.get("text")))]


def _blank(choice: dict[str, Any]) -> EventKind:
    return "filter" if choice.get("content_filter_results") else "empty"


def _logprobs(choice: dict[str, Any]) -> int:
    return len(as_list(dig(choice.get("logprobs"), "tokens")))


_SHAPE = Shape(plain=_plain, pieces=_pieces, blank=_blank, logprobs=_logprobs)


@dataclass(frozen=True, slots=True)
class CompletionsEncoder:
    """Writes a completion the way OpenAI and vLLM do. Every channel's text goes into `text`."""

    reply: Reply

    def start(self) -> bytes:
        return b""

    def piece(self, piece: Piece) -> bytes:
        return sse(self._envelope([_choice(piece.choice, piece.text, None)]))

    def finish(self, reason: str, choice: int = 0) -> bytes:
        return sse(self._envelope([_choice(choice, "", reason)]))

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        if not self.reply.include_usage:
            return b""
        return sse(self._closed([], usage, metrics))

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
        texts = ["".join(p.text for p in pieces if p.choice == index) for index in indexes]
        choices = [_choice(index, text, reason) for index, text in zip(indexes, texts, strict=True)]
        return text_of(self._closed(choices, usage, metrics))

    def _envelope(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.reply.id,
            "object": "text_completion",
            "created": self.reply.created,
            "model": self.reply.model,
            "choices": choices,
        }

    def _closed(
        self, choices: list[dict[str, Any]], usage: Usage, metrics: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        closed = self._envelope(choices) | {"usage": chat_usage(usage)}
        return closed if metrics is None else closed | {"metrics": dict(metrics)}


def _choice(index: int, text: str, reason: str | None) -> dict[str, Any]:
    """`tool_calls` is no finish reason of this API: such an answer simply stops."""
    word = "stop" if reason == "tool_calls" else reason
    return {"index": index, "text": text, "logprobs": None, "finish_reason": word}


def encoder(reply: Reply) -> Encoder:
    return CompletionsEncoder(reply)


DIALECT = Dialect(
    name="openai.completions",
    api="completions",
    paths=("/completions",),
    decoder=decoder,
    encoder=encoder,
    error_body=openai_error_body,
    signs=frozenset({"text_completion", "choices.text"}),
)
