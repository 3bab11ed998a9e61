"""What a week is made of, and what a cause changes in it.

Two files of one world differ in their dice only; a cause's file differs from its reference in the
cause, and in what the cause brings about by itself. Sizes are drawn from the seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, TypeAlias

Setting: TypeAlias = Literal["vendor", "documents", "own", "batch"]
"""A vendor's API with one system prompt for all; the same where each session brings a document of
its own; a vLLM of one's own; the same with a batch job of long prompts beside."""
Buffer: TypeAlias = Literal["none", "whole", "time", "bytes"]
CALLS = 240
"""Of one file; a batch job's come on top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Every parameter of a week. Token counts are those of the prompt's parts: fixed (system text),
    tools, retrieved (text the user's question brings along, a turn), question, output (medians).

    slowness: factor on the reference model's step costs. load: others' share of what the engine can
    get done. caching: whether prefixes are found again; ttl_s: how long they live unused. states:
    whether the server states its own times. early: response heads leave when the request is there,
    not with the first token. think_s: median between an answer and the next turn.
    """

    setting: Setting
    seed: str
    model: str
    calls: int = CALLS
    # what is asked
    fixed: int = 1200
    tools: int = 0
    retrieved: int = 0
    question: int = 110
    output: int = 80
    cap: int = 400
    turns: float = 3.5
    think_s: float = 14.0
    late: float = 0.0
    """Share of the turns that come late_s (median) after the answer instead."""
    late_s: float = 0.0
    pace_s: float = 100.0
    """How long the calls of one busy stretch are spread over."""
    stamp_in_front: bool = False
    job: int = 0
    """Calls of a batch job, with long prompts."""
    job_by_day: bool = False
    # the server
    slowness: float = 1.0
    places: int = 10
    budget: int = 2048
    load: float = 0.3
    caching: bool = True
    ttl_s: float | None = None
    states: bool = False
    early: bool = False
    pauses: float = 0.0
    """Share of the answers that the engine puts aside once on the way, for pause_s."""
    pause_s: tuple[float, float] = (0.0, 0.0)
    refused: float = 0.0
    """Share of the calls that the quota refuses at first."""
    crowded: float = 0.0
    """Share of the calls, ours and others', that the front end refuses at first with 503."""
    swap_day: int | None = None
    swap_slowness: float = 1.0
    # the way
    rtt_ms: float = 1.0
    jitter_ms: float = 0.2
    edge: bool = False
    """Whether a content delivery network announces itself on the way; it passes all at once."""
    buffer: Buffer = "none"
    quantum: int = 0
    """Of a buffer by time in ms, by bytes in bytes."""
    # the client
    pool: int = 0
    """Connections at most, 0 for no limit."""
    blocked: float = 0.0
    """Share of the time in which the event loop is busy with something else."""
    consumer_ms: float = 0.0
    """What the code that reads the stream takes an event."""
    retries: int = 2
    hasty: bool = False
    """Tries again at once and by the clock, whatever the server asks for."""

    @property
    def vendor(self) -> bool:
        return self.setting in ("vendor", "documents")


def healthy(setting: Setting, seed: str) -> World:
    """The week nothing is wrong in. What a seed draws is the same for every file of it."""
    dice = Random(f"{seed}:{setting}:world")
    if setting in ("vendor", "documents"):
        return World(
            setting=setting,
            seed=seed,
            model=dice.choice(("gpt-4.1-mini", "gpt-4o", "gpt-5-mini")),
            fixed=dice.randrange(1100, 1700) if setting == "vendor" else dice.randrange(2600, 4200),
            tools=dice.choice((0, 300, 600)),
            question=dice.randrange(80, 160),
            output=dice.randrange(60, 100),
            slowness=dice.uniform(1.5, 2.4),
            load=dice.uniform(0.15, 0.4),
            ttl_s=450.0,
            rtt_ms=dice.uniform(12.0, 45.0),
            jitter_ms=dice.uniform(0.3, 2.0),
            edge=dice.random() < 0.5,
        )
    long = setting == "batch"
    return World(
        setting=setting,
        seed=seed,
        model=dice.choice(("qwen3-32b", "llama-3.1-70b", "mistral-small")),
        fixed=dice.randrange(700, 1500),
        tools=dice.choice((0, 200, 500)),
        question=dice.randrange(80, 160),
        output=dice.randrange(110, 150) if long else dice.randrange(40, 60),
        slowness=dice.uniform(1.2, 2.2),
        load=dice.uniform(0.15, 0.4),
        budget=dice.choice((8192, 16384)) if long else 2048,
        caching=long or dice.random() < 0.6,
        states=dice.random() < 0.4,
        early=dice.random() < 0.5,
        rtt_ms=dice.uniform(0.4, 5.0),
        job=110 if long else 0,
    )


# -- the causes ------------------------------------------------------------------------------------


def _quota(world: World, dice: Random) -> World:
    """The organisation's quota is used up at times: 429 with Retry-After, which the SDK honours."""
    return replace(world, refused=dice.uniform(0.15, 0.4))


def _prompt(world: World, dice: Random) -> World:
    """Prompts grow: by retrieved text that stays in the history; where no cache takes it away
    again, by system text or tool schemas too."""
    kind = dice.choice(("retrieved",) if world.caching else ("retrieved", "fixed", "tools"))
    more = dice.randrange(3000, 6000)
    return replace(world, **{kind: getattr(world, kind) + more})


def _reorder(world: World, dice: Random) -> World:
    """The template is rearranged: a stamp that is new with every call stands in front."""
    del dice
    return replace(world, stamp_in_front=True)


def _buffer(world: World, dice: Random) -> World:
    kind: Buffer = dice.choice(("whole", "time", "bytes"))
    quantum = dice.randrange(200, 500) if kind == "time" else dice.choice((2048, 4096))
    return replace(world, buffer=kind, quantum=quantum)


def _pause(world: World, dice: Random) -> World:
    """Answers are put aside on the way, as a preempted sequence is, and go on later."""
    return replace(world, pauses=dice.uniform(0.3, 0.5), pause_s=(0.4, 1.2))


def _storm(world: World, dice: Random) -> World:
    """The front end has no room, and every client, ours too, tries again at once."""
    return replace(world, crowded=dice.uniform(0.25, 0.45), retries=5, hasty=True)


def _client(world: World, dice: Random) -> World:
    kind = dice.choice(("pool", "loop", "consumer"))
    if kind == "pool":
        return replace(world, pool=1, pace_s=world.pace_s / 3)
    if kind == "loop":
        return replace(world, blocked=dice.uniform(0.3, 0.55))
    return replace(world, consumer_ms=dice.uniform(20.0, 40.0))


def _swap(world: World, dice: Random) -> World:
    """From a day on another model answers, ten times as large: it reads and writes as much more
    slowly."""
    return replace(world, swap_day=dice.randrange(1, 3), swap_slowness=dice.uniform(8.0, 11.0))


def _late(world: World, dice: Random) -> World:
    """Half of the turns come later than the cache's entries live."""
    return replace(world, late=dice.uniform(0.4, 0.6), late_s=dice.uniform(900.0, 1600.0))


def _neighbour(world: World, dice: Random) -> World:
    """The batch job no longer runs at night."""
    del dice
    return replace(world, job_by_day=True)


def _crowd(world: World, dice: Random) -> World:
    """Others ask nearly all that the engine can get done."""
    return replace(world, load=dice.uniform(0.95, 1.05))


Change: TypeAlias = Callable[[World, Random], World]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One cause. settings: where it is told, dealt over the seeds in turn; change: what the cause
    does to a week."""

    name: str
    settings: tuple[Setting, ...]
    change: Change


STORIES: Mapping[str, Story] = {
    story.name: story
    for story in (
        Story(name="healthy week", settings=("vendor", "own"), change=lambda world, _: world),
        Story(name="quota hit", settings=("vendor", "own"), change=_quota),
        Story(name="prompt growth", settings=("vendor", "own"), change=_prompt),
        Story(name="template reorder", settings=("documents",), change=_reorder),
        Story(name="buffering hop", settings=("vendor", "own"), change=_buffer),
        Story(name="decode pause", settings=("vendor", "own"), change=_pause),
        Story(name="retry storm", settings=("vendor", "own"), change=_storm),
        Story(name="client overload", settings=("vendor", "own"), change=_client),
        Story(name="model swap", settings=("vendor", "own"), change=_swap),
        Story(name="cache TTL expiry", settings=("documents",), change=_late),
        Story(name="long-prompt neighbour", settings=("batch",), change=_neighbour),
        Story(name="busier platform", settings=("vendor", "own"), change=_crowd),
    )
}
