"""A made-up call: from a few figures, in the words of metrics, a whole lawful line of
`latscope.attribution/1`. What is not stated is null, or what an uneventful call has."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from hashlib import blake2b
from typing import Any

from latscope.attribution.jsonview import KEYS
from latscope.attribution.model import SCHEMA
from latscope.errors import UsageError
from latscope.rules.drawn_times import Values, lay_times, take_ns
from latscope.rules.fields import check_field
from latscope.units import S, rfc3339

BEGAN_S = 1_767_603_600
"""When a case's first call begins: 2026-01-05T09:00:00Z, a Monday."""


def drawn(values: Mapping[str, Any], name: str, at_ns: int) -> dict[str, Any]:
    """The call of these figures that began so long after the case did; UsageError for a name that
    no figure of a call has. name: its call id."""
    left: Values = dict(values)
    call = _plain(left, name, at_ns)
    lay_times(call, left)
    _tokens(call, left)
    _outcome(call, left)
    _request(call, left)
    _limits(call, left)
    for key in sorted(left):
        _set(call, key, left[key])
    return call


def _plain(left: Values, name: str, at_ns: int) -> dict[str, Any]:
    """The call before anything was measured of it."""
    call: dict[str, Any] = dict.fromkeys(KEYS)
    whole, rest = divmod(at_ns, S)
    began = rfc3339(BEGAN_S + whole).removesuffix("Z")
    call |= {
        "schema": SCHEMA,
        "call_id": name,
        "started_at": f"{began}.{rest:09}Z",
        "api": "chat",
        "model": "model-a",
        "endpoint": "https://api.example.com/v1/chat/completions",
        "mode": "vendor",
        "streamed": True,
        "status": "complete",
        "http_status": 200,
        "tags": {},
        "finish_reason": "stop",
        "service_tier": {"requested": None, "served": None},
        "connection": {"reused": True, "http": "HTTP/1.1", "peer": None},
        "unsplit": [],
        "dominant_candidates": [],
        "stalls": [],
        "reported": [],
        "instrument": {"clock": "drawn", "bound_ns": 0},
        "flags": [],
        "sample": {"rate": 1.0, "why": "all"},
        "hops": [],
    }
    for key in ("model", "endpoint", "mode", "api", "provider", "server", "finish_reason"):
        if key in left:
            call[key] = left.pop(key)
    for key, word in (("session", "session_id"), ("turn", "turn"), ("trace", "trace_id")):
        if key in left:
            call[word] = _word(left.pop(key))
    if "streamed" in left:
        call["streamed"] = bool(left.pop("streamed"))
    return call


def _word(value: Any) -> str | None:
    """A name: of a number its whole part, so that `{from: 0, step: 0.2}` is five calls each."""
    return value if value is None or isinstance(value, str) else str(int(value))


# -- tokens ---------------------------------------------------------------------------------------

COUNTS = (
    "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens",
    "max_output_tokens", "in_flight",
)  # fmt: skip


def _tokens(call: dict[str, Any], left: Values) -> None:
    for name in COUNTS:
        value = left.pop(name, None)
        call[name] = None if value is None else round(value)
    whole, cached, made = call["input_tokens"], call["cached_tokens"], call["output_tokens"]
    share, uncached = left.pop("cached_share", None), left.pop("uncached_tokens", None)
    if share is not None and whole is not None:
        cached = round(share * whole)
    if uncached is not None and whole is not None:
        cached = max(0, whole - round(uncached))
    call["cached_tokens"] = cached if cached is None or whole is None else min(cached, whole)
    of_cap = left.pop("cap_share", None)
    if of_cap and made is not None:
        call["max_output_tokens"] = round(made / of_cap)
    if left.pop("uncapped", False):
        call["max_output_tokens"] = None
        _shape(call)
    if left.pop("usage_seen", True) is False:
        call |= dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"))
    if left.pop("cache_fields_seen", True) is False:
        call["cached_tokens"] = None


# -- how it went ----------------------------------------------------------------------------------


def _outcome(call: dict[str, Any], left: Values) -> None:
    refused, failed = left.pop("refused", False), left.pop("failed", False)
    status = left.pop("status", None)
    if failed or status == "error":
        code = 429 if refused else 500
        call |= {"status": "error", "http_status": code, "finish_reason": None}
        call["error"] = {"type": f"http_{code}", "phase": "headers"}
    elif left.pop("timed_out", False):
        waiting = "stream" if call["first_token_ns"] is not None else "first_token"
        call |= {"status": "error", "http_status": None, "finish_reason": None}
        call["error"] = {"type": "ReadTimeout", "phase": waiting}
    for word, name in (("cut", "cut"), ("cancelled", "cancelled")):
        if left.pop(name, False) or status == word:
            call |= {"status": word, "finish_reason": None}
    for name in ("completed", "timed_out"):
        left.pop(name, None)
    _attempts(call, left, bool(refused))
    if left.pop("at_once", False):
        _burst(call)
    if left.pop("length_stop", False):
        call["finish_reason"] = "length"


def _attempts(call: dict[str, Any], left: Values, refused: bool) -> None:
    tries = int(left.pop("attempts", 0) or (2 if left.get("retried") else 1))
    left.pop("retried", None)
    failed = call["status"] == "error"
    if refused and not failed:
        tries = max(2, tries)
    early = [{"status": 429 if refused else 500, "ns": 0, "backoff_ns": 0}] * (tries - 1)
    call["attempts"] = [
        *early,
        {"status": call["http_status"], "ns": call["wall_ns"], "backoff_ns": 0},
    ]


def _burst(call: dict[str, Any]) -> None:
    """All tokens in one read: the first comes with the last, so the whole is a time to first."""
    call["flags"].append("one_read")
    call["first_token_ns"] = call["first_visible_token_ns"] = call["wall_ns"]
    call |= dict.fromkeys(("itl", "tpot_ns", "tokens_per_chunk"))
    for share in call["segments"]:
        share |= {"ttft_ns": share["ns"], "ttft_low_ns": share["low_ns"]}
        share["ttft_high_ns"] = share["high_ns"]


# -- the request, limits, the connection ----------------------------------------------------------

SHAPE: dict[str, str] = {
    "request.system_bytes": "system_bytes",
    "request.tools_bytes": "tools_bytes",
    "request.history_bytes": "history_bytes",
    "request.last_bytes": "last_bytes",
    "messages": "messages",
    "tools": "tools",
    "tool_results": "tool_results",
    "cache_breakpoints": "cache_breakpoints",
    "cache_ttl": "cache_ttl_ns",
    "schema": "schema",
    "usage_asked": "usage_asked",
}


def _shape(call: dict[str, Any]) -> dict[str, Any]:
    if call["request"] is None:
        sizes = dict.fromkeys(("system_bytes", "tools_bytes", "history_bytes", "last_bytes"), 0)
        counts = dict.fromkeys(("messages", "tools", "tool_results", "cache_breakpoints"), 0)
        nulls = dict.fromkeys(("usage_asked", "cache_ttl_ns", "schema"))
        call["request"] = {**sizes, **counts, **nulls, "hashes": "", "parts": []}
    found: dict[str, Any] = call["request"]
    return found


def _request(call: dict[str, Any], left: Values) -> None:
    if "begins" in left:
        # As if the prompt's first 2 KiB, in eight blocks, were this word's: it hashes alike.
        block = blake2b(str(left.pop("begins")).encode(), digest_size=8).hexdigest()
        _shape(call)["hashes"] = 8 * block
    for name, key in SHAPE.items():
        if name in left:
            value = left.pop(name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            _shape(call)[key] = round(value) if number and key != "schema" else value
    if call["request"] is not None and call["request"]["schema"] is not None:
        call["request"]["schema"] = _word(call["request"]["schema"])


LIMITS = ("limit_requests", "remaining_requests", "limit_tokens", "remaining_tokens")


def _limits(call: dict[str, Any], left: Values) -> None:
    stated = {name: left.pop(name) for name in LIMITS if name in left}
    share, wait = left.pop("quota_left", None), take_ns(left, "retry_after")
    if share is not None:
        limit = stated.setdefault("limit_requests", 1000)
        stated["remaining_requests"] = share * limit
    if stated or wait is not None:
        counts = {name: round(value) for name, value in stated.items()}
        call["rate_limit"] = {**dict.fromkeys(LIMITS), **counts, "retry_after_ns": wait}
    for name, negated in (("reused", False), ("new_connection", True)):
        if name in left:
            call["connection"]["reused"] = bool(left.pop(name)) != negated
    if left.pop("tier_differs", False):
        call["service_tier"] = {"requested": "priority", "served": "default"}
    if left.pop("traced", False):
        call["trace_id"] = f"trace-{call['call_id']}"
    hops = left.pop("hops", None)
    call["hops"] = hops.split() if isinstance(hops, str) else []


# -- everything else ------------------------------------------------------------------------------


def _set(call: dict[str, Any], name: str, value: Any) -> None:
    """A tag, a flag, a figure of the server's, a price's part, a segment's bound, or any field by
    its dotted name."""
    head, _, rest = name.partition(".")
    put = GROUPS.get(head)
    if rest and put is not None:
        put(call, rest, value)
    elif name.endswith((".low", ".high")) and _bound(call, name, value):
        pass
    elif check_field(name) is None and head in KEYS:
        _put(call, name, value)
    else:
        near = get_close_matches(name, [*KEYS, *SHAPE, *COUNTS, "ttft", "e2e", "itl_p50"], n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"a case cannot state {name!r}: it is no figure of one call{hint}")


def _bound(call: dict[str, Any], name: str, value: Any) -> bool:
    """`ttft.queue.high: 2s`."""
    of_ttft, rest = name.startswith("ttft."), name.removeprefix("ttft.")
    segment, _, end = rest.partition(".")
    for share in call["segments"]:
        if share["name"] == segment and end in ("low", "high"):
            share[f"{'ttft_' if of_ttft else ''}{end}_ns"] = round(value)
            return True
    return False


def _put(call: dict[str, Any], name: str, value: Any) -> None:
    """A field by its dotted name; the groups above it are made where they are null."""
    *above, last = name.split(".")
    inside = call
    for key in above:
        if inside.get(key) is None:
            inside[key] = {}
        inside = inside[key]
    whole = isinstance(value, float) and value.is_integer()
    inside[last] = int(value) if whole else value


def _flag(call: dict[str, Any], name: str, value: Any) -> None:
    if value:
        call["flags"].append(name)


def _tag(call: dict[str, Any], name: str, value: Any) -> None:
    call["tags"][name] = value if isinstance(value, str) else f"{value:g}"


def _inside(key: str) -> Callable[[dict[str, Any], str, Any], None]:
    def put(call: dict[str, Any], name: str, value: Any) -> None:
        call.setdefault(key, {})[name] = value

    return put


GROUPS: dict[str, Callable[[dict[str, Any], str, Any], None]] = {
    "tags": _tag,
    "flag": _flag,
    "server": _inside("server_series"),
    "money": _inside("money"),
}
