"""An answer taken in parts, while it comes, is the answer taken at once."""

import gzip
import sys
from collections.abc import Generator, Iterator
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latscope.middleware import body as made
from latscope.middleware.body import TRUNCATED, Body
from latscope.protocols.mask.body import mask_body
from latscope.protocols.mask.gradual import GradualMask
from latscope.protocols.outline import outlined
from latscope.recording import Attempt, Mark, Read
from latscope.steps import finish
from latscope.timeline.stream import read_stream
from tests.protocols.test_mask_properties import bodies
from tests.wire.cutting import any_cuts, pieces

from .server import CANARY, stream

Found = TypeVar("Found")
CLOSED = Attempt(marks=(Mark("entry", 0), Mark("body.end", 9)))
STREAM = stream() * 5
SSE = [(b"Content-Type", b"text/event-stream")]
GZIP = [*SSE, (b"Content-Encoding", b"gzip")]


class Url:
    path = "/v1/chat/completions"


def done(steps: Generator[None, None, Found]) -> Found:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found


def flat(chunks: list[bytes], first: int = 0) -> list[object]:
    """As the recorder hands reads over: asked, got, chunk; ..."""
    reads: list[object] = []
    for number, chunk in enumerate(chunks, first):
        reads += [100 + 10 * number, 105 + 10 * number, chunk]
    return reads


def taken(
    parts: list[list[bytes]],
    raw: list[tuple[bytes, bytes]] = SSE,
    *,
    limit: int = 1 << 22,
    clear: bool = False,
    attempt: Attempt = CLOSED,
) -> tuple[Attempt, Body]:
    """Each part is handed over while the stream is open, but for the last."""
    body = Body(raw, Url, None if clear else GradualMask(), limit)
    at = 0
    for part in parts[:-1]:
        done(body.add(flat(part, at)))
        at += len(part)
    return done(body.finish(attempt, flat(parts[-1], at), 100)), body


def grouped(chunks: list[bytes], size: int) -> list[list[bytes]]:
    return [chunks[at : at + size] for at in range(0, len(chunks), size)] or [[]]


@settings(deadline=None)
@given(bodies(), any_cuts(200), st.integers(1, 5), st.booleans())
def test_any_body_in_any_parts(body: bytes, cuts: list[int], size: int, coded: bool) -> None:
    """Mask and offsets are those of the whole, coded or not."""
    wire = gzip.compress(body, mtime=0) if coded else body
    chunks = pieces(wire, cuts)
    attempt, kept = taken(grouped(chunks, size), GZIP if coded else SSE)
    whole, _ = taken([chunks], GZIP if coded else SSE)
    assert attempt == whole
    assert attempt.body == finish(mask_body(body))
    assert attempt.reads[-1].body_offset == len(body)
    assert [read[:3] for read in attempt.reads] == [
        (10 * n, 5 + 10 * n, len(chunk)) for n, chunk in enumerate(chunks)
    ]
    assert kept.faults == []


def test_clear_where_no_mask_is_wanted() -> None:
    attempt, _ = taken(grouped(pieces(STREAM, range(0, len(STREAM), 50)), 3), clear=True)
    assert attempt.body == STREAM


def test_a_cut_coding_is_told_and_what_came_is_kept() -> None:
    wire = gzip.compress(STREAM)
    attempt, body = taken([[wire[:60]], [wire[60:-20]]], GZIP)
    assert attempt.body
    assert body.faults == ["encoding: the gzip data ends early"]
    left = Attempt(marks=(Mark("entry", 0), Mark("closed", 9)))
    assert taken([[wire[:60]], [wire[60:-20]]], GZIP, attempt=left)[1].faults == []


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("clear", [False, True])
def test_past_the_limit_the_events_stand_for_the_body(size: int, clear: bool) -> None:
    """The same events, times and usage as the whole tells; and none of the text."""
    chunks = pieces(STREAM, range(0, len(STREAM), 70))
    attempt, body = taken(grouped(chunks, size), limit=300, clear=clear)
    whole, _ = taken([chunks])
    assert attempt.body is None
    assert body.faults == [TRUNCATED]
    expected = done(outlined(whole, Url.path))
    assert (attempt.events, attempt.usage) == (expected.events, expected.usage)
    assert attempt.reads == whole.reads
    kept, full = (finish(read_stream(one, Url.path, 0)) for one in (attempt, whole))
    assert [(e.kind, e.ns, e.end) for e in kept.events] == [
        (e.kind, e.ns, e.end) for e in full.events
    ]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_document_past_the_limit_is_left_out(size: int) -> None:
    """There is no part of it that could be told from the rest. Its reads stay."""
    document = b'{"choices": [{"message": {"content": "%b"}}]}' % (b"a" * 2000)
    chunks = pieces(document, range(0, len(document), 100))
    attempt, body = taken(grouped(chunks, size), limit=1000)
    assert (attempt.body, attempt.events, body.faults) == (None, None, [TRUNCATED])
    assert len(attempt.reads) == len(chunks)


def test_one_event_past_the_limit_ends_the_outline() -> None:
    """An event that is never over must not be held for ever; those before it stay."""
    chunks = [stream(), b"data: ", *[b"x" * 100] * 20]
    attempt, body = taken(grouped(chunks, 1), limit=500)
    assert attempt.body is None
    assert attempt.events
    assert body.faults == [TRUNCATED]
    assert len(attempt.reads) == len(chunks)


def test_a_mask_that_raises_costs_the_body_only() -> None:
    """Its name is told, and no word of what it stumbled over."""

    class Broken(GradualMask):
        def feed(self, data: bytes) -> Generator[None, None, bytes]:
            raise RuntimeError(CANARY)

    body = Body(SSE, Url, Broken())
    done(body.add(flat([STREAM])))
    attempt = done(body.finish(CLOSED, flat([b"more"], 1), 100))
    assert (attempt.body, body.faults) == (None, ["mask: RuntimeError"])
    assert len(attempt.reads) == 2


def test_what_the_consumer_held_is_found_across_parts() -> None:
    body = Body(SSE, Url, GradualMask())
    ms = 1_000_000
    done(body.add([0, 1, b"a", 2 * ms + 1, 3 * ms, b"b"]))
    done(body.add([9 * ms, 9 * ms, b"c"], last=True))
    assert body.consumed() == [(2 * ms, 1), (6 * ms, 3 * ms)]


def size_of(body: Body) -> int:
    """Bytes that the parts of it take up."""
    held = [body._times, body._sizes, body._packed, *body._packed]
    return sum(map(sys.getsizeof, held))


def test_an_open_stream_is_small() -> None:
    """Of 20,000 reads of 230 bytes no more stays than 32 bytes each and the packed copy."""

    def chunks() -> Iterator[bytes]:
        for number in range(20_000):
            yield b'data: {"choices":[{"index":0,"delta":{"content":"t%d"}}]}\n\n' % number

    body = Body(SSE, Url, GradualMask(), sys.maxsize)
    part: list[bytes] = []
    for chunk in chunks():
        part.append(chunk)
        if len(part) == 500:
            done(body.add(flat(part)))
            part.clear()
    packed = sum(map(len, body._packed))
    assert packed < 20_000 * 60 / 8
    assert size_of(body) - packed <= 20_000 * 32 + 4096


def test_the_work_is_done_in_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one for every four events and one for every 32 reads."""
    body = Body(SSE, Url, GradualMask())
    chunks = pieces(STREAM, range(0, len(STREAM), 10))
    assert sum(1 for _ in body.add(flat(chunks))) >= STREAM.count(b"\n\n") // 4 + len(chunks) // 32
    assert made.KEPT_BYTES == 4 * 1024 * 1024


def test_reads_are_those_of_the_recording() -> None:
    attempt, _ = taken([[b"data: a\n\n"]])
    assert attempt.reads == (Read(0, 5, 9, 9),)
