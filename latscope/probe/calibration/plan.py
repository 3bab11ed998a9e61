"""Which calls are sent, so that the arms of each experiment differ in one thing only.

An experiment is a number of blocks; the calls of a block are sent next to each other in random
order, and the blocks of all experiments are shuffled together, so that a machine that grows slower
in between does not look like an effect. What does not fit under the caps is thinned out evenly,
then left out, the least telling experiment first; the plan says so.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random

from latscope.errors import UsageError

MOST_REQUESTS = 200
MOST_TOKENS = 200_000
LONGEST = 1536
MIDDLE, SHORT = 1 / 3, 1 / 12
"""Prompts, as shares of the longest."""
LEAST_SHORT = 48
LEAST_LONGEST = 480
"""Shorter ones do not reach far enough apart."""
MOST_LONGEST = 1_000_000
ANSWER = 32
"""Output tokens of the longer answers."""
WARM_UP = 2
CROWD = 8
"""Calls sent at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call. arm: what it is sent as; prompt: about so many tokens; long_answer: with a larger
    cap than the smallest; stream; fresh_connection: on one of its own; again: the prompt of the
    call before it once more."""

    arm: str
    prompt: int
    long_answer: bool = False
    stream: bool = True
    fresh_connection: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Calls sent next to each other, in this order, or all at once."""

    experiment: str
    calls: tuple[Call, ...]
    at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """want: blocks where there is room; least: fewer say nothing. shows: in words."""

    name: str
    shows: str
    want: int
    least: int


EXPERIMENTS = (
    Experiment(name="prefill", shows="what a prompt token costs", want=12, least=8),
    Experiment(name="decode", shows="a decode step, holds", want=8, least=4),
    Experiment(name="cache", shows="what a cached prompt saves", want=20, least=8),
    Experiment(name="connection", shows="what a new connection costs", want=8, least=4),
    Experiment(name="crowd", shows="what the response head means under load", want=2, least=1),
)
"""The most telling first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """blocks, in the order they are sent, after the warm-up. dropped: what the caps leave out, in
    words. most_requests, most_tokens: never passed, whatever happens."""

    blocks: tuple[Block, ...]
    dropped: tuple[str, ...]
    longest: int
    most_requests: int
    most_tokens: int

    @property
    def calls(self) -> list[Call]:
        return [call for block in self.blocks for call in block.calls]

    @property
    def requests(self) -> int:
        return WARM_UP + len(self.calls)

    @property
    def prompt_tokens(self) -> int:
        return WARM_UP * middle(self.longest) + sum(call.prompt for call in self.calls)

    @property
    def output_tokens(self) -> int:
        longer = sum(1 for call in self.calls if call.long_answer) + 1
        return longer * ANSWER + self.requests - longer

    @property
    def experiments(self) -> dict[str, int]:
        """Blocks of each experiment, the most telling first."""
        found = Counter(block.experiment for block in self.blocks)
        return {row.name: found[row.name] for row in EXPERIMENTS if found[row.name]}


def short(longest: int) -> int:
    return max(LEAST_SHORT, round(longest * SHORT))


def middle(longest: int) -> int:
    return round(longest * MIDDLE)


def plan(
    *,
    requests: int = MOST_REQUESTS,
    tokens: int = MOST_TOKENS,
    longest: int = LONGEST,
    seed: int = 0,
    without: Sequence[str] = (),
) -> Plan:
    """As much as fits under the caps. without: experiments left out. UsageError when not even the
    first one fits, or when the prompts would be too short to differ."""
    if not LEAST_LONGEST <= longest <= MOST_LONGEST:
        raise UsageError(f"--longest: from {LEAST_LONGEST} to {MOST_LONGEST:,} tokens")
    rows = [row for row in EXPERIMENTS if row.name not in without]
    left: list[Experiment] = []
    while rows:
        counts = _fitting(rows, requests, tokens, longest)
        if counts is not None:
            made = _shuffled(counts, longest, seed)
            dropped = (*_thinned(rows, counts), *(f"no {row.name} ({row.shows})" for row in left))
            return Plan(
                blocks=made,
                dropped=dropped,
                longest=longest,
                most_requests=requests,
                most_tokens=tokens,
            )
        left.insert(0, rows.pop())
    least = _cost({left[0].name: left[0].least}, longest)
    raise UsageError(
        f"--max-requests {requests} and --max-tokens-total {tokens} are too few: with prompts of"
        f" {longest} tokens at least {least[0]} and {least[1]} are needed (see --longest)"
    )


def _fitting(
    rows: Sequence[Experiment], requests: int, tokens: int, longest: int
) -> dict[str, int] | None:
    """Blocks of each experiment, thinned out by one share for all; null when even the least are
    too many."""
    for share in range(100, -1, -1):
        counts = {row.name: max(row.least, row.want * share // 100) for row in rows}
        cost = _cost(counts, longest)
        if cost[0] <= requests and cost[1] <= tokens:
            return counts
    return None


def _cost(counts: dict[str, int], longest: int) -> tuple[int, int]:
    """Requests and tokens, the warm-up included."""
    blocks = tuple(
        Block(experiment=name, calls=_CALLS[name](longest))
        for name, count in counts.items()
        for _ in range(count)
    )
    made = Plan(blocks=blocks, dropped=(), longest=longest, most_requests=0, most_tokens=0)
    return made.requests, made.prompt_tokens + made.output_tokens


def _thinned(rows: Iterable[Experiment], counts: dict[str, int]) -> Iterable[str]:
    fewer = [
        f"{row.name} {counts[row.name]} of {row.want}"
        for row in rows
        if counts[row.name] < row.want
    ]
    if fewer:
        yield f"some blocks: {', '.join(fewer)} are sent"


def _shuffled(counts: dict[str, int], longest: int, seed: int) -> tuple[Block, ...]:
    dice = Random(f"{seed}:calibrate")
    blocks = [
        Block(
            experiment=name,
            calls=_ordered(_CALLS[name](longest), dice),
            at_once=name == "crowd",
        )
        for name, count in counts.items()
        for _ in range(count)
    ]
    dice.shuffle(blocks)
    return tuple(blocks)


def _ordered(calls: Sequence[Call], dice: Random) -> tuple[Call, ...]:
    """In random order, except that a repeated prompt stays behind the call it repeats."""
    groups: list[list[Call]] = []
    for call in calls:
        if call.again:
            groups[-1].append(call)
        else:
            groups.append([call])
    dice.shuffle(groups)
    return tuple(call for group in groups for call in group)


def _prefill(longest: int) -> tuple[Call, ...]:
    """`again` is the null control: the short arm once more."""
    return (
        Call(arm="short", prompt=short(longest)),
        Call(arm="again", prompt=short(longest)),
        Call(arm="middle", prompt=middle(longest)),
        Call(arm="long", prompt=longest),
    )


def _decode(longest: int) -> tuple[Call, ...]:
    """`many_again` is the null control; `whole` is not streamed."""
    near = short(longest)
    return (
        Call(arm="one", prompt=near),
        Call(arm="many", prompt=near, long_answer=True),
        Call(arm="many_again", prompt=near, long_answer=True),
        Call(arm="many_long", prompt=longest, long_answer=True),
        Call(arm="whole", prompt=near, long_answer=True, stream=False),
    )


def _cache(longest: int) -> tuple[Call, ...]:
    """`other` is the null control: as long, and as new to the cache, as `fresh`."""
    return (
        Call(arm="fresh", prompt=longest),
        Call(arm="repeated", prompt=longest, again=True),
        Call(arm="other", prompt=longest),
    )


def _connection(longest: int) -> tuple[Call, ...]:
    near = short(longest)
    return (
        Call(arm="reused", prompt=near),
        Call(arm="new", prompt=near, fresh_connection=True),
    )


def _crowd(longest: int) -> tuple[Call, ...]:
    return tuple(Call(arm="crowd", prompt=middle(longest)) for _ in range(CROWD))


_CALLS = {
    "prefill": _prefill,
    "decode": _decode,
    "cache": _cache,
    "connection": _connection,
    "crowd": _crowd,
}


def without_first_token(made: Plan) -> Plan:
    """What is left to send when the first token is never seen."""
    kept = tuple(block for block in made.blocks if block.experiment in ("decode", "connection"))
    return replace(made, blocks=kept)
