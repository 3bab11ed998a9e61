"""A run of the fleet: the same every time, exact against a closed form, and shaped like a queue."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from latscope.errors import InputError
from latscope.sim.cost import compare
from latscope.sim.fleet.arrivals import Call, Pattern, Workload, drawn
from latscope.sim.fleet.engine import COLUMNS, Cost, Fleet, Run, simulate
from latscope.sim.fleet.routing import ROUTERS
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity, summary
from latscope.units import MS, S

UNITS = Cost(step=0, prefill=12, attention=0, decode=12, kv=1)
"""The two-stage cost model's constants, a unit a nanosecond."""
SMALL = Workload(calls=300, prompt=200, output=40)


def columns(run: Run) -> list[list[int]]:
    return [list(getattr(run.table, name)) for name in COLUMNS]


@pytest.mark.parametrize(("prompt", "output"), [(200, 40), (1, 1), (3000, 7)])
def test_a_single_call_costs_what_the_cost_model_says(prompt: int, output: int) -> None:
    """Prefill is its TTFT, which ends before the first decode step: its k-th token is the fleet's
    (k + 1)-th, and every step costs the same."""
    model = compare(prompt, output).with_cache
    limits = Limits(max_num_batched_tokens=prompt)
    call = Call(0, prompt, output + 1, output + 1)
    run = simulate(Fleet(limits=replace(limits, max_num_seqs=1), cost=UNITS), [call], trace=[0])
    steps = [after - before for before, after in pairwise(run.tokens[0])]
    assert run.table.first_token_ns[0] == model.ttft
    assert run.table.last_token_ns[0] == model.total
    assert steps[0] == model.steps.first
    assert steps[output // 2] == model.steps.mid
    assert steps[-1] == model.steps.last


def test_a_step_costs_the_sum_of_its_parts() -> None:
    """6 ms, 100 tokens of prompt at 30 us, 5050 pairs at 1 ns; then 6 ms, one call at 20 us, 100
    tokens read at 50 ns."""
    run = simulate(Fleet(), [Call(5, 100, 2, 2)], trace=[0])
    first = 5 + 6 * MS + 3_000_000 + 5050
    assert run.tokens[0] == [first, first + 6 * MS + 20_000 + 5_000]


@pytest.mark.parametrize("pattern", ["poisson", "constant", "burst"])
def test_the_same_seed_gives_the_same_run(pattern: Pattern) -> None:
    workload = replace(SMALL, pattern=pattern, prefixes=3)
    runs = [simulate(Fleet(replicas=2, routing="least-loaded"), drawn(workload)) for _ in "ab"]
    assert columns(runs[0]) == columns(runs[1])
    assert summary(runs[0]) == summary(runs[1])
    other = simulate(Fleet(replicas=2), drawn(replace(workload, seed=1)))
    assert columns(other) != columns(runs[0])


def varied(seed: int) -> tuple[Fleet, list[Call]]:
    """Limits tight enough for queues, cut prompts and preemption; any policy, depth, routing."""
    dice = Random(seed)
    limits = Limits(
        depth=dice.choice((1, 2)),
        policy=dice.choice(("fcfs", "priority")),
        max_num_seqs=dice.choice((2, 8, 64)),
        max_num_batched_tokens=dice.choice((64, 256, 2048)),
        blocks=dice.choice((40, 80, 400)),
        long_prefill=dice.choice((0, 0, 30)),
        caching=dice.random() < 0.8,
    )
    fleet = Fleet(
        limits=limits, replicas=dice.choice((1, 2, 3)), routing=dice.choice(tuple(ROUTERS))
    )
    workload = Workload(
        seed=seed,
        calls=80,
        rate=dice.choice((1, 5, 20, 100)),
        pattern=dice.choice(("poisson", "constant", "burst")),
        prompt=100,
        most_prompt=300,
        output=40,
        most_output=200,
        prefixes=dice.choice((0, 3)),
        prefix_tokens=40,
    )
    calls = [
        call._replace(priority=dice.randrange(3), cap=call.output + dice.choice((0, 0, 5)))
        for call in drawn(workload)
    ]
    return fleet, calls


@pytest.mark.parametrize("seed", range(40))
def test_stretches_taken_at_once_change_nothing(seed: int) -> None:
    """Every row, gap, count and traced token is what single steps give, to the nanosecond."""
    fleet, calls = varied(seed)
    fast = simulate(fleet, calls, trace=range(0, 80, 7))
    slow = simulate(fleet, calls, trace=range(0, 80, 7), coasting=False)
    assert columns(fast) == columns(slow)
    assert (fast.gaps, fast.usage, fast.tokens) == (slow.gaps, slow.usage, slow.tokens)


@pytest.mark.parametrize("seed", range(40))
def test_every_call_passes_its_instants_in_order_and_gets_every_token(seed: int) -> None:
    """arrival <= scheduled < first <= last; so many gaps as tokens after the first; time is spent
    by replicas that have something to do, and no replica is busier than the run is long."""
    fleet, calls = varied(seed)
    run = simulate(fleet, calls, trace=range(len(calls)))
    table = run.table
    for number, call in enumerate(calls):
        row = table.row(number)
        assert row["arrival_ns"] == call.at_ns <= row["scheduled_ns"] < row["first_token_ns"]
        assert row["first_token_ns"] <= row["last_token_ns"]
        assert row["cached_tokens"] < row["prompt_tokens"] == call.prompt
        tokens = run.tokens[number]
        assert len(tokens) == row["output_tokens"] == call.output
        assert (tokens[0], tokens[-1]) == (row["first_token_ns"], row["last_token_ns"])
        assert tokens == sorted(tokens)
    assert run.gaps.total() == sum(call.output - 1 for call in calls)
    assert all(usage.busy_ns <= usage.until_ns for usage in run.usage)
    assert max(usage.until_ns for usage in run.usage) >= max(table.last_token_ns)
    assert all(usage.most_blocks <= fleet.limits.blocks for usage in run.usage)


def test_more_traffic_than_capacity_saturates() -> None:
    """Below capacity calls get done as they come; above it throughput stays and the queue grows;
    the wait for the first token never falls with load."""
    workload = Workload(calls=600, prompt=300, output=60, prompt_spread=0.3, output_spread=0.3)
    fleet = Fleet(limits=Limits(max_num_seqs=32))
    most = capacity(fleet, drawn(workload))
    found = {}
    for load in (0.2, 0.5, 0.8, 0.95, 1.5, 3.0):
        run = simulate(fleet, drawn(replace(workload, rate=load * most)))
        found[load] = summary(run)
    for load in (0.2, 0.5):
        assert found[load]["calls_per_s"] == pytest.approx(load * most, rel=0.15)
        assert found[load]["queue"]["ttft_share"] < 0.5
    assert found[3.0]["calls_per_s"] == pytest.approx(found[1.5]["calls_per_s"], rel=0.15)
    assert found[3.0]["calls_per_s"] <= most * 1.02
    assert found[3.0]["queue"]["ttft_share"] > 0.9
    ttfts = [found[load]["ttft"]["p95_ns"] for load in sorted(found)]
    assert ttfts == sorted(ttfts)
    assert found[3.0]["utilisation"]["busy"] > 0.99


def test_a_step_planned_ahead_is_waited_for_inside_prefill() -> None:
    """Call 1 arrives in the first decode step of call 0. It is taken up at that step's end either
    way; two batches deep, another step is planned by then, and comes first."""
    calls = [Call(0, 100, 50, 50), Call(12 * MS, 100, 2, 2)]
    first, step = 6 * MS + 3_000_000 + 5050, 6 * MS + 20_000 + 5_000
    for limits, between, read in ((Limits(), 0, 101), (Limits(depth=2), step + 50, 102)):
        row = simulate(Fleet(limits=limits), calls).table.row(1)
        assert row["scheduled_ns"] == first + step
        prefill = row["first_token_ns"] - row["scheduled_ns"]
        assert prefill == between + first + 20_000 + 50 * read


def test_a_shared_prefix_is_computed_once_and_stays_found() -> None:
    """512 tokens of prefix in every prompt: all but the first call of each prefix find them, and
    the fleet's prefill computes no more than the rest."""
    workload = replace(SMALL, prefixes=2, prefix_tokens=512, rate=1.0)
    run = simulate(Fleet(), drawn(workload))
    cached = sorted(run.table.cached_tokens)
    assert cached[:2] == [0, 0]
    assert min(cached[2:]) == 512
    computed = sum(usage.prefill_tokens for usage in run.usage)
    assert computed == sum(run.table.prompt_tokens) - sum(cached)
    off = simulate(Fleet(limits=Limits(caching=False)), drawn(workload))
    assert sum(off.table.cached_tokens) == 0


def test_a_session_finds_its_own_earlier_turns() -> None:
    """64 + 32 tokens computed before (the last output token is sampled, never computed)."""
    calls = [Call(0, 64, 33, 33, session="s"), Call(10 * S, 200, 5, 5, session="s")]
    run = simulate(Fleet(), calls)
    assert list(run.table.cached_tokens) == [0, 96]


def placed(routing: str, calls: Sequence[Call]) -> list[int]:
    names = {name: name for name in ROUTERS}
    fleet = Fleet(replicas=2, routing=next(names[name] for name in names if name == routing))
    return list(simulate(fleet, calls).table.replica)


def test_calls_are_routed_as_asked() -> None:
    """Round-robin by turns; least-loaded away from a long call; prefix-affine to where the prefix
    is, or the session, calls without either to the idlest."""
    long, short = Call(0, 4000, 200, 200), Call(MS, 10, 1, 1)
    later = [short._replace(at_ns=n * S // 2) for n in (1, 2)]
    calls = [long, short, *later]
    assert placed("round-robin", calls) == [0, 1, 0, 1]
    assert placed("least-loaded", calls) == [0, 1, 1, 1]
    named = [
        long._replace(prefix="a", shared=64),
        short._replace(prefix="b", shared=8),
        later[0]._replace(prefix="a", shared=8),
        later[1],
        later[1]._replace(session="s", prefix="a", shared=8, at_ns=6 * S // 5),
    ]
    assert placed("prefix-affine", named) == [0, 1, 0, 1, 1]


def test_a_call_that_gives_way_to_itself_lets_the_others_go_on() -> None:
    """By priority the first in line may be the one to lose: the step it empties takes no time."""
    calls = [Call(0, 8, 12, 12, priority=1), Call(MS, 8, 12, 12, priority=0)]
    limits = Limits(policy="priority", blocks=6, block_size=4)
    run = simulate(Fleet(limits=limits), calls, trace=[1])
    assert list(run.table.preemptions) == [1, 0]
    steps = [after - before for before, after in pairwise(run.tokens[1])]
    assert max(steps) < 7 * MS
    assert run.table.last_token_ns[1] < run.table.last_token_ns[0]


def test_calls_of_one_instant_share_a_step() -> None:
    """A burst is planned together, also on an idle replica."""
    run = simulate(Fleet(), [Call(7, 10, 1, 1)] * 5)
    assert set(run.table.scheduled_ns) == {7}
    assert len(set(run.table.first_token_ns)) == 1


def test_a_call_no_replica_could_hold_is_refused() -> None:
    with pytest.raises(InputError, match="call 0: 100 \\+ 61 tokens need 11 blocks"):
        simulate(Fleet(limits=Limits(blocks=10)), [Call(0, 100, 61, 61)])
    uncut = Limits(max_num_batched_tokens=50, max_num_seqs=2, chunked=False)
    with pytest.raises(InputError, match="call 0: 51 tokens do not fit in one step of 50"):
        simulate(Fleet(limits=uncut), [Call(0, 50, 1, 1)])
    run = simulate(Fleet(limits=Limits(blocks=10)), [Call(0, 100, 60, 60)])
    assert summary(run)["utilisation"]["kv_peak"] == 1.0
