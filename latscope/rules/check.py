"""Runbooks judged over calls: which verdict each page comes to, and why.

A page is judged for each model at each endpoint, or once for the whole file. Its symptom must hold
before its causes are looked at; a cause is named by its own conditions, and those named are ranked
by the milliseconds they moved. What cannot be told is said, with what to collect.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import get_args

from latscope.attribution.model import Mode
from latscope.rules.conditions import Seen, Truth, all_of, seen, unit_of
from latscope.rules.finding import CauseFound, DoneFound, Finding, Reading
from latscope.rules.measured import measure
from latscope.rules.metrics import known
from latscope.rules.reference import Reference
from latscope.rules.runbook import (
    SEVERITIES,
    Action,
    Bound,
    Cause,
    Condition,
    Done,
    Runbook,
    Stat,
    Verdict,
)
from latscope.rules.spoken import spoken
from latscope.rules.table import Gathered, Key, Table, test_of, untold

ORDER: tuple[Verdict, ...] = ("open", "insufficient evidence", "resolved", "not seen")
"""How findings are shown."""
PLACE = re.compile(r"\{([^{}\s]+?)(?:\.(" + "|".join(get_args(Stat)) + r"))?\}")
"""`{in_flight.p50}` in an action; of a metric that is text, `{schema}`: the commonest."""
MODES = len(get_args(Mode))
ZERO = Bound(against="value")
NO_REFERENCE = Reference()


# -- what to gather -------------------------------------------------------------------------------


def names_of(pages: Iterable[Runbook]) -> frozenset[str]:
    """Every metric the pages need: what `gather` must collect."""
    found: set[str] = set()
    for page in pages:
        for condition in conditions_of(page):
            found.update(_names(condition))
        found.update(page.needs)
        found.update(cause.moves[0] for cause in page.evidence if cause.moves is not None)
        found.update(place[1] for action in page.actions for place in PLACE.finditer(action.do))
        for text in (page.where, *(action.where for action in page.actions)):
            found.update(test_of(text)[1] if text is not None else ())
    return frozenset(found)


def conditions_of(page: Runbook) -> Iterator[Condition]:
    """Every condition of a page."""
    yield from page.opens_if
    yield from page.symptom
    for cause in page.evidence:
        yield from cause.conditions
    for done in page.done_when:
        yield from done.conditions


def _names(condition: Condition) -> Iterator[str]:
    yield condition.metric
    if condition.along is not None:
        yield condition.along
    if condition.bound.metric is not None:
        yield condition.bound.metric
    for text in (condition.where, condition.bound.where):
        if text is not None:
            yield from test_of(text)[1]


# -- judging --------------------------------------------------------------------------------------


def check(
    pages: Iterable[Runbook],
    calls: Gathered,
    *,
    baseline: Gathered | None = None,
    before: Gathered | None = None,
    asked: Collection[str] = (),
) -> tuple[Finding, ...]:
    """Each page's verdict over each group (or the file, by its scope): open ones first, the most
    severe first, those that moved most milliseconds first. baseline: the healthy reference; before:
    calls in which a page may have been open, without which nothing is `resolved`; all three
    gathered for the same pages. asked: ids of the pages the user named."""
    found: list[Finding] = []
    for page in pages:
        then = _scopes(page, before)
        healthy = _scopes(page, baseline)
        now = _scopes(page, calls)
        for key in dict.fromkeys((*now, *then)):
            reference = healthy.get(key)
            was_open = key in then and _judge(page, then[key], reference).verdict == "open"
            if key in now:
                one = _judge(page, now[key], reference, was_open=was_open)
            elif was_open:
                one = _Page(page, Table(columns={}, size=0, n=0, key=key), was_open=True).closed(
                    "it was open before, and these files hold no such call"
                )
            else:
                continue
            found.append(replace(one, asked=was_open or page.id in asked))
    return tuple(sorted(found, key=_rank))


def _scopes(page: Runbook, calls: Gathered | None) -> Mapping[Key | None, Table]:
    if calls is None:
        return {}
    if page.scope == "file":
        return {None: calls.file}
    return {key: calls.groups[key] for key in calls.groups}


def _rank(finding: Finding) -> tuple[int, int, float]:
    moved = max((c.moved_ns for c in finding.causes if c.named and c.moved_ns), default=0.0)
    return ORDER.index(finding.verdict), -SEVERITIES.index(finding.severity), -moved


def _judge(
    page: Runbook, table: Table, healthy: Table | None, *, was_open: bool = False
) -> Finding:
    mine = _chosen(page, table)
    reference = Reference(None if healthy is None else _chosen(page, healthy))
    over = _Page(page, mine, reference, was_open)
    closed = _unfed(page, table, mine)
    if closed is not None:
        return over.closed(*closed)
    opens = over.read(page.opens_if)
    symptom = over.read(page.symptom)
    return over.verdict(opens, symptom)


def _chosen(page: Runbook, table: Table) -> Table:
    """The calls a page is about."""
    return table.where(_modes(page)).where(page.where)


def _modes(page: Runbook) -> str | None:
    if len(page.modes) == MODES:
        return None
    return " or ".join(f"mode = {mode}" for mode in page.modes)


def _unfed(page: Runbook, table: Table, mine: Table) -> tuple[str, tuple[str, ...]] | None:
    """Why these calls cannot feed the page at all, and what to collect; null when they can."""
    if not table.size:
        return "there is no call", ()
    if not table.where(_modes(page)).size:
        return f"it is for {' and '.join(page.modes)} endpoints only", ()
    if not mine.size:
        return f"no call passes {page.where}", ()
    for name in page.needs:
        row = known(name)
        if row.whole is not None:
            told = mine.whole(name) is not None
        else:
            told = any(value is not None for value in mine.columns[name])
        if not told:
            return untold(mine, name), (row.collect,) if row.collect else ()
    return None


@dataclass(frozen=True, slots=True)
class _Page:
    """A page over the calls it is about."""

    page: Runbook
    table: Table
    reference: Reference = NO_REFERENCE
    was_open: bool = False

    def read(self, conditions: Iterable[Condition]) -> list[Seen]:
        return [seen(condition, self.table, self.reference) for condition in conditions]

    def closed(self, reason: str, collect: tuple[str, ...] = ()) -> Finding:
        """Not seen; of a rule that was open before that is no answer."""
        verdict: Verdict = "insufficient evidence" if self.was_open else "not seen"
        return self.finding(verdict, reason=reason, collect=collect)

    def finding(
        self,
        verdict: Verdict,
        readings: Iterable[Seen] = (),
        *,
        reason: str = "",
        collect: Iterable[str] = (),
        symptom: Truth = None,
    ) -> Finding:
        """What is the same in every finding."""
        page, key = self.page, self.table.key or (None, None)
        told = [*readings]
        return Finding(
            runbook=page.id,
            title=page.title,
            verdict=verdict,
            severity=page.severity,
            segment=None,
            evidence=tuple(one.reading for one in told),
            actions=(),
            done_when=(),
            model=key[0],
            endpoint=key[1],
            calls=self.table.n,
            reason=reason,
            collect=tuple(dict.fromkeys(filter(None, collect))),
            reference=next((one.reference for one in told if one.reference is not None), None),
            seen=symptom,
        )

    def verdict(self, opens: list[Seen], symptom: list[Seen]) -> Finding:
        """Whether it is open, once its inputs are there."""
        told = [*symptom, *opens]
        may, is_seen = _holds(opens), _holds(symptom)
        gone = self.was_open and is_seen is False
        if may is False and not gone:
            found = self.closed(_otherwise(self.page.opens_if, opens, "its precondition fails"))
        elif is_seen is False and not gone:
            found = self.closed(_otherwise(self.page.symptom, symptom, "the symptom is not there"))
        elif gone:
            return self._resolution(told)
        elif may is None or is_seen is None:
            found = self.finding(
                "insufficient evidence", reason="; ".join(_whys(told)), collect=_collect(told)
            )
        else:
            return self._causes(told)
        return replace(self._with(found, told), seen=is_seen)

    def _with(self, found: Finding, told: list[Seen]) -> Finding:
        reference = next((one.reference for one in told if one.reference is not None), None)
        return replace(found, evidence=tuple(s.reading for s in told), reference=reference)

    def _done(self) -> tuple[DoneFound, ...]:
        return tuple(self._one_done(done) for done in self.page.done_when)

    def _one_done(self, done: Done) -> DoneFound:
        told = self.read(done.conditions)
        return DoneFound(
            text=done.text, met=_holds(told), readings=tuple(one.reading for one in told)
        )

    def _resolution(self, told: list[Seen]) -> Finding:
        """It was open before and its symptom is gone: is it really done?"""
        done = self._done()
        met = all_of(one.met for one in done)
        verdict: Verdict = "resolved"
        reason = ""
        if met is False:
            verdict = "open"
            unmet = "; ".join(one.text for one in done if one.met is False)
            reason = f"the symptom is gone, but not yet: {unmet}"
        elif met is None:
            verdict = "insufficient evidence"
            whys = [r.why for one in done for r in one.readings if r.holds is None]
            reason = "; ".join(dict.fromkeys(whys))
        found = self.finding(verdict, told, reason=reason, symptom=False)
        return replace(found, done_when=done)

    def _causes(self, told: list[Seen]) -> Finding:
        """The symptom is there: what from?"""
        causes, readings = self._named()
        named = [cause for cause in causes if cause.named]
        open_ = bool(named) or all(cause.named is False for cause in causes)
        reason: str = ""
        collect: list[str] = []
        if not open_:
            unknown = [cause for cause in causes if cause.named is None]
            whys = [r.why for cause in unknown for r in cause.readings if r.holds is None]
            reason = "the symptom is there, its cause is not told: " + "; ".join(
                dict.fromkeys(whys)
            )
            collect = [one for cause in unknown for one in _wanting(cause)]
        elif causes and not named:
            reason = "none of the known causes moved"
        found = self.finding(
            "open" if open_ else "insufficient evidence",
            [*told, *readings],
            reason=reason,
            collect=collect,
            symptom=True,
        )
        return replace(
            found,
            causes=tuple(causes),
            segment=named[0].segment if named else None,
            done_when=self._done(),
            actions=self._actions({cause.id for cause in named}) if open_ else (),
        )

    def _named(self) -> tuple[list[CauseFound], list[Seen]]:
        """Each cause; those named first, by what they moved, the others in the page's order."""
        causes: list[CauseFound] = []
        readings: list[Seen] = []
        named: set[str] = set()
        for cause in self.page.evidence:
            skipped = not named.isdisjoint(cause.unless)
            told = [] if skipped else self.read(cause.conditions)
            holds = False if skipped else _holds(told)
            if holds:
                named.add(cause.id)
            readings += told
            causes.append(
                CauseFound(
                    id=cause.id,
                    says=cause.says,
                    segment=cause.segment,
                    named=holds,
                    moved_ns=self._moved(cause),
                    readings=tuple(one.reading for one in told),
                    collect=cause.collect,
                )
            )
        causes.sort(key=lambda c: (not c.named, -(c.moved_ns or 0.0) if c.named else 0.0))
        return causes, readings

    def _moved(self, cause: Cause) -> float | None:
        """By how many ns the cause's figure moved against the reference."""
        if cause.moves is None or known(cause.moves[0]).unit != "ns":
            return None
        metric, stat = cause.moves
        sides = self.reference.sides(self.table, metric, None)
        if sides is None:
            return None
        judged, healthy, name, _ = sides
        now = measure(judged, metric, stat, level=0).est.value
        then = measure(healthy, name, stat, level=0).est.value
        return None if now is None or then is None else now - then

    def _actions(self, named: Collection[str]) -> tuple[str, ...]:
        return tuple(
            self._filled(action.do) for action in self.page.actions if self._fits(action, named)
        )

    def _fits(self, action: Action, named: Collection[str]) -> bool:
        if action.cause is not None and action.cause not in named:
            return False
        return action.where is None or self.table.where(action.where).size > 0

    def _filled(self, text: str) -> str:
        """`{in_flight.p50}` becomes what these calls show."""
        return PLACE.sub(lambda place: self._figure(place[1], place[2]), text)

    def _figure(self, name: str, stat: str | None) -> str:
        if stat is None:
            texts = Counter(v for v in self.table.columns[name] if isinstance(v, str))
            return texts.most_common(1)[0][0] if texts else "unknown"
        one = Condition(metric=name, stat=stat, how="is", bound=ZERO)  # type: ignore[arg-type]
        value = measure(self.table, name, one.stat, level=0).est.value
        return "unknown" if value is None else spoken(value, unit_of(one))


def _holds(told: Iterable[Seen]) -> Truth:
    return all_of(one.reading.holds for one in told)


def _whys(told: Iterable[Seen]) -> list[str]:
    return [*dict.fromkeys(s.reading.why for s in told if s.reading.holds is None)]


def _collect(told: Iterable[Seen]) -> list[str]:
    """What would let the calls tell what none of them does."""
    return _missing(one.reading for one in told)


def _wanting(cause: CauseFound) -> list[str]:
    return [cause.collect] if cause.collect else _missing(cause.readings)


def _missing(readings: Iterable[Reading]) -> list[str]:
    unknown = (reading for reading in readings if reading.holds is None and not reading.n)
    return [known(reading.metric).collect for reading in unknown]


def _otherwise(conditions: Iterable[Condition], told: Iterable[Seen], default: str) -> str:
    """What a condition that does not hold says of it."""
    failing = (
        condition.otherwise
        for condition, one in zip(conditions, told, strict=True)
        if one.reading.holds is False
    )
    return next(failing) or default
