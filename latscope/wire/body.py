"""Bodies: content-encoding undone as the bytes come, and a whole body framed as one unit."""

from dataclasses import replace
from itertools import chain, repeat

from latscope.recording import Attempt, Read
from latscope.steps import Steps, finish
from latscope.units import Ns
from latscope.wire.codings import CODINGS, TOO_LONG, Step
from latscope.wire.frames import Frame

MAX_BODY_BYTES = 64 * 1024 * 1024
"""How much of one decoded body is kept: a few bytes can ask for gigabytes."""

MAX_ENCODINGS = 5
"""Codings on top of each other. Each holds a window, and a header has room for thousands."""


class BodyDecoder:
    """Frames a whole body as one unit, given at `close` and dated by its last byte.

    max_frame_bytes: of a longer body that many bytes are kept, and the frame is `truncated`.
    """

    __slots__ = ("_data", "_fed", "_first_ns", "_last_ns", "_limit")

    def __init__(self, *, max_frame_bytes: int = MAX_BODY_BYTES) -> None:
        self._limit = max_frame_bytes
        self._data = bytearray()
        self._fed = 0
        self._first_ns: Ns = 0
        self._last_ns: Ns = 0

    def feed(self, data: bytes, ns: Ns) -> list[Frame]:
        """Nothing yet: a body is complete at its end only."""
        if data:
            if not self._fed:
                self._first_ns = ns
            self._fed += len(data)
            self._last_ns = ns
            self._data += data[: self._limit - len(self._data)]
        return []

    def close(self) -> list[Frame]:
        """The body as one frame; none when it was empty."""
        if not self._fed:
            return []
        data, size, self._fed = bytes(self._data), self._fed, 0
        self._data.clear()
        over = size > self._limit
        return [Frame("body", "", data, 0, size, self._first_ns, self._last_ns, over)]


class ContentDecoder:
    """Undoes a content-encoding as the bytes come. Never raises: what stopped it is `problem`.

    encoding: the header's value, codings in the order they were applied (`gzip, br`), or null.
    max_bytes: where the output of the whole, and of every coding in it, is cut.
    """

    __slots__ = ("_room", "_steps", "problem")

    def __init__(self, encoding: str | None, *, max_bytes: int = MAX_BODY_BYTES) -> None:
        self.problem: str | None = None
        """Why no more is decoded, in words; null while all is well."""
        self._room = max_bytes
        self._steps: list[Step] = []
        names = [name.strip().lower() for name in (encoding or "").split(",")]
        names = [name for name in names if name not in ("", "identity")]
        if len(names) > MAX_ENCODINGS:
            self.problem = f"encoding: more than {MAX_ENCODINGS} content-encodings"
            return
        for name in reversed(names):
            self._add(name, max_bytes)

    def feed(self, data: bytes) -> bytes:
        """What `data` decodes to; nothing once there is a problem."""
        if self.problem is not None:
            return b""
        for step in self._steps:
            # What came out before a problem still goes the rest of the way.
            data = step.feed(data)
            self.problem = self.problem or step.problem
        if len(data) > self._room:
            self.problem = TOO_LONG
        data = data[: self._room]
        self._room -= len(data)
        return data

    def close(self) -> None:
        """The body is at its end: where its codings are not, that is a problem."""
        for step in self._steps:
            step.close()
            self.problem = self.problem or step.problem

    def _add(self, name: str, max_bytes: int) -> None:
        coding, why = CODINGS.get(name), ""
        try:
            if coding is not None:
                self._steps.append(Step(name, coding, max_bytes))
                return
        except ImportError as error:
            why = f": {error} (latscope[encodings] brings it)"
        self.problem = f"encoding: cannot read content-encoding {name!r}{why}"


def decode_attempt(
    attempt: Attempt, *, max_bytes: int = MAX_BODY_BYTES
) -> tuple[Attempt, str | None]:
    """The attempt with its wire payload turned into `body`, and what went wrong, in words.

    Each read's body_offset becomes how far into the decoded body it reached; its times stay. A
    coding that cannot be read leaves no body; of corrupt, cut or overlong data what was decoded
    before is kept. An attempt that holds no wire payload comes back as it is.
    """
    return finish(decode_steps(attempt, max_bytes=max_bytes))


def decode_steps(
    attempt: Attempt, *, max_bytes: int = MAX_BODY_BYTES
) -> Steps[tuple[Attempt, str | None]]:
    """`decode_attempt`, some reads at a time, for a worker that must not hold the interpreter
    long; the generator's return value is what it gives."""
    if attempt.wire is None:
        return attempt, None
    decoder = ContentDecoder(attempt.encoding, max_bytes=max_bytes)
    body = bytearray()
    reads: list[Read] = []
    # A read whose payload was not kept brings nothing.
    for read, data in zip(attempt.reads, chain(attempt.wire, repeat(b"")), strict=False):
        body += decoder.feed(data)
        reads.append(read._replace(body_offset=len(body)))
        if not len(reads) % _READS_A_STEP:
            yield
    if not left_early(attempt):
        decoder.close()
    kept = bytes(body) if body or decoder.problem is None else None
    return replace(attempt, wire=None, body=kept, reads=tuple(reads)), decoder.problem


_READS_A_STEP = 32


def left_early(attempt: Attempt) -> bool:
    """Whether the reader closed the response before its end: then the data may end anywhere. An
    SDK does so after the terminal event, before the few bytes that end a gzip stream."""
    return attempt.mark("closed") is not None and attempt.mark("body.end") is None
