"""The server's own figures, made to fit the client's clock or demoted by it.

A server states durations on a clock we cannot see. They are believed while they fit into the time
the client measured; a sum that does not is no evidence of anything but a misunderstanding.
"""

from dataclasses import dataclass, replace

from latscope.protocols.events import Reported
from latscope.timeline import Timeline
from latscope.units import MS, Ns

TOLERANCE: Ns = 2 * MS
"""Reported times may exceed the client's interval by this much and still be believed: rounding in
the server, and stamps taken on either side of a scheduling point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the server says of one call, by the part it covers; null where it does not say."""

    queue_ns: Ns | None = None
    prefill_ns: Ns | None = None
    decode_ns: Ns | None = None
    source: str = ""

    @property
    def known(self) -> bool:
        return (self.queue_ns, self.prefill_ns, self.decode_ns) != (None, None, None)

    @property
    def before_ns(self) -> Ns:
        """What happened before the first token existed."""
        return (self.queue_ns or 0) + (self.prefill_ns or 0)

    @property
    def total_ns(self) -> Ns:
        return self.before_ns + (self.decode_ns or 0)


NONE = Figures()

FIELDS = {"queue.engine": "queue_ns", "prefill": "prefill_ns", "decode": "decode_ns"}


def figures_of(timeline: Timeline) -> tuple[Figures, tuple[Reported, ...]]:
    """The figures that fit, and those demoted because they contradict the client's clock."""
    stated: dict[str, Reported] = {}
    for figure in timeline.reported:
        if figure.covers in FIELDS:
            stated.setdefault(figure.covers, figure)
    if not stated:
        return NONE, ()
    figures = Figures(
        queue_ns=_ns(stated, "queue.engine"),
        prefill_ns=_ns(stated, "prefill"),
        decode_ns=_ns(stated, "decode"),
        source=next(iter(stated.values())).source,
    )
    if timeline.answer.ready_ns is None:
        return NONE, tuple(stated.values())
    ready = timeline.answer.phases[-1].start_ns
    first = timeline.first_token_ns
    room = timeline.wall_ns - ready
    early = room if first is None else first - ready
    if figures.total_ns > room + TOLERANCE or figures.before_ns > early + TOLERANCE:
        return NONE, tuple(stated.values())
    return _trim(figures, room, early), ()


def _ns(stated: dict[str, Reported], covers: str) -> Ns | None:
    return stated[covers].ns if covers in stated else None


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
    if prefill is not None:
        cut = min(over, prefill)
        prefill, over = prefill - cut, over - cut
    if queue is not None:
        queue = max(0, queue - over)
    return replace(figures, prefill_ns=prefill, queue_ns=queue)
