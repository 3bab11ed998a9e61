"""AWS event streams: `application/vnd.amazon.eventstream` to frames, each with its arrival.

A message is a prelude (length of the whole, length of the headers, CRC-32 of these eight bytes),
headers, a payload, and the CRC-32 of all before it; numbers are big-endian. Follows the Smithy
specification (https://smithy.io/2.0/aws/amazon-eventstream.html), the limits as in botocore.

A checksum that does not fit costs the bytes it covers and nothing else. Where the prelude's fits,
the message's bounds stand: what lies between them is one `broken` frame. Where it does not, no
length can be believed: all up to the next prelude that fits is one. What the stream's end leaves
unfinished is a `broken` frame that is not `closed`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from latscope.units import Ns
from latscope.wire.frames import Frame, FrameKind

MAX_PAYLOAD_BYTES = 24 * 1024 * 1024
MAX_HEADERS_BYTES = 128 * 1024
MAX_SEARCH_BYTES = 1024 * 1024
"""How far behind a broken prelude the next one is looked for; beyond, the rest is broken."""

PRELUDE_BYTES = 12
CRC_BYTES = 4

TYPE_NAME = ":message-type"
NAMES = {"exception": ":exception-type", "error": ":error-code"}
"""Message type -> the header that names it; `:event-type` for an event, the type by default."""

_AROUND = PRELUDE_BYTES + CRC_BYTES
_STRING, _BYTES = 7, 6
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Header types of a fixed size: true, false, byte, short, int, long, timestamp, uuid."""
# What the two lengths of a prelude may begin with under the limits above; the first is never zero.
_MAY_BEGIN = re.compile(rb"(?!\x00{4})(?=[\x00\x01][\s\S]{3}\x00[\x00-\x02][\s\S]{6})")


class Header(NamedTuple):
    """One header of a message. type: as the specification numbers them (6 bytes, 7 string);
    start, end: where its value lies, counted from the first byte of the headers; name_start: where
    its name begins."""

    name: str
    type: int
    name_start: int
    start: int
    end: int


def prelude(data: bytes | bytearray, at: int = 0) -> tuple[int, int] | None:
    """Lengths of the whole message and of its headers, as the prelude at `at` states them; null
    when its checksum does not fit, its lengths are none, or it is not all there."""
    if len(data) < at + PRELUDE_BYTES:
        return None
    total = int.from_bytes(data[at : at + 4], "big")
    headers = int.from_bytes(data[at + 4 : at + 8], "big")
    if headers > MAX_HEADERS_BYTES or not 0 <= total - headers - _AROUND <= MAX_PAYLOAD_BYTES:
        return None
    stated = int.from_bytes(data[at + 8 : at + PRELUDE_BYTES], "big")
    return (total, headers) if crc32(data[at : at + 8]) == stated else None


def next_prelude(data: bytes | bytearray, at: int) -> int:
    """Offset of the first prelude that fits, from `at` on; -1 when there is none."""
    for found in _MAY_BEGIN.finditer(data, at):
        if prelude(data, found.start()) is not None:
            return found.start()
    return -1


def intact(message: bytes | bytearray) -> bool:
    """Whether the checksum of a whole message fits."""
    stated = int.from_bytes(message[-CRC_BYTES:], "big")
    return crc32(message[:-CRC_BYTES]) == stated


def headers_of(block: bytes | bytearray) -> list[Header] | None:
    """The headers of a message, in order; null when they are not written as they should be."""
    found: list[Header] = []
    at = 0
    while at < len(block):
        name_start = at + 1
        value = name_start + block[at] + 1  # past the name and the type's byte
        if value > len(block):
            return None
        kind = block[value - 1]
        size = _FIXED.get(kind)
        if size is None:
            if kind not in (_STRING, _BYTES) or value + 2 > len(block):
                return None
            size = int.from_bytes(block[value : value + 2], "big")
            value += 2
        name = block[name_start : name_start + block[at]].decode("utf-8", "replace")
        at = value + size
        if at > len(block):
            return None
        found.append(Header(name, kind, name_start, value, at))
    return found


class EventStreamDecoder:
    """Reads one event stream. Bytes are kept until their message is whole: at most 24 MiB."""

    __slots__ = ("_at", "_broken", "_clock", "_data", "_deaf", "_end", "_need")

    def __init__(self) -> None:
        self._data = bytearray()  # what no frame covers yet
        self._at = 0  # its offset in the body
        self._end = 0  # of all that was fed
        self._need = PRELUDE_BYTES
        self._broken = False  # it begins with bytes behind a broken prelude
        self._deaf = False  # no prelude came within the search: nothing is read any more
        self._clock = _Arrivals()

    def feed(self, data: bytes, ns: Ns) -> list[Frame]:
        """The frames that `data`, arrived at `ns`, completes."""
        if not data:
            return []
        self._end += len(data)
        self._clock.note(self._end, ns)
        if self._deaf:
            return []
        self._data += data
        return list(self._cut())

    def close(self) -> list[Frame]:
        """The bytes that make no whole message, as one broken frame; none when there are none."""
        if self._end == self._at:
            return []
        return [self._frame("broken", "", b"", self._end - self._at, closed=False)]

    def _cut(self) -> Iterator[Frame]:
        while not self._deaf and len(self._data) >= self._need:
            lengths = None if self._broken else prelude(self._data)
            if lengths is None:
                found = self._search()
                if found < 0:
                    return
                yield self._frame("broken", "", b"", found)
            elif len(self._data) < lengths[0]:
                self._need = lengths[0]
                return
            else:
                yield self._message(*lengths)

    def _search(self) -> int:
        """How many bytes lie before the next prelude that fits; -1 while none is there."""
        first = max(1, self._need - PRELUDE_BYTES) if self._broken else 1
        found = next_prelude(self._data, first)
        if 0 <= found <= MAX_SEARCH_BYTES:
            return found
        self._broken = True
        self._need = len(self._data) + 1
        self._deaf = len(self._data) > MAX_SEARCH_BYTES + PRELUDE_BYTES
        return -1

    def _message(self, total: int, headers: int) -> Frame:
        message = self._data[:total]
        read = _name(message[PRELUDE_BYTES : PRELUDE_BYTES + headers]) if intact(message) else None
        if read is None:
            return self._frame("broken", "", b"", total)
        payload = bytes(message[PRELUDE_BYTES + headers : -CRC_BYTES])
        return self._frame(*read, payload, total)

    def _frame(
        self, kind: FrameKind, name: str, data: bytes, size: int, *, closed: bool = True
    ) -> Frame:
        start, end = self._at, self._at + size
        first, last = self._clock.of(start), self._clock.of(end - 1)
        del self._data[:size]
        self._at, self._need, self._broken = end, PRELUDE_BYTES, False
        self._clock.forget(end)
        return Frame(kind, name, data, start, end, first, last, False, closed)


def _name(block: bytearray) -> tuple[FrameKind, str] | None:
    """The frame's kind and name by a message's headers; null when they cannot be read."""
    headers = headers_of(block)
    if headers is None:
        return None
    told = {
        header.name: block[header.start : header.end].decode("utf-8", "replace")
        for header in headers
        if header.type == _STRING
    }
    named = NAMES.get(told.get(TYPE_NAME, ""))
    if named is not None:
        return "exception", told.get(named, "")
    return "event", told.get(":event-type", "")


class _Arrivals:
    """When the byte at an offset came, of the bytes that are still held."""

    __slots__ = ("_ends", "_first", "_times")

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._times: list[Ns] = []
        self._first = 0  # those before are forgotten

    def note(self, end: int, ns: Ns) -> None:
        self._ends.append(end)
        self._times.append(ns)

    def of(self, offset: int) -> Ns:
        return self._times[bisect_right(self._ends, offset, self._first)]

    def forget(self, offset: int) -> None:
        """All before `offset` is framed."""
        self._first = bisect_right(self._ends, offset, self._first)
        if self._first > _FORGET:
            del self._ends[: self._first], self._times[: self._first]
            self._first = 0


_FORGET = 256
