"""Integer nanoseconds, and the intervals that say how well one is known.

Every time in latscope is an integer count of nanoseconds since the call's zero (entry of the SDK
call), and every duration one between two of those. Integers make the conservation law exact: the
segments of a call add up to its wall time with nothing lost to rounding.
"""

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
