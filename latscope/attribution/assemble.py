"""The attribution's record: what was found of a call, in the contract's words."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from latscope.attribution.lead import Known
from latscope.attribution.model import (
    OWNERS,
    AttemptShare,
    Attribution,
    ConnectionInfo,
    ErrorInfo,
    Instrument,
    Piece,
    ReportedFigure,
    Segment,
    ServiceTier,
    Stall,
)
from latscope.attribution.observe import endpoint_of
from latscope.attribution.owners import provider_of
from latscope.attribution.quanta import Quantum
from latscope.attribution.request import rate_limit, request_shape
from latscope.attribution.shares import dominant, segment_shares, unsplit_pieces
from latscope.attribution.speed import itl, tokens_per_chunk, tpot
from latscope.attribution.window import Basis
from latscope.recording import Recording
from latscope.timeline import Timeline

REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "cf-ray")
OUTPUT_CAPS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All that was found of one call: what its partitions were made from, the two of them, and
    what a profile tells of it."""

    basis: Basis
    pieces: tuple[Piece, ...]
    to_first: tuple[Piece, ...] | None
    known: Known
    quantum: Quantum | None
    flags: tuple[str, ...]


def assemble(call: Recording, found: Found) -> Attribution:
    """One keyword a line of `latscope.attribution/1`."""
    basis, pieces, to_first = found.basis, found.pieces, found.to_first
    t, mode, steps = basis.timeline, basis.mode, basis.pace
    winner, able = _winner(pieces, found.known)
    first_winner = None if to_first is None else _winner(to_first, found.known)[0]
    request = call.request or {}
    headers = dict(call.attempts[-1].headers) if call.attempts else {}
    connection = call.attempts[-1].connection if call.attempts else None
    return Attribution(
        call_id=call.call_id,
        started_at=call.started_at,
        provider=provider_of(call.target.host, t.fingerprint, t.path.server),
        api=t.api,
        model=t.model or _text(request.get("model")),
        endpoint=endpoint_of(call),
        mode=mode,
        streamed=t.streamed,
        status=t.verdict,
        http_status=t.answer.status,
        error=ErrorInfo(type=t.failure.type, phase=t.failure.phase) if t.failure else None,
        request_id=next((headers[name] for name in REQUEST_IDS if name in headers), None),
        trace_id=call.trace.trace_id if call.trace else None,
        session_id=call.session,
        tags=call.tags,
        finish_reason=_finish(t),
        service_tier=ServiceTier(
            requested=_text(request.get("service_tier")), served=t.service_tier
        ),
        attempts=_attempts(t),
        connection=ConnectionInfo(
            reused=connection.reused if connection else None,
            http=connection.http if connection else None,
            peer=t.path.peer,
        ),
        in_flight=call.in_flight,
        wall_ns=t.wall_ns,
        sent_ns=t.answer.sent_ns,
        headers_ns=t.answer.headers_ns,
        first_byte_ns=t.first_byte_ns,
        first_token_ns=t.first_token_ns,
        first_visible_token_ns=t.first_visible_token_ns,
        itl=itl(t, steps),
        tpot_ns=tpot(t, steps),
        tokens_per_chunk=tokens_per_chunk(t),
        input_tokens=t.usage.input_tokens,
        cached_tokens=t.usage.cached_tokens,
        cache_write_tokens=t.usage.cache_write_tokens,
        output_tokens=t.usage.output_tokens,
        reasoning_tokens=t.usage.reasoning_tokens,
        max_output_tokens=next(
            (request[name] for name in OUTPUT_CAPS if isinstance(request.get(name), int)), None
        ),
        segments=segment_shares(pieces, to_first, mode),
        unsplit=unsplit_pieces(pieces),
        load_excess=found.known.excess,
        dominant=winner,
        dominant_candidates=able,
        dominant_ttft=first_winner,
        stalls=tuple(
            Stall(at_ns=s.at_ns, ns=s.ns, cause=s.cause, confidence=s.confidence)
            for s in basis.stalls
        ),
        reported=tuple(
            ReportedFigure(source=f.source, field=f.field, covers=f.covers, ns=f.ns)
            for f in t.reported
        ),
        instrument=Instrument(
            clock=call.clock.name if call.clock else "unknown", bound_ns=t.stamp_bound_ns
        ),
        profile=found.known.source,
        flags=found.flags + (("hidden_reasoning",) if t.hidden_reasoning else ()),
        truth=call.truth,
        sample=call.sample,
        turn=call.turn,
        response_id=t.response_id,
        previous_response_id=call.previous_response_id,
        server=t.path.server,
        hops=t.path.hops,
        request=request_shape(call, t.api),
        rate_limit=rate_limit(call),
        quantum=found.quantum,
        pieces=pieces,
        ttft_pieces=to_first,
    )


CLEAR = 0.15
"""By this share of itself an estimated winner must lead to be named where the 90 % intervals of the
estimates overlap. Fixed before the calls it is scored on were drawn (docs/accuracy.md)."""


def _winner(pieces: Sequence[Piece], known: Known) -> tuple[Segment | None, tuple[Segment, ...]]:
    """The segment that dominates, and all that could. Where only the estimates' own intervals leave
    it open, the one that leads by a clear margin; of queue and prefill the one the profile leans
    to. No unsplit piece may be able to change it."""
    winner, able = dominant(pieces)
    if winner is not None or known.lead is None:
        return winner, able
    taken = [_as_given(piece) for piece in pieces]
    leader = dominant(taken)[0]
    if leader is not None and _lead_of(leader, taken) >= CLEAR:
        return leader, able
    return (known.leader if set(able) == {"queue", "prefill"} else None), able


def _as_given(piece: Piece) -> Piece:
    if piece.given is None:
        return piece
    return replace(piece, candidates=(piece.given,), given=None)


def _lead_of(leader: Segment, pieces: Sequence[Piece]) -> float:
    """How far it is ahead of the next one, as a share of itself."""
    sums = {name: sum(p.ns for p in pieces if p.owner == name) for name in OWNERS}
    own = sums.pop(leader)
    return (own - max(sums.values())) / own if own else 0.0


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _finish(t: Timeline) -> str | None:
    """The choices' finish reasons, each once."""
    return ",".join(dict.fromkeys(reason for _, reason in sorted(t.finish.items()))) or None


def _attempts(t: Timeline) -> tuple[AttemptShare, ...]:
    starts = [exchange.start_ns for exchange in t.exchanges[1:]] + [t.answer.end_ns]
    return tuple(
        AttemptShare(
            status=exchange.status,
            ns=exchange.end_ns - exchange.start_ns,
            backoff_ns=start - exchange.end_ns,
        )
        for exchange, start in zip(t.exchanges, starts, strict=True)
    )
