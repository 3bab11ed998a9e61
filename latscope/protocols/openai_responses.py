"""OpenAI Responses: `POST /v1/responses`, typed events with a sequence number.

Stream: `response.created` and `response.in_progress`, output items (message, reasoning, function
call) that open, grow by deltas and close, and one terminal event that repeats the whole answer
with its usage. Body: one `response` object. There is no `[DONE]`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from latscope.protocols.chunks import usage_of
from latscope.protocols.dialect import Channel, Decoder, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import Event, EventKind, Milestone, Usage
from latscope.protocols.fields import as_list, as_map, as_str
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
from latscope.protocols.writing import (
    COMMENT,
    merged,
    openai_error_body,
    responses_usage,
    sse,
    text_of,
    tool_name,
)
from latscope.wire.frames import Frame

DELTAS: Mapping[str, EventKind] = {
    "response.output_text.delta": "content",
    "response.audio.delta": "content",
    "response.audio.transcript.delta": "content",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool_call",
    "response.custom_tool_call_input.delta": "tool_call",
    "response.mcp_call_arguments.delta": "tool_call",
    "response.code_interpreter_call_code.delta": "tool_call",
    "response.shell_call_command.delta": "tool_call",
}
"""Events whose `delta` is output, and its channel."""

OPENED: Mapping[str, Milestone] = {
    "response.created": "",
    "response.in_progress": "",  # vLLM sends it before the engine has the request
    "response.queued": "waiting",
}
CLOSED = ("response.completed", "response.incomplete", "response.failed")

CALLS = frozenset({"function_call", "custom_tool_call"})
"""Output items that ask the client to act: with one of them the answer ends for `tool_calls`."""


@dataclass(slots=True)
class State:
    called: bool = False


def decoder() -> Decoder:
    return partial(read, partial(_events, State()))


def _events(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    events = _read(state, frame, data)
    # Figures ride beside the response object (llama.cpp, OpenRouter) or inside it (vLLM).
    return annotated(events, figures=figures_in(data, as_map(data.get("response"))))


def _read(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    if data.get("object") == "response":
        return _body(state, frame, data)
    kind = as_str(data.get("type")) or frame.name
    if kind in DELTAS:
        return [_delta(frame, DELTAS[kind], data)]
    handler = _HANDLERS.get(kind)
    if handler is not None:
        return handler(state, frame, data)
    if kind.startswith("response."):
        return [event(frame, "lifecycle", name=kind)]
    return [error(frame, data["error"])] if data.get("error") else []


def _delta(frame: Frame, kind: EventKind, data: dict[str, Any]) -> Event:
    """One delta. Its output index is no choice: an answer's items follow each other."""
    made = output(frame, kind, as_str(data.get("delta")))
    listed = len(as_list(data.get("logprobs")))
    return made._replace(tokens=listed) if listed else made


def _opened(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    name = as_str(data.get("type")) or frame.name
    made = event(frame, "lifecycle", name=name)._replace(milestone=OPENED.get(name, ""))
    return annotated([made], facts=facts_of(as_map(data.get("response"))))


def _item_added(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    if called := _call_text(state, as_map(data.get("item"))):
        return [output(frame, "tool_call", called)]
    return [event(frame, "lifecycle", name="response.output_item.added")]


def _call_text(state: State, item: dict[str, Any]) -> str:
    """A call item's name and what it holds of its arguments; empty for other items."""
    state.called = state.called or as_str(item.get("type")) in CALLS
    parts = (item.get("name"), item.get("arguments"), item.get("input"))
    return "".join(as_str(part) for part in parts)


def _closed(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The terminal event: error if any, finish, usage, done.

    The status inside says how it ended: vLLM calls the event `response.completed` even when the
    status is `incomplete`, and the name counts only where there is no status.
    """
    kind = as_str(data.get("type")) or frame.name
    response = as_map(data.get("response"))
    for item in as_list(response.get("output")):
        _call_text(state, as_map(item))
    events = _ending(state, frame, response, kind.removeprefix("response."))
    return annotated([*events, event(frame, "done", name=kind)], facts=facts_of(response))


def _ending(state: State, frame: Frame, response: dict[str, Any], otherwise: str) -> list[Event]:
    status = as_str(response.get("status")) or otherwise
    events = [error(frame, response["error"])] if response.get("error") else []
    if status == "failed" and not events:
        events = [error(frame, {})]
    if reason := _reason(state, response, status):
        events.append(finish(frame, reason))
    usage = usage_of(response.get("usage"))
    if usage is not None:
        events.append(event(frame, "usage")._replace(usage=usage))
    return events


def _reason(state: State, response: dict[str, Any], status: str) -> str:
    """Why it ended; empty for a response that has not (a background one, still queued)."""
    if status == "incomplete":
        return as_str(as_map(response.get("incomplete_details")).get("reason")) or "length"
    if status == "completed" and state.called:
        return "tool_calls"
    return "" if status in ("queued", "in_progress") else status


def _error(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """`{"type": "error", "code": ...}`; the type says nothing, so the code names it."""
    told = data.get("error") or {"code": data.get("code")}
    return [error(frame, told)]


_HANDLERS: Mapping[str, Callable[[State, Frame, dict[str, Any]], list[Event]]] = {
    **dict.fromkeys(OPENED, _opened),
    **dict.fromkeys(CLOSED, _closed),
    "response.output_item.added": _item_added,
    "error": _error,
}


def _body(state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The whole answer of a call that was not streamed."""
    items = [as_map(item) for item in as_list(data.get("output"))]
    pieces = [piece for item in items for piece in _item_pieces(state, item)]
    events = [output(frame, kind, text) for kind, text in pieces if text]
    events += _ending(state, frame, data, "completed")
    events.append(event(frame, "done", name="body"))
    return annotated(events, facts=facts_of(data))


def _item_pieces(state: State, item: dict[str, Any]) -> list[tuple[EventKind, str]]:
    called = _call_text(state, item)
    if item.get("type") == "reasoning":
        return [("reasoning", _texts(item, "summary", "text") + _texts(item, "content", "text"))]
    return [
        ("content", _texts(item, "content", "text")),
        ("refusal", _texts(item, "content", "refusal")),
        ("tool_call", called),
    ]


def _texts(item: dict[str, Any], parts: str, key: str) -> str:
    return "".join(as_str(as_map(part).get(key)) for part in as_list(item.get(parts)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a channel is written: its item type and id prefix; `text`: stem of its delta and done
    events; `part`: stem of its part events and index key, where its item has parts."""

    item: str
    prefix: str
    text: str
    key: str = "text"
    part: str = ""
    index: str = "content_index"


SHAPES: Mapping[Channel, Shape] = {
    "content": Shape(
        item="message", prefix="msg", text="response.output_text", part="response.content_part"
    ),
    "refusal": Shape(
        item="message",
        prefix="msg",
        text="response.refusal",
        key="refusal",
        part="response.content_part",
    ),
    "reasoning": Shape(
        item="reasoning",
        prefix="rs",
        text="response.reasoning_summary_text",
        part="response.reasoning_summary_part",
        index="summary_index",
    ),
    "tool_call": Shape(
        item="function_call", prefix="fc", text="response.function_call_arguments", key="arguments"
    ),
}

Slot: TypeAlias = tuple[Channel, int]
"""Channel and tool of the output item that is open."""


@dataclass(slots=True)
class ResponsesEncoder:
    """Writes a response the way OpenAI does. One answer a call: `choice` is not used. Reasoning
    goes out as a summary."""

    reply: Reply
    sequence: int = 0
    open: Slot | None = None
    text: str = ""
    reason: str = "stop"
    output: list[dict[str, Any]] = field(default_factory=list)

    def start(self) -> bytes:
        response = self._response("in_progress")
        return b"".join(self._event(name, response=response) for name in tuple(OPENED)[:2])

    def piece(self, piece: Piece) -> bytes:
        slot: Slot = (piece.channel, piece.tool)
        head = b"" if self.open == slot else self._close_item() + self._open_item(slot)
        self.text += piece.text
        shape = SHAPES[piece.channel]
        return head + self._text_event(shape, "delta", {"delta": piece.text})

    def finish(self, reason: str, choice: int = 0) -> bytes:
        self.reason = reason
        return self._close_item()

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        response = self._ended(self.reason, usage, metrics)
        return self._event(f"response.{response['status']}", response=response)

    def done(self) -> bytes:
        return b""

    def error(self, kind: str, message: str) -> bytes:
        return self._event("error", code=kind, message=message, param=None)

    def ping(self) -> bytes:
        return COMMENT

    def whole(
        self,
        pieces: list[Piece],
        reason: str,
        usage: Usage,
        metrics: Mapping[str, Any] | None,
    ) -> bytes:
        for piece in merged(pieces):
            self.output.append(self._item((piece.channel, piece.tool), piece.text, "completed"))
        return text_of(self._ended(reason, usage, metrics))

    def _event(self, name: str, **fields: Any) -> bytes:
        data = {"type": name, "sequence_number": self.sequence, **fields}
        self.sequence += 1
        return sse(data, name)

    def _open_item(self, slot: Slot) -> bytes:
        self.open, self.text = slot, ""
        shape = SHAPES[slot[0]]
        item = self._item(slot, None, "in_progress")
        added = self._item_event("response.output_item.added", item)
        return added + self._part_event(shape, "added")

    def _close_item(self) -> bytes:
        if self.open is None:
            return b""
        shape = SHAPES[self.open[0]]
        item = self._item(self.open, self.text, "completed")
        closing = self._text_event(shape, "done", {shape.key: self.text})
        closing += self._part_event(shape, "done")
        closing += self._item_event("response.output_item.done", item)
        self.output.append(item)
        self.open = None
        return closing

    def _item_event(self, name: str, item: dict[str, Any]) -> bytes:
        return self._event(name, output_index=len(self.output), item=item)

    def _part_event(self, shape: Shape, stage: str) -> bytes:
        if not shape.part:
            return b""
        place = self._place(shape)
        return self._event(f"{shape.part}.{stage}", **place, part=_part(shape, self.text))

    def _text_event(self, shape: Shape, stage: str, text: dict[str, Any]) -> bytes:
        if shape.text == "response.output_text":
            text["logprobs"] = []
        return self._event(f"{shape.text}.{stage}", **self._place(shape), **text)

    def _place(self, shape: Shape) -> dict[str, Any]:
        place: dict[str, Any] = {"item_id": self._id(shape), "output_index": len(self.output)}
        return place | ({shape.index: 0} if shape.part else {})

    def _id(self, shape: Shape) -> str:
        return f"{shape.prefix}_{self.reply.id}_{len(self.output)}"

    def _item(self, slot: Slot, text: str | None, status: str) -> dict[str, Any]:
        """An output item holding `text`; null for one that has no part yet."""
        shape = SHAPES[slot[0]]
        head: dict[str, Any] = {"id": self._id(shape), "type": shape.item, "status": status}
        parts = [] if text is None else [_part(shape, text)]
        if shape.item == "message":
            return head | {"role": "assistant", "content": parts}
        if shape.item == "reasoning":
            return head | {"summary": parts}
        called = {"call_id": f"call_{self.reply.id}_{slot[1]}", "name": tool_name(slot[1])}
        return head | called | {"arguments": text or ""}

    def _ended(
        self, reason: str, usage: Usage, metrics: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reason)
        response = self._response("completed" if cut is None else "incomplete")
        if cut is not None:
            response["incomplete_details"] = {"reason": cut}
        response |= {"output": self.output, "usage": responses_usage(usage)}
        return response if metrics is None else response | {"metrics": dict(metrics)}

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": self.reply.id,
            "object": "response",
            "created_at": self.reply.created,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "model": self.reply.model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "service_tier": "default",
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
        }


def _part(shape: Shape, text: str) -> dict[str, Any]:
    if shape.item == "reasoning":
        return {"type": "summary_text", "text": text}
    if shape.key == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def encoder(reply: Reply) -> Encoder:
    return ResponsesEncoder(reply)


DIALECT = Dialect(
    name="openai.responses",
    api="responses",
    paths=("/responses",),
    decoder=decoder,
    encoder=encoder,
    error_body=openai_error_body,
    signs=frozenset({"response", *DELTAS, *OPENED, *CLOSED, "response.output_item.added"}),
)
