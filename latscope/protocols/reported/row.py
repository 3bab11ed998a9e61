"""A row of the table: one timing field of one server, and how its value becomes a figure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from latscope.protocols.events import Covers, Reported
from latscope.protocols.fields import as_int, as_str
from latscope.units import Ns, S

Place = Literal["body", "header", "span", "record"]
"""Where a field is found: a chunk or body; the response's headers; an OpenTelemetry span; a record
the server keeps and hands out by another way."""

Kind = Literal["number", "text", "stamp"]
"""How a value is written: a JSON number; a number that may be a string; an RFC 3339 time."""

Values: TypeAlias = Mapping[str, Any]
When: TypeAlias = Callable[[Values], bool]

EVIDENCE = ("measured", "source", "types", "documented", "users")
"""What a row rests on, strongest first: measured against the engine by us; the server's source; the
types of the vendor's SDK; the vendor's documentation; what users report or public captures show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of one server.

    source, field, covers: as in `Reported`; a figure is `field`, plus the fields in `plus`, less
    `minus` (all of one clock; any of them missing: no figure). place, where: where the field lies,
    the objects outermost first. unit: ns of one unit of it. resolution: how coarsely the server
    measures (a whole number is never finer than its unit). interval: what it really covers, start
    to end; absent: when the server leaves it out; evidence: what that rests on (`EVIDENCE`).
    kind: how the value is written. zero: a zero is a measurement cut down to the unit, not the
    lack of one. streamed: the figure means this on a stream only, or on a whole answer only.
    when: what the values beside it must be for the figure to mean anything.
    """

    source: str
    place: Place
    where: tuple[str, ...] = ()
    field: str
    plus: tuple[str, ...] = ()
    minus: str = ""
    unit: Ns
    covers: Covers
    interval: str
    absent: str
    evidence: str
    resolution: Ns = 1
    kind: Kind = "number"
    zero: bool = False
    streamed: bool | None = None
    when: When | None = None

    @property
    def label(self) -> str:
        """The figure's name: its field, or the sum or difference it is."""
        total = " + ".join((self.field, *self.plus))
        return f"{total} - {self.minus}" if self.minus else total


def at_least(name: str, least: int) -> When:
    """The count `name` is at least so much, or not told."""
    return lambda values: (n := as_int(values.get(name))) is None or n >= least


def at_most(name: str, most: int) -> When:
    """The count `name` is at most so much, or not told."""
    return lambda values: (n := as_int(values.get(name))) is None or n <= most


def beside(name: str) -> When:
    """`name` is there too: without it the field is somebody else's of the same name."""
    return lambda values: values.get(name) is not None


def alike(one: str, other: str) -> When:
    return lambda values: values.get(one) == values.get(other)


def unlike(one: str, other: str) -> When:
    return lambda values: values.get(one) != values.get(other)


def figure_of(row: Row, values: Values, streamed: bool | None = None) -> Reported | None:
    """The row's figure from the object its field lies in; null when there is none.

    A value that is negative, not finite or no number gives no figure, nor does zero where servers
    write it for what they did not measure. streamed: whether the answer was; null: not known.
    """
    if row.streamed is not None and streamed is not None and row.streamed != streamed:
        return None
    if values.get(row.field) is None or (row.when is not None and not row.when(values)):
        return None
    total: float = 0
    coarsest = row.resolution
    for sign, name in _terms(row):
        told = _amount(row, values.get(name))
        if told is None:
            return None
        total, coarsest = total + sign * told[0], max(coarsest, told[1])
    ns = round(total * row.unit)
    if ns < 0 or (ns == 0 and not row.zero):
        return None
    return Reported(
        source=row.source, field=row.label, covers=row.covers, ns=ns, resolution_ns=coarsest
    )


def _terms(row: Row) -> list[tuple[int, str]]:
    terms = [(1, name) for name in (row.field, *row.plus)]
    return [(-1, row.minus), *terms] if row.minus else terms


_LIMIT = 1e21
"""No time in any unit is longer; a number beyond would only overflow later."""


def _amount(row: Row, value: object) -> tuple[float, Ns] | None:
    """A value in the row's unit, and how coarse it is in ns."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and row.kind != "number":
        return _stamp(value) if row.kind == "stamp" else _decimal(value, row.unit)
    if not isinstance(value, int | float) or not 0 <= value < _LIMIT:
        return None
    return value, row.unit if isinstance(value, int) else 1


_DECIMAL = re.compile(r"\s*([0-9]{1,15}(?:\.([0-9]{0,18}))?)\s*")


def _decimal(text: str, unit: Ns) -> tuple[float, Ns] | None:
    """A number as text is as coarse as its last digit."""
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    return float(found[1]), max(1, unit // 10 ** len(found[2] or ""))


_STAMP = re.compile(
    r"\s*([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:[Zz]|\+00:?00)\s*"
)


def _stamp(text: str) -> tuple[int, Ns] | None:
    """An RFC 3339 time in UTC, as ns since 1970 (days by the civil calendar)."""
    found = _STAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[n]) for n in range(1, 7))
    year -= month < 3
    ordinal = 365 * year + year // 4 - year // 100 + year // 400
    days = ordinal + (153 * ((month + 9) % 12) + 2) // 5 + day - 1 - 719_468
    digits = as_str(found[7])
    fraction = int(digits.ljust(9, "0")) if digits else 0
    ns = ((days * 24 + hour) * 60 + minute) * 60 + second
    return ns * S + fraction, 10 ** (9 - len(digits))
