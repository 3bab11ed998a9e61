"""What a rule concluded: `latscope.check/1`."""

from dataclasses import dataclass
from typing import Literal

from latscope.rules.runbook import Severity, Stat, Verdict

SCHEMA = "latscope.check/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One condition, read. value with its interval (low, high; null ends unknown), baseline: what
    it was compared with, before `times` and `by`; all in `unit` (times are ns). n: calls on this
    side. holds: null when it cannot be told, and why then. wanted: the comparison in words."""

    metric: str
    stat: Stat
    unit: str
    value: float | None
    low: float | None
    high: float | None
    baseline: float | None
    n: int
    holds: bool | None
    wanted: str
    why: str = ""
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseFound:
    """named: true, false, or null when it cannot be told. moved_ns: by how much its segment moved
    against the reference; null when there is nothing to compare with."""

    id: str
    says: str
    segment: str | None
    named: bool | None
    moved_ns: float | None
    readings: tuple[Reading, ...]
    collect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneFound:
    text: str
    met: bool | None
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's verdict over one group of calls (model and endpoint null: over all calls).

    segment: that of the first of `causes` that is named, which are in order of the milliseconds
    they moved; `queue | prefill` where a client cannot tell. evidence: every reading taken, those
    of the symptom first. reason: why it is not open, or not sure; collect: what to collect.
    reference: what a baseline condition was compared with (`baseline file`, `profile's floor`,
    `quieter hours of this file`, null when none was). asked: the user named this rule, or gave a
    `--before` in which it was open: then missing evidence counts. seen: the symptom's own verdict.
    """

    runbook: str
    title: str
    verdict: Verdict
    severity: Severity
    segment: str | None
    evidence: tuple[Reading, ...]
    actions: tuple[str, ...]
    done_when: tuple[DoneFound, ...]
    causes: tuple[CauseFound, ...] = ()
    model: str | None = None
    endpoint: str | None = None
    calls: int = 0
    reason: str = ""
    collect: tuple[str, ...] = ()
    reference: Literal["baseline file", "profile's floor", "quieter hours of this file", None] = (
        None
    )
    seen: bool | None = None
    asked: bool = False
