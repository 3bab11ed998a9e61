"""Server-sent events: bytes to frames, each with the arrival of its first and last byte.

Follows WHATWG HTML, "Interpreting an event stream"
(https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation), on
bytes: no text is decoded, so neither Unicode line separators nor a character split between two
reads can cut a line. It departs from that text in three places, each for the sake of timing:

- A comment is a frame of its own, even one inside an event: it shows that bytes moved.
- An event that the stream's end completed is kept, with `closed` false; a browser drops it.
- `id` and `retry` serve reconnection, which nobody does here; they are dropped.
"""

from collections.abc import Sequence

from latscope.recording import Read
from latscope.steps import Steps
from latscope.units import Ns
from latscope.wire.frames import Frame
from latscope.wire.lines import Line, Lines

A_STEP = 128
"""Events framed at a stretch."""
MAX_FRAME_BYTES = 8 * 1024 * 1024
"""How much of one frame's data is kept."""

_COLON = 0x3A
_SPACE = 0x20
# A big read goes in slices, so that its lines are not all held at once beside its frames; the
# frames are the same however it is split.
_SLICE_BYTES = 64 * 1024
# What may stand before the value on its line, and one byte to see that the value went on.
_FIELD_BYTES = len("event: ") + 1


def plain_events(body: bytes, reads: Sequence[Read]) -> Steps[list[Frame] | None]:
    """The frames of a body that is nothing but whole events of one `data: ` line each, as chat
    streams are, or one `event: ` line and one `data: ` line each, as Messages' and Responses' are;
    null of any other body, and where the reads did not bring it all.

    A short cut for the body of a finished call, which every token passes: `SSEDecoder`, fed the
    reads one after another, makes the same frames. With no CR, a blank line last, and as many line
    ends as the beginnings of events account for, there is no other way to cut the body.
    """
    if not reads or reads[-1].body_offset < len(body) or len(body) > MAX_FRAME_BYTES:
        return None
    rows = _rows(body) if body.endswith(b"\n\n") and b"\r" not in body else None
    if rows is None:
        return None
    frames: list[Frame] = []
    coming, reached, ns, at = iter(reads), 0, 0, 0
    for number, (name, text, size) in enumerate(rows):
        if number % A_STEP == 0:
            yield
        end = at + size
        while reached <= at:
            _, ns, _, reached = next(coming)
        first_ns = ns
        while reached < end:
            _, ns, _, reached = next(coming)
        frames.append(_new(Frame, ("event", name, text, at, end, first_ns, ns, False, True)))
        at = end
    return frames


def _rows(body: bytes) -> list[tuple[str, bytes, int]] | None:
    """The name, the data and the size of each event."""
    if body.startswith(_DATA):
        texts = body[len(_DATA) : -2].split(b"\n\n" + _DATA)
        whole = body.count(b"\n") == 2 * len(texts)
        return [("", text, len(text) + len(_DATA) + 2) for text in texts] if whole else None
    if not body.startswith(_EVENT):
        return None
    blocks = body[len(_EVENT) : -2].split(b"\n\n" + _EVENT)
    parts = [block.partition(b"\n" + _DATA) for block in blocks]
    if body.count(b"\n") != 3 * len(parts) or not all(line for _, line, _ in parts):
        return None
    words = {name: name.decode("utf-8", "replace") for name in {part[0] for part in parts}}
    extra = len(_EVENT) + len(_DATA) + 3
    return [(words[name], text, len(name) + len(text) + extra) for name, _, text in parts]


_DATA, _EVENT = b"data: ", b"event: "
_new = tuple.__new__  # what Frame() comes down to, without its defaults


class SSEDecoder:
    """Reads one event stream. Frames come in the order of their `end`, but for an event that only
    `close` completes: comments that came after its last line were handed out before it.

    max_frame_bytes: of longer data (or a longer event name) that many bytes are kept, and the
    frame is `truncated`; the rest is skipped and the stream goes on.
    """

    __slots__ = (
        "_data",
        "_end",
        "_end_ns",
        "_first_ns",
        "_limit",
        "_lines",
        "_name",
        "_over",
        "_start",
    )

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._limit = max_frame_bytes
        self._lines = Lines(cr=True, keep=max_frame_bytes + _FIELD_BYTES)
        self._start = -1  # offset of the event's first line; -1 between events
        self._reset()

    def feed(self, data: bytes, ns: Ns) -> list[Frame]:
        """The frames that `data`, arrived at `ns`, completes."""
        if len(data) <= _SLICE_BYTES:
            return self._feed(data, ns)
        frames: list[Frame] = []
        for at in range(0, len(data), _SLICE_BYTES):
            frames += self._feed(data[at : at + _SLICE_BYTES], ns)
        return frames

    def close(self) -> list[Frame]:
        """What the end of the stream completes: an event with no blank line, a comment with no
        line end. Dated by their last byte, however much later the stream ended."""
        line, comments = self._lines.close(), []
        if line is not None and line[0][0] == _COLON:
            comments = [self._comment(line, self._lines.last_ns, closed=False)]
        elif line is not None:
            self._field(line, self._lines.last_ns)
        events = [] if self._data is None else [self._event(self._end, self._end_ns, closed=False)]
        self._reset()
        return events + comments

    def _feed(self, data: bytes, ns: Ns) -> list[Frame]:
        frames = self._whole(data, ns)
        if frames:
            return frames
        for line in self._lines.feed(data, ns):
            text = line[0]
            if not text:
                if self._data is not None:
                    frames.append(self._event(line[2], ns, closed=True))
                self._reset()
            elif text[0] == _COLON:
                frames.append(self._comment(line, ns, closed=True))
            else:
                self._field(line, ns)
        return frames

    def _whole(self, data: bytes, ns: Ns) -> list[Frame]:
        """The events of a read that brought whole ones and nothing else, each of a line of data and
        perhaps a name before it, as most servers write them; none of any other read. A short cut:
        line by line they come out the same."""
        at = self._lines.fresh()
        if at is None or self._start >= 0 or b"\r" in data or not data.endswith(b"\n\n"):
            return []
        frames: list[Frame] = []
        for block in data[:-2].split(b"\n\n"):
            value, word = block, ""
            if block.startswith(b"event: "):
                head, _, value = block.partition(b"\n")
                word = head[7:].decode("utf-8", "replace")
            if not value.startswith(b"data: ") or b"\n" in value or len(block) > self._limit:
                return []
            end = at + len(block) + 2
            frames.append(Frame("event", word, value[6:], at, end, ns, ns))
            at = end
        self._lines.passed(len(data), ns)
        return frames

    def _reset(self) -> None:
        # A block without data dispatches nothing, and its event name dies with it.
        self._start = -1
        self._first_ns = self._end_ns = self._end = 0
        self._name = b""
        self._data: bytes | bytearray | None = None
        self._over = False

    def _field(self, line: Line, ns: Ns) -> None:
        text, start, self._end, first_ns = line
        self._end_ns = ns
        if self._start < 0:
            self._start, self._first_ns = start, first_ns
        name, _, value = text.partition(b":")
        if value and value[0] == _SPACE:
            value = value[1:]
        if name == b"data":
            self._append(value)
        elif name == b"event":
            self._name = value

    def _append(self, value: bytes) -> None:
        """One data line; a further one is joined to those before by LF."""
        data = self._data
        if data is None:
            self._over = len(value) > self._limit
            self._data = value[: self._limit]
            return
        if not isinstance(data, bytearray):
            data = self._data = bytearray(data)
        room = self._limit - len(data)
        self._over = len(value) + 1 > room  # once over, always: then there is no room
        data += (b"\n" + value)[:room]

    def _event(self, end: int, ns: Ns, *, closed: bool) -> Frame:
        name, data, limit = self._name, bytes(self._data or b""), self._limit
        over = self._over or len(name) > limit
        word = name[:limit].decode("utf-8", "replace")
        return Frame("event", word, data, self._start, end, self._first_ns, ns, over, closed)

    def _comment(self, line: Line, ns: Ns, *, closed: bool) -> Frame:
        text, start, end, first_ns = line
        value = text[2:] if text[1:2] == b" " else text[1:]
        over = len(value) > self._limit
        return Frame("comment", "", value[: self._limit], start, end, first_ns, ns, over, closed)
