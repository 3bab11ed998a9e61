"""What every decoder does the same way: open a frame, make an event, name an error or a finish."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from latscope.protocols import reported
from latscope.protocols.bedrock import CHUNK, unwrapped
from latscope.protocols.events import Event, EventKind, Facts, Reported
from latscope.protocols.fields import as_int, as_map, as_str, parse
from latscope.wire.frames import Frame

Read: TypeAlias = Callable[[Frame, dict[str, Any]], list[Event]]
"""A dialect's own part: the events of one JSON object, none when it does not know it."""

NO_FACTS = Facts()

LONGEST_NAME = 64
"""Characters kept of a name the server chose (an error's type, a comment's first word)."""

FINISH: Mapping[str, str] = {
    # OpenAI, and those who speak it
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "error": "error",
    "eos": "stop",
    "eos_token": "stop",
    "model_length": "length",
    "abort": "error",
    "insufficient_system_resource": "error",
    # Responses: status, and incomplete_details.reason
    "completed": "stop",
    "max_output_tokens": "length",
    "failed": "error",
    "cancelled": "error",
    # Anthropic
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""Every API's word for why an answer ended, in latscope's words."""


def read(decode: Read, frame: Frame) -> list[Event]:
    """The events of one frame, never none: comments, pings, [DONE] and garbage are the same in
    every API, the rest is the dialect's.

    A frame cut at the decoder's byte limit is read by its name alone: a `response.completed` too
    long to keep (it repeats the whole answer) still ends the stream. An exception of an AWS event
    stream is an error of its name; what Bedrock wraps is read as its vendor sends it.
    """
    if frame.kind == "exception":
        return [error(frame, {"type": frame.name})]
    if frame.name == CHUNK:
        frame = unwrapped(frame)
    if frame.kind == "comment":
        return [event(frame, "comment", name=_first_word(frame.data))]
    if frame.name == "ping":
        return [event(frame, "ping", name="ping")]
    text = frame.data.strip()
    if text == b"[DONE]":
        return [event(frame, "done", name="[DONE]")]
    if frame.kind == "broken":
        return [event(frame, "unknown")]
    if not text and not frame.name and frame.kind != "body":
        return [event(frame, "empty")]
    data = {} if frame.truncated else parse(text)
    if isinstance(data, dict):
        events = decode(frame, data)
        if events:
            return events
    return [error(frame, {}) if frame.name == "error" else event(frame, "unknown")]


def event(frame: Frame, kind: EventKind, *, choice: int = 0, name: str = "") -> Event:
    """An event that carries no output, at the frame's last byte."""
    return Event(kind, frame.last_ns, frame.end, choice, 0, None, name)


def output(frame: Frame, kind: EventKind, text: str, *, choice: int = 0) -> Event:
    """An event of an output channel; `empty` when there is no text."""
    if not text:
        return event(frame, "empty", choice=choice)
    size = len(text) if text.isascii() else len(text.encode())
    opens = kind == "content" and "<think>" in text
    return Event(kind, frame.last_ns, frame.end, choice, size, None, "", "", opens)


def error(frame: Frame, told: object) -> Event:
    """An error, named by its type, else its code, else `error`; never by its message."""
    fields = as_map(told)
    code = _code(fields.get("code"))
    name = as_str(fields.get("type"))[:LONGEST_NAME] or code or "error"
    return event(frame, "error", name=name)._replace(code=code)


def finish(frame: Frame, reason: str, *, choice: int = 0) -> Event:
    """A choice's finish reason; one that is in no table keeps the server's own word."""
    word = FINISH.get(reason, reason[:LONGEST_NAME])
    return event(frame, "finish", choice=choice, name=word)


def facts_of(data: Mapping[str, Any]) -> Facts:
    """What an answer's envelope tells of the call, in the names all four APIs share."""
    return Facts(
        model=as_str(data.get("model")) or None,
        response_id=as_str(data.get("id")) or None,
        service_tier=as_str(data.get("service_tier")) or None,
        fingerprint=as_str(data.get("system_fingerprint")) or None,
    )


def figures_in(*places: Mapping[str, Any]) -> tuple[Reported, ...]:
    """The server's own timings, wherever in the frame they ride."""
    return tuple(figure for place in places for figure in reported.read(place))


def annotated(
    events: list[Event], *, facts: Facts | None = None, figures: tuple[Reported, ...] = ()
) -> list[Event]:
    """`events` with the frame's facts on the first, its timings on the usage or else the last."""
    if events and facts is not None and facts != NO_FACTS:
        events[0] = events[0]._replace(facts=facts)
    if events and figures:
        last = len(events) - 1
        place = next((i for i, made in enumerate(events) if made.kind == "usage"), last)
        events[place] = events[place]._replace(reported=figures)
    return events


def _first_word(comment: bytes) -> str:
    words = comment.decode("utf-8", "replace").split(maxsplit=1)
    return words[0][:LONGEST_NAME] if words else ""


def _code(value: object) -> str:
    """An error code: a string at OpenAI, the HTTP status as a number at vLLM and llama.cpp."""
    number = as_int(value)
    return as_str(value)[:LONGEST_NAME] if number is None else str(number)[:LONGEST_NAME]
