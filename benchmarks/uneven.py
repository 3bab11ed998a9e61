"""Machines whose steps take now more, now less: shared ones, warm ones, ones with other work."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import repeat
from math import exp, sqrt
from random import Random

from latscope.sim.fleet.engine import Cost
from latscope.units import Ns

DRIFT = 300
"""Steps over which a machine's speed forgets what it was."""

BURST = 30
"""Steps for which another program takes a part of the machine, on the average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnevenCost(Cost):
    """Steps that take now more, now less than they cost: by the next of `factors` each."""

    factors: Iterator[float] = field(default_factory=lambda: repeat(1.0))

    def of_decodes(self, calls: int, context: int, prompts: float = 0.0) -> Ns:
        even = Cost.of_decodes(self, calls, context, prompts)
        return max(1, round(even * next(self.factors)))


def uneven(seed: str, scatter: float, drift: float, bursts: float) -> Iterator[float]:
    """Factors of one machine's steps: log-normal, each step by itself with `scatter`, and all of
    them together with `drift`, which comes and goes; and in a share `bursts` of the steps another
    program takes as much of the machine again, on the average."""
    dice, at, kept, burst = Random(seed), 0.0, exp(-1 / DRIFT), 0.0
    while True:
        at = kept * at + sqrt(1 - kept * kept) * dice.gauss(0.0, 1.0)
        if dice.random() < 1 / BURST:
            burst = dice.expovariate(1.0) if dice.random() < bursts else 0.0
        yield (1 + burst) * exp(scatter * dice.gauss(0.0, 1.0) + drift * at)
