"""A runbook as data: symptom -> evidence -> actions -> done when, and the cases that prove it.

The file form is the YAML front matter of a page (`latscope.runbook/1`, read by
documents.runbooks); the words here are its words. A condition names a metric of
`rules.metrics.METRICS`, a statistic, one comparison and how sure it must be. Nothing is evaluated.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from latscope.attribution.model import Mode

SCHEMA = "latscope.runbook/1"

Severity: TypeAlias = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")

Stat: TypeAlias = Literal[
    "p50", "p95", "p99", "mean", "max", "sum", "share", "rate", "slope", "n", "value"
]
"""share: of the calls that tell the metric, how many have it above zero; rate: their sum an hour;
slope: growth with each unit of `along`; n: how many calls tell it; value: a figure of the whole
group. Quantiles of censored metrics are Kaplan and Meier's."""

Verdict: TypeAlias = Literal["open", "resolved", "not seen", "insufficient evidence"]
VERDICTS: tuple[Verdict, ...] = ("open", "resolved", "not seen", "insufficient evidence")

Against: TypeAlias = Literal["value", "baseline", "floor", "where", "metric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a statistic is compared with.

    against: `value`: `value` itself, in the metric's unit. `baseline`: the same statistic of the
    reference calls (the baseline file; else the profile's floor where the metric has one; else the
    file's own quieter hours; else unknown). `floor`: the profile's floor only. `where`: the same
    statistic of those calls of this file that pass `where`. `metric`: the same statistic of another
    metric, over the same calls.
    The bound is that figure times `times`, and `by` away from it: above means more than
    max(figure * times, figure + by), below less than min(figure * times, figure - by); `near` less
    than `times` - 1 of the figure (or `by`, if that is more) away on either side; `apart` more. A
    `by` of 0, or a `times` of 1 beside a `by`, counts for nothing.
    """

    against: Against
    value: float = 0.0
    times: float = 1.0
    by: float = 0.0
    where: str | None = None
    metric: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """metric, stat: of the calls that pass `where` (all when null). along: for `slope`, the metric
    it grows with (`turn`, `started_ns`). how, bound: the comparison. sure: the probability at which
    the interval of the difference must exclude the bound; 0: the estimate alone decides. least:
    calls that must tell the metric on each side, else the condition is unknown. otherwise: what is
    said when it does not hold (`traffic grew`)."""

    metric: str
    stat: Stat
    how: Literal["above", "below", "near", "apart", "is"]
    bound: Bound
    where: str | None = None
    along: str | None = None
    sure: float = 0.9
    least: int = 5
    otherwise: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One item of a page's evidence: a way the symptom can come about.

    segment: a segment, `queue.engine`, `queue | prefill` for what a client cannot tell apart, or a
    word of its own (`output`, `traffic`). conditions: all must hold (unknown if one is). moves:
    (metric, stat) whose difference to the reference says how many ms this cause moved; for the
    ranking. unless: causes after whose being named this one is not looked at. collect: what to
    collect if it cannot be told."""

    id: str
    says: str
    segment: str | None
    conditions: tuple[Condition, ...]
    moves: tuple[str, Stat] | None = None
    unless: tuple[str, ...] = ()
    collect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """do: one thing to do, in the imperative; may hold {metric.stat} places, filled with readings
    of the same file (`{input_tokens.p95}`). cause: only when that cause is named; null: always.
    where: only where a call passes this test (a hop named nginx, say)."""

    do: str
    cause: str | None = None
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    text: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case of a page: calls and what the rule must say of them.

    calls, baseline, before: each a list of tables; a table makes `n` calls `every` so long, from
    `start` on, its other keys being fields of an attribution in the words of metrics, with a spread
    (`rules.cases` draws them by `seed`); or `{file: NAME}`, recordings beside the page.
    segment, causes: what must be named, where stated.
    """

    says: str
    verdict: Verdict
    calls: tuple[Mapping[str, Any], ...]
    baseline: tuple[Mapping[str, Any], ...] = ()
    before: tuple[Mapping[str, Any], ...] = ()
    segment: str | None = None
    causes: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """scope: `group`: judged for each model at each endpoint; `file`: for all calls together.
    modes: others are not seen. needs: metrics of which at least one call must tell each, else the
    rule is not seen, and says what to collect. where: only these calls. opens_if: preconditions:
    one that does not hold makes the rule not seen, with its `otherwise`; an unknown one makes it
    insufficient. symptom: all must hold. evidence: in the page's order; none: the symptom alone
    decides. body: the page for people, Markdown. path: where it was read from."""

    id: str
    title: str
    severity: Severity
    symptom: tuple[Condition, ...]
    evidence: tuple[Cause, ...] = ()
    actions: tuple[Action, ...] = ()
    done_when: tuple[Done, ...] = ()
    cases: tuple[Case, ...] = ()
    scope: Literal["group", "file"] = "group"
    modes: tuple[Mode, ...] = ("vendor", "self-hosted", "on-device")
    needs: tuple[str, ...] = ()
    where: str | None = None
    opens_if: tuple[Condition, ...] = ()
    body: str = field(default="", repr=False)
    path: str = ""
    schema: str = SCHEMA
