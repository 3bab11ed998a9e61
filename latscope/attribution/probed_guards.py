"""Under which conditions a probed floor may be believed, and what was found of each.

After the guards of a fitted floor: unloaded calls were seen, lengths reach far enough, the slope is
the same in both halves of the run, nothing drifts. Two come from the design itself: the same arm
twice must show no difference, and nothing may hold a stream back (else the first token of a longer
answer comes later than the floor of one-token answers says).
"""

from statistics import median

from latscope.attribution.arms import PREFILL, Arms, Figure, Sample, differences, end, first
from latscope.attribution.paired import estimate, hodges_lehmann, p_value
from latscope.attribution.probed_floor import Slope, above
from latscope.attribution.probed_step import Step
from latscope.attribution.profile import Floor, Guard
from latscope.units import MS

LEAST_PAIRS = 8
LEVERAGE = 4.0
IDLE_CALLS = 8
"""Calls near the floor, at least."""
NEAR = 1.5
"""Noise units within which a call counts as near the floor."""
QUIET = 0.25
"""Noise beyond this share of what a middling prompt takes at best says that load, not chance,
moves it."""
STABLE = 0.2
"""How much the slopes of the two halves may differ, as a share of the slope."""
DRIFT = 0.1
"""How much the last third may lie above the first, as a share of a middling prompt's floor."""
LUCK = 0.01
"""A null control below this chance shows a difference where there is none."""
HELD = 4.0
"""Noise units by which a longer answer's first token may come later, and no hold be suspected."""
MATERIAL = 0.1
"""Smaller shares of an arm's own effect are no matter."""


def guards(
    arms: Arms, figure: Figure, slope: Slope | None, floor: Floor | None, step: Step | None
) -> tuple[Guard, ...]:
    """All that can be checked, the one that says most first."""
    if slope is None or floor is None:
        n = len(arms.together("long", "short"))
        detail = f"{n} pairs of a short and a long prompt, {LEAST_PAIRS} are needed"
        return (Guard(name="count", passed=False, detail=detail),)
    return (
        _count(slope),
        _leverage(floor),
        _idle(arms, figure, floor),
        _stable(slope),
        _trend(arms, figure, floor),
        _null(arms, figure, slope, step),
        _holds(arms, floor),
    )


def _count(slope: Slope) -> Guard:
    detail = f"{slope.ends.n} pairs of a short and a long prompt, {LEAST_PAIRS} are needed"
    return Guard(name="count", passed=slope.ends.n >= LEAST_PAIRS, detail=detail)


def _leverage(floor: Floor) -> Guard:
    low, high = floor.tokens
    detail = f"prompts from {low} to {high} uncached tokens, a factor of {LEVERAGE:g} is needed"
    return Guard(name="leverage", passed=high >= LEVERAGE * max(1, low), detail=detail)


def _calls(arms: Arms, figure: Figure) -> list[Sample]:
    found = [one for one in arms.of(*PREFILL, "again") if figure(one) is not None]
    return sorted(found, key=lambda one: one.order)


def _typical(arms: Arms, figure: Figure) -> float:
    """What a middling prompt takes."""
    calls = arms.of("middle") or arms.of(*PREFILL)
    return median(value for one in calls if (value := figure(one)) is not None)


def _best(arms: Arms, figure: Figure) -> float:
    """The fastest tenth of middling prompts: what load has added to it is least."""
    calls = arms.of("middle") or arms.of(*PREFILL)
    found = sorted(value for one in calls if (value := figure(one)) is not None)
    return found[len(found) // 10]


def _residuals(arms: Arms, figure: Figure, floor: Floor) -> list[float]:
    """How far each call lies from the middle of those near the floor, in the order sent."""
    over = above(_calls(arms, figure), figure, floor.terms)
    return [value - hodges_lehmann(over) for value in over]


def _idle(arms: Arms, figure: Figure, floor: Floor) -> Guard:
    """Unloaded calls lie close together; load spreads them. A server that states its queue is
    believed: a queue that never empties spreads nothing."""
    best = _best(arms, figure)
    queues = [one.queue_ns for one in _calls(arms, figure) if one.queue_ns is not None]
    waited = median(queues) if queues else 0
    if waited > max(floor.noise_ns, DRIFT * best):
        detail = f"the server states a queue of {waited / MS:.1f} ms in the median call"
        return Guard(name="idle_evidence", passed=False, detail=detail)
    reach = NEAR * floor.noise_ns
    over = sorted(above(_calls(arms, figure), figure, floor.terms))
    middle = min(over, key=lambda value: sum(abs(value - other) for other in over))
    near = sum(1 for value in over if abs(value - middle) <= reach)
    detail = (
        f"{near} of {len(over)} calls within {reach / MS:.2f} ms of the floor, noise"
        f" {100 * floor.noise_ns / max(1.0, best):.1f} % of a middling prompt's best"
    )
    quiet = floor.noise_ns <= QUIET * best
    return Guard(name="idle_evidence", passed=quiet and near >= IDLE_CALLS, detail=detail)


def _stable(slope: Slope) -> Guard:
    half = len(slope.each) // 2
    early, late = slope.each[:half], slope.each[half:]
    parts = [hodges_lehmann(early), hodges_lehmann(late)]
    widths = [one.high - one.low for part in (early, late) if (one := estimate(part)) is not None]
    apart = abs(parts[0] - parts[1])
    room = max(STABLE * abs(slope.ends.value), *widths, 0.0)
    detail = (
        f"{parts[0] / MS:.4f} ms a token in the first half of the run, {parts[1] / MS:.4f} in the"
        " second"
    )
    return Guard(name="slope", passed=apart <= room, detail=detail)


def _trend(arms: Arms, figure: Figure, floor: Floor) -> Guard:
    over = _residuals(arms, figure, floor)
    third = max(1, len(over) // 3)
    drift = median(over[-third:]) - median(over[:third])
    room = max(2 * floor.noise_ns, DRIFT * _typical(arms, figure))
    detail = f"the last third of the calls took {drift / MS:+.2f} ms beside the first"
    return Guard(name="trend", passed=abs(drift) <= room, detail=detail)


def _null(arms: Arms, figure: Figure, slope: Slope, step: Step | None) -> Guard:
    """The same arm twice, for each experiment; the worst one speaks."""
    reach = slope.ends.value * _reach(arms)
    lasting = 0.0 if step is None else step.step.value * _answer(arms)
    controls: tuple[tuple[str, str, Figure, float], ...] = (
        ("again", "short", figure, reach),
        ("other", "fresh", figure, reach),
        ("many_again", "many", end, lasting),
    )
    for arm, twin, what, effect in controls:
        apart = differences(arms.together(arm, twin), what)
        if len(apart) < LEAST_PAIRS:
            continue
        shift = hodges_lehmann(apart)
        if p_value(apart) < LUCK and abs(shift) > max(MATERIAL * abs(effect), MS):
            detail = f"{twin} sent twice differs by {shift / MS:+.2f} ms where nothing differs"
            return Guard(name="null", passed=False, detail=detail)
    return Guard(name="null", passed=True, detail="the same arm sent twice shows no difference")


def _reach(arms: Arms) -> float:
    """Tokens between the short and the long arm."""
    pairs = arms.together("long", "short")
    return median(long.uncached - short.uncached for long, short in pairs)


def _answer(arms: Arms) -> float:
    return median((one.output or 0) for one in arms.of("many"))


def _holds(arms: Arms, floor: Floor) -> Guard:
    """With a larger cap the first token must come no later than with the smallest."""
    late = estimate(differences(arms.together("many", "one"), first))
    if late is None:
        return Guard(name="holds", passed=True, detail="not looked at: too few pairs of caps")
    detail = (
        f"the first token of a longer answer comes {late.value / MS:+.2f} ms beside a one-token"
        f" answer's{_beside_whole(arms)}"
    )
    held = late.low > max(HELD * floor.noise_ns, MS)
    return Guard(name="holds", passed=not held, detail=detail)


def _beside_whole(arms: Arms) -> str:
    """Streamed against not streamed."""
    apart = differences(arms.together("many", "whole"), end)
    if not apart:
        return ""
    return f"; a stream ends {hodges_lehmann(apart) / MS:+.2f} ms beside an answer sent whole"
