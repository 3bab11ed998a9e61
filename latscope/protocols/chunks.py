"""The envelope chat completions and legacy completions share, stream chunk and whole body alike.

An object with `choices`, `usage`, perhaps `error`; the two APIs differ only in where a choice
keeps its output. Also the counts: usage in every spelling seen, and how many tokens a chunk
stands for.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from latscope.protocols import reported
from latscope.protocols.events import Event, EventKind, Facts, Milestone, Reported, Usage
from latscope.protocols.fields import as_int, as_list, as_map, as_str, dig
from latscope.protocols.reading import (
    NO_FACTS,
    annotated,
    error,
    event,
    facts_of,
    figures_in,
    finish,
    output,
)
from latscope.wire.frames import Frame

Path: TypeAlias = tuple[str, ...]
Envelope: TypeAlias = tuple[object, object, object, object]

USAGE_PATHS: Mapping[str, tuple[Path, ...]] = {
    "input_tokens": (("prompt_tokens",), ("input_tokens",)),
    "cached_tokens": (
        ("prompt_tokens_details", "cached_tokens"),
        ("input_tokens_details", "cached_tokens"),
        ("prompt_cache_hit_tokens",),  # DeepSeek
        ("cached_tokens",),
    ),
    "cache_write_tokens": (
        ("prompt_tokens_details", "cache_write_tokens"),
        ("prompt_tokens_details", "created_cache_tokens"),  # vLLM chat and completions
        ("input_tokens_details", "cache_write_tokens"),
    ),
    "output_tokens": (("completion_tokens",), ("output_tokens",)),
    "reasoning_tokens": (
        ("completion_tokens_details", "reasoning_tokens"),
        ("output_tokens_details", "reasoning_tokens"),
        ("reasoning_tokens",),
    ),
}
"""Where each count may lie in an OpenAI-like usage object; the first that is a count is taken."""


_TELLING = (reported.KEYS | {"error", "x_groq", "prompt_progress"}) - {"usage"}
"""Keys of a chunk that say more than its choices do."""


@dataclass(slots=True)
class State:
    """What one answer's decoder remembers.

    facts: those told last; envelope: the fields they were read from; counted: per choice, the
    output tokens its last usage stated; uncounted: choices that have written output in a chunk
    without usage, so the next usage stands for more than its own chunk;
    named: tool calls whose name has been seen; ids: the id a tool-call index stands for now;
    slots: outputs of the llama.cpp slots that have ended.
    """

    facts: Facts | None = None
    envelope: Envelope | None = None
    choices: set[int] = field(default_factory=set)
    counted: dict[int, int] = field(default_factory=dict)
    uncounted: set[int] = field(default_factory=set)
    ids: dict[tuple[int, int], str] = field(default_factory=dict)
    named: set[tuple[int, int, str, str]] = field(default_factory=set)
    slots: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How one API keeps a choice's output: plain gives the (channel, text) of one that holds a
    single string and no more, null of any other; pieces gives (channel, text) of each, blank the
    kind of a choice without any, logprobs the number of tokens its logprobs list."""

    plain: Callable[[dict[str, Any]], tuple[EventKind, str] | None]

    pieces: Callable[[State, int, dict[str, Any]], list[tuple[EventKind, str]]]
    blank: Callable[[dict[str, Any]], EventKind]
    logprobs: Callable[[dict[str, Any]], int]


def usage_of(data: object) -> Usage | None:
    """An OpenAI-like usage object in latscope's words; null when it holds no count."""
    fields = as_map(data)
    if not fields:
        return None
    counts = {name: _count(fields, paths) for name, paths in USAGE_PATHS.items()}
    return Usage(**counts) if any(n is not None for n in counts.values()) else None


def _count(fields: dict[str, Any], paths: Iterable[Path]) -> int | None:
    """The first of these that is a count."""
    for path in paths:
        found = as_int(dig(fields, *path)) if path[0] in fields else None
        if found is not None:
            return found
    return None


def chunk_events(shape: Shape, state: State, frame: Frame, data: dict[str, Any]) -> list[Event]:
    """The events of one chunk or body: error, each choice's output and finish, usage, done."""
    plain = only_text(shape, frame, data)
    if plain is not None:
        return [_plain(state, frame, data, *plain)]
    choices = [as_map(choice) for choice in as_list(data.get("choices"))]
    usage = _usage(state, data, choices)
    events = _errors(frame, data)
    failed = bool(events)
    single = usage if len(choices) == 1 else None
    for position, choice in enumerate(choices):
        events += _choice(shape, state, frame, choice, position, single)
    if usage is not None:
        events.append(event(frame, "usage")._replace(usage=usage))
    figures = _figures(state, data)
    events = events or _bare(frame, data, figures)
    if frame.kind == "body" and events and not failed:
        events.append(event(frame, "done", name="body"))
    if "prompt_progress" in data and events:
        events[0] = events[0]._replace(milestone=_progress(data["prompt_progress"]))
    return annotated(events, facts=_news(state, data), figures=figures)


def only_text(
    shape: Shape, frame: Frame, data: dict[str, Any]
) -> tuple[int, EventKind, str] | None:
    """Of a chunk that writes some output of one choice and says nothing else, as all but a few of
    a stream do: the choice, the channel and the text; null of any other chunk."""
    choices = data.get("choices")
    if type(choices) is not list or len(choices) != 1 or data.get("usage") is not None:
        return None
    choice = choices[0]
    if type(choice) is not dict or choice.get("finish_reason") or "meta_info" in choice:
        return None
    index = choice.get("index")
    if type(index) is not int or index < 0 or choice.get("logprobs") is not None:
        return None
    if frame.kind == "body" or frame.name == "error" or data.get("object") == "error":
        return None
    found = shape.plain(choice) if _TELLING.isdisjoint(data) else None
    return None if found is None else (index, *found)


def _plain(
    state: State, frame: Frame, data: dict[str, Any], index: int, kind: EventKind, text: str
) -> Event:
    """The one event of such a chunk. A short cut: the long way makes the same."""
    state.choices.add(index)
    state.uncounted.add(index)
    made = output(frame, kind, text, choice=index)
    facts = _news(state, data)
    return made if facts is None or facts == NO_FACTS else made._replace(facts=facts)


def _progress(told: object) -> Milestone:
    """llama.cpp with return_progress (tools/server, b11434): one chunk when the slot starts the
    prompt, and one after each batch of it has been evaluated, the last with all of it."""
    total, done = as_int(dig(told, "total")), as_int(dig(told, "processed"))
    if total is None or done is None:
        return ""
    return "prefilled" if 0 < total <= done else "scheduled"


def _choice(
    shape: Shape,
    state: State,
    frame: Frame,
    choice: dict[str, Any],
    position: int,
    usage: Usage | None,
) -> list[Event]:
    given = as_int(choice.get("index"))
    index = position if given is None else given
    state.choices.add(index)
    pieces = [piece for piece in shape.pieces(state, index, choice) if piece[1]]
    events = [output(frame, kind, text, choice=index) for kind, text in pieces]
    tokens = _tokens(shape, state, index, choice, usage, written=bool(pieces))
    reason = as_str(choice.get("finish_reason"))
    if not events and (tokens or not reason):
        events = [event(frame, shape.blank(choice), choice=index)]
    if events and tokens is not None:
        events[0] = events[0]._replace(tokens=tokens)
    if reason:
        events.append(finish(frame, reason, choice=index))
    return events


def _tokens(
    shape: Shape,
    state: State,
    index: int,
    choice: dict[str, Any],
    usage: Usage | None,
    *,
    written: bool,
) -> int | None:
    """Tokens the chunk stands for: how far continuous usage moved, else the logprobs it lists.

    Usage that comes only at the end counts the whole answer, not its chunk: it says nothing of a
    chunk unless every chunk of the choice that wrote output carried usage too.
    """
    listed = shape.logprobs(choice) or None
    total = None if usage is None else usage.output_tokens
    if total is None:
        if written:
            state.uncounted.add(index)
        return listed
    before = state.counted.get(index, 0 if written else total)
    state.counted[index] = total
    if index in state.uncounted or total < before:
        return listed
    return total - before if total > before or written else None


def _usage(state: State, data: dict[str, Any], choices: list[dict[str, Any]]) -> Usage | None:
    usage = usage_of(data.get("usage")) or usage_of(dig(data, "x_groq", "usage"))
    if usage is None or choices or "timings" not in data:
        return usage
    # llama.cpp answers n > 1 with a slot a choice, and each slot ends with its own usage chunk.
    state.slots.append(usage.output_tokens or 0)
    return replace(usage, output_tokens=sum(state.slots)) if len(state.slots) > 1 else usage


def _errors(frame: Frame, data: dict[str, Any]) -> list[Event]:
    told = data.get("error")
    if told:
        return [error(frame, told)]
    if frame.name == "error" or data.get("object") == "error":
        return [error(frame, data)]
    return []


def _bare(frame: Frame, data: dict[str, Any], figures: tuple[Reported, ...]) -> list[Event]:
    """A chunk that says nothing: Azure's annotation of the prompt, an empty one, or (OpenRouter's
    debug chunks) one that holds figures only."""
    if as_list(data.get("prompt_filter_results")):
        return [event(frame, "filter")]
    return [event(frame, "empty")] if "choices" in data or figures else []


def _news(state: State, data: dict[str, Any]) -> Facts | None:
    """The chunk's facts, when they are not the ones told last (most chunks repeat them)."""
    envelope: Envelope = (
        data.get("model"),
        data.get("id"),
        data.get("service_tier"),
        data.get("system_fingerprint"),
    )
    if envelope == state.envelope:
        return None
    state.envelope, facts = envelope, facts_of(data)
    if facts == state.facts:
        return None
    state.facts = facts
    return facts


def _figures(state: State, data: dict[str, Any]) -> tuple[Reported, ...]:
    """The server's timings; none when several choices were written at once, since each figure
    is then one choice's alone and does not part the call's time."""
    return figures_in(data) if len(state.choices) <= 1 else ()
