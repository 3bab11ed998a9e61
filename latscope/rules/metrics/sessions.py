"""Metrics of sessions and turns: what belongs together, and the time between the calls of a turn.

A figure of a whole turn stands at its first call, one of a whole session at that session's first
call, and is null at the others, so that a median over calls is one over turns, or over sessions.
What nothing ties to another call is no turn: it tells none of these.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from latscope.rules import turns as made
from latscope.rules.metrics.metric import Columns, Metric, Unit, Value
from latscope.rules.sessions import Step, placed
from latscope.rules.stats import theil_sen

CALLS = (
    "started_ns", "wall_ns", "model", "endpoint", "session_id", "response_id",
    "previous_response_id", "trace_id", "turn", "request.hashes", "request.messages",
    "request.history_bytes", "request.last_bytes", "request.tool_results",
)  # fmt: skip
"""What calls are tied by."""
TIE = (
    "wrap each user action in latscope.turn(), propagate traces, or record prefix hashes:"
    " instrument(prefix=True)"
)
LEAST = 3
"""Turns below which a session's growth is not told."""
HOUR = 3.6e12
ALONE = "nothing"


@dataclass(frozen=True, slots=True)
class Mark:
    """A call's place, as the column `session.place` holds it: `turn|tie|session`."""

    turn: int
    tie: str
    session: str


def steps(columns: Columns) -> list[Step]:
    """The calls as their sessions see them."""
    rows = zip(*(columns[name] for name in CALLS), strict=True)
    return [_step(number, row) for number, row in enumerate(rows)]


def _step(number: int, row: Sequence[Value]) -> Step:
    at, wall, model, endpoint, *names = row
    conversation, response, before, trace, turn, hashes, messages, history, last, results = names
    return Step(
        id=f"call {number}",
        at_ns=_whole(at),
        wall_ns=_whole(wall),
        place=(_text(model), _text(endpoint)),
        conversation=_text(conversation),
        response=_text(response),
        before=_text(before),
        trace=_text(trace),
        turn=_text(turn),
        hashes=_text(hashes) or "",
        messages=None if messages is None else _whole(messages),
        history=_whole(history),
        last=_whole(last),
        results=_whole(results),
    )


def _whole(value: Value) -> int:
    """A number to the microsecond where it is a time: floats of 1970 hold no more."""
    return round(value) if isinstance(value, int | float) else 0


def _text(value: Value) -> str | None:
    return value if isinstance(value, str) else None


def _place(columns: Columns) -> Sequence[Value]:
    return [f"{place.turn}|{place.tie}|{place.session or ''}" for place in placed(steps(columns))]


def mark_of(value: Value) -> Mark:
    turn, tie, session = str(value).split("|", 2)
    return Mark(int(turn), tie, session)


def marks(columns: Columns) -> list[Mark]:
    return [mark_of(value) for value in columns["session.place"]]


def turns(columns: Columns) -> list[list[int]]:
    """The places of each turn's calls, in order of time; calls that stand alone left out. Many
    metrics ask: what one was told, the next is. Not to be changed."""
    return _turns(tuple(columns["session.place"]))


@lru_cache(maxsize=2)
def _turns(places: tuple[Value, ...]) -> list[list[int]]:
    found: dict[tuple[str, int], list[int]] = {}
    for index, mark in enumerate(map(mark_of, places)):
        if mark.tie != ALONE:
            found.setdefault((mark.session, mark.turn), []).append(index)
    return [*found.values()]


def sessions(columns: Columns) -> list[list[list[int]]]:
    """The turns of each session."""
    every = marks(columns)
    found: dict[str, list[list[int]]] = {}
    for turn in turns(columns):
        found.setdefault(every[turn[0]].session, []).append(turn)
    return [*found.values()]


def at_first(columns: Columns, groups: Iterable[tuple[int, float | None]]) -> list[Value]:
    """A column with these figures at their places."""
    found: list[Value] = [None] * len(columns["started_ns"])
    for index, value in groups:
        found[index] = value
    return found


# -- by call ---------------------------------------------------------------------------------------


def _session(columns: Columns) -> Sequence[Value]:
    return [mark.session or None for mark in marks(columns)]


def _tie(columns: Columns) -> Sequence[Value]:
    return [None if mark.tie == ALONE else mark.tie for mark in marks(columns)]


def _turn_index(columns: Columns) -> Sequence[Value]:
    return [None if mark.tie == ALONE else float(mark.turn) for mark in marks(columns)]


def _calls_in_turn(columns: Columns) -> Sequence[Value]:
    return at_first(
        columns, [(index, float(len(turn))) for turn in turns(columns) for index in turn]
    )


def _gap_before(columns: Columns) -> Sequence[Value]:
    every = steps(columns)

    def gaps() -> Iterator[tuple[int, float | None]]:
        for turn in turns(columns):
            until = every[turn[0]].end_ns
            for index in turn[1:]:
                yield index, float(max(0, every[index].at_ns - until))
                until = max(until, every[index].end_ns)

    return at_first(columns, gaps())


def _serial(columns: Columns) -> Sequence[Value]:
    every = steps(columns)

    def pairs() -> Iterator[tuple[int, float | None]]:
        for turn in turns(columns):
            for before, index in pairwise(turn):
                found = made.serial(every[index], every[before])
                yield index, None if found is None else float(found)

    return at_first(columns, pairs())


# -- by turn ---------------------------------------------------------------------------------------


def _of_turn(
    figure: Callable[[Sequence[Step]], float | None], least: int
) -> Callable[[Columns], list[Value]]:
    """A figure of each turn of at least so many calls, at its first call."""

    def over(columns: Columns) -> list[Value]:
        every = steps(columns)
        return at_first(
            columns,
            [
                (turn[0], figure([every[index] for index in turn]))
                for turn in turns(columns)
                if len(turn) >= least
            ],
        )

    return over


def _wall(turn: Sequence[Step]) -> float:
    return float(max(step.end_ns for step in turn) - turn[0].at_ns)


def _outside(turn: Sequence[Step]) -> float:
    return float(sum(gap.ns for gap in made.gaps(turn)))


def _outside_share(turn: Sequence[Step]) -> float | None:
    wall = _wall(turn)
    return _outside(turn) / wall if wall else None


def _longest_gap(turn: Sequence[Step]) -> float:
    return float(max((gap.ns for gap in made.gaps(turn)), default=0))


def _spare(turn: Sequence[Step]) -> float:
    """Calls beyond those that suffice, where every round gave one result back."""
    return float(sum(loop.calls - made.ENOUGH for loop in made.loops(turn) if loop.one_each))


def _spare_ns(turn: Sequence[Step]) -> float:
    return float(sum(loop.saved_ns for loop in made.loops(turn) if loop.one_each))


def _loop(turn: Sequence[Step]) -> float:
    return float(max((loop.calls for loop in made.loops(turn)), default=0))


def _apart_ns(turn: Sequence[Step]) -> float:
    return float(sum(apart.saved_ns for apart in made.apart(turn)))


def _apart_share(turn: Sequence[Step]) -> float | None:
    wall = _wall(turn)
    return _apart_ns(turn) / wall if wall else None


def _ttft_sum(columns: Columns) -> list[Value]:
    """Null where one call of the turn tells none."""
    return at_first(
        columns, [(turn[0], total(columns["first_token_ns"], turn)) for turn in turns(columns)]
    )


def total(column: Sequence[Value], places: Sequence[int]) -> float | None:
    """The sum at these places; null where one tells nothing."""
    values = [column[index] for index in places]
    known = [value for value in values if isinstance(value, int | float)]
    return float(sum(known)) if len(known) == len(values) else None


def _turn_tokens(columns: Columns) -> list[Value]:
    return at_first(
        columns, [(turn[0], total(columns["input_tokens"], turn)) for turn in turns(columns)]
    )


# -- by session ------------------------------------------------------------------------------------


def _session_turns(columns: Columns) -> list[Value]:
    return at_first(columns, [(turns[0][0], float(len(turns))) for turns in sessions(columns)])


def growth(columns: Columns, value: Callable[[Sequence[int]], float | None]) -> list[Value]:
    """Of each session of enough turns, at its first call, what a figure of a turn grows by with
    each turn (Theil and Sen)."""

    def slope(turns: Sequence[Sequence[int]]) -> float | None:
        points = [(float(place), value(turn)) for place, turn in enumerate(turns)]
        known = [(x, y) for x, y in points if y is not None]
        if len(known) < LEAST:
            return None
        found = theil_sen([x for x, _ in known], [y for _, y in known])
        return None if found is None else found.value

    return at_first(columns, [(turns[0][0], slope(turns)) for turns in sessions(columns)])


def _input_growth(columns: Columns) -> list[Value]:
    sizes = columns["input_tokens"]
    return growth(columns, lambda turn: total(sizes, turn[:1]))


def _sessions_per_hour(columns: Columns) -> float | None:
    """Each kept session stands for as many as its first call does."""
    found = sessions(columns)
    at, weights = columns["started_ns"], columns["weight"]
    span = _whole(at[-1]) - _whole(at[0]) if at else 0
    if not found or not span:
        return None
    return float(sum(float(weights[turns[0][0]] or 1.0) for turns in found)) * HOUR / span


_INSIDE = (*CALLS, "session.place")


def _turn(
    name: str,
    unit: Unit,
    means: str,
    figure: Callable[[Sequence[Step]], float | None],
    least: int = 2,
) -> Metric:
    several = "" if least == 1 else ", null for a turn of one"
    return Metric(
        name=name,
        unit=unit,
        means=f"{means}; at the turn's first call{several}",
        over=_of_turn(figure, least),
        needs=_INSIDE,
        collect=TIE,
    )


ROWS = (
    Metric(
        name="session.place",
        unit="text",
        means="a call's turn, what ties it to others, and its session",
        over=_place,
        needs=CALLS,
    ),
    Metric(
        name="session",
        unit="text",
        means="the session's name: calls of one conversation, chain, trace, turn or prompt",
        over=_session,
        needs=("session.place",),
        collect=TIE,
    ),
    Metric(
        name="session.tie",
        unit="text",
        means="what ties a call to the others of its session",
        over=_tie,
        needs=("session.place",),
        collect=TIE,
    ),
    Metric(
        name="turn_index",
        unit="count",
        means="which turn of its session a call is in, from 0",
        over=_turn_index,
        needs=("session.place",),
        collect=TIE,
    ),
    Metric(
        name="calls_in_turn",
        unit="count",
        means="calls of the same turn, this one with them",
        over=_calls_in_turn,
        needs=("session.place",),
        collect=TIE,
    ),
    Metric(
        name="gap_before",
        unit="ns",
        means="time since any call of the turn was open: the caller's own; null at its first",
        over=_gap_before,
        needs=_INSIDE,
        collect=TIE,
    ),
    Metric(
        name="serial_with_previous",
        unit="truth",
        means="waited for the call before it, which asks the same of other input, so that nothing"
        " in its request shows it needed the answer",
        over=_serial,
        needs=_INSIDE,
        collect="record prefix hashes: instrument(prefix=True)",
    ),
    _turn("turn.calls", "count", "calls of the turn", lambda turn: float(len(turn)), 1),
    _turn(
        "turn.wall", "ns", "the turn from its first call's start to its last one's end", _wall, 1
    ),
    _turn("turn.outside", "ns", "time of the turn in which none of its calls was open", _outside),
    _turn(
        "turn.model", "ns", "time of the turn with a call open", lambda t: _wall(t) - _outside(t)
    ),
    _turn("turn.outside_share", "share", "turn.outside over turn.wall", _outside_share),
    _turn(
        "turn.longest_gap", "ns", "the turn's longest stretch without an open call", _longest_gap
    ),
    _turn(
        "turn.loop",
        "count",
        "calls of the longest run in which each goes on from the one before",
        _loop,
    ),
    _turn(
        "turn.spare_calls",
        "count",
        "of loops that gave one result back a round, calls beyond two",
        _spare,
    ),
    _turn(
        "turn.spare",
        "ns",
        "what the calls between the first and the last of such loops took",
        _spare_ns,
    ),
    _turn(
        "turn.apart",
        "ns",
        "what calls that ask the same of other input would save at once",
        _apart_ns,
    ),
    _turn("turn.apart_share", "share", "turn.apart over turn.wall", _apart_share),
    Metric(
        name="turn.ttft",
        unit="ns",
        means="sum of the times to first token of the turn's calls; at its first call",
        over=_ttft_sum,
        needs=("session.place", "started_ns", "first_token_ns"),
        collect=TIE,
    ),
    Metric(
        name="turn.input_tokens",
        unit="tokens",
        means="prompt tokens of the turn's calls together; at its first call",
        over=_turn_tokens,
        needs=("session.place", "started_ns", "input_tokens"),
        collect=TIE,
    ),
    Metric(
        name="session.turns",
        unit="count",
        means="turns of the session; at its first call",
        over=_session_turns,
        needs=("session.place", "started_ns"),
        collect=TIE,
    ),
    Metric(
        name="session.input_growth",
        unit="tokens",
        means="prompt tokens a turn's first call has more than that of the turn before (Theil-Sen);"
        " at the session's first call, from three turns on",
        over=_input_growth,
        needs=("session.place", "started_ns", "input_tokens"),
        collect=TIE,
    ),
    Metric(
        name="sessions_per_hour",
        unit="per_hour",
        means="sessions begun in an hour",
        whole=_sessions_per_hour,
        needs=("session.place", "started_ns", "weight"),
        collect=TIE,
    ),
)
