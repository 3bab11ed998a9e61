"""The engine, pure: a scenario and a request give a plan of what happens when.

A plan counts from the moment the call is scheduled: how long it waits for a slot depends on the
other calls, and what the cache holds of its prompt is only known then. The server plays the steps
against absolute deadlines and stamps what really happened; nothing here reads a clock, and equal
seeds give equal plans.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

from latscope.documents.scenarios import Quantum, Scenario
from latscope.units import US, Ns, ns_from_ms

TokenChannel: TypeAlias = Literal["hidden", "reasoning", "content"]
What: TypeAlias = Literal[
    "token",  # token `first` exists
    "emit",  # tokens [first, stop) become a frame, in the buffer of whatever holds the stream
    "ping",  # so does a keep-alive
    "tail",  # finish reason, usage and terminal event
    "error",  # an error object inside the open stream
    "flush",  # what may leave of the buffer leaves
    "drain",  # all of it leaves
    "cut",  # the connection drops, the buffer with it
    "whole",  # the answer in one body, not streamed
    "fail",  # not streamed: HTTP 500 in its place
]

ORDER: tuple[What, ...] = (
    "token",
    "emit",
    "ping",
    "tail",
    "error",
    "flush",
    "drain",
    "cut",
    "whole",
    "fail",
)
"""Which of two steps planned for the same instant comes first."""

WORDS = ("the", "lamps", "along", "this", "quay", "come", "on", "one", "by", "one", "as", "evening")
"""What every answer is made of, one word a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the engine needs to know of a request. cap: most tokens it may generate, null for no
    limit; cached_tokens: leading prompt tokens that need no prefill."""

    prompt_tokens: int
    cached_tokens: int = 0
    cap: int | None = None
    stream: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token and when it exists, from scheduled. hidden: reasoning that is never sent."""

    at_ns: Ns
    channel: TokenChannel
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    at_ns: Ns
    what: What
    first: int = 0
    stop: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in the order they are played. finish: `stop` or, when the request's cap ended the
    answer, `length`."""

    tokens: tuple[Token, ...]
    steps: tuple[Step, ...]
    finish: Literal["stop", "length"]


def plan(scenario: Scenario, ask: Ask, seed: int | str) -> Plan:
    """The plan of one call, complete before it begins."""
    channels, finish = _channels(scenario, ask.cap)
    prefill = prefill_ns(scenario, ask)
    tokens = _tokens(scenario, prefill, channels, Random(f"{scenario.seed}:{seed}"))
    end = tokens[-1].at_ns if tokens else prefill
    steps = [Step(at_ns=t.at_ns, what="token", first=i) for i, t in enumerate(tokens)]
    steps += _streamed(scenario, tokens, end) if ask.stream else [_at_once(scenario, end)]
    steps.sort(key=lambda step: (step.at_ns, ORDER.index(step.what), step.first))
    return Plan(tokens=tokens, steps=tuple(steps), finish=finish)


def prefill_ns(scenario: Scenario, ask: Ask) -> Ns:
    """Scheduled to first token: a base, and a cost for every token no cache holds."""
    uncached = ask.prompt_tokens - ask.cached_tokens
    return ns_from_ms(scenario.prefill_base_ms) + round(
        scenario.prefill_us_per_token * US * uncached
    )


def _channels(
    scenario: Scenario, cap: int | None
) -> tuple[list[TokenChannel], Literal["stop", "length"]]:
    wanted: list[TokenChannel] = ["hidden"] * scenario.hidden_reasoning_tokens
    wanted += ["reasoning"] * scenario.reasoning_tokens
    wanted += ["content"] * scenario.output_tokens
    if cap is not None and cap < len(wanted):
        return wanted[:cap], "length"
    return wanted, "stop"


def _tokens(
    scenario: Scenario, prefill: Ns, channels: list[TokenChannel], random: Random
) -> tuple[Token, ...]:
    """When each token exists; generation ends where the scenario breaks the call off."""
    pauses: dict[int, Ns] = {}
    for stall in scenario.stalls:
        if stall.kind == "decode":
            pauses[stall.after_token] = pauses.get(stall.after_token, 0) + ns_from_ms(stall.ms)
    tokens: list[Token] = []
    at = prefill
    for index, channel in enumerate(channels[: _broken_off(scenario)]):
        if index:
            jitter = random.uniform(1 - scenario.step_jitter, 1 + scenario.step_jitter)
            at += ns_from_ms(scenario.decode_step_ms * jitter) + pauses.get(index, 0)
        opens = not tokens or tokens[-1].channel != channel
        word = WORDS[index % len(WORDS)]
        tokens.append(Token(at_ns=at, channel=channel, text=word if opens else f" {word}"))
    return tuple(tokens)


def _broken_off(scenario: Scenario) -> int | None:
    if scenario.cut_after_token is not None:
        return scenario.cut_after_token
    return scenario.error_in_band_after_token


def _at_once(scenario: Scenario, end: Ns) -> Step:
    what: What = "whole"
    if scenario.cut_after_token is not None:
        what = "cut"
    elif scenario.error_in_band_after_token is not None:
        what = "fail"
    return Step(at_ns=end, what=what)


def _streamed(scenario: Scenario, tokens: Sequence[Token], end: Ns) -> list[Step]:
    """Frames, keep-alives, the end, and when a hop lets the bytes of each pass."""
    made = _emits(scenario, tokens)
    made += _pings(scenario, made, end)
    if scenario.cut_after_token is None:
        broken = scenario.error_in_band_after_token is not None
        made.append(Step(at_ns=end, what="error" if broken else "tail"))
    flushes = _flushes(scenario, tokens, [step.at_ns for step in made])
    if scenario.cut_after_token is not None:
        flushes = [at for at in flushes if at <= end]
        last = Step(at_ns=end, what="cut")
    else:
        last = Step(at_ns=flushes.pop(), what="drain")
    return [*made, *(Step(at_ns=at, what="flush") for at in flushes), last]


def _emits(scenario: Scenario, tokens: Sequence[Token]) -> list[Step]:
    """One frame for the first sent token, then one for each group of tokens_per_chunk: a group
    leaves when its last token exists, when the channel changes, or when generation ends."""
    found: list[Step] = []
    first = 0
    for index, token in enumerate(tokens):
        if token.channel == "hidden":
            first = index + 1
            continue
        ends = index + 1 == len(tokens) or tokens[index + 1].channel != token.channel
        full = index + 1 - first >= scenario.tokens_per_chunk
        if not found or full or ends:
            found.append(Step(at_ns=token.at_ns, what="emit", first=first, stop=index + 1))
            first = index + 1
    return found


def _pings(scenario: Scenario, made: Sequence[Step], end: Ns) -> list[Step]:
    """A keep-alive whenever nothing was made for pings_ms, counted from scheduled."""
    if scenario.pings_ms is None:
        return []
    interval = ns_from_ms(scenario.pings_ms)
    found: list[Step] = []
    before = 0
    for at in [*(step.at_ns for step in made), end]:
        due = range(before + interval, at, interval)
        found += [Step(at_ns=ping, what="ping") for ping in due]
        before = at
    return found


def _flushes(scenario: Scenario, tokens: Sequence[Token], made: Sequence[Ns]) -> list[Ns]:
    """When the buffer is given the chance to leave, each instant once, in order."""
    held = [
        (tokens[stall.after_token - 1].at_ns, ns_from_ms(stall.ms))
        for stall in scenario.stalls
        if stall.kind == "hold" and stall.after_token <= len(tokens)
    ]
    late = [_past(held, at) for at in made]
    hop = _hop(scenario)
    return sorted({hop(at, late) for at in late})


def _past(held: Sequence[tuple[Ns, Ns]], at: Ns) -> Ns:
    """The instant, moved to the end of the holds it falls into; what exists as one begins goes."""
    for start, length in sorted(held):
        if start < at < start + length:
            at = start + length
    return at


def _hop(scenario: Scenario) -> Callable[[Ns, Sequence[Ns]], Ns]:
    """How a hop delays an instant at which frames reach it, given all such instants."""
    holds = scenario.holds
    if holds == "all":
        return lambda at, every: max(every)
    if isinstance(holds, Quantum) and holds.quantum_ms is not None:
        quantum = ns_from_ms(holds.quantum_ms)
        return lambda at, every: -(-at // quantum) * quantum
    return lambda at, every: at  # a byte quantum lets bytes pass at once, but only whole blocks
