"""What a call inherits from where it is made: tags, turn, trace.

Kept in context variables, so it follows tasks and stays apart between threads. Read once, at the
call's entry: when the call ends, another context may be current, or the one it began in be left.
"""

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TypeVar

from latscope.recording import Trace

_T = TypeVar("_T")

_TAGS: ContextVar[Mapping[str, str]] = ContextVar("latscope.tags")
_TURN: ContextVar[str | None] = ContextVar("latscope.turn", default=None)
_NO_TAGS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One call's inheritance, as it was at its entry."""

    tags: Mapping[str, str] = field(default_factory=dict)
    turn: str | None = None
    trace: Trace | None = None


@contextmanager
def tags(**values: object) -> Iterator[None]:
    """Adds tags to every call made inside; an inner block adds to, or overrides, an outer one."""
    merged = {**_TAGS.get(_NO_TAGS), **{key: str(value) for key, value in values.items()}}
    token = _TAGS.set(merged)
    try:
        yield
    finally:
        _reset(_TAGS, token)


@contextmanager
def turn(id: str | None = None) -> Iterator[str]:
    """Makes every call inside part of one turn (one user action); gives the turn's id."""
    name = uuid.uuid4().hex if id is None else str(id)
    token = _TURN.set(name)
    try:
        yield name
    finally:
        _reset(_TURN, token)


def snapshot() -> Context:
    """The current tags, turn and trace. Runs in the caller's path: a few microseconds at most."""
    return Context(tags=_TAGS.get(_NO_TAGS), turn=_TURN.get(), trace=_trace())


def _reset(variable: ContextVar[_T], token: Token[_T]) -> None:
    # A block held open across the yield of an async generator may be left from another context,
    # where there is nothing of ours to restore.
    try:
        variable.reset(token)
    except ValueError:
        return


def _trace() -> Trace | None:
    """The call as a child of the OpenTelemetry span current at its entry; null without one.

    Asks only an OpenTelemetry that the application itself has loaded.
    """
    opentelemetry = sys.modules.get("opentelemetry.trace")
    if opentelemetry is None:
        return None
    parent = opentelemetry.get_current_span().get_span_context()
    if not parent.is_valid:
        return None
    return Trace(
        trace_id=f"{parent.trace_id:032x}",
        span_id=os.urandom(8).hex(),
        parent_id=f"{parent.span_id:016x}",
    )
