"""One answer's payload while it comes, off the hot path: decoded, masked, packed and let go.

A stream that is open for an hour must not hold an hour of text: what is sure is masked at once and
kept packed. Past the limit even that goes, and the events' places, kinds and tokens and the usage
are kept in its place (`protocols.outline`). Used by the worker's thread alone.
"""

import sys
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, chain, islice
from typing import Any

from latscope.capture.build import consumed, encoding, headers
from latscope.protocols.mask.gradual import GradualMask
from latscope.protocols.outline import Outline
from latscope.recording import Attempt, Read
from latscope.steps import Steps
from latscope.units import Ns
from latscope.wire.body import MAX_BODY_BYTES, ContentDecoder, left_early

KEPT_BYTES = 4 * 1024 * 1024
"""Masked payload kept of one answer by default."""

TRUNCATED = "body: truncated, it is longer than is kept"

_LEVEL = 1  # zlib's fastest: masked text packs to a tenth at any
_READS_A_STEP = 32


class Body:
    """raw: the response's headers; url: of the request, with a `path`; mask: null keeps it clear;
    limit: of the bytes kept. What goes wrong costs the body, and is told in `faults`."""

    __slots__ = (
        "_deaf", "_decoder", "_feed", "_limit", "_mask", "_outline", "_packed", "_raw", "_size",
        "_sizes", "_tail", "_times", "_url", "faults",
    )  # fmt: skip

    def __init__(
        self,
        raw: Sequence[tuple[bytes, bytes]],
        url: Any,
        mask: GradualMask | None,
        limit: int = KEPT_BYTES,
    ) -> None:
        coding = encoding(raw)
        # Few coded bytes may ask for gigabytes; plain ones are what they are.
        most = MAX_BODY_BYTES if coding else sys.maxsize
        self._decoder = ContentDecoder(coding, max_bytes=most)
        self._feed: Callable[[bytes], bytes] = self._decoder.feed if coding else bytes
        self._raw = raw
        self._url = url
        self._mask = mask
        self._limit = limit
        self._times = array("q")
        """asked, got; asked, got; ... With the sizes 24 bytes a read."""
        self._sizes = array("I")
        """Bytes off the wire, bytes decoded; ..."""
        self._packed: list[bytes] = []
        self._size = 0
        self._tail = b""
        self._outline: Outline | None = None
        self._deaf = False
        """What still comes is not kept."""
        self.faults: list[str] = []

    def add(self, reads: list[Any], *, last: bool = False) -> Steps[None]:
        """More of it: asked, got, chunk; asked, got, chunk; ... as the recorder hands it over."""
        data = yield from self._decode(reads)
        if self._deaf:
            return
        try:
            yield from self._keep(data, last)
        except Exception as error:  # the type only: a message may quote what it stumbled over
            self._give_up(f"mask: {type(error).__name__}")

    def finish(self, attempt: Attempt, reads: list[Any], zero: Ns) -> Steps[Attempt]:
        """The attempt with its body and all its reads, of which `reads` are the last."""
        yield from self.add(reads, last=True)
        if not left_early(attempt):
            self._decoder.close()
        if self._decoder.problem is not None:
            self.faults.append(self._decoder.problem)
        made = yield from self._reads(zero)
        whole = replace(attempt, wire=None, reads=made)
        if self._outline is not None:
            yield from self._outline.close()
            self._tell(TRUNCATED)
            told = self._outline.usage or None
            return replace(whole, events=self._outline.rows(), usage=told)
        body = None if self._deaf else b"".join([*map(zlib.decompress, self._packed), self._tail])
        return replace(whole, body=body if body or self._decoder.problem is None else None)

    def consumed(self) -> list[tuple[Ns, Ns]]:
        """How long, and from when, the consumer held the stream between two reads."""
        times = self._times
        return consumed(zip(times[1::2], times[2::2], strict=False))

    def _decode(self, reads: list[Any]) -> Steps[bytes]:
        found: list[bytes] = []
        for at in range(0, len(reads), 3 * _READS_A_STEP):
            some = reads[at : at + 3 * _READS_A_STEP]
            chunks = [bytes(chunk) for chunk in some[2::3]]
            data = [*map(self._feed, chunks)]
            stamps = zip(some[0::3], some[1::3], strict=True)
            self._times.extend(chain.from_iterable(stamps))
            sizes = zip(map(len, chunks), map(len, data), strict=True)
            self._sizes.extend(chain.from_iterable(sizes))
            found += data
            yield
        return b"".join(found)

    def _keep(self, data: bytes, last: bool) -> Steps[None]:
        mask = self._mask
        masked = data if mask is None else (yield from mask.feed(data))
        if last and mask is not None:
            masked += yield from mask.close()
        if self._outline is not None:
            yield from self._outline.feed(masked)
        elif last:
            self._tail = masked
        elif masked:
            self._packed.append(zlib.compress(masked, _LEVEL))
            yield
        self._size += len(masked)
        held = 0 if mask is None else mask.held
        if held > self._limit or (self._outline is None and self._size + held > self._limit):
            yield from self._shorten()

    def _shorten(self) -> Steps[None]:
        """The limit is reached: a stream is kept as its events, anything else not at all."""
        if self._outline is not None or (self._mask is not None and not self._mask.streams):
            self._give_up(TRUNCATED)
            return
        self._outline = Outline(self._url.path, headers(self._raw))
        for piece in [*self._packed, zlib.compress(self._tail)]:
            yield from self._outline.feed(zlib.decompress(piece))
        self._packed, self._tail = [], b""

    def _give_up(self, fault: str) -> None:
        self._deaf, self._mask = True, None
        self._packed, self._tail = [], b""
        self._tell(fault)

    def _tell(self, fault: str) -> None:
        if fault not in self.faults:
            self.faults.append(fault)

    def _reads(self, zero: Ns) -> Steps[tuple[Read, ...]]:
        sizes = self._sizes
        asked = [stamp - zero for stamp in self._times[0::2]]
        got = [stamp - zero for stamp in self._times[1::2]]
        yield
        rows = map(Read, asked, got, sizes[0::2], accumulate(sizes[1::2]))
        made: list[Read] = []
        while some := list(islice(rows, _READS_A_STEP * 8)):
            made += some
            yield
        return tuple(made)
