"""The time the server had the request: from the last request byte to the window's end.

Two ways to cut it. Where the server states its own figures they fill the parts they cover and the
rest is between the front end and the network. Where it is silent, only the stream's own pace
speaks: tokens that come one step at a time are decode; the silence before them is not split.
"""

from dataclasses import dataclass

from latscope.attribution.figures import Figures
from latscope.attribution.model import OWNERS, Mode, Piece, Segment
from latscope.attribution.pace import DELIVERY, Pace
from latscope.attribution.splits import would_split
from latscope.timeline import Timeline
from latscope.timeline.exchanges import RATE_LIMITED, refused
from latscope.units import MS, Ns, clamp

LATE = "the reader came late for bytes"

UNPACED: Ns = 100 * MS
"""What delivery is granted where no tokens came whose pace could show a busy machine's lateness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The stretch to cut. to_first: the window ends with the first token (the split of TTFT), not
    with the call: what then hides behind decode counts only there."""

    timeline: Timeline
    figures: Figures
    mode: Mode
    pace: Pace
    start: Ns
    end: Ns
    to_first: bool

    @property
    def first(self) -> Ns:
        """The first token, or the window's end when there was none."""
        first = self.timeline.first_token_ns
        return self.end if first is None else clamp(first, self.start, self.end)


def window(
    timeline: Timeline, figures: Figures, mode: Mode, pace: Pace, end: Ns, *, to_first: bool
) -> Window:
    start = timeline.answer.phases[-1].start_ns  # where the way there ended, to the nanosecond
    return Window(
        timeline=timeline,
        figures=figures,
        mode=mode,
        pace=pace,
        start=min(start, end),
        end=end,
        to_first=to_first,
    )


def server_pieces(w: Window) -> list[Piece]:
    """The window as consecutive pieces; they add up to it exactly."""
    failure, status = w.timeline.failure, w.timeline.answer.status
    if failure is not None and failure.phase == "headers" and status is not None:
        return _refused(w, status)
    if w.figures.known and w.timeline.verdict == "complete":
        return _reported(w)
    return _before(w) + ([] if w.to_first else _after(w))


def unsplit(w: Window, ns: Ns, candidates: set[str], evidence: str, at: Ns | None = None) -> Piece:
    """A piece with its candidates in the order a call passes them, and what would split it."""
    ordered: tuple[Segment, ...] = tuple(name for name in OWNERS if name in candidates)
    splits = would_split(w.timeline, w.mode, ordered) if len(ordered) > 1 else ()
    return Piece(
        ns=ns,
        candidates=ordered,
        provenance="bound",
        evidence=(evidence,),
        at_ns=at,
        would_split=splits,
    )


def own(
    segment: Segment,
    part: str,
    ns: Ns,
    evidence: str,
    *,
    reported: bool = False,
    at: Ns | None = None,
) -> Piece:
    return Piece(
        ns=ns,
        candidates=(segment,),
        part=part,
        provenance="reported" if reported else "measured",
        evidence=(evidence,),
        at_ns=at,
    )


def _refused(w: Window, status: int) -> list[Piece]:
    """An error status. A server that asks to be left alone, or that failed, owns the attempt by
    definition, its way back included (design: Retries); any other refusal is its front end's word
    and the way there and back, and nothing says how much of which."""
    ns, evidence = w.end - w.start, f"status {status}"
    late = clamp(_held(w, w.start, w.end), 0, ns)
    if refused(status):
        part = "rate_limit" if status in RATE_LIMITED else "failed_attempt"
        rest = own("queue", part, ns - late, evidence, at=w.start)
        return _drop_empty([rest, unsplit(w, late, {"queue", "client"}, LATE)])
    rest = unsplit(w, ns - late, {"queue", "network"}, evidence, w.start)
    return _drop_empty([rest, unsplit(w, late, {"queue", "network", "client"}, LATE)])


# -- the server reports ---------------------------------------------------------------------------


def _reported(w: Window) -> list[Piece]:
    """Figures fill their parts. What is left before the first token is front end or network; what
    is left after the last one is network, for its tokens existed. On the way to the *end* a first
    token that reached us late cost nothing, decode went on behind it; on the way to the first
    token that lateness is a hold."""
    f = w.figures
    lead = w.first - w.start - f.before_ns
    overlap, tail = 0, 0
    if f.decode_ns is not None and w.timeline.first_token is not None:
        after = w.timeline.wall_ns - w.first - f.decode_ns
        overlap, tail = clamp(-after, 0, max(lead, 0)), max(after, 0)
    elif f.decode_ns is not None:  # not streamed: one window, no first token to lie before
        lead -= f.decode_ns
    hidden = _hidden_room(w, lead - overlap) if w.to_first and f.decode_ns else 0
    pieces = _lead(w, lead - overlap - hidden)
    late = {"client"} if _late(w) else set()
    pieces.append(
        unsplit(w, hidden, {"queue", "decode", "network"} | late, "decode before the first token")
    )
    pieces += _parts(w)
    if w.to_first:
        return _drop_empty([*pieces, *_overlap(w, overlap)])
    if f.decode_ns is None and w.timeline.first_token is not None:
        return _drop_empty(pieces + _after(w))
    if f.decode_ns is not None:
        pieces.append(own("decode", "", f.decode_ns, f.source, reported=True))
    return _drop_empty([*pieces, *_tail(w, tail)])


def _hidden_decode(w: Window) -> Ns:
    """How much of the decode the tokens never shown can have taken: three ordinary steps each, all
    of it where most are hidden or nobody counted."""
    decode, hidden = w.figures.decode_ns or 0, _hidden_tokens(w)
    if hidden is None:
        return decode
    steps = max(1, (w.timeline.usage.output_tokens or 0) - 1)
    return min(decode, 3 * hidden * decode // steps)


def _hidden_room(w: Window, room: Ns) -> Ns:
    """How much decode may lie before the first token we read besides what overlaps: none when all
    tokens were shown; else what they took, and as much as the last token existed before we read
    it, for then decode began that much earlier, too."""
    if _hidden_tokens(w) == 0:
        return 0
    last = w.timeline.last_token_ns or w.first
    early = w.timeline.wall_ns - last + w.pace.slack_ns
    return clamp(min(w.figures.decode_ns or 0, _hidden_decode(w) + early), 0, max(room, 0))


def _overlap(w: Window, ns: Ns) -> list[Piece]:
    """Decode that lies before the first token we read: a hold of it, as far as usage says that all
    its tokens were shown; tokens never shown were decoded there (hidden reasoning)."""
    late = clamp(_held(w, w.start, w.first), 0, ns)
    share = min(ns - late, _hidden_decode(w))
    who = {"network", "client"} if _hidden_tokens(w) == 0 else {"decode", "network", "client"}
    return [
        unsplit(w, late, who, LATE),
        own("network", "hold", ns - late - share, "first token held back"),
        unsplit(w, share, {"decode", "network"}, "decode before the first token shown"),
    ]


def _parts(w: Window) -> list[Piece]:
    f = w.figures
    return [
        own("queue", "engine", f.queue_ns or 0, f.source, reported=True),
        own("prefill", "", f.prefill_ns or 0, f.source, reported=True),
    ]


def _lead(w: Window, ns: Ns) -> list[Piece]:
    """What the server's figures leave of the time before the first token."""
    candidates = {"queue", "network"}
    if w.figures.prefill_ns is None:
        candidates.add("prefill")
    if w.figures.decode_ns is None and _may_hide_decode(w):
        candidates.add("decode")
    transit = _transit(w, ns)
    held = clamp(_late(w), 0, ns - transit)
    rest = ns - transit - held
    late = 0
    if w.figures.decode_ns is None and w.timeline.first_token is not None and not w.to_first:
        late = min(w.pace.early_ns, rest)
    return [
        *_transit_piece(transit),
        unsplit(w, held, candidates | {"client"}, LATE),
        unsplit(w, rest - late, candidates, "beyond the server's own figures"),
        unsplit(w, late, candidates | {"decode"}, "delivery of the first token"),
    ]


def _late(w: Window) -> Ns:
    """How much of what the figures leave may be the reader's lateness. What is left is one sum over
    the whole call: lateness for the end may stand in it for time before the first token."""
    wall = w.timeline.wall_ns
    unread = wall - (w.timeline.last_byte_ns or 0) if _ended_unread(w) else 0
    return _held(w, w.start, wall) + unread


def _tail(w: Window, ns: Ns) -> list[Piece]:
    held = clamp(_held(w, w.first, w.end), 0, ns)
    part = "hold" if ns - held > DELIVERY else "transit"
    return [
        unsplit(w, held, {"network", "client"}, LATE),
        unsplit(w, ns - held, {"network", "client"}, "after the server's last token")
        if _ended_unread(w)
        else own("network", part, ns - held, "after the server's last token"),
    ]


# -- the server is silent -------------------------------------------------------------------------


def _before(w: Window) -> list[Piece]:
    """The silence up to the first token (or to the end, when there was none)."""
    ns = w.first - w.start
    transit = _transit(w, ns)
    held = clamp(_held(w, w.start, w.first), 0, ns - transit)
    silence = ns - transit - held
    base, wide = _silence_candidates(w)
    unsure = max(0, (w.timeline.path.rtt_ns or 0) - transit)  # the rest of the round trip
    early = w.pace.early_ns if w.timeline.arrivals else UNPACED
    early = clamp(early + unsure, 0, silence)
    return _drop_empty(
        [
            *_transit_piece(transit),
            unsplit(w, silence - early, base, _silence_evidence(w), w.start),
            unsplit(w, early, wide, "delivery of the first token"),
            unsplit(w, held, wide | {"client"}, LATE),
        ]
    )


def _silence_candidates(w: Window) -> tuple[set[str], set[str]]:
    """Candidates of the silence, and of its last stretch, in which the first token may already
    have existed: on the way to the end that stretch may have been decode, on the way to the first
    token it was network."""
    t = w.timeline
    base = {"queue", "prefill"}
    if t.first_token is None or _may_hide_decode(w):
        base.add("decode")
    if not w.to_first and w.pace.gaps and not _hop_free(w):
        base.add("decode")  # behind a pause, tokens cannot show how long the first was kept
    broke = t.first_token is None and t.verdict in ("cut", "error")
    if not _hop_free(w) or broke or t.answer.sent_ns is None:
        base.add("network")
    wide = base | {"network"}
    if not w.to_first or _hidden_tokens(w) != 0:
        wide.add("decode")
    if t.first_token is None and _ended_unread(w):
        wide.add("client")
    return base, wide


def _ended_unread(w: Window) -> bool:
    """No read brought the end (it was an EOF, an error, the caller's stop): nothing says how long
    the caller let it wait."""
    last = w.timeline.last_byte_ns
    return last is None or last < w.timeline.wall_ns


def _hop_free(w: Window) -> bool:
    """Nothing on the way collects bytes: the path says so, and so does the pace of its tokens, if
    any came."""
    return w.timeline.path.direct and (w.pace.paced or not w.timeline.arrivals)


def _may_hide_decode(w: Window) -> bool:
    """Whether tokens may have been produced before the first one that was shown: only a count that
    finds them all among the arrivals rules it out. A stated `reasoning_tokens: 0` does not; vLLM
    0.32 states it for streamed reasoning, and tool parsers swallow tokens too."""
    hidden = _hidden_tokens(w)
    if hidden == 0:  # only what something on the way collected was decoded before it was read
        several = len(w.timeline.arrivals) > 1
        return several and not w.to_first and not w.pace.paced
    if hidden is None or not w.pace.paced:
        return True
    return hidden > (1 if "stop" in w.timeline.finish.values() else 0)


def _hidden_tokens(w: Window) -> int | None:
    """Tokens the server counted and did not show, an end-of-text token among them; null when it
    gives no count."""
    output = w.timeline.usage.output_tokens
    if output is None or w.timeline.verdict != "complete":  # a message states 1 at its start
        return None
    return max(0, output - sum(arrival.tokens or 1 for arrival in w.timeline.arrivals))


def _silence_evidence(w: Window) -> str:
    said = "tokens come one step at a time" if w.pace.paced else "tokens came together"
    if w.timeline.first_token is None:
        said = "no token was seen"
    return f"{said}, no sign of a hop (a tunnel shows none)" if _hop_free(w) else said


def _after(w: Window) -> list[Piece]:
    """From the first token to the end: decode as far as the pace carries it, gaps and the end of
    the stream in between decode and network."""
    t = w.timeline
    if t.last_token_ns is None:
        return []
    last = clamp(t.last_token_ns, w.first, w.end)
    held = clamp(_held(w, w.first, last), 0, last - w.first)
    gaps = [
        (gap.start_ns, max(0, gap.excess_ns - _held(w, gap.start_ns, gap.end_ns)))
        for gap in w.pace.gaps
        if gap.start_ns < last
    ]
    stalled = clamp(sum(ns for _, ns in gaps), 0, last - w.first - held)
    reading = clamp(w.pace.reading_ns - held, 0, last - w.first - stalled - held)
    steady = last - w.first - stalled - held - reading
    loose = clamp(w.pace.slack_ns, 0, steady)
    tail = {"decode", "network"} | ({"client"} if _ended_unread(w) else set())
    pieces = [
        own("decode", "", steady - loose, "time between token arrivals", at=w.first),
        unsplit(w, loose, {"decode", "network"}, "delivery of the last token"),
        unsplit(w, held + reading, {"decode", "network", "client"}, LATE),
    ]
    left = stalled
    for at, ns in gaps:
        share = min(ns, left)
        pieces.append(unsplit(w, share, {"decode", "network"}, "a gap in the stream", at))
        left -= share
    late = clamp(_held(w, last, w.end), 0, w.end - last)
    pieces.append(unsplit(w, w.end - last - late, tail, "after the last token", last))
    pieces.append(unsplit(w, late, tail | {"client"}, LATE))
    return _drop_empty(pieces)


# -- shared ---------------------------------------------------------------------------------------


def _transit(w: Window, room: Ns) -> Ns:
    """One round trip a call, as far as the kernel's samples to the first hop make it sure; half
    of it for a call that was broken off before any of its answer came."""
    t, sure = w.timeline, w.timeline.path.sure_ns
    answered = t.first_token is not None or t.verdict == "complete"
    return clamp(sure if answered else sure // 2, 0, max(room, 0))


def _transit_piece(ns: Ns) -> list[Piece]:
    return [own("network", "transit", ns, "kernel round trip to the first hop")]


def _held(w: Window, start: Ns, end: Ns) -> Ns:
    """How long the consumer kept the stream waiting within [start, end]."""
    return sum(
        max(0, min(hold.end_ns, end) - max(hold.start_ns, start)) for hold in w.timeline.holds
    )


def _drop_empty(pieces: list[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.ns > 0]
