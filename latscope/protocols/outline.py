"""What is kept of a body that is not: where each event ended, its kind, its tokens, and the usage.

Made from the body as it comes, clear or masked alike, in arrays of 13 bytes an event. Ends count
bytes of the content-decoded body, as `Read.body_offset` does: an event came when the read came that
reached its end.
"""

from array import array
from dataclasses import replace
from typing import get_args

from latscope.protocols import detect
from latscope.protocols.dialect import Decoder
from latscope.protocols.events import Event, EventKind, Usage
from latscope.recording import Attempt, EventRow
from latscope.steps import Steps
from latscope.wire.frames import Frame
from latscope.wire.framing import FrameDecoder, decoder_for

KINDS: tuple[EventKind, ...] = get_args(EventKind)
_CODES = {kind: code for code, kind in enumerate(KINDS)}
_UNTOLD = -1
_USAGE = tuple(Usage.__dataclass_fields__)
_FRAMES_A_STEP = 16
_SNIFFED_BYTES = 64
"""The framing is told by so many bytes at least (see `framing`)."""


class Outline:
    """Reads one body. path: the request's; headers: the response's, names in lower case."""

    __slots__ = (
        "_decoder",
        "_ends",
        "_frames",
        "_head",
        "_headers",
        "_kinds",
        "_path",
        "_tokens",
        "usage",
    )

    def __init__(self, path: str, headers: tuple[tuple[str, str], ...]) -> None:
        self._path = path
        self._headers = headers
        self._head = b""
        self._frames: FrameDecoder | None = None
        self._decoder: Decoder | None = None
        self._ends = array("Q")
        self._kinds = array("B")
        self._tokens = array("i")
        self.usage: dict[str, int] = {}
        """The last stated value of each count: vendors repeat usage, the last one is whole."""

    def feed(self, data: bytes) -> Steps[None]:
        """Reads on, some frames a step."""
        data, self._head = self._head + data, b""
        if self._frames is None and len(data) < _SNIFFED_BYTES:
            self._head = data
        else:
            yield from self._read(self._framing(data).feed(data, 0))

    def close(self) -> Steps[None]:
        """The body is at its end."""
        head, self._head = self._head, b""
        framing = self._framing(head)
        yield from self._read([*framing.feed(head, 0), *framing.close()])

    def rows(self) -> tuple[EventRow, ...]:
        """The events so far, in the order of their ends."""
        kinds = [KINDS[code] for code in self._kinds]
        tokens = [None if count == _UNTOLD else count for count in self._tokens]
        return tuple(sorted(map(EventRow, self._ends, kinds, tokens), key=_end))

    def _framing(self, data: bytes) -> FrameDecoder:
        if self._frames is None:
            self._frames = decoder_for(self._headers, data)
        return self._frames

    def _read(self, frames: list[Frame]) -> Steps[None]:
        if self._decoder is None and frames:
            dialect = detect(self._path, frames=frames)
            self._decoder = None if dialect is None else dialect.decoder()
        if self._decoder is None:
            return
        for number, frame in enumerate(frames, 1):
            for event in self._decoder(frame):
                self._note(event)
            if number % _FRAMES_A_STEP == 0:
                yield

    def _note(self, event: Event) -> None:
        self._ends.append(event.end)
        self._kinds.append(_CODES[event.kind])
        self._tokens.append(_UNTOLD if event.tokens is None else event.tokens)
        if event.usage is not None:
            stated = ((name, getattr(event.usage, name)) for name in _USAGE)
            self.usage.update({name: count for name, count in stated if count is not None})


def outlined(attempt: Attempt, path: str) -> Steps[Attempt]:
    """The attempt without its body, its events and usage in its place; in steps. One that holds no
    body comes back as it is."""
    if attempt.body is None:
        return attempt
    outline = Outline(path, attempt.headers)
    for at in range(0, len(attempt.body), _BYTES_A_STEP):
        yield from outline.feed(attempt.body[at : at + _BYTES_A_STEP])
        yield
    yield from outline.close()
    return replace(attempt, body=None, events=outline.rows(), usage=outline.usage or None)


_BYTES_A_STEP = 4096


def _end(row: EventRow) -> int:
    return row.body_offset
