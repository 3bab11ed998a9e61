"""The frame: one event, SSE comment, JSON line or whole body, and when it arrived."""

from typing import Literal, NamedTuple

from latscope.units import Ns

FrameKind = Literal["event", "comment", "line", "body", "exception", "broken"]


class Frame(NamedTuple):
    """One unit of the stream's framing.

    kind: `event` (SSE event, message of an AWS event stream), `comment` (one SSE comment line),
    `line` (NDJSON), `body` (the whole body as one unit), `exception` (a message that says what went
    wrong), `broken` (bytes whose checksum does not fit: name and data are empty). name: the event's
    or exception's, empty when absent. data: the payload (`data:` lines joined by LF; the comment's
    text; the line; the body; the message's payload), without framing. start, end: byte
    offsets into the content-decoded body; `end` is just past the byte that completed the frame,
    and is the same however the bytes were split. first_ns, last_ns: arrival of the read that
    brought byte `start` and of the one that brought byte `end - 1`. An event's time is last_ns.
    truncated: the frame passed the decoder's byte limit; data holds what fitted below it.
    closed: false for a last event that the stream's end completed instead of a blank line, or cut.
    A bare tuple: one is made for every token.
    """

    kind: FrameKind
    name: str
    data: bytes
    start: int
    end: int
    first_ns: Ns
    last_ns: Ns
    truncated: bool = False
    closed: bool = True
