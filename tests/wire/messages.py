"""AWS event-stream messages as services send them, written by the specification."""

import base64
import json
import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

Value = str | bytes | bool | int


def header(name: str, value: Value) -> bytes:
    """One header: text, bytes, a truth value, or a number as a long."""
    head = bytes([len(name.encode())]) + name.encode()
    if isinstance(value, bool):
        return head + bytes([0 if value else 1])
    if isinstance(value, int):
        return head + b"\x05" + struct.pack(">q", value)
    raw = value.encode() if isinstance(value, str) else value
    return (
        head + (b"\x07" if isinstance(value, str) else b"\x06") + struct.pack(">H", len(raw)) + raw
    )


def framed(block: bytes, payload: bytes) -> bytes:
    """A message of this block of headers."""
    lengths = struct.pack(">II", 16 + len(block) + len(payload), len(block))
    covered = lengths + struct.pack(">I", crc32(lengths)) + block + payload
    return covered + struct.pack(">I", crc32(covered))


def message(headers: Mapping[str, Value], payload: bytes = b"") -> bytes:
    return framed(b"".join(header(name, value) for name, value in headers.items()), payload)


def event(name: str, payload: bytes) -> bytes:
    return message(
        {
            ":event-type": name,
            ":content-type": "application/json",
            ":message-type": "event",
        },
        payload,
    )


def exception(name: str, said: str) -> bytes:
    return message(
        {
            ":exception-type": name,
            ":content-type": "application/json",
            ":message-type": "exception",
        },
        json.dumps({"message": said}).encode(),
    )


def chunk(data: Mapping[str, Any] | bytes, filler: str = "abcdefgh") -> bytes:
    """What Bedrock sends of one event of a vendor's stream."""
    inner = data if isinstance(data, bytes) else json.dumps(data).encode()
    wrapped = {"bytes": base64.b64encode(inner).decode(), "p": filler}
    return event("chunk", json.dumps(wrapped, separators=(",", ":")).encode())


def spoiled(message: bytes, at: int) -> bytes:
    """The message with one byte altered."""
    return message[:at] + bytes([message[at] ^ 0x40]) + message[at + 1 :]
