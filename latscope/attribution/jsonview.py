"""`latscope.attribution/1`: an attribution as JSON-ready values, each key there, null if unknown.

The key order is that of the contract. `pieces` are not part of it: the segments, their parts and
`unsplit` say all a reader may rely on.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from latscope.attribution.model import SEGMENTS, Attribution

KEYS: tuple[str, ...] = (
    "schema", "call_id", "started_at", "provider", "api", "model", "endpoint", "mode", "streamed",
    "status", "http_status", "error", "request_id", "trace_id", "session_id", "tags",
    "finish_reason", "service_tier", "attempts", "connection", "in_flight", "wall_ns", "sent_ns",
    "headers_ns", "first_byte_ns", "first_token_ns", "first_visible_token_ns", "itl", "tpot_ns",
    "tokens_per_chunk", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens",
    "max_output_tokens", "segments", "unsplit", "load_excess", "dominant", "dominant_candidates",
    "stalls", "reported", "instrument", "flags", "truth", "sample", "turn", "cache_write_tokens",
    "dominant_ttft", "profile", "response_id", "previous_response_id", "server", "hops", "request",
    "rate_limit", "quantum",
)  # fmt: skip


ALIASES = {"ttft": "first_token_ns", "wall": "wall_ns", "e2e": "wall_ns"}
"""Short names people type for a field."""


def to_mapping(attribution: Attribution) -> dict[str, Any]:
    """The contract's mapping of one call."""
    return {key: _plain(getattr(attribution, key)) for key in KEYS}


def field_of(attribution: Attribution, path: str) -> Any:
    """As `value_at`, of an attribution itself: only the field asked for is made plain."""
    head = "segments" if path in SEGMENTS else ALIASES.get(path, path).partition(".")[0]
    return value_at({head: _plain(getattr(attribution, head))}, path) if head in KEYS else None


def value_at(mapping: Mapping[str, Any], path: str) -> Any:
    """A field of the mapping by its dotted name, an alias or a segment's name (its ns); null when
    it, or anything above it, is."""
    if path in SEGMENTS:
        return {share["name"]: share["ns"] for share in mapping["segments"]}.get(path)
    head, _, rest = ALIASES.get(path, path).partition(".")
    value = mapping.get(head)
    while rest and isinstance(value, Mapping):
        if rest in value:  # tag names may hold dots
            return value[rest]
        head, _, rest = rest.partition(".")
        value = value.get(head)
    return None if rest else value


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
