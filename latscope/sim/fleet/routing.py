"""Which replica a call goes to, known when it arrives."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Literal, TypeAlias

from latscope.sim.fleet.arrivals import Call

Loads: TypeAlias = Callable[[], list[int]]
"""Asks each replica how many calls it has, waiting or running."""
Router: TypeAlias = Callable[[Call, Loads], int]
Routing: TypeAlias = Literal["round-robin", "least-loaded", "prefix-affine"]


def round_robin(replicas: int) -> Router:
    turn = count()
    return lambda call, loads: next(turn) % replicas


def least_loaded(replicas: int) -> Router:
    """The replica with the fewest calls; of several, the first."""
    return lambda call, loads: _idlest(loads())


def prefix_affine(replicas: int) -> Router:
    """Where the session, else the prefix, was served before; a new one, and a call without any,
    goes to the least loaded."""
    homes: dict[str, int] = {}

    def route(call: Call, loads: Loads) -> int:
        text = call.session if call.session is not None else call.prefix
        if text is None:
            return _idlest(loads())
        if text not in homes:
            homes[text] = _idlest(loads())
        return homes[text]

    return route


ROUTERS: Mapping[Routing, Callable[[int], Router]] = {
    "round-robin": round_robin,
    "least-loaded": least_loaded,
    "prefix-affine": prefix_affine,
}


def _idlest(loads: list[int]) -> int:
    return min(range(len(loads)), key=loads.__getitem__)
