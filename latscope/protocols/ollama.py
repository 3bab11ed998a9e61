"""Ollama's native API: `POST /api/chat` and `/api/generate`, JSON lines instead of events.

Stream (the default): one object a line, output in `message` (chat) or at the top (generate), the
last with `done: true`, the reason, counts and durations in ns. Body: one object of the same shape.
A tool call comes whole in one line. Sources: Ollama's api/types.go and server/routes.go (August
2026); `prompt_eval_cached_count` from its documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from latscope.protocols.dialect import Decoder, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import Event, EventKind, Facts, Usage
from latscope.protocols.fields import as_int, as_list, as_map, as_str, parse
from latscope.protocols.reading import (
    annotated,
    error,
    event,
    facts_of,
    figures_in,
    finish,
    output,
    read,
)
from latscope.protocols.writing import known, merged, text_of, tool_name
from latscope.units import rfc3339
from latscope.wire.frames import Frame

COUNTS: Mapping[str, str] = {
    "input_tokens": "prompt_eval_count",  # the whole prompt, cached tokens included
    "cached_tokens": "prompt_eval_cached_count",
    "output_tokens": "eval_count",
}
"""Where each count lies in the last object. Reasoning is part of eval_count and not told apart."""


@dataclass(slots=True)
class State:
    """facts: those told last (every line repeats them); called: a tool call has come, with which
    an answer ends for `tool_calls`, though Ollama's own word for that is `stop`."""

    facts: Facts | None = None
    called: bool = False


def decoder() -> Decoder:
    return partial(read, partial(_events, State()))


def _events(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    if data.get("error"):
        return [error(frame, data["error"])]
    if data.keys().isdisjoint(("message", "response", "done")):
        return []
    events = _outputs(state, frame, data)
    if data.get("done") is True:
        events += _ending(state, frame, data)
    elif not events:
        role = as_str(as_map(data.get("message")).get("role"))
        events.append(event(frame, "role" if role else "empty"))
    return annotated(events, facts=_news(state, data), figures=figures_in(data))


def _outputs(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """What the line adds, by channel. Its logprobs, where asked for, list its tokens."""
    said = as_map(data.get("message")) or data
    calls = [as_map(call) for call in as_list(said.get("tool_calls"))]
    state.called = state.called or bool(calls)
    pieces: list[tuple[EventKind, str]] = [
        ("reasoning", as_str(said.get("thinking"))),
        ("content", as_str(said.get("content")) or as_str(data.get("response"))),
        ("tool_call", "".join(map(_called, calls))),
    ]
    events = [output(frame, kind, text) for kind, text in pieces if text]
    listed = len(as_list(data.get("logprobs")))
    if events and listed:
        events[0] = events[0]._replace(tokens=listed)
    return events


def _called(call: dict[str, Any]) -> str:
    """A call's name and its arguments, which are an object here."""
    function = as_map(call.get("function"))
    given = as_map(function.get("arguments"))
    return as_str(function.get("name")) + (text_of(given).decode() if given else "")


def _ending(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The last line: finish (`load` and `unload` are reasons too), usage, done."""
    reason, events = as_str(data.get("done_reason")), []
    if reason:
        events.append(finish(frame, "tool_calls" if state.called and reason == "stop" else reason))
    counts = {name: as_int(data.get(key)) for name, key in COUNTS.items()}
    if any(count is not None for count in counts.values()):
        events.append(event(frame, "usage")._replace(usage=Usage(**counts)))
    return [*events, event(frame, "done", name="body" if frame.kind == "body" else "done")]


def _news(state: State, data: dict[str, Any]) -> Facts | None:
    facts = facts_of(data)
    if facts == state.facts:
        return None
    state.facts = facts
    return facts


REASONS: Mapping[str, str] = {"length": "length"}
"""What Ollama says for a finish reason; all others are `stop`."""


@dataclass(slots=True)
class OllamaEncoder:
    """Writes `/api/chat` lines. One answer a call: `choice` is not used. A tool call is held back
    until it is whole, as Ollama does; metrics are its durations, at the top of the last line."""

    reply: Reply
    reason: str = "stop"
    held: list[Piece] = field(default_factory=list)

    def start(self) -> bytes:
        return b""

    def piece(self, piece: Piece) -> bytes:
        if piece.channel == "tool_call":
            ended = self.held and self.held[-1].tool != piece.tool
            written = self._flush() if ended else b""
            self.held.append(piece)
            return written
        return self._flush() + self._line(_message([piece]))

    def finish(self, reason: str, choice: int = 0) -> bytes:
        self.reason = reason
        return self._flush()

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        ending = self._ending(self.reason, usage, metrics)
        return self._line({"role": "assistant", "content": ""}, ending)

    def done(self) -> bytes:
        return b""

    def error(self, kind: str, message: str) -> bytes:
        return text_of({"error": message}) + b"\n"

    def ping(self) -> bytes:
        return b""

    def whole(
        self,
        pieces: list[Piece],
        reason: str,
        usage: Usage,
        metrics: Mapping[str, Any] | None,
    ) -> bytes:
        ending = self._ending(reason, usage, metrics)
        return self._line(_message(pieces), ending).removesuffix(b"\n")

    def _flush(self) -> bytes:
        pieces, self.held = self.held, []
        return self._line(_message(pieces)) if pieces else b""

    def _line(self, message: dict[str, Any], ending: Mapping[str, Any] | None = None) -> bytes:
        line: dict[str, Any] = {
            "model": self.reply.model,
            "created_at": rfc3339(self.reply.created),
            "message": message,
            "done": False,
        }
        return text_of(line | dict(ending or {})) + b"\n"

    def _ending(
        self, reason: str, usage: Usage, metrics: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        counts = {key: getattr(usage, name) for name, key in COUNTS.items()}
        word = REASONS.get(reason, "stop")
        return {"done": True, "done_reason": word, **(metrics or {}), **known(**counts)}


def _message(pieces: list[Piece]) -> dict[str, Any]:
    """`pieces` as one message; a refusal is text like any other here."""
    joined = merged(sorted(pieces, key=lambda piece: (piece.channel == "tool_call", piece.tool)))
    text = {
        channel: "".join(piece.text for piece in joined if piece.channel in kinds)
        for channel, kinds in (("content", ("content", "refusal")), ("thinking", ("reasoning",)))
    }
    message: dict[str, Any] = {"role": "assistant", "content": text["content"]}
    if text["thinking"]:
        message["thinking"] = text["thinking"]
    calls = [_call(piece) for piece in joined if piece.channel == "tool_call"]
    return message | ({"tool_calls": calls} if calls else {})


def _call(piece: Piece) -> dict[str, Any]:
    given = parse(piece.text.encode())
    arguments = given if isinstance(given, dict) else {"text": piece.text}
    return {
        "function": {"index": piece.tool, "name": tool_name(piece.tool), "arguments": arguments}
    }


def error_body(status: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error as Ollama sends it: a message and no type."""
    return text_of({"error": message})


def encoder(reply: Reply) -> Encoder:
    return OllamaEncoder(reply)


DIALECT = Dialect(
    name="ollama.native",
    api="ollama",
    paths=("/api/chat", "/api/generate"),
    path_decides=False,
    decoder=decoder,
    encoder=encoder,
    error_body=error_body,
    signs=frozenset({"done"}),
)
