"""The sink that hands calls to the application's OpenTelemetry providers (extra `otel`).

    from latscope.export.otel.sink import OTelSink
    latscope.instrument(client, sink=OTelSink())

Ids are made and the sampler is asked while the call begins (`entry`); its spans are made in the
background when it is over, with their original times, through the provider's own processors.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from latscope import __version__
from latscope.attribution.attribute import attribute_steps
from latscope.attribution.profile import Profile
from latscope.errors import MissingExtra, UsageError
from latscope.export.otel import detect, names
from latscope.export.otel.about import summary
from latscope.export.otel.content import messages
from latscope.export.otel.many import record_many
from latscope.export.otel.metrics import CHUNK, OLD_CHUNK, metric_points
from latscope.export.otel.propagate import send
from latscope.export.otel.rows import Instrument, Role, SpanRow
from latscope.export.otel.spans import span_name, span_rows, trace_of
from latscope.export.otel.told import Told, identity, told
from latscope.recording import Recording, Trace
from latscope.timeline import build_steps

try:
    from opentelemetry import metrics as metrics_api
    from opentelemetry import trace as traces
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.trace.sampling import Decision, SamplingResult
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
    )

    from latscope.export.otel import entry, given
    from latscope.export.otel.entry import Begun
except ModuleNotFoundError as missing:
    raise MissingExtra("the OpenTelemetry sink", "otel") from missing

log = logging.getLogger("latscope")

KINDS = {"client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}
A_STEP = 4
"""Points recorded at a stretch, before others may run."""


class OTelSink:
    """Makes spans and metrics of each call.

    tracer_provider, meter_provider: the global ones when not given, looked up at each call, so they
    may be set later. aliases: adds the names of before and those that SigNoz, Langfuse and Phoenix
    read. metric_tags: the names of tags that become attributes of metrics; of a span all are.
    chunks: whether every gap between two chunks becomes a point of `time_per_output_chunk`, as the
    conventions want it: most of what a long call costs in the background. profile: of the endpoint,
    to split what one call alone cannot. inference: whether the call's own span is the inference
    span; null finds out whether another instrumentation makes that one.

    Content is exported only where the application asks for it twice: `keep_content=True` when it
    instruments, and OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only (or
    span_and_event) in the environment.
    """

    def __init__(
        self,
        tracer_provider: Any = None,
        meter_provider: Any = None,
        *,
        aliases: bool = False,
        metric_tags: Sequence[str] = (),
        chunks: bool = True,
        profile: Profile | None = None,
        inference: bool | None = None,
    ) -> None:
        if isinstance(metric_tags, str):
            raise UsageError(f"metric_tags is a list of tag names, not the text {metric_tags!r}")
        self.aliases = aliases
        self.metric_tags = tuple(metric_tags)
        self.chunks = chunks
        self.profile = profile
        self.inference = inference
        self._tracers = tracer_provider
        self._meters = meter_provider
        self._instruments: dict[str, Any] = {}
        self._instruments_of: Any = None
        self._said = False

    # -- while the caller waits --------------------------------------------------------------------

    def begin(self, *, http: bool = False) -> Begun:
        """Opens a call, at its entry. http: this client's requests have spans of their own."""
        provider = self._provider()
        ids = RANDOM if provider is None else provider.id_generator
        begun = entry.begin(ids, detects=self._detects)
        begun.http = http
        return begun

    def outgoing(
        self, begun: Begun, request: Any, *, call_id: str, propagate: bool
    ) -> Callable[[], None] | None:
        """Before each request of the call is sent: asks the sampler (once), adds the headers, and
        makes the call's span current until what is given back is called."""
        if begun.quiet:
            return None
        provider = self._provider()
        sampler = None if provider is None else provider.sampler
        entry.asked(begun, request, sampler, detects=self._detects)
        if begun.other is not None:
            with suppress(Exception):
                begun.other.span.set_attribute(names.CALL_ID, call_id)
        if propagate:
            send(request.headers, trace=begun.trace, sampled=begun.sampled, call_id=call_id)
        return entry.within(begun) if begun.other is None else None

    @property
    def _detects(self) -> bool:
        return self.inference is not True

    def _provider(self) -> Any:
        """The SDK's tracer provider; null while there is none. Some tools wrap it."""
        provider = self._tracers or traces.get_tracer_provider()
        for _ in range(3):
            if hasattr(provider, "id_generator") and hasattr(provider, "sampler"):
                return provider
            provider = getattr(provider, "provider", None)
        return None

    # -- in the background -------------------------------------------------------------------------

    def write(self, recording: Recording) -> None:
        for _ in self.finish(recording):
            pass

    def finish(self, recording: Recording, begun: Begun | None = None) -> Iterator[None]:
        """The call's spans and points, in steps between which others may run. begun: what `begin`
        gave at its entry; without it the recording's own ids are used, and the sampler asked now.
        """
        if begun is not None and begun.quiet:
            return
        timeline = yield from build_steps(recording)
        yield
        attribution = yield from attribute_steps(recording, timeline, profile=self.profile)
        yield
        call = told(recording, timeline, attribution)
        yield
        begun = begun or _begun_of(recording)
        role, counted = self._role(begun, recording)
        yield from self._make_spans(call, begun, role)
        yield from self._record(call, begun, conventional=not counted)

    def _role(self, begun: Begun, recording: Recording) -> tuple[Role, bool]:
        """What the call's own span is, and whether another tool records the usual metrics."""
        if self.inference is not None and begun.other is None:
            return ("inference" if self.inference else "beside"), not self.inference
        found = detect.beside(recording.sdk)
        counted = found is not None and found.counts
        if begun.other is not None:
            return "within", begun.other.counts or counted
        return "inference" if found is None else "beside", counted

    def _make_spans(self, call: Told, begun: Begun, role: Role) -> Iterator[None]:
        provider = self._provider()
        if provider is None:
            self._say_no_provider()
            return
        if begun.other is None and begun.answer is None:
            begun.answer = entry.decide(begun, provider.sampler, span_name(call), identity(call))
        answer = _answer(begun)
        if answer.decision is Decision.DROP:
            return
        own, *children = span_rows(call, aliases=self.aliases, role=role, http=not begun.http)
        yield
        tracer = given.tracer(provider, names.SCOPE, __version__)
        inside = traces.set_span_in_context(NonRecordingSpan(begun.context()), begun.around)
        extra = {**(answer.attributes or {}), **(messages(call) if role == "inference" else {})}
        _make(tracer, own, inside if role == "within" else begun.around, answer, extra)
        if begun.other is not None and begun.other.span.is_recording():
            begun.other.span.set_attributes(summary(call))
        for row in children:
            yield
            _make(tracer, row, inside, answer, {})

    def _record(self, call: Told, begun: Begun, *, conventional: bool) -> Iterator[None]:
        points = metric_points(
            call,
            aliases=self.aliases,
            tags=self.metric_tags,
            conventional=conventional,
            chunks=self.chunks,
        )
        yield
        provider = self._meters or metrics_api.get_meter_provider()
        if provider is not self._instruments_of:
            self._instruments, self._instruments_of = {}, provider
        # The exemplar's trace: an SDK keeps it where the call is sampled. A chunk is no example.
        nowhere = Context()
        context = traces.set_span_in_context(NonRecordingSpan(begun.context()), nowhere)
        for number, point in enumerate(points):
            if number % A_STEP == 0:
                yield
            row = point.instrument
            made = self._instruments.get(row.name) or self._instrument(row, provider)
            if row is CHUNK or row is OLD_CHUNK:
                yield from record_many(made, point.values, point.attributes, nowhere)
                continue
            put = made.record if row.buckets else made.add
            for value in point.values:
                put(value, point.attributes, context)

    def _instrument(self, row: Instrument, provider: Any) -> Any:
        """The metric in the application's meter."""
        meter = provider.get_meter(names.SCOPE, __version__)
        said = {"unit": row.unit, "description": row.description}
        if row.buckets:
            buckets = row.buckets
            made = meter.create_histogram(
                row.name, explicit_bucket_boundaries_advisory=buckets, **said
            )
        else:
            made = meter.create_counter(row.name, **said)
        self._instruments[row.name] = made
        return made

    def _say_no_provider(self) -> None:
        if not self._said:
            self._said = True
            with suppress(Exception):
                log.warning(
                    "no spans are made: set an OpenTelemetry SDK tracer provider, or give one to "
                    "OTelSink"
                )


RANDOM = RandomIdGenerator()


def _answer(begun: Begun) -> Any:
    """The sampler's answer; of a call another tool traces, what that tool's sampler said."""
    if begun.other is None:
        return begun.answer
    decision = Decision.RECORD_AND_SAMPLE if begun.sampled else Decision.DROP
    return SamplingResult(decision, None, begun.other.span.get_span_context().trace_state)


def _begun_of(recording: Recording) -> Begun:
    """A call that no `begin` saw: its ids as recorded, its parent another process's for all we
    know."""
    trace = trace_of(recording)
    around = Context()
    parent = None
    if trace.parent_id is not None:
        parent = SpanContext(
            int(trace.trace_id, 16),
            int(trace.parent_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        around = traces.set_span_in_context(NonRecordingSpan(parent), around)
    kept = Trace(trace_id=trace.trace_id, span_id=trace.span_id, parent_id=trace.parent_id)
    return Begun(around, kept, parent)


def _make(
    tracer: Any, row: SpanRow, context: Context, answer: Any, extra: Mapping[str, Any]
) -> None:
    with given.next_span(
        row, SamplingResult(answer.decision, {**extra, **row.attributes}, answer.trace_state)
    ):
        span = tracer.start_span(
            row.name, context=context, kind=KINDS[row.kind], start_time=row.start_unix_ns
        )
    for event in row.events:
        span.add_event(event.name, event.attributes, timestamp=event.unix_ns)
    if row.failed:
        span.set_status(Status(StatusCode.ERROR))
    span.end(end_time=row.end_unix_ns)
