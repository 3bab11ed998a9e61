"""Requests as servers alone tell of them: no client, no network, no call.

Where nothing was recorded at the client, an engine's spans still say how long each request queued,
prefilled and decoded. A figure keeps its source's meaning; what a source does not state is null.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from latscope.protocols.events import Reported
from latscope.protocols.reported import of_span
from latscope.recording import ServerSpan
from latscope.timeline.forest import trees
from latscope.timeline.hops import own_times
from latscope.units import Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """One request of one engine.

    start_unix_ns and duration_ns: of the engine's own span, on its clock. queue_ns: the engine has
    it -> scheduled; frontend_ns: what the model server did before (reading, templating,
    tokenising); prefill_ns: scheduled -> first token; decode_ns: first -> last token;
    first_token_ns, e2e_ns: from its arrival at the model server. hops: what proxies above it took.
    """

    trace_id: str
    span_id: str
    request_id: str | None
    service: str
    source: str
    start_unix_ns: int
    duration_ns: Ns
    queue_ns: Ns | None
    frontend_ns: Ns | None
    prefill_ns: Ns | None
    decode_ns: Ns | None
    first_token_ns: Ns | None
    e2e_ns: Ns | None
    input_tokens: int | None
    output_tokens: int | None
    reported: tuple[Reported, ...]
    hops: tuple[Reported, ...]


def requests(spans: Iterable[ServerSpan]) -> tuple[ServerRequest, ...]:
    """Every engine request among the spans, earliest first."""
    found = [_request(engine, tree) for engine, tree in trees(spans)]
    return tuple(sorted(found, key=lambda request: request.start_unix_ns))


def _request(engine: ServerSpan, tree: Sequence[ServerSpan]) -> ServerRequest:
    told = [figure for span in tree for figure in of_span(span.source, span.attributes)]
    names = [(figure.source, figure.field) for figure in told]
    # Told twice (a retraction, several choices): which of them counts is not said.
    figures = tuple(f for f in told if names.count((f.source, f.field)) == 1)
    ids = (engine.attributes.get(name) for name in ("gen_ai.request.id", "rid"))
    return ServerRequest(
        trace_id=engine.trace_id,
        span_id=engine.span_id,
        request_id=next((id for id in ids if isinstance(id, str)), None),
        service=engine.service,
        source=engine.source,
        start_unix_ns=engine.start_unix_ns,
        duration_ns=engine.duration_ns,
        queue_ns=_first(figures, "queue.engine"),
        frontend_ns=_frontend(figures),
        prefill_ns=_first(figures, "prefill"),
        decode_ns=_first(figures, "decode"),
        first_token_ns=_first(figures, "queue+prefill"),
        e2e_ns=_first(figures, "queue+prefill+decode"),
        input_tokens=_count(engine, "gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"),
        output_tokens=_count(
            engine, "gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"
        ),
        reported=figures,
        hops=own_times(tree),
    )


def _first(figures: Sequence[Reported], covers: str) -> Ns | None:
    return next((figure.ns for figure in figures if figure.covers == covers), None)


def _frontend(figures: Sequence[Reported]) -> Ns | None:
    """Stated, or what the engine's queue and prefill leave of the time to the first token."""
    stated = _first(figures, "queue.frontend")
    parts = [_first(figures, covers) for covers in ("queue+prefill", "queue.engine", "prefill")]
    whole, queue, prefill = parts
    if stated is not None or whole is None or queue is None or prefill is None:
        return stated
    return max(0, whole - queue - prefill)


def _count(span: ServerSpan, *names: str) -> int | None:
    values = (span.attributes.get(name) for name in names)
    return next((round(value) for value in values if isinstance(value, int | float)), None)
