"""The event-stream decoder: every framing, cut in every way."""

import sys
import tracemalloc
from types import FrameType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from latscope.wire.frames import Frame
from latscope.wire.sse import SSEDecoder

from .cutting import STEP, any_cuts, pieces, run, shapes, single_bytes
from .framings import LONG, PEERS, SPEC, Framing
from .oracle import reference

ALL = (*PEERS, *SPEC, LONG)
each_framing = pytest.mark.parametrize("framing", ALL, ids=lambda framing: framing.name)


def decode(reads: list[bytes], limit: int = 8 * 1024 * 1024) -> list[Frame]:
    return run(SSEDecoder(max_frame_bytes=limit), reads)


@each_framing
def test_a_framing_gives_its_frames_as_it_came_and_whole(framing: Framing) -> None:
    """Each stream gives the frames written beside it, in the reads it came in and in one."""
    rows = [(*row, True) if len(row) == 3 else row for row in framing.rows]
    for reads in (list(framing.reads), [framing.stream]):
        assert [(f.kind, f.name, f.data, f.closed) for f in decode(reads)] == rows


@each_framing
def test_a_framing_gives_the_same_byte_by_byte(framing: Framing) -> None:
    """Offsets, marks and payload do not depend on the reads; times are those of the reads."""
    assert shapes(decode(single_bytes(framing.stream))) == shapes(decode([framing.stream]))


@each_framing
def test_a_framing_gives_the_same_at_any_cuts(framing: Framing) -> None:
    """So do they not at cuts nobody thought of."""
    whole = shapes(decode([framing.stream]))

    @settings(max_examples=30, deadline=None)
    @given(any_cuts(len(framing.stream)))
    def check(cuts: list[int]) -> None:
        assert shapes(decode(pieces(framing.stream, cuts))) == whole

    check()


# Streams out of what matters to the grammar, so that every transition is met often.
TOKENS = (
    *(b"\n", b"\r", b"\r\n", b"\n\n", b"data", b"event", b"id", b":", b": ", b" ", b"data: "),
    *(b"x", b"long text", b"\x00", b"\xef", b"\xbb\xbf", b"\xef\xbb\xbf", b"\xe2\x80\xa8"),
)
streams = st.lists(st.sampled_from(TOKENS), max_size=30).map(b"".join)


@settings(max_examples=400, deadline=None)
@given(streams, any_cuts(60), st.integers(1, 12))
@example(b"data:" + b"x" * 30 + b"\n\n", [], 5)
@example(b"event: xyz\nevent: z\ndata: y\n\n", [], 2)
def test_any_stream_reads_as_the_rules_say(stream: bytes, cuts: list[int], limit: int) -> None:
    """Any bytes, cut anywhere and under any byte limit, give what a second reading of the rules
    over the whole stream gives."""
    assert shapes(decode(pieces(stream, cuts), limit)) == reference(stream, limit)


def test_offsets_are_those_of_the_bytes() -> None:
    """A frame starts at its first line and ends just past the byte that completed it: the CR of
    a CRLF, the last byte of a line the end cut. A byte order mark is in none."""
    stream = b"\xef\xbb\xbfdata: a\r\n\r\n: c\r\nevent: e\ndata: b\n\ndata: d\nid: 1"
    frames = decode([stream])
    assert [stream[f.start : f.end] for f in frames] == [
        b"data: a\r\n\r",
        b": c\r",
        b"event: e\ndata: b\n\n",
        b"data: d\nid: 1",
    ]


def test_an_event_completes_at_the_cr_of_its_last_line_end() -> None:
    """The LF may come seconds later and dates nothing."""
    decoder = SSEDecoder()
    assert [f.last_ns for f in decoder.feed(b"data: a\r\n\r", 5)] == [5]
    assert decoder.feed(b"\n", 9) == []
    assert [(f.first_ns, f.start) for f in decoder.feed(b"data: b\n\n", 12)] == [(12, 11)]


def test_an_event_the_end_completes_is_dated_by_its_last_byte() -> None:
    """Not by the close, nor by a comment that came after it."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\n", 5) == []
    assert [f.last_ns for f in decoder.feed(b": ping\n", 20)] == [20]
    (event,) = decoder.close()
    assert (event.first_ns, event.last_ns, event.closed) == (5, 5, False)


def test_close_gives_the_event_before_a_comment_cut_with_it() -> None:
    """In the order of their ends."""
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\n: pi", 5) == []
    assert [(f.kind, f.end, f.closed) for f in decoder.close()] == [
        ("event", 8, False),
        ("comment", 12, False),
    ]


def test_a_byte_order_mark_in_a_read_of_its_own_dates_nothing() -> None:
    """The first frame begins with the byte after it."""
    decoder = SSEDecoder()
    assert decoder.feed(b"\xef\xbb", 1) == decoder.feed(b"\xbf", 2) == []
    assert [(f.start, f.first_ns) for f in decoder.feed(b"data: a\n\n", 7)] == [(3, 7)]


LIMIT = 16
OVER = [
    ("data at the limit", b"data: " + b"x" * 16 + b"\n\n", b"x" * 16, "", False),
    ("data one over", b"data: " + b"x" * 17 + b"\n\n", b"x" * 16, "", True),
    ("far over", b"data: " + b"x" * 999 + b"\n\n", b"x" * 16, "", True),
    ("lines at the limit", b"data: 1234567\ndata: 12345678\n\n", b"1234567\n12345678", "", False),
    ("lines one over", b"data: 1234567\ndata: 123456789\n\n", b"1234567\n12345678", "", True),
    ("lines far over", b"data: 1234567\n" * 9 + b"\n", b"1234567\n1234567\n"[:16], "", True),
    ("name over", b"event: " + b"n" * 17 + b"\ndata: a\n\n", b"a", "n" * 16, True),
    ("a later name below", b"event: " + b"n" * 17 + b"\nevent: m\ndata: a\n\n", b"a", "m", False),
    ("unknown field over", b"x" * 99 + b":" + b"y" * 99 + b"\ndata: a\n\n", b"a", "", False),
]


@pytest.mark.parametrize(
    ("stream", "data", "name", "over"), [c[1:] for c in OVER], ids=[c[0] for c in OVER]
)
def test_a_frame_past_the_limit_keeps_its_prefix(
    stream: bytes, data: bytes, name: str, over: bool
) -> None:
    """It is marked, the rest of it is skipped, and the next frame is whole."""
    for reads in ([stream + b"data: next\n\n"], single_bytes(stream + b"data: next\n\n")):
        first, second = decode(reads, LIMIT)
        assert (first.data, first.name, first.truncated) == (data, name, over)
        assert (first.start, first.end) == (0, len(stream))
        assert (second.data, second.truncated) == (b"next", False)


def test_a_comment_past_the_limit_keeps_its_prefix() -> None:
    """Also when the stream's end cut it."""
    for stream in (b": " + b"c" * 40 + b"\n", b":" + b"c" * 40):
        (comment,) = decode(single_bytes(stream), LIMIT)
        assert (comment.data, comment.truncated, comment.end) == (b"c" * 16, True, len(stream))


@pytest.mark.parametrize("part", [b"x" * 4096, b"\ndata:" * 100], ids=["one line", "many lines"])
def test_memory_is_bounded_by_the_limit(part: bytes) -> None:
    """Half a megabyte and more of one event leave no more behind than the limit allows."""
    decoder = SSEDecoder(max_frame_bytes=1024)
    decoder.feed(b"data: x", 0)
    tracemalloc.start()
    for at in range(1024):
        decoder.feed(part, at)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 16 * 1024
    (event,) = decoder.close()
    assert len(event.data) == 1024
    assert event.truncated


def calls_to_decode(reads: list[bytes]) -> int:
    """How many function calls decoding takes, C functions included: work, and no clock."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    decoder = SSEDecoder()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for at, data in enumerate(reads):
            decoder.feed(data, at)
        decoder.close()
    finally:
        sys.setprofile(before)
    return calls


EVENT = b'data: {"content":"tok"}\n\n'


@pytest.mark.parametrize(
    "reads",
    [
        lambda n: [EVENT] * n,
        lambda n: [EVENT * n],
        lambda n: single_bytes(EVENT * n),
        lambda n: single_bytes(b"data: " + b"x" * (20 * n)),
        lambda n: [b"data: a\n"] * n,
        lambda n: [b": ping\n"] * n,
    ],
    ids=["a read each", "one read", "a byte a read", "one long line", "many lines", "comments"],
)
def test_work_grows_with_the_stream_and_no_faster(reads: object) -> None:
    """Ten times the stream takes ten times the calls, within one part in twenty."""
    assert callable(reads)
    small, large = calls_to_decode(reads(100)), calls_to_decode(reads(1000))
    assert small > 100
    assert large <= small * 10 * 1.05


def test_a_small_read_moves_no_long_line() -> None:
    """A megabyte of unfinished line is not copied for each byte that is added to it."""
    decoder = SSEDecoder()
    decoder.feed(b"data: " + b"x" * 1_000_000, 0)
    decoder.feed(b"x", 1)
    tracemalloc.start()
    for at in range(1000):
        decoder.feed(b"x", at)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 1024


def test_a_read_larger_than_a_slice_is_one_read() -> None:
    """Big reads are worked in slices; the frames and their times show nothing of it."""
    event = b"data: " + b"y" * 1000 + b"\r\n\r\n"
    frames = decode([event * 200])
    assert len(frames) == 200
    assert {(f.first_ns, f.last_ns, f.data) for f in frames} == {(STEP, STEP, b"y" * 1000)}
