"""Figures as notes say them."""

from collections.abc import Callable

from latscope.claims.fit import Estimate


def time(ms: float) -> str:
    """A time in the unit that suits it: `50 ns`, `6.1 µs`, `12 ms`."""
    sign, size = ("-", -ms) if ms < 0 else ("", ms)
    for unit, factor in (("s", 1e-3), ("ms", 1.0), ("µs", 1e3)):
        if size * factor >= 1:
            return f"{sign}{digits(size * factor)} {unit}"
    return f"{sign}{digits(size * 1e6)} ns" if size else "0 ms"


def digits(value: float) -> str:
    """Three significant digits, without exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    shown = f"{value:.3g}"
    return shown if "e" not in shown else f"{value:.6f}".rstrip("0").rstrip(".")


def change(share: float) -> str:
    """`+12 %`, `-3 %`, `×4.2` from three times on."""
    return f"×{digits(1 + share)}" if share >= 2 else f"{round(100 * share):+} %"


def percent(share: float) -> str:
    return f"{round(100 * share)} %"


def said(found: Estimate | None, as_text: Callable[[float], str]) -> str:
    """The figure alone; `?` when there is none."""
    return "?" if found is None else as_text(found.value)


def between(found: Estimate, as_text: Callable[[float], str]) -> str:
    """Its interval: `+1 % to +9 %`."""
    low, high = as_text(found.low), as_text(found.high)
    return low if low == high else f"{low} to {high}"


def listed(values: list[str]) -> str:
    """`1, 2 and 4`."""
    return " and ".join(filter(None, (", ".join(values[:-1]), values[-1]))) if values else ""
