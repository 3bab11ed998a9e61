"""The request a turn's calls were made for: the first byte of your service against the model's.

What came before the first byte is told in three: all there was before the call that brought its
token, that call's own time to its first token, and what your service took from there. They add up
to the time to the first byte, by the same wall clock that places the calls.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from latscope.units import Ns, S, wall_s

if TYPE_CHECKING:
    from latscope.rules.turns import Gap, Session, Turn

SCHEMA = "latscope.inbound/1"

InboundEnd: TypeAlias = Literal[
    "complete",  # the answer was sent to its end
    "cut",  # the application returned without that: its caller had left, as a rule
    "error",  # it raised
    "cancelled",  # its task was cancelled
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbound:
    """One inbound request of a service. turn: what its calls say in `turn`. started_at: RFC 3339.
    route: the template the framework matched (`/chat/{room}`), null where it left none: a path may
    hold anything. first_byte_ns: from its begin until the application handed over the first byte
    of the answer's body; null when none came. detail: class name of what was raised."""

    turn: str
    started_at: str
    wall_ns: Ns
    first_byte_ns: Ns | None = None
    status: int | None = None
    method: str = ""
    route: str | None = None
    end: InboundEnd = "complete"
    detail: str | None = None
    trace_id: str | None = None
    schema: str = SCHEMA

    @property
    def started_ns(self) -> int:
        """Wall clock, ns since 1970, to the microsecond it is told in."""
        return round(wall_s(self.started_at) * 1_000_000) * (S // 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstByte:
    """Where the time to the first byte went. call: place in the turn of the call whose first token
    was the last to come before it; null when none had come, and `before_ns` is then all of it.
    before_ns: until that call began; ttft_ns: its time to the first token; after_ns: from the
    token to the byte, yours. held: the call was over before the byte left."""

    call: int | None
    before_ns: Ns
    ttft_ns: Ns
    after_ns: Ns
    held: bool


def first_byte(turn: "Turn", inbound: Inbound) -> FirstByte | None:
    """Null when no byte was sent."""
    if inbound.first_byte_ns is None:
        return None
    begin = inbound.started_ns - turn.started_ns
    byte = begin + inbound.first_byte_ns
    tokens = [
        (at + call["first_token_ns"], place)
        for place, (at, call) in enumerate(zip(turn.at_ns, turn.calls, strict=True))
        if at >= begin and call["first_token_ns"] is not None
    ]
    tokens = [found for found in tokens if found[0] <= byte]
    if not tokens:
        none = inbound.first_byte_ns
        return FirstByte(call=None, before_ns=none, ttft_ns=0, after_ns=0, held=False)
    token, place = max(tokens)
    at, ttft = turn.at_ns[place], turn.calls[place]["first_token_ns"]
    return FirstByte(
        call=place,
        before_ns=inbound.first_byte_ns - (byte - token) - ttft,
        ttft_ns=ttft,
        after_ns=byte - token,
        held=byte >= at + (turn.calls[place]["wall_ns"] or 0) > token,
    )


def with_inbound(found: Sequence["Session"], requests: Iterable[Inbound]) -> list["Session"]:
    """The sessions, each turn with the requests that named it, on an axis that holds them whole. A
    name that two turns have (its calls belong to two conversations) tells neither."""
    by_turn: dict[str, list[Inbound]] = {}
    for request in requests:
        by_turn.setdefault(request.turn, []).append(request)
    holders: dict[str, int] = {}
    for session in found:
        for turn in session.turns:
            for name in _names(turn):
                holders[name] = holders.get(name, 0) + 1
    alone = {name: rows for name, rows in by_turn.items() if holders.get(name) == 1}
    return [
        replace(session, turns=tuple(_with(turn, alone) for turn in session.turns))
        for session in found
    ]


def _names(turn: "Turn") -> dict[str, None]:
    return dict.fromkeys(call["turn"] for call in turn.calls if call["turn"] is not None)


def _with(turn: "Turn", by_turn: Mapping[str, Sequence[Inbound]]) -> "Turn":
    mine = [request for name in _names(turn) for request in by_turn.get(name, ())]
    if not mine:
        return turn
    mine.sort(key=lambda request: request.started_ns)
    end = turn.started_ns + turn.wall_ns
    first = min(turn.started_ns, mine[0].started_ns)
    last = max(end, *(request.started_ns + request.wall_ns for request in mine))
    lead = turn.started_ns - first
    return replace(
        turn,
        started_ns=first,
        at_ns=tuple(at + lead for at in turn.at_ns),
        wall_ns=last - first,
        gaps=tuple(_gaps(turn.gaps, lead, end - first, last - first)),
        inbound=tuple(mine),
    )


def _gaps(gaps: Iterable["Gap"], lead: Ns, end: Ns, last: Ns) -> Iterable["Gap"]:
    """The gaps, moved, with the stretch before the first call and the one after the last."""
    from latscope.rules.turns import Gap

    if lead:
        yield Gap(at_ns=0, ns=lead)
    yield from (replace(gap, at_ns=gap.at_ns + lead) for gap in gaps)
    if last > end:
        yield Gap(at_ns=end, ns=last - end)
