"""The content codings: gzip, deflate, br and zstd, undone as the bytes come, with bounded output.

RFC 9110 8.4.1 (gzip, deflate), RFC 7932 (br), RFC 8878 and 9659 (zstd). br and zstd need the
packages brotli (1.2 or later) and zstandard, imported when a body first asks for them.

A coded body is one or more *units*: gzip members or zstd frames one after the other, of which some
servers send one a chunk. Bytes after the last unit that begin no other are ignored, as gzip does.
"""

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

TOO_LONG = "encoding: the decoded body passes the byte limit, the rest is not kept"

_GZIP, _ZLIB, _RAW = 31, 15, -15  # zlib's wbits
_ZSTD_WINDOW = 8 * 1024 * 1024  # RFC 9659: the most content-encoding zstd may ask for


class Unit(NamedTuple):
    """One self-contained stretch of coded data, being decoded.

    decode: bytes in, room in bytes, bytes out; it stops soon after the room is passed, to show
    that there was more. rest: null until the unit has ended, then what was fed beyond its end.
    error: what decode raises on data that is no such unit.
    """

    decode: Callable[[bytes, int], bytes]
    rest: Callable[[], bytes | None]
    error: type[Exception]


class Coding(NamedTuple):
    """start: begins a unit; ImportError when its package is absent. slice_bytes: how much is fed
    at a time; it bounds what one call can give where the decoder has no limit of its own, and
    what is copied for each unit that ends. several: whether units may follow each other."""

    start: Callable[[], Unit]
    slice_bytes: int
    several: bool


class Step:
    """One coding undone over a whole body. `problem` says in words why it stopped."""

    __slots__ = ("_coding", "_deaf", "_ended", "_name", "_room", "_settled", "_unit", "problem")

    def __init__(self, name: str, coding: Coding, max_bytes: int) -> None:
        self.problem: str | None = None
        self._name = name
        self._coding = coding
        self._room = max_bytes
        self._unit: Unit | None = coding.start()
        self._ended = False  # a unit has ended
        self._settled = True  # the data may end here: no unit is under way
        self._deaf = False  # what still comes belongs to no unit

    def feed(self, data: bytes) -> bytes:
        """What `data` decodes to, up to the byte limit or the first corrupt slice."""
        out: list[bytes] = []
        size = self._coding.slice_bytes
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            while piece and not self._deaf:
                piece = self._decode(piece, out)
        return b"".join(out)

    def close(self) -> None:
        """The body is at its end: a unit still under way is a problem."""
        if not self._settled and self.problem is None:
            self._stop(f"encoding: the {self._name} data ends early")

    def _decode(self, piece: bytes, out: list[bytes]) -> bytes:
        """Decodes `piece` as far as its unit goes; what lies beyond that unit is returned."""
        unit = self._unit = self._unit or self._coding.start()
        self._settled = self._settled and self._ended
        try:
            got = unit.decode(piece, self._room)
        except unit.error as error:
            # After a whole unit and before any output of another, it was no other.
            fatal = None if self._settled else f"encoding: corrupt {self._name} data: {error}"
            return self._stop(fatal)
        out.append(got[: self._room])
        if len(got) > self._room:
            return self._stop(TOO_LONG)
        self._room -= len(got)
        self._settled = self._settled and not got
        rest = unit.rest()
        if rest is None:
            return b""
        self._unit, self._ended, self._settled = None, True, True
        self._deaf = not self._coding.several
        return rest

    def _stop(self, problem: str | None) -> bytes:
        self._deaf, self.problem = True, problem
        return b""


def _inflate(wbits: int) -> Unit:
    stream = zlib.decompressobj(wbits)
    return Unit(
        lambda data, room: stream.decompress(data, room + 1),
        lambda: stream.unused_data if stream.eof else None,
        zlib.error,
    )


def _gzip() -> Unit:
    return _inflate(_GZIP)


def _deflate() -> Unit:
    """The RFC means the zlib format; raw deflate is sent under the same name. The first two bytes
    tell them apart, so the first waits for the second."""
    head = bytearray()
    chosen: list[Unit] = []

    def decode(data: bytes, room: int) -> bytes:
        if not chosen:
            head.extend(data)
            if len(head) < 2:
                return b""
            chosen.append(_inflate(_ZLIB if _is_zlib(head) else _RAW))
            data = bytes(head)
        return chosen[0].decode(data, room)

    return Unit(decode, lambda: chosen[0].rest() if chosen else None, zlib.error)


def _is_zlib(head: bytearray) -> bool:
    """RFC 1950 2.2: method 8, a window of at most 32 KiB, and a check on both bytes. No encoder
    starts raw deflate so: its low bits would be a stored block with padding that is not zero."""
    return head[0] & 0x0F == 8 and head[0] >> 4 <= 7 and (head[0] << 8 | head[1]) % 31 == 0


def _br() -> Unit:
    import brotli

    stream = brotli.Decompressor()
    if not hasattr(stream, "can_accept_more_data"):
        raise ImportError("brotli 1.2 or later is needed, which can bound its output")
    return Unit(
        lambda data, room: stream.process(data, output_buffer_limit=room + 1),
        lambda: b"" if stream.is_finished() else None,
        brotli.error,
    )


def _zstd() -> Unit:
    import zstandard

    stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    return Unit(
        lambda data, _room: stream.decompress(data),
        lambda: stream.unused_data if stream.eof else None,
        zstandard.ZstdError,
    )


_GZIP_CODING = Coding(_gzip, 16 * 1024, True)

CODINGS: Mapping[str, Coding] = MappingProxyType(
    {
        "gzip": _GZIP_CODING,
        "x-gzip": _GZIP_CODING,  # RFC 9110 8.4.1.3: the same
        "deflate": Coding(_deflate, 16 * 1024, False),
        "br": Coding(_br, 64 * 1024, False),
        # No output limit in the package: a block of 4 bytes gives up to 128 KiB, a slice 4 MiB.
        "zstd": Coding(_zstd, 128, True),
    }
)
"""Every coding that can be undone, by its name in content-encoding."""
