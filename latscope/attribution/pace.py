"""The pace of a stream: when its tokens arrived, how evenly, and what stands out.

Reads are not arrivals: a reader that finds several chunks waiting reads them one after another
at once. Reads that returned at once therefore belong to the burst before them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from statistics import median
from typing import NamedTuple

from latscope.timeline import Arrival
from latscope.units import MS, Ns

DELIVERY: Ns = 25 * MS
"""How late a busy host may deliver or stamp bytes without any hop in between: scheduling of two
processes and an event loop. Measured hiccups on a loaded two-core machine reach 30 to 80 ms; those
show in the stream itself as lateness (tokens that catch up) and are added."""

MIN_BURSTS = 5
EVEN_SHARE = 0.8
NEAR = 20


class Burst(NamedTuple):
    """Token events that reached us together. at: when the burst's last read returned; since: when
    its first did."""

    at: Ns
    events: int
    since: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A silence between two bursts that stands out from the stream's own step."""

    start_ns: Ns
    end_ns: Ns
    excess_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """paced: tokens came one step at a time, so nothing collected them on the way. step_ns: median
    time per token event. late_first_ns, late_last_ns: how much later than the stream's own pace
    the first and the last burst were. widest_ns: widest ordinary silence. gaps: the others."""

    bursts: tuple[Burst, ...]
    paced: bool
    step_ns: Ns
    late_first_ns: Ns
    late_last_ns: Ns
    widest_ns: Ns
    gaps: tuple[Gap, ...]

    @property
    def early_ns(self) -> Ns:
        """How long before we read the first token it may have existed: delivery, lateness, and an
        ordinary silence of the stream: a hop that flushes more often than tokens come passes them
        one at a time, and keeps each as long as that."""
        return DELIVERY + self.late_first_ns + self.widest_ns

    @property
    def slack_ns(self) -> Ns:
        """The same for the last token."""
        return DELIVERY + self.late_last_ns + self.widest_ns

    @property
    def reading_ns(self) -> Ns:
        """Time in which the reader caught up with bytes that were waiting: it says nothing of when
        their tokens existed."""
        return sum([burst.at - burst.since for burst in self.bursts])


def pace(arrivals: Sequence[Arrival]) -> Pace:
    found = bursts(arrivals)
    times = [burst.at for burst in found]
    silences = list(map(sub, times[1:], times))
    if not silences:
        return Pace(
            bursts=found,
            paced=False,
            step_ns=0,
            late_first_ns=0,
            late_last_ns=0,
            widest_ns=0,
            gaps=(),
        )
    usual = round(median(silences))
    limit = 3 * usual + DELIVERY
    step = usual
    if len(found) < len(arrivals):  # else a burst is an event, and a step is a silence
        steps = [gap / burst.events for gap, burst in zip(silences, found[1:], strict=True)]
        step = round(median(steps))
    return Pace(
        bursts=found,
        paced=_even(found),
        step_ns=step,
        late_first_ns=_late_first(found, step),
        late_last_ns=_late_last(found, step),
        widest_ns=max([gap for gap in silences if gap <= limit], default=0),
        gaps=tuple(
            [
                Gap(start_ns=at, end_ns=at + gap, excess_ns=gap - usual)
                for at, gap in zip(times, silences, strict=False)
                if gap > limit
            ]
        ),
    )


def bursts(arrivals: Sequence[Arrival]) -> tuple[Burst, ...]:
    found: list[Burst] = []
    at = since = -1
    events = 0
    # In plain steps: every token of every call passes here.
    for earliest, latest in [arrival.at for arrival in arrivals]:
        if events and (latest == at or latest > earliest):
            at, events = latest, events + 1
            continue
        if events:
            found.append(_new(Burst, (at, events, since)))
        at, since, events = latest, latest, 1
    if events:
        found.append(_new(Burst, (at, events, since)))
    return tuple(found)


_new = tuple.__new__  # what Burst() comes down to


def _even(found: Sequence[Burst]) -> bool:
    """Enough bursts, nearly all of one event, the first among them: no collector on the way."""
    if len(found) < MIN_BURSTS:
        return False
    single = len([burst for burst in found if burst.events <= 2])
    return found[0].events <= 2 and single >= EVEN_SHARE * len(found)


def _late_first(found: Sequence[Burst], step: Ns) -> Ns:
    """Later bursts, walked back at the stream's step, say when the first was due at the latest."""
    events = found[0].events - 1
    late = events * step
    for burst in found[1:NEAR]:
        events += burst.events
        late = max(late, found[0].at - (burst.at - events * step))
    return late


def _late_last(found: Sequence[Burst], step: Ns) -> Ns:
    late, events = 0, 0
    for burst, after in zip(found[-2:-NEAR:-1], found[:-NEAR:-1], strict=False):
        events += after.events
        late = max(late, found[-1].at - (burst.at + events * step))
    return late
