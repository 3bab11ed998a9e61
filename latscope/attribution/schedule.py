"""The token schedule: when each token came, when the stream's own step made it due, and what a
silence did to those behind it.

A pause of the source shifts the schedule for good: every later token is as late as the first. Bytes
kept on the way bend it: the tokens behind the silence were made on time and come at once, until the
stream is where it would have been (network calculus: arrivals against a service line).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median, quantiles
from typing import NamedTuple

from latscope.timeline import Arrival
from latscope.units import MS, Ns

TOGETHER: Ns = MS
"""Tokens read within so much of each other came together."""
A_STEP = 0.15
"""So do those within this share of the stream's usual silence: a step's, in several writes."""

STANDS_OUT: Ns = 20 * MS
"""A silence is at least so much longer than the stream's own before it is called one: what two
processes' scheduling does to a token on a quiet machine stays well below."""
SPREAD = 5.0
"""In distances from the median silence to the upper quartile: of normally scattered steps three in
10,000 are as far out, of evenly scattered ones none."""
USUAL = 2.0
"""In distances to the upper tenth: what one step in ten does is the stream's way."""
FEW = 16
"""Of fewer silences the quartiles say little: then three times the median, and 25 ms."""
LEAST = 3

CLEAR = 4.0
"""How far staying late and catching up must lie apart, in the schedule's own noise."""
BEFORE = 8
NEAR = 20
REACH = 80


class Beat(NamedTuple):
    """Token events read together. at: the read that brought the first; until: the last's; tokens:
    how many, null when not every event says; offset: where in the body the last one ended."""

    at: Ns
    until: Ns
    events: int
    tokens: int | None
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A silence that stands out. at_ns, end_ns: the reads around it; step_ns: what the stream takes
    between two tokens here; excess_ns: how much longer it was; index: of the beat that ended it."""

    at_ns: Ns
    end_ns: Ns
    step_ns: Ns
    excess_ns: Ns
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bend:
    """What a silence did to the tokens behind it. shift: 1 they all stayed as late as the first, 0
    they caught up at once; null when too few followed to tell. left_ns: how late the last token of
    the stretch still was, of the silence's excess."""

    shift: float | None
    left_ns: Ns


def quiet(arrivals: Sequence[Arrival]) -> bool:
    """Whether no silence can stand out: the cheap answer most streams get."""
    times = [arrival.at.latest for arrival in arrivals]
    gaps = [after - at for at, after in pairwise(times)]
    if len(gaps) < LEAST or max(gaps) <= min(gaps) + STANDS_OUT:
        return True
    return max(gaps) <= sorted(gaps)[len(gaps) // 2 - 1] + STANDS_OUT


def beats(arrivals: Sequence[Arrival]) -> tuple[Beat, ...]:
    """The arrivals, those that came together as one."""
    times = [arrival.at.latest for arrival in arrivals]
    gaps = sorted(gap for at, after in pairwise(times) if (gap := after - at) > TOGETHER)
    within = max(TOGETHER, round(A_STEP * gaps[3 * len(gaps) // 4])) if gaps else TOGETHER
    begins = [0]
    since = times[0]
    for index, at in enumerate(times):
        if at - since > within:
            begins.append(index)
            since = at
    ends = [*begins[1:], len(times)]
    return tuple(_beat(arrivals, begin, end) for begin, end in zip(begins, ends, strict=True))


def _beat(arrivals: Sequence[Arrival], begin: int, end: int) -> Beat:
    first, last = arrivals[begin], arrivals[end - 1]
    at, tokens = first.at.latest, first.tokens
    if first is last:
        return Beat(at, at, 1, tokens, first.offset)
    told = [one.tokens for one in arrivals[begin:end] if one.tokens is not None]
    tokens = sum(told) if len(told) == end - begin else None
    return Beat(at, last.at.latest, end - begin, tokens, last.offset)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stream as its clock ticks. times: when each tick came, in ns; starts: the tick a beat
    begins with. A tick is a step of the source: an event, or as many as it usually sends at once;
    coarse: it sends several at once, so that a few steps that came together look like one; burst:
    the events that nine beats in ten bring at most."""

    beats: tuple[Beat, ...]
    times: tuple[Ns, ...]
    starts: tuple[int, ...]
    limit_ns: Ns
    step_ns: Ns
    coarse: bool
    burst: float

    def step_near(self, tick: int) -> Ns:
        """Median time between ticks around one; those that came in a rush do not count."""
        low, high = max(0, tick - NEAR), tick + NEAR
        gaps = [after - at for at, after in pairwise(self.times[low:high])]
        gaps = [gap for gap in gaps if self.step_ns * 0.3 < gap <= self.limit_ns]
        return round(median(gaps)) if len(gaps) >= LEAST else self.step_ns


def schedule(arrivals: Sequence[Arrival]) -> Schedule | None:
    """Null when nothing can stand out, be it for want of silences."""
    if quiet(arrivals):
        return None
    found = beats(arrivals)
    silences = [after.at - before.until for before, after in pairwise(found)]
    if len(silences) < LEAST:
        return None
    usual, ticks = _ticks(found)
    times = [beat.at for beat, count in zip(found, ticks, strict=True) for _ in range(count)]
    gaps = [gap / count for gap, count in zip(silences, ticks[1:], strict=True)]
    return Schedule(
        beats=found,
        times=tuple(times),
        starts=tuple(accumulate(ticks[:-1], initial=0)),
        limit_ns=_limit(silences),
        step_ns=max(1, round(median(gaps))),
        coarse=usual > 1,
        burst=_upper_tenth([beat.events for beat in found]),
    )


def silences(plan: Schedule) -> tuple[Silence, ...]:
    """The silences that stand out from the stream's own."""
    found = []
    for index, (before, after) in enumerate(pairwise(plan.beats), start=1):
        gap = after.at - before.until
        if gap > plan.limit_ns:
            step = plan.step_near(plan.starts[index])
            found.append(
                Silence(
                    at_ns=before.until,
                    end_ns=after.at,
                    step_ns=step,
                    excess_ns=gap - step,
                    index=index,
                )
            )
    return tuple(found)


def bend(plan: Schedule, one: Silence, since: int, until: int) -> Bend:
    """How the schedule went on. since, until: beats of the silences before and behind this one,
    beyond which its tokens say nothing (0, and the number of beats, where there is none)."""
    step, first = one.step_ns, plan.starts[one.index]
    stop = plan.starts[until] if until < len(plan.starts) else len(plan.times)
    since = plan.starts[since]
    line = _line(plan, first, since, step)
    late = [at - line - step * tick for tick, at in enumerate(plan.times[first:stop], first)]
    excess = one.excess_ns
    if not 0.5 * excess <= late[0] <= 1.5 * excess:  # what came before was off the stream's step
        late = [ns + excess - late[0] for ns in late]
    seen = late[: min(REACH, 2 * excess // step + 4)]
    kept = [max(0, excess - step * tick) for tick in range(len(seen))]  # as if caught up at once
    apart = [excess - there for there in kept]
    power = sum(x * x for x in apart)
    left = max(0, min(excess, round(median(late[-3:]))))
    if len(seen) < LEAST or power < (CLEAR * _noise(plan, first, since, step)) ** 2:
        return Bend(shift=None, left_ns=left)
    shift = sum((at - t) * x for at, t, x in zip(seen, kept, apart, strict=True)) / power
    if shift > 0 and _falls(late[: 2 * REACH], excess, step):
        shift = 0.0
    return Bend(shift=shift, left_ns=left)


def _ticks(found: Sequence[Beat]) -> tuple[float, list[int]]:
    """What the source usually sends at once, and how many of its steps each beat holds: as much as
    usual, several tokens of one engine step, is one; more came late and is several. Counted in
    tokens where every event says how many it brings: a front end that is late makes one event of
    several steps."""
    counted = all(beat.tokens for beat in found)
    sizes = [(beat.tokens or 1) if counted else beat.events for beat in found]
    usual = _upper_tenth(sizes)
    ordinary = [size for size in sizes if size <= usual]
    mean = sum(ordinary) / len(ordinary)
    return usual, [1 if size <= usual else max(1, round(size / mean)) for size in sizes]


def _upper_tenth(values: Sequence[int]) -> float:
    return quantiles(values, n=10, method="inclusive")[8]


def _limit(gaps: Sequence[Ns]) -> Ns:
    """The longest silence that is still the stream's own way."""
    middle = round(median(gaps))
    if len(gaps) < FEW:
        return 3 * middle + 25 * MS
    cuts = quantiles(gaps, n=20, method="inclusive")
    upper, tenth = cuts[14] - middle, cuts[17] - middle
    return middle + round(max(STANDS_OUT, SPREAD * upper, USUAL * tenth))


def _line(plan: Schedule, first: int, since: int, step: Ns) -> Ns:
    """Where the schedule before the silence would have had tick 0."""
    low = max(since, first - BEFORE)
    return round(median(plan.times[tick] - step * tick for tick in range(low, first)))


def _noise(plan: Schedule, first: int, since: int, step: Ns) -> float:
    """How far ticks are from their line, without those that a silence moved."""
    low = max(since, first - BEFORE)
    times = plan.times[low:first]
    off = sorted(abs(after - at - step) for at, after in pairwise(times))
    return max(MS, 0.1 * step, off[len(off) // 2] if off else 0)


def _falls(late: Sequence[Ns], excess: Ns, step: Ns) -> bool:
    """Whether the stream, late for a while, caught up all at once: no source makes tokens so fast,
    a path that is quicker again brings them."""
    count = max(1, round(0.75 * excess / step))
    for tick in range(len(late) - 1):
        after = min(tick + count, len(late) - 1)
        tail = late[after : after + 3]
        fall = late[tick] - late[after]
        if fall >= max(0.5 * excess, 1.5 * step) and median(tail) <= 0.35 * excess:
            return True
    return False
