"""Chunks that are alike: most of a stream's differ from the one before in their text alone.

A short cut to what a dialect makes of them, not a second decoder: the first chunk of a kind is read
there, and those that are the same byte for byte around their text need no parsing. A property test
compares the two.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from latscope.protocols.chunks import Shape, State, chunk_events, only_text
from latscope.protocols.events import Event, EventKind
from latscope.protocols.fields import parse
from latscope.protocols.reading import Read, read
from latscope.wire.frames import Frame

_TEXT = re.compile(
    # JSON string contents that are sure to be valid and stand for themselves (RFC 8259, section 7;
    # RFC 3629): no quote, no escape, no control character.
    rb"(?:[ !#-\[\]-~]++"
    rb"|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})++"
).fullmatch

_TRIES = 8
"""After so many chunks learned from in vain, a stream's chunks are taken not to be alike (each
states its own time, say, or carries filler)."""

_new = tuple.__new__  # what Event() comes down to, without its defaults
_NO_MORE = Event("content", 0, 0)[9:]


Only: TypeAlias = Callable[[Frame, dict[str, Any]], tuple[int, EventKind, str] | None]
"""Of a chunk that writes some output of one choice and says nothing else: the choice, the channel
and the text. Another text there that is not empty must change nothing else of what is read."""


class Alike(NamedTuple):
    """What chunks of one kind share: the event's name, the bytes before the text and behind it, its
    quotes included; whose text it is; and the envelope that was told last, while which they tell
    nothing new."""

    name: str
    head: bytes
    tail: bytes
    kind: EventKind
    choice: int
    envelope: object


class AlikeDecoder:
    """Reads the chunks of one answer: a Decoder. decode: what reads those that are not alike;
    envelope: what was told last of the answer as a whole, the same object while nothing is new."""

    __slots__ = ("_alike", "_envelope", "_only", "_read", "_tries")

    def __init__(
        self, decode: Read, only: Only, envelope: Callable[[], object] = lambda: None
    ) -> None:
        self._read = decode
        self._only = only
        self._envelope = envelope
        self._alike: Alike | None = None
        self._tries = _TRIES

    def __call__(self, frame: Frame) -> list[Event]:
        if self._alike is not None:  # in plain steps: nearly every token of a stream passes here
            known, head, tail, kind, choice, envelope = self._alike
            framing, name, data, _, end, _, ns, truncated, _ = frame
            if data.startswith(head) and data.endswith(tail) and envelope is self._envelope():
                at, until = len(head), len(data) - len(tail)
                whole = framing == "event" and name == known and not truncated
                if whole and at < until and _TEXT(data, at, until):
                    self._tries = _TRIES
                    opens = kind == "content" and data.find(b"<think>", at, until) >= 0
                    told = (kind, ns, end, choice, until - at, None, "", "", opens)
                    return [_new(Event, told + _NO_MORE)]
        events = read(self._read, frame)
        if self._tries and len(events) == 1 and events[0].size and b"\\" not in frame.data:
            self._tries -= 1
            self._alike = self._learned(frame)
        return events

    def _learned(self, frame: Frame) -> Alike | None:
        """The kind of a chunk that was just read and holds no escape; null where its text cannot be
        told apart.

        Without escapes the text stands in the chunk as it is, so what stands there once, in quotes,
        is the text. Another in its place changes nothing else of the JSON, and nothing else that is
        read (`Only`).
        """
        data = frame.data.strip()
        fields = parse(data)
        found = self._only(frame, fields) if isinstance(fields, dict) else None
        if found is None:
            return None
        choice, kind, text = found
        head, quoted, tail = data.partition(b'"%b"' % text.encode())
        if quoted in tail:
            return None
        return Alike(frame.name, head + b'"', b'"' + tail, kind, choice, self._envelope())


class ChunkDecoder(AlikeDecoder):
    """Of chat completions' chunks, or another API's of that envelope."""

    __slots__ = ("_state",)

    def __init__(self, shape: Shape) -> None:
        self._state = state = State()
        super().__init__(
            partial(chunk_events, shape, state),
            lambda frame, data: None if frame.name else only_text(shape, frame, data),
            lambda: state.envelope,
        )
