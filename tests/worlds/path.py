"""The path of a world: what leaves the server when, and when it reaches the client's kernel."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from random import Random
from typing import NamedTuple

from latscope.units import Ns, clamp
from tests.worlds.case import CORK_FIRST, CORK_NEXT, Path, ns


class Chunk(NamedTuple):
    """Bytes of the body up to `stop`, and when they left or arrived."""

    at: Ns
    stop: int


def through_hop(path: Path, sends: Sequence[Chunk], eof: Ns, first_token: Ns | None) -> list[Chunk]:
    """What a hop passes on of `sends`, and when; at `eof` it lets go of all it holds."""
    if not sends:
        return []
    if path.hop == "bytes":
        return _blocks(path.quantum_bytes, sends, eof)
    first = sends[0].at
    every, corked = ns(path.quantum_ms), first + ns(CORK_FIRST)
    found = []
    start = first if first_token is None else first_token
    for at, stop in sends:
        out = at
        if path.hop == "time":
            out = -(-at // every) * every
        elif path.hop == "all":
            out = eof
        elif path.hop == "cork":
            out = _next(corked, ns(CORK_NEXT), at)
        elif path.hop == "late" and at >= start:
            out = max(at, start + every)
        found.append(Chunk(max(at, min(out, eof)), stop))
    return found


def _next(first: Ns, every: Ns, at: Ns) -> Ns:
    """The first of first, first + every, ... that is not before `at`."""
    return first if at <= first else first + -(-(at - first) // every) * every


def _stalled(path: Path, chunks: Sequence[Chunk], first_end: int) -> Iterator[tuple[int, Ns]]:
    """Which chunks are lost, and for how long; the last in the place of one there is not."""
    last = len(chunks) - 1
    first = next((i for i, chunk in enumerate(chunks) if chunk.stop >= first_end), 0)
    for index, ms in path.stalls:
        yield clamp(first + index if index >= 0 else last + 1 + index, 0, last), ns(ms)


def _blocks(size: int, sends: Sequence[Chunk], eof: Ns) -> list[Chunk]:
    """Whole blocks pass when their last byte is there, the rest at the end."""
    found = []
    passed = 0
    for at, stop in sends:
        if stop - passed >= size:
            passed = stop - stop % size
            found.append(Chunk(at, passed))
    if passed < sends[-1].stop:
        found.append(Chunk(max(eof, sends[-1].at), sends[-1].stop))
    return found


def arrivals(
    path: Path,
    out: Sequence[Chunk],
    random: Random,
    *,
    since: Ns = 0,
    first_end: int | None = None,
) -> list[Chunk]:
    """Half a round trip later, each chunk late by its own delivery; none before `since`, none out
    of order, so what stalls a chunk keeps those behind it. What leaves or arrives together is one
    chunk. first_end: where the first token's frame ends: stalls count from its chunk."""
    nexts = [chunk.at for chunk in out[1:]]
    together = [c for c, after in zip_longest(out, nexts) if after is None or after > c.at]
    stalls = dict(_stalled(path, together, first_end or 0))
    found: list[Chunk] = []
    before = since
    for index, (at, stop) in enumerate(together):
        late = ns(random.uniform(0.0, path.delivery / 2)) + stalls.get(index, 0)
        before = max(before, at + ns(path.rtt) // 2 + late)
        if found and found[-1].at == before:
            found[-1] = Chunk(before, stop)
        else:
            found.append(Chunk(before, stop))
    return found
