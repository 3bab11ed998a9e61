"""A budget as a document and as text: what keeps a target, and where a planned call goes."""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from rich.text import Text

from latscope.attribution import budget
from latscope.attribution.budget import LEVELS, Call, Level, Limit, Part, Targets
from latscope.attribution.profile import Floor, Profile
from latscope.report.bars import colour
from latscope.report.figures import count
from latscope.units import MS

SCHEMA = "latscope.budget/1"
ROWS = 5
"""Prompts of the table, where none is given."""


def document(
    profile: Profile,
    floor: Floor,
    targets: Targets,
    *,
    prompt: int | None,
    output: int | None,
    cached: int,
) -> dict[str, Any]:
    """`latscope.budget/1`. prompt, output: of a planned call, null where not given."""
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "endpoint": profile.endpoint,
        "model": profile.model,
        "made_at": profile.made_at,
        "expires_at": profile.expires_at,
        "ttft_ns": targets.ttft_ns,
        "e2e_ns": targets.e2e_ns,
        "prompt": prompt,
        "output": output,
        "cached": cached,
        "load": "included" if profile.excess_ns is not None else "unloaded floor only",
        "measured_tokens": list(floor.tokens),
        "limits": [],
        "planned": None,
        "notes": _notes(profile),
    }
    if targets.ttft_ns is not None or targets.e2e_ns is not None:
        asked = Call(prompt=prompt or 1, output=output or 1, cached=cached)
        found["limits"] = [
            _limits(profile, floor, targets, level, asked, prompt) for level in LEVELS
        ]
    if prompt is not None:
        call = Call(prompt=prompt, output=output or 1, cached=cached)
        found["planned"] = [_planned(profile, floor, targets, level, call) for level in LEVELS]
    return found


def _notes(profile: Profile) -> list[str]:
    said = []
    if profile.excess_ns is None:
        said.append(
            "the profile knows the unloaded floor only: waiting under load comes on top, and p95 is"
            " the scatter of unloaded calls"
        )
    if profile.step is None:
        said.append("the profile knows no decode step: nothing is said of E2E or output")
    said.append("on a kept connection; the p95s of first token and steps are added")
    return said


def _limits(
    profile: Profile,
    floor: Floor,
    targets: Targets,
    level: Level,
    asked: Call,
    prompt: int | None,
) -> dict[str, Any]:
    longest = budget.largest_prompt(profile, floor, asked, level, targets)
    outputs: list[dict[str, Any]] = []
    if targets.e2e_ns is not None and profile.step is not None:
        for tokens in [prompt] if prompt is not None else _prompts(floor, longest):
            call = Call(prompt=tokens, output=1, cached=asked.cached)
            most = budget.largest_output(profile, floor, call, level, targets)
            outputs.append({"prompt": tokens, "output": _limit(most)})
    return {"level": level, "prompt": _limit(longest), "outputs": outputs}


def _prompts(floor: Floor, longest: Limit) -> list[int]:
    """From the shortest measured to the longest that keeps the targets, by equal factors."""
    if longest.tokens is None:
        return []
    last = longest.tokens if not longest.any else floor.tokens[1]
    begin = max(1, min(floor.tokens[0], last))
    steps = [round(begin * (last / begin) ** (at / (ROWS - 1))) for at in range(ROWS)]
    return list(dict.fromkeys(steps))


def _limit(limit: Limit) -> dict[str, Any]:
    return {"tokens": limit.tokens, "any": limit.any, "beyond_measured": limit.beyond}


def _planned(
    profile: Profile, floor: Floor, targets: Targets, level: Level, call: Call
) -> dict[str, Any]:
    parts = list(budget.first_token(profile, floor, call, level))
    first = sum(part.ns for part in parts)
    steps = budget.decode(profile, call, level)
    if steps is not None:
        parts.append(Part(candidates=("decode",), name="steps", ns=steps))
    total = None if steps is None else first + steps
    return {
        "level": level,
        "ttft_ns": first,
        "e2e_ns": total,
        "keeps_ttft": None if targets.ttft_ns is None else first <= targets.ttft_ns,
        "keeps_e2e": None if targets.e2e_ns is None or total is None else total <= targets.e2e_ns,
        "parts": [
            {"candidates": list(part.candidates), "name": part.name, "ns": part.ns}
            for part in parts
            if part.ns
        ],
    }


# -- as text --------------------------------------------------------------------------------------


def budget_lines(found: Mapping[str, Any], *, width: int, colours: bool) -> Iterator[Text]:
    """found: `latscope.budget/1`."""
    yield Text(f"{found['model']}  {found['endpoint']}", "bold")
    for row in found["limits"]:
        yield from _limit_lines(found, row)
    for row in found["planned"] or ():
        yield from _planned_lines(found, row, colours)
    for note in found["notes"]:
        yield from (Text(f"  {line}", "dim") for line in wrap(note, width - 2))


def _limit_lines(found: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Text]:
    with_output = f" and {count(found['output'])} out" if found["output"] else ""
    yield Text.assemble(
        (f"  {row['level']}  ", "bold"),
        f"{_wanted(found)}: a prompt of {_tokens(row['prompt'])}{with_output}",
    )
    for each in row["outputs"]:
        most = _tokens(each["output"])
        yield Text(f"       {count(each['prompt']):>10} in   {most} out")


def _wanted(found: Mapping[str, Any]) -> str:
    names = (("TTFT", "ttft_ns"), ("E2E", "e2e_ns"))
    said = [f"{name} ≤ {_ms(found[key])}" for name, key in names if found[key] is not None]
    cached = f", {count(found['cached'])} cached" if found["cached"] else ""
    return f"{', '.join(said)}{cached}"


def _tokens(limit: Mapping[str, Any]) -> str:
    if limit["tokens"] is None:
        return "no length (not even one token keeps it)"
    if limit["any"]:
        return "any length"
    beyond = " (beyond what was measured)" if limit["beyond_measured"] else ""
    return f"up to {count(limit['tokens'])} tokens{beyond}"


def _planned_lines(
    found: Mapping[str, Any], row: Mapping[str, Any], colours: bool
) -> Iterator[Text]:
    cached = f" ({count(found['cached'])} cached)" if found["cached"] else ""
    line = Text.assemble(
        (f"  {row['level']}  ", "bold"),
        f"{count(found['prompt'])} in{cached}, {count(found['output'] or 1)} out: TTFT"
        f" {_ms(row['ttft_ns'])}",
    )
    _verdict(line, row["keeps_ttft"], colours)
    if row["e2e_ns"] is not None:
        line.append(f", E2E {_ms(row['e2e_ns'])}")
        _verdict(line, row["keeps_e2e"], colours)
    yield line
    for part in row["parts"]:
        name = " | ".join(part["candidates"])
        style = colour(part["candidates"][0], colours) if len(part["candidates"]) == 1 else ""
        yield Text.assemble(
            "       ", (f"{name:<16}", style), f"{_ms(part['ns']):>10}  ", (part["name"], "dim")
        )


def _verdict(line: Text, kept: bool | None, colours: bool) -> None:
    if kept is not None:
        mark, style = (" ✓", "green") if kept else (" ✗", "bold red")
        line.append(mark, style if colours else "")


def _ms(ns: float) -> str:
    ms = ns / MS
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
