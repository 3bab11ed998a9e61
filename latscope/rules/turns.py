"""One turn on its own axis: its calls, and between them the time nobody's model was at work.

`outside` is measured: a stretch of the turn in which none of its calls was open. It is the caller's
own: tools, retrieval, the framework, a sleep. The critical path goes back from the turn's end: the
call that ended it, the call that ended last before that one began, and so on; the calls on it and
the waits between them add up to the turn's wall time.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from latscope.recording import ServerSpan
from latscope.rules.prefixes import Break, breaks, prompt_of, resumed, uncached
from latscope.rules.sessions import Place, Step, Tie, follows, placed, siblings, step_of
from latscope.rules.stats import Estimate, theil_sen
from latscope.units import MS, Ns

if TYPE_CHECKING:
    from latscope.rules.inbound import Inbound

OWNER = "you"
"""Whose the time outside all calls is."""
LOOP = 3
"""Calls, each going on from the one before, that make a loop."""
ENOUGH = 2
"""Calls that suffice where a loop's tools need not wait for each other: one asks, one answers."""
OPERATIONS = ("execute_tool", "retrieval", "embeddings")
"""What an agent does between a model's calls, in OpenTelemetry's `gen_ai.operation.name`."""
SLACK: Ns = 20 * MS
"""How far a span may reach over a gap's ends: it is stamped by other code than the calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTime:
    """A tool's time within a gap. ns: as much of it as lies there."""

    name: str
    ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch without an open call; at_ns: on the turn's axis; tools: what ran meanwhile, by the
    trace's spans, longest first."""

    at_ns: Ns
    ns: Ns
    tools: tuple[ToolTime, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Calls of a turn, each going on from the one before it. first: the first one's place in the
    turn; calls: how many; results: of tools, given back in all; one_each: every round gave one
    result back, so that asking for several at once is open; saved_ns: what the calls between the
    first and the last took, waiting for their tools not counted."""

    first: int
    calls: int
    results: int
    one_each: bool
    saved_ns: Ns

    @property
    def suffice(self) -> int | None:
        """How many calls would do if no tool waits for another's result; null where several were
        asked for at once already, or nobody knows."""
        return ENOUGH if self.one_each else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Calls that ran one after the other and ask the same of different input: nothing in their
    requests shows that one needs another's answer. places: in the turn; saved_ns: what running them
    at once would save, if none does: all but the longest."""

    places: tuple[int, ...]
    saved_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """calls: mappings of `latscope.attribution/1`, in order of time; at_ns: of each its begin on
    the turn's axis. started_ns: wall clock. busy_ns: at least one call open; outside_ns: none;
    the two add up to wall_ns. critical: places of the calls on the critical path; waits_ns: the
    time on it between calls. breaks: of each call what it shares with the session's call before
    it; null where that is not known. inbound: the requests it was made for, where they are known;
    the axis and the gaps then reach from the first one's begin to the last one's end."""

    session: str | None
    tie: Tie
    index: int
    calls: tuple[Mapping[str, Any], ...]
    started_ns: int
    at_ns: tuple[Ns, ...]
    wall_ns: Ns
    gaps: tuple[Gap, ...]
    critical: tuple[int, ...]
    loops: tuple[Loop, ...]
    apart: tuple[Apart, ...]
    breaks: tuple[Break | None, ...]
    inbound: "tuple[Inbound, ...]" = ()

    @property
    def outside_ns(self) -> Ns:
        return sum(gap.ns for gap in self.gaps)

    @property
    def busy_ns(self) -> Ns:
        return self.wall_ns - self.outside_ns

    @property
    def waits_ns(self) -> Ns:
        return self.wall_ns - sum(self.calls[place]["wall_ns"] or 0 for place in self.critical)

    @property
    def overlaps(self) -> bool:
        return sum(call["wall_ns"] or 0 for call in self.calls) > self.busy_ns

    @property
    def ttft_ns(self) -> Ns | None:
        """Sum of the calls' times to the first token; null when none is known."""
        known = [call["first_token_ns"] for call in self.calls if call["first_token_ns"]]
        return sum(known) if known else None

    @property
    def input_tokens(self) -> int | None:
        return total(self.calls, "input_tokens")

    @property
    def ttft_ns_a_token(self) -> float | None:
        """Time to first token for each prompt token, over the calls that tell both."""
        known = [call for call in self.calls if call["first_token_ns"] and call["input_tokens"]]
        size = total(known, "input_tokens")
        return (total(known, "first_token_ns") or 0) / size if size else None

    @property
    def cached_share(self) -> float | None:
        """Of the calls that tell both."""
        known = [call for call in self.calls if call["cached_tokens"] is not None]
        size = total(known, "input_tokens")
        return (total(known, "cached_tokens") or 0) / size if size else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    name: str | None
    tie: Tie
    turns: tuple[Turn, ...]

    @property
    def calls(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(call for turn in self.turns for call in turn.calls)


def total(calls: Iterable[Mapping[str, Any]], field: str, default: int | None = None) -> int | None:
    """The sum of a field over the calls that tell it; `default` when none does."""
    known = [call[field] for call in calls if call[field] is not None]
    return sum(known) if known else default


def sessions(calls: Sequence[Mapping[str, Any]]) -> list[Session]:
    """The sessions of the calls, in the order they began; a call that nothing ties to another is
    one of its own, without a name."""
    steps = [step_of(call) for call in calls]
    places = placed(steps)
    order = sorted(range(len(steps)), key=lambda index: steps[index].at_ns)
    rows = (
        (places[i].session, steps[i].place, resumed(calls[i]), prompt_of(calls[i])) for i in order
    )
    groups: dict[tuple[str | None, Tie, int], list[_Row]] = {}
    for index, found in zip(order, breaks(rows), strict=True):
        place = places[index]
        alone = index if place.session is None else -1
        row = _Row(calls[index], steps[index], place, found)
        groups.setdefault((place.session, place.tie, alone), []).append(row)
    return [_session(inside) for inside in groups.values()]


class _Row(NamedTuple):
    call: Mapping[str, Any]
    step: Step
    place: Place
    found: Break | None


def _session(rows: Sequence[_Row]) -> Session:
    turns: dict[int, list[_Row]] = {}
    for row in rows:
        turns.setdefault(row.place.turn, []).append(row)
    place = rows[0].place
    return Session(
        name=place.session,
        tie=place.tie,
        turns=tuple(_turn(inside) for inside in turns.values()),
    )


def _turn(rows: Sequence[_Row]) -> Turn:
    steps = [row.step for row in rows]
    zero = steps[0].at_ns
    place = rows[0].place
    return Turn(
        session=place.session,
        tie=place.tie,
        index=place.turn,
        calls=tuple(row.call for row in rows),
        started_ns=zero,
        at_ns=tuple(step.at_ns - zero for step in steps),
        wall_ns=max(step.end_ns for step in steps) - zero,
        gaps=tuple(gaps(steps)),
        critical=_critical(steps),
        loops=tuple(loops(steps)),
        apart=tuple(apart(steps)),
        breaks=tuple(row.found for row in rows),
    )


def gaps(steps: Sequence[Step]) -> list[Gap]:
    zero = until = steps[0].at_ns
    found = []
    for step in steps:
        if step.at_ns > until:
            found.append(Gap(at_ns=until - zero, ns=step.at_ns - until))
        until = max(until, step.end_ns)
    return found


def _critical(steps: Sequence[Step]) -> tuple[int, ...]:
    """Places of the calls on the critical path, in order of time."""
    now = max(range(len(steps)), key=lambda place: steps[place].end_ns)
    path = [now]
    while True:
        begin = steps[now].at_ns
        done = [
            place
            for place, step in enumerate(steps)
            if step.end_ns <= begin and step.at_ns < begin and place not in path
        ]
        if not done:
            return tuple(reversed(path))
        now = max(done, key=lambda place: steps[place].end_ns)
        path.append(now)


def loops(steps: Sequence[Step]) -> list[Loop]:
    """Longest runs of calls, each going on from the one before it."""
    found: list[Loop] = []
    first = 0
    for place in range(1, len(steps) + 1):
        if place < len(steps) and _goes_on(steps[place], steps[place - 1]):
            continue
        run = steps[first:place]
        if len(run) >= LOOP:
            found.append(
                Loop(
                    first=first,
                    calls=len(run),
                    results=sum(step.results for step in run[1:]),
                    one_each=all(step.results == 1 for step in run[1:]),
                    saved_ns=sum(step.wall_ns for step in run[1:-1]),
                )
            )
        first = place
    return found


def _goes_on(step: Step, before: Step) -> bool:
    return step.at_ns >= before.end_ns and follows(step, before)


def apart(steps: Sequence[Step]) -> list[Apart]:
    """Runs of calls one after the other, each asking the same as the one before of other input."""
    found: list[Apart] = []
    first = 0
    for place in range(1, len(steps) + 1):
        if place < len(steps) and serial(steps[place], steps[place - 1]):
            continue
        run = range(first, place)
        if len(run) > 1:
            walls = [steps[one].wall_ns for one in run]
            found.append(Apart(places=tuple(run), saved_ns=sum(walls) - max(walls)))
        first = place
    return found


def serial(step: Step, before: Step) -> bool | None:
    """Whether a call waited for one whose answer nothing in its request shows it needs. False: it
    overlapped, or goes on from it; null: nothing tells."""
    if step.at_ns < before.end_ns or follows(step, before):
        return False
    return True if siblings(step, before) else None


# -- what ran between the calls --------------------------------------------------------------------


def with_tools(found: Sequence[Session], spans: Iterable[ServerSpan]) -> list[Session]:
    """The sessions, their gaps with the tools whose spans lie in them. A span belongs to a turn of
    its own trace; to one without a trace only where it lies in no other turn's gap."""
    tools = [span for span in spans if tool_name(span) is not None]
    turns = [turn for session in found for turn in session.turns]
    theirs: dict[int, list[ServerSpan]] = {}
    for span in tools:
        able = [turn for turn in turns if _lies_in(span, turn)]
        same = [turn for turn in able if span.trace_id in _traces(turn)]
        free = same or [turn for turn in able if not _traces(turn)]
        if len(free) == 1:
            theirs.setdefault(id(free[0]), []).append(span)
    return [
        replace(
            session, turns=tuple(_filled(turn, theirs.get(id(turn), ())) for turn in session.turns)
        )
        for session in found
    ]


def tool_name(span: ServerSpan) -> str | None:
    """The tool an OpenTelemetry GenAI span names; null when it is no span of a tool."""
    named, operation = (
        str(span.attributes.get(key) or "") for key in ("gen_ai.tool.name", "gen_ai.operation.name")
    )
    head, _, rest = span.name.partition(" ")
    if operation not in OPERATIONS and head not in OPERATIONS and not named:
        return None
    return named or rest or operation or head


def _traces(turn: Turn) -> set[str]:
    return {call["trace_id"].lower() for call in turn.calls if call["trace_id"]}


def _lies_in(span: ServerSpan, turn: Turn) -> bool:
    return any(_overlap(span, turn, gap) for gap in turn.gaps)


def _filled(turn: Turn, spans: Sequence[ServerSpan]) -> Turn:
    gaps = []
    for gap in turn.gaps:
        times: dict[str, Ns] = {}
        for span in spans:
            ns = _overlap(span, turn, gap)
            if ns:
                name = str(tool_name(span))
                times[name] = times.get(name, 0) + ns
        ordered = sorted(times.items(), key=lambda item: -item[1])
        tools = tuple(ToolTime(name=name, ns=min(ns, gap.ns)) for name, ns in ordered)
        gaps.append(replace(gap, tools=tools))
    return replace(turn, gaps=tuple(gaps))


def _overlap(span: ServerSpan, turn: Turn, gap: Gap) -> Ns:
    """How much of a span lies in a gap; 0 for one that reaches well over its ends."""
    begin = span.start_unix_ns - turn.started_ns - gap.at_ns
    end = begin + span.duration_ns
    if begin < -SLACK or end > gap.ns + SLACK:
        return 0
    return max(0, min(end, gap.ns) - max(begin, 0))


# -- what a session's history costs ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What carrying the turns before cost a turn's calls together. tokens: of history in their
    prompts; computed: of these, those no cache served. ns: by what a prompt token costs here; money
    by their prices. Null where not known."""

    tokens: int | None
    computed: int | None
    ns: Ns | None
    money: float | None


def history_of(turn: Turn, rates: Mapping[Any, float | None]) -> History:
    """rates: of each (model, endpoint) what an uncached prompt token takes, ns; null: unknown."""
    rows = [_history(call) for call in turn.calls]
    known = [row for row in rows if row is not None]
    if len(known) < len(rows):
        return History(tokens=None, computed=None, ns=None, money=None)
    each = [rates.get((call.get("model"), call.get("endpoint"))) for call in turn.calls]
    times = [
        None if rate is None and row[1] else (rate or 0.0) * row[1]
        for rate, row in zip(each, known, strict=True)
    ]
    return History(
        tokens=sum(row[0] for row in known),
        computed=sum(row[1] for row in known),
        ns=None if None in times else round(sum(time for time in times if time is not None)),
        money=_whole([row[2] for row in known]),
    )


def _history(call: Mapping[str, Any]) -> tuple[int, int, float | None] | None:
    """Tokens of history in a call's prompt, those computed, and their price. A cache serves a
    prompt from its front: system text and tools before the history."""
    prompt = prompt_of(call)
    shares, computed = prompt.shares, uncached(call)
    if shares is None or computed is None or prompt.tokens is None:
        return None
    steady = (shares[0] + shares[1]) * prompt.tokens
    tokens = round(shares[2] * prompt.tokens)
    served = round(min(max(0.0, (prompt.cached or 0) - steady), tokens))
    rates = (call.get("money") or {}).get("rates") or {}
    full, cheap = rates.get("input"), rates.get("cached_input")
    if full is None or (served and cheap is None):
        return tokens, tokens - served, None
    return tokens, tokens - served, full * (tokens - served) + (cheap or 0.0) * served


def money(calls: Iterable[Mapping[str, Any]], part: str = "total") -> float | None:
    """What the calls cost together; null when the price of one is not known: a sum that leaves one
    out would be no sum. So it is where their currencies differ."""
    found = [call.get("money") or {} for call in calls]
    if len({one.get("currency") for one in found}) > 1:
        return None
    return _whole([one.get(part) for one in found])


def _whole(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if known and len(known) == len(values) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """What a session grows by with each turn; null where it has too few turns to tell, or the
    figure is not known."""

    input_tokens: Estimate | None
    ttft_ns: Estimate | None
    cached_share: Estimate | None
    money: Estimate | None


def slopes(session: Session) -> Slopes:
    turns = session.turns
    firsts = [turn.calls[0] for turn in turns]
    return Slopes(
        input_tokens=_grows([call["input_tokens"] for call in firsts]),
        ttft_ns=_grows([call["first_token_ns"] for call in firsts]),
        cached_share=_grows([turn.cached_share for turn in turns]),
        money=_grows([money(turn.calls) for turn in turns]),
    )


def _grows(values: Sequence[float | None]) -> Estimate | None:
    points = [
        (float(place), float(value)) for place, value in enumerate(values) if value is not None
    ]
    if len(points) < 3:
        return None
    return theil_sen([x for x, _ in points], [y for _, y in points])
