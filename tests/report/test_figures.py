from dataclasses import replace

import pytest

from latscope.report.figures import (
    Figure,
    bounds,
    common_unit,
    count,
    counted,
    duration,
    interval,
    percent,
    unit_for,
    value,
)
from latscope.report.figures import quantile as shown_quantile
from latscope.rules.censored import Quantile, Sample, quantile
from latscope.units import MS, US, S


@pytest.mark.parametrize(
    ("ns", "resolution", "said"),
    [
        (None, 1, "—"),
        (0, 1, "0.00 µs"),
        (850, 1, "0.85 µs"),
        (850 * US, 1, "850 µs"),
        (1_234_567, 1, "1.2 ms"),
        (181_234_567, 1, "181 ms"),
        (181_234_567, 20 * MS, "180 ms"),
        (181_234_567, 200 * MS, "200 ms"),
        (41 * MS, 300 * MS, "<100 ms"),
        (9_999 * MS, 1, "9999 ms"),
        (10 * S, 1, "10.00 s"),
        (123_456 * MS, 1, "123.5 s"),
        (123_456 * MS, 3 * S, "123 s"),
        (-5 * MS, 1, "-5.0 ms"),
    ],
)
def test_digits_follow_the_resolution(ns: int | None, resolution: int, said: str) -> None:
    """A figure shows no digit finer than it is known, and never 0 for what is not."""
    assert duration(ns, resolution) == said


@pytest.mark.parametrize(
    ("ns", "low", "high", "resolution", "said", "within"),
    [
        (0, 0, 0, 1, "none", ""),
        (0, 0, 412 * MS, 1, "—", "0–412 ms"),
        (180 * MS, 180 * MS, 180 * MS, 50 * US, "180 ms", ""),
        (901 * MS, 901 * MS, 909_300 * US, 50 * US, "≥901 ms", "901–910 ms"),
        (40 * MS, 10 * MS, 70 * MS, 50 * US, "40 ms", "10.0–70.0 ms"),
        (44 * MS, 10 * MS, 70 * MS, 50 * US, "40 ms", "10.0–70.0 ms"),
        (250 * US, 250 * US, 120 * MS, 1, "≥0.25 ms", "0.25–120 ms"),
        (1, 1, 120 * MS, 1, ">0 ms", "0–120 ms"),
        (44 * MS, 43_950 * US, 44_020 * US, 50 * US, "44.0 ms", ""),
    ],
)
def test_a_figure_says_what_its_bounds_allow(
    ns: int, low: int, high: int, resolution: int, said: str, within: str
) -> None:
    """Unknown is a dash, a sure minimum is marked as one, bounds round outward."""
    figure = Figure(ns=ns, low_ns=low, high_ns=high, resolution_ns=resolution)
    assert (value(figure, "ms"), bounds(figure, "ms")) == (said, within)


@pytest.mark.parametrize(
    ("part", "whole", "said"),
    [(0, 1, "0 %"), (1, 3, "33 %"), (1, 1000, "<1 %"), (1, 0, "—"), (3, 3, "100 %")],
)
def test_shares(part: int, whole: int, said: str) -> None:
    """A share that is there never prints as 0, and one of nothing is unknown."""
    assert percent(part, whole) == said


def test_counts_and_units() -> None:
    """Thousands are set apart; the unit follows the whole picture's length."""
    assert [count(n) for n in (None, 7, 12_345)] == ["—", "7", "12 345"]
    assert [unit_for(ns) for ns in (999 * US, MS, 9 * S, 10 * S)] == ["us", "ms", "ms", "s"]


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        ([], None),
        ([None, 0], None),
        ([850 * US, 4 * MS, None, 0], "ms"),
        ([9 * US, 4 * MS], None),
        ([20 * MS, 12 * S], "s"),
        ([2 * US, 900 * US], "us"),
    ],
)
def test_figures_read_together_share_a_unit_where_the_range_allows(
    values: list[int | None], unit: str | None
) -> None:
    """The largest one's, as long as the smallest keeps two digits in it."""
    assert common_unit(values) == unit


def test_one_is_singular() -> None:
    assert [counted(n, "call") for n in (0, 1, 2)] == ["0 calls", "1 call", "2 calls"]


def test_a_hard_minimum_is_never_rounded_up() -> None:
    least = Figure(ns=900_600_000, low_ns=900_600_000, high_ns=905_000_000)
    assert value(least, "ms") == "≥900 ms"


def test_a_thousand_microseconds_are_a_millisecond() -> None:
    assert duration(999_700, 1000) == "1.00 ms"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "—"),
        (quantile([], 0.5), "—"),
        (quantile([Sample(ns=2_345 * MS)], 0.5), "2345 ms"),
        (quantile([Sample(ns=12_345 * MS)], 0.5), "12.35 s"),
        (quantile([Sample(ns=12_349 * MS, censored=True)], 0.5), "> 12.34 s"),
        (quantile([Sample(ns=1_999 * US, censored=True)], 0.5), "> 1.9 ms"),
        (quantile([Sample(ns=0, censored=True)], 0.5), "—"),
    ],
)
def test_a_quantile_or_its_lower_limit(found: Quantile | None, said: str) -> None:
    """A limit is rounded down, and above nothing it is none."""
    assert shown_quantile(found, MS // 10, None) == said


def test_an_interval_is_rounded_outward() -> None:
    """An end that is not known is left open; without an estimate there is no interval."""
    known = quantile([Sample(ns=at * MS + 400 * US) for at in range(1000, 1100)], 0.5)
    assert interval(known, MS // 10, None) == "1041–1059"
    assert interval(known, MS // 10, "s") == "1.04–1.06"
    assert interval(replace(known, high_ns=None), MS // 10, None) == "≥ 1041"
    assert interval(replace(known, low_ns=None), MS // 10, None) == "≤ 1059"
    assert interval(replace(known, low_ns=None, high_ns=None), MS // 10, None) == ""
    assert interval(replace(known, ns=None), MS // 10, None) == ""
    assert interval(None, MS // 10, None) == ""
