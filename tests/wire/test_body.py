"""Bodies: content codings undone as bytes come, offsets of reads, whole bodies as frames."""

import gzip
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import accumulate
from types import ModuleType, SimpleNamespace

import brotli
import pytest
import zstandard
from hypothesis import given, settings

from latscope.recording import Attempt, Mark, Read
from latscope.wire.body import BodyDecoder, ContentDecoder, decode_attempt, decode_steps

from .cutting import any_cuts, pieces, run, shapes, single_bytes

TEXT = b"".join(b'data: {"n":%d,"content":"tok"}\n\n' % n for n in range(40))


def raw_deflate(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


def misleading() -> bytes:
    """A text whose raw deflate starts with two bytes that pass zlib's check on its header."""
    texts = (b"%d" % n * 3 for n in range(10_000))
    heads = ((text, raw_deflate(text)[:2]) for text in texts)
    return next(text for text, head in heads if not int.from_bytes(head) % 31 and head[0] < 0x80)


def br(data: bytes) -> bytes:
    packed: bytes = brotli.compress(data)
    return packed


ENCODED = {
    "none": (None, TEXT),
    "empty header": ("", TEXT),
    "identity": ("identity", TEXT),
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip in capitals": (" X-GZIP ", gzip.compress(TEXT)),
    "gzip, two members": ("gzip", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
    "gzip, padded": ("gzip", gzip.compress(TEXT) + bytes(20)),
    "gzip, other bytes behind": ("gzip", gzip.compress(TEXT) + b"\x1f\x8bno member"),
    "deflate, zlib": ("deflate", zlib.compress(TEXT)),
    "deflate, raw": ("deflate", raw_deflate(TEXT)),
    "deflate, raw and stored": ("deflate", b"\x01\x03\x00\xfc\xffabc"),
    "deflate, raw that looks like zlib": ("deflate", raw_deflate(misleading())),
    "deflate, bytes behind": ("deflate", zlib.compress(TEXT) + b"behind"),
    "br": ("br", br(TEXT)),
    "zstd": ("zstd", zstandard.compress(TEXT)),
    "zstd, two frames": ("zstd", zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:])),
    "gzip, then br": ("gzip, br", br(gzip.compress(TEXT))),
    "zstd, then identity, then deflate": (
        "zstd,identity , deflate",
        zlib.compress(zstandard.compress(TEXT)),
    ),
}
PLAIN = dict.fromkeys(ENCODED, TEXT) | {
    "deflate, raw and stored": b"abc",
    "deflate, raw that looks like zlib": misleading(),
}
each_encoded = pytest.mark.parametrize("name", ENCODED)


def decode(encoding: str | None, reads: list[bytes]) -> tuple[bytes, str | None]:
    decoder = ContentDecoder(encoding)
    out = b"".join([decoder.feed(data) for data in reads])
    decoder.close()
    return out, decoder.problem


@each_encoded
def test_an_encoding_decodes_however_its_bytes_come(name: str) -> None:
    """Whole, byte by byte and at any cuts: the same bytes, and no problem."""
    encoding, wire = ENCODED[name]
    assert decode(encoding, [wire]) == (PLAIN[name], None)
    assert decode(encoding, single_bytes(wire)) == (PLAIN[name], None)

    @settings(max_examples=20, deadline=None)
    @given(any_cuts(len(wire)))
    def check(cuts: list[int]) -> None:
        assert decode(encoding, pieces(wire, cuts)) == (PLAIN[name], None)

    check()


def _flushed(wbits: int) -> Callable[[bytes], bytes]:
    stream = zlib.compressobj(wbits=wbits)
    return lambda data: stream.compress(data) + stream.flush(zlib.Z_SYNC_FLUSH)


def _flushed_br() -> Callable[[bytes], bytes]:
    stream = brotli.Compressor()
    return lambda data: stream.process(data) + stream.flush()


def _flushed_zstd() -> Callable[[bytes], bytes]:
    stream = zstandard.ZstdCompressor().compressobj()
    flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
    return lambda data: stream.compress(data) + stream.flush(flush)


FLUSHED = {
    "gzip": lambda: _flushed(31),
    "deflate": lambda: _flushed(15),
    "br": _flushed_br,
    "zstd": _flushed_zstd,
}


@pytest.mark.parametrize("encoding", FLUSHED)
def test_what_a_server_flushed_is_decoded_at_once(encoding: str) -> None:
    """Each flush of the server gives its event when it arrives, so events keep their own times."""
    pack, decoder = FLUSHED[encoding](), ContentDecoder(encoding)
    events = [b"data: %d\n\n" % n for n in range(20)]
    assert [decoder.feed(pack(event)) for event in events] == events


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
def test_an_empty_body_under_an_encoding_is_no_problem(encoding: str) -> None:
    """A 204, or the answer to HEAD."""
    assert decode(encoding, [b""]) == (b"", None)


ZEROS = bytes(24 * 1024 * 1024)
BOMBS = {
    "gzip": gzip.compress(ZEROS, 1),
    "deflate": zlib.compress(ZEROS, 1),
    "br": brotli.compress(ZEROS, quality=1),
    "zstd": zstandard.compress(ZEROS),
    "gzip, gzip": gzip.compress(gzip.compress(ZEROS, 1)),
    "gzip, zstd": zstandard.compress(gzip.compress(ZEROS, 1)),
    "identity": ZEROS,
}


@pytest.mark.parametrize("encoding", BOMBS)
@pytest.mark.parametrize("read_bytes", [1 << 25, 97])
def test_a_bomb_is_cut_at_the_limit_and_marked(encoding: str, read_bytes: int) -> None:
    """Exactly the limit comes out, the rest is never made, and the problem says so."""
    wire, limit = BOMBS[encoding], 64 * 1024
    reads = [wire[at : at + read_bytes] for at in range(0, min(len(wire), 200_000), read_bytes)]
    decoder = ContentDecoder(encoding, max_bytes=limit)
    tracemalloc.start()
    out = [decoder.feed(data) for data in reads]
    decoder.close()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert b"".join(out) == bytes(limit)
    assert (
        decoder.problem == "encoding: the decoded body passes the byte limit, the rest is not kept"
    )
    assert decoder.feed(b"more") == b""
    assert peak < 6 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_body_of_exactly_the_limit_is_whole(encoding: str) -> None:
    """The limit is what fits, not what is one too many."""
    _, wire = ENCODED[{"deflate": "deflate, zlib"}.get(encoding, encoding)]
    for limit, problem in ((len(TEXT), None), (len(TEXT) - 1, "passes the byte limit")):
        decoder = ContentDecoder(encoding, max_bytes=limit)
        assert decoder.feed(wire) == TEXT[:limit]
        decoder.close()
        assert (problem is None) is (decoder.problem is None)
        assert (problem or "") in (decoder.problem or "")


@pytest.mark.parametrize(("window_log", "read"), [(23, True), (24, False)])
def test_a_zstd_window_is_held_to_what_http_allows(window_log: int, read: bool) -> None:
    """RFC 9659: eight megabytes; a frame that asks for more memory is not given it."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    out, problem = decode("zstd", [stream.compress(TEXT) + stream.flush()])
    assert (out, problem is None) == ((TEXT, True) if read else (b"", False))


def test_many_small_members_cost_no_more_than_their_bytes() -> None:
    """A server that makes each chunk a gzip member of its own is read to the end."""
    events = [b"data: %d\n\n" % n for n in range(3000)]
    wire = b"".join(gzip.compress(event, 1) for event in events)
    assert decode("gzip", [wire]) == (b"".join(events), None)


UNREADABLE = [
    ("compress", "encoding: cannot read content-encoding 'compress'"),
    ("gzip, XYZ", "encoding: cannot read content-encoding 'xyz'"),
    (", ".join(["gzip"] * 6), "encoding: more than 5 content-encodings"),
]


@pytest.mark.parametrize(("encoding", "problem"), UNREADABLE)
def test_an_encoding_we_cannot_read_is_named(encoding: str, problem: str) -> None:
    """Nothing is decoded, nothing is raised."""
    assert decode(encoding, [b"abc"]) == (b"", problem)


OLD_BROTLI = SimpleNamespace(Decompressor=object)


@pytest.mark.parametrize(
    ("encoding", "package", "module", "why"),
    [
        ("br", "brotli", None, "import of brotli halted"),
        ("br", "brotli", OLD_BROTLI, "brotli 1.2 or later"),
        ("zstd", "zstandard", None, "import of zstandard halted"),
    ],
)
def test_an_absent_package_is_a_problem_in_words(
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    package: str,
    module: ModuleType | None,
    why: str,
) -> None:
    """The encoding, what is missing and the extra that brings it are named."""
    monkeypatch.setitem(sys.modules, package, module)
    out, problem = decode(encoding, [b"abc"])
    assert out == b""
    assert problem is not None
    assert problem.startswith(f"encoding: cannot read content-encoding '{encoding}': ")
    assert why in problem
    assert "latscope[encodings]" in problem


def two_reads(encoding: str | None, *wire: bytes, marks: tuple[Mark, ...] = ()) -> Attempt:
    reads = tuple(Read(n, n + 5, len(data), 0) for n, data in enumerate(wire))
    return Attempt(encoding=encoding, wire=wire, reads=reads, marks=marks)


@each_encoded
def test_an_attempt_gets_its_body_and_offsets(name: str) -> None:
    """body is the decoded payload, each read says how far it reached, times and wire counts stay,
    the wire payload is gone."""
    encoding, wire = ENCODED[name]
    half = len(wire) // 2
    before = two_reads(encoding, wire[:half], b"", wire[half:])
    after, problem = decode_attempt(before)
    assert problem is None
    assert (after.body, after.wire) == (PLAIN[name], None)
    assert [read[:3] for read in after.reads] == [read[:3] for read in before.reads]
    first, second, third = (read.body_offset for read in after.reads)
    assert 0 <= first == second <= third == len(PLAIN[name])


def test_offsets_of_plain_reads_are_the_bytes_so_far() -> None:
    """Without an encoding a read reaches as far as the wire bytes up to it."""
    after, _ = decode_attempt(two_reads(None, b"ab", b"cde", b"f"))
    assert [read.body_offset for read in after.reads] == list(accumulate([2, 3, 1]))


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_corrupt_data_keeps_what_was_decoded_before(encoding: str) -> None:
    """The body is what the reads before gave, reads after it bring nothing, and words say why."""
    pack = FLUSHED[encoding]()
    after, problem = decode_attempt(two_reads(encoding, pack(b"good"), b"\xff" * 99, pack(b"lost")))
    assert after.body == b"good"
    assert [read.body_offset for read in after.reads] == [4, 4, 4]
    assert problem is not None
    assert problem.startswith(f"encoding: corrupt {encoding} data: ")


def test_a_second_member_that_breaks_off_is_corrupt() -> None:
    """Bytes behind a member are ignored only while they have given nothing."""
    second = bytearray(gzip.compress(b"second", 0))
    second[-8] ^= 1
    wire = gzip.compress(b"first") + bytes(second)
    out, problem = decode("gzip", single_bytes(wire))
    assert out == b"firstsecond"
    assert problem is not None
    assert problem.startswith("encoding: corrupt gzip data")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_an_attempt_whose_data_is_no_such_encoding_has_no_body(encoding: str) -> None:
    """Plain text under a wrong header: null, not an empty body; times stay."""
    before = two_reads(encoding, b"<html>", b"no such gateway</html>")
    after, problem = decode_attempt(before)
    assert (after.body, after.wire) == (None, None)
    assert problem is not None
    assert [read.got_ns for read in after.reads] == [read.got_ns for read in before.reads]


def test_an_unreadable_encoding_leaves_no_body_and_says_so() -> None:
    """Body and wire payload are gone, the times are kept."""
    after, problem = decode_attempt(two_reads("xyz", b"ab", b"cd"))
    assert (after.body, after.wire) == (None, None)
    assert problem == "encoding: cannot read content-encoding 'xyz'"
    assert [read.got_ns for read in after.reads] == [5, 6]


CUT = [
    ((), True),
    ((Mark("body.end", 9), Mark("closed", 9)), True),
    ((Mark("error", 9),), True),
    ((Mark("closed", 9),), False),
]


@pytest.mark.parametrize(("marks", "told"), CUT)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_data_that_ends_early_keeps_its_body(
    encoding: str, marks: tuple[Mark, ...], told: bool
) -> None:
    """It is a problem, but not where the reader itself closed before the end."""
    wire = FLUSHED[encoding]()(b"so far")
    after, problem = decode_attempt(two_reads(encoding, wire, marks=marks))
    assert after.body == b"so far"
    assert problem == (f"encoding: the {encoding} data ends early" if told else None)


def test_the_first_byte_of_deflate_alone_ends_early() -> None:
    """One byte says neither zlib nor raw."""
    assert decode("deflate", [b"\x78"]) == (b"", "encoding: the deflate data ends early")


def test_an_attempt_longer_than_the_limit_is_cut_and_marked() -> None:
    """Reads past the limit bring nothing more."""
    after, problem = decode_attempt(two_reads(None, b"abc", b"def", b"ghi"), max_bytes=5)
    assert (after.body, [read.body_offset for read in after.reads]) == (b"abcde", [3, 5, 5])
    assert problem is not None


def test_an_attempt_is_decoded_in_steps_for_who_must_not_wait() -> None:
    """A pause after some reads changes nothing of what comes out."""
    attempt = two_reads("gzip", *single_bytes(gzip.compress(TEXT)))
    given: list[tuple[Attempt, str | None]] = []

    def steps() -> Iterator[None]:
        given.append((yield from decode_steps(attempt)))

    pauses = len(list(steps()))
    assert given == [decode_attempt(attempt)]
    assert 1 < pauses < len(attempt.reads)


def test_an_attempt_without_wire_payload_comes_back_as_it_is() -> None:
    """Decoding twice changes nothing."""
    attempt, _ = decode_attempt(two_reads("gzip", gzip.compress(b"a")))
    assert decode_attempt(attempt) == (attempt, None)


def test_a_read_whose_payload_was_not_kept_brings_nothing() -> None:
    """Where capture stopped keeping payloads, the reads keep their times."""
    attempt = Attempt(reads=(Read(0, 1, 2, 0), Read(1, 2, 2, 0)), wire=(b"ab",))
    after, problem = decode_attempt(attempt)
    assert (after.body, problem) == (b"ab", None)
    assert [read.body_offset for read in after.reads] == [2, 2]


def test_a_body_is_one_frame_dated_by_its_last_byte() -> None:
    """However it came; an empty one is none."""
    whole = run(BodyDecoder(), [b'{"a": 1}'])
    assert [(f.kind, f.data, f.start, f.end, f.closed) for f in whole] == [
        ("body", b'{"a": 1}', 0, 8, True)
    ]
    assert shapes(run(BodyDecoder(), single_bytes(b'{"a": 1}'))) == shapes(whole)
    assert run(BodyDecoder(), [b"", b""]) == []


def test_a_body_past_the_limit_keeps_its_prefix() -> None:
    """Marked, and the end counts every byte."""
    for reads in ([b"12345678"], single_bytes(b"12345678")):
        (frame,) = run(BodyDecoder(max_frame_bytes=5), reads)
        assert (frame.data, frame.end, frame.truncated) == (b"12345", 8, True)
    (frame,) = run(BodyDecoder(max_frame_bytes=8), [b"12345678"])
    assert not frame.truncated
