"""JSON lines, cut in every way."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latscope.wire.ndjson import NDJSONDecoder

from .cutting import any_cuts, pieces, run, shapes, single_bytes

CASES = [
    ("LF", b'{"a":1}\n{"a":2}\n', [(b'{"a":1}', 0, 8, True), (b'{"a":2}', 8, 16, True)]),
    ("CRLF", b'{"a":1}\r\n[2]\r\n', [(b'{"a":1}', 0, 9, True), (b"[2]", 9, 14, True)]),
    ("CR alone is white space", b'{"a":\r1}\n', [(b'{"a":\r1}', 0, 9, True)]),
    ("blank lines", b"\n \t\r\n\r\n1\n\n", [(b"1", 7, 9, True)]),
    ("no last line end", b"1\n2", [(b"1", 0, 2, True), (b"2", 2, 3, False)]),
    ("cut at a CR", b"1\n2\r", [(b"1", 0, 2, True), (b"2", 2, 4, False)]),
    ("blank without line end", b"1\n  ", [(b"1", 0, 2, True)]),
    ("BOM", b"\xef\xbb\xbf1\n", [(b"1", 3, 5, True)]),
    ("half a BOM", b"\xef\xbb", [(b"\xef\xbb", 0, 2, False)]),
    (
        "line separators of Unicode",
        '"\u2028\u0085"\n'.encode(),
        [('"\u2028\u0085"'.encode(), 0, 8, True)],
    ),
    ("empty", b"", []),
]
LIMIT = 8
OVER = [
    (b"12345678\n", b"12345678", False),
    (b"12345678\r\n", b"12345678", False),
    (b"123456789\n", b"12345678", True),
    (b"123456789\r\n", b"12345678", True),
    (b"12345678\r9\n", b"12345678", True),
    (b"x" * 99 + b"\n", b"x" * 8, True),
    (b"x" * 99, b"x" * 8, True),
]


@pytest.mark.parametrize(("stream", "rows"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_lines_give_their_frames_however_cut(
    stream: bytes, rows: list[tuple[bytes, int, int, bool]]
) -> None:
    """Whole, byte by byte and at any cuts; LF alone ends a line, blank ones are skipped."""
    whole = run(NDJSONDecoder(), [stream])
    assert [(f.data, f.start, f.end, f.closed) for f in whole] == rows
    assert all((f.kind, f.name, f.truncated) == ("line", "", False) for f in whole)
    assert shapes(run(NDJSONDecoder(), single_bytes(stream))) == shapes(whole)

    @settings(max_examples=30, deadline=None)
    @given(any_cuts(len(stream)))
    def check(cuts: list[int]) -> None:
        assert shapes(run(NDJSONDecoder(), pieces(stream, cuts))) == shapes(whole)

    check()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"{}", b"\xef\xbb\xbf"])).map(b"".join),
    any_cuts(30),
    st.integers(1, 4),
)
def test_any_lines_are_the_same_however_cut(stream: bytes, cuts: list[int], limit: int) -> None:
    """Under any byte limit too."""
    whole = run(NDJSONDecoder(max_frame_bytes=limit), [stream])
    cut = run(NDJSONDecoder(max_frame_bytes=limit), pieces(stream, cuts))
    assert shapes(cut) == shapes(whole)


@pytest.mark.parametrize(("line", "data", "over"), OVER)
def test_a_line_past_the_limit_keeps_its_prefix(line: bytes, data: bytes, over: bool) -> None:
    """It is marked, and offsets count every byte. The CR of a CRLF is none of the line's."""
    for reads in ([line], single_bytes(line)):
        (frame,) = run(NDJSONDecoder(max_frame_bytes=LIMIT), reads)
        assert (frame.data, frame.truncated, frame.end) == (data, over, len(line))


def test_a_line_that_starts_with_white_space_past_the_limit_is_blank() -> None:
    """What is kept of it says nothing; it is skipped however it came, and the next one is whole."""
    stream = b" " * 99 + b"1\n2\n"
    for reads in ([stream], single_bytes(stream)):
        assert [f.data for f in run(NDJSONDecoder(max_frame_bytes=LIMIT), reads)] == [b"2"]


def test_the_last_line_is_dated_by_its_last_byte() -> None:
    """Not by the close."""
    decoder = NDJSONDecoder()
    assert decoder.feed(b'{"a"', 3) == decoder.feed(b":1}", 4) == []
    assert [(f.first_ns, f.last_ns) for f in decoder.close()] == [(3, 4)]
