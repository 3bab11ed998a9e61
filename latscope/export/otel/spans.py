"""A call as spans: the inference, its HTTP attempts, and one child for each piece of its time.

Usage stands on the inference span and nowhere else, so a backend that adds up a trace counts it
once. Every child carries a GenAI key, for some backends drop spans without one, but neither
operation nor model: those make a span an inference of its own in others.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from latscope.attribution.model import Piece
from latscope.export.otel import names
from latscope.export.otel.about import aliases_of, inference, moments, summary
from latscope.export.otel.attempts import attempts
from latscope.export.otel.rows import Attributes, Kind, Role, SpanRow
from latscope.export.otel.told import (
    Told,
    add,
    error_type,
    provider,
    requested_model,
    seconds,
    server,
)
from latscope.recording import Recording, Trace
from latscope.units import US, Ns, S, wall_s


def span_rows(
    told: Told, *, aliases: bool = False, role: Role = "inference", http: bool = True
) -> tuple[SpanRow, ...]:
    """The call's spans, its own first, then attempts, then pieces in call order.

    aliases: also the names of before and those that single backends read. role: whether the call's
    own span is the inference, or another tool makes that one. http: whether attempts are among
    them; not where the HTTP library's own instrumentation makes them.
    """
    start = started(told.call)
    trace = trace_of(told.call)
    logical = trace.span_id
    own = _own(told, trace, start, aliases=aliases, role=role)
    rows = [own]

    def child(name: str, kind: Kind, at: Ns, end: Ns, attributes: Attributes) -> None:
        if aliases:
            attributes[names.OPENINFERENCE_KIND] = "CHAIN"
        rows.append(
            SpanRow(
                name=name,
                kind=kind,
                trace_id=trace.trace_id,
                span_id=_id(trace, len(rows)),
                parent_id=logical,
                start_unix_ns=start + at,
                end_unix_ns=start + end,
                attributes=attributes,
                failed=names.ERROR in attributes,
            )
        )

    if http:
        for name, at, end, attributes in attempts(told):
            child(name, "client", at, end, attributes)
    for piece, at in _kept(told.attribution.pieces):
        child(piece_name(piece), "internal", at, at + piece.ns, _piece(told, piece))
    return tuple(rows)


def span_name(told: Told) -> str:
    """Operation and model (`chat gpt-5`); of a call that is no inference what it is in HTTP."""
    if told.operation is None:
        return "HTTP"
    return f"{told.operation} {requested_model(told) or ''}".strip()


def piece_name(piece: Piece) -> str:
    """`queue.engine`; of a piece nobody can split, its candidates: `queue | prefill`."""
    if piece.owner == "unattributed":
        return " | ".join(piece.candidates)
    return f"{piece.owner}.{piece.part}" if piece.part else piece.owner


def started(call: Recording) -> int:
    """The call's zero, in ns since 1970; the recording states it to the microsecond."""
    return round(wall_s(call.started_at) * (S // US)) * US


def trace_of(call: Recording) -> Trace:
    """The recording's ids, or, of a call made outside of any trace, ids that follow from its own:
    the same call exported twice is the same span."""
    if call.trace is not None:
        return call.trace
    digest = hashlib.sha256(call.call_id.encode()).hexdigest()
    return Trace(trace_id=digest[:32], span_id=digest[32:48])


def _id(trace: Trace, number: int) -> str:
    text = f"{trace.trace_id}-{trace.span_id}-{number}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _own(told: Told, trace: Trace, start: int, *, aliases: bool, role: Role) -> SpanRow:
    mine = role == "inference"
    attributes = summary(told)
    if mine:
        attributes = {**inference(told), **attributes}
        if aliases:
            attributes |= aliases_of(told, start)
    else:
        add(attributes, names.PROVIDER, provider(told) if told.operation else None)
        attributes |= server(told.call)
        if aliases:
            attributes[names.OPENINFERENCE_KIND] = "CHAIN"
    _, left_out = _most(told.attribution.pieces)
    if left_out:
        attributes["latscope.pieces.left_out"] = left_out
    return SpanRow(
        name=span_name(told) if mine else "latscope",
        kind="client" if mine else "internal",
        trace_id=trace.trace_id,
        span_id=_id(trace, 0) if role == "within" else trace.span_id,
        parent_id=trace.span_id if role == "within" else trace.parent_id,
        start_unix_ns=start,
        end_unix_ns=start + told.timeline.wall_ns,
        attributes=attributes,
        events=moments(told, start, aliases=aliases and mine),
        failed=mine and error_type(told) is not None,
    )


# -- pieces ----------------------------------------------------------------------------------------


def _kept(pieces: Sequence[Piece]) -> list[tuple[Piece, Ns]]:
    """The pieces that become spans, each with where it begins: they follow one another."""
    return _most(pieces)[0]


def _most(pieces: Sequence[Piece]) -> tuple[list[tuple[Piece, Ns]], int]:
    placed: list[tuple[Piece, Ns]] = []
    at = 0
    for piece in _joined(pieces):
        placed.append((piece, at))
        at += piece.ns
    left_out = max(0, len(placed) - names.MOST_PIECES)
    if left_out:
        longest = sorted(placed, key=lambda item: -item[0].ns)[: names.MOST_PIECES]
        placed = sorted(longest, key=lambda item: item[1])
    return placed, left_out


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours that say the same are one stretch."""

    def said(piece: Piece) -> tuple[object, ...]:
        return piece.candidates, piece.part, piece.provenance, piece.given, piece.among

    found = []
    for _, group in groupby(pieces, said):
        first, *rest = group
        if rest:
            every = (first, *rest)
            first = replace(
                first,
                ns=sum(piece.ns for piece in every),
                low_ns=sum(piece.low_ns for piece in every),
                evidence=_union(piece.evidence for piece in every),
                would_split=_union(piece.would_split for piece in every),
            )
        found.append(first)
    return found


def _union(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for group in groups for item in group))


def _piece(told: Told, piece: Piece) -> Attributes:
    found: Attributes = {
        names.SEGMENT: piece.owner,
        names.PROVENANCE: piece.provenance,
        names.DURATION: seconds(piece.ns),
        names.BOUND_LOW: seconds(piece.ns if piece.sure else 0),
        names.BOUND_HIGH: seconds(piece.ns),
        names.PLACE: "order" if piece.at_ns is None else "measured",
    }
    if told.operation is not None:
        found[names.PROVIDER] = provider(told)
    add(found, names.PART, piece.part or None)
    if not piece.sure:
        found[names.CANDIDATES] = piece.candidates
    add(found, names.EVIDENCE, piece.evidence)
    add(found, names.WOULD_SPLIT, piece.would_split)
    return found
