"""A profile from differential probes: what arms that differ in one thing only tell together.

Every figure comes from pairs sent next to each other, so drift cancels; each has an interval, and a
floor is believed only when its guards pass (see `probed_guards`). Pure: samples in, profile out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from latscope.attribution.arms import PREFILL, Arms, Figure, Sample, arms_of, first, gap, middle
from latscope.attribution.paired import Estimate, estimate
from latscope.attribution.probed_floor import (
    Slope,
    cache_effect,
    floor_of,
    slope_of,
    with_cache,
)
from latscope.attribution.probed_guards import guards
from latscope.attribution.probed_head import header_policy
from latscope.attribution.probed_step import Step, step_of
from latscope.attribution.profile import Profile, SelfTest
from latscope.units import Ns

TOLERANCE = 0.5
"""How far the self-test's figures may move before the profile is no longer believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What a profile says of itself. skipped: what could not be probed, with the reason."""

    endpoint: str
    model: str
    api: str | None
    made_at: str
    expires_at: str
    skipped: tuple[str, ...] = ()
    spent: Mapping[str, int] = field(default_factory=dict)


def profile_from_arms(samples: Iterable[Sample], about: About, seed: int = 0) -> Profile:
    """The profile the samples support; what they do not support is null, with its reason."""
    arms = arms_of(samples)
    policy = header_policy(arms)
    figure: Figure = gap if policy == "early" else first
    slope = slope_of(arms, figure, seed)
    step = step_of(arms, seed)
    floor = floor_of(arms, figure, slope, "headers" if figure is gap else "sent")
    checked = guards(arms, figure, slope, floor, step)
    failed = next((guard for guard in checked if not guard.passed), None)
    effect = cache_effect(arms, figure, seed)
    connect = estimate([s.setup_ns for s in arms.of("new") if s.setup_ns is not None], median, seed)
    return Profile(
        endpoint=about.endpoint,
        model=about.model,
        api=about.api,
        provenance="probed",
        made_at=about.made_at,
        expires_at=about.expires_at,
        n=len(arms.samples),
        floor=None if failed else with_cache(floor, arms, figure),
        step=None if step is None else step.floor,
        headers=policy,
        rtt_ns=arms.rtt_ns,
        tokens_per_chunk=middle(one.tokens_per_chunk for one in arms.of("many")),
        guards=checked,
        refused=None if failed is None else f"{failed.name}: {failed.detail}",
        cache_effect_ns=None if effect is None else max(0.0, effect.value),
        skipped=about.skipped,
        self_test=_self_test(arms),
        spent=about.spent,
        head_ns=_head_ns(arms),
        connect_ns=None if connect is None else round(connect.value),
        intervals=_intervals(slope, step, effect, connect),
    )


def _self_test(arms: Arms) -> SelfTest | None:
    """Of the short arm, the one any later check can repeat cheaply."""
    short = [one for one in arms.of("short", "again") if one.first_ns is not None]
    if not short:
        return None
    gaps = middle(one.gap_ns for one in short)
    return SelfTest(
        head_gap_ns=None if gaps is None else round(gaps),
        ttft_ns=round(median(one.first_ns or 0 for one in short)),
        tolerance=TOLERANCE,
        n=len(short),
    )


def _head_ns(arms: Arms) -> Ns | None:
    found = middle(one.head_ns for one in arms.of(*PREFILL, "again"))
    return None if found is None else max(0, round(found) - (arms.rtt_ns or 0))


def _intervals(
    slope: Slope | None, step: Step | None, effect: Estimate | None, connect: Estimate | None
) -> dict[str, tuple[float, float]]:
    found = {
        "linear_ns": None if slope is None else slope.ends,
        "quadratic_ns": None if slope is None else slope.quadratic,
        "step_ns": None if step is None else step.step,
        "per_context_ns": None if step is None else step.per_context,
        "cache_effect_ns": effect,
        "connect_ns": connect,
    }
    return {name: (one.low, one.high) for name, one in found.items() if one is not None}
