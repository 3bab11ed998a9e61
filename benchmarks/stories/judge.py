"""Recordings to findings, as `latscope check` does it: learn from the file's own calls, attribute
each, gather columns, judge the shipped pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, TypeAlias

from latscope.attribution.attribute import attribute_timeline
from latscope.attribution.jsonview import to_mapping
from latscope.attribution.learn import learn_apart
from latscope.attribution.observe import Observation, observe
from latscope.attribution.profile import Profile
from latscope.cli.history import LEAST
from latscope.documents.runbooks import shipped
from latscope.recording import Recording
from latscope.rules.check import check, names_of
from latscope.rules.finding import Finding
from latscope.rules.runbook import Runbook
from latscope.rules.table import Gathered, gather
from latscope.timeline import Timeline, build

Attributed: TypeAlias = list[dict[str, Any]]
THIRD = 1 / 3


@cache
def pages() -> tuple[Runbook, ...]:
    return shipped()


@cache
def names() -> frozenset[str]:
    return names_of(pages())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A call as it was looked at: decoded once for what it teaches and for what it is told."""

    call: Recording
    timeline: Timeline
    teaches: Observation | None


def looked_at(calls: Iterable[Recording]) -> list[Seen]:
    found = []
    for call in calls:
        timeline = build(call)
        found.append(Seen(call=call, timeline=timeline, teaches=observe(call, timeline)))
    return found


def attributed(calls: Sequence[Seen]) -> Attributed:
    """Each call split with what the others of its file teach (cli.history does this of files)."""
    known = _learnt(calls)
    return [
        to_mapping(attribute_timeline(one.call, one.timeline, profile=known.get(one.call.call_id)))
        for one in calls
    ]


def _learnt(calls: Sequence[Seen]) -> Mapping[str, Profile]:
    groups: dict[tuple[str, str, str], list[tuple[str, Observation]]] = {}
    for one in calls:
        if one.teaches is not None:
            groups.setdefault(one.teaches.key, []).append((one.call.call_id, one.teaches))
    found: dict[str, Profile] = {}
    for group in groups.values():
        if len(group) < LEAST:
            continue
        rows = learn_apart([row for _, row in group])
        for (call_id, _), profile in zip(group, rows, strict=True):
            if profile is not None:
                found[call_id] = profile
    return found


def gathered(calls: Iterable[Mapping[str, Any]]) -> Gathered:
    return gather(calls, names())


def findings(
    calls: Gathered, *, baseline: Gathered, before: Gathered | None = None
) -> tuple[Finding, ...]:
    return check(pages(), calls, baseline=baseline, before=before)


def a_third(calls: Sequence[Seen], seed: str) -> list[Seen]:
    """A third of the calls, whole sessions of them, as a sampler that keeps sequences would."""
    dice = Random(f"{seed}:third")
    marks: dict[str, float] = {}
    kept: list[Seen] = []
    for one in calls:
        name = one.call.session or one.call.call_id
        marks.setdefault(name, dice.random())
        if marks[name] < THIRD:
            kept.append(one)
    return kept
