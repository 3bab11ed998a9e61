"""Durations, shares and ranges as text, never claiming more than is known.

A figure's digits follow its resolution: what is known to a millisecond is not printed to a
microsecond, and a time that rounds to nothing prints as "<" the smallest step, not as 0.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Literal

from latscope.rules.censored import Quantile
from latscope.units import MS, US, Ns, S

Unit = Literal["us", "ms", "s"]

_NS: dict[Unit, int] = {"us": US, "ms": MS, "s": S}
_NAME: dict[Unit, str] = {"us": "µs", "ms": "ms", "s": "s"}
UNKNOWN = "—"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A duration with its hard bounds. resolution_ns: how finely the instrument itself knows it."""

    ns: Ns
    low_ns: Ns
    high_ns: Ns
    resolution_ns: Ns = 1

    @property
    def exact(self) -> bool:
        """Whether the bounds are no wider than the instrument's own resolution on either side."""
        return self.high_ns - self.low_ns <= 2 * self.resolution_ns

    @property
    def open(self) -> bool:
        """Whether nothing is known but the bounds: no time is surely there, some may be."""
        return self.ns == self.low_ns == 0 and not self.exact


def unit_for(ns: Ns) -> Unit:
    """The unit a whole picture of this length is told in."""
    if ns < MS:
        return "us"
    return "ms" if ns < 10 * S else "s"


def common_unit(values: Iterable[Ns | None]) -> Unit | None:
    """One unit for figures that are read together: the largest one's, where it still leaves the
    smallest two digits; null where the range is too wide, and each is told in its own."""
    known = [abs(ns) for ns in values if ns]
    if not known:
        return None
    unit = unit_for(max(known))
    return unit if min(known) >= _NS[unit] // 100 else None


def unit_name(unit: Unit) -> str:
    return _NAME[unit]


def decimals(ns: Ns, resolution_ns: Ns, unit: Unit) -> int:
    """Digits after the point for a figure; negative means rounded to tens, hundreds, ...

    The last digit stands where the resolution's first one does, and three significant digits are
    enough.
    """
    supported = -floor(log10(max(resolution_ns, 1) / _NS[unit]))
    size = abs(ns) / _NS[unit]
    readable = 0 if size >= 100 else 1 if size >= 1 else 2
    if unit == "s":
        readable += 1
    return min(supported, readable)


def duration(ns: Ns | None, resolution_ns: Ns = 1, unit: Unit | None = None) -> str:
    """A time with its unit; `—` when unknown."""
    if ns is None:
        return UNKNOWN
    unit = unit or unit_for(abs(ns))
    if unit == "us" and round(abs(ns) / US) >= 1000:
        unit = "ms"  # rounding would make it 1000 µs
    return f"{number(ns, resolution_ns, unit)} {_NAME[unit]}"


def number(ns: Ns, resolution_ns: Ns, unit: Unit) -> str:
    places = decimals(ns, resolution_ns, unit)
    value = round(ns / _NS[unit], places)
    if value == 0 and ns > 0:
        return f"<{_fixed(10.0**-places, places)}"
    return _fixed(value, places)


def value(figure: Figure, unit: Unit) -> str:
    """The estimate, with as many digits as its bounds support.

    `—` when only the bounds are known, `≥` when it is the least that is sure, `none` for a time
    known to be zero.
    """
    if figure.open:
        return UNKNOWN
    if figure.ns == 0 and figure.exact:
        return "none"
    if figure.ns == figure.low_ns and not figure.exact:
        least = _at_least(figure, unit)
        return f"≥{least} {_NAME[unit]}" if least else f">0 {_NAME[unit]}"
    half = (figure.high_ns - figure.low_ns) // 2
    return duration(figure.ns, max(half, figure.resolution_ns), unit)


def _at_least(figure: Figure, unit: Unit) -> str:
    """A hard minimum is rounded down, the one thing it says must be true; empty for nothing."""
    places = decimals(figure.ns, figure.resolution_ns, unit)
    step = 10.0**-places
    down = floor(figure.ns / _NS[unit] / step + 1e-9) * step
    return _fixed(down, places) if down else ""


def bounds(figure: Figure, unit: Unit) -> str:
    """The hard bounds, rounded outward; empty when the value's own digits say as much."""
    if figure.exact:
        return ""
    places = max(0, decimals(figure.high_ns, figure.resolution_ns, unit))
    step = 10.0**-places
    high = ceil(figure.high_ns / _NS[unit] / step - 1e-9) * step
    if figure.ns == figure.low_ns:  # its value says the same minimum: the same digits
        low = _at_least(figure, unit)
    else:
        down = floor(figure.low_ns / _NS[unit] / step + 1e-9) * step
        low = _fixed(down, places) if down else ""
    return f"{low or '0'}–{_fixed(high, places)} {_NAME[unit]}"


def quantile(found: Quantile | None, resolution_ns: Ns, unit: Unit | None) -> str:
    """The estimate; `> 2.3 s` where calls that were stopped leave only a lower limit, rounded down
    so that it stays one; `—` where there is neither."""
    if found is None:
        return UNKNOWN
    limit = found.at_least_ns
    if found.ns is not None or not limit:
        return duration(found.ns, resolution_ns, unit)
    unit = unit or unit_for(limit)
    return f"> {_outward(limit, limit, resolution_ns, unit, floor)} {_NAME[unit]}"


def interval(found: Quantile | None, resolution_ns: Ns, unit: Unit | None) -> str:
    """Its 90 % interval without the unit, rounded outward; `≥` and `≤` where one end is not known,
    empty where none is, or no estimate."""
    if found is None or found.ns is None:
        return ""
    unit, size = unit or unit_for(found.ns), found.ns
    low, high = (
        None if end is None else _outward(end, size, resolution_ns, unit, way)
        for end, way in ((found.low_ns, floor), (found.high_ns, ceil))
    )
    if low is None:
        return "" if high is None else f"≤ {high}"
    return f"≥ {low}" if high is None else f"{low}–{high}"


def _outward(ns: Ns, size: Ns, resolution_ns: Ns, unit: Unit, way: Callable[[float], int]) -> str:
    """Rounded in one direction, to the digits a figure of that size has."""
    places = decimals(size, resolution_ns, unit)
    step = 10.0**-places
    near = 1e-9 if way is floor else -1e-9
    return _fixed(way(ns / _NS[unit] / step + near) * step, places)


def percent(part: float, whole: float) -> str:
    """A share in whole per cent; `<1 %` for what is there but rounds to nothing."""
    if whole <= 0:
        return UNKNOWN
    share = 100 * part / whole
    return "<1 %" if 0 < share < 0.5 else f"{share:.0f} %"


def count(number_of: int | None) -> str:
    return UNKNOWN if number_of is None else f"{number_of:,}".replace(",", " ")


def counted(number_of: int, noun: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{count(number_of)} {noun}{'' if number_of == 1 else 's'}"


def _fixed(number_of: float, places: int) -> str:
    return f"{number_of:.{max(0, places)}f}"
