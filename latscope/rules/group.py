"""Statistics of many calls: quantiles, shares, rates and trends that stopped calls do not flatter.

A call *completed*, was *stopped* (cancelled, timed out, cut: it would have gone on), or *failed*
(a refusal, an error). A stopped call's time is a lower limit of what it would have taken; a failed
one says nothing of how long an answer takes and is counted apart.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, TypeAlias

from latscope.attribution.model import SEGMENTS, Attribution, Segment
from latscope.rules.censored import Quantile, Sample, quantiles, trend
from latscope.rules.stats import Estimate
from latscope.units import wall_s

Measure: TypeAlias = Literal["ttft", "e2e"] | Segment
"""What is measured of each call: its time to first token, its whole, or one of its segments."""

MEASURES: tuple[Measure, ...] = ("ttft", "e2e", *SEGMENTS)

Ending: TypeAlias = Literal["complete", "stopped", "failed"]

TIMEOUTS = frozenset(
    {
        "APITimeoutError",
        "ConnectTimeout",
        "PoolTimeout",
        "ReadTimeout",
        "TimeoutError",
        "TimeoutException",
        "WriteTimeout",
    }
)
"""Class names of the libraries' own: the caller's patience ended, not the server's."""


def ending(call: Attribution) -> Ending:
    """How the call ended, for statistics: `cut`, cancelled and timed out ones were stopped."""
    if call.status == "complete":
        return "complete"
    if call.status == "error" and not _timed_out(call):
        return "failed"
    return "stopped"


def _timed_out(call: Attribution) -> bool:
    refused = call.http_status is not None and call.http_status >= 400
    return call.error is not None and not refused and call.error.type.rpartition(".")[2] in TIMEOUTS


def weight(call: Attribution) -> float:
    """How many calls a recorded one stands for: 1 / the rate it was sampled at."""
    return 1 / call.sample.rate if call.sample.rate > 0 else 1.0


def samples(calls: Iterable[Attribution], of: Measure, *, most: bool = False) -> list[Sample]:
    """The measure of each call that has one: none of a failed call, no TTFT of one that came whole.

    A stopped call's TTFT is exact if its first token had come; else it, like E2E, is censored at
    the stop, and a segment at the least that is sure. Of complete calls it is the estimate.
    most: of segments the hard maximum instead.
    """
    calls = list(calls)
    streams = _streams(calls)
    found = (_sample(call, of, streams, most) for call in calls)
    return [sample for sample in found if sample is not None]


def _streams(calls: Sequence[Attribution]) -> bool:
    """Whether calls that got no answer would have streamed it: unless those that did came whole."""
    answered = [call.streamed for call in calls if ending(call) == "complete"]
    return any(answered) or not answered


def _sample(call: Attribution, of: Measure, streams: bool, most: bool = False) -> Sample | None:
    how = ending(call)
    if how == "failed":
        return None
    stopped, stands_for = how == "stopped", weight(call)
    if of == "e2e":
        return Sample(ns=call.wall_ns, censored=stopped, weight=stands_for)
    if of != "ttft":
        found = call.segment(of)
        ns = found.bounds_ns[1] if most else found.bounds_ns[0] if stopped else found.ns
        return Sample(ns=ns, censored=stopped, weight=stands_for)
    if call.first_token_ns is not None:
        return Sample(ns=call.first_token_ns, weight=stands_for)
    if stopped and (call.streamed or (call.headers_ns is None and streams)):
        return Sample(ns=call.wall_ns, censored=True, weight=stands_for)
    return None


# -- a group --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Calls as recorded, and the estimated totals they stand for where some were sampled."""

    calls: int
    stopped: int
    failed: int
    total: float
    total_stopped: float
    total_failed: float

    @property
    def sampled(self) -> bool:
        """Whether a total is more than what was recorded."""
        return self.total != self.calls


def counts(calls: Iterable[Attribution]) -> Counts:
    """How many calls there are, and how they ended."""
    number = {"complete": 0, "stopped": 0, "failed": 0}
    total = {"complete": 0.0, "stopped": 0.0, "failed": 0.0}
    for call in calls:
        how = ending(call)
        number[how] += 1
        total[how] += weight(call)
    return Counts(
        calls=sum(number.values()),
        stopped=number["stopped"],
        failed=number["failed"],
        total=sum(total.values()),
        total_stopped=total["stopped"],
        total_failed=total["failed"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """One measure over a group of calls, each counted as many times as it stands for.

    n: calls that have the measure, stopped ones included; censored: of these, how many are lower
    limits only; errors: failed calls, counted apart and in no figure but rate. p50, p95: in ns,
    with 90 % intervals; of a segment they are those of its estimates, and p50_most, p95_most those
    of its hard maxima: where nothing splits the calls, the estimate may be nothing and the maximum
    all. share: of the time all calls spent until they ended, at least and at most this measure's
    (0 to 1); null without any. rate: calls begun a second, errors included, from the first to the
    last; null where they began together. slope: ns the measure grows a second, over the times the
    calls began.
    """

    of: Measure
    n: int
    censored: int
    errors: int
    p50: Quantile
    p95: Quantile
    p50_most: Quantile
    p95_most: Quantile
    share: tuple[float, float] | None
    rate: float | None
    slope: Estimate | None


def statistics(calls: Sequence[Attribution], of: Measure) -> Statistics:
    """What the calls of a group show of one measure."""
    found = samples(calls, of)
    p50, p95 = quantiles(found, (0.5, 0.95))
    p50_most, p95_most = quantiles(samples(calls, of, most=True), (0.5, 0.95))
    return Statistics(
        of=of,
        n=len(found),
        censored=p50.censored,
        errors=counts(calls).failed,
        p50=p50,
        p95=p95,
        p50_most=p50_most,
        p95_most=p95_most,
        share=share(calls, of),
        rate=rate(calls),
        slope=slope(calls, of),
    )


def share(calls: Iterable[Attribution], of: Measure) -> tuple[float, float] | None:
    """The least and the most of the calls' time, up to where each ended, that was this measure's.
    What was spent is spent: here a stopped call is no limit. Failed calls are left out."""
    least = most = whole = 0.0
    for call in calls:
        if ending(call) != "failed":
            low, high = _spent(call, of)
            least += weight(call) * low
            most += weight(call) * high
            whole += weight(call) * call.wall_ns
    return (least / whole, most / whole) if whole else None


def _spent(call: Attribution, of: Measure) -> tuple[int, int]:
    if of == "e2e":
        return call.wall_ns, call.wall_ns
    if of == "ttft":
        waited = call.wall_ns if call.first_token_ns is None else call.first_token_ns
        return waited, waited
    return call.segment(of).bounds_ns


def rate(calls: Iterable[Attribution]) -> float | None:
    """Calls begun a second, as many as they stand for; null where they began together."""
    begun = [(wall_s(call.started_at), weight(call)) for call in calls]
    if not begun:
        return None
    first, last = min(begun)[0], max(begun)[0]
    # The last one only ends the span: of n calls there are n - 1 gaps.
    total = sum(stands_for for _, stands_for in begun) * (len(begun) - 1) / len(begun)
    return total / (last - first) if last > first else None


def slope(
    calls: Iterable[Attribution],
    of: Measure,
    along: Callable[[Attribution], float | None] | None = None,
) -> Estimate | None:
    """How much the measure grows with each unit of `along` (default: each second), in ns; null
    where it cannot be told. A call for which `along` is null is left out."""
    calls = list(calls)
    streams = _streams(calls)
    known = []
    for at, call in sorted(((_begun(call), call) for call in calls), key=itemgetter(0)):
        x, sample = at if along is None else along(call), _sample(call, of, streams)
        if x is not None and sample is not None:
            known.append((x, sample))
    return trend([x for x, _ in known], [sample for _, sample in known])


def _begun(call: Attribution) -> float:
    return wall_s(call.started_at)
