"""Chunks to lines, each with its offsets and the arrival of its first byte.

What server-sent events and JSON lines share: a line may be spread over any number of reads, and
must come out the same however it was. An unfinished line is kept in one buffer that only grows at
its end, so every byte is looked at once, and grows no further than `keep` bytes.

Where a line ends in CRLF and CR ends lines, the line is complete at the CR. Waiting for the LF
would date it by a byte that says nothing (it may come seconds later), so the LF is skipped when it
comes.
"""

import re
from typing import TypeAlias

from latscope.units import Ns

Line: TypeAlias = tuple[bytes, int, int, Ns]
"""Text without its line end, at most `keep` bytes of it; offset of its first byte; offset just past
the byte that completed it; arrival of its first byte. A bare tuple: one is made for every line."""

_BOM = b"\xef\xbb\xbf"
_LF = 0x0A
_LF_LINES = re.compile(rb"[^\n]+\n?|\n")


class Lines:
    """Cuts one stream into lines. cr: whether CR and CRLF end a line too, or only LF does. keep:
    how many bytes of a line are kept. A byte order mark is dropped at the stream's start only."""

    __slots__ = (
        "_after_cr",
        "_bom_left",
        "_bom_ns",
        "_cr",
        "_ends",
        "_fed",
        "_first_ns",
        "_held",
        "_keep",
        "_start",
        "last_ns",
    )

    def __init__(self, *, cr: bool, keep: int) -> None:
        self._cr = cr
        self._ends = b"\r\n" if cr else b"\n"
        self._keep = keep
        self._fed = 0
        self._held = bytearray()  # the unfinished line; empty when there is none
        self._start = 0
        self._first_ns: Ns = 0
        self._after_cr = False
        self._bom_left = _BOM  # what of a byte order mark may still come
        self._bom_ns: Ns = 0
        self.last_ns: Ns = 0
        """Arrival of the last byte fed."""

    def feed(self, data: bytes, ns: Ns) -> list[Line]:
        """The lines that `data`, arrived at `ns`, completes."""
        if not data:
            return []
        self._fed += len(data)
        self.last_ns = ns
        if self._bom_left:
            data = self._past_bom(data, ns)
        elif self._after_cr and data[0] == _LF:
            data = data[1:]
        self._after_cr = self._cr and data.endswith(b"\r")
        return self._cut(data, self._fed - len(data), ns)

    def fresh(self) -> int | None:
        """The offset of the next byte where it begins a line; null where one is open, or a rest of
        the stream's first bytes or of a CRLF may come."""
        return None if self._held or self._after_cr or self._bom_left else self._fed

    def passed(self, size: int, ns: Ns) -> None:
        """`size` bytes of whole lines, arrived at `ns`, that the caller cut itself."""
        self._fed += size
        self.last_ns = ns

    def close(self) -> Line | None:
        """The last line when no line end completed it. It arrived at `last_ns`."""
        if self._bom_left and self._bom_left != _BOM:
            self._return_bom()
        if not self._held:
            return None
        text = bytes(self._held)
        self._held.clear()
        return text, self._start, self._fed, self._first_ns

    def _cut(self, data: bytes, at: int, ns: Ns) -> list[Line]:
        keep, ends, held = self._keep, self._ends, self._held
        lines: list[Line] = []
        for line in data.splitlines(True) if self._cr else _LF_LINES.findall(data):
            text = line.rstrip(ends)
            size = len(text)
            if size == len(line):  # no line end: only the last can lack one
                self._hold(line, at, ns)
                break
            if size > keep:
                text = text[:keep]
            if held:
                self._hold(text, at, ns)
                lines.append((bytes(held), self._start, at + size + 1, self._first_ns))
                held.clear()
            else:
                lines.append((text, at, at + size + 1, ns))
            at += len(line)
        return lines

    def _hold(self, piece: bytes, at: int, ns: Ns) -> None:
        if not self._held:
            self._start, self._first_ns = at, ns
        self._held += piece[: self._keep - len(self._held)]

    def _past_bom(self, data: bytes, ns: Ns) -> bytes:
        """`data` without what of it belongs to the byte order mark."""
        want = self._bom_left
        if data.startswith(want):
            self._bom_left = b""
            return data[len(want) :]
        if want == _BOM:
            self._bom_ns = ns
        if want.startswith(data):
            self._bom_left = want[len(data) :]
            return b""
        self._return_bom()
        return data

    def _return_bom(self) -> None:
        """It was no byte order mark: its bytes begin the first line after all."""
        seen = _BOM[: len(_BOM) - len(self._bom_left)]
        self._bom_left = b""
        if seen:
            self._hold(seen, 0, self._bom_ns)
