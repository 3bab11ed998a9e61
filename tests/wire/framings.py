"""Event streams as servers send them, with the frames each must give however it is cut.

`reads` is how the stream came apart where that is the point of the case; the tests cut the joined
bytes in every other way too. A frame is written (kind, name, data), or with a fourth item False
when the stream's end completed it.
"""

from dataclasses import dataclass
from typing import TypeAlias

Row: TypeAlias = tuple[str, str, bytes] | tuple[str, str, bytes, bool]

CHUNK = b'{"choices":[{"index":0,"delta":{"content":"Hello"}}]}'
ROLE = b'{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
ERROR = b'{"error":{"message":"engine died","code":500}}'
DONE = b"[DONE]"
MEGABYTE = b'{"content":"' + b"x" * 1_000_000 + b'"}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Framing:
    name: str
    reads: tuple[bytes, ...]
    rows: tuple[Row, ...]

    @property
    def stream(self) -> bytes:
        return b"".join(self.reads)


def _event(data: bytes, name: str = "") -> Row:
    return ("event", name, data)


def _comment(data: bytes) -> Row:
    return ("comment", "", data)


# The fifteen framings in which every peer's reader failed at least once.
PEERS = (
    Framing(
        name="CRLF framing",
        reads=(b"data: " + ROLE + b"\r\n\r\n", b"data: " + CHUNK + b"\r\n\r\n"),
        rows=(_event(ROLE), _event(CHUNK)),
    ),
    Framing(
        name="data: without space",
        reads=(b"data:" + CHUNK + b"\n\n", b"data:[DONE]\n\n"),
        rows=(_event(CHUNK), _event(DONE)),
    ),
    Framing(
        name="ping comment alone in a read, then data in later reads",
        reads=(b"data: " + ROLE + b"\n\n", b": ping\n\n", b"data: " + CHUNK + b"\n\n"),
        rows=(_event(ROLE), _comment(b"ping"), _event(CHUNK)),
    ),
    Framing(
        name="read boundary just before a space inside JSON",
        reads=(b'data: {"content":"Hello', b' world"}\n\n'),
        rows=(_event(b'{"content":"Hello world"}'),),
    ),
    Framing(
        name="read boundary after data:",
        reads=(b"data:", b" " + CHUNK + b"\n\n"),
        rows=(_event(CHUNK),),
    ),
    Framing(
        name="read boundary inside a UTF-8 character",
        reads=(b'data: {"content":"caf\xc3', b"\xa9 \xf0\x9f", b'\x98\x80"}\n\n'),
        rows=(_event('{"content":"café 😀"}'.encode()),),
    ),
    Framing(
        name="U+2028, U+2029 and U+0085 in content",
        reads=('data: {"content":"a\u2028b\u2029c\u0085d\x0b\x0ce"}\n\n'.encode(),),
        rows=(_event('{"content":"a\u2028b\u2029c\u0085d\x0b\x0ce"}'.encode()),),
    ),
    Framing(
        name="last event lacks blank line",
        reads=(b"data: " + CHUNK + b"\n\n", b"data: [DONE]\n"),
        rows=(_event(CHUNK), ("event", "", DONE, False)),
    ),
    Framing(
        name="CR-only framing",
        reads=(b"data: " + ROLE + b"\r\r", b"data: " + CHUNK + b"\r\r"),
        rows=(_event(ROLE), _event(CHUNK)),
    ),
    Framing(
        name="event: and data: lines",
        reads=(
            b'event: message_start\ndata: {"type":"message_start"}\n\n',
            b'event: ping\ndata: {"type":"ping"}\n\n',
        ),
        rows=(
            _event(b'{"type":"message_start"}', "message_start"),
            _event(b'{"type":"ping"}', "ping"),
        ),
    ),
    Framing(
        name="error object after text, then [DONE]",
        reads=(b"data: " + CHUNK + b"\n\n", b"data: " + ERROR + b"\n\n", b"data: [DONE]\n\n"),
        rows=(_event(CHUNK), _event(ERROR), _event(DONE)),
    ),
    Framing(
        name="cut stream, no [DONE], no finish reason",
        reads=(b"data: " + CHUNK + b"\n\n", b'data: {"choices":[{"ind'),
        rows=(_event(CHUNK), ("event", "", b'{"choices":[{"ind', False)),
    ),
    Framing(
        name="BOM first",
        reads=(b"\xef\xbb\xbfdata: " + CHUNK + b"\n\n", b"data: [DONE]\n\n"),
        rows=(_event(CHUNK), _event(DONE)),
    ),
    Framing(
        name="three events in one read",
        reads=((b"data: " + CHUNK + b"\n\n") * 3,),
        rows=(_event(CHUNK),) * 3,
    ),
    Framing(
        name="one event per read, LF (control)",
        reads=(b"data: " + CHUNK + b"\n\n", b"data: [DONE]\n\n"),
        rows=(_event(CHUNK), _event(DONE)),
    ),
)

# What else the specification allows, and what it forbids to matter.
SPEC = (
    Framing(name="empty stream", reads=(b"",), rows=()),
    Framing(name="nothing but line ends", reads=(b"\n\r\n\r\r\n\n",), rows=()),
    Framing(
        name="mixed line ends",
        reads=(b"data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\rdata: e\r\n\n",),
        rows=(_event(b"a\nb\nc"), _event(b"d"), _event(b"e")),
    ),
    Framing(
        name="CR, then LF in a read of its own",
        reads=(b"data: a\r", b"\n\r", b"\ndata: b\r\n\r", b"\n"),
        rows=(_event(b"a"), _event(b"b")),
    ),
    Framing(
        name="BOM alone in the stream",
        reads=(b"\xef\xbb\xbf",),
        rows=(),
    ),
    Framing(
        name="BOM twice: the second belongs to a field name",
        reads=(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n",),
        rows=(_event(b"b"),),
    ),
    Framing(
        name="BOM later than first is no BOM",
        reads=(b"data: a\n\n\xef\xbb\xbfdata: b\n\n",),
        rows=(_event(b"a"),),
    ),
    Framing(
        name="half a BOM",
        reads=(b"\xef\xbb", b"data: a\n\ndata: b\n\n"),
        rows=(_event(b"b"),),
    ),
    Framing(name="half a BOM and no more", reads=(b"\xef\xbb",), rows=()),
    Framing(
        name="BOM before a comment",
        reads=(b"\xef\xbb\xbf: hello\ndata: a\n\n",),
        rows=(_comment(b"hello"), _event(b"a")),
    ),
    Framing(
        name="leading blank lines",
        reads=(b"\n\n\r\ndata: a\n\n",),
        rows=(_event(b"a"),),
    ),
    Framing(
        name="one space after the colon is framing, the next is data",
        reads=(b"data:  a\n\ndata:\tb\n\ndata: \n\n",),
        rows=(_event(b" a"), _event(b"\tb"), _event(b"")),
    ),
    Framing(
        name="several data lines",
        reads=(b"data: YHOO\ndata: +2\ndata:\ndata: 10\n\n",),
        rows=(_event(b"YHOO\n+2\n\n10"),),
    ),
    Framing(
        name="field with no colon",
        reads=(b"data\n\ndata\ndata\n\nevent\ndata: a\n\ndata:",),
        rows=(_event(b""), _event(b"\n"), _event(b"a"), ("event", "", b"", False)),
    ),
    Framing(
        name="colons in data",
        reads=(b"data:: a: b\n\n",),
        rows=(_event(b": a: b"),),
    ),
    Framing(
        name="unknown fields, id, id with NUL, retry",
        reads=(
            b"id: 1\nid: a\x00b\nid\nretry: 10\nretry: x\nDATA: no\n data: no\ndata: a\nfoo:\n\n",
        ),
        rows=(_event(b"a"),),
    ),
    Framing(
        name="NUL in data",
        reads=(b"data: a\x00b\n\n",),
        rows=(_event(b"a\x00b"),),
    ),
    Framing(
        name="event without data dispatches nothing and leaks no name",
        reads=(b"event: gone\nid: 7\n\ndata: a\n\nevent: kept\ndata: b\n\ndata: c\n\n",),
        rows=(_event(b"a"), _event(b"b", "kept"), _event(b"c")),
    ),
    Framing(
        name="last event name wins, an empty one resets it",
        reads=(b"event: x\nevent: y\ndata: a\n\nevent: x\nevent:\ndata: b\n\n",),
        rows=(_event(b"a", "y"), _event(b"b")),
    ),
    Framing(
        name="event name after its data; bytes that are no UTF-8",
        reads=(b"data: a\xff\nevent: n\xc3\xa9\xff\n\n",),
        rows=(_event(b"a\xff", "né\N{REPLACEMENT CHARACTER}"),),
    ),
    Framing(
        name="comments between and inside",
        reads=(b": one\n\n:two\ndata: a\n:  three\ndata: b\n: \n:\n\n: four\n",),
        rows=(
            _comment(b"one"),
            _comment(b"two"),
            _comment(b" three"),
            _comment(b""),
            _comment(b""),
            _event(b"a\nb"),
            _comment(b"four"),
        ),
    ),
    Framing(
        name="comment cut by the end, after an event cut by the end",
        reads=(b"data: a\n", b": pi"),
        rows=(("event", "", b"a", False), ("comment", "", b"pi", False)),
    ),
    Framing(
        name="comment after the last line of an event cut by the end",
        reads=(b"data: a\n", b": ping\n"),
        rows=(("event", "", b"a", False), _comment(b"ping")),
    ),
    Framing(
        name="an event of several lines cut by the end",
        reads=(b"event: e\ndata: a\n", b"data: b\n", b"id: 1"),
        rows=(("event", "e", b"a\nb", False),),
    ),
    Framing(
        name="a block without data cut by the end",
        reads=(b"data: a\n\nevent: b\nid: 3",),
        rows=(_event(b"a"),),
    ),
    Framing(
        name="closed at the CR of a CRLF",
        reads=(b"data: a\r\n\r",),
        rows=(_event(b"a"),),
    ),
)

LONG = Framing(
    name="a 1 MB line",
    reads=(b"data: " + MEGABYTE + b"\n\ndata: [DONE]\n\n",),
    rows=(_event(MEGABYTE), _event(DONE)),
)
