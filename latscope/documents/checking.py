"""`latscope.check`: the runbooks judged over calls at hand."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from os import PathLike
from typing import Any, TypeAlias

from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.attribution.model import Attribution
from latscope.documents import lines, runbooks
from latscope.documents.prices import Prices
from latscope.errors import UsageError
from latscope.recording import Recording
from latscope.rules import check as rules
from latscope.rules.finding import Finding
from latscope.rules.runbook import Runbook
from latscope.rules.table import Gathered, gather

Calls: TypeAlias = Iterable[Recording | Attribution | Mapping[str, Any]]
Pages: TypeAlias = Iterable[Runbook | str | PathLike[str]]


def check(
    calls: Calls,
    *,
    baseline: Calls | None = None,
    before: Calls | None = None,
    runbooks: Pages | None = None,
    rules: Collection[str] = (),
) -> tuple[Finding, ...]:
    """What the runbooks conclude of the calls, open findings first: as `latscope check` says it.

    calls: recordings (attributed alone: what the others teach of their endpoint is for
    `attribute(call, profile=learn(...))`), attributions, or lines of `latscope.attribution/1` as
    mappings; read once. baseline: the healthy reference. before: calls of before a fix, without
    which nothing is `resolved`. runbooks: pages, or folders of pages, besides latscope's own.
    rules: ids of those wanted; none: all. InputError for a page or mapping that cannot be used,
    UsageError for an id that no page has.
    """
    pages = _pages(runbooks or (), rules)
    names = _names(pages)

    def gathered(some: Calls | None) -> Gathered | None:
        return None if some is None else gather(_mappings(some), names)

    return _judged(
        pages,
        gather(_mappings(calls), names),
        baseline=gathered(baseline),
        before=gathered(before),
        asked=rules,
    )


_names = rules.names_of
_judged = rules.check


def _pages(given: Pages, wanted: Collection[str]) -> tuple[Runbook, ...]:
    made: list[Runbook] = []
    sources = [*runbooks.shipped_sources()]
    for one in given:
        if isinstance(one, Runbook):
            made.append(one)
        else:
            sources += runbooks.folder(one)
    runbooks.every_one_once(sources)
    pages = [*(runbooks.made(source) for source in sources), *made]
    known = [page.id for page in pages]
    for name in wanted:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            raise UsageError(f"no runbook {name!r}; {hint}")
    return tuple(page for page in pages if not wanted or page.id in wanted)


def _mappings(calls: Calls) -> Iterator[dict[str, Any]]:
    prices = Prices()
    for number, call in enumerate(calls, 1):
        if isinstance(call, Mapping):
            plain = {**lines.checked(call, f"call {number}"), **_more(call)}
        else:
            plain = to_mapping(attribute(call) if isinstance(call, Recording) else call)
        if "money" not in plain:
            plain["money"] = prices.money(plain)
        yield plain


def _more(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"money": call["money"]} if "money" in call else {}
