"""Calls as columns: one pass over a file, and of each call only what the metrics asked for tell.

Memory is bounded: beyond `most` calls, whole sessions are left out by a hash of their name, of the
largest group first, so that what is kept is a fair sample in which sequences stay whole. How many
calls there were, by group and by hour, is counted of all of them, and the column `weight` says how
many each kept call stands for.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import blake2b
from sys import intern
from typing import Any, TypeAlias

from latscope.rules.fields import Kind
from latscope.rules.metrics import known, metric_of, no_metric
from latscope.rules.metrics.metric import Call, Columns, Metric, Unit, Value
from latscope.rules.metrics.server import Board
from latscope.rules.metrics.server import Reading as ServerReading
from latscope.rules.where import Test, Words, parsed
from latscope.units import S

Key: TypeAlias = tuple[str | None, str | None]
"""(model, endpoint)."""

MOST = 20_000
ALWAYS = ("started_ns", "weight", "mode", "in_flight", "floor")
"""Columns that every table has."""
CENSORED = "?"
"""Behind a metric's name: the column that says which of its values are lower limits only."""
HOUR = 3600 * S
WHOLE_HASH = 1 << 32
TOO_FEW = 8
"""Where leaving sessions out would leave less than 1 / so many of `most`, calls are left out
singly: one session is most of the group."""

KINDS: dict[Unit, Kind] = {"text": "text", "truth": "truth"}


# -- the words of a page's `where` ----------------------------------------------------------------


def _check(name: str) -> str | None:
    row = metric_of(name)
    if row is None:
        return no_metric(name)
    return f"{name} is a figure of the whole group, not of a call" if row.whole else None


def _value(row: Mapping[str, Any], name: str) -> Any:
    found = row[name]
    return bool(found) if found is not None and known(name).unit == "truth" else found


WORDS = Words(_check, lambda name: KINDS.get(known(name).unit, "number"), _value)
"""The names a page's `where` may use: metrics, and with them the plain fields of a call."""


@cache
def test_of(text: str) -> tuple[Test, tuple[str, ...]]:
    """The test a page's `where` states and the metrics it reads; UsageError where it is wrong."""
    return parsed(text, WORDS)


# -- tables ---------------------------------------------------------------------------------------


class _Columns(dict[str, Sequence[Value]]):
    """Columns that are made when first asked for."""

    def __init__(self, make: Callable[[str], Sequence[Value]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Sequence[Value]:
        self[name] = found = self._make(name)
        return found


@dataclass(slots=True, eq=False)
class Table:
    """Calls of one group (key), of the whole file (key null), or of a part of either.

    columns: by metric name one value a kept call, in the order they began; made when asked for.
    size: kept calls; n: calls there were. hours: calls begun in each hour since 1970 (UTC), of all.
    """

    columns: Columns
    size: int
    n: int
    key: Key | None = None
    hours: Mapping[int, float] = field(default_factory=dict)
    left_out: bool = False
    """Calls were left out for memory's sake: `size` of `n` are kept."""
    parts: dict[str, "Table"] = field(default_factory=dict, repr=False)
    memory: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What was computed of it before, by whoever computed it."""

    def where(self, text: str | None) -> "Table":
        """Those calls that pass a `where` (all when null)."""
        if text is None:
            return self
        if text not in self.parts:
            test, names = test_of(text)
            columns = {name: self.columns[name] for name in names}
            rows = range(self.size)
            at = [i for i in rows if test({name: found[i] for name, found in columns.items()})]
            self.parts[text] = self.take(at)
        return self.parts[text]

    def take(self, at: Sequence[int]) -> "Table":
        """The calls at these places. What a call's neighbours tell of it stays as it was."""
        if len(at) == self.size:
            return self

        def make(name: str) -> Sequence[Value]:
            column = self.columns[name]
            return [column[i] for i in at]

        n = round(self.n * len(at) / self.size) if self.size else 0
        return Table(
            columns=_Columns(make), size=len(at), n=n, key=self.key, left_out=self.left_out
        )

    def whole(self, name: str) -> float | None:
        """A figure of the group as such."""
        row = known(name)
        return None if row.whole is None or not self.size else row.whole(self.columns)


@dataclass(slots=True, eq=False)
class Gathered:
    """groups: one table for each model at each endpoint; file: all calls together."""

    groups: Mapping[Key, Table]
    file: Table


def untold(table: Table, name: str) -> str:
    """That no call tells a metric, and why where that is known."""
    if table.left_out and _needs_every(name):
        return (
            f"{name} takes every call, and these are too many at once: take part of them, --since"
        )
    return f"no call tells {name}"


def _needs_every(name: str) -> bool:
    row = known(name)
    return row.every or any(_needs_every(other) for other in row.needs)


# -- gathering ------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Group:
    """Mutable: the rows of one group so far. limit, singly: hashes of sessions and of calls below
    these are kept."""

    columns: list[list[Any]]
    sessions: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    n: int = 0
    limit: int = WHOLE_HASH
    singly: int = WHOLE_HASH
    hours: Counter[int] = field(default_factory=Counter)

    def halve(self, fewest: int) -> None:
        """Leave half of the sessions out; half of the calls, where that would leave too few."""
        kept = [i for i, mark in enumerate(self.sessions) if mark < self.limit // 2]
        if len(kept) >= fewest:
            self.limit //= 2
        else:
            self.singly //= 2
            kept = [i for i, mark in enumerate(self.calls) if mark < self.singly]
        self.sessions = [self.sessions[i] for i in kept]
        self.calls = [self.calls[i] for i in kept]
        self.columns = [[column[i] for i in kept] for column in self.columns]


def gather(
    calls: Iterable[Call],
    names: Collection[str],
    *,
    series: Iterable[ServerReading] = (),
    most: int = MOST,
) -> Gathered:
    """The columns of `names` (UsageError for one that is no metric) over the calls, in one pass.
    series: what the servers' metrics pages said meanwhile. most: calls kept at once."""
    readers = _readers(names)
    board = Board(series) if any(name.startswith("server.") for name in readers) else None
    groups: dict[Key, _Group] = {}
    sessions = Sessions(most)
    total = 0
    for call in calls:
        key = (call["model"], call["endpoint"])
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(columns=[[] for _ in readers])
        if _keep(group, call, sessions):
            total += 1
            if board is not None:
                call = {"server_series": board.of(call), **call}
            for column, of in zip(group.columns, readers.values(), strict=True):
                value = of(call)
                column.append(intern(value) if type(value) is str else value)
        group.hours[int(known("started_ns").of(call) // HOUR)] += 1  # type: ignore[misc,operator]
        while total > most:
            total -= _thin(groups, most)
    return _gathered(groups, [*readers])


def _keep(group: _Group, call: Call, sessions: "Sessions") -> bool:
    """Count a call, and keep its marks where it is kept itself."""
    group.n += 1
    session, single = hashed(sessions.of(call)), hashed(str(call["call_id"]))
    if session >= group.limit or single >= group.singly:
        return False
    group.sessions.append(session)
    group.calls.append(single)
    return True


def _thin(groups: Mapping[Key, _Group], most: int) -> int:
    """Halve the largest group; how many calls that left out."""
    largest = max(groups.values(), key=lambda group: len(group.calls))
    before = len(largest.calls)
    largest.halve(min(most // TOO_FEW, before // 4))
    return before - len(largest.calls)


def hashed(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=4).digest())


def _readers(names: Collection[str]) -> dict[str, Callable[[Call], Any]]:
    """What to ask each call, by column: the metrics that stand on its own line, those that the
    others are made of included."""
    found: dict[str, Callable[[Call], Any]] = {}
    seen: set[str] = set()
    left = [*ALWAYS, *names]
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        row = known(name)
        left += [other for other in (*row.needs, row.low, row.high) if other is not None]
        if row.of is not None:
            found[name] = row.of
        if row.censored is not None:
            found[name + CENSORED] = row.censored
    return found


class Sessions:
    """The name under which a call's whole session is kept or left out: its session id, that of the
    call it continues, its trace or turn; else the call alone."""

    def __init__(self, most: int) -> None:
        self._most = 2 * most
        self._answers: OrderedDict[str, str] = OrderedDict()
        """By response id the session of the call it answered, the latest."""

    def of(self, call: Call) -> str:
        before = call.get("previous_response_id")
        name = call["session_id"]
        if name is None and before is not None:
            name = self._answers.get(before, before)
        if name is None:
            name = call["trace_id"] or call["turn"] or _beginning(call) or call["call_id"]
        answer = call.get("response_id")
        if answer is not None:
            self._answers[answer] = name
            if len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return str(name)


def _beginning(call: Call) -> str | None:
    """The hash of the prompt up to its first block of its own: the same in every turn that resends
    the conversation. Null where the request was not kept, or its prompt is shorter."""
    shape = call.get("request")
    at = 0
    for part, blocks in (shape or {}).get("parts", ()):
        if part not in ("system", "tools"):
            break
        at += int(blocks)
    found = shape["hashes"][16 * at : 16 * at + 16] if shape else ""
    return found or None


# -- from rows to tables --------------------------------------------------------------------------


def _gathered(groups: Mapping[Key, _Group], names: Sequence[str]) -> Gathered:
    tables = {key: _table(key, group, names) for key, group in groups.items()}
    return Gathered(groups=tables, file=_file([*groups.values()], [*tables.values()], names))


def _table(key: Key, group: _Group, names: Sequence[str]) -> Table:
    began = group.columns[names.index("started_ns")]
    order = sorted(range(len(began)), key=began.__getitem__)
    own = {
        name: [column[i] for i in order] for name, column in zip(names, group.columns, strict=True)
    }
    group.columns = []
    group.sessions = [group.sessions[i] for i in order]
    return _made(own, group.n, key, group.hours)


def _made(own: dict[str, list[Any]], n: int, key: Key | None, hours: Mapping[int, float]) -> Table:
    """A table of the columns read, its others made of them. A call stands for those left out."""
    size = len(own["started_ns"])
    left_out = size < n
    if left_out:
        own["weight"] = [weight * n / size for weight in own["weight"]]

    def make(name: str) -> Sequence[Value]:
        row = known(name)
        return [None] * size if left_out and row.every else _over(row, columns)

    columns = _Columns(make)
    columns.update(own)
    return Table(columns=columns, size=size, n=n, key=key, hours=hours, left_out=left_out)


def _over(row: Metric, columns: Columns) -> Sequence[Value]:
    if row.over is None:
        raise KeyError(row.name)  # not asked for when the calls were gathered
    return row.over(columns)


def _file(groups: Sequence[_Group], tables: Sequence[Table], names: Sequence[str]) -> Table:
    """All groups together: of sessions those kept in every group, so that they are whole."""
    if len(tables) == 1:
        (only,) = tables
        return replace(only, key=None, parts={}, memory={})
    limit = min((group.limit for group in groups), default=WHOLE_HASH)
    own: dict[str, list[Any]] = {name: [] for name in names}
    hours: Counter[int] = Counter()
    for group, table in zip(groups, tables, strict=True):
        rows = [i for i, mark in enumerate(group.sessions) if mark < limit]
        for name in names:
            column = table.columns[name]
            own[name] += [column[i] for i in rows]
        # Undoes what `_made` laid on the group's weights: the file's own share is laid on anew.
        weights: list[float] = table.columns["weight"]  # type: ignore[assignment]
        share = table.size / table.n
        own["weight"][len(own["weight"]) - len(rows) :] = [weights[i] * share for i in rows]
        hours.update(group.hours)
    order = sorted(range(len(own["started_ns"])), key=own["started_ns"].__getitem__)
    own = {name: [column[i] for i in order] for name, column in own.items()}
    return _made(own, sum(table.n for table in tables), None, hours)
