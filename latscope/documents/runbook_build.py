"""A page's form made a Runbook: units against metrics, names that must name something.

What a type cannot say is checked here. Every fault is raised with its place in the front matter, so
that the reader of the page can name the line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, cast, get_args

from latscope.documents.quantity import Quantity, quantity
from latscope.documents.runbook_form import BoundForm, CaseForm, CauseForm, ConditionForm, PageForm
from latscope.errors import UsageError
from latscope.rules.metrics import Metric, metric_of, no_metric
from latscope.rules.runbook import (
    Action,
    Against,
    Bound,
    Case,
    Cause,
    Condition,
    Done,
    Runbook,
    Stat,
)
from latscope.rules.table import test_of

Loc: TypeAlias = tuple[str | int, ...]
How: TypeAlias = Literal["above", "below", "near", "apart", "is"]

PLACE = re.compile(r"\{([A-Za-z_][\w.+-]*)\}")
"""A place in an action, filled with a reading: {in_flight.p50}."""
SURE = 0.9
LEAST = 5
COUNTED: tuple[Stat, ...] = ("share", "n")
"""Statistics without the metric's unit."""
LEAST_SILENT = 2


AROUND: tuple[How, ...] = ("near", "apart")
"""Comparisons that look both ways."""


class Wrong(Exception):
    """What is wrong, and what to do, at `loc` of the front matter."""

    def __init__(self, loc: Loc, what: str) -> None:
        super().__init__(what)
        self.loc = loc
        self.what = what


def build(form: PageForm, *, body: str = "", path: str = "") -> Runbook:
    """The Runbook a form states. Wrong, with its place, where it makes no sense."""
    for index, name in enumerate(form.needs):
        _metric(name, ("needs", index))
    _where(form.where, ("where",))
    evidence = tuple(
        _cause(cause, ("evidence", index)) for index, cause in enumerate(form.evidence)
    )
    _references(form)
    return Runbook(
        id=form.id,
        title=form.title,
        severity=form.severity,
        scope=form.scope,
        modes=form.modes,
        needs=form.needs,
        where=form.where,
        opens_if=_conditions(form.opens_if, ("opens_if",)),
        symptom=_conditions(form.symptom, ("symptom",)),
        evidence=evidence,
        actions=tuple(_actions(form)),
        done_when=tuple(
            Done(text=done.text, conditions=_conditions(done.if_, ("done_when", index, "if")))
            for index, done in enumerate(form.done_when)
        ),
        cases=tuple(_case(case) for case in form.cases),
        body=body,
        path=path,
    )


def wanting(page: Runbook) -> str | None:
    """What a page of latscope's own must have and this one lacks, in words."""
    fires, silent = counts(page)
    if not fires:
        return "no case in which it is open; add one with verdict: open"
    if silent < LEAST_SILENT:
        return f"{silent} of {LEAST_SILENT} cases in which it stays silent; add verdict: not seen"
    return None


def counts(page: Runbook) -> tuple[int, int]:
    """How many of its cases fire (`open`), and how many stay silent (`not seen`)."""
    verdicts = [case.verdict for case in page.cases]
    return verdicts.count("open"), verdicts.count("not seen")


# -- conditions ------------------------------------------------------------------------------------


def _conditions(forms: Sequence[ConditionForm], loc: Loc) -> tuple[Condition, ...]:
    return tuple(_condition(form, (*loc, index)) for index, form in enumerate(forms))


def _condition(form: ConditionForm, loc: Loc) -> Condition:
    metric = _metric(form.metric, (*loc, "metric"))
    _stat(metric, form.stat, loc)
    _along(form, loc)
    _where(form.where, (*loc, "where"))
    given = {
        "above": form.above,
        "below": form.below,
        "near": form.near,
        "apart": form.apart,
        "is": form.is_,
    }
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        found = f"has {' and '.join(named)}" if named else "compares with nothing"
        raise Wrong(loc, f"a condition that {found}; give one of above, below, near, apart and is")
    how = cast(How, named[0])
    timed = metric.unit == "ns" and form.stat not in COUNTED
    bound = _bound(how, cast(Quantity | BoundForm, given[how]), timed, (*loc, how))
    sure = SURE if form.sure is None else form.sure.value
    if not 0 <= sure < 1:
        raise Wrong((*loc, "sure"), "must be from 0 to below 100%, such as 90%")
    return Condition(
        metric=form.metric,
        stat=form.stat,
        how=how,
        bound=bound,
        where=form.where,
        along=form.along,
        sure=sure,
        least=form.least or LEAST,
        otherwise=form.otherwise,
    )


def _stat(metric: Metric, stat: Stat, loc: Loc) -> None:
    if metric.unit == "text":
        raise Wrong((*loc, "metric"), f"{metric.name} is a text: it can only stand in a where")
    if (metric.whole is not None) != (stat == "value"):
        only = "of the whole group: its only stat is value" if metric.whole else "one a call"
        more = "" if metric.whole else "; value is for figures of a whole group"
        raise Wrong((*loc, "stat"), f"{metric.name} is a figure {only}{more}")


def _along(form: ConditionForm, loc: Loc) -> None:
    if form.stat == "slope" and form.along is None:
        raise Wrong(loc, "a slope needs along: the metric it grows with, such as turn_index")
    if form.along is None:
        return
    if form.stat != "slope":
        raise Wrong((*loc, "along"), "only a slope has an along; drop it or take stat: slope")
    _metric(form.along, (*loc, "along"))


def _bound(how: How, given: Quantity | BoundForm, timed: bool, loc: Loc) -> Bound:
    if isinstance(given, Quantity):
        return Bound(against="value", value=_in_unit(given, timed, loc))
    named = [
        name
        for name in ("value", "baseline", "floor", "where", "metric")
        if getattr(given, name) is not None
    ]
    if len(named) != 1:
        found = f"has {' and '.join(named)}" if named else "names nothing to compare with"
        raise Wrong(loc, f"{found}; give one of value, baseline, floor, where and metric")
    against = cast(Against, named[0])
    _where(given.where, (*loc, "where"))
    if given.metric is not None:
        _metric(given.metric, (*loc, "metric"))
    by = 0.0 if given.by is None else _in_unit(given.by, timed, (*loc, "by"))
    if by < 0:
        raise Wrong((*loc, "by"), "must not be negative; below and above say the direction")
    return Bound(
        against=against,
        value=0.0 if given.value is None else _in_unit(given.value, timed, (*loc, "value")),
        times=_times(how, given, against, loc),
        by=by,
        where=given.where,
        metric=given.metric,
    )


def _times(how: How, given: BoundForm, against: Against, loc: Loc) -> float:
    """The factor: stands with baseline and floor themselves, beside the others as `times`."""
    key = against if against in ("baseline", "floor") else "times"
    if key != "times" and given.times is not None:
        raise Wrong((*loc, "times"), f"the factor stands with {key}: {key}: {given.times.text}x")
    stated: Quantity | None = getattr(given, key)
    if stated is None:
        if how in AROUND and given.by is None:
            raise Wrong(loc, f"{how} needs how far: by: 20ms, or times: 15%")
        return 1.0
    if stated.kind in ("time", "truth") or stated.value < 0:
        raise Wrong(
            (*loc, key), f"{stated.text} is no factor; write 1.3x, or 15% with near and apart"
        )
    if how not in AROUND:
        return stated.value
    times = 1 + stated.value if stated.kind == "percent" else stated.value
    if times < 1:
        raise Wrong((*loc, key), f"{how} needs how far away: 15%, or 1.15x")
    return times


def _in_unit(given: Quantity, timed: bool, loc: Loc) -> float:
    """A bound in its metric's unit: times have units, all else has none."""
    if given.value == 0:
        return given.value
    if timed and given.kind != "time":
        raise Wrong(loc, f"{given.text} has no unit of time; write 500ms or 1.5s")
    if not timed and given.kind == "time":
        raise Wrong(loc, f"{given.text} is a time, and this figure is none; write a plain number")
    return given.value


# -- causes, actions, cases ------------------------------------------------------------------------


def _cause(form: CauseForm, loc: Loc) -> Cause:
    return Cause(
        id=form.id,
        says=form.says,
        segment=form.segment,
        conditions=_conditions(form.if_, (*loc, "if")),
        moves=None if form.moves is None else _moves(form.moves, (*loc, "moves")),
        unless=form.unless,
        collect=form.collect,
    )


def _moves(text: str, loc: Loc) -> tuple[str, Stat]:
    name, _, stat = text.strip().rpartition(" ")
    if not name or stat not in get_args(Stat):
        raise Wrong(loc, f"needs a metric and a statistic, such as {text.split()[0]} p50")
    _stat(_metric(name.strip(), loc), cast(Stat, stat), loc)
    return name.strip(), cast(Stat, stat)


def _actions(form: PageForm) -> Iterable[Action]:
    for index, action in enumerate(form.actions):
        loc = ("actions", index)
        _where(action.where, (*loc, "where"))
        for place in PLACE.findall(action.do):
            name, _, stat = place.rpartition(".")
            plain = metric_of(place)
            if plain is not None and plain.unit == "text":
                continue  # the commonest of them
            if stat not in get_args(Stat):
                raise Wrong(
                    (*loc, "do"), f"{{{place}}} names no statistic; write {{{place}.p50}}, say"
                )
            _stat(_metric(name, (*loc, "do")), cast(Stat, stat), (*loc, "do"))
        yield Action(do=action.do, cause=action.cause, where=action.where)


def _references(form: PageForm) -> None:
    """Causes named elsewhere are causes of the page, and no two have one id."""
    known: list[str] = []
    for index, cause in enumerate(form.evidence):
        if cause.id in known:
            raise Wrong(("evidence", index, "id"), f"a second cause {cause.id!r}; rename one")
        known.append(cause.id)
    for index, cause in enumerate(form.evidence):
        for place, name in enumerate(cause.unless):
            loc = ("evidence", index, "unless", place)
            _named(name, known, loc)
            if known.index(name) >= index:
                raise Wrong(loc, f"{name!r} is looked at after {cause.id!r}; put it before")
    for index, action in enumerate(form.actions):
        if action.cause is not None:
            _named(action.cause, known, ("actions", index, "cause"))
    for index, case in enumerate(form.cases):
        for place, name in enumerate(case.causes):
            _named(name, known, ("cases", index, "causes", place))


def _named(name: str, known: Sequence[str], loc: Loc) -> None:
    if name not in known:
        raise Wrong(loc, f"no cause {name!r} on this page; {_hint(name, known)}")


def _case(form: CaseForm) -> Case:
    return Case(
        says=form.says,
        verdict=form.verdict,
        calls=tuple(map(_table, form.calls)),
        baseline=tuple(map(_table, form.baseline)),
        before=tuple(map(_table, form.before)),
        segment=form.segment,
        causes=form.causes,
        seed=form.seed,
    )


def _table(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table of calls with its texts that state a number read: 1.4s is 1.4e9."""
    return {key: _read(value) for key, value in given.items()}


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        return _table(value)
    if isinstance(value, list | tuple):
        return [_read(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        return quantity(value).value
    except ValueError:
        return value


# -- names -----------------------------------------------------------------------------------------


def _metric(name: str, loc: Loc) -> Metric:
    found = metric_of(name)
    if found is None:
        raise Wrong(loc, no_metric(name))
    return found


def _where(text: str | None, loc: Loc) -> None:
    if text is None:
        return
    try:
        test_of(text)
    except UsageError as error:
        raise Wrong(loc, str(error).removeprefix("--where: ")) from error


def _hint(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(known)}" if known else "there are none"
