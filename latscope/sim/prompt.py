"""Prompts as the simulated server counts them, and which of their blocks it has seen before."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Any

from latscope.protocols.dialect import Api

BLOCK = 64
"""Tokens to a block of the prefix cache; only whole blocks are shared."""

CACHED_BLOCKS = 65_536
"""Blocks kept, the least recently used dropped first: four million tokens."""

FIELDS: Mapping[Api, tuple[str, ...]] = {
    "chat": ("tools", "messages"),
    "completions": ("prompt",),
    "responses": ("instructions", "tools", "input"),
    "messages": ("system", "tools", "messages"),
}
"""The parts of a request a prompt is made of, in the order a model reads them."""

_TOKEN = re.compile(r"\s*\S{1,4}")


def tokenise(text: str) -> list[str]:
    """Pseudo-tokens: at most four characters of a word, with the blanks before them.

    About 1.5 to a word of English prose, as a small vocabulary would give."""
    return _TOKEN.findall(text)


def prompt_text(api: Api, body: Mapping[str, Any]) -> str:
    """Everything of a request the model reads, one string a line."""
    return "\n".join(text for field in FIELDS[api] for text in _strings(body.get(field)))


def prompt_of(tokens: int, seed: int | str = 0) -> str:
    """A prompt of exactly so many pseudo-tokens; equal seeds give equal prompts."""
    random = Random(f"prompt:{seed}")
    return " ".join(f"{random.randrange(10_000):04d}" for _ in range(tokens))


class PrefixCache:
    """Which prompt prefixes the engine holds, in whole blocks. Keeps digests, never a prompt."""

    def __init__(self, limit: int = CACHED_BLOCKS) -> None:
        self._limit = limit
        self._held: OrderedDict[bytes, None] = OrderedDict()

    def cached(self, tokens: Sequence[str]) -> int:
        """How many leading tokens need no prefill. The last token is always computed anew: its
        output is what the first generated token comes from."""
        found = 0
        for digest in _blocks(tokens[:-1]):
            if digest not in self._held:
                break
            found += BLOCK
        return found

    def add(self, tokens: Sequence[str]) -> None:
        for digest in _blocks(tokens):
            self._held[digest] = None
            self._held.move_to_end(digest)
        while len(self._held) > self._limit:
            self._held.popitem(last=False)


def _blocks(tokens: Sequence[str]) -> Iterator[bytes]:
    """A digest for each whole block, chained: equal only when everything before is equal too."""
    digest = b""
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        block = "\0".join(tokens[start : start + BLOCK])
        digest = blake2b(digest + block.encode(), digest_size=16).digest()
        yield digest


def _strings(value: Any) -> Iterator[str]:
    """All text in a JSON value, in order; token ids as their digits."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key not in ("type", "id"):
                yield from _strings(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
