"""Metrics that a call's own line tells: times, tokens, how it ended, the request and the answer."""

from collections.abc import Callable, Mapping
from typing import Any

from latscope.attribution.stalls import CAUSES
from latscope.rules.metrics.ends import ending, failed, first_came, refused, timed_out
from latscope.rules.metrics.metric import Call, Metric, Unit, Value
from latscope.rules.metrics.shares import rows as share_rows
from latscope.units import MS, S, wall_s

FEW_TOKENS = 8
"""Of fewer tokens nothing can be said of how they came."""
BURST = 0.05
"""Tokens that all come within so much of the call's time came at once."""
TOGETHER = 1 * MS
"""Gaps below this are one burst: no model makes tokens so fast."""

LENGTH_WORDS = frozenset({"length", "max_tokens", "max_output_tokens", "incomplete"})
"""How the APIs say that the cap ended an answer."""

USAGE = "ask for usage: stream_options={'include_usage': true} where the API needs it"
STREAM = "stream the calls"
SKELETON = "keep the requests' skeletons in the recordings (the default)"


def _ns(name: str, means: str, field: str, collect: str = "") -> Metric:
    """A time of the answer, unknown of a call that failed."""

    def of(call: Call) -> Value:
        found = call[field]
        return None if found is None or failed(call) else float(found)

    return Metric(name=name, unit="ns", means=means, of=of, collect=collect)


def _number(name: str, unit: Unit, means: str, field: str, collect: str = "") -> Metric:
    def of(call: Call) -> Value:
        found = call.get(field)
        return None if found is None else float(found)

    return Metric(name=name, unit=unit, means=means, of=of, collect=collect)


def _inner(name: str, unit: Unit, means: str, group: str, field: str, collect: str = "") -> Metric:
    """A figure inside a group of fields that may be null."""

    def of(call: Call) -> Value:
        found = (call.get(group) or {}).get(field)
        return None if found is None else float(found)

    return Metric(name=name, unit=unit, means=means, of=of, collect=collect)


def _truth(name: str, means: str, test: Callable[[Call], Any], collect: str = "") -> Metric:
    """test: null where the call does not tell."""

    def of(call: Call) -> Value:
        found = test(call)
        return None if found is None else float(bool(found))

    return Metric(name=name, unit="truth", means=means, of=of, collect=collect)


def _text(name: str, means: str, of: Callable[[Call], str | None]) -> Metric:
    return Metric(name=name, unit="text", means=means, of=of)


def _figure(
    name: str, unit: Unit, means: str, of: Callable[[Call], float | None], collect: str = ""
) -> Metric:
    return Metric(name=name, unit=unit, means=means, of=of, collect=collect)


# -- times ----------------------------------------------------------------------------------------


def _started(call: Call) -> float:
    return wall_s(call["started_at"]) * S


def _ttft(call: Call) -> float | None:
    first = call["first_token_ns"]
    if first is not None:
        return None if failed(call) else float(first)
    return float(call["wall_ns"]) if _waiting(call) else None


def _waiting(call: Call) -> bool:
    """Stopped while its first token was still to come."""
    if first_came(call) or ending(call) != "stopped":
        return False
    return bool(call["streamed"]) or call["headers_ns"] is None


def _e2e(call: Call) -> float | None:
    return None if failed(call) else float(call["wall_ns"])


def _stopped(call: Call) -> bool:
    return ending(call) == "stopped"


def _itl(field: str) -> Callable[[Call], float | None]:
    def of(call: Call) -> float | None:
        itl = call["itl"]
        return None if itl is None or failed(call) else float(itl[field])

    return of


def _excess(field: str) -> Callable[[Call], float | None]:
    def of(call: Call) -> float | None:
        excess = call["load_excess"]
        return None if excess is None else float(excess[field])

    return of


def _floor(call: Call) -> float | None:
    excess, first = call["load_excess"], call["first_token_ns"]
    return None if excess is None or first is None else float(first - excess["ns"])


TIMES = (
    _figure("started_ns", "ns", "when the call began, wall clock, since 1970", _started),
    Metric(
        name="ttft",
        unit="ns",
        means="time to the first token of any channel; of a call stopped before, at least its end",
        of=_ttft,
        censored=_waiting,
        collect=STREAM,
    ),
    Metric(
        name="e2e",
        unit="ns",
        means="the call from its start to its end; of a stopped call at least that",
        of=_e2e,
        censored=_stopped,
    ),
    _ns("ttfb", "time to the first byte of the answer's body", "first_byte_ns"),
    _ns("headers", "time to the answer's head", "headers_ns"),
    _ns("sent", "time until the request had left", "sent_ns"),
    _ns("tpot", "time per output token after the first", "tpot_ns", USAGE),
    _figure("itl_p50", "ns", "the call's median gap between arrivals", _itl("p50_ns"), STREAM),
    _figure("itl_p95", "ns", "the 95th percentile of the call's gaps", _itl("p95_ns"), STREAM),
    _figure("itl_max", "ns", "the call's longest gap between arrivals", _itl("max_ns"), STREAM),
    _number("tokens_per_chunk", "tokens", "tokens in one arrival", "tokens_per_chunk", USAGE),
    Metric(
        name="load_excess",
        unit="ns",
        means="time to first token above the unloaded floor for this prompt",
        of=_excess("ns"),
        low="load_excess.low",
        high="load_excess.high",
        collect="make a profile: latscope calibrate, or calls of many prompt sizes",
    ),
    _figure("load_excess.low", "ns", "at least, of load_excess", _excess("low_ns")),
    _figure("load_excess.high", "ns", "at most, of load_excess", _excess("high_ns")),
    _figure("floor", "ns", "what the call's first token would have taken unloaded", _floor),
)


# -- tokens ---------------------------------------------------------------------------------------


def _cached_share(call: Call) -> float | None:
    cached, whole = call["cached_tokens"], call["input_tokens"]
    return cached / whole if cached is not None and whole else None


def _uncached(call: Call) -> float | None:
    cached, whole = call["cached_tokens"], call["input_tokens"]
    return None if cached is None or whole is None else float(whole - cached)


def _cap_share(call: Call) -> float | None:
    made, most = call["output_tokens"], call["max_output_tokens"]
    return made / most if made is not None and most else None


def _uncapped(call: Call) -> bool | None:
    if call["max_output_tokens"] is not None:
        return False
    return None if call.get("request") is None else True


TOKENS = (
    _number("input_tokens", "tokens", "tokens of the prompt", "input_tokens", USAGE),
    _number("cached_tokens", "tokens", "of these, read from the prefix cache", "cached_tokens"),
    _figure(
        "cached_share", "share", "share of the prompt's tokens that were cached", _cached_share
    ),
    _figure("uncached_tokens", "tokens", "prompt tokens that were not cached", _uncached),
    _number("cache_write_tokens", "tokens", "tokens written to the cache", "cache_write_tokens"),
    _number("output_tokens", "tokens", "tokens of the answer", "output_tokens", USAGE),
    _number("reasoning_tokens", "tokens", "of these, reasoning", "reasoning_tokens"),
    _number("max_output_tokens", "tokens", "the cap the request set", "max_output_tokens"),
    _figure("cap_share", "share", "output tokens as a share of the cap", _cap_share),
    _truth("uncapped", "whether the request set no cap on the output", _uncapped, SKELETON),
)


# -- how it went ----------------------------------------------------------------------------------


def _cut_age(call: Call) -> float | None:
    return float(call["wall_ns"]) if call["status"] == "cut" else None


def _told(call: Call) -> bool:
    """Whether the stream was seen, so that stalls would have been."""
    return bool(call["streamed"]) and first_came(call)


def _stalls(call: Call) -> float | None:
    return float(len(call["stalls"])) if _told(call) else None


def _stall_time(call: Call) -> float | None:
    return float(sum(stall["ns"] for stall in call["stalls"])) if _told(call) else None


def _stalled_by(cause: str) -> Callable[[Call], float | None]:
    def of(call: Call) -> float | None:
        if not _told(call):
            return None
        return float(sum(stall["ns"] for stall in call["stalls"] if stall["cause"] == cause))

    return of


def _unsplit_stalls(call: Call) -> float | None:
    if not _told(call):
        return None
    return float(sum(stall["cause"] == "unsplit" for stall in call["stalls"]))


def _at_once(call: Call) -> bool | None:
    """Whether the answer came as one burst after all of it had been made."""
    tokens = call["output_tokens"]
    if not _told(call) or ending(call) != "complete":
        return None
    if "one_read" in call["flags"]:
        return True if tokens is None or tokens >= FEW_TOKENS else None
    itl = call["itl"]
    if itl is None or itl["n"] + 1 < FEW_TOKENS:
        return None
    rest = call["wall_ns"] - call["first_token_ns"]
    return bool(rest <= BURST * call["wall_ns"] and itl["p50_ns"] < TOGETHER)


def _length_stop(call: Call) -> bool | None:
    reason = call["finish_reason"]
    return None if reason is None else reason in LENGTH_WORDS


def _status(word: str) -> Callable[[Call], bool]:
    return lambda call: bool(call["status"] == word)


OUTCOMES = (
    _figure(
        "attempts", "count", "how often the call was tried", lambda c: float(len(c["attempts"]))
    ),
    _truth("retried", "whether it was tried more than once", lambda c: len(c["attempts"]) > 1),
    _truth("refused", "whether any attempt was refused (429, 503, 529)", refused),
    _truth("failed", "whether it ended in an error that was no timeout", failed),
    _truth("timed_out", "whether the caller's own timeout ended it", timed_out),
    _truth("cut", "whether the answer ended too early", _status("cut")),
    _truth("cancelled", "whether the caller stopped it", _status("cancelled")),
    _truth("completed", "whether it came to its proper end", _status("complete")),
    _truth("streamed", "whether the answer was streamed", lambda call: call["streamed"]),
    _figure("cut_age", "ns", "how old a cut call was at its cut", _cut_age),
    _figure("stalls", "count", "silences that stand out of the stream", _stalls, STREAM),
    _figure("stall_time", "ns", "how long they lasted together", _stall_time, STREAM),
    *(
        _figure(
            f"stall.{cause}", "ns", f"how long those of cause {cause} lasted", _stalled_by(cause)
        )
        for cause in CAUSES
    ),
    _figure("stall_unsplit", "count", "stalls whose cause nothing tells", _unsplit_stalls),
    _truth("at_once", "whether all tokens came in one burst at the end", _at_once, STREAM),
    _truth("length_stop", "whether the cap ended the answer", _length_stop),
)


# -- the connection, limits, evidence -------------------------------------------------------------


def _reused(call: Call) -> bool | None:
    return call["connection"]["reused"]  # type: ignore[no-any-return]


def _new_connection(call: Call) -> bool | None:
    reused = _reused(call)
    return None if reused is None else not reused


def _quota_left(call: Call) -> float | None:
    """The smaller share of what is left of requests and of tokens."""
    limits: Mapping[str, Any] = call.get("rate_limit") or {}
    pairs = [
        (limits.get(f"remaining_{what}"), limits.get(f"limit_{what}"))
        for what in ("requests", "tokens")
    ]
    shares = [left / limit for left, limit in pairs if left is not None and limit]
    return min(shares) if shares else None


def _tier_differs(call: Call) -> bool | None:
    """`auto` asks for no tier in particular."""
    tier = call["service_tier"]
    if tier["requested"] in (None, "auto") or tier["served"] is None:
        return None
    return bool(tier["requested"] != tier["served"])


def _asked_usage(call: Call) -> bool | None:
    return (call.get("request") or {}).get("usage_asked")


def _seen(field: str) -> Callable[[Call], bool | None]:
    """Of calls that came to their end: whether the answer stated it."""
    return lambda call: call[field] is not None if call["status"] == "complete" else None


CONTEXT = (
    _truth("reused", "whether the connection had been used before", _reused),
    _truth("new_connection", "whether the connection was made for this call", _new_connection),
    _number("in_flight", "count", "other calls of this client under way at its start", "in_flight"),
    _figure("quota_left", "share", "what the headers say is left of the quota", _quota_left),
    _inner("limit_requests", "count", "requests the quota allows", "rate_limit", "limit_requests"),
    _inner("limit_tokens", "tokens", "tokens the quota allows", "rate_limit", "limit_tokens"),
    _inner("retry_after", "ns", "the wait the server asked for", "rate_limit", "retry_after_ns"),
    _truth("tier_differs", "whether another service tier served it than asked", _tier_differs),
    _truth("usage_asked", "whether usage on the stream was asked for", _asked_usage, SKELETON),
    _truth("usage_seen", "whether the answer stated its tokens", _seen("output_tokens"), USAGE),
    _truth("cache_fields_seen", "whether it stated cached tokens", _seen("cached_tokens")),
    _truth("traced", "whether the call carried a trace", lambda c: c["trace_id"] is not None),
)


# -- the request ----------------------------------------------------------------------------------

SIZES = ("system_bytes", "tools_bytes", "history_bytes", "last_bytes")


def _request_bytes(call: Call) -> float | None:
    shape = call.get("request")
    return None if shape is None else float(sum(shape[size] for size in SIZES))


def _schema(call: Call) -> str | None:
    return (call.get("request") or {}).get("schema")


REQUEST = (
    *(
        _inner(
            f"request.{size}",
            "bytes",
            f"bytes of the prompt's {size.partition('_')[0]} part",
            "request",
            size,
            SKELETON,
        )
        for size in SIZES
    ),
    _figure("request_bytes", "bytes", "bytes of the whole prompt", _request_bytes, SKELETON),
    _inner("messages", "count", "messages in the request", "request", "messages", SKELETON),
    _inner("tools", "count", "tools the request offers", "request", "tools", SKELETON),
    _inner("tool_results", "count", "tool results it gives back", "request", "tool_results"),
    _inner("cache_breakpoints", "count", "cache marks it sets", "request", "cache_breakpoints"),
    _inner("cache_ttl", "ns", "the longest cache lifetime it asks for", "request", "cache_ttl_ns"),
    _text("schema", "the output grammar's short word", _schema),
    _text("model", "the model that was asked", lambda call: call["model"]),
    _text("endpoint", "where it was sent", lambda call: call["endpoint"]),
    _text("mode", "vendor, self-hosted or on-device", lambda call: call["mode"]),
    _text("status", "complete, cut, error or cancelled", lambda call: call["status"]),
    _text("hops", "proxies the answer admits to", lambda call: " ".join(call.get("hops") or ())),
    _text("server", "product of the Server header", lambda call: call.get("server")),
    _text("finish_reason", "why the answer ended", lambda call: call["finish_reason"]),
)  # fmt: skip


def _weight(call: Call) -> float:
    rate = (call.get("sample") or {}).get("rate", 1.0)
    return 1 / rate if rate > 0 else 1.0


WEIGHT = _figure("weight", "count", "how many calls it stands for: 1 / the sampling rate", _weight)

ROWS: tuple[Metric, ...] = (
    *TIMES, *share_rows(), *TOKENS, *OUTCOMES, *CONTEXT, *REQUEST, WEIGHT,
)  # fmt: skip
