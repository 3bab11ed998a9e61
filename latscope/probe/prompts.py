"""What a probe asks: a given prompt, or filler of about so many tokens, behind a fresh nonce.

The nonce at the very start keeps a prefix cache from serving one probe what another wrote;
`--reuse-prompt` leaves it out, to measure exactly that cache.
"""

import random
import secrets

DEFAULT = "Count upwards from one in English words, one number a line, and do not stop early."

TEXT = (
    "time year people way day man thing woman life child world school state family student group "
    "country problem hand part place case week company system program question work night point "
    "home water room mother area money story fact month lot right study book eye job word business "
    "issue side kind head house service friend father power hour game line end member law car city"
)
WORDS = TEXT.split()
"""Common enough to be one token each in most vocabularies."""

OVERHEAD = 24
"""Tokens the nonce and the closing question take, about."""


def filler(tokens: int, seed: int) -> str:
    """About `tokens` tokens of plain words and a question at their end; the same seed, the same
    text. The server's usage says what it really was."""
    words = random.Random(seed).choices(WORDS, k=max(1, tokens - OVERHEAD))
    return f"{' '.join(words)}\nList words that go with these, one a line."


def fresh(prompt: str) -> str:
    """The prompt behind a nonce no cache has seen."""
    return f"[{secrets.token_hex(6)}] {prompt}"
