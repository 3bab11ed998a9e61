"""From an attempt to its frames: the framing is chosen, the times are the reads'."""

import gzip
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latscope.recording import Attempt, Read
from latscope.steps import finish
from latscope.wire import sse
from latscope.wire.body import decode_attempt
from latscope.wire.frames import Frame
from latscope.wire.framing import frames
from latscope.wire.sse import SSEDecoder
from tests.wire.cutting import any_cuts

SSE, LINES, WHOLE = b"data: a\n\n", b'{"a":1}\n{"a":2}\n', b'{"a": 1}'


def attempt(content_type: str | None, body: bytes | None, *offsets: int) -> Attempt:
    """The n-th read came at n and reached this far into the body; one read of all by default."""
    ends = offsets or (len(body or b""),)
    headers = (("date", "today"), *([("content-type", content_type)] if content_type else []))
    reads = tuple(Read(n - 1, n, 1, end) for n, end in enumerate(ends, 1))
    return Attempt(headers=headers, body=body, reads=reads)


TYPES = [
    ("text/event-stream", SSE, ["event"]),
    ("Text/Event-Stream; charset=utf-8", SSE, ["event"]),
    ("application/x-ndjson", LINES, ["line", "line"]),
    ("application/jsonl;charset=utf-8", LINES, ["line", "line"]),
    ("Application/X-NDJSON ; q=1", LINES, ["line", "line"]),
    ("application/ndjson", LINES, ["line", "line"]),
    ("application/json", WHOLE, ["body"]),
    (None, WHOLE, ["body"]),
    ("", WHOLE, ["body"]),
    ("text/html", b"<html></html>", ["body"]),
    ("text/plain", b"database is down", ["body"]),
    # A wrong or missing type over an event stream.
    (None, SSE, ["event"]),
    ("application/json", b"event: x\ndata: a\n\n", ["event"]),
    ("application/x-ndjson", b"data:a\n\n", ["event"]),
    ("text/plain", b": ping\n\ndata: a\n\n", ["comment", "event"]),
    ("text/plain", b"\xef\xbb\xbf\r\n\ndata: a\n\n", ["event"]),
    # Its own type over an event stream that starts otherwise.
    ("text/event-stream", b"retry: 10\n\ndata: a\n\n", ["event"]),
    ("application/json", b"", []),
]


@pytest.mark.parametrize(("content_type", "body", "kinds"), TYPES)
def test_the_type_chooses_and_an_event_stream_gives_itself_away(
    content_type: str | None, body: bytes, kinds: list[str]
) -> None:
    """The header decides, save over a body that starts as only event streams do."""
    assert [frame.kind for frame in frames(attempt(content_type, body))] == kinds


def test_no_body_no_frames() -> None:
    """An encoding nobody could read, a body that was not kept."""
    assert frames(attempt("text/event-stream", None)) == []


def test_times_are_those_of_the_reads_that_brought_bytes() -> None:
    """A read that gave no decoded byte dates nothing."""
    found = frames(attempt(None, b"data: a\n\ndata: b\n\n", 0, 4, 4, 9, 9, 18))
    assert [(f.first_ns, f.last_ns) for f in found] == [(2, 4), (6, 6)]


def test_frames_come_in_order_of_their_end() -> None:
    """Also an event that only the body's end completed, before a comment."""
    found = frames(attempt(None, b"data: a\n: ping\n", 8, 15))
    assert [(f.kind, f.end, f.last_ns) for f in found] == [("event", 8, 1), ("comment", 15, 2)]


def test_bytes_no_read_brought_are_not_framed() -> None:
    """Nothing says when they came."""
    assert [f.data for f in frames(attempt(None, SSE + b"data: b\n\n", 9))] == [b"a"]
    assert frames(Attempt(body=SSE)) == []


def test_offsets_outside_the_body_bring_nothing() -> None:
    """A file may say anything."""
    found = frames(attempt(None, SSE, 5, 2, 9, 99))
    assert [(f.data, f.last_ns) for f in found] == [(b"a", 3)]


def test_an_encoded_stream_keeps_its_times() -> None:
    """From the wire to frames: each event has the time of the read that let it be decoded."""
    wire = gzip.compress(SSE) + gzip.compress(b"data: b\n\n")
    cut = len(gzip.compress(SSE))
    reads = (Read(0, 10, cut, 0), Read(10, 20, len(wire) - cut, 0))
    encoded = Attempt(encoding="gzip", wire=(wire[:cut], wire[cut:]), reads=reads)
    decoded, problem = decode_attempt(encoded)
    assert problem is None
    assert [(f.data, f.first_ns, f.last_ns) for f in frames(decoded)] == [
        (b"a", 10, 10),
        (b"b", 20, 20),
    ]


PLAIN = (b"data: a\n\n", b"data: \n\n", b"data: data: b\n\n", b"data: \xe2\x80\xa8 \xff\n\n")
OTHER = (
    b"data:a\n\n",
    b"data: a\ndata: b\n\n",
    b"data: a\r\n\r\n",
    b"event: e\n\n",
    b"data: a\nevent: e\n\n",
    b"event: e\ndata: a\ndata: b\n\n",
    b": ping\n\n",
    b"\n\n",
    b"\n",
    b"data: a\n",
    b"data: a",
    b"\xef\xbb\xbf",
)


NAMED = (
    b"event: e\ndata: a\n\n",
    b"event: \ndata: \n\n",
    b"event: \xff f\ndata: event: g\n\n",
    b"event: data: \ndata: data: b\n\n",
)


def plain_events(body: bytes, reads: Sequence[Read]) -> list[Frame] | None:
    return finish(sse.plain_events(body, reads))


def fed(made: Attempt) -> list[Frame]:
    """What the decoder makes of the reads, one after another."""
    decoder, at, found = SSEDecoder(), 0, []
    for read in made.reads:
        if read.body_offset > at:
            found += decoder.feed((made.body or b"")[at : read.body_offset], read.got_ns)
            at = read.body_offset
    return sorted(found + decoder.close(), key=lambda frame: frame.end)


@given(
    st.sampled_from([PLAIN, NAMED]).flatmap(
        lambda kind: st.lists(st.sampled_from(kind), min_size=1, max_size=6).map(b"".join)
    ),
    st.lists(st.integers(-1, 60), max_size=8),
    st.integers(0, 2),
)
def test_a_body_of_plain_events_gives_the_decoders_frames(
    body: bytes, offsets: list[int], over: int
) -> None:
    """However it was cut, whatever the offsets before the last say."""
    made = attempt("text/event-stream", body, *offsets, len(body) + over)
    assert plain_events(body, made.reads) == fed(made) == frames(made)


@given(st.lists(st.sampled_from(PLAIN + NAMED + OTHER), max_size=6).map(b"".join), any_cuts(40))
def test_any_other_body_is_left_to_the_decoder(body: bytes, offsets: list[int]) -> None:
    made = attempt("text/event-stream", body, *sorted(offsets))
    assert plain_events(body, made.reads) in (None, fed(made))
    assert frames(made) == fed(made)


@pytest.mark.parametrize("other", [*OTHER, *NAMED])
def test_which_bodies_are_not_plain(other: bytes) -> None:
    assert plain_events(NAMED[0] + OTHER[0], attempt(None, NAMED[0] + OTHER[0]).reads) is None
    body = SSE + other
    assert plain_events(body, attempt(None, body).reads) is None
    assert plain_events(SSE, ()) is None
    assert plain_events(SSE, (Read(0, 1, 1, len(SSE) - 1),)) is None


def test_a_body_longer_than_a_frame_may_be_is_cut_by_the_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "MAX_FRAME_BYTES", len(SSE) - 1)
    assert plain_events(SSE, attempt(None, SSE).reads) is None
