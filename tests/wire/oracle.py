"""The event-stream rules a second time, over whole bytes and with regular expressions: a reference
that shares no code and no method with the decoder it judges."""

import re
from itertools import groupby

from .cutting import Shape

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
_FIELD = re.compile(rb"([^:]*)(?:: ?)?(.*)", re.DOTALL)


def reference(stream: bytes, limit: int) -> list[Shape]:
    """The frames of a whole stream, times left out, in order of their end."""
    skip = 3 if stream.startswith(b"\xef\xbb\xbf") else 0
    found = []
    lines = [m for m in _LINE.finditer(stream, skip) if m.group(0)]
    fields = [m for m in lines if not m.group(1).startswith(b":")]
    for match in lines:
        if match.group(1).startswith(b":"):
            text = re.sub(rb"\A: ?", b"", match.group(1))
            closed = bool(match.group(2))
            found.append(
                ("comment", "", text[:limit], match.start(), _end(match), len(text) > limit, closed)
            )
    for is_blank, group in groupby(fields, key=lambda m: not m.group(1)):
        block = list(group)
        if not is_blank:
            after = next((m for m in fields if m.start() >= block[-1].end()), None)
            found += _event(block, after, limit)
    return sorted(found, key=lambda frame: frame[4])


def _event(block: list[re.Match[bytes]], blank: re.Match[bytes] | None, limit: int) -> list[Shape]:
    parts = [_FIELD.fullmatch(match.group(1)) for match in block]
    pairs = [(part.group(1), part.group(2)) for part in parts if part is not None]
    values = [value for name, value in pairs if name == b"data"]
    name = ([b""] + [value for field, value in pairs if field == b"event"])[-1]
    if not values:
        return []
    data, end = b"\n".join(values), _end(block[-1] if blank is None else blank)
    over = len(data) > limit or len(name) > limit
    word = name[:limit].decode("utf-8", "replace")
    return [("event", word, data[:limit], block[0].start(), end, over, blank is not None)]


def _end(line: re.Match[bytes]) -> int:
    """Just past the byte that completed the line: the first of its line end, if it has one."""
    return line.end(1) + (1 if line.group(2) else 0)
