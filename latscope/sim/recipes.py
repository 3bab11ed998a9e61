"""Traffic recipes: what their calls come to in a world without noise, and how half B is drawn.

`outcomes` runs every cell through the fleet's scheduler and adds the way there and back, so that
it is known of every call which segment was its largest. `balanced` weighs the cells by that: a
score over calls of which nearly all were decode would say little of the other segments.

Half A is written down in `fixtures/recipes`. Half B follows from the content of the frozen
estimator: whoever changes a threshold is scored on traffic nobody has looked at.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import Any, Literal, TypeAlias

from latscope.documents.recipes import LOADS, SCHEMA, Cell, Recipe, from_mapping
from latscope.errors import InputError
from latscope.sim.fleet.arrivals import Workload, drawn
from latscope.sim.fleet.engine import Cost, Fleet, simulate
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import capacity
from latscope.units import MS, Ns, S, ns_from_ms

Winner: TypeAlias = Literal["queue", "prefill", "decode", "network"]
WINNERS: tuple[Winner, ...] = ("queue", "prefill", "decode", "network")

LEAST = 0.15
"""Each winner's least share of the scored calls."""

TARGET = 0.18
"""What `balanced` stops at: the shares of a run with real noise differ a little from ours."""

HEAVIEST = 8.0
"""A call of the heaviest cell counts at most so many of the lightest."""

ROUNDS = 200
"""How often weights are mended before traffic is given up as one-sided."""

PROBE_CALLS = 400
"""How many calls at once tell what an engine can get done of a mix."""

BYTES_A_TOKEN, BYTES_A_CHUNK = 4, 180

RETRANSMIT: Ns = 200 * MS
"""Least time until a segment lost with none behind it is sent again."""

Outcomes: TypeAlias = Sequence["Counter[Winner]"]
"""For each cell in turn, how many of its calls each segment was the largest of."""


# -- what a recipe comes to -----------------------------------------------------------------------


def outcomes(recipe: Recipe, calls: int | None = None) -> Outcomes:
    """calls: of each cell, in the place of what it states. The same recipe, the same outcomes."""
    fleet = fleet_of(recipe)
    rates = {mix.name: capacity(fleet, drawn(workload(recipe, mix.name))) for mix in recipe.mixes}
    return [_winners(recipe, fleet, cell, rates[cell.mix], calls) for cell in recipe.cells]


def shares(cells: Sequence[Cell], found: Outcomes) -> dict[Winner, float]:
    """Each winner's share of the scored calls, weighted as the cells say."""
    counts = {
        winner: sum(c.weight * seen[winner] for c, seen in zip(cells, found, strict=True))
        for winner in WINNERS
    }
    return {winner: count / sum(counts.values()) for winner, count in counts.items()}


def balanced(recipe: Recipe, found: Outcomes) -> Recipe:
    """The recipe, its cells weighted so that every winner has its share.

    Raises InputError when no weights within reason do that."""
    cells = tuple(cell.model_copy(update={"weight": 1.0}) for cell in recipe.cells)
    seen = shares(cells, found)
    for _ in range(ROUNDS):
        if min(seen.values()) >= TARGET:
            return recipe.model_copy(update={"cells": cells})
        cells = _reweighted(cells, found, seen)
        seen = shares(cells, found)
    rare = min(seen, key=lambda winner: seen[winner])
    raise InputError(
        f"recipe {recipe.name}: {rare} wins in {seen[rare]:.0%} of scored calls at best"
    )


def _reweighted(
    cells: Sequence[Cell], found: Outcomes, seen: Mapping[Winner, float]
) -> tuple[Cell, ...]:
    """A cell gains by what it has of winners that are rare, and loses by those that are not."""
    lack = {winner: (1 / len(WINNERS)) / max(share, 1e-6) for winner, share in seen.items()}
    wanted = [
        cell.weight * min(sum(lack[w] * n for w, n in counts.items()) / counts.total(), 2.0) ** 0.5
        for cell, counts in zip(cells, found, strict=True)
    ]
    top = max(wanted)
    return tuple(
        cell.model_copy(update={"weight": round(max(weight / top * HEAVIEST, 1.0), 3)})
        for cell, weight in zip(cells, wanted, strict=True)
    )


def fleet_of(recipe: Recipe) -> Fleet:
    """The simulator's fleet of a recipe's engine."""
    engine, cost = recipe.engine, Cost()
    slow = {
        name: getattr(cost, name) * engine.slowness
        for name in ("step", "prefill", "attention", "decode", "kv")
    }
    return Fleet(
        limits=Limits(
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            blocks=engine.blocks,
        ),
        cost=replace(cost, **slow),
        replicas=engine.replicas,
        routing=engine.routing,
    )


def workload(recipe: Recipe, mix: str, *, calls: int = PROBE_CALLS, rate: float = 1.0) -> Workload:
    """The simulator's traffic of one of its mixes; rate: calls a second."""
    asked = next(part for part in recipe.mixes if part.name == mix)
    return Workload(
        seed=recipe.seed,
        calls=calls,
        rate=rate,
        pattern=asked.pattern,
        prompt=asked.prompt,
        prompt_spread=asked.prompt_spread,
        output=asked.output,
        output_spread=asked.output_spread,
        prefixes=asked.prefixes,
        prefix_tokens=asked.prefix_tokens,
    )


def _winners(
    recipe: Recipe, fleet: Fleet, cell: Cell, most: float, calls: int | None
) -> "Counter[Winner]":
    asked = workload(recipe, cell.mix, calls=calls or cell.calls, rate=cell.load * most)
    table = simulate(fleet, drawn(asked)).table
    random = Random(f"{recipe.seed}:{cell.mix}:{cell.load}:way")
    found: Counter[Winner] = Counter(dict.fromkeys(WINNERS, 0))
    for number in range(len(table)):
        row = table.row(number)
        parts: dict[Winner, Ns] = {
            "queue": row["scheduled_ns"] - row["arrival_ns"],
            "prefill": row["first_token_ns"] - row["scheduled_ns"],
            "decode": row["last_token_ns"] - row["first_token_ns"],
            "network": _way(recipe, cell, row["prompt_tokens"], row["output_tokens"], random),
        }
        found[max(WINNERS, key=lambda winner: parts[winner])] += 1
    return found


def _way(recipe: Recipe, cell: Cell, prompt: int, output: int, random: Random) -> Ns:
    """What of a call is network to its end: a new connection, the bodies at the link's rate, one
    round trip, a loss at its end, and a fault that keeps its end from coming. Holds within the
    stream, a hop's included, cost nothing to the end, for decode goes on behind them."""
    link, fault = recipe.link(cell), recipe.fault(cell)
    trips = 1 + (0 if link.reused else 1 + link.tls)
    way = ns_from_ms(link.rtt_ms * trips + random.uniform(0, link.jitter_ms))
    way += _carried(prompt * BYTES_A_TOKEN, link.up_mbit)
    chunk = BYTES_A_CHUNK if recipe.face(cell).stream else output * BYTES_A_TOKEN
    way += _carried(chunk, link.down_mbit)
    again = RETRANSMIT + ns_from_ms(link.rtt_ms)
    if random.random() < link.loss:
        way += again
    struck = fault.do != "none" and fault.when != "first" and random.random() < fault.share
    if struck:
        way += again if fault.do == "drop" else ns_from_ms(fault.ms)
    return way


def _carried(size: int, mbit: float | None) -> Ns:
    return 0 if mbit is None else round(size * 8 * S / (mbit * 1e6))


# -- half B ---------------------------------------------------------------------------------------


def seed_of(contents: Mapping[str, bytes]) -> str:
    """BLAKE2b of files by name, in hex: names and lengths count too, so no two sets collide by
    moving bytes from one file to the next."""
    digest = blake2b(digest_size=16)
    for name in sorted(contents):
        data = contents[name]
        digest.update(f"{len(name)}:{name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def half_b(contents: Mapping[str, bytes], count: int = 2) -> tuple[Recipe, ...]:
    """The recipes half B has for this estimator. contents: its files (`documents.recipes.frozen`).

    Everything is drawn from values half A does not have, but for the path without a hop and the
    absence of a fault. A draw that cannot be balanced is drawn again."""
    random = Random(seed_of(contents))
    return tuple(_drawn_b(f"b-{number}", random) for number in range(1, count + 1))


DRAWS = 20


def _drawn_b(name: str, random: Random) -> Recipe:
    for _ in range(DRAWS):
        recipe = from_mapping(_b(name, random), name)
        try:
            return balanced(recipe, outcomes(recipe))
        except InputError:
            continue
    raise InputError(f"recipe {name}: no draw of {DRAWS} can be balanced")


BUDGETS = (256, 384, 768, 1024, 4096)
SEQS = (12, 24, 48, 96)
PROXIES: Mapping[str, str] = {
    "envoy-default": "passes",
    "envoy-lua_body": "collected",
    "envoy-request_buffer": "passes",
    "caddy-default": "passes",
    "caddy-tls_h2": "passes",
    "nginx-gzip": "collected",
    "nginx-tls_h2": "passes",
    "haproxy-tls_h2": "passes",
}
"""What half B draws from; half A has other budgets, sizes and proxies (a test compares)."""


def _b(name: str, random: Random) -> dict[str, Any]:
    parts = {
        "mixes": _mixes(random),
        "links": _links(random),
        "hops": [
            {"name": "direct", "does": "passes"},
            *({"name": hop, "does": PROXIES[hop]} for hop in random.sample(sorted(PROXIES), 4)),
        ],
        "faults": _faults(random),
        "faces": _faces(random),
    }
    return {
        "schema": SCHEMA,
        "name": name,
        "half": "b",
        "seed": random.randrange(1 << 32),
        "story": "Drawn from the content of the estimator; for scoring only.",
        "engine": {
            "max_num_seqs": random.choice(SEQS),
            "max_num_batched_tokens": random.choice(BUDGETS),
            "replicas": random.choice((1, 1, 2)),
            "routing": random.choice(("round-robin", "least-loaded")),
            "slowness": round(random.uniform(0.6, 2.6), 2),
        },
        **parts,
        "cells": _cells(parts, random),
    }


def _between(random: Random, low: int, high: int) -> int:
    """Evenly drawn, and never a round figure: half A has only such."""
    return random.randint(low, high) // 10 * 10 + random.randint(1, 9)


def _mixes(random: Random) -> list[dict[str, Any]]:
    """One that writes much, one that reads much, one of short answers, one with shared prefixes."""
    prefixes = {"prefixes": random.randint(2, 9), "prefix_tokens": 16 * random.randint(17, 90)}
    return [
        {
            "name": "writes",
            "prompt": _between(random, 150, 700),
            "output": _between(random, 90, 300),
        },
        {"name": "reads", "prompt": _between(random, 3000, 7000), "output": random.randint(3, 7)},
        {"name": "brief", "prompt": _between(random, 60, 400), "output": random.randint(5, 14)},
        {
            "name": "shares",
            "prompt": _between(random, 100, 900),
            "output": _between(random, 40, 160),
            "pattern": random.choice(("poisson", "burst")),
            **prefixes,
        },
    ]


def _links(random: Random) -> list[dict[str, Any]]:
    return [
        {"name": "near", "rtt_ms": round(random.uniform(0.2, 4), 2), "jitter_ms": 0.3},
        {"name": "region", "rtt_ms": _between(random, 20, 60), "jitter_ms": 4.0, "tls": True},
        {
            "name": "far",
            "rtt_ms": _between(random, 110, 240),
            "jitter_ms": 9.0,
            "reused": False,
            "tls": True,
        },
        {
            "name": "narrow",
            "rtt_ms": _between(random, 40, 90),
            "loss": round(random.uniform(0.002, 0.02), 4),
            "up_mbit": round(random.uniform(0.3, 2), 2),
            "down_mbit": round(random.uniform(2, 12), 2),
            "reused": False,
        },
    ]


def _faults(random: Random) -> list[dict[str, Any]]:
    late = random.choice(("request", "last"))
    return [
        {"name": "none", "do": "none"},
        {"name": "hold", "do": "hold", "ms": _between(random, 250, 700), "when": "first"},
        {"name": "late-hold", "do": "hold", "ms": _between(random, 250, 700), "when": late},
        {"name": "blackout", "do": "blackout", "ms": _between(random, 150, 500), "when": "last"},
        {"name": "drop", "do": "drop", "packets": random.randint(1, 3), "share": 0.5},
    ]


def _faces(random: Random) -> list[dict[str, Any]]:
    return [
        {"name": "blind", "header_policy": random.choice(("early", "token"))},
        {"name": "tells", "metrics": "vllm", "api": random.choice(("chat", "responses"))},
        {"name": "slots", "metrics": "llama", "header_policy": "slot"},
        {"name": "chunks", "tokens_per_chunk": random.randint(2, 6)},
        {"name": "messages", "api": "messages"},
    ]


def _cells(parts: Mapping[str, list[dict[str, Any]]], random: Random) -> list[dict[str, Any]]:
    """Every mix at every load, each with its own deal of the rest; every part is dealt."""
    decks: dict[str, list[str]] = {}
    found = []
    for load in LOADS:
        for mix in parts["mixes"]:
            cell: dict[str, Any] = {"load": load, "mix": mix["name"]}
            for kind, one in (("links", "link"), ("hops", "hop"), ("faults", "fault")):
                cell[one] = _deal(decks, kind, parts, random)
            cell["face"] = _deal(decks, "faces", parts, random)
            found.append(cell)
    return found


def _deal(
    decks: dict[str, list[str]],
    kind: str,
    parts: Mapping[str, list[dict[str, Any]]],
    random: Random,
) -> str:
    """The next of a shuffled deck, which is shuffled anew when it is used up."""
    if not decks.get(kind):
        decks[kind] = [part["name"] for part in parts[kind]]
        random.shuffle(decks[kind])
    return decks[kind].pop()
