"""Integer nanoseconds, and the intervals that say how well one is known.

Every time in latscope is an integer count of nanoseconds since the call's zero (entry of the SDK
call), and every duration one between two of those. Integers make the conservation law exact: the
segments of a call add up to its wall time with nothing lost to rounding.
"""

import re
from typing import NamedTuple, TypeAlias

Ns: TypeAlias = int
"""Nanoseconds: an offset from the call's zero, or a duration."""

US: Ns = 1_000
MS: Ns = 1_000_000
S: Ns = 1_000_000_000


def ns_from_ms(ms: float) -> Ns:
    """The nearest nanosecond to a figure in milliseconds."""
    return round(ms * MS)


def ns_from_s(seconds: float) -> Ns:
    """The nearest nanosecond to a figure in seconds."""
    return round(seconds * S)


def clamp(value: Ns, low: Ns, high: Ns) -> Ns:
    """`value`, moved into [low, high] when it lies outside."""
    return max(low, min(value, high))


class Span(NamedTuple):
    """A time known only to lie in [earliest, latest], both offsets from the call's zero.

    A read that was asked for before its bytes arrived pins the arrival to one instant; a read that
    returned at once says only that the bytes came between the read before it and itself.
    """

    earliest: Ns
    latest: Ns

    @property
    def width(self) -> Ns:
        return self.latest - self.earliest


# -- wall-clock time in words; counted here, for what reads clocks is not for the core -------------

RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d(?:\.\d+)?)(?:[zZ]|([+-])(\d\d):?(\d\d))?"
)
DAY = 86_400


def wall_s(text: str) -> float:
    """An RFC 3339 time as seconds since 1970 (UTC); 0 for what is none."""
    match = RFC3339.fullmatch(text.strip())
    if match is None:
        return 0.0
    year, month, day, hour, minute = (int(match[at]) for at in range(1, 6))
    offset = 0
    if match[7]:
        offset = (int(match[8]) * 60 + int(match[9])) * (60 if match[7] == "+" else -60)
    days = _days(year, month, day)
    return days * DAY + hour * 3600 + minute * 60 + float(match[6]) - offset


def rfc3339(at_s: float) -> str:
    """Seconds since 1970 as an RFC 3339 time (UTC), to the second."""
    days, rest = divmod(int(at_s), DAY)
    year = 1970 + days // 366
    while _days(year + 1, 1, 1) <= days:
        year += 1
    month = max(number for number in range(1, 13) if _days(year, number, 1) <= days)
    day = days - _days(year, month, 1) + 1
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar, whose years begin in March here so
    that a leap day comes last."""
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    leaps = year // 4 - year // 100 + year // 400
    return 365 * year + leaps + (153 * month + 2) // 5 + day - 1 - 719_468
