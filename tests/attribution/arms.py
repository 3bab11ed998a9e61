"""Probe calls of an endpoint whose costs are known, as samples: no server, no clock."""

from dataclasses import dataclass, replace
from random import Random

from latscope.attribution.arms import Sample
from latscope.units import MS, Ns

RTT: Ns = MS // 4
SHORT, MIDDLE, LONG = 128, 512, 1536


@dataclass(frozen=True, kw_only=True)
class World:
    """Costs in ms (per_token, cached: per prompt token; bend: per token squared). noise: of a call,
    one-sided and normal; queue: mean of an exponential wait; drift: added from the first call to
    the last. head: when it leaves. hold: a longer answer's first token comes so much later."""

    base: float = 20.0
    per_token: float = 0.1
    cached: float = 0.01
    bend: float = 0.0
    step: float = 12.0
    per_context: float = 0.0
    noise: float = 0.3
    queue: float = 0.0
    drift: float = 0.0
    head: str = "early"
    hold: float = 0.0
    paced: bool = True
    states_cache: bool = True
    hits: bool = True
    engine: str = ""
    blocks: int = 12
    seed: int = 1


PREFILL = (("short", SHORT), ("again", SHORT), ("middle", MIDDLE), ("long", LONG))
DECODE = (("one", SHORT, 1), ("many", SHORT, 32), ("many_again", SHORT, 32), ("whole", SHORT, 32),
          ("many_long", LONG, 32))  # fmt: skip


def run(world: World) -> list[Sample]:
    """Blocks of prefill, cache and decode in turn, a new connection and a crowd."""
    dice = Random(world.seed)
    rows: list[tuple[int, str, int, int, int]] = []
    for block in range(world.blocks):
        rows += [(3 * block, arm, tokens, 0, 1) for arm, tokens in PREFILL]
        hit = LONG - 16 if world.hits else 0
        rows += [(3 * block + 1, "fresh", LONG, 0, 1), (3 * block + 1, "repeated", LONG, hit, 1)]
        rows += [(3 * block + 1, "other", LONG, 0, 1)]
        rows += [(3 * block + 2, arm, tokens, 0, out) for arm, tokens, out in DECODE]
    rows += [(3 * world.blocks + at, "new", SHORT, 0, 1) for at in range(8)]
    return [
        _sample(world, dice, arm, block, tokens, cached, out, order, order / len(rows))
        for order, (block, arm, tokens, cached, out) in enumerate(rows)
    ]


def _sample(
    world: World,
    dice: Random,
    arm: str,
    block: int,
    tokens: int,
    cached: int,
    out: int,
    order: int,
    through: float,
) -> Sample:
    uncached = tokens - cached
    prefill = world.base + world.per_token * uncached + world.bend * uncached**2
    prefill += world.cached * cached + dice.gauss(0, world.noise) + world.drift * through
    queue = dice.expovariate(1 / world.queue) if world.queue else 0.0
    frontend = 2.0
    held = world.hold if out > 1 else 0.0
    first = frontend + queue + prefill + held
    head = {"early": frontend, "slot": frontend + queue, "token": first - 0.1}[world.head]
    step = world.step + world.per_context * (tokens + out / 2) + dice.gauss(0, 0.05)
    end = first - held + (out - 1) * step
    return Sample(
        arm=arm,
        block=block,
        order=order,
        uncached=uncached,
        cached=cached,
        output=out,
        first_ns=None if arm == "whole" else _ns(first),
        head_ns=_ns(head),
        end_ns=_ns(end),
        setup_ns=_ns(5 + dice.gauss(0, 0.1)) if arm == "new" else None,
        step_ns=step * MS if world.paced and out > 1 and arm != "whole" else None,
        tokens_per_chunk=1.0,
        rtt_ns=RTT,
        queue_ns=None,
        stated=True,
        cached_stated=world.states_cache,
        hidden_reasoning=False,
        engine=world.engine,
    )


def _ns(ms: float) -> Ns:
    """Seen from the client: one round trip more."""
    return round(ms * MS) + RTT


def crowd(world: World, samples: list[Sample], slots: int = 4, calls: int = 8) -> list[Sample]:
    """Calls of a middling prompt sent at once: those beyond the slots wait for one to be free."""
    alone = next(one for one in samples if one.arm == "middle")
    assert alone.first_ns is not None
    assert alone.head_ns is not None
    found = []
    for at in range(calls):
        wait = (at // slots) * alone.first_ns
        head = alone.head_ns + (wait if world.head == "slot" else 0)
        found.append(
            replace(
                alone,
                arm="crowd",
                block=10_000,
                order=10_000 + at,
                first_ns=alone.first_ns + wait,
                head_ns=head,
            )
        )
    return found
