"""The time the server had the request: from the last request byte to the window's end.

Two ways to cut it. Where the server states its own figures they fill the parts they cover and the
rest is between the front end and the network. Where it is silent, only the stream's own pace
speaks: tokens that come one step at a time are decode; the silence before them is not split.
"""

from latscope.attribution.model import Piece
from latscope.attribution.silent import after_first, before
from latscope.attribution.stated import reported_pieces
from latscope.attribution.window import (
    LATE,
    Window,
    drop_empty,
    held_in,
    own,
    unsplit,
)
from latscope.timeline.exchanges import RATE_LIMITED, refused
from latscope.units import clamp


def server_pieces(w: Window) -> list[Piece]:
    """The window as consecutive pieces; they add up to it exactly."""
    failure, status = w.timeline.failure, w.timeline.answer.status
    if failure is not None and failure.phase == "headers" and status is not None:
        return _refused(w, status)
    if w.figures.known and w.timeline.verdict == "complete":
        return reported_pieces(w)
    return before(w) + ([] if w.to_first else after_first(w))


def _refused(w: Window, status: int) -> list[Piece]:
    """An error status. A server that asks to be left alone, or that failed, owns the attempt by
    definition, its way back included (design: Retries); any other refusal is its front end's word
    and the way there and back, and nothing says how much of which."""
    ns, evidence = w.end - w.start, f"status {status}"
    late = clamp(held_in(w, w.start, w.end), 0, ns)
    if refused(status):
        part = "rate_limit" if status in RATE_LIMITED else "failed_attempt"
        rest = own("queue", part, ns - late, evidence, at=w.start)
        return drop_empty([rest, unsplit(w, late, {"queue", "client"}, LATE)])
    who = {"queue", "network"} | ({"client"} if w.timeline.answer.unseen else set())
    rest = unsplit(w, ns - late, who, evidence, at=w.start)
    return drop_empty([rest, unsplit(w, late, {"queue", "network", "client"}, LATE)])
