"""The grid: a product of the features that matter most, the others dealt over it by seed.

AXES names every feature and its levels; a level is what it changes in a case. The first three are
multiplied out; the rest is dealt, and every pair of levels of any two features meets somewhere (a
test counts them).
A row that makes no sense (llama.cpp's timings on Anthropic's API) is left out, and so is one that
belongs to a known shortcoming (`findings`), which has its own test.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from random import Random
from typing import Any, TypeAlias

from tests.worlds.case import Case, Client, Failed, Path, Server
from tests.worlds.findings import beyond, shortcomings
from tests.worlds.world import build

Level: TypeAlias = Mapping[str, Any]
"""Which part of a case (`case`, `server`, `path`, `client`) gets which fields: `server.queue`."""

Row: TypeAlias = dict[str, str]
"""A level's name by axis."""

DEALS = 2
"""How often the other features are dealt over each row of the product."""

TRIES = 12
"""How often a deal that makes no sense, or that meets a known shortcoming, is dealt again."""

AXES: Mapping[str, Mapping[str, Level]] = {
    "shape": {
        "plain": {},
        "quick": {"server.tokens": 6, "server.step": 4.0},
        "slow": {"server.tokens": 8, "server.step": 70.0, "server.jitter": 0.05},
        "one": {"server.tokens": 1},
        "speculative": {"server.burst": 3, "server.tokens": 18},
        "interval": {"server.interval": 4, "server.tokens": 17},
        "uneven": {"server.jitter": 0.9, "server.tokens": 14},
        "paused": {"server.pauses": ((5, 400.0),)},
        "preempted": {"server.pauses": ((3, 150.0), (9, 900.0))},
        "hidden": {"server.hidden": 12, "server.tokens": 8},
        "reasoning": {"server.reasoning": 6, "server.tokens": 8},
        "tools": {"server.tools": 2, "server.pauses": ((2, 600.0), (6, 350.0))},
        "body": {"case.stream": False},
    },
    "path": {
        "direct": {},
        "jittery": {"path.delivery": 24.0},
        "late request": {"path.there": 22.0},
        "routed": {"path.far": True, "path.rtt": 45.0, "path.delivery": 12.0},
        "lost": {"path.stalls": ((2, 260.0),), "path.rtt": 20.0},
        "lost first": {"path.stalls": ((0, 300.0),)},
        "late first": {"path.stalls": ((0, 115.0),)},
        "lost last": {"path.stalls": ((-1, 300.0),)},
        "hop": {"path.hop": "pass", "path.rtt": 8.0},
        "time quantum": {"path.hop": "time", "path.quantum_ms": 90.0},
        "byte quantum": {"path.hop": "bytes", "path.quantum_bytes": 1024},
        "all at end": {"path.hop": "all", "path.holds_head": True},
        "cork": {"path.hop": "cork", "path.holds_head": True},
        "late flush": {"path.hop": "late", "path.quantum_ms": 220.0},
        "unannounced all": {"path.hop": "all", "path.announced": False},
        "unannounced quantum": {"path.hop": "time", "path.announced": False},
        "unannounced cork": {"path.hop": "cork", "path.announced": False},
    },
    "ending": {
        "complete": {},
        "no done": {"case.ending": "no_done"},
        "cut": {"case.ending": "cut", "case.at": 5},
        "cut at once": {"case.ending": "cut", "case.at": 0},
        "error": {"case.ending": "error", "case.at": 4},
        "error at once": {"case.ending": "error", "case.at": 0},
        "stopped early": {"case.ending": "cancelled", "case.at": 70.0},
        "stopped": {"case.ending": "cancelled", "case.at": 180.0},
        "timed out": {"case.ending": "timeout", "case.at": 90.0},
        "refused": {"case.ending": "refused", "case.status": 400},
        "limited": {"case.ending": "refused", "case.status": 429},
        "failed": {"case.ending": "refused", "case.status": 500},
    },
    "reports": {
        "none": {},
        "uncounted": {"server.usage": False},
        "vllm": {"server.reports": "vllm"},
        "llama": {"server.reports": "llama"},
    },
    "api": {
        "chat": {},
        "by hand": {"case.literal": True},
        "completions": {"case.api": "completions"},
        "responses": {"case.api": "responses"},
        "messages": {"case.api": "messages"},
    },
    "load": {
        "idle": {"server.queue": 0.3, "server.prefill": 25.0},
        "long prompt": {"server.queue": 2.0, "server.prefill": 700.0},
        "queued": {"server.queue": 800.0, "server.prefill": 60.0},
        "even": {},
        "front end": {"server.frontend": 300.0},
    },
    "head": {
        "early": {},
        "slot": {"server.headers": "slot"},
        "token": {"server.headers": "token"},
    },
    "role": {"first": {}, "early": {"server.role": "early"}},
    "pings": {"none": {}, "often": {"server.pings": 35.0}},
    "end": {"at once": {}, "later": {"server.tail": 6.0}},
    "connection": {
        "new": {},
        "reused": {"client.connect": None},
        "tls": {"client.connect": 3.0, "client.tls": 5.0},
        "pool": {"client.pool": 120.0},
    },
    "upload": {
        "small": {},
        "late stamp": {"client.late_stamp": 20.0},
        "large": {"client.upload": 90.0, "client.body": 3_000_000},
        "large, late": {"client.upload": 60.0, "client.body": 900_000, "client.late_stamp": 20.0},
        "unknown": {"client.body": None},
    },
    "consumer": {
        "prompt": {},
        "chunk by chunk": {"client.coalesce": False},
        "slow": {"client.consumer": 15.0},
        "slower": {"client.consumer": 60.0, "client.coalesce": False},
    },
    "kernel": {"known": {}, "silent": {"path.known": False}},
    "retries": {
        "none": {},
        "limited": {"case.retries": (Failed(retry_after=0.05),)},
        "failed": {"case.retries": (Failed(status=500), Failed(status=503, retry_after=0.5))},
        "unreachable": {"case.retries": (Failed(status=None), Failed(status=529))},
    },
}


CELLS = tuple(product(AXES["shape"], AXES["path"]))


def case_of(row: Row, seed: int = 0) -> Case:
    """The case of one level an axis; an axis the row leaves out stays at its default."""
    parts: dict[str, dict[str, Any]] = {"case": {}, "server": {}, "path": {}, "client": {}}
    for axis, level in row.items():
        for name, value in AXES[axis][level].items():
            part, _, field = name.partition(".")
            parts[part][field] = value
    return replace(
        Case(seed=seed),
        server=replace(Server(), **parts["server"]),
        path=replace(Path(), **parts["path"]),
        client=replace(Client(), **parts["client"]),
        **parts["case"],
    )


def sensible(case: Case) -> bool:
    """Whether a server could behave so."""
    server = case.server
    chat = case.api in ("chat", "completions")
    rules = (
        server.reports != "llama" or chat,
        server.reports != "vllm" or case.api != "messages",
        server.usage or (chat and case.stream),
        case.ending != "no_done" or (case.api == "chat" and case.stream),
        case.stream or case.ending != "error",
        case.stream or case.api != "completions" or not server.reasoning,
        not case.literal or (case.api == "chat" and case.stream),
        not case.literal or not (server.reasoning or server.tools),
        case.ending != "timeout" or not case.client.consumer,  # a reader that reads times out
        not case.literal or case.ending not in ("error", "refused"),
    )
    return all(rules)


@cache
def grid() -> tuple[tuple[Row, Case], ...]:
    """Every row of the grid, each with its case. The same every time."""
    return tuple(pair for shape, path in CELLS for pair in cell(shape, path)) + rare()


@cache
def cell(shape: str, path: str) -> tuple[tuple[Row, Case], ...]:
    """The rows of one shape of answer on one path: every ending, `DEALS` times."""
    random = Random(f"{shape} {path}")
    core = [{"shape": shape, "path": path, "ending": ending} for ending in AXES["ending"]]
    return tuple(pair for row in core for _ in range(DEALS) for pair in deal(row, random))


@cache
def rare() -> tuple[tuple[Row, Case], ...]:
    """Rows for the pairs of levels that no cell holds, as far as there are any."""
    met = {pair for shape, path in CELLS for row, _ in cell(shape, path) for pair in pairs(row)}
    random = Random("rare")
    found: list[tuple[Row, Case]] = []
    for one, other in combinations(AXES, 2):
        for levels in product(AXES[one], AXES[other]):
            pair = dict(zip((one, other), levels, strict=True))
            if not met.isdisjoint(pairs(pair)):
                continue
            found += deal(pair, random)
            met.update(pairs(found[-1][0]) if found else ())
    return tuple(found)


def pairs(row: Row) -> Iterator[tuple[tuple[str, str], ...]]:
    """Its levels, two at a time, in the order of the axes."""
    return combinations([(axis, row[axis]) for axis in AXES if axis in row], 2)


def deal(row: Row, random: Random) -> Iterator[tuple[Row, Case]]:
    """At most one row: the first deal that makes sense and meets no known shortcoming."""
    rest = [axis for axis in AXES if axis not in row]
    for _ in range(TRIES):
        dealt = row | {axis: random.choice(list(AXES[axis])) for axis in rest}
        case = case_of(dealt, seed=random.randrange(1 << 30))
        if not sensible(case):
            continue
        world = build(case)
        if not beyond(world) and not shortcomings(world):
            yield dealt, case
            return
