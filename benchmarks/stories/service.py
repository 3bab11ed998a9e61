"""What became of each call: admission, caches that expire, and the fleet simulator's engine.

Admission is a token bucket in front of the engine: a quota counts our own calls by the tokens they
reserve (prompt and max_tokens), a crowded front end everybody's calls as one each. How fast it is
filled is set so that the wanted share of our calls is refused at first; who is refused, and how
often, follows. The engine is `latscope.sim.fleet`: vLLM's scheduler, step by step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from random import Random

from benchmarks.stories.traffic import OTHERS_OUTPUT, OTHERS_PROMPT, Ask, others
from benchmarks.stories.world import World
from latscope.sim.fleet.arrivals import Call, Workload, drawn
from latscope.sim.fleet.engine import Cost, Fleet, simulate
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity
from latscope.units import MS, Ns, S

FRONT: Ns = MS
"""From the request's last byte to the engine's queue."""
REFUSING: Ns = 3 * MS
"""What the front end takes to refuse."""
QUOTA_S, CROWD_S = 10.0, 2.0
"""How many seconds' worth a bucket holds."""
PROBES = 14
"""Halvings in which a bucket's rate is found."""
LONGEST_WAIT_S = 8
BLOCK = {True: 128, False: 16}
"""Tokens that a vendor, and vLLM, cache as one."""
LEAST_CACHED = 1024
"""Cached tokens below which a vendor states none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """at_ns: when it reached the client's server; status; wait_s: its Retry-After, null without."""

    at_ns: Ns
    status: int
    wait_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What became of a call. arrived: when it was in the engine's queue; through: when it was let
    in; tokens: when each existed, empty where it was refused to the end. left: the share of the
    quota that was left at each attempt."""

    ask: Ask
    refusals: tuple[Refusal, ...]
    arrived_ns: Ns
    through_ns: Ns = 0
    scheduled_ns: Ns = 0
    tokens: tuple[Ns, ...] = ()
    cached: int = 0
    left: tuple[float, ...] = ()


# -- admission -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Bucket:
    """Mutable: what is left, and when it was last looked at. rate: a second."""

    rate: float
    size: float
    left: float = 0.0
    at_ns: Ns = 0

    def __post_init__(self) -> None:
        self.left = self.size

    def takes(self, at_ns: Ns, cost: float) -> bool:
        self.left = min(self.size, self.left + (at_ns - self.at_ns) * self.rate / S)
        self.at_ns = at_ns
        if self.left < cost:
            return False
        self.left -= cost
        return True

    def wait_s(self, cost: float) -> int:
        """Whole seconds until so much is there."""
        return max(1, min(LONGEST_WAIT_S, ceil((cost - self.left) / self.rate)))


@dataclass(slots=True)
class _Passed:
    """Mutable: how a call fared at the gate."""

    refusals: list[Refusal] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    through_ns: Ns | None = None


def _gate(
    world: World,
    ours: Sequence[tuple[Ns, Ask]],
    theirs: Sequence[Call],
    rate: float,
    seed: str,
) -> tuple[list[_Passed], list[Call]]:
    """The calls through a bucket that fills at `rate`; those of the others it let in."""
    dice = Random(seed)
    by_tokens = world.refused > 0
    size = rate * (QUOTA_S if by_tokens else CROWD_S)
    if by_tokens:
        size = max(size, float(max((_reserved(ask) for _, ask in ours), default=0)))
    bucket = _Bucket(rate, max(size, 1.0))
    found = [_Passed() for _ in ours]
    let_in: list[Call] = []
    due: list[tuple[Ns, int, int]] = [(at, i, 0) for i, (at, _) in enumerate(ours)]
    if not by_tokens:
        due += [(call.at_ns, len(ours) + i, 0) for i, call in enumerate(theirs)]
    due.sort()
    while due:
        at, number, tried = heappop(due)
        mine = number < len(ours)
        cost = float(_reserved(ours[number][1])) if by_tokens else 1.0
        taken = bucket.takes(at, cost)
        if mine:
            found[number].left.append(bucket.left / bucket.size)
        if taken:
            if mine:
                found[number].through_ns = at
            else:
                let_in.append(theirs[number - len(ours)]._replace(at_ns=at))
            continue
        wait = bucket.wait_s(cost) if by_tokens else None
        if mine:
            found[number].refusals.append(
                Refusal(at_ns=at, status=429 if by_tokens else 503, wait_s=wait)
            )
        if tried < world.retries:
            heappush(
                due,
                (
                    at + REFUSING + _way(world) + sleep_ns(world, tried, wait, dice),
                    number,
                    tried + 1,
                ),
            )
    let_in.sort(key=lambda call: call.at_ns)
    return found, list(theirs) if by_tokens else let_in


def _way(world: World) -> Ns:
    return round(world.rtt_ms * MS)


def _reserved(ask: Ask) -> int:
    return ask.prompt + ask.cap


def sleep_ns(world: World, tried: int, wait_s: int | None, dice: Random) -> Ns:
    """How long a client sleeps after its attempt number `tried` was refused."""
    if world.hasty:
        return round(dice.uniform(0.1, 0.2) * S)
    if wait_s is not None:
        return wait_s * S
    slept = min(0.5 * 2.0**tried, 8.0) * (1 - 0.25 * dice.random())
    return round(slept * S)


def _admitted(
    world: World, ours: Sequence[tuple[Ns, Ask]], theirs: Sequence[Call], seed: str
) -> tuple[list[_Passed], list[Call]]:
    """The gate at the rate at which the wanted share of our calls is refused at first."""
    wanted = world.refused or world.crowded
    if not wanted:
        return [_Passed(left=[1.0], through_ns=at) for at, _ in ours], list(theirs)
    low, high = 0.01, 1e6
    for _ in range(PROBES * 2):
        middle = (low * high) ** 0.5
        found, _ = _gate(world, ours, theirs, middle, seed)
        share = sum(bool(one.refusals) for one in found) / len(found)
        low, high = (middle, high) if share > wanted else (low, middle)
    return _gate(world, ours, theirs, high, seed)


# -- the engine ------------------------------------------------------------------------------------


def _cost(slowness: float) -> Cost:
    plain = Cost()
    names = ("step", "prefill", "attention", "decode", "kv")
    return replace(plain, **{name: getattr(plain, name) * slowness for name in names})


def _fleet(world: World, cost: Cost) -> Fleet:
    return Fleet(
        limits=Limits(
            max_num_seqs=world.places,
            max_num_batched_tokens=world.budget,
            blocks=262_144 // BLOCK[world.vendor],
            block_size=BLOCK[world.vendor],
            caching=world.caching,
        ),
        cost=cost,
    )


def _rate(world: World, fleet: Fleet) -> float:
    """Calls a second of others that make up the world's load."""
    typical = Workload(seed=7, calls=120, prompt=OTHERS_PROMPT, output=OTHERS_OUTPUT, rate=1.0)
    return world.load * capacity(fleet, drawn(typical))


def served(world: World, ours: Sequence[tuple[Ns, Ask]], seed: str) -> list[Served]:
    """ours: when each call's request reaches the server, and the call; what became of them."""
    found: dict[int, Served] = {}
    for model in dict.fromkeys(ask.model for _, ask in ours):
        numbers = [i for i, (_, ask) in enumerate(ours) if ask.model == model]
        slow = world.swap_slowness if model != world.model else 1.0
        part = _served(world, [ours[i] for i in numbers], slow, f"{seed}:{model}")
        found.update(zip(numbers, part, strict=True))
    return [found[i] for i in range(len(ours))]


def _served(world: World, ours: Sequence[tuple[Ns, Ask]], slow: float, seed: str) -> list[Served]:
    cost = _cost(world.slowness * slow)
    plain = _fleet(world, cost)
    asked = [ask for _, ask in ours]
    dice = Random(f"{seed}:others")
    theirs = list(others(world, asked, _rate(world, plain), asked[0].model, dice))
    passed, theirs = _admitted(world, ours, theirs, f"{seed}:gate")
    through = sorted(
        (one.through_ns + FRONT, i) for i, one in enumerate(passed) if one.through_ns is not None
    )
    names = _names(world, [(at, asked[i]) for at, i in through])
    calls: list[tuple[Call, int | None]] = [(call, None) for call in theirs]
    for (at, i), (prefix, session) in zip(through, names, strict=True):
        calls.append((_call(asked[i], at, prefix, session), i))
    calls.sort(key=lambda row: row[0].at_ns)
    traced = {number: i for number, (_, i) in enumerate(calls) if i is not None}
    run = simulate(plain, [call for call, _ in calls], trace=traced.keys())
    pauses = Random(f"{seed}:pauses")
    found = [
        Served(
            ask=ask,
            refusals=tuple(one.refusals),
            arrived_ns=at,
            through_ns=one.through_ns or 0,
            left=tuple(one.left),
        )
        for (at, ask), one in zip(ours, passed, strict=True)
    ]
    for number, i in traced.items():
        cached = run.table.cached_tokens[number]
        found[i] = replace(
            found[i],
            arrived_ns=run.table.arrival_ns[number],
            scheduled_ns=run.table.scheduled_ns[number],
            tokens=_paused(world, run.tokens[number], pauses),
            cached=cached if not world.vendor or cached >= LEAST_CACHED else 0,
        )
    return found


def _paused(world: World, tokens: Sequence[Ns], dice: Random) -> tuple[Ns, ...]:
    """The tokens, those behind a pause later by it; the sequence's place in the batch is kept."""
    at, took = dice.randrange(1, max(2, len(tokens))), dice.uniform(*world.pause_s)
    if dice.random() >= world.pauses:
        return tuple(tokens)
    return (*tokens[:at], *(token + round(took * S) for token in tokens[at:]))


def _call(ask: Ask, at: Ns, prefix: str | None, session: str | None) -> Call:
    return Call(at, ask.prompt, ask.output, ask.cap, prefix, ask.shared if prefix else 0, session)


def _names(
    world: World, through: Sequence[tuple[Ns, Ask]]
) -> Iterator[tuple[str | None, str | None]]:
    """Under which names the engine finds a call's beginning and its session again: new ones once
    the cache has dropped what had the old."""
    used: dict[str, tuple[Ns, int]] = {}

    def name(kind: str, at: Ns) -> str:
        before, epoch = used.get(kind, (at, 0))
        if world.ttl_s is not None and at - before > world.ttl_s * S:
            epoch += 1
        used[kind] = (at, epoch)
        return f"{kind}@{epoch}"

    for at, ask in through:
        if ask.prefix is None:
            yield None, None
        else:
            yield name(ask.prefix, at), name(f"session {ask.session}", at)
