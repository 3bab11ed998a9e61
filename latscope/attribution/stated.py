"""The server states its own figures: they fill the parts they cover and no more."""

from latscope.attribution.figures import BEFORE
from latscope.attribution.model import Piece
from latscope.attribution.pace import DELIVERY
from latscope.attribution.silent import after_first
from latscope.attribution.window import (
    LATE,
    Window,
    drop_empty,
    ended_unread,
    held_in,
    hidden_tokens,
    may_hide_decode,
    own,
    transit_of,
    transit_piece,
    unsplit,
)
from latscope.units import Ns, clamp


def reported_pieces(w: Window) -> list[Piece]:
    """Figures fill their parts. What is left before the first token is front end or network; what
    is left after the last one is network, for its tokens existed. On the way to the *end* a first
    token that reached us late cost nothing, decode went on behind it; on the way to the first
    token that lateness is a hold."""
    f = w.figures
    lead = w.first - w.start - f.before_ns
    overlap, tail = 0, 0
    if f.decode_ns is not None and w.timeline.first_token is not None:
        since = w.timeline.wall_ns - w.first - f.decode_ns
        overlap, tail = clamp(-since, 0, max(lead, 0)), max(since, 0)
    elif f.decode_ns is not None:  # not streamed: one window, no first token to lie before
        lead -= f.decode_ns
    if f.joint not in ((), BEFORE):
        lead -= f.joint_ns
    hidden = _hidden_room(w, lead - overlap) if w.to_first and f.decode_ns else 0
    pieces = _lead(w, lead - overlap - hidden)
    late = {"client"} if _late(w) else set()
    pieces.append(
        unsplit(w, hidden, {"queue", "decode", "network"} | late, "decode before the first token")
    )
    pieces += _parts(w)
    if w.to_first:
        return drop_empty([*pieces, *_overlap(w, overlap)])
    if f.decode_ns is None and w.timeline.first_token is not None:
        return drop_empty(pieces + after_first(w))
    if f.decode_ns is not None:
        pieces.append(own("decode", "", f.decode_ns, f.source, reported=True))
    return drop_empty([*pieces, *_tail(w, tail)])


def _hidden_decode(w: Window) -> Ns:
    """How much of the decode the tokens never shown can have taken: three ordinary steps each, all
    of it where most are hidden or nobody counted."""
    decode, hidden = w.figures.decode_ns or 0, hidden_tokens(w)
    if hidden is None:
        return decode
    steps = max(1, (w.timeline.usage.output_tokens or 0) - 1)
    return min(decode, 3 * hidden * decode // steps)


def _hidden_room(w: Window, room: Ns) -> Ns:
    """How much decode may lie before the first token we read besides what overlaps: none when all
    tokens were shown; else what they took, and as much as the last token existed before we read
    it, for then decode began that much earlier, too."""
    if hidden_tokens(w) == 0:
        return 0
    last = w.timeline.last_token_ns or w.first
    early = w.timeline.wall_ns - last + w.pace.slack_ns
    return clamp(min(w.figures.decode_ns or 0, _hidden_decode(w) + early), 0, max(room, 0))


def _overlap(w: Window, ns: Ns) -> list[Piece]:
    """Decode that lies before the first token we read: a hold of it, as far as usage says that all
    its tokens were shown; tokens never shown were decoded there (hidden reasoning)."""
    late = clamp(held_in(w, w.start, w.first), 0, ns)
    share = min(ns - late, _hidden_decode(w))
    who = {"network", "client"} if hidden_tokens(w) == 0 else {"decode", "network", "client"}
    return [
        unsplit(w, late, who, LATE),
        own("network", "hold", ns - late - share, "first token held back"),
        unsplit(w, share, {"decode", "network"}, "decode before the first token shown"),
    ]


def _parts(w: Window) -> list[Piece]:
    f = w.figures
    joint = unsplit(w, f.joint_ns, set(f.joint), f"{f.source}, which states their sum")
    return [
        own("network", "gateway", f.gateway_ns or 0, "between two hops' own times", reported=True),
        own("queue", "frontend", f.frontend_ns or 0, f.source, reported=True),
        own("queue", "engine", f.queue_ns or 0, f.source, reported=True),
        own("prefill", "", f.prefill_ns or 0, f.source, reported=True),
        *([joint] if f.joint else []),
    ]


def _lead(w: Window, ns: Ns) -> list[Piece]:
    """What the server's figures leave of the time before the first token."""
    candidates = {"queue", "network"}
    if not w.figures.tells("prefill"):
        candidates.add("prefill")
    if not w.figures.tells("decode") and may_hide_decode(w):
        candidates.add("decode")
    if w.timeline.answer.unseen:
        candidates.add("client")
    transit = transit_of(w, ns)
    held = clamp(_late(w), 0, ns - transit)
    rest = ns - transit - held
    late = 0
    untold = w.figures.decode_ns is None and w.timeline.first_token is not None
    if untold and not w.to_first:
        late = min(w.pace.early_ns, rest)
    return [
        *transit_piece(transit),
        unsplit(w, held, candidates | {"client"}, LATE),
        unsplit(w, rest - late, candidates, "beyond the server's own figures"),
        unsplit(w, late, candidates | {"decode"}, "delivery of the first token"),
    ]


def _late(w: Window) -> Ns:
    """How much of what the figures leave may be the reader's lateness. What is left is one sum over
    the whole call: lateness for the end may stand in it for time before the first token."""
    wall = w.timeline.wall_ns
    unread = wall - (w.timeline.last_byte_ns or 0) if ended_unread(w) else 0
    return held_in(w, w.start, wall) + unread


def _tail(w: Window, ns: Ns) -> list[Piece]:
    held = clamp(held_in(w, w.first, w.end), 0, ns)
    part = "hold" if ns - held > DELIVERY else "transit"
    return [
        unsplit(w, held, {"network", "client"}, LATE),
        unsplit(w, ns - held, {"network", "client"}, "after the server's last token")
        if ended_unread(w)
        else own("network", part, ns - held, "after the server's last token"),
    ]
