"""What was said, where the application asks for it to be exported: off by default.

Asked for twice: the recording must hold the text (`keep_content=True`), and the conventions' own
variable must say so. Then messages become JSON on the inference span, in the conventions' form: a
role and typed parts. Text is not cut; an SDK has a limit for attribute values of its own.
"""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from latscope.export.otel import names
from latscope.export.otel.told import Told
from latscope.protocols.fields import as_list, as_map, as_str, parse
from latscope.wire.framing import frames

VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ON_SPANS = frozenset({"span_only", "span_and_event", "true"})
"""Values that put content on spans. `event_only` does not: we send no log events."""

Part: TypeAlias = dict[str, Any]


def wanted() -> bool:
    """Whether the environment asks for content on spans."""
    return os.environ.get(VARIABLE, "").strip().lower() in ON_SPANS


def messages(told: Told) -> dict[str, str]:
    """Input, output, instructions and tools as attributes; nothing unless it was asked for."""
    request = told.call.request
    if told.operation is None or request is None or not wanted() or not _kept(request):
        return {}
    found = {
        names.INPUT_MESSAGES: _input(request),
        names.OUTPUT_MESSAGES: list(_output(told)),
        names.INSTRUCTIONS: _parts(request.get("system") or request.get("instructions")),
        names.TOOLS: as_list(request.get("tools")),
    }
    return {name: json.dumps(value, ensure_ascii=False) for name, value in found.items() if value}


def _kept(request: Mapping[str, Any]) -> bool:
    """Whether the recording holds text: a masked one has lengths in its place."""
    said = request.get("messages") or request.get("input") or request.get("prompt")
    if isinstance(said, str):
        return True
    return any(_has_text(item) for item in as_list(said))


def _has_text(item: object) -> bool:
    if isinstance(item, str):
        return True
    content = as_map(item).get("content")
    return isinstance(content, str) or any(
        isinstance(as_map(part).get("text"), str) for part in as_list(content)
    )


# -- what was asked --------------------------------------------------------------------------------


def _input(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    said = request.get("messages") or request.get("input") or request.get("prompt")
    if isinstance(said, str):
        return [{"role": "user", "parts": _parts(said)}]
    return [_message(item) for item in as_list(said)]


def _message(item: object) -> dict[str, Any]:
    if isinstance(item, str):
        return {"role": "user", "parts": _parts(item)}
    fields = as_map(item)
    role = as_str(fields.get("role")) or "assistant"
    if role == "tool":
        response = {"type": "tool_call_response", "id": as_str(fields.get("tool_call_id"))}
        return {"role": role, "parts": [{**response, "response": fields.get("content")}]}
    kind = as_str(fields.get("type"))
    if kind in ("function_call", "function_call_output"):
        return {"role": "tool" if "output" in kind else role, "parts": [_part(fields)]}
    parts = _parts(fields.get("content"))
    parts += [_part(as_map(call)) for call in as_list(fields.get("tool_calls"))]
    return {"role": role, "parts": parts}


def _parts(content: object) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    return [_part(as_map(item)) for item in as_list(content)]


def _part(fields: Mapping[str, Any]) -> Part:
    kind = as_str(fields.get("type"))
    if isinstance(fields.get("text"), str):
        return {"type": "text", "content": fields["text"]}
    if kind == "thinking":
        return {"type": "reasoning", "content": as_str(fields.get("thinking"))}
    if kind == "tool_result":
        return {
            "type": "tool_call_response",
            "id": as_str(fields.get("tool_use_id")),
            "response": fields.get("content"),
        }
    if kind == "function_call_output":
        return {
            "type": "tool_call_response",
            "id": as_str(fields.get("call_id")),
            "response": fields.get("output"),
        }
    function = as_map(fields.get("function")) or fields
    if kind in ("function", "function_call", "tool_use") or "function" in fields:
        return {
            "type": "tool_call",
            "id": as_str(fields.get("call_id") or fields.get("id")),
            "name": as_str(function.get("name")),
            "arguments": function.get("arguments", function.get("input")),
        }
    # An image, a file, a sound: that there was one, without its bytes.
    return {"type": kind or "unknown"}


# -- what was answered -----------------------------------------------------------------------------


def _output(told: Told) -> Iterator[dict[str, Any]]:
    """One message a choice, put together from the stream where it was streamed."""
    if not told.call.attempts:
        return
    attempt = told.call.attempts[-1]
    whole = as_map(parse(attempt.body or b""))
    if whole:
        yield from _whole(whole)
        return
    texts: dict[tuple[int, str], list[str]] = {}
    for frame in frames(attempt):
        fields = as_map(parse(frame.data))
        done = as_map(fields.get("response"))
        if done.get("output") and as_str(fields.get("type")) == "response.completed":
            yield from _whole(done)
            return
        for choice, kind, text in _said(fields):
            texts.setdefault((choice, kind), []).append(text)
    for choice in sorted({choice for choice, _ in texts}):
        parts = [
            {"type": kind, "content" if kind != "tool_call" else "arguments": "".join(text)}
            for (of, kind), text in texts.items()
            if of == choice
        ]
        yield _answer(told, choice, parts)


def _said(fields: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """(choice, kind of part, text) of one event."""
    for item in as_list(fields.get("choices")):
        choice = as_map(item)
        index, delta = choice.get("index") or 0, as_map(choice.get("delta"))
        yield index, "reasoning", as_str(delta.get("reasoning_content") or delta.get("reasoning"))
        yield index, "text", as_str(delta.get("content") or choice.get("text"))
        for call in as_list(delta.get("tool_calls")):
            yield index, "tool_call", as_str(as_map(as_map(call).get("function")).get("arguments"))
    delta = as_map(fields.get("delta"))
    yield 0, "reasoning", as_str(delta.get("thinking"))
    yield 0, "text", as_str(delta.get("text"))
    yield 0, "tool_call", as_str(delta.get("partial_json"))


def _answer(told: Told, choice: int, parts: list[Part]) -> dict[str, Any]:
    reason = told.timeline.finish.get(choice, "error")
    kept = [part for part in parts if part.get("content") or part.get("arguments")]
    return {"role": "assistant", "parts": kept, "finish_reason": reason}


def _whole(fields: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    reason = as_str(fields.get("stop_reason") or fields.get("status"))
    for item in as_list(fields.get("choices")):
        choice = as_map(item)
        said = choice.get("message") or {"role": "assistant", "content": choice.get("text")}
        yield {**_message(said), "finish_reason": as_str(choice.get("finish_reason"))}
    if fields.get("content"):
        yield {**_message(fields), "finish_reason": reason}
    for item in as_list(fields.get("output")):
        yield {**_message(item), "finish_reason": reason}
