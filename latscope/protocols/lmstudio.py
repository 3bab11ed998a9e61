"""LM Studio's native API: `POST /api/v1/chat`, named events that mark every phase.

Stream: `chat.start`, where the model has to be loaded `model_load.*`, then `prompt_processing.*`,
`reasoning.*`, `message.*` and `tool_call.*`, and `chat.end` with the whole answer and its stats.
LM Studio runs the tools itself, so an answer may have several prompts and messages. Body: the
object `chat.end` holds. Source: lmstudio-ai/docs, REST API, chat and streaming events.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from latscope.protocols.dialect import Channel, Decoder, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import Event, EventKind, Facts, Milestone, Usage
from latscope.protocols.fields import as_int, as_list, as_map, as_str, parse
from latscope.protocols.reading import annotated, error, event, figures_in, output, read
from latscope.protocols.writing import COMMENT, merged, sse, text_of, tool_name
from latscope.wire.frames import Frame

MILESTONES: Mapping[str, Milestone] = {
    "model_load.start": "waiting",
    "model_load.progress": "waiting",
    "model_load.end": "waiting",
    "prompt_processing.start": "scheduled",
    "prompt_processing.progress": "scheduled",
    "prompt_processing.end": "prefilled",
}
"""What these events prove: a model is loaded before the request is given to it."""

LIFECYCLE = (
    "reasoning.start",
    "reasoning.end",
    "message.start",
    "message.end",
    "tool_call.success",
    "tool_call.failure",
)
"""Events that carry no output. What a tool answered was not written by the model."""

COUNTS: Mapping[str, str] = {
    "input_tokens": "input_tokens",
    "output_tokens": "total_output_tokens",
    "reasoning_tokens": "reasoning_output_tokens",
}
"""Where each count lies in `stats`."""

Handler: TypeAlias = Callable[[Frame, dict[str, Any]], list[Event]]


def decoder() -> Decoder:
    return partial(read, _events)


def _events(frame: Frame, data: dict[str, Any]) -> list[Event]:
    kind = as_str(data.get("type")) or frame.name
    handler = _HANDLERS.get(kind)
    if handler is not None:
        return annotated(handler(frame, data), figures=figures_in(data, as_map(data.get("result"))))
    if data.get("error"):
        return [error(frame, data["error"])]
    if "model_instance_id" in data and not kind:
        return annotated(_whole(frame, data), figures=figures_in(data))
    return []


def _lifecycle(frame: Frame, data: dict[str, Any]) -> list[Event]:
    name = as_str(data.get("type")) or frame.name
    made = event(frame, "lifecycle", name=name)._replace(milestone=MILESTONES.get(name, ""))
    return annotated([made], facts=_facts(data))


def _facts(data: Mapping[str, Any]) -> Facts:
    return Facts(
        model=as_str(data.get("model_instance_id")) or None,
        response_id=as_str(data.get("response_id")) or None,
    )


def _delta(kind: EventKind, frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [output(frame, kind, as_str(data.get("content")))]


def _call_start(frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [output(frame, "tool_call", as_str(data.get("tool")))]


def _call_arguments(frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [output(frame, "tool_call", _arguments(data))]


def _arguments(data: Mapping[str, Any]) -> str:
    given = as_map(data.get("arguments"))
    return text_of(given).decode() if given else ""


def _end(frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The last event. It repeats the answer, which has been counted, and gives no finish reason."""
    result = as_map(data.get("result"))
    events = [*_usage(frame, result), event(frame, "done", name="chat.end")]
    return annotated(events, facts=_facts(result))


def _error(frame: Frame, data: dict[str, Any]) -> list[Event]:
    return [error(frame, data.get("error"))]


_HANDLERS: Mapping[str, Handler] = {
    **dict.fromkeys(("chat.start", *MILESTONES, *LIFECYCLE), _lifecycle),
    "reasoning.delta": partial(_delta, "reasoning"),
    "message.delta": partial(_delta, "content"),
    "tool_call.start": _call_start,
    "tool_call.arguments": _call_arguments,
    "chat.end": _end,
    "error": _error,
}


def _whole(frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The whole answer of a call that was not streamed."""
    items = [as_map(item) for item in as_list(data.get("output"))]
    events = [output(frame, *piece) for item in items if (piece := _item_piece(item))[1]]
    events += [*_usage(frame, data), event(frame, "done", name="body")]
    return annotated(events, facts=_facts(data))


def _item_piece(item: dict[str, Any]) -> tuple[EventKind, str]:
    if item.get("type") == "tool_call":
        return "tool_call", as_str(item.get("tool")) + _arguments(item)
    kind: EventKind = "reasoning" if item.get("type") == "reasoning" else "content"
    return kind, as_str(item.get("content"))


def _usage(frame: Frame, result: Mapping[str, Any]) -> list[Event]:
    stats = as_map(result.get("stats"))
    counts = {name: as_int(stats.get(key)) for name, key in COUNTS.items()}
    if all(count is None for count in counts.values()):
        return []
    return [event(frame, "usage")._replace(usage=Usage(**counts))]


ITEMS: Mapping[Channel, str] = {
    "content": "message",
    "refusal": "message",
    "reasoning": "reasoning",
    "tool_call": "tool_call",
}
"""Per channel: the type of its output item and the stem of its events."""


@dataclass(slots=True)
class LMStudioEncoder:
    """Writes an answer the way LM Studio does. One answer a call: `choice` is not used.

    The events of loading and prompt processing are left out: an encoder has no timing of its own,
    and they would say when. A tool call is written as it is when its text is whole; what the tool
    answers is empty. metrics are further stats.
    """

    reply: Reply
    item: tuple[str, int] | None = None
    text: str = ""
    output: tuple[dict[str, Any], ...] = ()

    def start(self) -> bytes:
        return _event("chat.start", model_instance_id=self.reply.model)

    def piece(self, piece: Piece) -> bytes:
        item = (ITEMS[piece.channel], piece.tool)
        head = b"" if self.item == item else self._close() + self._open(item)
        self.text += piece.text
        if item[0] == "tool_call":
            return head
        return head + _event(f"{item[0]}.delta", content=piece.text)

    def finish(self, reason: str, choice: int = 0) -> bytes:
        return self._close()

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        return _event("chat.end", result=self._result(usage, metrics))

    def done(self) -> bytes:
        return b""

    def error(self, kind: str, message: str) -> bytes:
        return _event("error", error={"type": kind, "message": message})

    def ping(self) -> bytes:
        return COMMENT

    def whole(
        self,
        pieces: list[Piece],
        reason: str,
        usage: Usage,
        metrics: Mapping[str, Any] | None,
    ) -> bytes:
        joined = merged(pieces)
        self.output = tuple(_item(ITEMS[p.channel], p.tool, p.text) for p in joined)
        return text_of(self._result(usage, metrics))

    def _open(self, item: tuple[str, int]) -> bytes:
        self.item, self.text = item, ""
        told = {"tool": tool_name(item[1]), **_PROVIDER} if item[0] == "tool_call" else {}
        return _event(f"{item[0]}.start", **told)

    def _close(self) -> bytes:
        if self.item is None:
            return b""
        kind, tool = self.item
        made = _item(kind, tool, self.text)
        self.output, self.item = (*self.output, made), None
        if kind != "tool_call":
            return _event(f"{kind}.end")
        told = {key: value for key, value in made.items() if key not in ("type", "output")}
        asked = _event("tool_call.arguments", **told)
        return asked + _event("tool_call.success", **told, output="")

    def _result(self, usage: Usage, metrics: Mapping[str, Any] | None) -> dict[str, Any]:
        counts = {key: getattr(usage, name) or 0 for name, key in COUNTS.items()}
        return {
            "model_instance_id": self.reply.model,
            "output": list(self.output),
            "stats": counts | dict(metrics or {}),
            "response_id": self.reply.id,
        }


_PROVIDER: dict[str, Any] = {"provider_info": {"type": "plugin", "plugin_id": "mcp/tools"}}


def _item(kind: str, tool: int, text: str) -> dict[str, Any]:
    if kind != "tool_call":
        return {"type": kind, "content": text}
    given = parse(text.encode())
    arguments = given if isinstance(given, dict) else {"text": text}
    return {
        "type": kind,
        "tool": tool_name(tool),
        "arguments": arguments,
        "output": "",
        **_PROVIDER,
    }


def _event(name: str, **fields: Any) -> bytes:
    return sse({"type": name, **fields}, name)


def error_body(status: int, kind: str, message: str) -> bytes:
    """The body of an HTTP error as LM Studio sends it; the status is not in it."""
    return text_of({"error": {"type": kind, "message": message}})


def encoder(reply: Reply) -> Encoder:
    return LMStudioEncoder(reply)


DIALECT = Dialect(
    name="lmstudio.native",
    api="lmstudio",
    paths=("/api/v1/chat",),
    path_decides=False,
    decoder=decoder,
    encoder=encoder,
    error_body=error_body,
    signs=frozenset(_HANDLERS) - {"error"} | {"model_instance_id"},
)
