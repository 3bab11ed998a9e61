"""What is asked of an endpoint, so that each claim's calls differ in one thing only.

Two experiments. One call at a time: each prompt meets each output cap, in blocks of one cap with
the prompts in random order. Several at a time: blocks of 1, 2, 4 and 8 callers, all with the same
short prompt and the same cap. Blocks and rounds are shuffled too, so that a machine that grows
slower in between does not look like an effect.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from latscope.errors import UsageError

MOST_REQUESTS = 120
"""Sent at most, unless asked for more or fewer."""
LONGEST = 1536
SHARES = (1 / 24, 1 / 6, 1 / 2, 1.0)
"""Prompts, as shares of the longest: a wide reach, since what a token of context adds is little."""
CAPS = (8, 32)
CROWD_TOKENS = 64
CROWD_CAP = 24
CROWDS = (1, 2, 4, 8)
LEAST_CALLS = 2
"""Of a block with fewer callers."""
MOST_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Calls sent together: prompts about so many tokens long, in this order; callers: at a time;
    crowd: of the second experiment."""

    prompts: tuple[int, ...]
    cap: int
    callers: int
    crowd: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """blocks in the order they are sent, after one warm-up; most: requests sent whatever happens,
    so that some may be sent again."""

    blocks: tuple[Block, ...]
    most: int

    @property
    def requests(self) -> int:
        return 1 + sum(len(block.prompts) for block in self.blocks)

    @property
    def prompt_tokens(self) -> int:
        return CROWD_TOKENS + sum(sum(block.prompts) for block in self.blocks)

    @property
    def output_tokens(self) -> int:
        return CROWD_CAP + sum(len(block.prompts) * block.cap for block in self.blocks)


def lengths(longest: int) -> tuple[int, ...]:
    return tuple(round(longest * share) for share in SHARES)


CROWD_ROUND = sum(max(LEAST_CALLS, callers) for callers in CROWDS)
ALONE_ROUND = len(SHARES) * len(CAPS)
LEAST_REQUESTS = 1 + 2 * ALONE_ROUND + CROWD_ROUND
LEAST_LONGEST = 240


def plan(requests: int = MOST_REQUESTS, longest: int = LONGEST, seed: int = 0) -> Plan:
    """As many rounds of both experiments as fit, the warm-up included. UsageError for fewer
    requests than one round needs, and for prompts too short to differ."""
    if requests < LEAST_REQUESTS:
        raise UsageError(f"--requests: at least {LEAST_REQUESTS}, else nothing can be told")
    if not LEAST_LONGEST <= longest <= MOST_LONGEST:
        raise UsageError(f"--longest: from {LEAST_LONGEST} to {MOST_LONGEST:,} tokens")
    crowds = max(1, (requests - 1) // 2 // CROWD_ROUND)
    alone = (requests - 1 - crowds * CROWD_ROUND) // ALONE_ROUND
    dice = Random(f"{seed}:claims")
    rounds = [list(_alone(lengths(longest), dice)) for _ in range(alone)]
    rounds += [list(_crowds(dice)) for _ in range(crowds)]
    dice.shuffle(rounds)
    return Plan(blocks=tuple(block for blocks in rounds for block in blocks), most=requests)


def _alone(prompts: Sequence[int], dice: Random) -> Iterator[Block]:
    for cap in dice.sample(CAPS, len(CAPS)):
        order = tuple(dice.sample(prompts, len(prompts)))
        yield Block(prompts=order, cap=cap, callers=1, crowd=False)


def _crowds(dice: Random) -> Iterator[Block]:
    for callers in dice.sample(CROWDS, len(CROWDS)):
        prompts = (CROWD_TOKENS,) * max(LEAST_CALLS, callers)
        yield Block(prompts=prompts, cap=CROWD_CAP, callers=callers, crowd=True)
