"""Masks an AWS event stream message by message, every byte in its place.

Payloads are masked as those of other streams, inside Bedrock's base64 too; of the headers the names
and values that say what a message is stay. A checksum is a fingerprint of what it covers, text
included, so each is written anew, over the masked bytes: where it fitted it fits, where it did not
it does not, and a masked stream is a stream any reader takes. Broken and unfinished messages keep
their prelude and are masked whole.
"""

from base64 import b64encode
from collections.abc import Mapping
from zlib import crc32

from latscope.protocols import bedrock
from latscope.protocols.mask.template import Mask
from latscope.protocols.mask.vocabulary import Shape, shape
from latscope.steps import Steps
from latscope.wire.eventstream import (
    CRC_BYTES,
    MAX_SEARCH_BYTES,
    PRELUDE_BYTES,
    TYPE_NAME,
    headers_of,
    intact,
    next_prelude,
    prelude,
)

_NAME = shape(rb"[A-Za-z][A-Za-z0-9_.\-]{0,63}")
_KEPT: Mapping[str, Shape] = {
    TYPE_NAME: shape(rb"event|exception|error"),
    ":event-type": _NAME,
    ":exception-type": _NAME,
    ":error-code": _NAME,
    ":content-type": shape(rb"[a-z]{1,20}/[a-z0-9.+\-]{1,40}"),
}
LOOKED_AT = 64 * 1024
"""Bytes of a body in which a prelude must stand for it to be an event stream."""


def is_event_stream(body: bytes) -> bool:
    """Whether a body is an AWS event stream, by its bytes: a prelude whose checksum fits, nearly
    always the first thing in it. Text holds no NUL, and every prelude one."""
    head = body[:LOOKED_AT]
    return b"\0" in head and next_prelude(head, 0) >= 0


def mask_messages(body: bytes, payload: Mask, wrapped: Mask) -> Steps[bytes]:
    """The masked body, a message a step. payload masks what a message carries, wrapped what Bedrock
    wraps in it."""
    out = bytearray(b"x" * len(body))
    at = 0
    while at < len(body):
        lengths = prelude(body, at)
        if lengths is None:
            found = next_prelude(body, at + 1)
            at = found if 0 <= found - at <= MAX_SEARCH_BYTES else len(body)
            continue
        end = at + lengths[0]
        if end <= len(body):
            out[at:end] = _masked(body[at:end], lengths[1], payload, wrapped)
        else:
            out[at : at + PRELUDE_BYTES] = body[at : at + PRELUDE_BYTES]
        at = end
        yield
    return bytes(out)


def _masked(message: bytes, size: int, payload: Mask, wrapped: Mask) -> bytes:
    """One whole message whose headers take up `size` bytes."""
    block = message[PRELUDE_BYTES : PRELUDE_BYTES + size]
    readable = intact(message) and headers_of(block) is not None
    content = message[PRELUDE_BYTES + size : -CRC_BYTES]
    covered = message[:PRELUDE_BYTES]
    if readable:
        covered += _headers(block) + _content(content, payload, wrapped)
    else:
        covered += b"x" * (len(block) + len(content))
    checksum = crc32(covered) if readable else ~crc32(covered) & 0xFFFFFFFF
    return covered + checksum.to_bytes(CRC_BYTES, "big")


def _headers(block: bytes) -> bytes:
    out = bytearray(block)
    for name, _, name_start, start, end in headers_of(block) or ():
        kept = _KEPT.get(name)
        if kept is None:
            length = block[name_start - 1]
            out[name_start : name_start + length] = b"x" * length
        if kept is None or not kept(block[start:end]):
            out[start:end] = b"x" * (end - start)
    return bytes(out)


def _content(payload: bytes, mask: Mask, wrapped: Mask) -> bytes:
    masked = mask(payload)
    found = bedrock.inside(payload)
    if found is None:
        return masked
    text, event = found
    hidden = b64encode(wrapped(event))
    at = payload.find(b'"%b"' % text.encode()) + 1
    if not at or len(hidden) != len(text):
        return masked
    return masked[:at] + hidden + masked[at + len(hidden) :]
