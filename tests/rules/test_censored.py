"""Quantiles of censored times against tables worked by hand, and what must hold of any."""

import random
from math import isclose, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latscope.rules.censored import Sample, quantile, quantiles, survival, trend
from latscope.rules.censored import _variance as variance
from latscope.rules.stats import theil_sen
from latscope.units import MS, S


def times(text: str, unit: int = 1) -> list[Sample]:
    """`6 7 9+`: the plus marks a censored one, as the textbooks do."""
    return [
        Sample(ns=int(word.rstrip("+")) * unit, censored=word.endswith("+"))
        for word in text.split()
    ]


REMISSION = times("6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+")
"""Weeks in remission under 6-MP, 21 patients (Freireich and others 1963): a textbook example."""


def test_the_textbook_table_by_hand() -> None:
    """At each time some end: (still waiting - ended) / still waiting, multiplied up."""
    by_hand, left = {}, 1.0
    for week, waiting, ended in (
        (6, 21, 3),
        (7, 17, 1),
        (10, 15, 1),
        (13, 12, 1),
        (16, 11, 1),
        (22, 7, 1),
        (23, 6, 1),
    ):
        left *= (waiting - ended) / waiting
        by_hand[week] = left
    assert dict(survival(REMISSION)) == pytest.approx(by_hand)
    rounded = [round(share, 4) for _, share in survival(REMISSION)]
    assert rounded == [0.8571, 0.8067, 0.7529, 0.6902, 0.6275, 0.5378, 0.4482]


def test_a_quantile_is_where_the_table_passes_it() -> None:
    """0.5378 still in remission after 22 weeks, 0.4482 after 23: the median is 23. A tenth is out
    by week 6; a quarter by week 13 (0.7529 after 10 is more than three quarters)."""
    tenth, quarter, half = quantiles(REMISSION, (0.1, 0.25, 0.5))
    assert (tenth.ns, quarter.ns, half.ns) == (6, 13, 23)
    assert half.at_least_ns is None
    assert (half.n, half.censored, half.weight) == (21, 12, 21)


def test_beyond_the_table_there_is_a_lower_limit_only() -> None:
    """Three quarters never were out: more than 23 weeks, whatever the 12 others did later."""
    found = quantile(REMISSION, 0.75)
    assert (found.ns, found.at_least_ns, found.high_ns) == (None, 23, None)


def test_a_call_stopped_when_another_ended_was_still_waiting() -> None:
    """At 5 two of four wait on: 1/4 ended, not 1/3."""
    assert survival(times("5+ 5 8 9")) == [(5, 0.75), (8, 0.375), (9, 0.0)]


def test_the_limit_rests_on_many_and_not_on_the_most_patient() -> None:
    """80 done at once, 19 left after 1 s, one waited for 60 s in vain. That the 95th of a hundred
    takes over 1 s is sure whatever the stopped ones would have taken; 60 s is one caller's."""
    calls = [Sample(ns=200 * MS)] * 80 + [Sample(ns=S, censored=True)] * 19
    assert quantile([*calls, Sample(ns=60 * S, censored=True)], 0.95).at_least_ns == S


def test_stopped_calls_do_not_make_a_tail_shorter() -> None:
    """A hundred calls of which 20 were cancelled at 1 s before a token: p95 is over 1 s, and known
    to be no less than without them, be the 80 quick or some of them slow."""
    cancelled = [Sample(ns=S, censored=True)] * 20
    for slowest in (900 * MS, 2500 * MS):
        done = [Sample(ns=100 * MS + (slowest - 100 * MS) * at // 79) for at in range(80)]
        alone, together = quantile(done, 0.95), quantile([*done, *cancelled], 0.95)
        assert alone.ns is not None
        assert (together.n, together.censored) == (100, 20)
        if slowest < S:
            assert together.ns is None
            assert together.at_least_ns == S > alone.ns
        else:
            assert together.ns is not None
            assert together.ns >= alone.ns


def test_of_nothing_there_is_no_quantile() -> None:
    """Unknown, not 0; of stopped calls only, the time they waited is a limit."""
    none = quantile([], 0.5)
    assert (none.ns, none.at_least_ns, none.n, none.low_ns) == (None, None, 0, None)
    stopped = quantile(times("3+ 5+ 9+"), 0.5)
    assert (stopped.ns, stopped.at_least_ns, stopped.low_ns) == (None, 5, None)


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.75, 3), (0.95, 4), (1.0, 4)]
)
def test_quantiles_are_values_that_occurred(q: float, value: int) -> None:
    """Nearest rank: no invented value between two calls."""
    assert quantile(times("4 1 3 2"), q).ns == value


# -- of any values --------------------------------------------------------------------------------

SAMPLES = st.lists(
    st.builds(Sample, ns=st.integers(0, 30), censored=st.booleans()), min_size=1, max_size=40
)
SHARES = st.sampled_from((0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1), SHARES)
def test_without_censoring_it_is_the_ordinary_quantile(values: list[int], q: float) -> None:
    """The smallest value with a share q of all at or below it."""
    n = len(values)
    enough = (v for v in sorted(values) if sum(w <= v for w in values) >= q * n - 1e-9)
    assert quantile([Sample(ns=v) for v in values], q).ns == next(enough)


@settings(max_examples=60, deadline=None)
@given(SAMPLES, SHARES, st.data())
def test_censoring_a_value_never_lowers_a_quantile(
    samples: list[Sample], q: float, data: st.DataObject
) -> None:
    """No estimate is above any; the lower limit is never above the estimate it stands in for."""
    at = data.draw(st.integers(0, len(samples) - 1))
    known = [*samples[:at], Sample(ns=samples[at].ns), *samples[at + 1 :]]
    stopped = [*samples[:at], Sample(ns=samples[at].ns, censored=True), *samples[at + 1 :]]
    before, after = quantile(known, q), quantile(stopped, q)
    if after.ns is not None:
        assert before.ns is not None
        assert after.ns >= before.ns
    plain = quantile([Sample(ns=sample.ns) for sample in stopped], q).ns
    assert plain is not None
    assert (after.ns if after.ns is not None else after.at_least_ns or 0) >= plain


@settings(max_examples=60, deadline=None)
@given(SAMPLES, SHARES, st.integers(2, 4), st.data())
def test_a_weight_of_k_is_k_copies(
    samples: list[Sample], q: float, k: int, data: st.DataObject
) -> None:
    """In the estimate and its limit; a sampled call knows no more than one, so n stays."""
    at = data.draw(st.integers(0, len(samples) - 1))
    one = samples[at]
    heavy = Sample(ns=one.ns, censored=one.censored, weight=k)
    weighed = quantile([*samples[:at], heavy, *samples[at + 1 :]], q)
    copied = quantile([*samples, *[one] * (k - 1)], q)
    assert (weighed.ns, weighed.at_least_ns) == (copied.ns, copied.at_least_ns)
    assert (weighed.n, weighed.weight) == (len(samples), copied.n)


@settings(max_examples=60, deadline=None)
@given(SAMPLES, SHARES)
def test_equal_weights_change_nothing_but_the_total(samples: list[Sample], q: float) -> None:
    """Every third call kept: the same quantile and interval, three times the calls."""
    third = [Sample(ns=s.ns, censored=s.censored, weight=1 / 0.3) for s in samples]
    plain, sampled = quantile(samples, q), quantile(third, q)
    assert (plain.ns, plain.low_ns, plain.high_ns) == (sampled.ns, sampled.low_ns, sampled.high_ns)
    assert isclose(sampled.weight, len(samples) / 0.3)


@settings(max_examples=60, deadline=None)
@given(SAMPLES, SHARES)
def test_the_interval_holds_the_estimate(samples: list[Sample], q: float) -> None:
    """On the side each end stands."""
    found = quantile(samples, q)
    if found.ns is not None:
        assert found.low_ns is None or found.low_ns <= found.ns
        assert found.high_ns is None or found.high_ns >= found.ns


# -- the interval ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "q", "ends"),
    [
        (4, 0.5, (None, None)),  # 2 x 0.5^4 = 12.5 % lie outside the whole range
        (5, 0.5, (1, 5)),  # 2 x 0.5^5 = 6.25 %
        (20, 0.5, (6, 15)),
        (58, 0.95, (52, None)),  # 0.95^58 = 5.1 % that p95 is above all
        (59, 0.95, (53, 59)),  # 0.95^59 = 4.8 %
        (100, 0.95, (91, 99)),
        (4000, 0.5, (1948, 2053)),  # 2000 -+ 1.645 x sqrt(1000)
    ],
)
def test_without_censoring_the_interval_is_the_order_statistics(
    n: int, q: float, ends: tuple[int | None, int | None]
) -> None:
    """As the binomial table has it; an end that no value is far enough out for is null."""
    found = quantile([Sample(ns=at + 1) for at in range(n)], q)
    assert (found.low_ns, found.high_ns) == ends


def test_a_call_stopped_before_any_other_ended_tells_nothing() -> None:
    """Fifty stopped at once beside fifty that ended: the interval is that of fifty."""
    rows = [Sample(ns=at) for at in range(1, 51)]
    gone = [Sample(ns=0, censored=True)] * 50
    plain, beside = quantile(rows, 0.5), quantile([*rows, *gone], 0.5)
    assert (beside.ns, beside.low_ns, beside.high_ns) == (plain.ns, plain.low_ns, plain.high_ns)
    assert (beside.n, beside.censored) == (100, 50)


def test_unequal_weights_make_the_interval_wider() -> None:
    """One call that stands for hundreds tells of them no more than one."""
    rows = [Sample(ns=at) for at in range(1, 101)]
    uneven = [Sample(ns=at, weight=50 if at % 10 == 0 else 1) for at in range(1, 101)]
    plain, wide = quantile(rows, 0.5), quantile(uneven, 0.5)
    assert (plain.low_ns, plain.high_ns) == (42, 59)
    assert wide.low_ns is not None
    assert wide.high_ns is not None
    assert wide.high_ns - wide.low_ns > 30


@pytest.mark.parametrize("q", [0.5, 0.9])
def test_the_interval_covers_what_it_promises(q: float) -> None:
    """Nine in ten at least, with two in five calls censored: of 200 draws 20 may miss; 33 is three
    standard deviations. Seeded, so the count is the same each time."""
    truth = -S * log(1 - q)
    hits = 0
    for seed in range(200):
        drawing = random.Random(seed)
        rows = []
        for _ in range(80):
            ended, left = drawing.expovariate(1), drawing.expovariate(2 / 3)
            rows.append(Sample(ns=round(S * min(ended, left)), censored=left < ended))
        found = quantile(rows, q)
        hits += (found.low_ns or 0) <= truth and (found.high_ns is None or found.high_ns >= truth)
    assert hits >= 167


# -- the trend ------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=3, max_size=20))
def test_without_censoring_the_trend_is_theil_and_sens(points: list[tuple[int, int]]) -> None:
    """The same median of slopes."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    found = trend(xs, [Sample(ns=y) for y in ys])
    known = theil_sen(xs, ys)
    assert (found is None) == (known is None)
    if found is not None and known is not None:
        assert found.value == pytest.approx(known.value)


def test_its_variance_without_ties_is_kendalls() -> None:
    """n (n - 1) (2 n + 5) / 18, whatever the values."""
    rows = [(float(at), float(at * at % 11), False) for at in range(11)]
    rows = [row for index, row in enumerate(rows) if row[1] not in [r[1] for r in rows[:index]]]
    n = len(rows)
    assert variance(rows, 0.0) == pytest.approx(n * (n - 1) * (2 * n + 5) / 18)
    assert variance([(0.0, 1.0, False), (1.0, 5.0, False)], 0.0) == 1


def test_a_trend_by_hand() -> None:
    """(0, 1), (1, 2), (2, 2 or more): slopes of 1, at least 0.5 and at least 0. Below 0 three pairs
    rise; from 0.5 on one still does, and above 1 it falls: as many rise as fall at 1."""
    found = trend([0, 1, 2], times("1 2 2+"))
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (1, None, None, 3)


def test_stopped_calls_do_not_flatten_a_trend() -> None:
    """TTFT grows by 20 ms a second; callers leave after 1.2 s. Without the stopped ones, and with
    them counted as done, the growth is understated; counted as limits they give it back."""
    drawing = random.Random(7)
    xs = [at / 2 for at in range(150)]
    true = [round(200 * MS + 20 * MS * x + drawing.gauss(0, 150 * MS)) for x in xs]
    rows = [Sample(ns=min(ns, 1200 * MS), censored=ns > 1200 * MS) for ns in true]
    found = trend(xs, rows)
    ended = [(x, row.ns) for x, row in zip(xs, rows, strict=True) if not row.censored]
    dropped = theil_sen([x for x, _ in ended], [ns for _, ns in ended])
    taken = theil_sen(xs, [row.ns for row in rows])
    assert found is not None
    assert dropped is not None
    assert taken is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 20 * MS <= found.high
    assert max(dropped.value, taken.value) < found.low


@pytest.mark.parametrize("text", ["", "5", "5+ 6+ 7+", "5+ 6 7", "5 6+"])
def test_pairs_of_one_direction_give_no_trend(text: str) -> None:
    """No pair; nothing known; or a first value only ever at least so much: how steep is open."""
    rows = times(text)
    found = trend(list(range(len(rows))), rows)
    assert (found is None) == (text != "5+ 6 7")


def test_many_points_are_thinned() -> None:
    """Evenly, so that a trend stays one."""
    found = trend(list(range(1000)), [Sample(ns=3 * at) for at in range(1000)])
    assert found is not None
    assert (found.value, found.n) == (3, 200)
