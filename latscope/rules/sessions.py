"""Which calls belong together: sessions, and the turns in them.

Calls are tied, strongest first, by the conversation they name, by the answer they continue
(`previous_response_id`), by their trace, by `latscope.turn`, and by their prompt: one that holds
another's whole prompt and more turns after it continues it. A weaker tie never brings two
conversations together. What nothing ties stands alone.

A turn is what served one user action: the calls of one `latscope.turn`, else of one trace, else
one step of the conversation, with the calls that give tool results back and those that overlap.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from latscope.rules.prefixes import WIDTH, blocks
from latscope.units import Ns, S, wall_s

Tie: TypeAlias = Literal[
    "conversation", "response chain", "trace", "turn", "shared prefix", "nothing"
]
TIES: tuple[Tie, ...] = (
    "conversation", "response chain", "trace", "turn", "shared prefix", "nothing",
)  # fmt: skip
"""Strongest first."""

RECENT = 64
"""Calls with the same beginning that are looked at for the one a prompt continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A call as its session sees it. at_ns: wall clock. messages, history, last, results: its
    request's counts and sizes, null where it was not kept."""

    id: str
    at_ns: int
    wall_ns: Ns = 0
    place: tuple[str | None, str | None] = (None, None)
    conversation: str | None = None
    response: str | None = None
    before: str | None = None
    trace: str | None = None
    turn: str | None = None
    hashes: str = ""
    messages: int | None = None
    history: int = 0
    last: int = 0
    results: int = 0

    @property
    def end_ns(self) -> int:
        return self.at_ns + self.wall_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call stands. session: its name, null for one that nothing ties to another; turn: its
    turn's place in the session, from 0."""

    session: str | None
    tie: Tie
    turn: int


def step_of(call: Mapping[str, Any]) -> Step:
    """call: a mapping of `latscope.attribution/1`."""
    shape = call.get("request") or {}
    return Step(
        id=str(call.get("call_id", "")),
        at_ns=began_ns(call),
        wall_ns=call.get("wall_ns") or 0,
        place=(call.get("model"), call.get("endpoint")),
        conversation=call.get("session_id"),
        response=call.get("response_id"),
        before=call.get("previous_response_id"),
        trace=call.get("trace_id"),
        turn=call.get("turn"),
        hashes=shape.get("hashes") or "",
        messages=shape.get("messages"),
        history=shape.get("history_bytes") or 0,
        last=shape.get("last_bytes") or 0,
        results=shape.get("tool_results") or 0,
    )


def began_ns(call: Mapping[str, Any]) -> int:
    """When the call began, wall clock, ns since 1970, to the microsecond its file states."""
    return round(wall_s(str(call.get("started_at", ""))) * 1_000_000) * (S // 1_000_000)


def placed(steps: Sequence[Step]) -> list[Place]:
    """Where each call stands, in the order given, which need not be that of time."""
    order = sorted(range(len(steps)), key=lambda index: steps[index].at_ns)
    sets = _Sets(conversations=[step.conversation for step in steps])
    for tie in TIES[:4]:
        _tie_equal(steps, order, tie, sets)
    for index, earlier in _continued(steps, order):
        sets.join(earlier, index, "shared prefix")
    members: dict[int, list[int]] = {}
    for index in order:
        members.setdefault(sets.root(index), []).append(index)
    places: list[Place | None] = [None] * len(steps)
    for root, inside in members.items():
        tie = _tie_of(steps[inside[0]]) if len(inside) == 1 else sets.ties[root]
        name = _name([steps[index] for index in inside], tie)
        for index, turn in zip(inside, _turns([steps[index] for index in inside]), strict=True):
            places[index] = Place(session=name, tie=tie, turn=turn)
    return [place for place in places if place is not None]


def follows(step: Step, before: Step) -> bool:
    """Whether the call goes on from the one before: names its answer, gives tool results back, or
    holds its prompt and more."""
    if step.before is not None and step.before == before.response:
        return True
    return step.results > 0 or _holds(step, before)


def siblings(step: Step, before: Step) -> bool:
    """Whether two calls ask the same of different input: the same instructions in front, as many
    messages, and no result of a tool among them."""
    if step.messages is None or before.messages != step.messages or step.place != before.place:
        return False
    known = min(len(step.hashes), len(before.hashes)) >= WIDTH
    return known and step.hashes[:WIDTH] == before.hashes[:WIDTH] and not step.results


# -- ties ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Sets:
    """Mutable: disjoint sets of calls (Galler and Fischer 1964). ties: of each set the strongest
    tie that joined two of its calls."""

    conversations: list[str | None]
    up: list[int] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.up = list(range(len(self.conversations)))
        self.ties = ["nothing"] * len(self.conversations)

    def root(self, index: int) -> int:
        while self.up[index] != index:
            self.up[index] = self.up[self.up[index]]
            index = self.up[index]
        return index

    def join(self, one: int, other: int, tie: Tie) -> None:
        """Unless that would bring two conversations together."""
        first, second = self.root(one), self.root(other)
        names = self.conversations[first], self.conversations[second]
        if None not in names and names[0] != names[1]:
            return
        strongest = min(tie, self.ties[first], self.ties[second], key=TIES.index)
        self.up[second] = first
        self.ties[first] = strongest
        self.conversations[first] = names[0] if names[0] is not None else names[1]


def _tie_equal(steps: Sequence[Step], order: Sequence[int], tie: Tie, sets: _Sets) -> None:
    """Calls with the same key; of a chain, those that continue an answer to the one that made it.
    That two calls brought the same answer (from a gateway's cache) ties nothing."""
    seen: dict[str, int] = {}
    for index in order:
        key = _key(steps[index], tie)
        if key is not None:
            earlier = seen.setdefault(key, index)
            if earlier != index:
                sets.join(earlier, index, tie)
        made = steps[index].response
        if tie == "response chain" and made is not None:
            seen.setdefault(made, index)


def _key(step: Step, tie: Tie) -> str | None:
    """What a call is tied by."""
    found: Mapping[Tie, str | None] = {
        "conversation": step.conversation,
        "response chain": step.before,
        "trace": step.trace,
        "turn": step.turn,
    }
    return found.get(tie)


def _tie_of(step: Step) -> Tie:
    """A single call's: what would tie it to others."""
    return next((tie for tie in TIES if _key(step, tie) is not None), "nothing")


def _name(steps: Sequence[Step], tie: Tie) -> str | None:
    if tie == "nothing":
        return None
    if tie == "shared prefix":
        return steps[0].id
    return next(key for step in steps if (key := _key(step, tie)) is not None)


def _continued(steps: Sequence[Step], order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs (call, the earlier call whose prompt it continues), of calls that name neither a
    conversation nor an answer."""
    ends: dict[tuple[tuple[str | None, str | None], str], list[int]] = {}
    for index in order:
        step = steps[index]
        if step.conversation is not None or step.before is not None or blocks(step.hashes) < 2:
            continue
        for at in range(len(step.hashes) - WIDTH, -1, -WIDTH):
            known = ends.get((step.place, step.hashes[at : at + WIDTH]), ())
            able = [other for other in known if _holds(step, steps[other])]
            if able:
                yield index, max(able, key=lambda one: _length(steps[one]))
                break
        # The last block may end within what comes next, so the one before it is where a
        # continuation is recognised.
        end = step.hashes[-2 * WIDTH : -WIDTH]
        found = ends.setdefault((step.place, end), [])
        found.append(index)
        del found[:-RECENT]


def _holds(step: Step, before: Step) -> bool:
    """Whether a prompt holds the other's and, after it, at least the answer and one turn more."""
    if step.messages is None or before.messages is None or step.at_ns < before.end_ns:
        return False
    whole = before.hashes[:-WIDTH]
    return (
        step.messages > before.messages
        and step.history >= before.history + before.last > 0
        and step.hashes.startswith(whole)
    )


def _length(step: Step) -> tuple[int, int]:
    return step.history + step.last, step.at_ns


# -- turns -----------------------------------------------------------------------------------------


def _turns(steps: Iterable[Step]) -> Iterator[int]:
    """Of a session's calls in order of time, each one's turn."""
    names: dict[str, int] = {}
    count, until, now = 0, 0, 0
    for step in steps:
        key = f"turn {step.turn}" if step.turn is not None else step.trace
        goes_on = count > 0 and (step.results > 0 or step.at_ns < until)
        if key is not None and key in names:
            now = names[key]
        elif key is not None or not goes_on:
            now = count
            count += 1
        if key is not None:
            names[key] = now
        until = max(until, step.end_ns)
        yield now
