"""The server's own figures, made to fit the client's clock or demoted by it.

A server states durations on a clock we cannot see. They are believed while they fit into the time
the client measured; a sum that does not is no evidence of anything but a misunderstanding.
"""

from dataclasses import dataclass, replace

from latscope.attribution.model import Segment
from latscope.protocols.events import Covers, Reported
from latscope.timeline import Timeline
from latscope.units import MS, Ns

TOLERANCE: Ns = 2 * MS
"""Reported times may exceed the client's interval by this much and still be believed: rounding in
the server, and stamps taken on either side of a scheduling point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the server says of one call, by the part it covers; null where it does not say.

    frontend_ns: its own HTTP, templating and tokenising; gateway_ns: what hops in front of it
    worked. joint_ns: the sum of `joint`, several parts it states as one and says no more of.
    """

    queue_ns: Ns | None = None
    prefill_ns: Ns | None = None
    decode_ns: Ns | None = None
    frontend_ns: Ns | None = None
    gateway_ns: Ns | None = None
    joint: tuple[Segment, ...] = ()
    joint_ns: Ns = 0
    source: str = ""

    @property
    def known(self) -> bool:
        single = (self.queue_ns, self.prefill_ns, self.decode_ns)
        return single != (None, None, None) or bool(self.joint)

    @property
    def before_ns(self) -> Ns:
        """What happened before the first token existed."""
        joint = self.joint_ns if self.joint == BEFORE else 0
        own = (self.queue_ns or 0) + (self.prefill_ns or 0) + (self.frontend_ns or 0)
        return own + (self.gateway_ns or 0) + joint

    @property
    def total_ns(self) -> Ns:
        joint = 0 if self.joint == BEFORE else self.joint_ns
        return self.before_ns + (self.decode_ns or 0) + joint

    def tells(self, segment: Segment) -> bool:
        """Whether all of the segment's engine time is in some figure."""
        single = {"queue": self.queue_ns, "prefill": self.prefill_ns, "decode": self.decode_ns}
        return single.get(segment) is not None or segment in self.joint


NONE = Figures()

BEFORE: tuple[Segment, ...] = ("queue", "prefill")
INFERENCE: tuple[Segment, ...] = ("prefill", "decode")
SERVER: tuple[Segment, ...] = ("queue", "prefill", "decode")


def figures_of(timeline: Timeline) -> tuple[Figures, tuple[Reported, ...]]:
    """The figures that fit, and those demoted because they contradict the client's clock."""
    if not timeline.reported:  # nearly every call
        return NONE, ()
    stated: dict[Covers, Reported] = {}
    for figure in timeline.reported:
        if figure.covers not in ("headers", "stated"):
            stated.setdefault(figure.covers, figure)
    figures = _joined({covers: figure.ns for covers, figure in stated.items()})
    gateway = figures.gateway_ns or _between(timeline)
    figures = replace(
        figures, gateway_ns=gateway, source=next((f.source for f in stated.values()), "")
    )
    if not figures.known:
        return (figures, ()) if _fits(figures, timeline) else (NONE, tuple(stated.values()))
    if timeline.streamed and figures.joint in (INFERENCE, SERVER):
        figures = replace(figures, joint=(), joint_ns=0)  # where its first token lies is not said
    if not _fits(figures, timeline):
        return NONE, tuple(stated.values())
    room, early = _rooms(timeline)
    return _trim(figures, room, early), ()


def _joined(ns: dict[Covers, Ns]) -> Figures:
    """Single figures as they are; a joint one less its known parts is the one that is missing, or,
    where several are, stays joint. vLLM's span times the first token from arrival: with its queue
    and prefill known, the rest is its front end."""
    queue, prefill, decode = ns.get("queue.engine"), ns.get("prefill"), ns.get("decode")
    frontend = ns.get("queue.frontend")
    before, inference = ns.get("queue+prefill"), ns.get("prefill+decode")
    server = ns.get("queue+prefill+decode")
    if inference is not None and prefill is not None and decode is None:
        decode = max(0, inference - prefill)
    if inference is not None and decode is not None and prefill is None:
        prefill = max(0, inference - decode)
    if server is not None and before is not None and decode is None:
        decode = max(0, server - before)
    if before is not None and queue is not None and prefill is not None and frontend is None:
        frontend = max(0, before - queue - prefill)
    joint: tuple[Segment, ...] = ()
    rest = 0
    if before is not None and (queue is None or prefill is None):
        joint, rest = BEFORE, before - (queue or 0) - (prefill or 0) - (frontend or 0)
    elif inference is not None and prefill is None:
        joint, rest = INFERENCE, inference
    elif server is not None and (queue, prefill, decode) == (None, None, None):
        joint, rest = SERVER, server
    return Figures(
        queue_ns=queue,
        prefill_ns=prefill,
        decode_ns=decode,
        frontend_ns=frontend,
        gateway_ns=ns.get("network.gateway"),
        joint=joint,
        joint_ns=max(0, rest),
    )


def _between(timeline: Timeline) -> Ns | None:
    """Two hops that each time the response head from their own receipt: what the outer one says
    above the inner one passed between them. Rounding of both taken off; never a sum of them."""
    heads = [figure for figure in timeline.reported if figure.covers == "headers"]
    if len(heads) < 2:
        return None
    inner, outer = min(heads), max(heads)
    return max(0, outer.ns - inner.ns - inner.resolution_ns - outer.resolution_ns) or None


def _rooms(timeline: Timeline) -> tuple[Ns, Ns]:
    """The time the client measured for all of it, and up to the first token."""
    ready = timeline.answer.phases[-1].start_ns
    room, first = timeline.wall_ns - ready, timeline.first_token_ns
    return room, room if first is None else first - ready


def _fits(figures: Figures, timeline: Timeline) -> bool:
    answer = timeline.answer
    if answer.ready_ns is None and not (answer.unseen and answer.headers_ns is not None):
        return False  # it never got there
    room, early = _rooms(timeline)
    return figures.total_ns <= room + TOLERANCE and figures.before_ns <= early + TOLERANCE


def _trim(figures: Figures, room: Ns, early: Ns) -> Figures:
    """Within the tolerance the client's clock wins: prefill gives way first, then decode."""
    over = figures.before_ns - early
    if over > 0:
        figures = _less_before(figures, over)
    over = figures.total_ns - room
    if over > 0 and figures.decode_ns is not None:
        cut = min(over, figures.decode_ns)
        figures = replace(figures, decode_ns=figures.decode_ns - cut)
        over -= cut
    return _less_before(figures, over) if over > 0 else figures


def _less_before(figures: Figures, over: Ns) -> Figures:
    prefill, queue = figures.prefill_ns, figures.queue_ns
    for name in ("gateway_ns", "frontend_ns", "joint_ns"):
        cut = min(over, getattr(figures, name) or 0)
        if cut:
            figures = replace(figures, **{name: getattr(figures, name) - cut})
            over -= cut
    if prefill is not None:
        cut = min(over, prefill)
        prefill, over = prefill - cut, over - cut
    if queue is not None:
        queue = max(0, queue - over)
    return replace(figures, prefill_ns=prefill, queue_ns=queue)
