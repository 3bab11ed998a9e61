"""A tracer whose spans get the ids and the sampling decision they are told to have.

The public API gives a span new ids and asks the sampler when it is made. Ours are made when the
call is over, but their ids went out with its request and the sampler has answered. So our tracer,
and no other of that provider, has an id generator and a sampler that repeat what is known.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from latscope.export.otel.rows import SpanRow


class _Next(threading.local):
    row: SpanRow | None = None
    answer: SamplingResult | None = None


_next = _Next()


class _Ids(IdGenerator):
    def generate_trace_id(self) -> int:
        assert _next.row is not None
        return int(_next.row.trace_id, 16)

    def generate_span_id(self) -> int:
        assert _next.row is not None
        return int(_next.row.span_id, 16)


class _Decided(Sampler):
    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        assert _next.answer is not None
        return _next.answer

    def get_description(self) -> str:
        return "latscope"


IDS = _Ids()
DECIDED = _Decided()


def tracer(provider: Any, name: str, version: str) -> Any:
    """Our tracer of an SDK's provider."""
    made = provider.get_tracer(name, version)
    if not hasattr(made, "id_generator"):  # a provider that is switched off: its spans are none
        return made
    made.id_generator = IDS
    made.sampler = DECIDED
    return made


@contextmanager
def next_span(row: SpanRow, answer: SamplingResult) -> Iterator[None]:
    """Inside, the span this thread makes with our tracer is that of the row."""
    _next.row, _next.answer = row, answer
    try:
        yield
    finally:
        _next.row = _next.answer = None
