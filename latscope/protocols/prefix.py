"""The prompt's prefix as keyed hashes: what two calls share, without what they say.

The canonical prompt is the request's parts in the order engines render them (tools, system text,
then messages), serialised the same way whatever the order of keys or the spelling of text content.
It is cut into blocks of 256 bytes; the hash of a block is chained over all before it, so equal
hashes mean equal beginnings, and two prompts that share a beginning share exactly its hashes. Keyed
(BLAKE2b, RFC 7693), so that nobody without the user's key can test a guess against a recording.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from latscope.errors import UsageError

BLOCK = 256
"""Bytes of canonical prompt a hash covers; the last block of a prompt may be shorter."""

_ORDER: dict[str, tuple[str, ...]] = {
    "chat": ("tools", "functions", "messages"),
    "completions": ("prompt",),
    "responses": ("tools", "instructions", "input"),
    "messages": ("tools", "system", "messages"),
    "ollama": ("tools", "system", "messages", "prompt"),
    "lmstudio": ("system_prompt", "input"),
}
_UNRENDERED = frozenset({"cache_control", "prompt_cache_breakpoint", "status"})
"""Keys inside the prompt's parts that steer the server and are no part of the prompt."""
_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_LONGEST_KEY = 64


def prefix(request: Mapping[str, Any], api: str, key: bytes) -> tuple[Mapping[str, Any], ...]:
    """One row a block, in order: `hash` (16 hex digits) and `part`, the part of the request the
    block begins in (`tools`, `system`, `instructions`, `messages[3]`, `input[0]`, `prompt`).

    request: as parsed, before masking. api: a dialect's word (`chat`, `ollama`); any other is read
    like chat. key: the user's, at least one byte (UsageError when empty).
    """
    if not key:
        raise UsageError("prefix hashes need a key, and the one given is empty")
    if len(key) > _LONGEST_KEY:
        key = blake2b(key).digest()
    parts = list(_parts(request, _ORDER.get(api, _ORDER["chat"])))
    prompt = b"".join(data for _, data in parts)
    rows: list[Mapping[str, Any]] = []
    digest = b""
    for at, part in zip(range(0, len(prompt), BLOCK), _owners(parts), strict=True):
        digest = blake2b(digest + prompt[at : at + BLOCK], key=key, digest_size=32).digest()
        rows.append({"hash": digest[:8].hex(), "part": part})
    return tuple(rows)


def _owners(parts: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """For every block the name of the part its first byte lies in."""
    at = 0
    block = 0
    for name, data in parts:
        at += len(data)
        while block < at:
            yield name
            block += BLOCK


def _parts(request: Mapping[str, Any], order: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for name in order:
        value = request.get(name)
        if value is None:
            continue
        if name in ("messages", "input", "prompt") and _is_list(value):
            for index, item in enumerate(value):
                yield f"{name}[{index}]", b"\x1e" + _message(item)
        else:
            yield name, b"\x1d" + name.encode() + _content(value)


def _message(item: Any) -> bytes:
    """A message: its role, then its content, then what else it holds."""
    if not isinstance(item, Mapping):
        return _content(item)
    rest = {key: value for key, value in item.items() if key not in ("role", "content")}
    pieces = [_json(item.get("role")), _content(item.get("content"))]
    rest.pop("type", None) if rest.get("type") == "message" else None
    return b"\x1f".join([*pieces, _json(rest)] if rest else pieces)


def _content(value: Any) -> bytes:
    """Content parts one after another; a text is the same bare or as a part."""
    parts = value if _is_list(value) else [value]
    return b"".join(b"\x1f" + _json(_bare(part)) for part in parts)


def _bare(part: Any) -> Any:
    if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS and "text" in part:
        return part["text"]
    return part


def _json(value: Any) -> bytes:
    """JSON with sorted keys. It escapes the control characters that divide parts, so that no text
    can pass for a division."""
    text = json.dumps(
        _rendered(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    )
    return text.encode("utf-8", "surrogatepass")


def _rendered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _rendered(item) for key, item in value.items() if key not in _UNRENDERED}
    if _is_list(value):
        return [_rendered(item) for item in value]
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
