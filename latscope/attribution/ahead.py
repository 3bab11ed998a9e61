"""Whether an engine plans a step while another runs, by what joining it while busy costs a call.

Who comes to an idle engine is computed at once. Who comes to a busy one waits for the step that
runs; where the next one is planned already (vLLM's asynchronous scheduling), the call is scheduled
when the first ends and computed only after the second: that whole step is prefill by the engine's
own account, and no queue. It shows in the excesses of light hours: an engine that plans when a step
ends keeps joiners anywhere up to one step, one that plans ahead between one step and two, and next
to nobody less.
"""

from collections.abc import Sequence
from statistics import median

from latscope.attribution.observe import Observation
from latscope.units import Ns

BETWEEN = (0.2, 0.8)
BEYOND = (0.95, 1.9)
"""Excesses, in steps, that speak for planning at the end of a step and for planning ahead. Near
nought are the calls that found the engine idle."""
LEAST = 8
"""Calls beyond a step, at least, that show an engine planning ahead."""
CLEAR = 3.0
"""... and so many times as many as lie between nought and one step."""
SHARP = 0.1
"""Up to which noise, in steps, excesses below a step can be told from nought."""


def join_of(rows: Sequence[Observation], excesses: Sequence[float], noise: Ns) -> Ns:
    """How long a call that joins a busy engine is scheduled and not yet computed: one step where it
    plans ahead; 0 where it does not, or where nothing shows it.

    excesses: of the rows, ns above the floor; noise: how far unloaded calls scatter around it."""
    steps = [row.step_ns * max(1.0, row.tokens_per_chunk or 1.0) for row in rows if row.step_ns]
    if not steps:
        return 0
    step = median(steps)
    if noise > SHARP * step:
        return 0
    between, beyond = (
        sum(1 for excess in excesses if low * step <= excess < high * step)
        for low, high in (BETWEEN, BEYOND)
    )
    return round(step) if beyond >= max(LEAST, CLEAR * between) else 0
