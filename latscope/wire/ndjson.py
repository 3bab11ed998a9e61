"""JSON lines (application/x-ndjson): one frame a line, with the arrival of its first and last byte.

LF ends a line and a CR before it is not part of it; a CR elsewhere is white space inside JSON, so
it ends nothing. Blank lines are skipped (https://github.com/ndjson/ndjson-spec, 3.1 and 3.2).
"""

from latscope.units import Ns
from latscope.wire.frames import Frame
from latscope.wire.lines import Line, Lines
from latscope.wire.sse import MAX_FRAME_BYTES

_WHITE = b" \t\r"


class NDJSONDecoder:
    """Reads one stream of JSON lines. max_frame_bytes: of a longer line that many bytes are kept,
    and its frame is `truncated`."""

    __slots__ = ("_limit", "_lines")

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._limit = max_frame_bytes
        # Two more: a CR before the LF, and one byte to see that the line went on.
        self._lines = Lines(cr=False, keep=max_frame_bytes + 2)

    def feed(self, data: bytes, ns: Ns) -> list[Frame]:
        """The frames that `data`, arrived at `ns`, completes."""
        lines = self._lines.feed(data, ns)
        return [self._frame(line, ns, closed=True) for line in lines if line[0].strip(_WHITE)]

    def close(self) -> list[Frame]:
        """The last line when no LF completed it, dated by its last byte."""
        line = self._lines.close()
        if line is None or not line[0].strip(_WHITE):
            return []
        return [self._frame(line, self._lines.last_ns, closed=False)]

    def _frame(self, line: Line, ns: Ns, *, closed: bool) -> Frame:
        text, start, end, first_ns = line
        text = text.removesuffix(b"\r")
        over = len(text) > self._limit
        return Frame("line", "", text[: self._limit], start, end, first_ns, ns, over, closed)
