"""The truth of simulated fleets lies inside the hard bounds of the attribution.

The estimator sees the reads and marks (and, told so, the engine's own figures); the truth comes
from the scheduler's book-keeping. 200 calls a load, drawn by seed.
"""

import functools

import pytest

from latscope.attribution import Attribution, attribute, check_laws
from latscope.attribution.model import SEGMENTS
from latscope.attribution.shares import bounds
from latscope.recording import SegmentTruth
from latscope.sim.fleet.arrivals import Workload, drawn
from latscope.sim.fleet.engine import Fleet, Run, simulate
from latscope.sim.fleet.recordings import Path, recordings, sampled
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity
from latscope.units import MS

CALLS, SAMPLE = 600, 200
LOADS = (0.5, 0.95)
FLEET = Fleet(
    limits=Limits(max_num_seqs=48, max_num_batched_tokens=512, blocks=2200), routing="least-loaded"
)


@functools.cache
def served(load: float) -> Run:
    workload = Workload(seed=5, calls=CALLS, output=96, prefixes=3, prefix_tokens=256)
    rate = load * capacity(FLEET, drawn(workload))
    seeded = Workload(seed=5, calls=CALLS, output=96, prefixes=3, prefix_tokens=256, rate=rate)
    return simulate(FLEET, drawn(seeded), trace=sampled(CALLS, SAMPLE, 5))


@functools.cache
def attributed(load: float, *, metrics: bool) -> list[Attribution]:
    path = Path(rtt_ns=20 * MS, metrics=metrics)
    found = [attribute(one) for one in recordings(served(load), path)]
    for one in found:
        check_laws(one)
    return found


def outside(truth: tuple[SegmentTruth, ...], within: dict[str, tuple[int, int]]) -> list[str]:
    return [
        f"{part.name} {part.ns} outside {within[part.name]}"
        for part in truth
        if not within[part.name][0] <= part.ns <= within[part.name][1]
    ]


@pytest.mark.parametrize("metrics", [False, True], ids=["blind", "metrics"])
@pytest.mark.parametrize("load", LOADS)
def test_the_truth_lies_in_the_bounds_of_every_segment(load: float, metrics: bool) -> None:
    """Of the whole call and of the time to first token, for every sampled call."""
    found = attributed(load, metrics=metrics)
    assert len(found) == SAMPLE
    for one in found:
        assert one.truth is not None
        assert one.truth.ttft is not None
        assert one.ttft_pieces is not None
        assert one.status == "complete"
        assert sum(part.ns for part in one.truth.segments) == one.wall_ns
        assert sum(part.ns for part in one.truth.ttft) == one.first_token_ns
        whole = {str(share.name): share.bounds_ns for share in one.segments}
        first = {str(name): bounds(one.ttft_pieces, name) for name in SEGMENTS}
        assert outside(one.truth.segments, whole) == [], one.call_id
        assert outside(one.truth.ttft, first) == [], one.call_id


def test_the_loads_differ_in_what_is_hard() -> None:
    """The sample at 0.95 holds what the one at 0.5 lacks: waits longer than prefill, and calls
    that were preempted."""

    def waited(load: float) -> int:
        found = [one.truth for one in attributed(load, metrics=False)]
        parts = [{part.name: part.ns for part in truth.segments} for truth in found if truth]
        return sum(1 for part in parts if part["queue"] > part["prefill"])

    assert waited(0.5) < SAMPLE / 4 < waited(0.95)
    preempted = [
        sum(1 for n in run.traced if run.table.preemptions[n]) for run in map(served, LOADS)
    ]
    assert preempted[0] < preempted[1]


def test_the_engines_own_figures_give_the_split_to_the_nanosecond() -> None:
    """With metrics queue, prefill and decode are reported, and equal the truth."""
    for one in attributed(0.95, metrics=True):
        assert one.truth is not None
        true = {part.name: part.ns for part in one.truth.segments}
        assert one.segment("prefill").ns == true["prefill"]
        assert one.segment("decode").ns == true["decode"]
        assert sum(part.ns for part in one.segment("queue").parts) == true["queue"]
