"""Whether an engine plans a step while another runs, by what joining it while busy costs a call.

Who comes to an idle engine is computed at once. Who comes to a busy one waits for the step that
runs; where the next one is planned already (vLLM's asynchronous scheduling), the call is scheduled
when the first ends and computed only after the second: that whole step is prefill by the engine's
own account, and no queue. It shows in the excesses of light hours: an engine that plans when a step
ends keeps joiners anywhere up to one step, one that plans ahead between one step and two, and next
to nobody less.
"""

from bisect import bisect_left
from collections.abc import Sequence
from statistics import median

from latscope.attribution.changes import quantile
from latscope.units import Ns

NOUGHT = (0.1, 1.5)
"""Excesses up to so many steps, or so many times the noise, may be nought: an idle engine's."""
BEFORE = (0.25, 0.5)
"""Steps before an edge, at least and at most, that must be empty."""
MOST = 1.1
"""Steps up to which an edge is looked for: less than one where the floor is not quite an idle
engine's."""
GRID = 20
"""Edges that are tried in a step."""
EMPTY = 0.3
"""What share of the calls that lie behind an edge may lie before it in the same time, and one call
less, so that few calls show nothing by chance."""
EDGE = 0.05
"""Quantile of the calls that joined at which their least excess is taken."""


def join_of(
    steps: Sequence[float], uncached: Sequence[int], excesses: Sequence[float], noise: Ns
) -> Ns:
    """How long a call that joins a busy engine is scheduled and not yet computed: about one step
    where it plans ahead; 0 where it does not, or where nothing shows it.

    steps: the engine's, as calls saw them, ns; uncached, excesses: of each call its prompt's
    tokens and what it took above the floor, ns; noise: how far unloaded calls scatter around it.
    Where few calls found the engine idle, the slope of a floor may hold what joining takes; the
    shorter half of the prompts shows it all the same."""
    if not steps:
        return 0
    step, middle = median(steps), median(uncached)
    short = [above for above, u in zip(excesses, uncached, strict=True) if u <= middle]
    return max(_edge(sorted(some), step, noise) for some in (excesses, short))


def _edge(ordered: Sequence[float], step: float, noise: Ns) -> Ns:
    """The excess, up to one step, below which hardly any call is that did not find the engine
    idle; 0 where there is no such edge."""
    nought = max(NOUGHT[0] * step, NOUGHT[1] * noise)
    least, most = (share * step for share in BEFORE)
    at, found = nought + least, 0.0
    while at <= MOST * step:
        since = max(nought, at - most)
        first, edge, last = (bisect_left(ordered, ns) for ns in (since, at, at + step))
        if edge - first + 1 <= EMPTY * (last - edge) * (at - since) / step:
            found = at
        at += step / GRID
    if not found:
        return 0
    joined = [excess for excess in ordered if found - least <= excess < found + step]
    return round(min(quantile(joined, EDGE), step))
