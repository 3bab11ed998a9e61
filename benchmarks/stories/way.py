"""The way back: what a hop keeps of the stream, and when the rest reaches the client's kernel."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from benchmarks.stories.world import World
from latscope.units import MS, Ns


class Chunk(NamedTuple):
    """Bytes of the body up to `stop`, and when they left or arrived."""

    at: Ns
    stop: int


def arrivals(world: World, sends: Sequence[Chunk], dice: Random) -> list[Chunk]:
    """Half a round trip after the hop let them go, each late by its own jitter, in order."""
    back, found = round(world.rtt_ms * MS / 2), list[Chunk]()
    for at, stop in _through(world, sends):
        late = round(dice.expovariate(1 / (world.jitter_ms * MS)))
        got = max(at + back + late, found[-1].at if found else 0)
        if found and found[-1].at == got:
            found[-1] = Chunk(got, stop)
        else:
            found.append(Chunk(got, stop))
    return found


def _through(world: World, sends: Sequence[Chunk]) -> Iterator[Chunk]:
    if world.buffer == "none":
        yield from sends
    elif world.buffer == "whole":
        yield sends[-1]
    elif world.buffer == "time":
        beat, first = world.quantum * MS, sends[0].at
        for at, stop in sends:
            yield Chunk(first + -(-(at - first) // beat) * beat, stop)
    else:
        yield from _blocks(world.quantum, sends)


def _blocks(size: int, sends: Sequence[Chunk]) -> Iterator[Chunk]:
    """Whole blocks pass when their last byte is there, the rest at the end."""
    passed = 0
    for at, stop in sends:
        if stop - passed >= size:
            passed = stop - stop % size
            yield Chunk(at, passed)
    if passed < sends[-1].stop:
        yield sends[-1]
