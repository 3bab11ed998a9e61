"""The smallest round trip of the last minutes to each address, for the whole process.

A connection that carried little has few samples of its own; others to the same address had more.
"""

from typing import TypeAlias

from latscope.units import Ns, S

WINDOW: Ns = 300 * S
SLOT: Ns = 10 * S
"""Of samples this close together the smallest stands for all."""
ADDRESSES = 1024
"""Addresses remembered; the one that was heard of longest ago goes first."""

Samples: TypeAlias = tuple[tuple[Ns, Ns], ...]
"""(when, round trip), both rising: a sample that a later and smaller one beats is gone."""

_seen: dict[str, Samples] = {}


def lowest(peer: str, rtt: Ns | None, at: Ns) -> Ns | None:
    """The smallest round trip to `peer` in the window that ends `at`, the new sample included.

    rtt: a new sample in ns, null when there is none. at: reading of `perf_counter_ns`. Null when
    nothing is known. Two threads at once may lose a sample, no more.
    """
    samples = tuple(s for s in _seen.get(peer, ()) if s[0] > at - WINDOW)
    if rtt is not None:
        samples = _added(samples, at, rtt)
    _seen.pop(peer, None)  # so that it comes last
    if not samples:
        return None
    _seen[peer] = samples
    for old in list(_seen)[: max(len(_seen) - ADDRESSES, 0)]:
        _seen.pop(old, None)
    return samples[0][1]


def _added(samples: Samples, at: Ns, rtt: Ns) -> Samples:
    kept = tuple(s for s in samples if s[1] < rtt)
    if kept and at - kept[-1][0] < SLOT:
        return kept
    return (*kept, (at, rtt))
