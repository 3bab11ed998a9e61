"""The partition: a call's time, zero to its end, as consecutive pieces.

Three kinds of stretch, in the order a call passes them: attempts that failed and the waits after
them; the answered attempt's own way to the server; the time the server had the request.
"""

from latscope.attribution.model import Piece, Provenance, Segment
from latscope.attribution.server import server_pieces
from latscope.attribution.window import Basis, own, window
from latscope.timeline import Exchange
from latscope.timeline.model import Outcome, PhaseName
from latscope.units import Ns

PHASES: dict[PhaseName, tuple[Segment, str]] = {
    "pool_wait": ("client", "pool_wait"),
    "connect": ("network", "connect"),
    "tls": ("network", "tls"),
    "upload": ("network", "upload"),
}
"""Owner and part of each phase before the server has the request."""

FAILED: dict[Outcome, tuple[tuple[Segment, ...], str]] = {
    "rate_limited": (("queue",), "rate_limit"),
    "failed": (("queue",), "failed_attempt"),
    "unreachable": (("network",), "failed_attempt"),
    "timed_out": (("queue", "network"), "failed_attempt"),
    "redirect": (("network",), "redirect"),
}
"""Whose time an attempt was that gave no answer (design: Retries)."""


def partition(basis: Basis, end: Ns, *, to_first: bool) -> tuple[Piece, ...]:
    """The pieces of [0, end], in order, adding up to it exactly."""
    timeline = basis.timeline
    pieces: list[Piece] = []
    after = [exchange.start_ns for exchange in timeline.exchanges[1:]]
    for exchange, until in zip(timeline.exchanges[:-1], after, strict=True):
        pieces += _failed(exchange, until)
    answer = timeline.answer
    pieces += _way(answer, end)
    if any(phase.name == "wait" for phase in answer.phases):
        pieces += server_pieces(window(basis, end, to_first=to_first))
    return tuple(piece for piece in pieces if piece.ns > 0)


def _way(exchange: Exchange, end: Ns) -> list[Piece]:
    """The answered attempt up to the server: measured, phase by phase."""
    found = []
    for phase in exchange.phases:
        if phase.name in PHASES:
            segment, part = PHASES[phase.name]
            ns = min(phase.end_ns, end) - min(phase.start_ns, end)
            found.append(own(segment, part, ns, f"{phase.name} events", at=phase.start_ns))
    return found


def _failed(exchange: Exchange, until: Ns) -> list[Piece]:
    """An attempt without an answer, and the sleep after it: the server's own wish first, what the
    client slept beyond it (or without being asked) the client's."""
    pool = exchange.phases[0]
    segments, part = FAILED[exchange.outcome]
    if exchange.unseen and "network" in segments:
        segments = (*segments, "client")
    why = f"status {exchange.status}" if exchange.status else exchange.error_type or "no response"
    sleep = until - exchange.end_ns
    wish = sleep if exchange.outcome == "redirect" else exchange.retry_after_ns or 0
    asked = min(sleep, wish)
    return [
        own(
            "client", "pool_wait", pool.end_ns - pool.start_ns, "pool_wait events", at=pool.start_ns
        ),
        _piece(segments, part, exchange.end_ns - pool.end_ns, why, pool.end_ns),
        _piece(segments, part, asked, "the server's Retry-After", exchange.end_ns),
        _piece(
            ("client",), "retry", sleep - asked, "sleep between attempts", exchange.end_ns + asked
        ),
    ]


def _piece(candidates: tuple[Segment, ...], part: str, ns: Ns, why: str, at: Ns) -> Piece:
    provenance: Provenance = "measured" if len(candidates) == 1 else "bound"
    return Piece(
        ns=ns,
        candidates=candidates,
        part=part if len(candidates) == 1 else "",
        provenance=provenance,
        evidence=(why,),
        at_ns=at,
    )
