"""The mask of a body that is still coming: `mask_body` in pieces.

What is masked is given out as soon as it is sure, so that the rest of the process need not hold a
long answer in clear. The pieces add up to what `mask_body` makes of the whole, however it was cut:
a piece ends where nothing before it has a say in what comes after it. That is behind a blank line,
which ends an SSE event; behind any line while no event is open (JSON lines); behind a message of an
AWS event stream. A body that begins like a JSON document is held until its first line shows it to
be more than one, or until its end.
"""

import re
from typing import Literal, TypeAlias

from pydantic_core import from_json

from latscope.protocols.mask.body import BOM, LINE, STRUCTURE, mask_body, mask_lines, other_lines
from latscope.protocols.mask.eventstream import LOOKED_AT, is_event_stream, mask_messages
from latscope.protocols.mask.payload import mask_payload, mask_secrets, remembering
from latscope.protocols.mask.template import Mask
from latscope.steps import Steps
from latscope.wire.eventstream import prelude

Kind: TypeAlias = Literal["lines", "messages", "whole"]

_BLANK = (b"\n\n", b"\r\n\r\n", b"\r\r")
_OVERLAP = 3  # a blank line may lie across two pieces
_BLOCKS_A_STEP, _LONG_BLOCK = 4, 1024
_SSE = re.compile(rb"(?:\xef\xbb\xbf)?[\r\n]*(?:data:|event:|:)").match
_LINE_END = re.compile(rb"[\r\n]").search
_OPEN_EVENT = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])data:").search


class GradualMask:
    """Masks one body. `feed` and `close` are generators of steps, as `mask_body` is."""

    __slots__ = (
        "_at_start", "_held", "_keep", "_kind", "_line", "_looked", "_payload", "_wrapped",
    )  # fmt: skip

    def __init__(self, *, keep_content: bool = False) -> None:
        self._keep = keep_content
        self._held = bytearray()
        self._looked = 0
        self._at_start = True
        self._kind: Kind | None = None
        self._payload: Mask = mask_secrets if keep_content else remembering()
        self._line: Mask = mask_secrets
        self._wrapped: Mask = mask_secrets

    @property
    def held(self) -> int:
        """Bytes that came and are not given out yet."""
        return len(self._held)

    @property
    def streams(self) -> bool:
        """Whether the body is known to be one of many parts, which are given out as they come."""
        return self._kind in ("lines", "messages")

    def feed(self, data: bytes) -> Steps[bytes]:
        """What is sure now that `data` has come."""
        self._held += data
        if self._kind is None:
            self._kind = self._told()
        cut = 0
        if self._kind == "lines":
            cut = self._after_lines()
        elif self._kind == "messages":
            cut = self._after_messages()
        if not cut:
            return b""
        piece = bytes(self._held[:cut])
        del self._held[:cut]
        self._looked = len(self._held)
        return (yield from self._masked(piece))

    def close(self) -> Steps[bytes]:
        """The rest; the body has come to its end."""
        rest = bytes(self._held)
        self._held.clear()
        if not self.streams:
            return (yield from mask_body(rest, keep_content=self._keep))
        return (yield from self._masked(rest))

    def _masked(self, piece: bytes) -> Steps[bytes]:
        if self._kind == "messages":
            return (yield from mask_messages(piece, self._payload, self._wrapped))
        # Anywhere else these bytes are no mark but a line's, and masked with it.
        start = len(BOM) if self._at_start and piece.startswith(BOM) else 0
        self._at_start = False
        if start or b"\r" in piece:
            return (yield from self._by_lines(piece, start))
        return (yield from self._by_blocks(piece))

    def _by_lines(self, piece: bytes, start: int = 0) -> Steps[bytes]:
        out = bytearray(piece)
        yield from mask_lines(piece, start, out, self._payload, self._line)
        return bytes(out)

    def _by_blocks(self, piece: bytes) -> Steps[bytes]:
        """A short cut, the bytes are the same: a blank line ends an event, so what lies between two
        is masked by itself, and mostly it is one line of data, perhaps a name before it."""
        blocks = piece.split(b"\n\n")
        payload, line = self._payload, self._line
        for number, block in enumerate(blocks):
            head, end, data = b"", b"", block
            if not block.startswith(b"data:"):
                head, end, data = block.partition(b"\n")
            if data.startswith(b"data:") and b"\n" not in data:
                name = line(head) if head else b""
                blocks[number] = name + end + b"data:" + payload(data[5:])
            elif block:
                blocks[number] = yield from self._by_lines(block)
            if number % _BLOCKS_A_STEP == 0 or len(block) > _LONG_BLOCK:
                yield
        return b"\n\n".join(blocks)

    def _told(self) -> Kind | None:
        """What the body is; null while that cannot be said."""
        head = bytes(self._held[:LOOKED_AT])
        json = STRUCTURE(head.removeprefix(BOM)) is not None
        if prelude(head) is not None or not (json or _SSE(head)):
            if is_event_stream(head):
                if not self._keep:
                    self._payload, self._wrapped = mask_payload, remembering()
                return "messages"
            if len(head) < LOOKED_AT:
                return None
        since, self._looked = self._looked, len(self._held)
        if _LINE_END(self._held, since) is None:
            return None  # its first line may go on
        text = bytes(self._held).removeprefix(BOM)
        first = LINE.search(text)
        if first is None or first.end() == len(text):
            return None
        if json:
            found = self._several(text)
            if found != "lines":
                return found
        if not self._keep:
            self._line = other_lines(text)
        return "lines"

    @staticmethod
    def _several(text: bytes) -> Kind | None:
        """A body that begins like JSON: lines when its first line is a document and more comes."""
        line, *rest = text.lstrip().splitlines()
        try:
            from_json(line)
        except ValueError:
            return "whole"
        return "lines" if any(part.strip() for part in rest) else None

    def _after_lines(self) -> int:
        """How far the lines go that nothing to come has a say in."""
        held, since = self._held, max(0, self._looked - _OVERLAP)
        self._looked = len(held)
        found = [(held.rfind(blank, since), len(blank)) for blank in _BLANK]
        ends = [at + length for at, length in found if at >= 0]
        if ends:
            return max(ends)
        if _OPEN_EVENT(held):
            return 0
        return max(held.rfind(b"\n"), held.rfind(b"\r")) + 1

    def _after_messages(self) -> int:
        """How far whole messages go. From a broken one on it is held: where the next begins depends
        on what comes."""
        at = 0
        while (lengths := prelude(self._held, at)) is not None:
            if at + lengths[0] > len(self._held):
                break
            at += lengths[0]
        return at
