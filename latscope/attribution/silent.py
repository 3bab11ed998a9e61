"""The server says nothing: only the stream's own pace speaks."""

from dataclasses import replace

from latscope.attribution.model import Piece
from latscope.attribution.pace import Gap
from latscope.attribution.stages import Stages, stages
from latscope.attribution.window import (
    DELIVERED,
    GAP,
    LATE,
    UNPACED,
    Window,
    drop_empty,
    ended_unread,
    held_in,
    hidden_tokens,
    hop_free,
    may_hide_decode,
    own,
    transit_of,
    transit_piece,
    unsplit,
)
from latscope.units import Ns, clamp


def before(w: Window) -> list[Piece]:
    """The silence up to the first token (or to the end, when there was none), cut where the head or
    an event proves what the server had not begun yet, or had."""
    ns = w.first - w.start
    transit = transit_of(w, ns)
    held = clamp(held_in(w, w.start, w.first), 0, ns - transit)
    silence = ns - transit - held
    gateway = clamp(w.figures.gateway_ns or 0, 0, silence)
    silence -= gateway
    base, wide = _silence_candidates(w)
    unsure = max(0, (w.timeline.path.rtt_ns or 0) - transit)  # the rest of the round trip
    grace = (w.pace.early_ns if w.timeline.arrivals else UNPACED) + unsure
    early = clamp(grace, 0, silence)
    known = stages(w.timeline, grace, hop_free=hop_free(w))
    waited = _proved(w, w.start, known.unscheduled_ns, transit, silence - early)
    rest = silence - early - waited
    started = known.scheduled_ns
    begun = 0 if started is None else _proved(w, started, w.first - early, transit, rest)
    if started is not None and started <= w.first - early:
        wide = wide - {"queue"}
    why = (_silence_evidence(w), *known.evidence)
    return drop_empty(
        [
            *transit_piece(transit),
            own("network", "gateway", gateway, "between two hops' own times", reported=True),
            _waited(w, waited, base, known),
            unsplit(w, rest - begun, base, *why, at=w.start + waited),
            unsplit(w, begun, base - {"queue"}, *why),
            unsplit(w, early, wide, "delivery of the first token"),
            unsplit(w, held, wide | {"client"}, LATE),
        ]
    )


def _proved(w: Window, start: Ns, end: Ns | None, transit: Ns, room: Ns) -> Ns:
    """How much of [start, end] is the silence's own: transit and the reader's lateness, which may
    lie in it, taken off."""
    if end is None or end <= start:
        return 0
    return clamp(end - start - transit - held_in(w, start, end), 0, room)


def _waited(w: Window, ns: Ns, base: set[str], known: Stages) -> Piece:
    """The stretch before the request was scheduled: queue, and on a way with hops network."""
    if not known.firm:
        said = unsplit(w, ns, base, *known.evidence, at=w.start)
        return replace(said, given="queue", provenance="inferred", would_split=())
    who = base - {"prefill", "decode"}
    if who == {"queue"}:
        part = "frontend" if known.frontend else ""
        return own("queue", part, ns, known.evidence[0] if known.evidence else "", at=w.start)
    return unsplit(w, ns, who, *known.evidence, at=w.start)


def _silence_candidates(w: Window) -> tuple[set[str], set[str]]:
    """Candidates of the silence, and of its last stretch, in which the first token may already
    have existed: on the way to the end that stretch may have been decode, on the way to the first
    token it was network."""
    t = w.timeline
    base = {"queue", "prefill"}
    if t.first_token is None or may_hide_decode(w):
        base.add("decode")
    if not w.to_first and w.pace.gaps and not hop_free(w):
        base.add("decode")  # behind a pause, tokens cannot show how long the first was kept
    broke = t.first_token is None and t.verdict in ("cut", "error")
    if not hop_free(w) or broke or t.answer.sent_ns is None:
        base.add("network")
    if t.answer.unseen:
        base.add("client")  # waiting for a free connection is not told from waiting for the server
    wide = base | {"network"}
    if not w.to_first or hidden_tokens(w) != 0:
        wide.add("decode")
    if t.first_token is None and ended_unread(w):
        wide.add("client")
    return base, wide


def _silence_evidence(w: Window) -> str:
    said = "tokens come one step at a time" if w.pace.paced else "tokens came together"
    if w.timeline.first_token is None:
        said = "no token was seen"
    return f"{said}, no sign of a hop (a tunnel shows none)" if hop_free(w) else said


def after_first(w: Window) -> list[Piece]:
    """From the first token to the end: decode as far as the pace carries it, gaps and the end of
    the stream in between decode and network."""
    t = w.timeline
    if t.last_token_ns is None:
        return []
    last = clamp(t.last_token_ns, w.first, w.end)
    held = clamp(held_in(w, w.first, last), 0, last - w.first)
    gaps = [
        (gap, max(0, gap.excess_ns - held_in(w, gap.start_ns, gap.end_ns)))
        for gap in w.pace.gaps
        if gap.start_ns < last
    ]
    stalled = clamp(sum(ns for _, ns in gaps), 0, last - w.first - held)
    reading = clamp(w.pace.reading_ns - held, 0, last - w.first - stalled - held)
    steady = last - w.first - stalled - held - reading
    loose = clamp(w.pace.slack_ns, 0, steady)
    tail = {"decode", "network"} | ({"client"} if ended_unread(w) else set())
    pieces = [
        own("decode", "", steady - loose, "time between token arrivals", at=w.first),
        unsplit(w, loose, {"decode", "network"}, DELIVERED),
        unsplit(w, held + reading, {"decode", "network", "client"}, LATE),
    ]
    left = stalled
    for gap, ns in gaps:
        share = min(ns, left)
        pieces += _gap(w, gap, share)
        left -= share
    late = clamp(held_in(w, last, w.end), 0, w.end - last)
    pieces.append(unsplit(w, w.end - last - late, tail, "after the last token", at=last))
    pieces.append(unsplit(w, late, tail | {"client"}, LATE))
    return drop_empty(pieces)


def _gap(w: Window, gap: Gap, ns: Ns) -> list[Piece]:
    """A gap in the stream. Where its cause is known it counts for whom that names as far as the
    tokens behind it stayed late; those that caught up had been decoded meanwhile."""
    whole = unsplit(w, ns, {"decode", "network"}, GAP, at=gap.start_ns)
    for found in w.stalls:
        owner = found.segment
        if found.at_ns >= gap.end_ns or found.end_ns <= gap.start_ns:
            continue
        if owner not in whole.candidates:
            return [replace(whole, would_split=tuple(filter(None, (found.would_split,))))]
        cost = min(found.cost_ns, ns) if owner != "decode" else ns
        why = (f"{GAP}: {found.cause}",)
        mine = replace(whole, ns=cost, given=owner, part=found.part, evidence=why)
        rest = replace(whole, ns=ns - cost, given="decode", evidence=why)
        return [_trusted(mine, found.confidence), _trusted(rest, found.confidence)]
    return [whole]


SURE = 0.9
"""From this confidence on a cause narrows the 90 % interval, too."""


def _trusted(piece: Piece, confidence: float) -> Piece:
    low = piece.ns if confidence >= SURE else 0
    return replace(piece, low_ns=low, provenance="inferred", would_split=())
