"""Masks one JSON payload byte for byte: the same length, the same structure, no content.

pydantic_core's parser says whether the payload is JSON; one regular expression then walks its
tokens, a key together with its value, and the rules of `vocabulary` say what stays. Linear time.

A masked string keeps its length in *bytes as written*: an escape of two bytes becomes two x. Empty
strings stay empty, others do not become so. Numbers are masked digit by digit to 1, which leaves
every number a legal one (no leading zero appears).

Everything is written as generators of steps, for a worker that must not hold the interpreter for
the length of a long body; where payloads are short (`remembering`) they are run at once.

The chunks of a stream differ in little but their text, so `remembering` walks only those that do
not look like the one before; `template` holds what that means.
"""

import re

from pydantic_core import from_json

from latscope.protocols.mask.secrets import is_secret_in_body, scrub_bytes
from latscope.protocols.mask.template import Mask, Spot, Template, build, fill
from latscope.protocols.mask.vocabulary import OPAQUE, SENTINELS, TOP, TOP_ERROR, Field, Lookup
from latscope.steps import Steps, finish

_STRING = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_NUMBER = rb"-?[0-9][0-9.eE+\-]*+"
_ITEM = re.compile(
    rb'"(%(s)b)"\s*+(?::\s*+(?:"(%(s)b)"|([\[{])|(%(n)b)|(-?[A-Za-z]++)))?+'
    rb"|([\[{])|([\]}])|(%(n)b(?:[,\s]++%(n)b)*+)" % {b"s": _STRING, b"n": _NUMBER},
    re.DOTALL,
)
# The last group that matched says what the item is.
_ELEMENT, _STRING_VALUE, _OPEN_VALUE, _NUMBER_VALUE, _LITERAL_VALUE = 1, 2, 3, 4, 5
_OPEN, _CLOSE, _NUMBER_ELEMENTS = 6, 7, 8
_ELEMENTS = (_ELEMENT, _NUMBER_ELEMENTS)
_NUMBERS = (_NUMBER_VALUE, _NUMBER_ELEMENTS)

_X = bytes(b if b in b" \t\r\n" else ord("x") for b in range(256))
_ONES = bytes(ord("1") if b in b"0123456789" else b for b in range(256))
_PAIR = re.compile(
    rb'("([^"\\]{1,64})"\s*+:\s*+)(?:(")(%b)|(%b)|([\[{]))' % (_STRING, _NUMBER), re.DOTALL
)
_THINK = re.compile(
    # Go servers write < and > as escapes. A backslash escapes what follows it: never split a pair.
    # Runs of what begins neither are one match: a long text must not cost a call a byte.
    rb"((?:<|\\u003[cC])/?think(?:>|\\u003[eE]))|\\.|[^<\\]++|<",
    re.DOTALL,
)


_ITEMS_A_STEP = 256


def mask_payload(payload: bytes) -> bytes:
    """The payload masked, or masked whole when it is not JSON. Stream ends (`[DONE]`) stay."""
    return finish(mask_steps(payload, []))


def mask_steps(payload: bytes, spots: list[Spot]) -> Steps[bytes]:
    """`mask_payload` in steps. spots: filled with what a template leaves open."""
    if payload.strip() in SENTINELS:
        return payload
    try:
        parsed = from_json(payload)
    except ValueError:
        return mask_whole(payload)
    return (yield from _walk(payload, TOP_ERROR if _is_error(parsed) else TOP, spots))


def remembering() -> Mask:
    """A `mask_payload` for the payloads of one stream: the same results, sooner."""
    template: Template | None = None
    # The same with its numbers as they were, for most chunks repeat them.
    narrow: Template | None = None

    def mask(payload: bytes) -> bytes:
        nonlocal template, narrow
        masked = fill(narrow, payload) if narrow else None
        if masked is None and template:
            masked = fill(template, payload)
        if masked is None:
            spots: list[Spot] = []
            masked = finish(mask_steps(payload, spots))
            template = build(payload, masked, spots)
            narrow = build(payload, masked, [spot for spot in spots if spot[2]])
        return masked

    return mask


def mask_whole(data: bytes) -> bytes:
    """Every byte that is not white space turned to x."""
    return data.translate(_X)


def mask_secrets(payload: bytes) -> bytes:
    """The payload with only what may never be kept masked: the rest of it is kept."""
    return finish(secrets_steps(payload))


def secrets_steps(payload: bytes) -> Steps[bytes]:
    """`mask_secrets` in steps."""
    try:
        from_json(payload)
    except ValueError:
        return scrub_bytes(_cover_secrets(payload))
    return scrub_bytes((yield from _walk(payload, _everything, [])))


def _cover_secrets(data: bytes) -> bytes:
    """What is no JSON, a cut payload mostly: where it cannot be seen how far a secret object or
    array reaches, all that follows goes."""
    out = bytearray(data)
    for pair in _PAIR.finditer(data):
        if is_secret_in_body(pair[2]):
            if pair[6]:
                out[pair.start(6) :] = mask_whole(data[pair.start(6) :])
                break
            start, end = pair.span(4 if pair[3] else 5)
            out[start:end] = b"x" * (end - start) if pair[3] else pair[5].translate(_ONES)
    return bytes(out)


def _everything(key: bytes) -> Field:
    return _SECRET if is_secret_in_body(key) else _KEPT


_SECRET = Field(None, OPAQUE)
_KEPT = Field(len, _everything)
_UNKNOWN = Field(None, OPAQUE)


def _is_error(parsed: object) -> bool:
    """Whether a payload is an error object itself: it says so, or has a code and a message."""
    if not isinstance(parsed, dict):
        return False
    named = "error" in (parsed.get("type"), parsed.get("object"))
    return named or ("code" in parsed and isinstance(parsed.get("message"), str))


def _walk(data: bytes, top: Lookup, spots: list[Spot]) -> Steps[bytes]:
    """Masks `data`, which is valid JSON, by the rules of `top`. spots: filled with the values whose
    treatment does not depend on what they are: strings always masked, numbers always kept."""
    out = bytearray(data)
    path: list[Lookup] = []
    rules = top
    for count, item in enumerate(_ITEM.finditer(data), 1):
        if count % _ITEMS_A_STEP == 0:
            yield
        kind = item.lastindex
        if kind == _CLOSE:
            rules = path.pop()
        elif kind == _OPEN:
            path.append(rules)  # an element follows the rules of its array
        elif kind in _ELEMENTS:
            if rules is not _everything:
                _cover(out, item, kind)
        else:
            field = rules(_key(item[1])) or _unknown(out, item)
            if kind == _OPEN_VALUE:
                path.append(rules)
                rules = field.inside
            elif kind != _LITERAL_VALUE:
                _value(out, item, field, spots)
    return bytes(out)


def _key(written: bytes) -> bytes:
    """A key as it reads; JSON may write any of its characters as an escape."""
    if b"\\" not in written:
        return written
    text: str = from_json(b'"%b"' % written)
    return text.encode()


def _value(out: bytearray, item: re.Match[bytes], field: Field, spots: list[Spot]) -> None:
    """A string or a number under a key."""
    kind = item.lastindex or 0
    shape, inside = field
    if kind == _NUMBER_VALUE:
        if inside is OPAQUE:
            _cover(out, item, kind)
        else:
            spots.append((*item.span(kind), False))
    elif shape is None:
        _cover(out, item, kind)
        spots.append((*item.span(kind), True))
    elif not shape(item[kind]):
        _cover(out, item, kind)


def _unknown(out: bytearray, item: re.Match[bytes]) -> Field:
    start, end = item.span(1)
    out[start:end] = b"x" * (end - start)
    return _UNKNOWN


def _cover(out: bytearray, item: re.Match[bytes], group: int) -> None:
    start, end = item.span(group)
    if group in _NUMBERS:
        out[start:end] = item[group].translate(_ONES)
    elif b"think" in item[group]:
        out[start:end] = _THINK.sub(lambda m: m[1] or b"x" * len(m[0]), item[group])
    else:
        out[start:end] = b"x" * (end - start)
