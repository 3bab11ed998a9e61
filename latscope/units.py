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
    return f"{_clock(int(at_s))}Z"


def rfc3339_us(wall_ns: Ns) -> str:
    """Nanoseconds since 1970 as an RFC 3339 time (UTC), to the microsecond."""
    seconds, rest = divmod(wall_ns, S)
    return f"{_clock(seconds)}.{rest // US:06}Z"


def _clock(at_s: int) -> str:
    """Date and time of a second since 1970, without its zone: `_days` the other way round."""
    days, rest = divmod(at_s, DAY)
    era, day = divmod(days + 719_468, 146_097)  # of 400 years; both count from the first of March
    of_era = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * of_era + of_era // 4 - of_era // 100
    since_march = (5 * day + 2) // 153
    day += 1 - (153 * since_march + 2) // 5
    month = since_march - 9 if since_march > 9 else since_march + 3
    year = 400 * era + of_era + (since_march > 9)
    date = f"{year:04}-{month:02}-{day:02}"
    return f"{date}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the Gregorian calendar, whose years begin in March here so
    that a leap day comes last."""
    year, month = (year - 1, month + 9) if month < 3 else (year, month - 3)
    leaps = year // 4 - year // 100 + year // 400
    return 365 * year + leaps + (153 * month + 2) // 5 + day - 1 - 719_468
