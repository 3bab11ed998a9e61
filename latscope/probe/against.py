"""`probe --against`: two targets asked the same, in pairs, and what differs between them.

A pair is one call to each, one right after the other, the order drawn anew each time: what drifts
in the machine or the network meets both alike and cancels out of the difference. Each call has a
fresh nonce of equal length, so that two ways to one server do not serve each other's cache.
Differences are always the second target's time less the first one's.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal, TypeAlias

from latscope.attribution.model import SEGMENTS, Attribution
from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.probe.run import HandOver, Load, Say, call, calling
from latscope.rules.stats import LEAST, LEVEL, Estimate, centre, theil_sen
from latscope.units import Ns, S

SCHEMA = "latscope.against/1"

Arm: TypeAlias = Literal["a", "b"]
ARMS: tuple[Arm, Arm] = ("a", "b")
WHOLES = ("ttft", "e2e")
AXES = ("body_bytes", "input_tokens", "output_tokens", "time_s")
"""What a difference may grow with; `time_s` is since the first pair."""

SPREAD = 0.1
"""Below this share of the largest, values of an axis are all the same: nothing can be seen in them.
A prompt's nonce alone makes it differ by a few tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One call of a pair. at_ns: when it began, on any one clock; body_bytes: the request's size,
    null when unknown; hops: response headers that name a hop on the way."""

    call: Attribution
    at_ns: int
    body_bytes: int | None
    hops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two calls sent one after the other. at_s: since the first pair."""

    a: Side
    b: Side
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """name: a segment, `ttft` or `e2e`. a_ns, b_ns: each target's median. by: b less a, by
    Hodges and Lehmann over the pairs, in ns."""

    name: str
    a_ns: Ns
    b_ns: Ns
    by: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How much a difference grows with each unit of an axis, in ns; null with the reason where
    the pairs cannot show it."""

    of: str
    along: str
    by: Estimate | None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """pairs: sent; used: of which both calls completed."""

    pairs: int
    used: int
    failed_a: int
    failed_b: int
    differences: tuple[Difference, ...]
    growth: tuple[Growth, ...]
    words: tuple[str, ...]


async def run_pairs(
    asks: tuple[Ask, Ask],
    load: Load,
    *,
    prompt: Callable[[int], str],
    hand_over: HandOver,
    say: Say,
    seed: int,
    rtt: RttProbe | None = None,
) -> tuple[Ask, Ask]:
    """Sends a warm-up to each, then `load.calls` pairs; gives the asks as they were accepted.

    prompt: of a pair's number (0 for the warm-ups), called once a call. Results carry the tags
    `arm` and `pair`.
    """
    orders = order(load.calls, seed)
    number = 0
    async with AsyncExitStack() as stack:
        callers = {
            arm: await stack.enter_async_context(
                calling(
                    ask,
                    load,
                    prompt=lambda: prompt(number),
                    hand_over=hand_over,
                    say=say,
                    rtt=rtt,
                )
            )
            for arm, ask in zip(ARMS, asks, strict=True)
        }
        for number in range(0 if load.warm_up else 1, load.calls + 1):
            for arm in orders[number]:
                callers[arm].tags = {"arm": arm, "pair": str(number)}
                await call(callers[arm], number)
    return callers["a"].ask, callers["b"].ask


def order(pairs: int, seed: int) -> list[tuple[Arm, Arm]]:
    """Which goes first in each pair, the warm-ups being pair 0: as often the one as the other,
    give or take one, in an order drawn from the seed."""
    a, b = ARMS
    ways: list[tuple[Arm, Arm]] = [(a, b) if number % 2 else (b, a) for number in range(pairs)]
    random.Random(seed).shuffle(ways)
    return [(a, b), *ways]


def compared(pairs: Sequence[Pair], *, seed: int) -> Comparison:
    """What differs, how surely, and what it grows with, over the pairs whose calls completed."""
    used = [p for p in pairs if p.a.call.status == p.b.call.status == "complete"]
    differences = tuple(
        difference
        for name in (*WHOLES, *SEGMENTS)
        if (difference := _difference(name, used, seed)) is not None
    )
    growth = tuple(_growth(of, along, used) for of in WHOLES for along in AXES) if used else ()
    return Comparison(
        pairs=len(pairs),
        used=len(used),
        failed_a=sum(p.a.call.status != "complete" for p in pairs),
        failed_b=sum(p.b.call.status != "complete" for p in pairs),
        differences=differences,
        growth=growth,
        words=tuple(_words(used, differences, growth)),
    )


def _difference(name: str, pairs: Sequence[Pair], seed: int) -> Difference | None:
    rows = _both(name, pairs)
    if not rows:
        return None
    return Difference(
        name=name,
        a_ns=round(median(a for a, _ in rows)),
        b_ns=round(median(b for _, b in rows)),
        by=centre([b - a for a, b in rows], seed=seed),
    )


def _both(name: str, pairs: Sequence[Pair]) -> list[tuple[Ns, Ns]]:
    found = [(_time(name, p.a.call), _time(name, p.b.call)) for p in pairs]
    return [(a, b) for a, b in found if a is not None and b is not None]


def _time(name: str, call: Attribution) -> Ns | None:
    if name == "ttft":
        return call.first_token_ns
    if name == "e2e":
        return call.wall_ns
    return next(share.ns for share in call.segments if share.name == name)


def _growth(of: str, along: str, pairs: Sequence[Pair]) -> Growth:
    rows = [
        (x, b - a)
        for p in pairs
        if (x := _place(along, p)) is not None
        and (a := _time(of, p.a.call)) is not None
        and (b := _time(of, p.b.call)) is not None
    ]
    xs = [x for x, _ in rows]
    if len(rows) < LEAST:
        return Growth(of=of, along=along, by=None, why_not="too few pairs tell it")
    if max(xs) - min(xs) < SPREAD * max(xs):
        return Growth(of=of, along=along, by=None, why_not="the same in all pairs")
    return Growth(of=of, along=along, by=theil_sen(xs, [y for _, y in rows]))


def _place(along: str, pair: Pair) -> float | None:
    """Where a pair lies on an axis: the mean of its two calls."""
    if along == "time_s":
        return pair.at_s
    sides = (pair.a, pair.b)
    if along == "body_bytes":
        found = [side.body_bytes for side in sides]
    else:
        found = [getattr(side.call, along) for side in sides]
    known = [value for value in found if value is not None]
    return sum(known) / len(known) if len(known) == len(sides) else None


def _words(
    pairs: Sequence[Pair], differences: Sequence[Difference], growth: Sequence[Growth]
) -> list[str]:
    """What the figures mean, and what they do not."""
    if not pairs:
        return ["no pair completed, so nothing can be compared"]
    if len(pairs) < LEAST:
        return [f"{LEAST} complete pairs are the least an interval needs: raise -n"]
    found = {difference.name: difference for difference in differences}
    said = [_verdict(found), *_way(pairs, found), *_unlike(pairs)]
    clear = {row.along for row in growth if row.by is not None and row.by.clear}
    if clear >= {"body_bytes", "input_tokens"}:
        said.append("request bytes and input tokens grew together, so either may be the cause")
    return said


def _verdict(found: dict[str, Difference]) -> str:
    clear = [name for name in WHOLES if name in found and found[name].by.clear]
    if not clear:
        return "neither TTFT nor E2E differs clearly: every interval holds zero"
    names = " and ".join(name.upper() for name in clear)
    slower = {"TARGET2" if found[name].by.value > 0 else "TARGET" for name in clear}
    if len(slower) > 1:
        return f"{names} differ clearly, in opposite directions"
    return f"{slower.pop()} is clearly slower in {names}"


def _way(pairs: Sequence[Pair], found: dict[str, Difference]) -> list[str]:
    """Whose time the difference before the first token is: between two ways to one server, what
    the longer way adds there is network.gateway, unless the servers themselves account for it."""
    where = " and ".join(_where(pairs, found))
    if not where:
        return []
    said = (
        f"if both lead to the same server, what differs in {where} is network.gateway, the time"
        " of what stands on one way and not on the other"
    )
    stated = [
        name
        for name in ("queue", "prefill")
        if found[name].by.clear and all(_stated(name, side) for p in pairs for side in (p.a, p.b))
    ]
    if stated:
        said += (
            f"; but not the difference in {' and '.join(stated)},"
            " which the servers themselves state"
        )
    return [said, *_models(pairs), *_hops(pairs)]


def _where(pairs: Sequence[Pair], found: dict[str, Difference]) -> list[str]:
    """Where a gateway's time may show: in network, in what is unsplit between network and others,
    else in TTFT as a whole."""
    open_to_it = any(
        "network" in piece.candidates
        for pair in pairs
        for side in (pair.a, pair.b)
        for piece in side.call.unsplit
    )
    names = {"network": "the network segment"}
    if open_to_it:
        names["unattributed"] = "the unsplit time"
    shown = [words for name, words in names.items() if found[name].by.clear]
    whole = found.get("ttft")
    return shown or (["TTFT"] if whole is not None and whole.by.clear else [])


def _stated(name: str, side: Side) -> bool:
    share = next(share for share in side.call.segments if share.name == name)
    return share.provenance == "reported"


def _models(pairs: Sequence[Pair]) -> list[str]:
    a, b = (sorted({getattr(p, arm).call.model or "" for p in pairs}) for arm in ARMS)
    if a == b:
        return []
    return [f"the models differ ({', '.join(a)}; {', '.join(b)}): the difference may be theirs"]


def _hops(pairs: Sequence[Pair]) -> list[str]:
    return [
        f"the answers of {name} name a hop on their way: {', '.join(sorted(seen)[:3])}"
        for name, arm in (("TARGET", "a"), ("TARGET2", "b"))
        if (seen := {hop for pair in pairs for hop in getattr(pair, arm).hops})
    ]


def _unlike(pairs: Sequence[Pair]) -> list[str]:
    """Answers of unlike length make E2E a comparison of lengths."""
    both = [(p.a.call.output_tokens, p.b.call.output_tokens) for p in pairs]
    a = median(one or 0 for one, _ in both)
    b = median(other or 0 for _, other in both)
    if abs(a - b) <= SPREAD * max(a, b):
        return []
    return [
        f"the answers were of unlike length (medians {a:g} and {b:g} tokens):"
        " E2E and decode compare that too"
    ]


def to_mapping(found: Comparison, *, asks: tuple[Ask, Ask], seed: int) -> dict[str, Any]:
    """`latscope.against/1`, JSON-ready: times in ns, slopes in ns a unit of their axis."""
    return {
        "schema": SCHEMA,
        "a": _named(asks[0]),
        "b": _named(asks[1]),
        "seed": seed,
        "level": LEVEL,
        "pairs": found.pairs,
        "used": found.used,
        "failed": {"a": found.failed_a, "b": found.failed_b},
        "differences": [
            {"name": row.name, "a_ns": row.a_ns, "b_ns": row.b_ns, **_plain(row.by)}
            for row in found.differences
        ],
        "growth": [
            {
                "of": row.of,
                "with": row.along,
                **(_plain(row.by) if row.by is not None else {"why_not": row.why_not}),
            }
            for row in found.growth
        ],
        "words": list(found.words),
    }


def _named(ask: Ask) -> dict[str, str]:
    return {"target": ask.target.url, "model": ask.model, "api": ask.target.api}


def _plain(found: Estimate) -> dict[str, Any]:
    kept = asdict(found)
    value = kept.pop("value")
    return {"by_ns": value, "low_ns": kept["low"], "high_ns": kept["high"], "clear": found.clear}


def paired(sides: Sequence[Side]) -> list[Pair]:
    """Measured calls put together by the `pair` among their tags, in order; a call whose other
    half never came is left out."""
    halves: dict[str, dict[str, Side]] = {}
    for side in sides:
        halves.setdefault(side.call.tags["pair"], {})[side.call.tags["arm"]] = side
    whole = [half for half in halves.values() if len(half) == len(ARMS)]
    zero = min((side.at_ns for half in whole for side in half.values()), default=0)
    return [
        Pair(
            a=half["a"],
            b=half["b"],
            at_s=(min(side.at_ns for side in half.values()) - zero) / S,
        )
        for half in whole
    ]
