"""A call as points of metrics: the GenAI conventions' own, and where its time went.

An unsplit piece is recorded under its candidates (`queue|prefill`), never as a point of either.
Attributes are those of low cardinality; a tag becomes one only where it was asked for by name.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from latscope.attribution.model import Piece
from latscope.export.otel import names
from latscope.export.otel.rows import Attributes, Instrument, MetricPoint
from latscope.export.otel.told import Told, error_type, identity, seconds, segment_name
from latscope.units import Ns, S


def _histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> Instrument:
    return Instrument(name=name, unit=unit, description=description, buckets=tuple(buckets))


DURATION = _histogram(
    names.M_DURATION, "s", "Duration of inference calls, retries included.", names.SECONDS
)
FIRST_CHUNK = _histogram(
    names.M_FIRST_CHUNK, "s", "Time to the first output chunk of a stream.", names.SECONDS
)
CHUNK = _histogram(
    names.M_CHUNK, "s", "Time between output chunks, after the first.", names.SECONDS
)
INPUT = _histogram(
    names.M_INPUT, "{token}", "Input tokens of a call, cached included.", names.TOKENS
)
OUTPUT = _histogram(
    names.M_OUTPUT, "{token}", "Output tokens of a call, reasoning included.", names.TOKENS
)
USAGE = {
    kind: Instrument(
        name=f"{names.M_USAGE}{kind}", unit="{token}", description=f"Tokens used: {words}."
    )
    for kind, words in (
        ("input_tokens", "input, cached included"),
        ("output_tokens", "output, reasoning included"),
        ("cache_read.input_tokens", "input read from a prefix cache"),
        ("cache_write.input_tokens", "input newly written to a prefix cache"),
        ("reasoning.output_tokens", "output spent on reasoning"),
    )
}

SEGMENT = _histogram(
    names.M_SEGMENT, "s", "Time of a call by segment, and how it is known.", names.FINE_SECONDS
)
TTFT_SEGMENT = _histogram(
    names.M_TTFT_SEGMENT, "s", "Time to first token by segment.", names.FINE_SECONDS
)
TTFT = _histogram(names.M_TTFT, "s", "Time to the first token of any channel.", names.SECONDS)
STALL = _histogram(names.M_STALL, "s", "Stalls inside streams, by cause.", names.SECONDS)
EXCESS = _histogram(
    names.M_EXCESS, "s", "Time above the unloaded floor of the endpoint.", names.FINE_SECONDS
)
CACHED = _histogram(
    names.M_CACHED, "1", "Share of a call's input tokens read from a cache.", names.SHARES
)
RETRIES = Instrument(
    name=names.M_RETRIES, unit="{attempt}", description="Attempts after the first."
)

OLD_DURATION = _histogram(names.OLD_DURATION, "s", "GenAI operation duration.", names.SECONDS)
OLD_FIRST_CHUNK = _histogram(names.OLD_FIRST_CHUNK, "s", "Time to the first chunk.", names.SECONDS)
OLD_CHUNK = _histogram(names.OLD_CHUNK, "s", "Time between chunks.", names.SECONDS)
OLD_USAGE = _histogram(
    names.OLD_USAGE, "{token}", "Number of input and output tokens used.", names.TOKENS
)


def metric_points(
    told: Told,
    *,
    aliases: bool = False,
    tags: Sequence[str] = (),
    conventional: bool = True,
    chunks: bool = True,
) -> tuple[MetricPoint, ...]:
    """What the call adds to each metric.

    aliases: also the metric names of before. tags: those of the call's tags that become attributes.
    conventional: whether the GenAI conventions' own are among them; not where another tool counts
    the same call under the same names. chunks: whether each gap between two chunks is a point.
    """
    base = identity(told)
    for tag in tags:
        if tag in told.attribution.tags:
            base[names.TAGS + tag] = told.attribution.tags[tag]
    points = list(_ours(told, base))
    if conventional and told.operation is not None:
        gaps = _gaps(told) if chunks else []
        points += _conventional(told, base, gaps)
        if aliases:
            points += _old(told, base, gaps)
    return tuple(points)


# -- the conventions' own --------------------------------------------------------------------------


def _conventional(told: Told, base: Attributes, gaps: Sequence[float]) -> Iterator[MetricPoint]:
    a = told.attribution
    yield _point(DURATION, seconds(a.wall_ns), base | _ended(told))
    if a.streamed and a.first_token_ns is not None:
        yield _point(FIRST_CHUNK, seconds(a.first_token_ns), base)
    if gaps:
        yield MetricPoint(instrument=CHUNK, values=gaps, attributes=base)
    for kind, tokens in _counts(told):
        yield _point(USAGE[kind], tokens, base | {names.MODALITY: "text"})
    for instrument, stated in ((INPUT, a.input_tokens), (OUTPUT, a.output_tokens)):
        if stated is not None and told.operation != "fetch_response":
            yield _point(instrument, stated, base)


def _ended(told: Told) -> Attributes:
    """Also a call that was given up is no success in a metric of durations."""
    error = error_type(told)
    if error is None and told.attribution.status == "cancelled":
        error = "cancelled"
    return {} if error is None else {names.ERROR: error}


def _gaps(told: Told) -> list[float]:
    """Seconds between output chunks as they arrived: text, reasoning and tool calls. Chunks that
    came in one read came together."""
    if not told.attribution.streamed:
        return []
    at = [arrival.at.latest for arrival in told.timeline.arrivals]
    return [(later - earlier) / S for earlier, later in pairwise(at)]


def _counts(told: Told) -> list[tuple[str, int]]:
    """Tokens by kind; a failed call that states none used none."""
    a = told.attribution
    if told.operation == "fetch_response":
        return []
    none = 0 if a.status == "error" else None
    found = (
        ("input_tokens", none if a.input_tokens is None else a.input_tokens),
        ("output_tokens", none if a.output_tokens is None else a.output_tokens),
        ("cache_read.input_tokens", a.cached_tokens),
        ("cache_write.input_tokens", a.cache_write_tokens),
        ("reasoning.output_tokens", a.reasoning_tokens),
    )
    return [(kind, tokens) for kind, tokens in found if tokens is not None]


def _old(told: Told, base: Attributes, gaps: Sequence[float]) -> Iterator[MetricPoint]:
    a = told.attribution
    yield _point(OLD_DURATION, seconds(a.wall_ns), base | _ended(told))
    if a.streamed and a.first_token_ns is not None:
        yield _point(OLD_FIRST_CHUNK, seconds(a.first_token_ns), base)
    if gaps:
        yield MetricPoint(instrument=OLD_CHUNK, values=gaps, attributes=base)
    for kind, tokens in (("input", a.input_tokens), ("output", a.output_tokens)):
        if tokens is not None and told.operation != "fetch_response":
            yield _point(OLD_USAGE, tokens, base | {names.OLD_TOKEN_TYPE: kind})


# -- ours ------------------------------------------------------------------------------------------


def _ours(told: Told, base: Attributes) -> Iterator[MetricPoint]:
    a = told.attribution
    yield from _by_segment(SEGMENT, a.pieces, base)
    if a.ttft_pieces is not None:
        yield from _by_segment(TTFT_SEGMENT, a.ttft_pieces, base)
    if a.first_token_ns is not None:
        yield _point(TTFT, seconds(a.first_token_ns), base)
    for stall in a.stalls:
        yield _point(STALL, seconds(stall.ns), base | {"latscope.cause": stall.cause})
    if a.load_excess is not None:
        known: Attributes = {names.PROVENANCE: a.load_excess.provenance}
        yield _point(EXCESS, seconds(a.load_excess.ns), base | known)
    if a.input_tokens and a.cached_tokens is not None:
        yield _point(CACHED, min(1.0, a.cached_tokens / a.input_tokens), base)
    if len(a.attempts) > 1:
        yield _point(RETRIES, len(a.attempts) - 1, base)


def _by_segment(
    instrument: Instrument, pieces: Sequence[Piece], base: Attributes
) -> Iterator[MetricPoint]:
    sums: dict[tuple[str, str], Ns] = {}
    for piece in pieces:
        key = segment_name(piece), piece.provenance
        sums[key] = sums.get(key, 0) + piece.ns
    for (segment, provenance), ns in sums.items():
        own: Attributes = {names.SEGMENT: segment, names.PROVENANCE: provenance}
        yield _point(instrument, seconds(ns), base | own)


def _point(instrument: Instrument, value: float, attributes: Attributes) -> MetricPoint:
    return MetricPoint(instrument=instrument, values=(value,), attributes=attributes)
