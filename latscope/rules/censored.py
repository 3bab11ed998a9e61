"""Quantiles and trends of times some of which are known only to be longer than what was seen.

A call its caller left after one second without a token would have taken longer than a second.
Dropping it makes a slow server look fast; counting it as one second does too. It is
*right-censored*: it takes part up to its end, and from there on those that went on stand for it.

- Kaplan and Meier 1958: the share of calls still waiting after each time at which one ended; with
  weights, each call counts as so many. Where a call ends at the very time another is stopped, the
  stopped one was still waiting.
- The variance of that share is Greenwood's (1926). It tells of how many calls without censoring the
  same would be known; a quantile's interval is those calls' order statistics, by the binomial. With
  unequal weights Kish's (1965) effective number stands for their number.
- Akritas, Murphy and LaValley 1995: the Theil-Sen slope of censored values, at which as many pairs
  rise as fall, of the pairs whose order is known. The variance of that count, under chance alone,
  is Daniels' (1944).

What this rests on: a call that was stopped would have gone on like those still waiting then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, combinations, groupby
from math import exp, lgamma, log, sqrt
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

from latscope.rules.stats import LEVEL, Estimate
from latscope.units import Ns

CLOSE = 1e-9
"""Shares that differ by less are the same: sums of weights such as 1 / 0.3 are not exact."""
EXACT = 2_000
"""Up to so many values the binomial is summed term by term; of more it is a normal in all but the
last digits."""
MOST_POINTS = 200
"""More points of a trend are thinned evenly: pairs grow as the square."""

FEWEST = 5
"""Of fewer known values no interval of a trend is given: the count of pairs is no normal yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One call's time. censored: it was stopped then, and would have taken longer. weight: how many
    calls it stands for, above zero (1 / the sampling rate)."""

    ns: Ns
    censored: bool = False
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A quantile with its interval.

    ns: the estimate; null when too many of the largest values are censored for one (or there is no
    value at all). at_least_ns: then, what it surely is more than: what the estimate had reached, or
    the same quantile of the times seen, which holds however much longer the stopped calls would
    have taken. low_ns, high_ns: the 90 % interval; a null end is not known, and a null high one may
    be anything. n: values, censored ones included; censored: how many were; weight: how many calls
    they stand for.
    """

    ns: Ns | None
    at_least_ns: Ns | None
    n: int
    censored: int
    weight: float
    low_ns: Ns | None = None
    high_ns: Ns | None = None


def quantile(samples: Iterable[Sample], q: float, *, level: float = LEVEL) -> Quantile:
    """The time within which a share `q` of the calls (0 to 1) is done: the smallest at which so
    many were, so a value that occurred."""
    return quantiles(samples, (q,), level=level)[0]


def quantiles(
    samples: Iterable[Sample], shares: Sequence[float], *, level: float = LEVEL
) -> tuple[Quantile, ...]:
    """As `quantile`, of several shares at once."""
    seen = _seen(samples)
    return tuple(_quantile(seen, q, level) for q in shares)


def survival(samples: Iterable[Sample]) -> list[tuple[Ns, float]]:
    """The share of calls still waiting after each time at which one ended, both in order."""
    return [(step.ns, step.left) for step in _survival(sorted(samples, key=_time))]


def _time(sample: Sample) -> Ns:
    return sample.ns


class _Step(NamedTuple):
    """After `ns` a share `left` still waits; spread: Greenwood's sum up to here, of weights."""

    ns: Ns
    left: float
    spread: float


def _survival(rows: Sequence[Sample]) -> list[_Step]:
    """rows: in order of their times. Between two censored values the product telescopes, so that
    without any the share is the plain one, to the last digit."""
    waiting = [*accumulate(reversed([row.weight for row in rows]))][::-1]
    steps: list[_Step] = []
    left, since, spread, at = 1.0, waiting[0] if rows else 0.0, 0.0, 0
    scale = 1.0
    for ns, same in groupby(rows, key=_time):
        ended, stopped, size = 0.0, 0.0, 0
        for row in same:
            size += 1
            if row.censored:
                stopped += row.weight
            else:
                ended += row.weight
        after = waiting[at + size] if at + size < len(rows) else 0.0
        still = stopped + after
        if ended:
            spread += ended / (waiting[at] * still) if still else 0.0
            left = scale * still / since
            steps.append(_Step(ns, left, spread))
        if stopped:
            scale, since = left, after
        at += size
    return steps


class _Seen(NamedTuple):
    """The values in order, their curve, the sum of their weights, and Kish's effective number."""

    rows: Sequence[Sample]
    steps: Sequence[_Step]
    weight: float
    effective: float


def _seen(samples: Iterable[Sample]) -> _Seen:
    rows = sorted(samples, key=_time)
    weights = [row.weight for row in rows]
    total = sum(weights)
    squares = sum(weight * weight for weight in weights)
    return _Seen(rows, _survival(rows), total, total * total / squares if rows else 0.0)


def _quantile(seen: _Seen, q: float, level: float) -> Quantile:
    found = _reached(seen.steps, q)
    low, high = _interval(seen, q, level)
    return Quantile(
        ns=found,
        at_least_ns=_at_least(seen, q) if found is None and seen.rows else None,
        n=len(seen.rows),
        censored=sum(row.censored for row in seen.rows),
        weight=seen.weight,
        low_ns=low,
        high_ns=high,
    )


def _reached(steps: Sequence[_Step], q: float) -> Ns | None:
    """Where the share that is done first comes to q."""
    at = bisect_left(steps, q - CLOSE, key=lambda step: 1 - step.left)
    return steps[at].ns if at < len(steps) else None


def _at_least(seen: _Seen, q: float) -> Ns:
    """Of a quantile that was not reached. The same quantile of the times seen is a limit whatever
    the stopped calls would have taken; the end of the one most patient call would not be."""
    done = [*accumulate(row.weight for row in seen.rows)]
    at = bisect_left(done, (q - CLOSE) * seen.weight)
    ended = seen.steps[-1].ns if seen.steps else 0
    return max(seen.rows[min(at, len(done) - 1)].ns, ended)


# -- the interval ---------------------------------------------------------------------------------


def _interval(seen: _Seen, q: float, level: float) -> tuple[Ns | None, Ns | None]:
    """Order statistics of as many calls as the estimate is worth, found on the same curve."""
    if not seen.steps or not 0 < q < 1:
        return None, None
    n = _worth(seen, q)
    below, above = ranks(n, q, (1 - level) / 2)
    low = None if below is None else _reached(seen.steps, min(q, below / n))
    high = None if above is None else _reached(seen.steps, max(q, above / n))
    return low, high


def _worth(seen: _Seen, q: float) -> int:
    """How many calls without censoring would tell the share still waiting as well, near q."""
    at = bisect_left(seen.steps, q - CLOSE, key=lambda step: 1 - step.left)
    near = next((step for step in reversed(seen.steps[: at + 1]) if step.left), None)
    if near is None:
        return int(seen.effective + CLOSE)
    variance = near.spread * seen.weight / seen.effective  # of the share, over its square
    return int(min(seen.effective, (1 - near.left) / (near.left * variance)) + CLOSE)


@cache
def ranks(n: int, q: float, tail: float) -> tuple[int | None, int | None]:
    """Of n values in order, those between which the quantile lies, but for `tail` at either side;
    null where even the outermost is not far enough out. From 1."""
    below, above = _binomial(n, q, tail), _binomial(n, q, 1 - tail) + 1
    return below or None, above if above <= n else None


def _binomial(n: int, q: float, p: float) -> int:
    """The smallest count whose distribution function is above p."""
    if n > EXACT:
        return round(n * q + NormalDist().inv_cdf(p) * sqrt(n * q * (1 - q)))
    total = 0.0
    for count in range(n):
        ways = lgamma(n + 1) - lgamma(count + 1) - lgamma(n - count + 1)
        total += exp(ways + count * log(q) + (n - count) * log(1 - q))
        if total > p + CLOSE:
            return count
    return n


# -- the trend ------------------------------------------------------------------------------------

_Row: TypeAlias = tuple[float, float, bool]
"""x, y, and whether y is censored."""


def trend(
    xs: Sequence[float], samples: Sequence[Sample], *, level: float = LEVEL
) -> Estimate | None:
    """How much the time grows with each unit of x, in ns; null where no pairs tell it, or pairs of
    one direction only. xs, samples: of equal length, in an order that thinning keeps even (of time,
    say). The interval's ends are null where too few pairs tell. Weights count for nothing here."""
    every = max(1, -(-len(samples) // MOST_POINTS))
    rows = [
        (x, float(sample.ns), sample.censored)
        for x, sample in zip(xs[::every], samples[::every], strict=True)
    ]
    turns = sorted(_turns(rows))
    rising = sum(rises for *_, rises in turns)
    passed = [*accumulate(drop for _, drop, _ in turns)]
    if not rising or rising == passed[-1]:
        return None
    value = _crossing(turns, passed, rising)
    reach = NormalDist().inv_cdf((1 + level) / 2) * sqrt(_variance(rows, value))
    below = bisect_right(passed, rising - reach) - 1
    above = bisect_left(passed, rising + reach) + 1
    if sum(not censored for *_, censored in rows) < FEWEST:
        below, above = -1, len(turns)
    return Estimate(
        value=value,
        low=turns[below][0] if below >= 0 else None,
        high=turns[above][0] if above < len(turns) else None,
        n=len(rows),
    )


_Turn: TypeAlias = tuple[float, int, int]


def _turns(rows: Sequence[_Row]) -> Iterator[_Turn]:
    """Of each pair the slope between its two; how much the count of rising pairs less falling ones
    drops there; and whether the pair is among the rising ones below it. It is if its first value is
    known, since the other is at least what was seen; above it falls if its second value is."""
    for (x, y, censored), (x2, y2, censored2) in combinations(sorted(rows), 2):
        drop = (not censored) + (not censored2)
        if x2 > x and drop:
            yield (y2 - y) / (x2 - x), drop, int(not censored)


def _crossing(turns: Sequence[_Turn], passed: Sequence[int], rising: int) -> float:
    """Where as many pairs rise as fall; half-way where that holds for a stretch of slopes."""
    at = bisect_left(passed, rising)
    if passed[at] == rising:
        return (turns[at][0] + turns[at + 1][0]) / 2
    return turns[at][0]


def _variance(rows: Sequence[_Row], slope: float) -> float:
    """Of the count of rising pairs less falling ones, were residuals dealt to the x by chance."""
    n = len(rows)
    own, pairs = _scores([(x, 0.0, False) for x, _, _ in rows])
    # The slope goes through two of the points: it is no tie that it makes of them.
    own2, pairs2 = _scores([(y - slope * x, x, censored) for x, y, censored in rows])
    alone = pairs * pairs2 / (2 * n * (n - 1))
    return alone + (own - pairs) * (own2 - pairs2) / (n * (n - 1) * max(1, n - 2))


def _scores(values: Sequence[_Row]) -> tuple[int, int]:
    """How many others surely lie above each value less those surely below it, the sum of squares;
    and how many ordered pairs have a known order. Equal values are told apart by the second."""
    scores = [0] * len(values)
    known = 0
    for (i, (*a, censored)), (j, (*b, censored2)) in combinations(enumerate(values), 2):
        sign = (b > a and not censored) - (a > b and not censored2)
        scores[i] += sign
        scores[j] -= sign
        known += 2 * abs(sign)
    return sum(score * score for score in scores), known
