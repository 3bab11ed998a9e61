"""Quanta: a hop or server that lets tokens go by the clock, by bytes or by count gives itself away,
for what it sends is always as long, as large or as many."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Literal

from latscope.attribution.schedule import Beat, Schedule
from latscope.timeline import Arrival

LEAST = 4
"""Bursts needed before anything repeats."""
SEVERAL = 1.5
"""Events a burst on average: one at a time is the source's own step, not a quantum."""
ALIKE = 0.1
MOST = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantum:
    """what: `time` (size in ns), `bytes` or `tokens` (token events). size: the median; spread: the
    mean distance from it, as a share (the median one of small whole numbers is mostly 0)."""

    what: Literal["time", "bytes", "tokens"]
    size: int
    spread: float


def of_stream(arrivals: Sequence[Arrival], plan: Schedule | None) -> Quantum | None:
    """The quantum of a whole stream, whose schedule is `plan`; null of a steady one, and of several
    choices: their tokens come together anyway."""
    if plan is None or len({arrival.choice for arrival in arrivals}) != 1:
        return None
    return quantum(plan.beats)


def quantum(beats: Sequence[Beat]) -> Quantum | None:
    """The quantum the stream came in; null when it came one event at a time, or nothing repeats.
    Of several that repeat, the one that does so most exactly. The first and last are left out: they
    are as large as what there was."""
    middle = beats[1:-1]
    if len(middle) < LEAST or sum(beat.events for beat in middle) < SEVERAL * len(middle):
        return None
    inner = beats[:-1]
    found = [
        _repeats("tokens", [beat.events for beat in middle]),
        _repeats("time", [after.at - before.at for before, after in pairwise(inner)]),
        _repeats("bytes", [after.offset - before.offset for before, after in pairwise(inner)]),
    ]
    told = [one for one in found if one is not None]
    return min(told, key=lambda one: one.spread, default=None)


def _repeats(what: Literal["time", "bytes", "tokens"], values: Sequence[int]) -> Quantum | None:
    size = round(median(values))
    if size <= 0:
        return None
    alike = sum(1 for value in values if abs(value - size) <= ALIKE * size)
    if alike < MOST * len(values):
        return None
    return Quantum(what=what, size=size, spread=fmean(abs(v - size) for v in values) / size)
