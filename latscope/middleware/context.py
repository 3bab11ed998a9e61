"""What a call inherits from where it is made: tags, turn, trace.

Kept in context variables, so it follows tasks and stays apart between threads. Read once, at the
call's entry: when the call ends, another context may be current, or the one it began in be left.
"""

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from latscope.recording import Trace

_T = TypeVar("_T")

_TAGS: ContextVar[Mapping[str, str]] = ContextVar("latscope.tags")
_TURN: ContextVar[str | None] = ContextVar("latscope.turn", default=None)
_SERVED: ContextVar["Served | None"] = ContextVar("latscope.served", default=None)
_NO_TAGS: Mapping[str, str] = {}


class Parent(NamedTuple):
    """The span a call is a child of."""

    trace_id: int
    span_id: int
    sampled: bool


@dataclass(slots=True)
class Served:
    """An inbound request while it is served. parent: the span its sender named, for calls that no
    span of this process is around; called: whether any call was made."""

    parent: Parent | None = None
    called: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One call's inheritance, as it was at its entry."""

    tags: Mapping[str, str] = field(default_factory=dict)
    turn: str | None = None
    trace: Trace | None = None
    call_id: str | None = None
    """The call's id where it had to be known before the end: it went out with the request."""
    sampled: bool = True
    """Whether the trace the call is part of is sampled, as far as its parent span says."""
    begun: Any = None
    """What a sink that traces made of the call's entry; its `trace` holds the ids then."""

    @property
    def ids(self) -> Trace | None:
        trace: Trace | None = self.trace if self.begun is None else self.begun.trace
        return trace


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


@contextmanager
def serving(served: Served) -> Iterator[None]:
    """Every call made inside serves this inbound request."""
    token = _SERVED.set(served)
    try:
        yield
    finally:
        _reset(_SERVED, token)


def served() -> Served | None:
    """The inbound request that is being served here, if one is."""
    return _SERVED.get()


def snapshot() -> Context:
    """The current tags, turn and trace. Runs in the caller's path: a few microseconds at most."""
    _counted()
    return Context(tags=_TAGS.get(_NO_TAGS), turn=_TURN.get(), trace=_trace())


def traced(begin: Callable[[], Any] | None) -> Context:
    """As `snapshot`, of a call that has ids whether or not a span is current. begin: a tracing
    sink's own entry, which makes them; what it raises costs the call its spans only."""
    _counted()
    tags, turn, call_id = _TAGS.get(_NO_TAGS), _TURN.get(), os.urandom(16).hex()
    if begin is not None:
        with suppress(Exception):
            return Context(tags=tags, turn=turn, call_id=call_id, begun=_begun(begin))
    trace = _trace() or Trace(trace_id=os.urandom(16).hex(), span_id=os.urandom(8).hex())
    return Context(tags=tags, turn=turn, trace=trace, call_id=call_id, sampled=_sampled())


def _reset(variable: ContextVar[_T], token: Token[_T]) -> None:
    # A block held open across the yield of an async generator may be left from another context,
    # where there is nothing of ours to restore.
    try:
        variable.reset(token)
    except ValueError:
        return


def _counted() -> None:
    served = _SERVED.get()
    if served is not None:
        served.called = True


def _trace() -> Trace | None:
    """The call as a child of the OpenTelemetry span current at its entry, else of the span that the
    sender of the inbound request named; null without either.

    Asks only an OpenTelemetry that the application itself has loaded.
    """
    parent = _parent()
    if parent is None:
        return None
    return Trace(
        trace_id=f"{parent.trace_id:032x}",
        span_id=os.urandom(8).hex(),
        parent_id=f"{parent.span_id:016x}",
    )


def _sampled() -> bool:
    parent = _parent()
    return parent is None or parent.sampled


def _parent() -> Parent | None:
    served = _SERVED.get()
    return _current() or (None if served is None else served.parent)


def _current() -> Parent | None:
    """The current span; null without one."""
    opentelemetry = sys.modules.get("opentelemetry.trace")
    if opentelemetry is None:
        return None
    span = opentelemetry.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return Parent(span.trace_id, span.span_id, bool(span.trace_flags.sampled))


def _begun(begin: Callable[[], Any]) -> Any:
    """A tracing sink's entry, under the inbound request's own parent where no span is current."""
    served = _SERVED.get()
    if served is None or served.parent is None or _current() is not None:
        return begin()
    # Only while the sink looks: the application's own spans stay where they are.
    from opentelemetry import context, trace

    trace_id, span_id, sampled = served.parent
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if sampled else trace.TraceFlags.DEFAULT)
    remote = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    token = context.attach(trace.set_span_in_context(trace.NonRecordingSpan(remote)))
    try:
        return begin()
    finally:
        context.detach(token)
