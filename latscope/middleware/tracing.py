"""Trace context: the ids a call has from its entry, and what goes out with its requests.

Only where a sink traces or `propagate` asks for it; else a call has ids if a span is current, and
its requests are what they were.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from latscope.middleware.context import Context, snapshot, traced


class Hooks(NamedTuple):
    """What capture is given: `context` at a call's entry, `outgoing` before each request."""

    context: Callable[[], Context]
    outgoing: Callable[[Any], Any] | None


def hooks(client: object, sinks: Sequence[Any], propagate: bool | None) -> Hooks:
    """propagate: null sends trace context with a sink that traces, and not otherwise. Of several
    such sinks the first makes the ids, and its provider's sampler decides."""
    sink = next((each for each in sinks if traces(each)), None)
    sends = sink is not None if propagate is None else propagate
    if sink is None and not sends:
        return Hooks(snapshot, None)
    # Nothing is to be loaded at the first call.
    from latscope.capture.tap import current_context
    from latscope.export.otel.propagate import send

    def outgoing(request: Any) -> Any:
        context = current_context()
        if not isinstance(context, Context) or context.call_id is None:
            return None
        if context.begun is not None and sink is not None:
            return sink.outgoing(context.begun, request, call_id=context.call_id, propagate=sends)
        if sends and context.trace is not None:
            send(
                request.headers,
                trace=context.trace,
                sampled=context.sampled,
                call_id=context.call_id,
            )
        return None

    # What OpenTelemetry's instrumentation of HTTPX leaves on a client it was given.
    http = getattr(client, "_client", client)
    traced_already = getattr(http, "_is_instrumented_by_opentelemetry", False) is True
    begin = None if sink is None else partial(sink.begin, http=traced_already)
    return Hooks(partial(traced, begin), outgoing)


def traces(sink: object) -> bool:
    """Whether a sink makes spans, and so has a part in a call's entry."""
    return all(callable(getattr(sink, name, None)) for name in ("begin", "outgoing", "finish"))
