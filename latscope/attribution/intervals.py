"""90 % intervals around estimates, from how wrong such estimates were where the truth was known.

Split conformal prediction: residuals (truth less estimate) of calls like this one, counted in the
estimate's own scale, and their outer quantiles laid around the estimate. What is like what is in
the group's name. The residuals come from the simulator (`residuals.py`, made by
benchmarks/intervals.py), or from the endpoint's own calls once enough of them stated their truth.
"""

from collections.abc import Iterable, Mapping, Sequence

from latscope.attribution.profile import Residual
from latscope.units import Ns, clamp

LEVELS = {"prefill": 0.92, "queue": 0.92, "excess": 0.95, "lean": 0.6}
"""What an interval made of each quantity's residuals covers of those residuals. Those printed as
90 % are made of a little more, since an endpoint nobody has seen differs from those of the lab;
`lean` is the inner interval of prefill that says which of two segments is the larger."""
OWN = 50
"""Calls of an endpoint that stated their truth, at least, for its own residuals to replace ours."""
ANY = "any"
"""The group of every call of one quantity: for those whose own group nobody has seen."""


def interval(
    tables: Sequence[Mapping[str, Residual]],
    quantity: str,
    group: str,
    at: Ns,
    scale: Ns,
    most: Ns,
    pad: Ns = 0,
) -> tuple[Ns, Ns, bool]:
    """Low and high end of the interval of `quantity` (a key of LEVELS) around its estimate, within
    [0, most], and whether its own group was known. tables: of residuals, the first that knows the
    group counts; pad: what the interval extends to either side at least. Where nothing is known,
    the trivial bound."""
    names = (f"{quantity}/{group}", f"{quantity}/{ANY}")
    found = next((table[name] for name in names for table in tables if name in table), None)
    if found is None:
        return 0, most, False
    known = any(names[0] in table for table in tables)
    low = clamp(at + min(-pad, round(found.low * scale)), 0, most)
    high = clamp(at + max(pad, round(found.high * scale)), 0, most)
    return low, high, known


def residuals(rows: Iterable[tuple[str, float]], least: int = OWN) -> dict[str, Residual]:
    """Of (quantity/group, residual) pairs the outer quantiles by group, for groups of `least` and
    more. From prefill's the inner ones (`lean`) are made, too."""
    groups: dict[str, list[float]] = {}
    for name, value in rows:
        groups.setdefault(name, []).append(value)
        if name.startswith("prefill/"):
            groups.setdefault(name.replace("prefill/", "lean/", 1), []).append(value)
    return {
        name: outer(values, LEVELS[name.split("/")[0]])
        for name, values in sorted(groups.items())
        if len(values) >= least
    }


def outer(values: Sequence[float], level: float) -> Residual:
    """The interval that covers a next value of the same kind with `level`: the finite-sample
    quantiles of split conformal prediction, half of what is left out on either side."""
    ordered, n = sorted(values), len(values)
    out = int((1 - level) / 2 * (n + 1))
    low, high = ordered[max(0, out - 1)], ordered[min(n - 1, n - out)]
    return Residual(low=round(low, 4), high=round(high, 4), n=n)
