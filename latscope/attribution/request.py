"""What a request asked for, told from its skeleton: sizes, counts and marks, never words."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any

from latscope.attribution.model import RateLimit, RequestShape
from latscope.protocols.mask.request import skeleton
from latscope.recording import Recording
from latscope.timeline.exchanges import retry_after
from latscope.units import Ns, S

SYSTEM_KEYS = ("system", "instructions", "system_prompt")
TOOL_KEYS = ("tools", "functions")
TURN_KEYS = ("messages", "input", "prompt")
SYSTEM_ROLES = frozenset({"system", "developer"})
MODEL_ITEMS = frozenset({"reasoning", "function_call", "custom_tool_call"})
"""Items of a Responses input that the model made."""
RESULT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output", "tool_result"})
ASKED_FOR_USAGE = frozenset({"chat", "completions"})
"""The APIs that send no usage on a stream unless asked."""
GRAMMARS = (
    "response_format", "text", "format", "guided_json", "guided_regex", "guided_choice",
    "guided_grammar", "structured_outputs", "grammar",
)  # fmt: skip
FREE_FORM = frozenset({"text", "auto"})
TTL: dict[str, Ns] = {"5m": 300 * S, "1h": 3600 * S}


def request_shape(call: Recording, api: str | None) -> RequestShape | None:
    """The shape of the call's request; null where it was not kept. api: a dialect's word."""
    if call.request is None:
        return None
    request = call.request if call.masked else skeleton(call.request)
    items = _items(request)
    system, rest = _apart(items)
    since = 1 + max((at for at, item in enumerate(rest) if _by_model(item)), default=-1)
    marks = [*_marks(request)]
    return RequestShape(
        system_bytes=size([request.get(key) for key in SYSTEM_KEYS]) + size(system),
        tools_bytes=size([request.get(key) for key in TOOL_KEYS]),
        history_bytes=size(rest[:since]),
        last_bytes=size(rest[since:]),
        messages=len(items),
        tools=sum(len(_list(request.get(key))) for key in TOOL_KEYS),
        tool_results=sum(_results(item) for item in rest[since:]),
        usage_asked=_usage_asked(request, api),
        cache_breakpoints=len(marks),
        cache_ttl_ns=max((TTL.get(mark, TTL["5m"]) for mark in marks), default=None),
        schema=_schema(request),
        hashes="".join(str(row.get("hash", "")) for row in call.prefix or ()),
        parts=tuple(
            (_with_role(part, items), len([*rows]))
            for part, rows in groupby(str(row.get("part", "")) for row in call.prefix or ())
        ),
    )


_PART = re.compile(r"\w+\[(\d{1,6})\]").fullmatch


def _with_role(part: str, items: Sequence[Any]) -> str:
    """`messages[3]` as `messages[3] tool`: whose it is, where the request says it."""
    found = _PART(part)
    if found is None or int(found[1]) >= len(items):
        return part
    item = items[int(found[1])]
    who = _word(item, "role") or _word(item, "type")
    return f"{part} {who}" if _ROLE(who) else part


_ROLE = re.compile(r"[a-z_]{1,32}").fullmatch


def size(value: Any) -> int:
    """Bytes of text in a part of the skeleton: what is left of it, and the lengths of the rest."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        if len(value) == 1 and isinstance(value.get("len"), int):
            return int(value["len"])
        return sum(size(inner) for key, inner in value.items() if key not in ("role", "type"))
    return sum(map(size, value)) if isinstance(value, Sequence) else 0


def _items(request: Mapping[str, Any]) -> list[Any]:
    """The turns: messages, or the one prompt there is."""
    for key in TURN_KEYS:
        value = request.get(key)
        if value is not None:
            return _list(value) if isinstance(value, list | tuple) else [value]
    return []


def _list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else []


def _apart(items: list[Any]) -> tuple[list[Any], list[Any]]:
    """System messages, wherever they stand, and the others."""
    system = [item for item in items if _word(item, "role") in SYSTEM_ROLES]
    return system, [item for item in items if _word(item, "role") not in SYSTEM_ROLES]


def _word(item: Any, key: str) -> str:
    found = item.get(key) if isinstance(item, Mapping) else None
    return found if isinstance(found, str) else ""


def _by_model(item: Any) -> bool:
    return _word(item, "role") == "assistant" or _word(item, "type") in MODEL_ITEMS


def _results(item: Any) -> int:
    """How many results of tools an item gives back."""
    if _word(item, "role") == "tool" or _word(item, "type") in RESULT_ITEMS:
        return 1
    content = item.get("content") if isinstance(item, Mapping) else None
    return sum(_word(part, "type") in RESULT_ITEMS for part in _list(content))


def _usage_asked(request: Mapping[str, Any], api: str | None) -> bool | None:
    if api not in ASKED_FOR_USAGE or request.get("stream") is not True:
        return None
    options = request.get("stream_options")
    return isinstance(options, Mapping) and options.get("include_usage") is True


def _marks(value: Any) -> Iterator[str]:
    """The lifetime each cache mark asks for; empty where it names none."""
    if isinstance(value, Mapping):
        mark = value.get("cache_control")
        if isinstance(mark, Mapping):
            yield _word(mark, "ttl")
        for inner in value.values():
            yield from _marks(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _marks(inner)


def _schema(request: Mapping[str, Any]) -> str | None:
    """Of a masked grammar only the length is known: two of the same length pass for one."""
    asked = {key: request[key] for key in GRAMMARS if _is_grammar(key, request.get(key))}
    if not asked:
        return None
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=4).hexdigest()


def _is_grammar(key: str, value: Any) -> bool:
    if value is None:
        return False
    if key == "text":  # Responses: the format stands inside; elsewhere it is what was said
        value = value.get("format") if isinstance(value, Mapping) else None
        return isinstance(value, Mapping) and _word(value, "type") not in FREE_FORM
    return not isinstance(value, Mapping) or _word(value, "type") not in FREE_FORM


LIMITS: dict[str, tuple[str, ...]] = {
    "limit_requests": (
        "x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit", "x-ratelimit-limit",
    ),
    "remaining_requests": (
        "x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining",
        "x-ratelimit-remaining",
    ),
    "limit_tokens": ("x-ratelimit-limit-tokens", "anthropic-ratelimit-tokens-limit"),
    "remaining_tokens": ("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining"),
}  # fmt: skip
"""Names of OpenAI's and Anthropic's documentation, which others follow."""


def rate_limit(call: Recording) -> RateLimit | None:
    """What the headers of the last attempt that has any say of the limits; null if none does."""
    waits = [retry_after(attempt.headers) for attempt in call.attempts]
    asked = max((wait for wait in waits if wait is not None), default=None)
    for attempt in reversed(call.attempts):
        headers = dict(attempt.headers)
        found = {
            field: next((_count(headers[name]) for name in names if name in headers), None)
            for field, names in LIMITS.items()
        }
        if any(value is not None for value in found.values()):
            return RateLimit(**found, retry_after_ns=asked)
    if asked is None:
        return None
    return RateLimit(**dict.fromkeys(LIMITS), retry_after_ns=asked)


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
