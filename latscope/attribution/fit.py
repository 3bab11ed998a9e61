"""Low quantiles as lines: what an endpoint takes at least, out of calls that nearly all took more.

The time to a first token is a floor plus delays that are never negative, so the floor is a low
quantile, not a mean: fitted by least squares it lands among the delays. It is the linear program of
quantile regression with coefficients kept from falling below zero (no prompt gets faster by being
longer), solved in its dual form, which has a row a coefficient instead of one a call.

numpy and scipy are needed here and nowhere else; they are imported when a floor is fitted.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import exp

from latscope.attribution.profile import Terms
from latscope.errors import MissingExtra

CHUNKS = (256, 512, 1024, 2048, 4096, 8192, 16_384)
"""Token budgets of a step that engines are run with. A prompt beyond one takes several steps."""

CHUNK_GAIN = 8.0
"""By how much a floor with steps in it must be likelier (in log likelihood, with errors as the
quantile's loss has them) than one without to be believed."""

ENOUGH = 1000
"""Calls from which the budget of a step is found out, at most; evenly taken from all."""

FEW = 8
"""Calls that differ from the others in a term, at least, for that term to be fitted at all."""


def quantile_line(
    columns: Sequence[Sequence[float]],
    values: Sequence[float],
    weights: Sequence[float],
    tau: float,
) -> list[float]:
    """Coefficients, none negative, of the line that about `tau` of `values` lie below.

    columns: one a coefficient, each as long as `values`; weights: how many calls each stands for.
    Raises MissingExtra without numpy and scipy."""
    try:
        import numpy as np
        from scipy.optimize import linprog
    except ImportError:
        raise MissingExtra("learning a floor", "analysis") from None
    x = np.array(columns, dtype=float)
    y = np.array(values, dtype=float)
    scale = np.maximum(np.abs(x).max(axis=1), 1e-12)
    size = max(float(np.abs(y).max()), 1e-12)
    bounds = [(-w * (1 - tau), w * tau) for w in weights]
    found = linprog(
        -y / size, A_ub=x / scale[:, None], b_ub=np.zeros(len(x)), bounds=bounds, method="highs"
    )
    return [max(0.0, float(value)) for value in -found.ineqlin.marginals * size / scale]


def loss(residuals: Sequence[float], weights: Sequence[float], tau: float) -> float:
    """What the line's program minimises: residuals above it count `tau`, those below 1 - tau."""
    return sum(
        w * (tau * r if r >= 0 else (tau - 1) * r) for r, w in zip(residuals, weights, strict=True)
    )


def floor_terms(
    uncached: Sequence[int],
    cached: Sequence[int],
    values: Sequence[float],
    weights: Sequence[float],
    tau: float,
    chunk: int | None = None,
    least: float = 0.0,
) -> Terms:
    """The floor of `values` (ns) over {1, u, u^2, cached} and, for prompts of several steps, the
    number of steps. chunk: tokens a step takes, 0 for prompts that are never cut, null: to be found
    out, by what fits. least: what the base is at least, ns."""
    above = [value - least for value in values]
    if chunk is None:
        chunk = _chunk(uncached, cached, above, weights, tau)
    terms = _terms(uncached, cached, above, weights, tau, chunk)
    return replace(terms, base_ns=terms.base_ns + least)


def _chunk(
    uncached: Sequence[int],
    cached: Sequence[int],
    values: Sequence[float],
    weights: Sequence[float],
    tau: float,
) -> int:
    """The token budget of a step that explains the times best; 0 when none does clearly."""
    every = -(-len(values) // ENOUGH)
    some = uncached[::every], cached[::every], values[::every], weights[::every]

    def misfit(size: int) -> float:
        terms = _terms(*some, tau, size)
        if size and terms.chunk_ns == 0:
            return float("inf")
        at = [terms.at(u, c) for u, c in zip(some[0], some[1], strict=True)]
        return loss([y - f for y, f in zip(some[2], at, strict=True)], some[3], tau)

    best, least = 0, misfit(0) * exp(-CHUNK_GAIN / len(some[0]))
    for size in CHUNKS:
        if sum(1 for u in some[0] if u > size) >= FEW:
            got = misfit(size)
            if got < least:
                best, least = size, got
    return best


def _terms(
    uncached: Sequence[int],
    cached: Sequence[int],
    values: Sequence[float],
    weights: Sequence[float],
    tau: float,
    chunk: int,
) -> Terms:
    columns: dict[str, list[float]] = {
        "base_ns": [1.0] * len(values),
        "linear_ns": [float(u) for u in uncached],
        "quadratic_ns": [float(u) * u for u in uncached],
    }
    if varies(cached):
        columns["cached_ns"] = [float(c) for c in cached]
    if chunk:
        columns["chunk_ns"] = [float(max(0, -(-u // chunk) - 1)) for u in uncached]
    found = quantile_line(list(columns.values()), values, weights, tau)
    return Terms(**dict(zip(columns, found, strict=True)), chunk_tokens=chunk)


def varies(counts: Sequence[int]) -> bool:
    """Whether enough counts differ from the commonest for a slope over them to mean anything: a
    prefix of the same length on every call is part of the base."""
    ordered = sorted(counts)
    middle = ordered[len(ordered) // 2]
    apart = sum(1 for count in ordered if abs(count - middle) > max(16, middle // 4))
    return apart >= max(FEW, len(ordered) // 20)


def step_terms(
    contexts: Sequence[int], steps: Sequence[float], weights: Sequence[float], tau: float
) -> tuple[float, float]:
    """(base_ns, per_context_ns) of one decode step's floor."""
    ones = [1.0] * len(steps)
    base, slope = quantile_line([ones, [float(c) for c in contexts]], steps, weights, tau)
    return base, slope
