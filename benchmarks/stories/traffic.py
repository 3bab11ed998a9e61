"""Whose calls come when: sessions of several turns by day and night, a batch job, other tenants.

The week's calls come in fourteen busy stretches, a long one each day and a short one each night, so
that a few hundred calls meet each other and the engine's other load as thousands would. A session's
next turn is timed from the length its answer is expected to have, not caused by it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from benchmarks.stories.world import World
from latscope.sim.fleet.arrivals import Call
from latscope.units import Ns, S

HOUR = 3600 * S

DAYS = 7
DAY_HOURS, NIGHT_HOURS = (9, 17), (1, 5)
DAY_SHARE = 0.8
"""Of a day's calls."""
APART_S = 4.0
"""Between an answer and the next turn at least."""
JOB_PROMPT = (10_000, 20_000)
JOB_EVERY_S = 20.0
OTHERS_PROMPT, OTHERS_OUTPUT = 600, 130
BEFORE_S, AFTER_S = 4.0, 3.0
CROWDED_BEFORE_S = 20.0
"""How long before one of our calls the others' load is simulated: a queue takes time to grow."""
INSTRUCTIONS = 240
"""Tokens of system text in front of what a setting adds to it."""
STAMP = 16
"""Tokens of a stamp that is new with every call. Tools go before it, as APIs render them: those of
a few hundred tokens are less than a vendor caches."""


class Part(NamedTuple):
    """A message, or the tools. texts: what its text is drawn from, (key, tokens) one after another;
    the same text for the same key."""

    role: str
    texts: tuple[tuple[str, int], ...]

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One of our calls. at_ns: from the start of the week. shared: leading tokens that belong to
    `prefix` and not to the session's own stream."""

    at_ns: Ns
    session: str | None
    turn: int
    model: str
    parts: tuple[Part, ...]
    prefix: str | None
    shared: int
    output: int
    cap: int
    job: bool = False

    @property
    def prompt(self) -> int:
        return sum(part.tokens for part in self.parts)


# -- ours ------------------------------------------------------------------------------------------


def asks(world: World, dice: Random) -> list[Ask]:
    """Our calls in order, as many as the world says (and its job's on top)."""
    stretches = _stretches(world, dice)
    found: list[Ask] = []
    number = 0
    while len(found) < world.calls:
        begin = _session_begin(world, stretches, dice)
        found += _session(world, f"s{number}", begin, dice)
        number += 1
    found = sorted(found, key=lambda ask: ask.at_ns)[: world.calls]
    found += _job(world, stretches, dice)
    return sorted(found, key=lambda ask: ask.at_ns)


def _stretches(world: World, dice: Random) -> list[Ns]:
    """When the busy stretches begin: by day, by night, by day ..."""
    found = []
    for day in range(DAYS):
        for hours in (DAY_HOURS, NIGHT_HOURS):
            hour = dice.uniform(*hours) + 24 * day
            found.append(round(hour * HOUR))
    return found


def _session_begin(world: World, stretches: Sequence[Ns], dice: Random) -> Ns:
    day = dice.randrange(DAYS)
    night = dice.random() >= DAY_SHARE
    return stretches[2 * day + night] + round(dice.uniform(0, world.pace_s) * S)


def _session(world: World, name: str, begin: Ns, dice: Random) -> Iterator[Ask]:
    """The turns of a session: each resends what was said."""
    swapped = world.swap_day is not None and begin >= world.swap_day * 24 * HOUR
    model = f"{world.model}-next" if swapped else world.model
    history: list[Part] = []
    at = begin
    for turn in range(_turns(world, dice)):
        history.append(_question(world, f"{world.seed}:{name}:{turn}", dice))
        output = _drawn(dice, world.output, 0.35, least=12, most=world.cap)
        front, shared, prefix = _front(world, name, turn)
        yield Ask(
            at_ns=at,
            session=name,
            turn=turn,
            model=model,
            parts=(*front, *history),
            prefix=prefix,
            shared=shared,
            output=output,
            cap=world.cap,
        )
        history.append(Part("assistant", ((f"{world.seed}:{name}:{turn}:answer", output),)))
        at += round((_answered_s(world, output) + _think_s(world, dice)) * S)


def _turns(world: World, dice: Random) -> int:
    return 1 + min(int(dice.expovariate(1 / (world.turns - 1)) + 0.5), 9)


def _question(world: World, key: str, dice: Random) -> Part:
    size = _drawn(dice, world.question, 0.5, least=10, most=1000)
    if world.retrieved:
        size += _drawn(dice, world.retrieved, 0.2, least=100, most=20_000)
    return Part("user", ((f"{key}:question", size),))


def _front(world: World, name: str, turn: int) -> tuple[list[Part], int, str | None]:
    """Tools and system text, how many of their tokens are shared, and under which name."""
    app = f"{world.setting}:{world.seed}"
    texts = [(f"{app}:instructions", INSTRUCTIONS), (f"{app}:more", world.fixed)]
    prefix: str | None = "system"
    if world.setting == "documents":
        texts[1] = (f"{app}:{name}:document", world.fixed)
        prefix = f"document-{name}"
    if world.stamp_in_front:
        texts.insert(0, (f"{app}:{name}:{turn}:stamp", STAMP))
        prefix = None
    front = [Part("tools", ((f"{app}:tools", world.tools),))] if world.tools else []
    front.append(Part("system", tuple(texts)))
    shared = 0 if prefix is None else sum(part.tokens for part in front)
    return front, shared, prefix


def _answered_s(world: World, output: int) -> float:
    return 0.3 + 0.012 * world.slowness * output


def _think_s(world: World, dice: Random) -> float:
    usual = world.late_s if dice.random() < world.late else world.think_s
    return max(APART_S, dice.lognormvariate(0.0, 0.3) * usual)


def _drawn(dice: Random, median: int, spread: float, *, least: int, most: int) -> int:
    return max(least, min(most, round(dice.lognormvariate(0.0, spread) * median)))


def _job(world: World, stretches: Sequence[Ns], dice: Random) -> Iterator[Ask]:
    """Summaries of long texts: by night two hours behind the last call, one after another; by day
    among ours."""
    for number in range(world.job):
        night, place = stretches[2 * (number % DAYS) + 1], number // DAYS
        at = night + 2 * HOUR + round(JOB_EVERY_S * place * S)
        if world.job_by_day:
            day = stretches[2 * dice.randrange(DAYS)]
            at = day + round(dice.uniform(0.05, 1.1) * world.pace_s * S)
        size = dice.randrange(*JOB_PROMPT)
        yield Ask(
            at_ns=at,
            session=None,
            turn=0,
            model=world.model,
            parts=(Part("user", ((f"{world.seed}:job:{number}", size),)),),
            prefix=None,
            shared=0,
            output=dice.randrange(30, 80),
            cap=world.cap,
            job=True,
        )


# -- the others ------------------------------------------------------------------------------------


def others(
    world: World, ours: Sequence[Ask], rate: float, model: str, dice: Random
) -> Iterator[Call]:
    """What other tenants ask of the engine around our calls of `model`; rate: a second."""
    before = CROWDED_BEFORE_S if world.load > 0.9 else BEFORE_S
    for begin, end in _around([ask.at_ns for ask in ours if ask.model == model], before):
        at = begin + round(dice.expovariate(rate) * S)
        while at < end:
            output = _drawn(dice, OTHERS_OUTPUT, 0.5, least=4, most=1000)
            prompt = _drawn(dice, OTHERS_PROMPT, 0.7, least=8, most=6000)
            yield Call(at, prompt, output, output)
            at += round(dice.expovariate(rate) * S)


def _around(instants: Sequence[Ns], before_s: float) -> list[tuple[Ns, Ns]]:
    """Stretches that hold the instants and a little before and after each."""
    found: list[tuple[Ns, Ns]] = []
    for at in sorted(instants):
        begin, end = at - round(before_s * S), at + round(AFTER_S * S)
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found
