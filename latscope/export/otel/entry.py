"""What is settled while the caller waits: the call's ids, whose child it is, whether it is sampled.

Two moments: `begin` at the call's entry, a few microseconds; `asked` when its first request is
about to be sent, for only then are model and server known, which samplers decide by. Needs the
OpenTelemetry API, which the application brings.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from opentelemetry import context as contexts
from opentelemetry import trace as traces
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from latscope.attribution.owners import provider_of
from latscope.export.otel import detect, names
from latscope.export.otel.told import FALLBACK, operation_of, word
from latscope.protocols import detect as detect_dialect
from latscope.recording import Trace


class Begun:
    """One call as far as tracing knows it, until its spans are made.

    around: the context at its entry. trace: its ids, as a recording holds them. answer: what the
    sampler said (a SamplingResult), null before it was asked. other: another tool's span of the
    same call. http: whether HTTP spans are another's. quiet: somebody asked for no telemetry.
    """

    __slots__ = ("answer", "around", "http", "other", "parent", "quiet", "trace")

    def __init__(self, around: Context, trace: Trace, parent: SpanContext | None) -> None:
        self.around = around
        self.parent = parent
        self.trace = trace
        self.answer: Any = None
        self.other: detect.Other | None = None
        self.http = False
        self.quiet = False

    @property
    def sampled(self) -> bool:
        if self.other is not None:
            return bool(self.other.span.get_span_context().trace_flags.sampled)
        return self.answer is None or self.answer.decision.is_sampled()

    def context(self) -> SpanContext:
        """The call's own span, as others refer to it."""
        flags = TraceFlags(TraceFlags.SAMPLED if self.sampled else TraceFlags.DEFAULT)
        state = None if self.answer is None else self.answer.trace_state
        return SpanContext(
            int(self.trace.trace_id, 16), int(self.trace.span_id, 16), False, flags, state
        )


def begin(ids: Any, *, detects: bool = True) -> Begun:
    """Opens a call. ids: the tracer provider's generator of ids. detects: whether another tool's
    span of the call is looked for."""
    around = contexts.get_current()
    span = traces.get_current_span(around)
    parent: SpanContext | None = span.get_span_context()
    if parent is None or not parent.is_valid:
        parent = None
        trace = Trace(trace_id=_hex(ids.generate_trace_id(), 32), span_id=_span_id(ids))
    else:
        trace = Trace(
            trace_id=_hex(parent.trace_id, 32),
            span_id=_span_id(ids),
            parent_id=_hex(parent.span_id, 16),
        )
    begun = Begun(around, trace, parent)
    if detects and parent is not None:
        adopt(begun, span)
    if begun.other is None:
        begun.quiet = any(contexts.get_value(key, around) for key in detect.SUPPRESSED)
    return begun


def adopt(begun: Begun, span: Any) -> None:
    """Takes another tool's inference span, if this is one, for the call's own."""
    other = detect.other(span)
    if other is None:
        return
    begun.other = other
    known = span.get_span_context()
    parent = getattr(span, "parent", None)
    begun.trace = Trace(
        trace_id=_hex(known.trace_id, 32),
        span_id=_hex(known.span_id, 16),
        parent_id=None if parent is None else _hex(parent.span_id, 16),
    )


def asked(begun: Begun, request: Any, sampler: Any, *, detects: bool = True) -> None:
    """The first request is about to be sent: whose span it is, and whether it is wanted."""
    span = traces.get_current_span()
    begun.http = begun.http or detect.http_traced(span)
    since = begun.parent is None or span.get_span_context().span_id != begun.parent.span_id
    if begun.other is None and detects and since:
        # Made since the call's entry, so inside of it: the Anthropic SDK's, for one.
        adopt(begun, span)
    if begun.other is None and begun.answer is None and sampler is not None:
        name, attributes = known_early(request)
        begun.answer = decide(begun, sampler, name, attributes)


def decide(begun: Begun, sampler: Any, name: str, attributes: dict[str, Any]) -> Any:
    """What the application's sampler says of the call."""
    trace_id = int(begun.trace.trace_id, 16)
    return sampler.should_sample(begun.around, trace_id, name, SpanKind.CLIENT, attributes, ())


def within(begun: Begun) -> Callable[[], None]:
    """Makes the call's span current for what happens inside the transport, so that spans of the
    HTTP library become its children; gives back what ends that."""
    span = NonRecordingSpan(begun.context())
    token: Any = contexts.attach(traces.set_span_in_context(span))

    def leave() -> None:
        # Not the API's `detach`: of a coroutine that was thrown away this runs in whatever context
        # the collector was in, and `detach` would log that.
        try:
            token.var.reset(token)
        except ValueError:
            return

    return leave


# -- what a request tells before it is sent --------------------------------------------------------


def known_early(request: Any) -> tuple[str, dict[str, Any]]:
    """Span name and the attributes the conventions want samplers to see."""
    url = request.url
    path = url.path
    dialect = detect_dialect(path)
    api = None if dialect is None else dialect.api
    operation = operation_of(path, api)
    attributes: dict[str, Any] = {names.SERVER: url.host}
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    if port:
        attributes[names.PORT] = port
    if operation is None:
        return "HTTP", attributes
    attributes[names.OPERATION] = operation
    attributes[names.PROVIDER] = provider_of(url.host, None, None) or FALLBACK.get(
        api or "", "openai"
    )
    model = model_in(request, path)
    if model is not None:
        attributes[names.REQUEST_MODEL] = model
    return f"{operation} {model or ''}".strip(), attributes


_MODEL = re.compile(rb'"model"\s*:\s*"([^"\\]{1,200})"')
_IN_PATH = re.compile(r"/(?:deployments|models?|engines)/([^/:]+)")
_LOOKED = 1 << 18
"""Bytes looked through from either end of a request: a prompt of megabytes costs no more."""


def model_in(request: Any, path: str) -> str | None:
    """The model a request names, in its JSON body (a quote inside a prompt is escaped there, so
    the key cannot be part of one) or else in its path."""
    try:
        body = request.content
    except Exception:  # a body that is a stream is the transport's to read, once
        body = b""
    found = _MODEL.search(body[:_LOOKED]) or _MODEL.search(body[-_LOOKED:])
    if found is not None:
        return word(found[1].decode("utf-8", "replace"))
    named = _IN_PATH.search(path)
    return word(unquote(named[1])) if named else None


def _span_id(ids: Any) -> str:
    return _hex(ids.generate_span_id(), 16)


def _hex(number: int, digits: int) -> str:
    return f"{number:0{digits}x}"
