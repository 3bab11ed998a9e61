"""The claims on calls as a client saw them: recorded ones, or those just sent to an endpoint.

A client sees stamps and the server's own figures, no more: what no client can tell (a server
without its KV cache) stays open, and a claim is judged on calls that differ in one thing only.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from statistics import median
from typing import TypeAlias

from latscope.claims import judge
from latscope.claims.calls import Observed, Stopped, at_once, crowded, length, quiet
from latscope.claims.fit import Estimate, Point, at_least, quotient, ratio, shift, slope, span
from latscope.claims.model import TEACHING_RATIO, ClaimId, Row, Source, Verdict, row, untestable
from latscope.claims.words import between, change, digits, percent, time
from latscope.rules.censored import Sample, quantile, trend
from latscope.units import MS

CANNOT = "no server serves without its KV cache: compare two engines, or see the fleet's row"


def rows(
    calls: Sequence[Observed], source: Source, stopped: Sequence[Stopped] = ()
) -> Iterator[Row]:
    """calls: of one model on one endpoint. stopped: those sent to compare loads that were stopped
    before a token: without them a peak would look lower than it is."""
    calm = quiet(calls)
    yield _independent(calm, source)
    yield untestable("cache-leaves-ttft", source, CANNOT)
    yield _grows(calm, source)
    yield _removes(calm, source)
    yield _batching(calls, source)
    yield _queueing(calls, source, stopped)
    yield _sum(calls, source)
    found, verdict, note = steps(calm)
    yield row("e2e-is-ttft-plus-steps", source, "E2E over the sum", found, verdict, note)
    yield _ratio(calm, source)


# -- one call at a time ---------------------------------------------------------------------------


def _independent(calls: Sequence[Observed], source: Source) -> Row:
    points = [
        Point(x=call.output, y=call.server_ns / MS, group=length(call.uncached))
        for call in calls
        if call.output is not None and call.uncached is not None
    ]
    found, note = slope(points), "needs calls with like prompts and answers of several lengths"
    share = None
    if found is not None:
        share = found.times(span(points) / median(point.y for point in points))
        least, most = (round(pick(point.x for point in points)) for pick in (min, max))
        note = (
            f"{least} to {most:,} output tokens behind like prompts move TTFT by"
            f" {between(share, change)}; {len(points)} calls{_met(calls)}"
        )
    verdict = judge.near(share, 0, judge.SAME)
    return row(
        "ttft-independent-of-output", source, "ms TTFT per output token", found, verdict, note
    )


def _grows(calls: Sequence[Observed], source: Source) -> Row:
    points = _step_points(calls)
    found, note = slope(points), "needs calls with contexts of several lengths, and usage"
    verdict = judge.grows_linearly(points)
    if found is not None:
        least, most = (round(pick(point.x for point in points)) for pick in (min, max))
        grown = found.times(span(points) / median(point.y for point in points))
        note = (
            f"from {least:,} to {most:,} tokens a step grows by {between(grown, change)};"
            f" with the cache only{_met(calls)}"
        )
    return row(
        "step-grows-with-context", source, "ms a step per context token", found, verdict, note
    )


def _removes(calls: Sequence[Observed], source: Source) -> Row:
    """Without its cache a server would pay for each token of context what prefill pays for it."""
    prefill, read = _prefill_points(calls), _step_points(calls)
    found = quotient(prefill, read)
    verdict = judge.above(found, judge.RECOMPUTES)
    note = "a server that computed its history again would show 1"
    if found is None:
        least = at_least(prefill, read)
        note = "needs prompts of several lengths, and usage"
        if least is not None:
            note = "what a token of context adds to a step is not told apart from nothing"
            if least > judge.RECOMPUTES:
                note += (
                    f"; recomputation is ruled out: it would show 1, not {digits(least)} or more"
                )
    unit = "prefill a token over decode a context token"
    return row("cache-removes-recomputation", source, unit, found, verdict, note)


def _ratio(calls: Sequence[Observed], source: Source) -> Row:
    prefill, read = _prefill_points(calls), _step_points(calls)
    found, above, below = quotient(prefill, read), slope(prefill), slope(read)
    verdict = judge.above(found, 1)
    note = "needs prompts of several lengths, and usage"
    if above is not None and below is not None:
        told = "as the server states it" if _states_prefill(calls) else "from TTFT"
        note = (
            f"prefill {time(above.value)} a token ({told}), decode {between(below, time)} a"
            f" context token; the teaching constant is {TEACHING_RATIO}"
        )
        if found is None:
            note += "; a slope's 95 % interval spans zero"
    unit = "prefill a token over decode a context token"
    return row("recompute-to-read-ratio", source, unit, found, verdict, note)


def _step_points(calls: Sequence[Observed]) -> list[Point]:
    """The mean step against the context half-way through the answer."""
    return [
        Point(x=call.input + call.output / 2, y=call.tpot_ns / MS)
        for call in calls
        if call.input is not None and call.output is not None and call.tpot_ns is not None
    ]


def _prefill_points(calls: Sequence[Observed]) -> list[Point]:
    stated = _states_prefill(calls)
    return [
        Point(x=call.uncached, y=((call.prefill_ns or 0) if stated else call.server_ns) / MS)
        for call in calls
        if call.uncached is not None
    ]


def _states_prefill(calls: Sequence[Observed]) -> bool:
    return all(call.prefill_ns is not None for call in calls)


# -- several calls at a time ----------------------------------------------------------------------


def _batching(calls: Sequence[Observed], source: Source) -> Row:
    """Latency a token of the answer, so that answers of several lengths can be compared."""
    seen = [
        (at_once(call.load), call.wall_ns / call.output / MS)
        for call in crowded(calls)
        if call.load and call.output
    ]
    found, verdict, note = judge.batching(seen)
    return row("batching-raises-throughput", source, judge.ELASTICITY, found, verdict, note)


def _queueing(calls: Sequence[Observed], source: Source, stopped: Sequence[Stopped]) -> Row:
    unit = "ms TTFT per call in flight"
    claim: ClaimId = "queueing-dominates-ttft-at-peak"
    crowd = [call for call in crowded(calls) if call.load]
    alone = [call for call in crowd if call.load == 1]
    most = max((at_once(call.load or 1) for call in crowd), default=1)
    busy = [call for call in crowd if most > 1 and at_once(call.load or 1) == most]
    found = _grown([*_waits(crowd), *_waits(stopped)])
    excess, moved = _excess(alone, busy, stopped), _risen(alone, busy)
    if found is None or excess is None or moved is None:
        return row(claim, source, unit, None, judge.OPEN, "needs calls alone and calls at a peak")
    share = _queue_share(alone, busy)
    told = "its queue is not told apart from its prefill here"
    if share is not None:
        told = f"{percent(share.value)} of the excess is queue, as the server states it"
    note = (
        f"at {most} at once TTFT {change(excess.value)} ({told}), ITL p50 {between(moved, change)}"
    )
    if stopped:
        note += f"; {len(stopped)} more stopped before a token, counted as at least their wait"
    if judge.above(excess, judge.PEAK) != "holds":
        note += f"; no peak: TTFT is not surely up by {percent(judge.PEAK)}"
    elif judge.near(moved, 0, judge.ITL_MOVES) == "fails":
        note += "; the step moved too: calls share it, by batch or by chunked prefill"
    return row(claim, source, unit, found, judge.peak(excess, moved, share), note)


_Wait: TypeAlias = tuple[float, Sample]
"""Calls in flight, and the time to the first token since the request's last byte."""


def _waits(calls: Iterable[Observed | Stopped]) -> list[_Wait]:
    return [
        (call.load or 1, Sample(ns=call.server_ns, censored=isinstance(call, Stopped)))
        for call in calls
    ]


def _grown(waits: Sequence[_Wait]) -> Estimate | None:
    """ms of TTFT for one more call in flight. Calls that were stopped may leave no upper end."""
    if not any(sample.censored for _, sample in waits):
        return slope([Point(x=x, y=sample.ns / MS) for x, sample in waits])
    found = trend([x for x, _ in waits], [sample for _, sample in waits])
    if found is None or found.low is None:
        return None
    high = inf if found.high is None else found.high / MS
    return Estimate(value=found.value / MS, low=found.low / MS, high=high)


def _excess(
    alone: Sequence[Observed], busy: Sequence[Observed], stopped: Sequence[Stopped]
) -> Estimate | None:
    """How much TTFT of the busy calls is up, as a share of its median alone."""
    if not alone or not busy:
        return None
    peak = at_once(busy[0].load or 1)
    before = [*_waits(alone), *_waits(call for call in stopped if call.load == 1)]
    after = [*_waits(busy), *_waits(call for call in stopped if at_once(call.load) == peak)]
    found = _grown([(0, sample) for _, sample in before] + [(1, sample) for _, sample in after])
    usual = _usual([sample for _, sample in before])
    return found.times(MS / usual) if found and usual else None


def _usual(waits: Sequence[Sample]) -> float | None:
    """The median; null where too many were stopped for one."""
    if not any(sample.censored for sample in waits):
        return median(sample.ns for sample in waits)
    return quantile(waits, 0.5).ns


def _risen(alone: Sequence[Observed], busy: Sequence[Observed]) -> Estimate | None:
    """How much the step of the busy calls is up, as a share of its median alone."""
    before, after = ([v for v in map(_step_of, group) if v is not None] for group in (alone, busy))
    found = shift(before, after) if before and after else None
    return found and found.times(1 / median(before))


def _step_of(call: Observed) -> float | None:
    return call.step_ns if call.step_ns is not None else call.tpot_ns


def _queue_share(alone: Sequence[Observed], busy: Sequence[Observed]) -> Estimate | None:
    """Of the excess of TTFT; null when the server does not state its queue."""
    queued = [
        [call.queue_ns for call in group if call.queue_ns is not None] for group in (alone, busy)
    ]
    if any(len(known) < len(group) for known, group in zip(queued, (alone, busy), strict=True)):
        return None
    queue = shift(*queued)
    ttft = shift([call.server_ns for call in alone], [call.server_ns for call in busy])
    if queue is None or ttft is None or ttft.low <= 0:
        return None
    low, high = sorted((queue.low / ttft.high, queue.high / ttft.low))
    return Estimate(value=queue.value / ttft.value, low=low, high=high)


# -- sums -----------------------------------------------------------------------------------------


def _sum(calls: Sequence[Observed], source: Source) -> Row:
    """What may belong to something else counts against the claim; it fails only where even the most
    that could be queue, prefill or network is not enough."""
    found = ratio([Point(x=call.sure_ns, y=call.first_token_ns) for call in calls])
    least = ratio([Point(x=call.maybe_ns, y=call.first_token_ns) for call in calls])
    verdict = judge.near(found, 1, judge.SAME)
    if verdict == "fails" and judge.near(least, 1, judge.SAME) != "fails":
        verdict = judge.OPEN
    note = "no call streamed a token"
    if calls:
        stated = [
            ((call.queue_ns or 0) + (call.prefill_ns or 0)) / call.first_token_ns for call in calls
        ]
        told = f"{percent(median(stated))} of TTFT by the server's own figures"
        note = (
            f"{len(calls)} calls, in the median {told if any(stated) else 'none of it stated'};"
            " the rest is the client's own, or may be decode"
        )
    return row("ttft-is-queue-prefill-network", source, "TTFT over the sum", found, verdict, note)


def steps(calls: Sequence[Observed]) -> tuple[Estimate | None, Verdict, str]:
    """E2E over TTFT + (n - 1) x the median step, of streams that came one step at a time."""
    paced = [
        (call, call.step_ns)
        for call in calls
        if call.step_ns is not None and call.output is not None and call.output > 1
    ]
    sums = [call.first_token_ns + ((call.output or 1) - 1) * step for call, step in paced]
    found = ratio(
        [Point(x=whole, y=call.wall_ns) for whole, (call, _) in zip(sums, paced, strict=True)]
    )
    gaps = ratio(
        [
            Point(x=step, y=call.wall_ns - whole)
            for whole, (call, step) in zip(sums, paced, strict=True)
        ]
    )
    if found is None or gaps is None:
        return None, judge.OPEN, "needs streams that came one token at a time, and usage"
    within = judge.near(gaps, 0, 1) == "holds"
    verdict = "holds" if within else judge.near(found, 1, judge.SAME)
    said = "within one step" if within else f"{digits(gaps.value)} steps off in the median"
    return found, verdict, f"{said}; {len(paced)} of {len(calls)} calls came one token at a time"


# -- words and groups -----------------------------------------------------------------------------


def _met(calls: Sequence[Observed]) -> str:
    met = sum(1 for call in calls if call.load != 1)
    return f"; {met} of {len(calls)} calls met others" if met else ""
