"""Requests that only servers told of: as a table, and as JSON lines of `latscope.serverspan/1`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.text import Text

from latscope.report import figures
from latscope.timeline.serverside import ServerRequest
from latscope.units import Ns

SCHEMA = "latscope.serverspan/1"
MISSING = ("network", "client")
"""What no server sees of a call."""

COLUMNS = ("queue", "frontend", "prefill", "decode", "first token", "e2e")
NOTE = "server spans alone: network and client are not in these figures"
WIDTH = 12


def to_mapping(request: ServerRequest, started_at: str) -> dict[str, Any]:
    """The request as JSON-ready values, each key there, null if unknown."""
    values = asdict(request)
    hops = [{"service": hop.field, "covers": hop.covers, "ns": hop.ns} for hop in request.hops]
    reported = [
        {"source": each.source, "field": each.field, "covers": each.covers, "ns": each.ns}
        for each in request.reported
    ]
    told = {"schema": SCHEMA, "started_at": started_at, **values}
    return {**told, "hops": hops, "reported": reported, "missing": list(MISSING)}


def lines(requests: Sequence[ServerRequest], *, listed: Sequence[ServerRequest]) -> Iterator[Text]:
    """Medians a service, then the requests `listed`, one a line."""
    yield Text(NOTE, "bold")
    yield Text()
    yield _row("service", "requests", COLUMNS, "dim")
    for service in sorted({request.service for request in requests}):
        own = [request for request in requests if request.service == service]
        times = zip(*(_times(request) for request in own), strict=True)
        middle = [figures.duration(_median(values)) for values in times]
        yield _row(service or figures.UNKNOWN, str(len(own)), middle)
    yield Text("medians, of the requests that state the figure", "dim")
    if listed:
        yield Text()
        yield _row("request", "tokens", COLUMNS, "dim")
    for request in listed:
        shown = [figures.duration(ns) for ns in _times(request)]
        yield _row(request.request_id or request.span_id, _tokens(request), shown)


def _times(request: ServerRequest) -> tuple[Ns | None, ...]:
    return (
        request.queue_ns,
        request.frontend_ns,
        request.prefill_ns,
        request.decode_ns,
        request.first_token_ns,
        request.e2e_ns,
    )


def _median(values: Iterable[Ns | None]) -> Ns | None:
    known = [value for value in values if value is not None]
    return round(median(known)) if known else None


def _tokens(request: ServerRequest) -> str:
    counts = (request.input_tokens, request.output_tokens)
    return "+".join(figures.UNKNOWN if count is None else str(count) for count in counts)


def _row(name: str, count: str, cells: Sequence[str], style: str = "") -> Text:
    line = f"{name[:28]:<28}  {count:>9}" + "".join(f"{cell:>{WIDTH}}" for cell in cells)
    return Text(line, style)
