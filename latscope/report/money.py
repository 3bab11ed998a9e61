"""Sums of money as text: two digits that say something, whatever their size."""

from math import floor, log10

from latscope.report.figures import UNKNOWN

SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}


def money(value: float | None, currency: str | None, *, signed: bool = False) -> str:
    """`$0.0123`, `12.30 CHF`; `—` when unknown; signed: with its sign in front."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    places = 2 if size >= 1 or size == 0 else max(2, 1 - floor(log10(size)))
    said = f"{size:,.{min(places, 9)}f}".replace(",", " ")
    sign = "-" if value < 0 else "+" if signed else ""
    mark = SIGNS.get(currency or "USD")
    return f"{sign}{mark}{said}" if mark else f"{sign}{said} {currency}"
