"""When a claim holds, fails, or stays open: each rule looks at the whole 90 % interval.

A claim that something stays as it is holds when the interval lies within a named limit, fails when
it lies outside, and is open in between: not seeing a change is no proof of none.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log
from statistics import median

from latscope.claims.fit import Estimate, Point, bends, slope, span
from latscope.claims.model import Verdict
from latscope.claims.words import change, digits, listed

SAME = 0.10
"""What still counts as the same: a tenth. Calls to one idle server differ by as much, and no
smaller change would lead anybody to another lever."""

FLAT = 0.01
"""Growth below one per cent of the step over the whole range of contexts is none: no server's steps
are that even, and no budget would notice."""

BEND = 2.0
"""A growth whose upper half is over twice (or under half) as steep as its lower half is not linear.
Caches and block sizes make smaller bends on every machine."""

BARELY = 0.25
"""How much longer a call in a batch may take for its latency to have barely moved: a quarter, while
the batch at least doubles."""

RISES = 0.5
"""Elasticity of throughput (1: in proportion to the batch, 0: none). At a half each doubling of the
batch still brings two fifths more."""

ITL_MOVES = 0.10
"""How much the median step may move at peak: the source's own figure."""

PEAK = 0.5
"""TTFT has to be up by half of what it is off-peak before there is a peak to explain."""

DOMINATES = 0.5
"""The queue dominates the excess when more than half of it is queue."""

RECOMPUTES = 2.0
"""A server that computed its history again at each step would pay for each token of context what
prefill pays for it: a ratio of 1. Twice that leaves room for prefill's better use of the
machine."""

OPEN: Verdict = "insufficient evidence"


def near(estimate: Estimate | None, to: float, limit: float) -> Verdict:
    """Whether a figure is `to`, give or take `limit`."""
    if estimate is None:
        return OPEN
    if to - limit <= estimate.low and estimate.high <= to + limit:
        return "holds"
    if estimate.low > to + limit or estimate.high < to - limit:
        return "fails"
    return OPEN


def above(estimate: Estimate | None, limit: float) -> Verdict:
    if estimate is None:
        return OPEN
    if estimate.low > limit:
        return "holds"
    return "fails" if estimate.high < limit else OPEN


def grows_linearly(points: Sequence[Point]) -> Verdict:
    """Whether y surely grows with x, and along one line. It fails when over the whole range it
    grows by less than FLAT, or when the halves of the range surely differ by more than BEND."""
    found = slope(points)
    if found is None:
        return OPEN
    size = median(point.y for point in points)
    if found.high * span(points) < FLAT * size:
        return "fails"
    if found.low <= 0:
        return OPEN
    halves = bends(points)
    if halves is None:
        return "holds"
    lower, upper = (half.value for half in halves)
    return "holds" if lower > 0 and 1 / BEND <= upper / lower <= BEND else "fails"


def both(*verdicts: Verdict) -> Verdict:
    """A claim of several halves: one that fails decides, else one that is open does."""
    for verdict in ("fails", OPEN):
        if verdict in verdicts:
            return "fails" if verdict == "fails" else OPEN
    return "holds"


def peak(excess: Estimate | None, moved: Estimate | None, queue_share: Estimate | None) -> Verdict:
    """The three halves of the claim about peaks. Without a peak there is nothing to judge. excess:
    of TTFT over what it is off-peak; moved: the median step, the same; queue_share: of the excess,
    null where nobody told."""
    if above(excess, PEAK) != "holds":
        return OPEN
    dominated = [above(queue_share, DOMINATES)] if queue_share is not None else []
    return both(near(moved, 0, ITL_MOVES), *dominated)


ELASTICITY = "throughput elasticity, 1 = in proportion to the batch"


def batching(seen: Sequence[tuple[int, float]]) -> tuple[Estimate | None, Verdict, str]:
    """seen: (calls at once, latency of one of them). So many calls at once, each done in such a
    time, are a throughput of the one over the other: a latency that grows as size^b makes a
    throughput that grows as size^(1 - b). Judged over the sizes up to which a call is at most
    BARELY slower than alone; when there are none, over the first."""
    sizes: defaultdict[int, list[float]] = defaultdict(list)
    for size, latency in seen:
        sizes[size].append(latency)
    ordered = sorted(sizes)
    if len(ordered) < 2 or ordered[0] != 1:
        return None, OPEN, "needs calls that were alone and calls that were not"
    times = {size: median(sizes[size]) / median(sizes[1]) for size in ordered}
    free = [size for at, size in enumerate(ordered) if _barely(times, ordered[: at + 1])]
    used = free if len(free) > 1 else ordered[:2]
    growth = slope([Point(x=log(size), y=log(latency)) for size, latency in seen if size in used])
    found = growth and growth.taken_from(1)
    if found is None:
        return None, OPEN, "too few calls"
    if len(free) > 1:
        verdict = "holds" if found.low > RISES else OPEN
    else:
        verdict = "fails" if growth and growth.low > _elastic(used[-1]) else OPEN
    return found, verdict, _batching_note(times, ordered, free)


def _barely(times: dict[int, float], sizes: Sequence[int]) -> bool:
    return all(times[size] <= 1 + BARELY for size in sizes)


def _elastic(size: int) -> float:
    """The latency's elasticity that makes a batch of `size` exactly BARELY slower."""
    return log(1 + BARELY) / log(size)


def _batching_note(times: dict[int, float], ordered: list[int], free: list[int]) -> str:
    last = free[-1]
    said = []
    if last > 1:
        said.append(
            f"up to {last} at once a call takes {change(times[last] - 1)}, for"
            f" {digits(last / times[last])} times the throughput"
        )
    beyond = [size for size in ordered if size > last]
    if beyond:
        more = dict.fromkeys((beyond[0], beyond[-1]))
        steps = [
            f"{size} at once take {change(times[size] - 1)} for {digits(size / times[size])} times"
            for size in more
        ]
        said.append(
            ("beyond that, " if said else "one call already saturates it: ") + listed(steps)
        )
    return "; ".join(said)
