"""AWS event streams: the same frames however the bytes came, and a broken checksum told."""

import struct
from datetime import datetime
from itertools import pairwise
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from latscope.recording import Attempt, Read
from latscope.wire import eventstream
from latscope.wire.eventstream import EventStreamDecoder, headers_of, next_prelude, prelude
from latscope.wire.frames import Frame
from latscope.wire.framing import frames
from tests.wire.cutting import any_cuts, pieces, run, shapes, single_bytes
from tests.wire.messages import Value, chunk, event, exception, framed, header, message, spoiled

HELLO, PING = event("chunk", b'{"bytes":"aGk="}'), event("ping", b"")
BUSY = exception("throttlingException", "slow down")
FAULT = message({":message-type": "error", ":error-code": "Oops", ":error-message": "a secret"})

Row = tuple[str, str, bytes, int, bool]


def rows(found: list[Frame]) -> list[Row]:
    return [(f.kind, f.name, f.data, f.end - f.start, f.closed) for f in found]


def row(kind: str, name: str, data: bytes, raw: bytes) -> Row:
    return (kind, name, data, len(raw), True)


def broken(size: int, *, closed: bool = True) -> Row:
    return ("broken", "", b"", size, closed)


OK = row("event", "chunk", b'{"bytes":"aGk="}', HELLO)
NOISE = b"\x00\x00\x01\x00\x00\x00\x00\x10 no prelude \x01\xff"

CASES: dict[str, tuple[bytes, list[Row]]] = {
    "nothing": (b"", []),
    "one": (HELLO, [OK]),
    "an empty payload": (PING, [row("event", "ping", b"", PING)]),
    "neither headers nor payload": (framed(b"", b""), [row("event", "", b"", framed(b"", b""))]),
    "an exception": (
        HELLO + BUSY,
        [OK, row("exception", "throttlingException", b'{"message": "slow down"}', BUSY)],
    ),
    "an error": (FAULT + HELLO, [row("exception", "Oops", b"", FAULT), OK]),
    "a message whose checksum does not fit": (
        HELLO + spoiled(HELLO, len(HELLO) - 9) + HELLO,
        [OK, broken(len(HELLO)), OK],
    ),
    "a checksum that is itself spoiled": (spoiled(HELLO, -1 % len(HELLO)), [broken(len(HELLO))]),
    "a prelude whose checksum does not fit": (
        HELLO + spoiled(HELLO, 9) + HELLO,
        [OK, broken(len(HELLO)), OK],
    ),
    "a length that is spoiled": (spoiled(HELLO, 2) + HELLO + HELLO, [broken(len(HELLO)), OK, OK]),
    "noise before, between and behind": (
        NOISE + HELLO + NOISE + NOISE + HELLO + NOISE,
        [broken(len(NOISE)), OK, broken(2 * len(NOISE)), OK, broken(len(NOISE), closed=False)],
    ),
    "cut in the payload": (HELLO + BUSY[:-9], [OK, broken(len(BUSY) - 9, closed=False)]),
    "cut in the prelude": (HELLO + BUSY[:7], [OK, broken(7, closed=False)]),
    "headers that lie about their length": (
        framed(b"\x0b:event-type\x07\x00\x09chunk", b"") + HELLO,
        [broken(16 + 20), OK],
    ),
    "a header of an unknown type": (framed(b"\x01a\x0a\x00", b"") + HELLO, [broken(20), OK]),
    "a header without its type": (framed(b"\x03abc", b"") + HELLO, [broken(20), OK]),
    "a header without its value's length": (framed(b"\x01a\x07\x00", b""), [broken(20)]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_frames_are_those_of_the_messages(case: str) -> None:
    body, expected = CASES[case]
    assert rows(run(EventStreamDecoder(), [body])) == expected


@pytest.mark.parametrize("case", CASES)
def test_byte_by_byte_the_frames_are_the_same(case: str) -> None:
    body, _ = CASES[case]
    whole = run(EventStreamDecoder(), [body])
    assert shapes(run(EventStreamDecoder(), single_bytes(body))) == shapes(whole)


@given(st.sampled_from(sorted(CASES)), any_cuts(400))
def test_cut_anywhere_the_frames_are_the_same(case: str, cuts: list[int]) -> None:
    body, _ = CASES[case]
    whole = run(EventStreamDecoder(), [body])
    assert shapes(run(EventStreamDecoder(), pieces(body, cuts))) == shapes(whole)


@given(st.lists(st.binary(max_size=60) | st.sampled_from([HELLO, BUSY, PING])), any_cuts(600))
def test_any_bytes_are_framed_whole_and_without_overlap(
    parts: list[bytes], cuts: list[int]
) -> None:
    """Whatever comes, every byte lies in one frame, and cutting changes nothing."""
    body = b"".join(parts)
    found = run(EventStreamDecoder(), [body])
    assert [f.start for f in found] == [0, *(f.end for f in found)][: len(found)]
    assert (found[-1].end if found else 0) == len(body)
    assert all(a.end == b.start for a, b in pairwise(found))
    assert shapes(run(EventStreamDecoder(), pieces(body, cuts))) == shapes(found)


VALUES = (
    st.text(max_size=20) | st.binary(max_size=20) | st.booleans() | st.integers(-(2**63), 2**63 - 1)
)
NAMES = st.text("abcdefghij:-", min_size=1, max_size=12)


@given(
    st.lists(
        st.tuples(st.dictionaries(NAMES, VALUES, max_size=4), st.binary(max_size=50)), max_size=4
    )
)
def test_botocore_reads_the_same_messages(sent: list[tuple[dict[str, Value], bytes]]) -> None:
    """The decoder of AWS's own client as the oracle, of headers and payloads alike."""
    body = b"".join(message(headers, payload) for headers, payload in sent)
    theirs = EventStreamBuffer()
    theirs.add_data(body)
    read = list(theirs)
    found = run(EventStreamDecoder(), [body])
    assert [bytes(m.payload) for m in read] == [f.data for f in found] == [p for _, p in sent]
    for each, (headers, _) in zip(read, sent, strict=True):
        block = b"".join(header(name, value) for name, value in headers.items())
        assert [h.name for h in headers_of(block) or []] == list(each.headers)


def test_every_type_of_header_has_its_size() -> None:
    """All ten, and the message's type behind them is still found."""
    stamp = struct.pack(">q", int(datetime(2026, 1, 1).timestamp() * 1000))
    sizes = {0: b"", 1: b"", 2: b"a", 3: b"ab", 4: b"abcd", 5: b"abcdefgh", 8: stamp, 9: b"u" * 16}
    block = b"".join(b"\x01h" + bytes([kind]) + value for kind, value in sizes.items())
    block += header("bytes", b"raw") + header(":message-type", "exception")
    block += header(":exception-type", "modelTimeoutException")
    found = headers_of(block)
    assert found is not None
    assert [block[h.start : h.end] for h in found[:8]] == list(sizes.values())
    (frame,) = run(EventStreamDecoder(), [framed(block, b"{}")])
    assert (frame.kind, frame.name) == ("exception", "modelTimeoutException")


def test_a_message_is_dated_by_the_reads_that_brought_it() -> None:
    """Begun in the first read, ended in the third; the next came whole with it."""
    reads = [HELLO[:5], HELLO[5:30], HELLO[30:] + PING]
    found = run(EventStreamDecoder(), reads)
    assert [(f.first_ns, f.last_ns) for f in found] == [(1000, 3000), (3000, 3000)]


def test_a_long_stream_forgets_the_reads_it_framed() -> None:
    """The arrivals kept do not grow with the stream, and the last are still right."""
    decoder = EventStreamDecoder()
    for n in range(1, 2001):
        (frame,) = decoder.feed(PING, n)
        assert frame.last_ns == n
    assert len(decoder._clock._times) <= 600


@pytest.mark.parametrize(
    ("total", "size"),
    [(15, 0), (16, 1), (100, 85), (0, 0), (24 * 2**20 + 17, 0), (2**20, 2**17 + 1)],
)
def test_lengths_no_message_has_are_no_prelude(total: int, size: int) -> None:
    """Whatever their checksum says: nothing is waited for that cannot come."""
    lengths = struct.pack(">II", total, size)
    raw = lengths + struct.pack(">I", crc32(lengths))
    assert prelude(raw) is None
    assert next_prelude(b"x" + raw, 0) == -1


@pytest.mark.parametrize(("total", "size"), [(16, 0), (24 * 2**20 + 16, 0), (2**24, 2**17)])
def test_the_lengths_a_message_may_have(total: int, size: int) -> None:
    lengths = struct.pack(">II", total, size)
    raw = lengths + struct.pack(">I", crc32(lengths))
    assert prelude(raw) == (total, size)
    assert next_prelude(b"xx\x00\x00" + raw, 0) == 4
    assert prelude(raw[:-1]) is None


def test_the_search_for_a_prelude_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind so much noise nothing is read any more, in one read or byte by byte."""
    monkeypatch.setattr(eventstream, "MAX_SEARCH_BYTES", 60)
    near, far = b"n" * 60 + HELLO, b"n" * 61 + HELLO + HELLO
    assert rows(run(EventStreamDecoder(), [near])) == [broken(60), OK]
    for reads in ([far], single_bytes(far)):
        assert rows(run(EventStreamDecoder(), reads)) == [broken(len(far), closed=False)]


def attempt(content_type: str | None, body: bytes) -> Attempt:
    headers = (("content-type", content_type),) if content_type else ()
    return Attempt(headers=headers, body=body, reads=(Read(0, 7, len(body), len(body)),))


@pytest.mark.parametrize(
    ("content_type", "body", "kinds"),
    [
        ("application/vnd.amazon.eventstream", HELLO, ["event"]),
        ("application/octet-stream", chunk({"type": "ping"}), ["event"]),
        (None, HELLO + PING, ["event", "event"]),
        ("Application/Vnd.Amazon.EventStream", NOISE + HELLO, ["broken", "event"]),
        (None, NOISE + HELLO, ["body"]),
    ],
)
def test_the_type_or_the_first_prelude_chooses(
    content_type: str | None, body: bytes, kinds: list[str]
) -> None:
    found = frames(attempt(content_type, body))
    assert [frame.kind for frame in found] == kinds
    assert {frame.last_ns for frame in found} == {7}
