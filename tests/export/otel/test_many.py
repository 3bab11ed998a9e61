"""Many values at once: what the SDK then exports is what recording each by itself gives."""

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import (
    DropAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)

from latscope.export.otel import many
from latscope.export.otel.many import record_many

BOUNDS = [0.01, 0.02, 0.05]
VALUES = [0.003, 0.01, 0.011, 0.02, 0.049, 0.05, 0.051, 3.0, 0.0]
ATTRIBUTES: dict[str, str | int | bool] = {"model": "m", "port": 443, "cached": True}
DELTA = {Histogram: AggregationTemporality.DELTA, Counter: AggregationTemporality.DELTA}


def stepped(histogram: Any, values: Sequence[float], attributes: Any = ATTRIBUTES) -> int:
    return sum(1 for _ in record_many(histogram, values, attributes, Context()))


def exported(reader: InMemoryMetricReader) -> list[Any]:
    data = reader.get_metrics_data()
    found = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
    return [
        {
            key: getattr(point, key, None)
            for key in ("attributes", "count", "sum", "min", "max", "bucket_counts", "positive")
        }
        for metric in found
        for point in metric.data.data_points
    ]


def both(
    views: Sequence[View] = (), temporality: Any = None, times: int = 1
) -> tuple[list[Any], list[Any]]:
    """What two readers export of values recorded one by one, and of the same recorded at once."""
    found = []
    for at_once in (False, True):
        readers = [InMemoryMetricReader(preferred_temporality=temporality), InMemoryMetricReader()]
        provider = MeterProvider(readers, views=views)
        histogram = provider.get_meter("m").create_histogram(
            "gap", explicit_bucket_boundaries_advisory=BOUNDS
        )
        seen = []
        for _ in range(times):
            if at_once:
                stepped(histogram, VALUES)
            else:
                for value in VALUES:
                    histogram.record(value, ATTRIBUTES)
            seen += [exported(reader) for reader in readers]
        provider.shutdown()
        found.append(seen)
    return found[0], found[1]


def same(one: list[Any], other: list[Any]) -> bool:
    return repr(_rounded(one)) == repr(_rounded(other))


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return round(value, 12) if isinstance(value, float) else value


@pytest.mark.parametrize(
    ("views", "temporality"),
    [
        ((), None),
        ((), DELTA),
        ((View(instrument_name="gap", attribute_keys={"model"}),), None),
        ((View(instrument_name="gap"), View(instrument_name="gap", name="gap2")), None),
        ((View(instrument_name="gap", aggregation=ExponentialBucketHistogramAggregation()),), None),
        ((View(instrument_name="gap", aggregation=DropAggregation()),), None),
    ],
)
def test_what_is_exported_is_the_same(views: Sequence[View], temporality: Any) -> None:
    one, other = both(views, temporality, times=3)
    assert same(one, other)
    assert len(one) == 6


def test_it_is_one_record_where_the_sdk_is_as_known(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    histogram = MeterProvider([reader]).get_meter("m").create_histogram("gap")
    recorded: list[float] = []
    real = type(histogram).record

    def record(self: Any, value: float, attributes: Any = None, context: Any = None) -> None:
        recorded.append(value)
        real(self, value, attributes, context)

    monkeypatch.setattr(type(histogram), "record", record)
    assert stepped(histogram, VALUES) == 1
    assert recorded == VALUES[:1]
    assert stepped(histogram, VALUES[: many.FEW]) == 1
    assert recorded == VALUES[:1] + VALUES[: many.FEW]


class Unknown:
    """An instrument of no SDK."""

    def __init__(self) -> None:
        self.recorded: list[float] = []

    def record(self, value: float, attributes: Any, context: Any) -> None:
        self.recorded.append(value)


def test_of_another_sdk_each_is_recorded_with_pauses() -> None:
    histogram = Unknown()
    values = [float(number) for number in range(2 * many.A_STEP + 2)]
    assert stepped(histogram, values) == 3
    assert histogram.recorded == values
    stepped(NoOpMeterProvider().get_meter("m").create_histogram("gap"), values)


def test_a_collection_in_between_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    histogram = provider.get_meter("m").create_histogram("gap")
    real = many._add
    seen = []

    def add(place: Any, values: Sequence[float]) -> None:
        seen.extend(exported(reader))
        real(place, values)

    monkeypatch.setattr(many, "_add", add)
    stepped(histogram, VALUES)
    assert [point["count"] for point in seen] == [1]
    assert [point["count"] for point in exported(reader)] == [len(VALUES)]
