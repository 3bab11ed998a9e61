"""Which calls arrive when: drawn from a seed, or read from a trace.

Every draw has a dice of its own (arrivals, prompts, outputs, prefixes), so that changing one
setting leaves the others' draws as they were.
"""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

from latscope.errors import InputError
from latscope.units import Ns, S, ns_from_s

Pattern: TypeAlias = Literal["constant", "poisson", "burst"]
PATTERNS: tuple[Pattern, ...] = ("constant", "poisson", "burst")

MOST_TOKENS = 10_000_000
"""To a prompt or an output; more is a slip of the pen, not a call."""


class Call(NamedTuple):
    """One call to come. at_ns: from the start; cap: most tokens it may generate, and when that is
    more than output it ends by a stop token; prefix, shared: its first `shared` tokens are those of
    every call with this prefix; session: the rest of its prompt and its output continue that of the
    session's call before it, null when it stands alone; priority: the least is the most urgent."""

    at_ns: Ns
    prompt: int
    output: int
    cap: int
    prefix: str | None = None
    shared: int = 0
    session: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Traffic to draw. rate: calls a second, all replicas together; burst: calls that arrive in one
    instant when the pattern is burst (bursts are then as far apart as keeps the rate); prompt,
    output: median tokens; *_spread: sigma of the lognormal they are drawn from, 0 for always the
    median; most_*: what a draw is cut to; prefixes: how many different ones calls are spread over,
    0 for none; prefix_tokens: their length, on top of the prompt."""

    seed: int = 0
    calls: int = 1000
    rate: float = 10.0
    pattern: Pattern = "poisson"
    burst: int = 10
    prompt: int = 512
    prompt_spread: float = 0.7
    most_prompt: int = 8192
    output: int = 128
    output_spread: float = 0.5
    most_output: int = 2048
    prefixes: int = 0
    prefix_tokens: int = 512


def drawn(workload: Workload) -> Iterator[Call]:
    """The workload's calls in order of arrival; the same seed, the same calls."""
    dice = {name: Random(f"{workload.seed}:{name}") for name in ("prompt", "output", "prefix")}
    for at_ns in _instants(workload):
        prompt = _length(dice["prompt"], workload.prompt, workload.prompt_spread)
        output = _length(dice["output"], workload.output, workload.output_spread)
        prompt, output = min(prompt, workload.most_prompt), min(output, workload.most_output)
        prefix, shared = None, 0
        if workload.prefixes:
            prefix = f"prefix-{dice['prefix'].randrange(workload.prefixes)}"
            shared = workload.prefix_tokens
        yield Call(at_ns, prompt + shared, output, output, prefix, shared)


def _instants(workload: Workload) -> Iterator[Ns]:
    gap = S / workload.rate
    random = Random(f"{workload.seed}:arrivals")
    at = 0.0
    for number in range(workload.calls):
        if workload.pattern == "constant":
            at = number * gap
        elif workload.pattern == "burst":
            at = number // workload.burst * workload.burst * gap
        else:
            at += random.expovariate(1.0) * gap
        yield round(at)


def _length(random: Random, median: int, spread: float) -> int:
    return max(1, round(random.lognormvariate(0.0, spread) * median)) if spread else median


# -- traces ---------------------------------------------------------------------------------------

FIELDS = ("at_s", "prompt", "output", "max_tokens", "prefix", "shared", "session", "priority")
"""Columns of a trace; the first three are needed."""


def parse(lines: Iterable[str], *, name: str) -> list[Call]:
    """The calls of a trace in order of arrival. A file whose first line is a JSON object is JSONL,
    any other CSV with a heading; both with the columns of FIELDS, `at_s` in seconds from the start.

    name: of the file, for the InputError of a trace that cannot be used."""
    rows = _rows(lines, name)
    calls = [_call(row, f"{name}:{number}") for number, row in rows]
    if not calls:
        raise InputError(f"{name}: holds no call; a trace has columns {', '.join(FIELDS[:3])}")
    return sorted(calls, key=lambda call: call.at_ns)


def _rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    kept = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if kept and kept[0][1].lstrip().startswith("{"):
        for number, line in kept:
            yield number, _object(line, f"{name}:{number}")
        return
    reader = csv.DictReader(line for _, line in kept)
    missing = [field for field in FIELDS[:3] if field not in (reader.fieldnames or ())]
    if kept and missing:
        raise InputError(f"{name}:1: no column {missing[0]}; a trace has {', '.join(FIELDS)}")
    for (number, _), row in zip(kept[1:], reader, strict=False):
        yield number, row


def _object(line: str, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        raise InputError(f"{where}: not JSON; a trace holds one object a line") from None
    if not isinstance(found, dict):
        raise InputError(f"{where}: not an object but a JSON {type(found).__name__}")
    return found


def _call(row: Mapping[str, Any], where: str) -> Call:
    prompt, output = (_count(row, field, where, least=1) for field in ("prompt", "output"))
    shared = _count(row, "shared", where, default=0)
    prefix = _name(row, "prefix")
    if shared > prompt or (shared and prefix is None):
        raise InputError(f"{where}: shared: {shared} tokens of no prefix, or more than the prompt")
    cap = _count(row, "max_tokens", where, default=output, least=1)
    return Call(
        at_ns=_instant(row, where),
        prompt=prompt,
        output=min(output, cap),
        cap=cap,
        prefix=prefix,
        shared=shared,
        session=_name(row, "session"),
        priority=_count(row, "priority", where, default=0),
    )


def _instant(row: Mapping[str, Any], where: str) -> Ns:
    try:
        at = float(row.get("at_s") or 0)
    except (TypeError, ValueError):
        at = -1.0
    if not (isfinite(at) and 0 <= at < 1e9):
        raise InputError(f"{where}: at_s: {_shown(row, 'at_s')} is no time in seconds")
    return ns_from_s(at)


def _count(
    row: Mapping[str, Any], field: str, where: str, *, default: int | None = None, least: int = 0
) -> int:
    value = row.get(field)
    if value in (None, "") and default is not None:
        return default
    try:
        count = int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        count = -1
    if not least <= count <= MOST_TOKENS:
        said = f"{_shown(row, field)} is no whole number from {least} to {MOST_TOKENS}"
        raise InputError(f"{where}: {field}: {said}")
    return count


def _shown(row: Mapping[str, Any], field: str) -> str:
    return repr(row.get(field))[:40]


def _name(row: Mapping[str, Any], field: str) -> str | None:
    value = row.get(field)
    return None if value in (None, "") else str(value)
