"""What servers state of their own timings, and which part of a call each figure covers.

One table, a row a figure (`engines`, `vendors`, `hops`, `spans`). The same name means different
intervals at different servers (`time_to_first_token` starts at arrival here, at scheduling there),
so a row states the interval as its evidence has it, and what part of the call that fills. A figure
fills that part and no more; whether it is believed is for the attribution to say.

Of one source the figure to prefer comes first where several cover the same. A joint figure has the
widest interval the server states; a narrower one inside it is only `stated`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from latscope.protocols.events import Covers, Reported
from latscope.protocols.fields import as_int, as_list, as_map, as_str, dig
from latscope.protocols.reported import engines, hops, spans, vendors
from latscope.protocols.reported.row import Row, Values, figure_of
from latscope.units import MS

__all__ = [
    "KEYS",
    "TABLE",
    "Row",
    "innermost",
    "of_call",
    "of_headers",
    "of_record",
    "of_span",
    "read",
    "replayed",
]

TABLE: tuple[Row, ...] = (
    *engines.ROWS,
    *vendors.ROWS,
    *hops.ROWS,
    *spans.ROWS,
    *spans.RECORDS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Rows of one object: where it lies, and a field of each."""

    where: tuple[str, ...]
    rows: tuple[Row, ...]
    fields: frozenset[str]


def _grouped(rows: Iterable[Row]) -> tuple[_Group, ...]:
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(row.where, []).append(row)
    return tuple(
        _Group(where=where, rows=tuple(some), fields=frozenset(row.field for row in some))
        for where, some in found.items()
    )


_BODY = _grouped(row for row in TABLE if row.place == "body")
_BY_KEY: dict[str, list[_Group]] = {}
"""The groups by the keys of an object that may hold them; a chunk has few such keys, or none."""
for _group in _BODY:
    for _key in _group.where[:1] or _group.fields:
        _BY_KEY.setdefault(_key, []).append(_group)
KEYS = frozenset((*_BY_KEY, "debug"))
"""Keys of an object of which it must have one to hold a figure, its choices' own aside."""
_MAY_HOLD = KEYS | {"choices"}
_RECORD = _grouped(spans.RECORDS)
_HEADER = tuple(row for row in TABLE if row.place == "header" and not row.where)
_HEADERS = frozenset(row.field for row in _HEADER)
_TIMING = {row.field: row for row in hops.SERVER_TIMING}
_MARKS = "openrouter.marks"


def read(mapping: Mapping[str, Any]) -> tuple[Reported, ...]:
    """Every figure of the table found in `mapping` (a chunk, a body, a response object).

    A value that is zero, negative, not finite or no number gives no figure: servers write 0 for
    what they did not measure.
    """
    if _MAY_HOLD.isdisjoint(mapping):
        return ()
    inner = _meta_info(mapping)
    if inner is not None:
        mapping = {**mapping, "meta_info": inner}
    if KEYS.isdisjoint(mapping):  # nearly every chunk of a stream
        return ()
    groups = [group for key in mapping for group in _BY_KEY.get(key, ()) if mapping[key]]
    if len(groups) > 1:
        groups = [group for group in _BODY if group in groups]  # in the table's order, once each
    figures = _figures(groups, mapping) if groups else ()
    return (*figures, *_marks(mapping)) if "debug" in mapping else figures


def of_headers(headers: Iterable[tuple[str, str]]) -> tuple[Reported, ...]:
    """Every figure of the response's headers (names in lower case), those LiteLLM passed on from
    its upstream (`llm_provider-*`) included. Values that were masked give none."""
    named = _named(headers)
    kind = named.get("content-type")
    streamed = None if kind is None else kind.startswith("text/event-stream")
    found = _head_figures(named, streamed)
    long = len(hops.PASSED_ON)
    passed = {n[long:]: value for n, value in named.items() if n.startswith(hops.PASSED_ON)}
    if passed:
        further = _head_figures(passed, streamed)
        found += [replace(figure, field=hops.PASSED_ON + figure.field) for figure in further]
    return tuple(found)


def of_span(
    source: str, attributes: Mapping[str, float | str], *, streamed: bool | None = None
) -> tuple[Reported, ...]:
    """Every figure of one server span, by the names its `source` gives them (`vllm.otel`,
    `sglang.otel`, `trtllm.otel`; none of any other). A span's own duration may stand under its
    name, in ns. streamed: whether the answer was, null when that is not known."""
    rows = (row for row in spans.ROWS if row.source == source)
    found = (figure_of(row, attributes, streamed) for row in rows)
    return tuple(figure for figure in found if figure is not None)


def of_record(mapping: Mapping[str, Any]) -> tuple[Reported, ...]:
    """Every figure of one TensorRT-LLM perf-metrics record, of one server or of several: stamps
    of one clock, told as their differences."""
    bare = "timing_metrics" in mapping and "perf_metrics" not in mapping
    return _figures(_RECORD, {"perf_metrics": mapping} if bare else mapping)


def replayed(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a gateway answered with what it kept of an earlier call: usage and timings in the
    body, and often in the headers, are then that call's."""
    named = _named((name.removeprefix(hops.PASSED_ON), value) for name, value in headers)
    hit = any(hops.HIT.search(named[name]) for name in hops.CACHES & named.keys())
    return hit or bool(named.get(hops.CACHE_KEY))


def innermost(figures: Iterable[Reported], covers: Covers = "headers") -> Reported | None:
    """The smallest of the nested figures that cover the same: they are never added. Null when
    there is none."""
    return min((figure for figure in figures if figure.covers == covers), default=None)


def of_call(
    body: Iterable[Reported],
    headers: Iterable[tuple[str, str]] = (),
    server_spans: Iterable[tuple[str, Mapping[str, float | str]]] = (),
    *,
    streamed: bool | None = None,
) -> tuple[Reported, ...]:
    """All a call's servers state: the last statement of each figure (servers that repeat them end
    with the whole), body before headers before spans, and the finer before the coarser.

    body: what the events told, in order. A replayed answer's figures are shown and cover nothing.
    A span's figure told twice (a retraction, several choices) is dropped: which counts is not said.
    """
    pairs = tuple(headers)
    last = {(figure.source, figure.field): figure for figure in body}
    told = [*_marked(last), *of_headers(pairs)]
    if replayed(pairs):
        told = [replace(figure, covers="stated") for figure in told]
    spanned = [
        f for source, values in server_spans for f in of_span(source, values, streamed=streamed)
    ]
    names = [(figure.source, figure.field) for figure in spanned]
    once = [f for f in spanned if names.count((f.source, f.field)) == 1]
    return tuple(sorted((*told, *once), key=lambda figure: figure.resolution_ns))


def _named(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by name; a repeated one as the list it is (RFC 9110, 5.2), which no number is."""
    named: dict[str, str] = {}
    for name, value in headers:
        known = name.lower()
        named[known] = f"{named[known]}, {value}" if known in named else value
    return named


def _head_figures(named: Mapping[str, str], streamed: bool | None) -> list[Reported]:
    found: list[Reported | None] = []
    if not _HEADERS.isdisjoint(named):
        found = [figure_of(row, named, streamed) for row in _HEADER if row.field in named]
    if "server-timing" in named:
        timing = hops.server_timing(named["server-timing"])
        found += [figure_of(_TIMING.get(n) or hops.unknown_timing(n), timing) for n in timing]
    return [figure for figure in found if figure is not None]


def _figures(groups: Iterable[_Group], mapping: Values) -> tuple[Reported, ...]:
    """The figures of the rows, in their order; the first of a name, where it stands twice."""
    found: dict[tuple[str, str], Reported] = {}
    for group in groups:
        values = as_map(dig(mapping, *group.where)) if group.where else mapping
        if group.fields.isdisjoint(values):
            continue
        for row in group.rows:
            figure = figure_of(row, values)
            if figure is not None:
                found.setdefault((figure.source, figure.field), figure)
    return tuple(found.values())


def _meta_info(mapping: Mapping[str, Any]) -> object:
    """SGLang's figures inside the only choice of a whole answer; of several, each has its own."""
    choices = as_list(mapping.get("choices"))
    return as_map(choices[0]).get("meta_info") if len(choices) == 1 else None


_MILESTONES = (
    "adapter_request",
    "upstream_headers_received",
    "first_token_received",
    "upstream_body_ended",
)
_BETWEEN: tuple[tuple[str, str, Covers], ...] = (
    ("adapter_request", "upstream_headers_received", "headers"),
    ("adapter_request", "first_token_received", "stated"),
    ("first_token_received", "upstream_body_ended", "stated"),
)
"""OpenRouter's debug milestones (debug.echo_upstream_body), one a chunk, whole milliseconds of its
own clock: types, openrouter 1.3.84. Between two of them lies the way to the provider, too."""


def _marks(mapping: Mapping[str, Any]) -> tuple[Reported, ...]:
    """An OpenRouter milestone: a reading of the router's clock, of no use but for a difference."""
    timing = as_map(dig(mapping, "debug", "timings"))
    name, at = as_str(timing.get("event")), as_int(timing.get("epoch_ms"))
    if at is None or name not in _MILESTONES:
        return ()
    mark = Reported(source=_MARKS, field=name, covers="stated", ns=at * MS, resolution_ns=MS)
    return (mark,)


def _marked(last: Mapping[tuple[str, str], Reported]) -> list[Reported]:
    """The figures, clock readings replaced by the differences that mean something."""
    found = [figure for (source, _), figure in last.items() if source != _MARKS]
    for start, end, covers in _BETWEEN:
        begun, ended = last.get((_MARKS, start)), last.get((_MARKS, end))
        if begun is not None and ended is not None and ended.ns > begun.ns:
            ns, name = ended.ns - begun.ns, f"{end} - {start}"
            found.append(
                replace(ended, source="openrouter.debug", field=name, covers=covers, ns=ns)
            )
    return found
