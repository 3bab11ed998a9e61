"""Masks a content-decoded body: finds the payloads in its framing, keeps every byte's place.

The framing is told from the bytes alone, not from the content-type (gateways mislabel): a body that
parses as one JSON document is one, one that begins with the prelude of an AWS event stream is that
(`eventstream`); anything else is read line by line, each line being an SSE field
(WHATWG HTML 9.2.6; LF, CR and CRLF end a line, a blank line ends an event) or a JSON line. The
`data:` lines of one event are one payload, joined by line feeds. What is neither is masked whole,
so an unknown body gives away its length and white space only. So is every line of a document that
is cut: JSON lines are read only where the first line is one, for the inner objects of an indented
document may stand on lines of their own, and are arguments as likely as answers.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from pydantic_core import from_json

from latscope.protocols.mask.eventstream import is_event_stream, mask_messages
from latscope.protocols.mask.payload import (
    mask_payload,
    mask_secrets,
    mask_steps,
    mask_whole,
    remembering,
    secrets_steps,
)
from latscope.protocols.mask.template import Mask
from latscope.protocols.mask.vocabulary import COMMENTS, SENTINELS, event_name
from latscope.steps import Steps

Place: TypeAlias = tuple[int, int]
"""Where in the body something lies: [start, end)."""

BOM = b"\xef\xbb\xbf"
LINE = re.compile(rb"[^\r\n]+")
_ENDS = frozenset({b"\n", b"\r", b"\r\n"})
_RETRY = re.compile(rb" ?[0-9]{1,7}").fullmatch
_FIELDS = (b"data", b"event", b"id", b"retry")
STRUCTURE = re.compile(rb"\s*[\[{]").match


def mask_body(body: bytes, *, keep_content: bool = False) -> Steps[bytes]:
    """The masked body, in steps: yields after each event or line, and within long ones, so
    that a worker can pause."""
    if is_event_stream(body):
        masks = (mask_secrets, mask_secrets) if keep_content else (mask_payload, remembering())
        return (yield from mask_messages(body, *masks))
    out = bytearray(body)
    start = len(BOM) if body.startswith(BOM) else 0
    if _is_json(body[start:]):
        whole = body[start:]
        steps = secrets_steps(whole) if keep_content else mask_steps(whole, [])
        out[start:] = yield from steps
    else:
        payload = mask_secrets if keep_content else remembering()
        line = mask_secrets if keep_content else other_lines(body[start:])
        yield from mask_lines(body, start, out, payload, line)
    return bytes(out)


def _is_json(body: bytes) -> bool:
    return bool(STRUCTURE(body)) and _parses(body)


def _parses(body: bytes) -> bool:
    try:
        from_json(body)
    except ValueError:
        return False
    return True


def mask_lines(body: bytes, start: int, out: bytearray, payload: Mask, other: Mask) -> Steps[None]:
    event: list[Place] = []
    last = start
    for line in LINE.finditer(body, start):
        begin, end = line.span()
        if event and body[last:begin] not in _ENDS:  # a blank line lies between
            _mask_event(body, event, out, payload)
            event = []
            yield
        last = end
        if body.startswith(b"data:", begin):
            event.append((begin + 5, end))
        else:
            out[begin:end] = other(line[0])
            yield
    if event:
        _mask_event(body, event, out, payload)


def _mask_event(body: bytes, places: list[Place], out: bytearray, payload: Mask) -> None:
    """One SSE event. Lines that make no JSON together are masked each by itself where the first is
    a document: a server that forgets the blank lines sends one a line. Else the event is cut."""
    if len(places) == 1:
        ((start, end),) = places
        out[start:end] = payload(body[start:end])
        return
    lines = [body[start:end] for start, end in places]
    joined = b"\n".join(lines)
    apart = not _is_json(joined) and _is_json(lines[0])
    masked = map(payload, lines) if apart else payload(joined).split(b"\n")
    for (start, end), line in zip(places, masked, strict=True):
        out[start:end] = line


def other_lines(body: bytes) -> Mask:
    """The mask of a body's lines that are no `data:`."""
    first = LINE.search(body)
    known = first is not None and (_parses(first[0]) or first[0].strip() in SENTINELS)
    bare = mask_payload if known else mask_whole
    return partial(_mask_field, bare)


def _mask_field(bare: Mask, line: bytes) -> bytes:
    """A line that is not `data:`: another SSE field, a comment, or neither (`bare` masks it)."""
    name, colon, value = line.partition(b":")
    if not colon and name in _FIELDS:
        return line
    if not name:
        return line if value.strip().lower() in COMMENTS else b":" + mask_whole(value)
    keep = _KEEP_FIELD.get(name)
    if keep is None:
        return bare(line)
    return line if keep(value) else name + colon + mask_whole(value)


_KEEP_FIELD: dict[bytes, Callable[[bytes], object]] = {
    b"event": lambda value: event_name(value.strip()),
    b"id": lambda value: not value.strip(),
    b"retry": _RETRY,
}
