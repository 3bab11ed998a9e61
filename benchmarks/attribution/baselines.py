"""The five rules others use or would: each says queue and prefill of a call's time to first token.

What they are given is what a client has: the time from the request's last byte to the response
head and to the first token, the round trip, uncached prompt tokens, the time a token takes. What
they do not give to queue or prefill before the first token is network (the round trip) or client
time, which every rule measures alike; after it all is decode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latscope.attribution.observe import Observation
from latscope.units import MS, Ns, clamp

Split = tuple[Ns, Ns]
"""Queue and prefill, ns."""

Rule = Callable[[Observation], Split]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """name; made: from a history, the rule."""

    name: str
    made: Callable[[Sequence[Observation]], Rule]


def _first_byte(history: Sequence[Observation]) -> Rule:
    """First byte minus round trip is the queue, first byte to first token the prefill."""

    def rule(row: Observation) -> Split:
        total = row.sent_ns or 0
        queue = clamp(row.head_ns or 0, 0, total)
        return queue, total - queue

    return rule


def _all_prefill(history: Sequence[Observation]) -> Rule:
    """Time to first token minus round trip is prefill."""
    return lambda row: (0, row.sent_ns or 0)


def _least_squares(history: Sequence[Observation]) -> Rule:
    """A straight line through all calls is the prefill, what lies above it the queue."""
    rows = [row for row in history if row.sent_ns is not None]
    n = len(rows)
    mean_u = sum(row.uncached for row in rows) / n
    mean_y = sum(row.sent_ns or 0 for row in rows) / n
    spread = sum((row.uncached - mean_u) ** 2 for row in rows)
    joint = sum((row.uncached - mean_u) * ((row.sent_ns or 0) - mean_y) for row in rows)
    slope = joint / spread if spread else 0.0

    def rule(row: Observation) -> Split:
        total = row.sent_ns or 0
        prefill = clamp(round(mean_y + slope * (row.uncached - mean_u)), 0, total)
        return total - prefill, prefill

    return rule


def _running_minimum(history: Sequence[Observation]) -> Rule:
    """The shortest wait ever seen is the prefill of any call."""
    least = min(row.sent_ns for row in history if row.sent_ns is not None)

    def rule(row: Observation) -> Split:
        total = row.sent_ns or 0
        prefill = min(least, total)
        return total - prefill, prefill

    return rule


PRIOR: Ns = round(0.14 * MS)
"""A prompt token: the middle of the slopes published for hosted models (0.04 to 0.24 ms)."""


def _prior(history: Sequence[Observation]) -> Rule:
    """No history: one decode step and so much a token, the same for every endpoint."""

    def rule(row: Observation) -> Split:
        total = row.sent_ns or 0
        prefill = min((row.step_ns or 0) + PRIOR * row.uncached, total)
        return total - prefill, prefill

    return rule


BASELINES: tuple[Baseline, ...] = (
    Baseline(name="first byte", made=_first_byte),
    Baseline(name="all prefill", made=_all_prefill),
    Baseline(name="least squares", made=_least_squares),
    Baseline(name="running minimum", made=_running_minimum),
    Baseline(name="prior", made=_prior),
)
