"""What there is to say of a turn beside its waterfall: tools, loops, calls that could have run at
once, where a prompt broke the cache, what history and money it took."""

from collections.abc import Iterator, Mapping
from typing import Any

from latscope.report.figures import UNKNOWN, count, counted, duration, percent
from latscope.report.money import money as spoken
from latscope.report.notes import Note
from latscope.report.turnjson import PARTS, currency
from latscope.rules.inbound import Inbound, first_byte
from latscope.rules.prefixes import cost_of, prompt_of
from latscope.rules.turns import Loop, Turn, history_of, money
from latscope.units import MS

STEP = MS // 10
SHOWN = 3
"""Breaks of the cache, and tools, that are told one by one."""
NAMES = ("system", "tools", "history", "last turn")


def notes(turn: Turn, rates: Mapping[Any, float | None]) -> Iterator[Note]:
    """rates: of each (model, endpoint) what an uncached prompt token takes, ns; null: unknown."""
    for label, lines, tone in (
        ("first byte", _first_byte(turn), "plain"),
        ("gaps", _gaps(turn), "plain"),
        ("loop", _loops(turn), "warn"),
        ("one by one", _apart(turn), "warn"),
        ("cache break", _breaks(turn, rates), "warn"),
        ("prompt", _prompt(turn), "plain"),
        ("history", _history(turn, rates), "plain"),
        ("money", _money(turn), "plain"),
    ):
        told = tuple(lines)
        if told:
            yield Note(label=label, lines=told, tone=tone)


def _first_byte(turn: Turn) -> Iterator[str]:
    for request in turn.inbound:
        name = " ".join(word for word in (request.method, request.route) if word) or "your service"
        found = first_byte(turn, request)
        if found is None:
            yield f"{name} sent none{_ended(request)}"
            continue
        said = f"{name} after {duration(request.first_byte_ns, STEP)}"
        if found.call is None:
            yield f"{said}, before any model's first token{_ended(request)}"
            continue
        yield (
            f"{said}: {duration(found.before_ns, STEP)} until call {found.call + 1} began,"
            f" {duration(found.ttft_ns, STEP)} to its first token,"
            f" {duration(found.after_ns, STEP)} from there, yours{_ended(request)}"
        )
        if found.held:
            yield f"call {found.call + 1} was over by then: nothing of its stream was passed on"


def _ended(request: Inbound) -> str:
    how = {"complete": "", "cut": "; cut", "cancelled": "; cancelled", "error": "; failed"}
    detail = "" if request.detail is None else f" ({request.detail})"
    return f"{how[request.end]}{detail}"


def _gaps(turn: Turn) -> Iterator[str]:
    if not turn.gaps:
        return
    longest = max(turn.gaps, key=lambda gap: gap.ns)
    said = f"{counted(len(turn.gaps), 'gap')}, the longest {duration(longest.ns, STEP)}"
    if turn.outside_ns > turn.busy_ns:
        said += "; more time outside the calls than in them"
    yield said
    tools: dict[str, int] = {}
    for gap in turn.gaps:
        for tool in gap.tools:
            tools[tool.name] = tools.get(tool.name, 0) + tool.ns
    ordered = sorted(tools.items(), key=lambda item: -item[1])
    if ordered:
        named = ", ".join(f"{name} {duration(ns, STEP)}" for name, ns in ordered[:SHOWN])
        more = len(ordered) - SHOWN
        rest = max(0, turn.outside_ns - sum(tools.values()))
        said = f"tools: {named}" + (f" and {counted(more, 'more tool')}" if more > 0 else "")
        yield said + (f"; no span tells of the other {duration(rest, STEP)}" if rest else "")


def _loops(turn: Turn) -> Iterator[str]:
    for loop in turn.loops:
        last = loop.first + loop.calls
        said = f"calls {loop.first + 1} to {last}: each goes on from the one before"
        if loop.results:
            said += f", {counted(loop.results, 'tool result')} in {loop.calls - 1} rounds"
        yield said
        if loop.suffice:
            between = counted(loop.calls - loop.suffice, "call")
            yield (
                f"{loop.suffice} suffice if no tool waits for another's result: ask for them all at"
                f" once; the {between} between took {duration(loop.saved_ns, STEP)}"
                f"{_costing(turn, loop)}"
            )


def _costing(turn: Turn, loop: Loop) -> str:
    between = turn.calls[loop.first + 1 : loop.first + loop.calls - 1]
    cost = money(between)
    return "" if cost is None else f" and {spoken(cost, currency(between))}"


def _apart(turn: Turn) -> Iterator[str]:
    for apart in turn.apart:
        first, last = apart.places[0] + 1, apart.places[-1] + 1
        yield (
            f"calls {first} to {last} ask the same of other input, one after the other; at once"
            f" they would take {duration(apart.saved_ns, STEP)} less, if none needs another's"
            " answer"
        )


def _breaks(turn: Turn, rates: Mapping[Any, float | None]) -> Iterator[str]:
    broken = [
        (found, place)
        for place, found in enumerate(turn.breaks)
        if found is not None and found.part is not None
    ]
    broken.sort(key=lambda item: -(item[0].tokens or 0))
    for found, place in broken[:SHOWN]:
        call = turn.calls[place]
        part = str(found.part) if found.to in (None, found.part) else f"{found.part} to {found.to}"
        ns, cost = cost_of(found, call, rates.get((call.get("model"), call.get("endpoint"))))
        size = "an unknown number of" if found.tokens is None else f"about {count(found.tokens)}"
        time = "their time here is not known" if ns is None else f"about {duration(ns, 10 * MS)}"
        paid = "" if cost is None else f", {spoken(cost, currency([call]))}"
        yield (
            f"call {place + 1} in {part}, {percent(found.at or 0.0, 1)} into the prompt: {size}"
            f" tokens behind it could not come from the cache ({time}{paid})"
        )
    if len(broken) > SHOWN:
        yield f"and {counted(len(broken) - SHOWN, 'more call')}"


def _prompt(turn: Turn) -> Iterator[str]:
    """Shares of the last call's prompt, which is the longest as a rule."""
    shares = prompt_of(turn.calls[-1]).shares
    if shares is not None:
        said = ", ".join(
            f"{name} {percent(share, 1)}"
            for name, share in zip(NAMES, shares, strict=True)
            if share
        )
        yield f"of the last call, by bytes: {said}"


def _history(turn: Turn, rates: Mapping[Any, float | None]) -> Iterator[str]:
    found = history_of(turn, rates)
    if not found.tokens:
        return
    took = "time not known" if found.ns is None else f"about {duration(found.ns, 10 * MS)}"
    paid = "" if found.money is None else f" and {spoken(found.money, currency(turn.calls))}"
    yield (
        f"{count(found.tokens)} tokens of what was said before in these prompts,"
        f" {count(found.computed)} of them computed again: {took}{paid}"
    )


def _money(turn: Turn) -> Iterator[str]:
    priced = [found for call in turn.calls if (found := call.get("money"))]
    if not priced:
        return
    paid = currency(turn.calls)
    parts = [(part, money(turn.calls, part)) for part in PARTS[1:]]
    told = {part: value for part, value in parts if value}
    if "reasoning" in told or "visible" in told:
        told.pop("output", None)
    if told:
        said = ", ".join(
            f"{part.replace('_', ' ')} {spoken(value, paid)}" for part, value in told.items()
        )
        sources = dict.fromkeys(str(found["source"]) for found in priced if found["source"])
        yield f"{said} ({', '.join(sources)})"
    reasons = dict.fromkeys(str(found["why"]) for found in priced if found["why"])
    if reasons:
        yield f"{UNKNOWN} total unknown: {'; '.join(reasons)}"
