"""`attribute`: a recording to its Attribution. Pure: the same recording, the same answer."""

from itertools import pairwise
from statistics import quantiles

from latscope.attribution.figures import figures_of
from latscope.attribution.model import (
    AttemptShare,
    Attribution,
    ConnectionInfo,
    ErrorInfo,
    Instrument,
    Itl,
    Mode,
    Piece,
    ReportedFigure,
    ServiceTier,
    Stall,
)
from latscope.attribution.owners import mode_of, provider_of
from latscope.attribution.pace import bursts, pace
from latscope.attribution.partition import partition
from latscope.attribution.shares import dominant, segment_shares, unsplit_pieces
from latscope.recording import Recording
from latscope.timeline import Timeline, build
from latscope.units import Ns

REQUEST_IDS = ("x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "cf-ray")
OUTPUT_CAPS = ("max_completion_tokens", "max_output_tokens", "max_tokens")


def attribute(call: Recording, *, mode: Mode | None = None) -> Attribution:
    """Where the call's time went, and how sure that is.

    call: a recording with decoded bodies (as read from a file or handed out by a sink); masked or
    not makes no difference. mode: vendor, self-hosted or on-device, when the host does not tell.
    The pieces are a partition of the wall time, `ttft_pieces` one of the time to first token.
    """
    timeline = build(call)
    mode = mode or mode_of(call.target.host, timeline.path.server)
    figures, demoted = figures_of(timeline)
    pieces = partition(timeline, figures, mode, timeline.wall_ns, to_first=False)
    first = timeline.first_token_ns
    to_first: tuple[Piece, ...] | None = None
    if first is not None:
        to_first = partition(timeline, figures, mode, first, to_first=True)
    flags = timeline.flags + (("reported_contradicts_clock",) if demoted else ())
    return _assemble(call, timeline, mode, pieces, to_first, flags)


def _assemble(
    call: Recording,
    t: Timeline,
    mode: Mode,
    pieces: tuple[Piece, ...],
    to_first: tuple[Piece, ...] | None,
    flags: tuple[str, ...],
) -> Attribution:
    winner, able = dominant(pieces)
    request = call.request or {}
    headers = dict(call.attempts[-1].headers) if call.attempts else {}
    connection = call.attempts[-1].connection if call.attempts else None
    return Attribution(
        call_id=call.call_id,
        started_at=call.started_at,
        provider=provider_of(call.target.host, t.fingerprint, t.path.server),
        api=t.api,
        model=t.model or _text(request.get("model")),
        endpoint=_endpoint(call),
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
        itl=_itl(t),
        tpot_ns=_tpot(t),
        tokens_per_chunk=_tokens_per_chunk(t),
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
        load_excess=None,
        dominant=winner,
        dominant_candidates=able,
        stalls=_stalls(t),
        reported=tuple(
            ReportedFigure(source=f.source, field=f.field, covers=f.covers, ns=f.ns)
            for f in t.reported
        ),
        instrument=Instrument(
            clock=call.clock.name if call.clock else "unknown", bound_ns=t.stamp_bound_ns
        ),
        flags=flags + (("hidden_reasoning",) if t.hidden_reasoning else ()),
        truth=call.truth,
        sample=call.sample,
        turn=call.turn,
        pieces=pieces,
        ttft_pieces=to_first,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _endpoint(call: Recording) -> str:
    target = call.target
    return f"{target.scheme}://{target.host}:{target.port}{target.path}"


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


def _stepwise(t: Timeline) -> bool:
    """Every token-bearing arrival carried exactly one token."""
    counted = [arrival.tokens for arrival in t.arrivals]
    if counted and all(tokens == 1 for tokens in counted):
        return True
    return t.usage.output_tokens is not None and t.usage.output_tokens == len(counted)


def _itl(t: Timeline) -> Itl | None:
    """Null when everything came together: then no gap between tokens was ever seen."""
    if len(bursts(t.arrivals)) < 2:
        return None
    stamps = [arrival.at.latest for arrival in t.arrivals]
    gaps: list[Ns] = sorted(after - at for at, after in pairwise(stamps))
    cuts = quantiles(gaps, n=20, method="inclusive") if len(gaps) > 1 else [gaps[0]] * 19
    return Itl(
        p50_ns=round(cuts[9]),
        p95_ns=round(cuts[18]),
        max_ns=gaps[-1],
        n=len(gaps),
        unit="token" if _stepwise(t) else "chunk",
    )


def _shown_tokens(t: Timeline) -> int | None:
    """Tokens the stream carried, by the server's own count; null when it gives none."""
    output = t.usage.output_tokens
    if output is None:
        return None
    return output - (t.usage.reasoning_tokens or 0) if t.hidden_reasoning else output


def _tpot(t: Timeline) -> Ns | None:
    """(last token - first token) / (tokens after the first), one choice at a time only."""
    shown = _shown_tokens(t)
    if shown is None or shown < 2 or t.first_token_ns is None or t.last_token_ns is None:
        return None
    if len({arrival.choice for arrival in t.arrivals}) > 1 or len(bursts(t.arrivals)) < 2:
        return None
    first = t.arrivals[0].tokens or 1
    return round((t.last_token_ns - t.first_token_ns) / max(1, shown - first))


def _tokens_per_chunk(t: Timeline) -> float | None:
    shown = _shown_tokens(t)
    if shown is None or not t.arrivals:
        return None
    return round(shown / len(t.arrivals), 3)


def _stalls(t: Timeline) -> tuple[Stall, ...]:
    """Silences that stand out from the stream's own step. Nothing here tells decode from a hold."""
    return tuple(
        Stall(at_ns=gap.start_ns, ns=gap.excess_ns, cause="unsplit", confidence=0.0)
        for gap in pace(t.arrivals).gaps
    )
