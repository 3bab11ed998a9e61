"""The decode step of a probed endpoint, and what a token of context adds to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from latscope.attribution.arms import Arms, Sample
from latscope.attribution.paired import Estimate, estimate, p_value, spread
from latscope.attribution.probed_floor import SURE
from latscope.attribution.profile import StepFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    floor: StepFloor
    step: Estimate
    """A step at the short prompt's context."""
    per_context: Estimate | None


def step_of(arms: Arms, seed: int = 0) -> Step | None:
    """A decode step: from the stream's own pace where it has one, else from how much longer the
    larger cap took than the smallest."""
    many = [one for one in arms.of("many", "many_again") if one.step_ns is not None]
    own = [one.step_ns for one in many if one.step_ns is not None]
    by_cap = list(_steps_by_cap(arms.together("many", "one")))
    values = own if len(own) >= len(by_cap) else by_cap
    found = estimate(values, seed=seed)
    if found is None or found.value <= 0:
        return None
    growth = [
        (far.step_ns - near.step_ns) / (far.context - near.context)
        for far, near in arms.together("many_long", "many")
        if far.step_ns is not None and near.step_ns is not None and far.context > near.context
    ]
    per = estimate(growth, seed=seed) if values is own else None
    grows = per.value if per is not None and per.positive and p_value(growth) <= SURE else 0.0
    at = median(one.context for one in arms.of("many"))
    return Step(
        floor=StepFloor(
            base_ns=max(0.0, found.value - grows * at),
            per_context_ns=grows,
            n=found.n,
            noise_ns=round(spread(values)),
        ),
        step=found,
        per_context=per,
    )


def _steps_by_cap(pairs: Iterable[Sequence[Sample]]) -> Iterable[float]:
    for many, one in pairs:
        more = (many.output or 0) - (one.output or 0)
        if many.end_ns is not None and one.end_ns is not None and one.output and more > 0:
            yield (many.end_ns - one.end_ns) / more
