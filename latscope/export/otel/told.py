"""What spans and metrics both say of a call: the operation, whose model, which server.

Only words that look like names pass: what a server or a caller wrote freely never becomes an
attribute, whatever field it was put into.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from latscope.attribution.model import Attribution, Piece
from latscope.export.otel import names
from latscope.export.otel.rows import Attributes, Value
from latscope.protocols import detect
from latscope.recording import Recording
from latscope.timeline import Timeline
from latscope.units import Ns, S

OPERATIONS = {
    "chat": "chat",
    "messages": "chat",
    "responses": "chat",
    "completions": "text_completion",
    "ollama": "chat",
    "lmstudio": "chat",
}
"""API -> the conventions' operation name."""

ENDINGS = (
    ("/embeddings", "embeddings"),
    ("/embed", "embeddings"),
    ("/api/generate", "text_completion"),
)
"""Paths that are no API of ours to decode, or another operation of one that is."""

FALLBACK = {"messages": "anthropic", "ollama": "ollama", "lmstudio": "lmstudio"}
"""Whose API an unknown host speaks; the others are OpenAI's."""

_WORD = re.compile(r"[\w.:/@+~\-]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One call, with everything that is exported about it. api: as its path tells where no answer
    does. operation: null when the call is no inference as far as path and answer tell (a list of
    models, an upload)."""

    call: Recording
    timeline: Timeline
    attribution: Attribution
    api: str | None
    operation: str | None


def told(call: Recording, timeline: Timeline, attribution: Attribution) -> Told:
    """The call as spans and metrics take it."""
    dialect = None if attribution.api else detect(call.target.path)
    api = attribution.api if dialect is None else dialect.api
    return Told(
        call=call,
        timeline=timeline,
        attribution=attribution,
        api=api,
        operation=operation_of(call.target.path, api),
    )


def operation_of(path: str, api: str | None) -> str | None:
    """The conventions' operation name; null when the call is none of those."""
    ending = path.rstrip("/")
    named = next((name for tail, name in ENDINGS if ending.endswith(tail)), None)
    if named is not None:
        return named
    if api == "responses" and "/responses/" in path:
        return "fetch_response"  # of an answer made earlier
    return None if api is None else OPERATIONS.get(api)


def word(value: object) -> str | None:
    """A name as it is; null for anything that could be prose."""
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def requested_model(told: Told) -> str | None:
    request = told.call.request or {}
    return word(request.get("model")) or word(told.attribution.model)


def provider(told: Told) -> str:
    """The vendor or engine, where host or answer tell; else whose API it is."""
    known = word(told.attribution.provider)
    return known or FALLBACK.get(told.api or "", "openai")


def identity(told: Told) -> Attributes:
    """What identifies the call's kind, on spans and metrics alike."""
    if told.operation is None:
        return server(told.call)
    found: Attributes = {names.OPERATION: told.operation, names.PROVIDER: provider(told)}
    add(found, names.REQUEST_MODEL, requested_model(told))
    add(found, names.RESPONSE_MODEL, word(told.timeline.model))
    return found | server(told.call)


def server(call: Recording) -> Attributes:
    found: Attributes = {}
    if call.target.host:
        found[names.SERVER] = call.target.host
        if call.target.port:
            found[names.PORT] = call.target.port
    return found


def error_type(told: Told) -> str | None:
    """Of a call that failed or was cut; null for one that was completed or given up."""
    a = told.attribution
    if a.status not in ("error", "cut"):
        return None
    return (word(a.error.type) if a.error else None) or "_OTHER"


def segment_name(piece: Piece) -> str:
    """`queue`, or of a piece that nobody can split `queue|prefill`."""
    return "|".join(piece.candidates) if piece.owner == "unattributed" else piece.owner


def seconds(ns: Ns) -> float:
    return ns / S


def add(found: Attributes, name: str, value: Value | None) -> None:
    """Unknown stays absent: null is no value, and never 0."""
    if value is not None and value != ():
        found[name] = value


def number(fields: Mapping[str, object], name: str) -> float | None:
    value = fields.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else None  # type: ignore[arg-type]
