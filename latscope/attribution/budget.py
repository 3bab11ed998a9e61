"""What prompt and output keep a target, from a profile's floors alone. Pure arithmetic.

p50 is the floor; p95 adds what calls were seen to take above it: under load where the profile knows
that, else the scatter of unloaded calls. Both p95s of a call, of its first token and of its steps,
are added as if they came together, which errs on the safe side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from latscope.attribution.model import Segment
from latscope.attribution.profile import Floor, Profile
from latscope.units import Ns

Level = Literal["p50", "p95"]
LEVELS: tuple[Level, ...] = ("p50", "p95")

P95 = 1.645 * 1.4826
"""95th percentile of normal noise, in median absolute deviations."""

MOST = 10_000_000
"""Tokens; a target kept by so many is called kept by any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A planned call: prompt tokens, how many of them cached, and output tokens."""

    prompt: int
    output: int
    cached: int = 0

    @property
    def uncached(self) -> int:
        return max(0, self.prompt - self.cached)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A share of a planned call. candidates: its segment, or several where the profile cannot tell
    them apart."""

    candidates: tuple[Segment, ...]
    name: str
    ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """tokens: the most that keep the targets, null when none do; any: the search found no end.
    beyond: it lies beyond the prompts the floor was measured with."""

    tokens: int | None
    any: bool = False
    beyond: bool = False


def first_token(profile: Profile, floor: Floor, call: Call, level: Level) -> tuple[Part, ...]:
    """The parts of the time to the first token on a kept connection; they add up to it."""
    terms = floor.terms
    fixed = Part(candidates=("queue", "prefill"), name="base", ns=round(terms.base_ns))
    parts = [Part(candidates=("network",), name="transit", ns=profile.rtt_ns or 0)]
    if floor.anchor == "headers":
        where: Segment = "queue"
        parts.append(Part(candidates=(where,), name="frontend", ns=profile.head_ns or 0))
        fixed = Part(candidates=("prefill",), name="base", ns=round(terms.base_ns))
    uncached = terms.at(call.uncached) - terms.at(0)
    cached = min(call.cached, call.prompt)
    return (
        *parts,
        fixed,
        Part(candidates=("prefill",), name="uncached", ns=uncached),
        Part(candidates=("prefill",), name="cached", ns=round(terms.cached_ns * cached)),
        Part(candidates=("queue", "prefill"), name="above the floor", ns=above(profile, level)),
    )


def above(profile: Profile, level: Level) -> Ns:
    """How far above the floor a call is at this level."""
    if profile.excess_ns is not None:
        return profile.excess_ns[LEVELS.index(level)]
    noise = profile.floor.noise_ns if profile.floor is not None else 0
    return round(P95 * noise) if level == "p95" else 0


def decode(profile: Profile, call: Call, level: Level) -> Ns | None:
    """Steps after the first token, each a token longer in context; null without a step."""
    step = profile.step
    if step is None:
        return None
    steps = max(0, call.output - 1)
    each = step.base_ns + step.per_context_ns * (call.prompt + (steps + 1) / 2)
    noise = P95 * step.noise_ns if level == "p95" else 0.0
    return round(steps * (each + noise))


def ttft(profile: Profile, floor: Floor, call: Call, level: Level) -> Ns:
    return sum(part.ns for part in first_token(profile, floor, call, level))


def e2e(profile: Profile, floor: Floor, call: Call, level: Level) -> Ns | None:
    steps = decode(profile, call, level)
    return None if steps is None else ttft(profile, floor, call, level) + steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """In ns; null where there is none."""

    ttft_ns: Ns | None
    e2e_ns: Ns | None


def keeps(profile: Profile, floor: Floor, call: Call, level: Level, targets: Targets) -> bool:
    """Whether the call keeps both targets; one that cannot be told counts as kept."""
    if targets.ttft_ns is not None and ttft(profile, floor, call, level) > targets.ttft_ns:
        return False
    total = e2e(profile, floor, call, level)
    return targets.e2e_ns is None or total is None or total <= targets.e2e_ns


def largest_prompt(
    profile: Profile, floor: Floor, call: Call, level: Level, targets: Targets
) -> Limit:
    """The longest prompt, with the call's output and cached tokens."""

    def kept(tokens: int) -> bool:
        longer = Call(prompt=tokens, output=call.output, cached=call.cached)
        return keeps(profile, floor, longer, level, targets)

    found = _largest(kept, 1)
    beyond = (found.tokens or 0) - call.cached > floor.tokens[1]
    return Limit(tokens=found.tokens, any=found.any, beyond=beyond)


def largest_output(
    profile: Profile, floor: Floor, call: Call, level: Level, targets: Targets
) -> Limit:
    """The longest output, with the call's prompt."""

    def kept(tokens: int) -> bool:
        longer = Call(prompt=call.prompt, output=tokens, cached=call.cached)
        return keeps(profile, floor, longer, level, targets)

    found = _largest(kept, 1)
    return Limit(tokens=found.tokens, any=found.any, beyond=call.uncached > floor.tokens[1])


def _largest(kept: Callable[[int], bool], least: int) -> Limit:
    """By halving: times only grow with tokens."""
    if not kept(least):
        return Limit(tokens=None)
    if kept(MOST):
        return Limit(tokens=MOST, any=True)
    low, high = least, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return Limit(tokens=low)
