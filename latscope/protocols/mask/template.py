"""What two chunks of a stream have in common, so that only the first is walked token by token.

A template is a masked payload with its spots left open: strings that are masked whatever they say
and numbers that stay whatever they are. A payload equal to it everywhere else is masked by filling
the spots. Everything that decides how a payload is masked (keys, kept words) is outside the spots
and compared byte for byte, so the result is the one a walk would give (a property test compares).
"""

import re
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

Mask: TypeAlias = Callable[[bytes], bytes]
"""Masks one payload, keeping its length."""

Spot: TypeAlias = tuple[int, int, bool]
"""Where a value lies, [start, end), and whether it is a string to be hidden (else a number)."""


class Part(NamedTuple):
    """The bytes between two spots, as sent and as masked; `hidden` tells what spot comes before."""

    hidden: bool
    sent: bytes
    masked: bytes


class Template(NamedTuple):
    sent: bytes
    masked: bytes
    parts: tuple[Part, ...]


_MOST_SPOTS = 24
"""A payload with more values is rare in a stream and not worth remembering."""

_TEXT = re.compile(
    # JSON string contents that are sure to be valid (RFC 8259 section 7, RFC 3629) and hold no
    # tag: no `<`, written or escaped, and no surrogate, whose pair would need a look at both.
    rb"(?:[ !#-;=-\[\]-~]++"
    rb'|\\(?:["\\/bfnrt]|u(?!003[cC]|[dD][89a-fA-F])[0-9a-fA-F]{4})'
    rb"|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}"
    rb"|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2})*+"
).match
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,17})?").match


def build(sent: bytes, masked: bytes, spots: list[Spot]) -> Template | None:
    """The template of a payload; null when it has no spot, or too many to be worth it."""
    if not 0 < len(spots) <= _MOST_SPOTS:
        return None
    starts = [spot[0] for spot in spots[1:]] + [len(sent)]
    parts = tuple(
        Part(hidden, sent[end:until], masked[end:until])
        for (_, end, hidden), until in zip(spots, starts, strict=True)
    )
    first = spots[0][0]
    return Template(sent[:first], masked[:first], parts)


def fill(template: Template, payload: bytes) -> bytes | None:
    """The payload masked by the template, or null when it is not of its kind."""
    start, masked, parts = template
    if not payload.startswith(start) or not payload.endswith(parts[-1].sent):
        return None
    pieces = [masked]
    at = len(start)
    for hidden, sent, masked in parts:
        spot = _TEXT(payload, at) if hidden else _NUMBER(payload, at)
        if spot is None or not payload.startswith(sent, end := spot.end()):
            return None
        pieces += (b"x" * (end - at) if hidden else payload[at:end], masked)
        at = end + len(sent)
    return b"".join(pieces) if at == len(payload) else None
