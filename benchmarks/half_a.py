"""Half A of the lab: simulated endpoints at six loads, and what a client and the scheduler know of
their calls. Estimators are tuned on it and on nothing else; half B has other endpoints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, hypot
from random import Random
from statistics import fmean, median
from typing import Literal

from benchmarks.uneven import UnevenCost, uneven
from latscope.attribution.learn import learn_from
from latscope.attribution.observe import EARLY_STEPS, Observation, jitter2
from latscope.attribution.profile import Profile
from latscope.sim.fleet.arrivals import Workload, drawn
from latscope.sim.fleet.engine import Cost, Fleet, Run, simulate
from latscope.sim.fleet.recordings import WRITE, sampled
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity
from latscope.units import MS, US, Ns

LOADS = (0.1, 0.2, 0.5, 0.8, 0.95, 1.1)
PROBES = 0.02
"""Load of spaced single calls: hardly any two of them meet."""
CALLS, SAMPLE, PROBED = 450, 300, 60
FRONT: Ns = 3 * MS
WRITING: Ns = WRITE // 2
"""From a request's headers written to its body written, as recordings of the simulator have it."""
WAYS: tuple[Ns, ...] = (0, 300 * US, MS, 3 * MS)
"""Mean lateness of tokens on their way, an endpoint each in turn."""
QUICKEST = -1.645
"""Standard deviations from the middle beyond which one in twenty is: a floor's quantile."""
JITTER = (1.5, 1.0 * MS)
"""Shape and scale of the gamma-distributed lateness of a way that shows no response head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One endpoint: what its steps cost, what fits in one, and what it is asked. scatter, drift,
    bursts: how uneven its steps are (see `uneven`)."""

    name: str
    cost: Cost
    budget: int
    places: int
    prompt: int
    spread: float
    output: int
    prefixes: int = 0
    prefix_tokens: int = 512
    depth: Literal[1, 2] = 1
    """2: the next step is planned while one runs, so being scheduled is not yet being computed."""
    replicas: int = 1
    scatter: float = 0.0
    drift: float = 0.0
    bursts: float = 0.0

    @property
    def fleet(self) -> Fleet:
        return self.drawn(0)

    def drawn(self, seed: int) -> Fleet:
        """The servers, where their steps are uneven in the course that the seed draws."""
        limits = Limits(
            max_num_seqs=self.places, max_num_batched_tokens=self.budget, depth=self.depth
        )
        cost = self.cost
        if self.scatter:
            course = (self.scatter, self.drift, self.bursts)
            factors = uneven(f"{self.name}:{seed}", *course)
            even = {name: getattr(cost, name) for name in Cost.__dataclass_fields__}
            cost = UnevenCost(**even, factors=factors)
        return Fleet(limits=limits, cost=cost, replicas=self.replicas, routing="least-loaded")

    def workload(self, seed: int, rate: float, calls: int = CALLS) -> Workload:
        return Workload(
            seed=seed,
            calls=calls,
            rate=rate,
            prompt=self.prompt,
            prompt_spread=self.spread,
            output=self.output,
            output_spread=0.4,
            prefixes=self.prefixes,
            prefix_tokens=self.prefix_tokens,
        )


def _cost(step: float, prefill: float, attention: float, decode: float, kv: float) -> Cost:
    """In ms, us, ns, us, ns."""
    return Cost(
        step=step * MS, prefill=prefill * US, attention=attention, decode=decode * US, kv=kv
    )


WORLDS = (
    World(name="gpu8b", cost=Cost(), budget=2048, places=128, prompt=512, spread=0.7, output=96),
    World(
        name="gpu8b-512",
        depth=2,
        cost=Cost(),
        budget=512,
        places=64,
        prompt=400,
        spread=0.9,
        output=80,
    ),
    World(
        name="rag",
        cost=Cost(),
        budget=2048,
        places=96,
        prompt=1500,
        spread=0.6,
        output=64,
        prefixes=4,
    ),
    World(
        name="big",
        depth=2,
        cost=_cost(22, 160, 3.0, 60, 90),
        budget=2048,
        places=64,
        prompt=600,
        spread=0.8,
        output=100,
    ),
    World(
        name="slow",
        cost=_cost(40, 400, 2.0, 200, 100),
        budget=1024,
        places=32,
        prompt=300,
        spread=0.7,
        output=60,
        prefixes=3,
        prefix_tokens=256,
    ),
    World(
        name="chat",
        depth=2,
        cost=_cost(10, 60, 1.5, 30, 60),
        budget=4096,
        places=128,
        prompt=300,
        spread=1.0,
        output=160,
        prefixes=6,
        prefix_tokens=384,
    ),
    World(
        name="edge",
        cost=_cost(15, 250, 8.0, 400, 250),
        budget=1024,
        places=16,
        prompt=250,
        spread=0.8,
        output=50,
    ),
    World(
        name="wide",
        depth=2,
        cost=_cost(8, 45, 1.2, 25, 70),
        budget=8192,
        places=256,
        prompt=900,
        spread=0.9,
        output=64,
        prefixes=2,
        prefix_tokens=1024,
    ),
    World(
        name="batch",
        cost=Cost(),
        budget=8192,
        places=256,
        prompt=500,
        spread=0.8,
        output=80,
    ),
    World(
        name="fast",
        depth=2,
        cost=_cost(4, 12, 0.5, 10, 20),
        budget=2048,
        places=128,
        prompt=700,
        spread=0.9,
        output=80,
        prefixes=3,
        prefix_tokens=256,
    ),
    World(
        name="papers",
        depth=2,
        cost=_cost(18, 90, 1.2, 40, 60),
        budget=4096,
        places=96,
        prompt=3000,
        spread=0.5,
        output=80,
        replicas=2,
    ),
    World(
        name="books",
        cost=_cost(12, 75, 2.0, 30, 50),
        budget=2048,
        places=64,
        prompt=2200,
        spread=0.7,
        output=50,
    ),
    World(
        name="shared",
        depth=2,
        cost=_cost(7, 110, 8.0, 300, 100),
        budget=2048,
        places=4,
        prompt=600,
        spread=1.1,
        output=30,
        scatter=0.1,
        drift=0.1,
    ),
    World(
        name="warm",
        depth=2,
        cost=_cost(14, 70, 1.0, 40, 60),
        budget=2048,
        places=64,
        prompt=800,
        spread=0.9,
        output=80,
        scatter=0.05,
        drift=0.05,
    ),
    World(
        name="desk",
        cost=_cost(6, 150, 20.0, 500, 200),
        budget=4096,
        places=2,
        prompt=500,
        spread=1.2,
        output=25,
        scatter=0.2,
        drift=0.1,
    ),
    World(
        name="crowd",
        cost=_cost(9, 40, 1.0, 25, 50),
        budget=4096,
        places=128,
        prompt=1000,
        spread=0.8,
        output=70,
        scatter=0.12,
    ),
    World(
        name="tenant",
        depth=2,
        cost=_cost(12, 180, 10.0, 300, 100),
        budget=2048,
        places=8,
        prompt=700,
        spread=1.0,
        output=40,
        scatter=0.05,
        drift=0.05,
        bursts=0.15,
    ),
    World(
        name="laptop",
        cost=_cost(30, 500, 15.0, 900, 200),
        budget=2048,
        places=3,
        prompt=400,
        spread=1.1,
        output=30,
        scatter=0.03,
        drift=0.03,
        bursts=0.1,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A call as its client would observe it, and the truth: queue and prefill, what prefill takes
    on an idle engine, and the whole call, ns."""

    row: Observation
    queue_ns: Ns
    prefill_ns: Ns
    floor_ns: Ns
    e2e_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The calls of one endpoint at one load, and the profile they are judged by. how: where that
    profile comes from: `traffic`, `calm`, `probed`, each also with `-sent`."""

    world: str
    load: float
    how: str
    profile: Profile
    calls: tuple[Known, ...]


def known_calls(world: World, run: Run, way: Ns = 0) -> Iterator[Known]:
    """The traced calls of a run; way: mean lateness of a token on its way. The observation is what
    `observe` makes of the call's recording (a test compares them); going through text for it would
    take a hundred times as long."""
    table = run.table
    for number in run.traced:
        tokens = _late(run.tokens[number], way, Random(f"{number}:way"))
        late = tokens[0] - run.tokens[number][0]
        queue = table.scheduled_ns[number] - table.arrival_ns[number]
        prefill = table.first_token_ns[number] - table.scheduled_ns[number]
        cached = table.cached_tokens[number]
        uncached = table.prompt_tokens[number] - cached
        yield Known(
            row=_row(table.arrival_ns[number], uncached, cached, queue + prefill + late, tokens),
            queue_ns=queue,
            prefill_ns=prefill,
            floor_ns=_idle_ns(world, uncached, cached),
            e2e_ns=table.last_token_ns[number] - table.arrival_ns[number],
        )


def _late(tokens: Sequence[Ns], way: Ns, dice: Random) -> list[Ns]:
    """The tokens as they arrive, in order, each late by chance."""
    found: list[Ns] = []
    for at in tokens:
        late = round(dice.expovariate(1 / way)) if way else 0
        found.append(max(at + late, found[-1] if found else 0))
    return found


def _row(arrival: Ns, uncached: int, cached: int, engine: Ns, tokens: Sequence[Ns]) -> Observation:
    gaps = [after - before for before, after in pairwise(tokens)]
    paced = len(gaps) >= 4
    near = gaps[:EARLY_STEPS]
    return Observation(
        key=("http://fleet.internal:8000/v1/chat/completions", "fleet", "chat"),
        at_s=arrival / 1e9,
        uncached=uncached,
        cached=cached,
        sent_ns=engine + WRITING,
        headers_ns=engine,
        head_ns=WRITING,
        step_ns=round(median(gaps)) if paced else None,
        context=uncached + cached + len(tokens) // 2,
        rtt_ns=20 * MS,
        tokens_per_chunk=1.0,
        in_flight=None,
        early_ns=round(fmean(near)) if paced else None,
        jitter2=jitter2(gaps),
        server="uvicorn",
    )


def _idle_ns(world: World, uncached: int, cached: int) -> Ns:
    """What the prompt takes alone, on an uneven machine in its quickest hours."""
    cost, total, done = world.cost, 0.0, cached
    while done < cached + uncached:
        count = min(world.budget, cached + uncached - done)
        pairs = count * done + count * (count + 1) / 2
        total += cost.step + cost.prefill * count + cost.attention * pairs
        done += count
    return round(total * exp(QUICKEST * hypot(world.scatter, world.drift)))


def _headless(call: Known, dice: Random) -> Known:
    """The same call where no response head tells when the engine got it."""
    late = round(dice.gammavariate(*JITTER))
    sent = (call.row.sent_ns or 0) + FRONT + late
    row = replace(call.row, sent_ns=sent, headers_ns=None, head_ns=None)
    return replace(call, row=row, queue_ns=call.queue_ns + FRONT, floor_ns=call.floor_ns + FRONT)


def cells(world: World, seed: int) -> list[Cell]:
    """Everything that is judged at one endpoint: loads, profiles, anchors."""
    most = capacity(world.fleet, drawn(world.workload(seed, 1.0, 400)))

    def served(load: float, calls: int, sample: int) -> tuple[Known, ...]:
        trace = sampled(calls, sample, seed)
        workload = world.workload(seed, load * most, calls)
        run = simulate(world.drawn(seed), drawn(workload), trace=trace)
        return tuple(known_calls(world, run, WAYS[(seed + WORLDS.index(world)) % len(WAYS)]))

    probes = served(PROBES, PROBED, PROBED)
    loads = {load: served(load, CALLS, SAMPLE) for load in LOADS}
    dice = Random(f"{seed}:{world.name}")
    without = {load: tuple(_headless(call, dice) for call in loads[load]) for load in LOADS}
    bare = tuple(_headless(call, dice) for call in probes)
    return [
        *_judged(world.name, "", loads, probes),
        *_judged(world.name, "-sent", without, bare),
    ]


def _judged(
    name: str, anchor: str, loads: dict[float, tuple[Known, ...]], probes: tuple[Known, ...]
) -> Iterator[Cell]:
    probed = replace(learn_from(call.row for call in probes), provenance="probed", residuals={})
    profiles = {load: learn_from(call.row for call in calls) for load, calls in loads.items()}
    calm = profiles[LOADS[0]]
    for load, calls in loads.items():
        found = {"traffic": profiles[load], "calm": calm, "probed": probed}
        if profiles[load] is calm:
            del found["calm"]
        for how, profile in found.items():
            yield Cell(world=name, load=load, how=how + anchor, profile=profile, calls=calls)
