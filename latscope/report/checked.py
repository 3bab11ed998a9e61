"""What the runbooks concluded, for machines: `latscope.check/1`, GitHub annotations, JUnit XML."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from typing import Any

from latscope.report.findings import place, ranked
from latscope.report.pipelines import Case, Kind, case, command, suite
from latscope.rules.finding import SCHEMA, Finding
from latscope.rules.runbook import SEVERITIES, Severity

FIRST = (
    "runbook", "title", "verdict", "severity", "model", "endpoint", "calls", "segment", "reason",
    "evidence", "actions", "done_when",
)  # fmt: skip
LEVELS: dict[Severity, str] = {"info": "notice", "warning": "warning", "critical": "error"}


def document(findings: Iterable[Finding]) -> dict[str, Any]:
    """`latscope.check/1`, in the order of the terminal view. What is no finite number is null."""
    return {"schema": SCHEMA, "findings": [_finding(found) for found in ranked(findings)]}


def _finding(found: Finding) -> dict[str, Any]:
    plain = asdict(found)
    return {key: _finite(plain[key]) for key in (*FIRST, *(k for k in plain if k not in FIRST))}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


# -- what a pipeline is told -----------------------------------------------------------------------


def fails(found: Finding, fail_on: Severity) -> bool:
    """Whether it is open at or above a severity: exit code 1."""
    return found.verdict == "open" and _at_least(found, fail_on)


def lacks(found: Finding, fail_on: Severity) -> bool:
    """Whether missing evidence counts: the rule was asked for, or its symptom is seen and it is of
    the severity that would have failed: exit code 4."""
    if found.verdict != "insufficient evidence":
        return False
    return found.asked or (found.seen is True and _at_least(found, fail_on))


def _at_least(found: Finding, fail_on: Severity) -> bool:
    return SEVERITIES.index(found.severity) >= SEVERITIES.index(fail_on)


def annotations(findings: Iterable[Finding], fail_on: Severity) -> Iterator[str]:
    """GitHub workflow commands: open findings by their severity, missing evidence that counts as
    a warning. Escaped as GitHub's own toolkit does."""
    for found in ranked(findings):
        if found.verdict == "open":
            yield command(LEVELS[found.severity], f"{found.title}", _said(found))
        elif lacks(found, fail_on):
            yield command("warning", f"insufficient evidence: {found.title}", _said(found))


def _said(found: Finding) -> str:
    lines = [f"{place(found)}, {found.calls} calls ({found.runbook})"]
    if found.segment is not None:
        lines.append(f"segment: {found.segment}")
    named = [cause.says for cause in found.causes if cause.named]
    lines += [*named, *([found.reason] if found.reason else ()), *found.collect]
    lines += [f"{number}. {action}" for number, action in enumerate(found.actions, 1)]
    return "\n".join(lines)


def junit(findings: Sequence[Finding], fail_on: Severity, *, lenient: bool = False) -> str:
    """JUnit XML: a test case for each runbook and group. Open at or above `fail_on` is a failure,
    missing evidence that counts an error (skipped when lenient), other missing evidence skipped."""
    return suite("latscope check", [_case(one, fail_on, lenient) for one in ranked(findings)])


def _case(found: Finding, fail_on: Severity, lenient: bool) -> Case:
    kind: Kind = None
    if fails(found, fail_on):
        kind = "failure"
    elif found.verdict == "insufficient evidence":
        kind = "error" if lacks(found, fail_on) and not lenient else "skipped"
    name = f"{found.title}, {place(found)}"
    if kind is None:
        return case(found.runbook, name, f"{found.verdict}: {_said(found)}", kind)
    message = found.reason if kind == "skipped" else found.reason or found.segment or found.title
    type_ = found.severity if kind == "failure" else found.verdict
    return case(found.runbook, name, _said(found), kind, message=message, type_=type_)
