"""A reading of a rule as text: its figure, the interval around it and what it was compared with."""

from collections.abc import Callable
from dataclasses import dataclass

from latscope.report.figures import UNKNOWN, count, duration
from latscope.rules.finding import Reading
from latscope.units import MS, US, S


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """name: metric, statistic and which calls. interval: without the unit, empty when not known."""

    name: str
    value: str
    interval: str
    other: str


def shown(reading: Reading) -> Shown:
    stat = "" if reading.stat == "value" else f" {reading.stat}"
    which = f" where {reading.where}" if reading.where else ""
    return Shown(
        name=f"{reading.metric}{stat}{which}",
        value=figure(reading.value, reading),
        interval=_interval(reading),
        other="" if reading.baseline is None else figure(reading.baseline, reading),
    )


def figure(value: float | None, reading: Reading) -> str:
    """A figure in the reading's own unit; `—` when unknown."""
    if value is None:
        return UNKNOWN
    behind = ""
    if reading.stat == "slope":
        behind = " each"
    elif reading.stat == "rate" and reading.unit != "per_hour":
        behind = "/h"
    return f"{_way(reading)(value)}{behind}"


def _interval(reading: Reading) -> str:
    if reading.low is None or reading.high is None or reading.value is None:
        return ""
    if reading.low == reading.high:
        return ""
    low, high = (_way(reading)(end) for end in (reading.low, reading.high))
    unit = low.rpartition(" ")[2]
    if high.endswith(f" {unit}") and unit:
        low = low.removesuffix(f" {unit}")
    return f"{low} to {high}" if low.startswith("-") or high.startswith("-") else f"{low}–{high}"


def _way(reading: Reading) -> Callable[[float], str]:
    if reading.stat == "n" or (reading.unit == "truth" and reading.stat in ("rate", "sum")):
        return _number
    if reading.stat == "share" or reading.unit in ("share", "truth"):
        return _percent
    ways: dict[str, Callable[[float], str]] = {
        "ns": time,
        "money": _money,
        "bytes": _bytes,
        "per_hour": lambda value: f"{_number(value)}/h",
    }
    return ways.get(reading.unit, _number)


def time(ns: float) -> str:
    """Three digits, in the unit that leaves the first before the point."""
    size = abs(ns)
    if size < 1:
        return "0"
    step = US // 10 if size < MS else MS // 100 if size < 10 * MS else MS // 10
    text = duration(round(size), step, "s" if size >= S else None)
    return f"-{text}" if ns < 0 else text


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.0995 else f"{100 * share:.0f} %"


def _money(value: float) -> str:
    places = 2 if abs(value) >= 1 else 4 if abs(value) >= 0.01 else 6
    return f"${value:.{places}f}"


def _bytes(value: float) -> str:
    return f"{_number(value)} B"


def _number(value: float) -> str:
    if abs(value) >= 10 or float(value).is_integer():
        return count(round(value))
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"
