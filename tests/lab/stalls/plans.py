"""What a stall benchmark plays: calls, each with a few faults, drawn from a seed."""

import random
from dataclasses import asdict, dataclass
from typing import Any

from latscope.units import MS, Ns

KINDS = ("server_pause", "server_flush", "proxy_hold", "packet_loss", "path_delay", "client_block")
SERVER_PORT, KEEPER_PORT = 8000, 8001
SHORTEST, LONGEST = 200 * MS, 600 * MS
LENGTH: Ns = 7000 * MS
APART: Ns = 1600 * MS
A_CALL = 3
PLAIN_EVERY = 10
"""One call in so many has no fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A path: one way's delay and jitter, and the congestion control at both ends."""

    delay_ns: Ns
    jitter_ns: Ns
    congestion: str | None = None

    @property
    def settings(self) -> str:
        """As the path is asked for."""
        return f"delay={self.delay_ns // 1000}us jitter={self.jitter_ns // 1000}us"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """index: the event at whose making it begins; how: the variant of the kind, and what the one
    who does it is told."""

    kind: str
    index: int
    ns: Ns
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One call. style: `single` (a token an event, an event a step), `several` (an event of one to
    four tokens a step), `bursts` (one to four events a step, sent at once). offsets: when each
    event is made, from the first."""

    id: int
    style: str
    step_ns: Ns
    offsets: tuple[Ns, ...]
    words: tuple[int, ...]
    faults: tuple[Fault, ...]
    port: int
    client: str

    def to_mapping(self) -> dict[str, Any]:
        """JSON-ready values; `from_mapping` reads them back."""
        return asdict(self)


def from_mapping(plain: dict[str, Any]) -> Plan:
    """Read a plan that came as JSON."""
    faults = tuple(Fault(**fault) for fault in plain["faults"])
    lists = {name: tuple(plain[name]) for name in ("offsets", "words")}
    return Plan(**{**plain, **lists, "faults": faults})


def links(half: str, seed: str, count: int) -> list[Link]:
    """Half A's paths are fixed, half B's drawn."""
    fixed = [
        Link(delay_ns=20 * MS, jitter_ns=0),
        Link(delay_ns=5 * MS, jitter_ns=MS),
        Link(delay_ns=40 * MS, jitter_ns=2 * MS),
        Link(delay_ns=MS, jitter_ns=0),
    ]
    if half == "a":
        return [fixed[index % len(fixed)] for index in range(count)]
    draw = random.Random(f"{seed} links")
    return [
        Link(
            delay_ns=draw.randrange(1, 51) * MS,
            jitter_ns=draw.choice((0, 500_000, 2 * MS)),
            congestion=draw.choice((None, "reno")),
        )
        for _ in range(count)
    ]


def plans(seed: str, faults: int, link: Link) -> list[Plan]:
    """Calls with so many faults in all, the kinds dealt out evenly, and some calls with none."""
    draw = random.Random(seed)
    deck = [KINDS[index % len(KINDS)] for index in range(faults)]
    draw.shuffle(deck)
    found: list[Plan] = []
    while deck:
        hand, deck = deck[:A_CALL], deck[A_CALL:]
        if len(found) % PLAIN_EVERY == PLAIN_EVERY - 1:
            found.append(_plan(draw, len(found), [], link))
        found.append(_plan(draw, len(found), hand, link))
    return found


def _plan(draw: random.Random, number: int, kinds: list[str], link: Link) -> Plan:
    slow = draw.random() < 0.15
    step = draw.randrange(120, 260) * MS if slow else draw.randrange(15, 61) * MS
    style = draw.choice(("single", "single", "single", "several", "bursts"))
    steps = round((1.5 if slow else 1.0) * LENGTH / step)
    offsets: list[Ns] = []
    words: list[int] = []
    at = 0
    for _ in range(steps):
        several = draw.randrange(1, 5) if style != "single" else 1
        offsets += [at] * (several if style == "bursts" else 1)
        words += [several] if style == "several" else [1] * (several if style == "bursts" else 1)
        at += round(step * draw.uniform(0.85, 1.15))
    faults = tuple(
        _fault(draw, kind, index, link)
        for kind, index in zip(kinds, _places(draw, offsets, len(kinds), step), strict=True)
    )
    blocks = [fault.how for fault in faults if fault.kind == "client_block"]
    hop = any(fault.kind == "proxy_hold" for fault in faults) or draw.random() < 0.2
    return Plan(
        id=number,
        style=style,
        step_ns=step,
        offsets=tuple(offsets),
        words=tuple(words),
        faults=faults,
        port=KEEPER_PORT if hop else SERVER_PORT,
        client="async" if "loop" in blocks or draw.random() < 0.3 else "sync",
    )


def _places(draw: random.Random, offsets: list[Ns], count: int, step: Ns) -> list[int]:
    """Events at which faults begin, far enough apart and from both ends to be seen whole."""
    apart = max(APART, 9 * step)
    first, last = 8 * step, offsets[-1] - max(LONGEST + 300 * MS, 5 * step)
    room = max(0, last - first - apart * (count - 1))
    cuts = sorted(draw.uniform(0, room) for _ in range(count))
    times = [first + cut + apart * index for index, cut in enumerate(cuts)]
    return [next(i for i, at in enumerate(offsets) if at >= time) for time in times]


def _fault(draw: random.Random, kind: str, index: int, link: Link) -> Fault:
    ns = draw.randrange(SHORTEST, LONGEST, MS)
    ms = ns // MS
    how = ""
    if kind == "packet_loss":
        how = draw.choice(("drop down 1", "drop down 2", f"blackout down {ms}ms"))
    elif kind == "path_delay":
        slower = (link.delay_ns + ns) // 1000
        change = f"set down delay={slower}us;at {ms}ms set down delay={link.delay_ns // 1000}us"
        how = draw.choice((f"hold down {ms}ms", change))
    elif kind == "client_block":
        how = draw.choice(("consumer", "loop"))
    return Fault(kind=kind, index=index, ns=ns, how=how)
