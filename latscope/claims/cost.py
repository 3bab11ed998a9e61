"""The claims on the two-stage cost model: one call, exact units, no queue and no batch."""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from latscope.claims import judge
from latscope.claims.fit import Point, quotient, ratio, slope, span
from latscope.claims.model import TEACHING_RATIO, Row, row, untestable
from latscope.claims.words import digits, said
from latscope.sim.cost import Comparison, compare, step, sweep

PROMPTS = (25, 50, 100, 200, 400, 800, 1600)
OUTPUTS = (10, 20, 40, 80, 160, 320, 640)
"""Around the source's own call (200 and 40), each doubled from the one before."""
ONE_CALL = "one call in isolation: there is no {missing} in the model"


def rows() -> Iterator[Row]:
    base = compare()
    prompts = sweep(base, {"prompt": PROMPTS}).points
    outputs = sweep(base, {"output": OUTPUTS}).points
    yield _independent(outputs)
    yield _cache_leaves(prompts)
    yield _grows(base)
    yield _removes(base)
    yield untestable("batching-raises-throughput", "cost", ONE_CALL.format(missing="batch"))
    yield untestable("queueing-dominates-ttft-at-peak", "cost", ONE_CALL.format(missing="queue"))
    yield _sum(prompts)
    yield _steps(outputs)
    yield _ratio(prompts, base)


def _independent(outputs: Sequence[Comparison]) -> Row:
    points = [Point(x=call.output, y=float(call.with_cache.ttft)) for call in outputs]
    found = slope(points)
    share = found and found.times(span(points) / points[0].y)
    note = f"{_reach(OUTPUTS, 'output tokens')}: TTFT stays {digits(points[0].y)} units"
    verdict = judge.near(share, 0, judge.SAME)
    return row(
        "ttft-independent-of-output", "cost", "units TTFT per output token", found, verdict, note
    )


def _cache_leaves(prompts: Sequence[Comparison]) -> Row:
    points = [
        Point(x=float(call.with_cache.ttft), y=float(call.without_cache.ttft)) for call in prompts
    ]
    found = ratio(points)
    verdict = judge.near(found, 1, judge.SAME)
    note = f"{_reach(PROMPTS, 'prompt tokens')}: the same TTFT to the unit"
    return row("cache-leaves-ttft", "cost", "TTFT without over TTFT with", found, verdict, note)


def _grows(base: Comparison) -> Row:
    cached, plain = _step_points(base, cache=True), _step_points(base, cache=False)
    found, without = slope(cached), slope(plain)
    verdict = judge.both(judge.grows_linearly(cached), judge.grows_linearly(plain))
    first, last = base.with_cache.steps.first, base.with_cache.steps.last
    note = (
        f"with the cache, steps {_units(first)} to {_units(last)}; without it"
        f" {said(without, digits)} per token, steps"
        f" {_units(base.without_cache.steps.first)} to {_units(base.without_cache.steps.last)}"
    )
    return row(
        "step-grows-with-context", "cost", "units a step per context token", found, verdict, note
    )


def _removes(base: Comparison) -> Row:
    plain = _step_points(base, cache=False)
    found = quotient(plain, _step_points(base, cache=True))
    read, computed = base.with_cache.steps, base.without_cache.steps
    ends = sorted((float(computed.first / read.first), float(computed.last / read.last)))
    note = (
        f"{said(found, digits)} is the ratio of the slopes, without over with;"
        f" the steps themselves are {ends[0]:.1f} to {ends[-1]:.1f} times as dear: both still read"
        " the history"
    )
    verdict = judge.above(found, judge.RECOMPUTES)
    return row("cache-removes-recomputation", "cost", "ratio of slopes", found, verdict, note)


def _sum(prompts: Sequence[Comparison]) -> Row:
    points = [
        Point(x=float(call.prompt * call.constants.forward), y=float(call.with_cache.ttft))
        for call in prompts
    ]
    found = ratio(points)
    verdict = judge.near(found, 1, judge.SAME)
    note = "prefill alone, by construction: queue and network are 0 here"
    return row("ttft-is-queue-prefill-network", "cost", "TTFT over the sum", found, verdict, note)


def _steps(outputs: Sequence[Comparison]) -> Row:
    """TTFT ends before the first step, so a step is missing for every call, whatever its length."""
    points, missing = [], set()
    for call in outputs:
        mean = call.with_cache.decode / call.output
        expected = call.with_cache.ttft + (call.output - 1) * mean
        missing.add((call.with_cache.total - expected) / mean)
        points.append(Point(x=float(expected), y=float(call.with_cache.total)))
    found = ratio(points)
    within = max(abs(steps) for steps in missing) <= 1
    note = "within one step" if within else "more than a step off"
    if missing == {Fraction(1)}:
        note += ": off by exactly one, since TTFT ends here before the first decode step"
    verdict = "holds" if within else judge.near(found, 1, judge.SAME)
    return row("e2e-is-ttft-plus-steps", "cost", "E2E over the sum", found, verdict, note)


def _ratio(prompts: Sequence[Comparison], base: Comparison) -> Row:
    prefill = [Point(x=call.prompt, y=float(call.with_cache.ttft)) for call in prompts]
    found = quotient(prefill, _step_points(base, cache=True))
    note = f"{TEACHING_RATIO} is the source's teaching constant, no measurement"
    verdict = judge.above(found, 1)
    unit = "prefill a token over decode a context token"
    return row("recompute-to-read-ratio", "cost", unit, found, verdict, note)


def _step_points(base: Comparison, *, cache: bool) -> list[Point]:
    return [
        Point(
            x=base.prompt + place,
            y=float(step(base.prompt + place, base.constants, cache=cache)),
        )
        for place in range(base.output)
    ]


def _reach(values: Sequence[int], noun: str) -> str:
    return f"{values[0]} to {values[-1]:,} {noun}"


def _units(value: Fraction) -> str:
    return f"{float(value):,g}"
