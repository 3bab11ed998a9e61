"""Intervals cover what they say; the lab's observations are those of its recordings."""

from random import Random

import pytest

from benchmarks.half_a import WORLDS, known_calls
from latscope.attribution.intervals import LEVELS, interval, outer, residuals
from latscope.attribution.observe import observe
from latscope.attribution.profile import Residual
from latscope.attribution.residuals import RESIDUALS, SHARES
from latscope.sim.fleet.arrivals import drawn
from latscope.sim.fleet.engine import simulate
from latscope.sim.fleet.recordings import Path, recordings, sampled
from latscope.units import MS

ONE = {"prefill/a": Residual(low=-0.5, high=1.0, n=60)}
OTHER = {
    "prefill/a": Residual(low=-9.0, high=9.0, n=60),
    "prefill/any": Residual(low=-2.0, high=2.0, n=99),
}


def test_the_first_table_that_knows_the_group_counts() -> None:
    assert interval((ONE, OTHER), "prefill", "a", 100, 20, 1000) == (90, 120, True)
    assert interval(({}, OTHER), "prefill", "a", 400, 20, 1000) == (220, 580, True)


def test_a_group_nobody_knows_gets_everybodys() -> None:
    assert interval((ONE, OTHER), "prefill", "b", 100, 20, 1000) == (60, 140, False)
    assert interval((ONE, {}), "queue", "b", 100, 20, 1000) == (0, 1000, False)


def test_an_interval_holds_its_estimate_and_stays_in_the_bound() -> None:
    biased = {"queue/a": Residual(low=0.2, high=0.9, n=60)}
    assert interval((biased,), "queue", "a", 100, 100, 150) == (100, 150, True)
    assert interval((ONE,), "prefill", "a", 5, 100, 150) == (0, 105, True)


@pytest.mark.parametrize("level", [0.6, 0.9])
def test_outer_quantiles_cover_the_next_value(level: float) -> None:
    dice = Random(1)
    covered, rounds = 0, 2000
    for _ in range(rounds):
        *seen, new = (dice.expovariate(1.0) for _ in range(61))
        found = outer(seen, level)
        covered += found.low <= new <= found.high
    assert level - 0.02 <= covered / rounds <= level + 0.04


def test_groups_of_few_give_nothing_and_prefill_gives_its_inner_interval_too() -> None:
    pairs = [("prefill/a", float(n)) for n in range(100)] + [("queue/a", 1.0)] * 49
    found = residuals(pairs)
    assert set(found) == {"prefill/a", "lean/a"}
    assert found["lean/a"].low > found["prefill/a"].low
    assert found["lean/a"].high < found["prefill/a"].high


def test_the_shipped_residuals_name_known_quantities_and_enclose_zero_error() -> None:
    assert {name.split("/")[0] for name in RESIDUALS} == set(LEVELS)
    for name, one in RESIDUALS.items():
        assert one.low <= one.high, name
        assert one.n >= 200, name
    assert all(f"{quantity}/any" in RESIDUALS for quantity in LEVELS)
    assert all(f"prefill/{group}" in RESIDUALS for group in SHARES)
    assert all(0 <= share <= 1 for share in SHARES.values())


def test_the_lab_observes_what_its_recordings_show() -> None:
    """benchmarks/half_a goes without recordings for speed; the rows are the same."""
    world = WORLDS[2]
    workload = world.workload(7, 3.0, 40)
    run = simulate(world.fleet, drawn(workload), trace=sampled(40, 15, 7))
    short = list(known_calls(world, run))
    for known, recording in zip(short, recordings(run, Path(rtt_ns=20 * MS)), strict=True):
        seen = observe(recording)
        assert seen is not None
        assert recording.truth is not None
        names = ("key", "uncached", "cached", "sent_ns", "headers_ns", "head_ns", "step_ns")
        for name in (*names, "early_ns", "rtt_ns", "tokens_per_chunk", "context", "server"):
            assert getattr(seen, name) == getattr(known.row, name), name
        true = {part.name: part.ns for part in recording.truth.ttft or ()}
        assert (true["queue"], true["prefill"]) == (known.queue_ns, known.prefill_ns)
    assert any(known.row.cached for known in short)
