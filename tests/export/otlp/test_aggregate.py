"""Points of calls become series: sums with a stated zero, nothing lost to any window."""

from bisect import bisect_left
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from latscope.export.otel.rows import Instrument, MetricPoint
from latscope.export.otlp.aggregate import STEP_NS, Aggregate, Point
from latscope.units import S

TIME = Instrument(name="t", unit="s", description="", buckets=(1.0, 2.0))
COUNT = Instrument(name="n", unit="{token}", description="")
ZERO = 1_800_000_000 * S
STEP = STEP_NS


def point(value: float, instrument: Instrument = TIME, **attributes: str) -> MetricPoint:
    return MetricPoint(instrument=instrument, values=(value,), attributes=attributes)


def series(found: Aggregate, *, delta: bool = False) -> list[Point]:
    ((_, points),) = found.series(delta=delta)
    return points


def test_a_series_starts_with_a_zero_before_its_first_call() -> None:
    found = Aggregate()
    found.add([point(1.5)], end_unix_ns=ZERO + 7 * S)
    zero, one = series(found)
    assert (zero.count, zero.sum, zero.buckets) == (0, 0.0, (0, 0, 0))
    assert (one.count, one.sum, one.buckets) == (1, 1.5, (0, 1, 0))
    assert zero.start_unix_ns == one.start_unix_ns < zero.unix_ns == ZERO
    assert one.unix_ns == ZERO + 7 * S  # never later than what it states


def test_a_value_on_a_bound_belongs_below_it() -> None:
    found = Aggregate()
    found.add([point(1.0), point(2.0), point(2.1)], end_unix_ns=ZERO + 1)
    assert series(found)[-1].buckets == (1, 1, 1)


def test_the_state_before_a_late_growth_is_repeated() -> None:
    """A rate over the last minutes sees the growth, however long nothing was called before."""
    found = Aggregate()
    found.add([point(1.0)], end_unix_ns=ZERO + 1)
    found.add([point(1.0)], end_unix_ns=ZERO + 100 * STEP + 1)
    assert [(p.unix_ns - ZERO, p.count) for p in series(found)] == [
        (0, 0),
        (1, 1),
        (100 * STEP, 1),
        (100 * STEP + 1, 2),
    ]


def test_deltas_count_from_the_minute_before() -> None:
    found = Aggregate()
    for minute in (0, 0, 3):
        found.add([point(1.0)], end_unix_ns=ZERO + minute * STEP + 1)
    points = series(found, delta=True)
    assert [point.count for point in points] == [2, 1]
    assert [point.start_unix_ns - ZERO for point in points] == [0, 3 * STEP]


def test_attributes_in_another_order_are_the_same_series() -> None:
    found = Aggregate()
    found.add([point(1.0, a="1", b="2"), point(1.0, b="2", a="1")], end_unix_ns=ZERO)
    assert series(found)[-1].count == 2


def test_the_slowest_call_of_a_minute_is_the_exemplar() -> None:
    found = Aggregate()
    for number, value in enumerate((1.0, 3.0, 2.0)):
        found.add([point(value)], end_unix_ns=ZERO + number + 1, trace=("t" * 32, str(number)))
    exemplar = series(found)[-1].exemplar
    assert exemplar is not None
    assert (exemplar.value, exemplar.span_id, exemplar.unix_ns) == (3.0, "1", ZERO + 2)


calls = st.lists(st.tuples(st.integers(0, 40 * 60), st.floats(0, 10)), min_size=1, max_size=40)


@given(calls)
def test_sums_only_grow_in_time_and_end_at_the_total(given: list[tuple[int, float]]) -> None:
    found = Aggregate()
    for second, value in given:
        found.add([point(value), point(2, COUNT)], end_unix_ns=ZERO + second * S)
    by_name = {key.instrument.name: points for key, points in found.series(delta=False)}
    times = by_name["t"]
    assert all(a.unix_ns < b.unix_ns and a.count <= b.count for a, b in pairwise(times))
    assert all(point.start_unix_ns < point.unix_ns for point in times)
    assert times[0].count == 0
    assert times[-1].count == sum(times[-1].buckets) == len(given)
    expected = [0, 0, 0]
    for _, value in given:
        expected[bisect_left(TIME.buckets, value)] += 1
    assert list(times[-1].buckets) == expected
    assert by_name["n"][-1].sum == 2 * len(given)


@given(calls)
def test_deltas_and_sums_tell_the_same(given: list[tuple[int, float]]) -> None:
    found = Aggregate()
    for second, value in given:
        found.add([point(value)], end_unix_ns=ZERO + second * S)
    deltas, sums = series(found, delta=True), series(found)
    assert sum(point.count for point in deltas) == sums[-1].count
    assert all(a.unix_ns <= b.start_unix_ns for a, b in pairwise(deltas))
