"""What a line of `latscope.attribution/1` adds to each metric.

Such a line has lost its chunks and its pieces: it makes no spans, and no time between chunks. Its
segments stand for the pieces, each under its weakest provenance.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from latscope.export.otel import metrics, names
from latscope.export.otel.rows import Attributes, Instrument, MetricPoint
from latscope.export.otel.told import FALLBACK, add, operation_of, seconds, word
from latscope.units import Ns

Line = Mapping[str, Any]


def line_points(
    line: Line, *, aliases: bool = False, tags: tuple[str, ...] = ()
) -> tuple[MetricPoint, ...]:
    """The points of a line that was checked as `documents.lines` does. tags: as in
    `metrics.metric_points`."""
    operation = operation_of("", line["api"])
    base = _identity(line, operation)
    for tag in tags:
        if tag in line["tags"]:
            base[names.TAGS + tag] = line["tags"][tag]
    found = list(_ours(line, base))
    if operation is not None:
        found += _conventional(line, base)
        if aliases:
            found += _old(line, base)
    return tuple(found)


def _identity(line: Line, operation: str | None) -> Attributes:
    found: Attributes = {}
    if operation is not None:
        found[names.OPERATION] = operation
        provider = word(line["provider"]) or FALLBACK.get(line["api"] or "", "openai")
        found[names.PROVIDER] = provider
        add(found, names.REQUEST_MODEL, word(line["model"]))
    try:
        parts = urlsplit(line["endpoint"] or "")
        host, port = parts.hostname, parts.port
    except ValueError:
        return found
    add(found, names.SERVER, host or None)
    add(found, names.PORT, port or None)
    return found


def _ended(line: Line) -> Attributes:
    if line["status"] == "cancelled":
        return {names.ERROR: "cancelled"}
    if line["status"] == "complete":
        return {}
    return {names.ERROR: word((line["error"] or {}).get("type")) or "_OTHER"}


def _conventional(line: Line, base: Attributes) -> Iterator[MetricPoint]:
    yield _point(metrics.DURATION, seconds(line["wall_ns"]), base | _ended(line))
    if line["streamed"] and line["first_token_ns"] is not None:
        yield _point(metrics.FIRST_CHUNK, seconds(line["first_token_ns"]), base)
    for kind, field in (
        ("input_tokens", "input_tokens"),
        ("output_tokens", "output_tokens"),
        ("cache_read.input_tokens", "cached_tokens"),
        ("cache_write.input_tokens", "cache_write_tokens"),
        ("reasoning.output_tokens", "reasoning_tokens"),
    ):
        if line[field] is not None:
            yield _point(metrics.USAGE[kind], line[field], base | {names.MODALITY: "text"})
    for instrument, field in (
        (metrics.INPUT, "input_tokens"),
        (metrics.OUTPUT, "output_tokens"),
    ):
        if line[field] is not None:
            yield _point(instrument, line[field], base)


def _old(line: Line, base: Attributes) -> Iterator[MetricPoint]:
    yield _point(metrics.OLD_DURATION, seconds(line["wall_ns"]), base | _ended(line))
    if line["streamed"] and line["first_token_ns"] is not None:
        yield _point(metrics.OLD_FIRST_CHUNK, seconds(line["first_token_ns"]), base)
    for kind in ("input", "output"):
        tokens = line[f"{kind}_tokens"]
        if tokens is not None:
            yield _point(metrics.OLD_USAGE, tokens, base | {names.OLD_TOKEN_TYPE: kind})


def _ours(line: Line, base: Attributes) -> Iterator[MetricPoint]:
    for (segment, provenance), ns in _by_segment(line).items():
        own: Attributes = {names.SEGMENT: segment, names.PROVENANCE: provenance}
        yield _point(metrics.SEGMENT, seconds(ns), base | own)
    if line["first_token_ns"] is not None:
        for share in line["segments"]:
            if share["ttft_ns"]:
                own = {names.SEGMENT: _first(line, share["name"])}
                own[names.PROVENANCE] = share["provenance"]
                yield _point(metrics.TTFT_SEGMENT, seconds(share["ttft_ns"]), base | own)
        yield _point(metrics.TTFT, seconds(line["first_token_ns"]), base)
    for stall in line["stalls"]:
        cause: Attributes = {"latscope.cause": stall["cause"]}
        yield _point(metrics.STALL, seconds(stall["ns"]), base | cause)
    excess = line["load_excess"]
    if excess is not None:
        known: Attributes = {names.PROVENANCE: excess["provenance"]}
        yield _point(metrics.EXCESS, seconds(excess["ns"]), base | known)
    if line["input_tokens"] and line["cached_tokens"] is not None:
        share_cached = min(1.0, line["cached_tokens"] / line["input_tokens"])
        yield _point(metrics.CACHED, share_cached, base)
    if len(line["attempts"]) > 1:
        yield _point(metrics.RETRIES, len(line["attempts"]) - 1, base)


def _first(line: Line, name: str) -> str:
    """Of what is unsplit before the first token a line keeps the sum: its candidates are told
    where only one set of them is in the whole call."""
    every = {"|".join(piece["candidates"]) for piece in line["unsplit"]}
    return every.pop() if name == "unattributed" and len(every) == 1 else name


def _by_segment(line: Line) -> dict[tuple[str, str], Ns]:
    """Whole-call time by segment; what is unsplit under its candidates."""
    found: dict[tuple[str, str], Ns] = {}
    for share in line["segments"]:
        rest = share["ns"]
        if share["name"] == "unattributed":
            for piece in line["unsplit"]:
                key = "|".join(piece["candidates"]), "bound"
                found[key] = found.get(key, 0) + piece["ns"]
                rest -= piece["ns"]
        if rest > 0:
            found[share["name"], share["provenance"]] = rest
    return found


def _point(instrument: Instrument, value: float, attributes: Attributes) -> MetricPoint:
    return MetricPoint(instrument=instrument, values=(value,), attributes=attributes)
