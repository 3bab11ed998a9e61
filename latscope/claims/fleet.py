"""The claims on the fleet simulator: batches, queues and chunked prefill under known truth.

Four small experiments, each deterministic by seed: calls one at a time; batches of growing size;
rising load, on a server with few places and on two where a step is shared by more; recorded calls
of a loaded server, seen as a client sees them. What the KV cache saves is measured against the same
server with the cost of reading a token set to that of computing it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from statistics import fmean, median

from latscope.claims import judge
from latscope.claims.calls import Observed, observe
from latscope.claims.fit import Point, quotient, ratio, slope, span
from latscope.claims.model import TEACHING_RATIO, Row, row
from latscope.claims.observed import steps
from latscope.claims.words import change, digits, percent, said, time
from latscope.sim.fleet import recordings as recorded
from latscope.sim.fleet.arrivals import Call, Workload, drawn
from latscope.sim.fleet.engine import Cost, Fleet, Run, simulate
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity, summary
from latscope.units import MS, Ns, S

APART: Ns = 600 * S
"""Between calls that must not meet: far longer than any of them takes."""
PROMPTS = (128, 256, 512, 1024, 1536)
OUTPUTS = (8, 32, 128, 256)
"""Every prompt meets every output; all fit the step's token budget of 2,048."""
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LOADS = (0.2, 0.5, 0.8, 0.95, 1.1)
REPEATS = 5
"""Runs of each load or batch, each with its own seed: the points the intervals rest on, since calls
of one run share its queue."""
PEAK = 0.95
SAMPLE = 60
RTT: Ns = 20 * MS
PATH_LOAD = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A server and its traffic; name: as notes call it."""

    name: str
    limits: Limits
    workload: Workload


FEW_PLACES = Setting(name="8 places", limits=Limits(max_num_seqs=8), workload=Workload(calls=300))
"""Calls wait for a place, and the batch is never large enough to slow a step."""

SHARED = (
    Setting(
        name="long prompts (2,048) in chunks of 256",
        limits=Limits(max_num_seqs=8, max_num_batched_tokens=256),
        workload=Workload(calls=300, prompt=2048, prompt_spread=0.3, output=64),
    ),
    Setting(name="256 places", limits=Limits(), workload=Workload(calls=600)),
)
"""Servers on which waiting calls are let in instead: a step then holds other calls' prefill, or
ever more decodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One run at a load, in ms: mean TTFT and queue, median step."""

    load: float
    ttft: float
    queue: float
    itl: float


def rows(seed: int = 0, tell: Callable[[str], None] = lambda about: None) -> Iterator[Row]:
    """tell: gets a few words on what is simulated next."""
    tell("one call at a time")
    cached = _alone(Cost())
    plain = _alone(_without_cache(Cost()))
    yield _independent(cached)
    yield _cache_leaves(cached, plain)
    yield _grows(cached, plain)
    yield _removes(cached, plain)
    yield _ratio(cached)
    tell("batches")
    yield _batching(_batches(seed))
    tell("rising load")
    yield _queueing(seed)
    tell("recorded calls")
    run, calls = _seen(seed)
    yield _sum(run, calls)
    yield _steps(calls)


# -- one call at a time ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """A call that met no other: times in ms. context: tokens its median step read."""

    prompt: int
    output: int
    ttft: float
    step: float
    context: float


def _alone(cost: Cost) -> list[Alone]:
    grid = list(product(PROMPTS, OUTPUTS))
    calls = [
        Call(number * APART, prompt, output, output) for number, (prompt, output) in enumerate(grid)
    ]
    limits = Limits(caching=False)
    run = simulate(Fleet(limits=limits, cost=cost), calls, trace=range(len(calls)))
    return [
        Alone(
            prompt=prompt,
            output=output,
            ttft=(run.table.first_token_ns[number] - run.table.arrival_ns[number]) / MS,
            step=median(after - at for at, after in pairwise(run.tokens[number])) / MS,
            context=prompt + output / 2 - 1,
        )
        for number, (prompt, output) in enumerate(grid)
    ]


def _without_cache(cost: Cost) -> Cost:
    """A step that computes every token of the context again, as the source's fixture has it."""
    return replace(cost, decode=cost.prefill, kv=cost.prefill)


def _independent(calls: Sequence[Alone]) -> Row:
    points = [Point(x=call.output, y=call.ttft, group=call.prompt) for call in calls]
    found = slope(points)
    share = found and found.times(span(points) / median(point.y for point in points))
    note = (
        f"{OUTPUTS[0]} to {OUTPUTS[-1]} output tokens behind each of {len(PROMPTS)} prompts, one"
        " call at a time; longer answers of other calls do lengthen the queue"
    )
    verdict = judge.near(share, 0, judge.SAME)
    return row(
        "ttft-independent-of-output", "fleet", "ms TTFT per output token", found, verdict, note
    )


def _cache_leaves(cached: Sequence[Alone], plain: Sequence[Alone]) -> Row:
    found = ratio([Point(x=a.ttft, y=b.ttft) for a, b in zip(cached, plain, strict=True)])
    note = "one call at a time; under load steps without the cache take longer, and so do queues"
    verdict = judge.near(found, 1, judge.SAME)
    return row("cache-leaves-ttft", "fleet", "TTFT without over TTFT with", found, verdict, note)


def _grows(cached: Sequence[Alone], plain: Sequence[Alone]) -> Row:
    points, without = _step_points(cached), _step_points(plain)
    found, other = slope(points), slope(without)
    verdict = judge.both(judge.grows_linearly(points), judge.grows_linearly(without))
    ends = sorted(call.step for call in cached)
    note = (
        f"with the cache, steps {time(ends[0])} to {time(ends[-1])} over {digits(span(points))}"
        f" tokens; without it {said(other, time)} per token"
    )
    return row(
        "step-grows-with-context", "fleet", "ms a step per context token", found, verdict, note
    )


def _removes(cached: Sequence[Alone], plain: Sequence[Alone]) -> Row:
    found = quotient(_step_points(plain), _step_points(cached))
    ratios = sorted(b.step / a.step for a, b in zip(cached, plain, strict=True))
    note = (
        f"{said(found, digits)} is the ratio of the slopes, without over with; the"
        f" steps themselves are {ratios[0]:.1f} to {ratios[-1]:.1f} times as long, since a step has"
        " a fixed cost: both still read the history"
    )
    verdict = judge.above(found, judge.RECOMPUTES)
    return row("cache-removes-recomputation", "fleet", "ratio of slopes", found, verdict, note)


def _ratio(cached: Sequence[Alone]) -> Row:
    prefill = [Point(x=call.prompt, y=call.ttft, group=call.output) for call in cached]
    found, above, below = (
        quotient(prefill, _step_points(cached)),
        slope(prefill),
        slope(_step_points(cached)),
    )
    note = (
        f"{said(above, time)} to compute a token over {said(below, time)} to read one; the teaching"
        f" constant is {TEACHING_RATIO}"
    )
    verdict = judge.above(found, 1)
    unit = "prefill a token over decode a context token"
    return row("recompute-to-read-ratio", "fleet", unit, found, verdict, note)


def _step_points(calls: Sequence[Alone]) -> list[Point]:
    return [Point(x=call.context, y=call.step) for call in calls]


# -- batches --------------------------------------------------------------------------------------


def _batches(seed: int) -> list[tuple[int, float]]:
    """(calls at once, how long one of them takes in the median, ms), REPEATS times a size."""
    found = []
    for size, repeat in product(BATCHES, range(REPEATS)):
        workload = Workload(
            seed=seed + repeat, calls=size, prompt=32, output=128, output_spread=0.0
        )
        calls = [call._replace(at_ns=0) for call in drawn(workload)]
        run = simulate(Fleet(limits=Limits(max_num_seqs=size)), calls)
        found.append((size, median(run.table.last_token_ns) / MS))
    return found


def _batching(batches: Sequence[tuple[int, float]]) -> Row:
    found, verdict, note = judge.batching(batches)
    return row("batching-raises-throughput", "fleet", judge.ELASTICITY, found, verdict, note)


# -- load -----------------------------------------------------------------------------------------


def _runs(setting: Setting, seed: int, loads: Sequence[float]) -> list[Level]:
    """The same traffic at each load, as a share of what the server can do of it."""
    fleet, workload = Fleet(limits=setting.limits), replace(setting.workload, seed=seed)
    most = capacity(fleet, drawn(workload))
    return [
        _level(load, simulate(fleet, drawn(replace(workload, rate=load * most)))) for load in loads
    ]


def _level(load: float, run: Run) -> Level:
    table = run.table
    rows = list(zip(table.arrival_ns, table.scheduled_ns, table.first_token_ns, strict=True))
    return Level(
        load=load,
        ttft=fmean(first - at for at, _, first in rows) / MS,
        queue=fmean(scheduled - at for at, scheduled, _ in rows) / MS,
        itl=summary(run)["itl"]["p50_ns"] / MS,
    )


def _queueing(seed: int) -> Row:
    """The verdict is that of the server with few places: there calls wait for one, as the source
    has it. On the others the note says from which load on the step moves."""
    repeats = [_runs(FEW_PLACES, seed + repeat, LOADS) for repeat in range(REPEATS)]
    found = slope(
        [
            Point(x=level.load, y=level.ttft, group=repeat)
            for repeat, levels in enumerate(repeats)
            for level in levels
        ]
    )
    ends = [(levels[0], levels[LOADS.index(PEAK)]) for levels in repeats]
    excess = ratio([Point(x=quiet.ttft, y=busy.ttft - quiet.ttft) for quiet, busy in ends])
    moved = ratio([Point(x=quiet.itl, y=busy.itl - quiet.itl) for quiet, busy in ends])
    share = ratio(
        [Point(x=busy.ttft - quiet.ttft, y=busy.queue - quiet.queue) for quiet, busy in ends]
    )
    note = (
        f"{FEW_PLACES.name}: at load {PEAK} TTFT {said(excess, change)},"
        f" {said(share, percent)} of the excess is queue, ITL p50 {said(moved, change)}"
    )
    for setting in SHARED:
        note += _breaks(setting.name, _runs(setting, seed, LOADS[: LOADS.index(PEAK) + 1]))
    return row(
        "queueing-dominates-ttft-at-peak",
        "fleet",
        "ms TTFT per unit of load",
        found,
        judge.peak(excess, moved, share),
        note,
    )


def _breaks(name: str, levels: Sequence[Level]) -> str:
    """From which load on the step moves by more than it may; empty when it never does."""
    quiet, peak = levels[0], levels[-1]
    for level in levels[1:]:
        if level.itl / quiet.itl - 1 > judge.ITL_MOVES:
            share = (peak.queue - quiet.queue) / (peak.ttft - quiet.ttft)
            return (
                f"; breaks with {name}: ITL p50 {change(level.itl / quiet.itl - 1)} at load"
                f" {level.load}, and at {peak.load} {percent(share)} of the excess is queue"
            )
    return ""


# -- what a client sees ---------------------------------------------------------------------------


def _seen(seed: int) -> tuple[Run, list[tuple[int, Observed]]]:
    """A loaded run, and some of its calls with their numbers as a client RTT away records them."""
    fleet = Fleet(limits=FEW_PLACES.limits)
    workload = replace(FEW_PLACES.workload, seed=seed)
    workload = replace(workload, rate=PATH_LOAD * capacity(fleet, drawn(workload)))
    trace = recorded.sampled(workload.calls, SAMPLE, seed)
    run = simulate(fleet, drawn(workload), trace=trace)
    seen = []
    for number in run.traced:
        call = observe(recorded.recording(run, number, recorded.Path(rtt_ns=RTT)))
        assert call is not None, "a simulated call is always complete"
        seen.append((number, call))
    return run, seen


def _sum(run: Run, calls: Sequence[tuple[int, Observed]]) -> Row:
    table = run.table
    points = []
    for number, call in calls:
        truth = table.first_token_ns[number] - table.arrival_ns[number] + RTT
        points.append(Point(x=truth, y=call.first_token_ns))
    found = ratio(points)
    rest = median(point.y - point.x for point in points) / MS
    note = (
        f"{len(calls)} calls at load {PATH_LOAD}, {time(RTT / MS)} away: what the client saw over"
        f" the truth of the three; the rest, {time(rest)}, is the client's own"
    )
    verdict = judge.near(found, 1, judge.SAME)
    return row("ttft-is-queue-prefill-network", "fleet", "TTFT over the sum", found, verdict, note)


def _steps(calls: Sequence[tuple[int, Observed]]) -> Row:
    found, verdict, seen = steps([call for _, call in calls])
    note = f"{seen}; at load {PATH_LOAD} other calls' prefill makes some steps longer"
    return row("e2e-is-ttft-plus-steps", "fleet", "E2E over the sum", found, verdict, note)
