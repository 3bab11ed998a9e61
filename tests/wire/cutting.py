"""What the framing tests share: cutting bytes into reads, and what must hold of any frames."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

from hypothesis import strategies as st

from latscope.units import Ns
from latscope.wire.frames import Frame
from latscope.wire.framing import FrameDecoder

STEP: Ns = 1_000
"""The n-th read of a test arrives at n steps, the stream's end long after the last."""

Shape: TypeAlias = tuple[str, str, bytes, int, int, bool, bool]


def pieces(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    """`data` cut at these offsets; an offset named twice gives an empty read."""
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def any_cuts(most: int) -> st.SearchStrategy[list[int]]:
    """Offsets to cut at: spread over the stream, and close together."""
    near = st.builds(lambda at, by: [at, at + 1, at + by], st.integers(0, most), st.integers(0, 9))
    return st.lists(st.integers(0, most), max_size=8) | near


def run(decoder: FrameDecoder, reads: Sequence[bytes]) -> list[Frame]:
    """The frames of these reads, in order of their end; every invariant of frames checked."""
    fed = [f for n, data in enumerate(reads, 1) for f in decoder.feed(data, n * STEP)]
    assert all(a.end < b.end for a, b in pairwise(fed))
    closing = decoder.close()
    assert decoder.close() == []
    frames = sorted(fed + closing, key=lambda frame: frame.end)
    check(frames, reads)
    return frames


def check(frames: Sequence[Frame], reads: Sequence[bytes]) -> None:
    """Each frame's times are those of the reads that brought its bytes; times never decrease; and
    frames lie side by side, but for comments inside an event."""
    arrival = arrivals(reads)
    size = sum(map(len, reads))
    for frame in frames:
        assert 0 <= frame.start < frame.end <= size
        assert frame.first_ns == arrival(frame.start)
        assert frame.last_ns == arrival(frame.end - 1)
        assert frame.first_ns <= frame.last_ns
    assert all(a.end < b.end and a.last_ns <= b.last_ns for a, b in pairwise(frames))
    for comments in (True, False):
        alike = [frame for frame in frames if (frame.kind == "comment") is comments]
        assert all(a.end <= b.start for a, b in pairwise(alike))


def arrivals(reads: Sequence[bytes]) -> Callable[[int], Ns]:
    """Arrival of the byte at an offset."""
    ends: list[int] = []
    for data in reads:
        ends.append((ends[-1] if ends else 0) + len(data))
    return lambda offset: (bisect_right(ends, offset) + 1) * STEP


def shape(frame: Frame) -> Shape:
    """All of a frame but its times: what no way of cutting may change."""
    return (
        frame.kind,
        frame.name,
        frame.data,
        frame.start,
        frame.end,
        frame.truncated,
        frame.closed,
    )


def shapes(frames: Iterable[Frame]) -> list[Shape]:
    return [shape(frame) for frame in frames]
