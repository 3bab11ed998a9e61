"""The cells: servers, traffic and paths of half B, each one regime.

Half A, on which thresholds and residuals were made, is `benchmarks/intervals.py`'s. Half B differs
from it in everything a user's own endpoint would differ in: seeds, what a step costs, the token
budget, the path, the prompts. A cell's calls are of one load: a history with quiet hours in it is
easier, and not what is scored.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product

from latscope.recording import Recording
from latscope.sim.fleet.arrivals import Workload, drawn
from latscope.sim.fleet.engine import Cost, Fleet, simulate
from latscope.sim.fleet.recordings import Path, recordings, sampled
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity
from latscope.units import MS, US

SCORED = 300
"""Calls scored in a cell; as many others of the same run teach its profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One regime. load: arrivals as a share of capacity; the rest describes server, traffic, path.
    calls: of the run, the first tenth of which is left out as warming up."""

    name: str
    load: float
    fleet: Fleet
    traffic: Workload
    path: Path
    calls: int = 1000


SERVERS: dict[str, Fleet] = {
    # A 3-billion-parameter model on a small card; a budget that cuts long prompts.
    "small": Fleet(
        limits=Limits(max_num_seqs=64, max_num_batched_tokens=1024, blocks=6_000),
        cost=Cost(step=9 * MS, prefill=55 * US, attention=2.5, decode=35 * US, kv=30.0),
    ),
    # A large model on many cards, two replicas, long steps.
    "large": Fleet(
        limits=Limits(max_num_seqs=128, max_num_batched_tokens=4096, blocks=20_000, depth=2),
        cost=Cost(step=22 * MS, prefill=70 * US, attention=0.8, decode=45 * US, kv=80.0),
        replicas=2,
        routing="least-loaded",
    ),
}

PROMPTS: dict[str, Workload] = {
    "chat": Workload(prompt=350, prompt_spread=0.9, output=120, output_spread=0.6),
    "documents": Workload(prompt=2_400, prompt_spread=0.6, output=60, output_spread=0.5),
    "agents": Workload(
        prompt=300, prompt_spread=0.8, output=90, output_spread=0.6, prefixes=4, prefix_tokens=1_536
    ),
}

PATHS: dict[str, Path] = {
    "near": Path(rtt_ns=MS, jitter_ns=100 * US),
    "far": Path(rtt_ns=74 * MS, jitter_ns=2 * MS),
}

LOADS = (0.15, 0.45, 0.75, 0.9, 1.15)


def cells(seed: int) -> Iterator[Cell]:
    """Every load with every server and kind of prompt; paths taken in turn."""
    paths = list(PATHS)
    grid = product(SERVERS, PROMPTS, LOADS)
    for number, (server, prompts, load) in enumerate(grid):
        path = paths[number % len(paths)]
        yield Cell(
            name=f"{server} {prompts} {load:g} {path}",
            load=load,
            fleet=SERVERS[server],
            traffic=replace(PROMPTS[prompts], seed=seed + number),
            path=PATHS[path],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A cell's recordings: those to learn from and those to score, never the same, from the same
    hours of the same server."""

    history: list[Recording] = field(default_factory=list)
    scored: list[Recording] = field(default_factory=list)


def served(cell: Cell) -> Served:
    """Runs the cell's server and draws its calls by seed."""
    traffic = replace(cell.traffic, calls=cell.calls)
    rate = cell.load * capacity(cell.fleet, drawn(traffic))
    warm = cell.calls // 10
    numbers = sampled(cell.calls - warm, 2 * SCORED, traffic.seed)
    run = simulate(
        cell.fleet, drawn(replace(traffic, rate=rate)), trace=[warm + number for number in numbers]
    )
    made = list(recordings(run, cell.path))
    return Served(history=made[::2], scored=made[1::2])
