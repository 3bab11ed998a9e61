"""Metrics told from the calls around a call: how busy it was, how long it had been quiet, and whose
long prompt was computed while this call's tokens came.

Neighbours are the calls of the same group in the same file. What other clients sent is not seen, so
a figure here is a lower limit of what the server had to do.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from statistics import median

from latscope.rules.metrics.metric import Call, Columns, Metric, Value

HOUR = 3.6e12
"""Nanoseconds."""
LONG = 4000
"""Uncached tokens of a prompt whose computing others notice: several steps' worth."""
ALONE = 1000
"""Below so many nobody does."""


def numbers(column: Sequence[Value]) -> list[float | None]:
    """A column's numbers; null where a call tells none."""
    return [float(value) if isinstance(value, int | float) else None for value in column]


def starts(columns: Columns) -> list[float]:
    """When the calls began, ns on the wall clock: always told, in order."""
    return [value or 0.0 for value in numbers(columns["started_ns"])]


def ends(columns: Columns) -> list[float]:
    """When the calls ended; of one that does not say, when it began."""
    lasted = numbers(columns["e2e"])
    return [at + (ns or 0.0) for at, ns in zip(starts(columns), lasted, strict=True)]


# -- the traffic -----------------------------------------------------------------------------------


def _calls_per_hour(columns: Columns) -> float | None:
    """A kept call counts for all it stands for."""
    at = starts(columns)
    span = at[-1] - at[0] if at else 0.0
    weights = numbers(columns["weight"])
    return sum(weight or 0.0 for weight in weights[1:]) * HOUR / span if span else None


def _hour(columns: Columns) -> Sequence[Value]:
    return [at // HOUR % 24 for at in starts(columns)]


def _concurrent(columns: Columns) -> Sequence[Value]:
    """Those that began before and had not ended: all that began less all that ended."""
    ended = sorted(ends(columns))
    return [float(index - bisect_left(ended, at)) for index, at in enumerate(starts(columns))]


def _idle_before(columns: Columns) -> Sequence[Value]:
    at = starts(columns)
    last = [*accumulate(ends(columns), max)]
    return [None, *(max(0.0, now - end) for now, end in zip(at[1:], last, strict=False))][: len(at)]


def _connecting(columns: Columns) -> Sequence[Value]:
    parts = zip(numbers(columns["network.connect"]), numbers(columns["network.tls"]), strict=True)
    return [None if tcp is None or tls is None else tcp + tls for tcp, tls in parts]


def _ttft_connected(columns: Columns) -> Sequence[Value]:
    pairs = zip(numbers(columns["ttft"]), numbers(columns["connecting"]), strict=True)
    return [
        None if ttft is None or connecting is None else max(0.0, ttft - connecting)
        for ttft, connecting in pairs
    ]


# -- what was new ----------------------------------------------------------------------------------


def _new_schema(columns: Columns) -> Sequence[Value]:
    seen: set[Value] = set()
    found: list[Value] = []
    for schema in columns["schema"]:
        found.append(None if schema is None else float(schema not in seen))
        seen.add(schema)
    return found


# -- whose prompt was computed meanwhile -----------------------------------------------------------


def _tag(call: Call) -> Value:
    tags = call.get("tags") or {}
    return " ".join(f"{name}={tags[name]}" for name in sorted(tags)) or None


def neighbours(columns: Columns) -> list[int | None]:
    """Of each call the place of the one with the largest uncached prompt among those that began
    between its first token and its end; null where none did, or it had no first token."""
    at, ended = starts(columns), ends(columns)
    prompts = [tokens or 0.0 for tokens in numbers(columns["uncached_tokens"])]
    best = _Largest(prompts)
    found: list[int | None] = []
    for begin, first, end in zip(at, numbers(columns["ttft"]), ended, strict=True):
        since = None if first is None else bisect_right(at, begin + first)
        found.append(None if since is None else best.between(since, bisect_left(at, end)))
    return found


class _Largest:
    """The place of the largest value in any stretch, told at once: by doubling (a sparse table)."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values
        self._rows = [list(range(len(values)))]
        reach = 1
        while 2 * reach <= len(values):
            row = self._rows[-1]
            self._rows.append(
                [self._larger(one, other) for one, other in zip(row, row[reach:], strict=False)]
            )
            reach *= 2

    def _larger(self, one: int, other: int) -> int:
        return other if self._values[other] > self._values[one] else one

    def between(self, begin: int, end: int) -> int | None:
        if end <= begin:
            return None
        level = (end - begin).bit_length() - 1
        row = self._rows[level]
        return self._larger(row[begin], row[end - (1 << level)])


def _neighbour_prefill(columns: Columns) -> Sequence[Value]:
    prompts = columns["uncached_tokens"]
    first = columns["ttft"]
    return [
        (None if first[index] is None else 0.0) if place is None else (prompts[place] or 0.0)
        for index, place in enumerate(neighbours(columns))
    ]


def _neighbour_tag(columns: Columns) -> Sequence[Value]:
    tags, prompts = columns["tag"], numbers(columns["uncached_tokens"])
    return [
        None if place is None or (prompts[place] or 0.0) < LONG else tags[place]
        for place in neighbours(columns)
    ]


def _neighbour_delay(columns: Columns) -> Sequence[Value]:
    sizes, gaps = numbers(columns["neighbour_prefill"]), numbers(columns["itl_max"])
    alone = [
        gap
        for size, gap in zip(sizes, gaps, strict=True)
        if gap is not None and size is not None and size < ALONE
    ]
    usual = median(alone) if alone else None
    return [_delayed(size, gap, usual) for size, gap in zip(sizes, gaps, strict=True)]


def _delayed(size: float | None, gap: float | None, usual: float | None) -> Value:
    if size is None or gap is None:
        return None
    if size < LONG:
        return 0.0
    return None if usual is None else max(0.0, gap - usual)


ROWS: tuple[Metric, ...] = (
    Metric(
        name="calls_per_hour",
        unit="per_hour",
        means="calls an hour, from the first call's start to the last's",
        whole=_calls_per_hour,
    ),
    Metric(
        name="hour",
        unit="count",
        means="hour of the day it began in, 0 to 23, UTC",
        over=_hour,
    ),
    Metric(
        name="concurrent",
        unit="count",
        means="other calls of the group that were running when it began",
        over=_concurrent,
        every=True,
        needs=("e2e",),
    ),
    Metric(
        name="idle_before",
        unit="ns",
        means="how long no call of the group had been running when it began; not told by the first",
        over=_idle_before,
        every=True,
        needs=("e2e",),
    ),
    Metric(
        name="connecting",
        unit="ns",
        means="time to make the connection, TLS included; 0 on a reused one",
        over=_connecting,
        needs=("network.connect", "network.tls"),
    ),
    Metric(
        name="ttft_connected",
        unit="ns",
        means="time to the first token, less that for the connection",
        over=_ttft_connected,
        needs=("ttft", "connecting"),
    ),
    Metric(
        name="new_schema",
        unit="truth",
        means="whether its output grammar is asked for the first time in this file",
        over=_new_schema,
        every=True,
        needs=("schema",),
        collect="ask for structured output (response_format, tools with strict, a grammar)",
    ),
    Metric(
        name="tag",
        unit="text",
        means="its tags, as `name=value` in order of their names",
        of=_tag,
        collect="tag calls with who makes them: latscope.instrument(client, tags={...})",
    ),
    Metric(
        name="neighbour_prefill",
        unit="tokens",
        means="largest uncached prompt of a call that began while this one's tokens came; 0: none",
        over=_neighbour_prefill,
        every=True,
        needs=("ttft", "e2e", "uncached_tokens"),
        collect="record all clients of the server in one file",
    ),
    Metric(
        name="neighbour_tag",
        unit="text",
        means="tags of the call that neighbour_prefill is of, where that is 4,000 tokens or more",
        over=_neighbour_tag,
        every=True,
        needs=("ttft", "e2e", "uncached_tokens", "tag"),
    ),
    Metric(
        name="neighbour_delay",
        unit="ns",
        means="by how much its longest gap exceeds that of answers with no prompt beside them,"
        " where neighbour_prefill is 4,000 tokens or more; else 0",
        over=_neighbour_delay,
        needs=("neighbour_prefill", "itl_max"),
    ),
)
