"""The stretch in which the server had the request, and what is known of it as a whole."""

from dataclasses import dataclass

from latscope.attribution.figures import Figures
from latscope.attribution.model import OWNERS, Mode, Piece, Segment
from latscope.attribution.pace import Pace
from latscope.attribution.splits import would_split
from latscope.attribution.stalls import Found
from latscope.timeline import Timeline
from latscope.units import MS, Ns, clamp

LATE = "the reader came late for bytes"

GAP = "a gap in the stream"
DELIVERED = "delivery of the last token"

UNPACED: Ns = 100 * MS
"""What delivery is granted where no tokens came whose pace could show a busy machine's lateness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a partition is made from: the call, its server's figures, whose servers they are, the
    pace of its tokens, and its stalls."""

    timeline: Timeline
    figures: Figures
    mode: Mode
    pace: Pace
    stalls: tuple[Found, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Basis):
    """The stretch to cut. to_first: the window ends with the first token (the split of TTFT), not
    with the call: what then hides behind decode counts only there."""

    start: Ns
    end: Ns
    to_first: bool

    @property
    def first(self) -> Ns:
        """The first token, or the window's end when there was none."""
        first = self.timeline.first_token_ns
        return self.end if first is None else clamp(first, self.start, self.end)


def window(basis: Basis, end: Ns, *, to_first: bool) -> Window:
    start = basis.timeline.answer.phases[-1].start_ns  # where the way there ended
    return Window(
        timeline=basis.timeline,
        figures=basis.figures,
        mode=basis.mode,
        pace=basis.pace,
        stalls=basis.stalls,
        start=min(start, end),
        end=end,
        to_first=to_first,
    )


EMPTY = Piece(ns=0, candidates=OWNERS, provenance="bound")
"""Stands for every stretch of no length, of which a call has many: all are dropped in the end."""


def unsplit(w: Window, ns: Ns, candidates: set[str], *evidence: str, at: Ns | None = None) -> Piece:
    """A piece with its candidates in the order a call passes them, and what would split it."""
    if ns <= 0:
        return EMPTY
    ordered: tuple[Segment, ...] = tuple([name for name in OWNERS if name in candidates])
    several = len(ordered) > 1
    return Piece(
        ns=ns,
        candidates=ordered,
        provenance="bound" if several else "measured",
        evidence=evidence,
        at_ns=at,
        would_split=would_split(w.timeline, w.mode, ordered) if several else (),
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
    if ns <= 0:
        return EMPTY
    return Piece(
        ns=ns,
        candidates=(segment,),
        part=part,
        provenance="reported" if reported else "measured",
        evidence=(evidence,),
        at_ns=at,
    )


def transit_of(w: Window, room: Ns) -> Ns:
    """One round trip a call, as far as the kernel's samples to the first hop make it sure; half
    of it for a call that was broken off before any of its answer came."""
    t, sure = w.timeline, w.timeline.path.sure_ns
    answered = t.first_token is not None or t.verdict == "complete"
    return clamp(sure if answered else sure // 2, 0, max(room, 0))


def transit_piece(ns: Ns) -> list[Piece]:
    return [own("network", "transit", ns, "kernel round trip to the first hop")]


def held_in(w: Window, start: Ns, end: Ns) -> Ns:
    """How long the consumer kept the stream waiting within [start, end]."""
    holds = w.timeline.holds
    return sum([max(0, min(hold.end_ns, end) - max(hold.start_ns, start)) for hold in holds])


def drop_empty(pieces: list[Piece]) -> list[Piece]:
    return [piece for piece in pieces if piece.ns > 0]


def ended_unread(w: Window) -> bool:
    """No read brought the end (it was an EOF, an error, the caller's stop): nothing says how long
    the caller let it wait."""
    last = w.timeline.last_byte_ns
    return last is None or last < w.timeline.wall_ns


def hop_free(w: Window) -> bool:
    """Nothing on the way collects bytes: the path says so, and so does the pace of its tokens, if
    any came."""
    return w.timeline.path.direct and (w.pace.paced or not w.timeline.arrivals)


def may_hide_decode(w: Window) -> bool:
    """Whether tokens may have been produced before the first one that was shown: only a count that
    finds them all among the arrivals rules it out. A stated `reasoning_tokens: 0` does not; vLLM
    0.32 states it for streamed reasoning, and tool parsers swallow tokens too."""
    hidden = hidden_tokens(w)
    if hidden == 0:  # only what something on the way collected was decoded before it was read
        several = len(w.timeline.arrivals) > 1
        return several and not w.to_first and not w.pace.paced
    if hidden is None or not w.pace.paced:
        return True
    return hidden > (1 if "stop" in w.timeline.finish.values() else 0)


def hidden_tokens(w: Window) -> int | None:
    """Tokens the server counted and did not show, an end-of-text token among them; null when it
    gives no count."""
    output = w.timeline.usage.output_tokens
    if output is None or w.timeline.verdict != "complete":  # a message states 1 at its start
        return None
    return max(0, output - w.timeline.shown_tokens)
