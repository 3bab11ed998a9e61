"""Figures in words, by the unit of their metric; as many digits as a person reads."""

from latscope.rules.metrics.metric import Unit
from latscope.units import MS, US, S

MIN = 60 * S
ROUND = 1_000


def spoken(value: float, unit: Unit) -> str:
    """`1.42 s`, `97.5 %`, `$0.0031`, `1,234 tokens`."""
    if unit == "ns":
        return duration(value)
    if unit == "share":
        return f"{_digits(value * 100)} %"
    if unit == "money":
        return f"${value:,.2f}" if abs(value) >= 1 else f"${value:.3g}"
    if unit == "per_hour":
        return f"{_digits(value)} an hour"
    return f"{_digits(value)} {unit}" if unit in ("tokens", "bytes") else _digits(value)


def duration(ns: float) -> str:
    """In the unit in which it is between 1 and 1,000."""
    size = abs(ns)
    for least, word in ((10 * MIN, "min"), (S, "s"), (MS, "ms"), (US, "us")):
        if size >= least:
            return f"{_digits(ns / {'min': MIN}.get(word, least))} {word}"
    return f"{_digits(ns)} ns" if ns else "0 ms"


def factor(times: float) -> str:
    return f"{times:g}x"


def _digits(value: float) -> str:
    """Three of them, and no fewer than whole numbers have."""
    if abs(value) >= ROUND or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"
