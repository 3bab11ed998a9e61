"""From an attempt to its frames: which framing the body has, and when its bytes arrived."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Protocol

from latscope.recording import Attempt
from latscope.steps import Steps, finish
from latscope.units import Ns
from latscope.wire import eventstream
from latscope.wire.body import BodyDecoder
from latscope.wire.eventstream import EventStreamDecoder
from latscope.wire.frames import Frame
from latscope.wire.ndjson import NDJSONDecoder
from latscope.wire.sse import SSEDecoder, plain_events


class FrameDecoder(Protocol):
    """What every framing does. One object reads one body."""

    def feed(self, data: bytes, ns: Ns) -> list[Frame]:
        """The frames that `data`, arrived at `ns`, completes."""
        ...

    def close(self) -> list[Frame]:
        """The frames that the end of the body completes."""
        ...


_FRAMINGS: Mapping[str, Callable[[], FrameDecoder]] = MappingProxyType(
    {
        "text/event-stream": SSEDecoder,
        "application/vnd.amazon.eventstream": EventStreamDecoder,
        "application/x-ndjson": NDJSONDecoder,
        "application/ndjson": NDJSONDecoder,
        "application/jsonl": NDJSONDecoder,
    }
)

# How an event stream may start. No JSON, no HTML starts so.
_SSE_STARTS = (b"data:", b"event:", b":")
_SNIFFED_BYTES = 64
READS_A_STEP = 32
"""Reads framed line by line at a stretch."""


def frames(attempt: Attempt) -> list[Frame]:
    """The frames of the attempt's body in the order of their `end`; none without a body.

    A frame's times are those of the reads that brought its bytes. Bytes beyond the last read's
    body_offset have no known arrival and are not framed.
    """
    return finish(frames_steps(attempt))


def frames_steps(attempt: Attempt) -> Steps[list[Frame]]:
    """`frames`, some at a time."""
    if attempt.body is None:
        return []
    plain = yield from plain_events(attempt.body, attempt.reads)
    if plain is not None:
        return plain
    decoder = decoder_for(attempt.headers, attempt.body[:_SNIFFED_BYTES])
    found: list[Frame] = []
    at = 0
    for number, read in enumerate(attempt.reads):
        if number % READS_A_STEP == 0:
            yield
        if read.body_offset > at:
            found += decoder.feed(attempt.body[at : read.body_offset], read.got_ns)
            at = read.body_offset
    found += decoder.close()
    # An event that only the body's end completed may lie before comments already given.
    found.sort(key=_end)
    return found


def decoder_for(headers: tuple[tuple[str, str], ...], start: bytes) -> FrameDecoder:
    """A fresh decoder for a body with these response headers (names in lower case) that starts
    with `start`. A body that starts like an event stream, of either sort, is read as one whatever
    its content type says; otherwise the type decides, and an unknown one means one whole body."""
    if start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n").startswith(_SSE_STARTS):
        return SSEDecoder()
    if eventstream.prelude(start) is not None:
        return EventStreamDecoder()
    content_type = dict(headers).get("content-type", "")
    return _FRAMINGS.get(content_type.partition(";")[0].strip().lower(), BodyDecoder)()


_end = attrgetter("end")
