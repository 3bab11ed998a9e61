"""The two-stage cost model: what prefill and decode of one call cost, with a KV cache and without.

Costs are abstract units, not milliseconds: a forward pass over one token costs `forward`, reading
one cached token `kv_read`. Prefill computes the prompt once, `forward` a token; then every step
makes one token out of the whole context before it:

    with the cache      forward + context x kv_read           one pass, the history is read
    without the cache   (context + 1) x forward               the history is computed again

The context of step k (from 0) is prompt + k, so each sum is a closed form. Queueing, batching and
the network are not in it; `latscope sim fleet` has them. All arithmetic is exact.

Source: "Inference Fundamentals", section 2 (its defaults: prompt 200, output 40, 12 and 1).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any, Literal, TypeAlias

from latscope.errors import UsageError

SCHEMA = "latscope.cost/1"
MOST_TOKENS = 10_000_000
MOST_UNITS = 1_000_000_000
MOST_POINTS = 1_000

Axis: TypeAlias = Literal["prompt", "output"]
AXES: tuple[Axis, ...] = ("prompt", "output")
Units: TypeAlias = Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What a token costs, in units: computed, and read from the cache."""

    forward: Units = Fraction(12)
    kv_read: Units = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What single decode steps cost: the first, the one at output // 2, the last."""

    first: Units
    mid: Units
    last: Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """One call. ttft: prefill alone, since nothing queues here; it ends before the first step."""

    ttft: Units
    decode: Units
    output: int
    steps: Steps

    @property
    def total(self) -> Units:
        return self.ttft + self.decode

    @property
    def average_per_token(self) -> Units:
        return self.total / self.output

    @property
    def tokens_per_1k_units(self) -> Units:
        return 1000 / self.average_per_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same call twice: with the KV cache, and computing the whole prefix at every step."""

    prompt: int
    output: int
    constants: Constants
    with_cache: Cost
    without_cache: Cost

    @property
    def saved_percent(self) -> Units:
        """Share of the total the cache saves; negative when reading costs more than computing."""
        return 100 * (1 - self.with_cache.total / self.without_cache.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a sweep is for. does_not_fit: what to look at instead; null when nothing speaks
    against it."""

    name: Literal["basic", "common", "combined"]
    title: str
    watch: str
    fits: str
    does_not_fit: str | None


SCENARIOS: Mapping[tuple[Axis, ...], Scenario] = {
    ("prompt",): Scenario(
        name="basic",
        title="a longer prompt",
        watch="TTFT against the length of the prompt",
        fits="the first token comes late and prompts are long: look into prefill first",
        does_not_fit="text that flows slowly: sweep the output and watch the total",
    ),
    ("output",): Scenario(
        name="common",
        title="a longer answer",
        watch="the share of decode in the total",
        fits="answers have grown and calls last longer: reason for a cap on max_tokens",
        does_not_fit="a first token that comes late: sweep the prompt and watch TTFT",
    ),
    ("prompt", "output"): Scenario(
        name="combined",
        title="a longer prompt and a longer answer",
        watch="the cost of a decode step, which both push up",
        fits="whole documents or histories go into the prompt: reason to trim the context",
        does_not_fit=None,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The calls of one scenario; in the combined one every prompt meets every output."""

    axes: tuple[Axis, ...]
    points: tuple[Comparison, ...]

    @property
    def scenario(self) -> Scenario:
        return SCENARIOS[self.axes]


def step(context: int, constants: Constants, *, cache: bool) -> Units:
    """One decode step that sees `context` tokens before its own."""
    if cache:
        return constants.forward + context * constants.kv_read
    return (context + 1) * constants.forward


def cost(prompt: int, output: int, constants: Constants, *, cache: bool) -> Cost:
    """One call in closed form. The contexts of the steps add up to
    output x prompt + output x (output - 1) / 2."""
    contexts = output * prompt + output * (output - 1) // 2
    if cache:
        decode = output * constants.forward + contexts * constants.kv_read
    else:
        decode = (contexts + output) * constants.forward
    places = (0, output // 2, output - 1)
    first, mid, last = (step(prompt + place, constants, cache=cache) for place in places)
    return Cost(
        ttft=prompt * constants.forward,
        decode=decode,
        output=output,
        steps=Steps(first=first, mid=mid, last=last),
    )


def compare(prompt: int = 200, output: int = 40, constants: Constants | None = None) -> Comparison:
    """Raises UsageError for token counts and constants that make no sense."""
    constants = constants or Constants()
    for name, tokens in (("prompt", prompt), ("output", output)):
        _check_tokens(name, tokens)
    if not 0 < constants.forward <= MOST_UNITS:
        raise UsageError(f"forward must be above 0 and at most {MOST_UNITS:,} units a token")
    if not 0 <= constants.kv_read <= MOST_UNITS:
        raise UsageError(f"KV read must be from 0 to {MOST_UNITS:,} units a token")
    return Comparison(
        prompt=prompt,
        output=output,
        constants=constants,
        with_cache=cost(prompt, output, constants, cache=True),
        without_cache=cost(prompt, output, constants, cache=False),
    )


def sweep(base: Comparison, values: Mapping[Axis, Sequence[int]]) -> Sweep:
    """The base call with one of its lengths, or both, taken from `values`."""
    axes = tuple(axis for axis in AXES if axis in values)
    size = 1
    for axis in axes:
        size *= len(values[axis])
    if size > MOST_POINTS:
        raise UsageError(f"a sweep of {size:,} points; at most {MOST_POINTS:,}: take bigger steps")
    grid = product(values.get("prompt", (base.prompt,)), values.get("output", (base.output,)))
    return Sweep(
        axes=axes,
        points=tuple(compare(prompt, output, base.constants) for prompt, output in grid),
    )


RANGE = re.compile(r"(?P<low>\d+)\.\.(?P<high>\d+)(?:/(?P<stride>\d+))?", re.ASCII)
LIST = re.compile(r"\d+(?:,\d+)*", re.ASCII)
NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?(/\d{1,20})?", re.ASCII)
FORMS = "write prompt=100..3200 (doubling), output=100..900/100 (steps) or prompt=100,250,700"


def parse_sweep(text: str) -> tuple[Axis, tuple[int, ...]]:
    """`prompt=100..3200` doubles, `/STEP` adds, `100,250,700` lists. Ascending, each value once,
    both ends of a range among them. Raises UsageError."""
    name, _, said = (part.strip() for part in text.partition("="))
    if name not in AXES:
        raise UsageError(f"--sweep {text!r:.60}: sweeps prompt or output; {FORMS}")
    if found := RANGE.fullmatch(said):
        low, high = (_tokens(name, found[key]) for key in ("low", "high"))
        stride = None if found["stride"] is None else _tokens("the step", found["stride"])
        values = _range(name, low, high, stride)
    elif LIST.fullmatch(said):
        values = sorted({_tokens(name, value) for value in said.split(",")})
    else:
        raise UsageError(f"--sweep {text!r:.60}: {said!r:.40} is no range; {FORMS}")
    if len(values) > MOST_POINTS:
        raise UsageError(f"--sweep {name}: {len(values):,} points; at most {MOST_POINTS:,}")
    return name, tuple(values)


def _range(name: str, low: int, high: int, stride: int | None) -> list[int]:
    if high < low:
        raise UsageError(f"--sweep {name}: {low}..{high} ends before it starts")
    if stride is None:
        values = []
        while low < high:
            values.append(low)
            low *= 2
    else:
        count = (high - low) // stride + 1
        if count > MOST_POINTS:
            raise UsageError(f"--sweep {name}: {count:,} points; at most {MOST_POINTS:,}")
        values = list(range(low, high, stride))
    return [*values, high]


def parse_units(text: str) -> Units:
    """A constant as it was typed, exactly: `12`, `0.5`, `1/3`. Raises UsageError."""
    if not NUMBER.fullmatch(text.strip()):
        raise UsageError(f"{text!r:.40} is no number of units, such as 12 or 0.5")
    whole, _, part = text.strip().partition("/")
    if part and not int(part):
        raise UsageError(f"{text!r:.40} divides by zero")
    return Fraction(whole) / int(part or 1)


def _tokens(name: str, digits: str) -> int:
    tokens = int(digits) if len(digits) <= 20 else MOST_TOKENS + 1
    _check_tokens(name, tokens)
    return tokens


def _check_tokens(name: str, tokens: int) -> None:
    if not 1 <= tokens <= MOST_TOKENS:
        raise UsageError(f"{name} must be from 1 to {MOST_TOKENS:,} tokens, not {tokens:,}")


def to_mapping(base: Comparison, sweeps: Sequence[Sweep] = ()) -> dict[str, Any]:
    """`latscope.cost/1`, JSON-ready."""
    return {
        "schema": SCHEMA,
        **_plain(base),
        "constants": {
            "forward": number(base.constants.forward),
            "kv_read": number(base.constants.kv_read),
        },
        "sweeps": [
            {
                "scenario": found.scenario.name,
                "varies": list(found.axes),
                "watch": found.scenario.watch,
                "fits": found.scenario.fits,
                "does_not_fit": found.scenario.does_not_fit,
                "points": [_plain(point) for point in found.points],
            }
            for found in sweeps
        ],
    }


def _plain(call: Comparison) -> dict[str, Any]:
    return {
        "prompt": call.prompt,
        "output": call.output,
        "with_cache": _plain_cost(call.with_cache),
        "without_cache": _plain_cost(call.without_cache),
        "saved_percent": rounded(call.saved_percent, 1),
    }


def _plain_cost(found: Cost) -> dict[str, Any]:
    steps = found.steps
    return {
        "ttft": number(found.ttft),
        "decode": number(found.decode),
        "total": number(found.total),
        "average_per_token": rounded(found.average_per_token, 1),
        "steps": {
            "first": number(steps.first),
            "mid": number(steps.mid),
            "last": number(steps.last),
        },
        "tokens_per_1k_units": rounded(found.tokens_per_1k_units, 2),
    }


def rounded(value: Units, places: int) -> int | float:
    """To so many decimals, a half upwards, as the source rounds; whole numbers as integers. What
    would round to nothing keeps two digits."""
    scale = 10**places
    near = number(Fraction(floor(value * scale + Fraction(1, 2)), scale))
    return near if near or not value else float(f"{float(value):.2g}")


def number(value: Units) -> int | float:
    """An integer where it is one, else the nearest float."""
    return value.numerator if value.denominator == 1 else float(value)
