"""Metrics of prompt caches: what the vendor's rules let this call expect, and what it got.

The same prompt again is told by the prefix hashes, where they were recorded; else by the session,
whose calls resend their history. Hashes at depths of 2 KiB, 4 KiB, 8 KiB and so on are kept of each
call: enough to say within a factor of two how much of a prompt was sent before.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, NamedTuple

from latscope.rules.cacheable import Rule, rule_of
from latscope.rules.metrics.around import numbers, starts
from latscope.rules.metrics.metric import Call, Columns, Metric, Value
from latscope.units import S

DIGITS = 16
"""Of one block's hash."""
LEAST_BLOCKS = 8
"""2 KiB: about 512 tokens, the least any vendor caches."""
FRESH = 60.0 * S
"""No cache that has room drops what was used within a minute."""
WORTH = 500.0
"""Tokens of a repeated prefix below which a miss is not worth a word."""
HASHES = "record prefix hashes: latscope.instrument(client, prefix=True)"


def _request(call: Call) -> Mapping[str, Any]:
    return call.get("request") or {}


def _rule(call: Call) -> Rule | None:
    return rule_of(call.get("model")) if call.get("mode") == "vendor" else None


def _minimum(call: Call) -> Value:
    rule = _rule(call)
    return None if rule is None else float(rule.minimum)


def _fill(call: Call) -> Value:
    rule, tokens = _rule(call), call.get("input_tokens")
    return None if rule is None or tokens is None else tokens / rule.minimum


def _below(call: Call) -> Value:
    fill = _fill(call)
    return float(fill < 1) if isinstance(fill, float) else None


def _ttl(call: Call) -> Value:
    """What the request asks for, else what the vendor keeps unasked; none where an explicit cache
    was not asked for."""
    rule = _rule(call)
    if rule is None:
        return None
    asked = _request(call).get("cache_ttl_ns")
    if asked is not None:
        return float(asked)
    return None if rule.explicit else float(rule.ttl_ns)


# -- the same prompt again -------------------------------------------------------------------------


def _ladder(call: Call) -> Value:
    """The hashes at 8, 16, 32 ... blocks, the shallowest first."""
    hashes = _request(call).get("hashes") or ""
    return "".join(
        hashes[(depth - 1) * DIGITS : depth * DIGITS] for depth in _depths(_blocks(hashes))
    ) or None  # fmt: skip


def _blocks(hashes: str) -> int:
    return len(hashes) // DIGITS


def _depths(blocks: int) -> Iterator[int]:
    depth = LEAST_BLOCKS
    while depth <= blocks:
        yield depth
        depth *= 2


def _block_tokens(call: Call) -> Value:
    """Tokens of one block, on average over the prompt."""
    blocks, tokens = _blocks(_request(call).get("hashes") or ""), call.get("input_tokens")
    return None if not blocks or tokens is None else tokens / blocks


def _prefix_key(call: Call) -> Value:
    ladder = _ladder(call)
    if isinstance(ladder, str):
        return f"prefix {ladder[:DIGITS]}"
    session = call.get("session_id")
    return None if session is None else f"session {session}"


def _same_prefix_age(columns: Columns) -> Sequence[Value]:
    """Of the longest beginning that had been sent: what many calls share in front is no measure of
    how long ago the rest was sent."""
    last: dict[Value, float] = {}
    found: list[Value] = []
    rows = zip(
        columns["prefix_key"],
        columns["prefix_ladder"],
        numbers(columns["block_tokens"]),
        numbers(columns["cache_minimum"]),
        starts(columns),
        strict=True,
    )
    for key, ladder, tokens, least, at in rows:
        rungs: list[Value] = [*_cacheable(_rungs(ladder), tokens, least)]
        rungs = rungs or ([] if key is None else [key])
        before = next((last[rung] for rung in reversed(rungs) if rung in last), None)
        found.append(None if before is None else at - before)
        last.update(dict.fromkeys(rungs, at))
    return found


def _cacheable(rungs: Sequence[str], tokens: float | None, least: float | None) -> Sequence[str]:
    """Those deep enough for the vendor to keep them, the deepest in any case."""
    if tokens is None or least is None:
        return rungs
    kept = [rung for i, rung in enumerate(rungs) if tokens * (LEAST_BLOCKS << i) >= least]
    return kept or rungs[-1:]


def _past_ttl(columns: Columns) -> Sequence[Value]:
    pairs = zip(numbers(columns["same_prefix_age"]), numbers(columns["vendor_ttl"]), strict=True)
    return [None if age is None or ttl is None else float(age > ttl) for age, ttl in pairs]


def _seen_prefix(columns: Columns) -> Sequence[Value]:
    """By the hashes where there are any, else by the session. Whoever sent a prefix has it cached
    from its own first token on."""
    hashed, resent = _by_hashes(columns), _by_session(columns)
    ladders = columns["prefix_ladder"]
    return [
        one if ladder is not None else other
        for ladder, one, other in zip(ladders, hashed, resent, strict=True)
    ]


def _by_hashes(columns: Columns) -> list[Value]:
    due: list[tuple[float, Value]] = []
    seen: dict[str, float] = {}
    found: list[Value] = []
    rows = zip(
        starts(columns),
        columns["prefix_ladder"],
        numbers(columns["block_tokens"]),
        numbers(columns["ttft"]),
        strict=True,
    )
    for at, ladder, tokens, first in rows:
        while due and due[0][0] <= at:
            ready, sent = heappop(due)
            seen.update(dict.fromkeys(_rungs(sent), ready))
        depth = _deepest(_rungs(ladder), seen, at)
        found.append(None if tokens is None else tokens * depth)
        if ladder is not None and first is not None:
            heappush(due, (at + first, ladder))
    return found


class _Turn(NamedTuple):
    """When a session's last call had its first token; its prompt and its answer, in tokens."""

    ready: float
    prompt: float
    answer: float


def _resends(before: _Turn, at: float, prompt: float) -> bool:
    grew = prompt >= before.prompt + before.answer / 2
    return grew and 0 <= at - before.ready <= FRESH


def _by_session(columns: Columns) -> list[Value]:
    """A prompt that grew by half of the last answer or more resends all before it; of one that did
    not, what it kept is not known."""
    last: dict[Value, _Turn] = {}
    found: list[Value] = []
    rows = zip(
        starts(columns),
        columns["prefix_key"],
        numbers(columns["input_tokens"]),
        numbers(columns["output_tokens"]),
        numbers(columns["ttft"]),
        strict=True,
    )
    for at, key, prompt, answer, first in rows:
        before = None if key is None or prompt is None else last.get(key)
        resent = before is not None and _resends(before, at, prompt or 0.0)
        found.append(before.prompt if before is not None and resent else None)
        if prompt is not None and first is not None:
            last[key] = _Turn(at + first, prompt, answer or 0.0)
    return found


def _rungs(ladder: Value) -> list[str]:
    text = ladder if isinstance(ladder, str) else ""
    return [text[at : at + DIGITS] for at in range(0, len(text), DIGITS)]


def _deepest(rungs: Sequence[str], seen: Mapping[str, float], at: float) -> int:
    """How many blocks deep the prompt was sent before, within FRESH."""
    depth = 0
    for index, rung in enumerate(rungs):
        if at - seen.get(rung, -inf) <= FRESH:
            depth = LEAST_BLOCKS << index
    return depth


def _repeat_miss(columns: Columns) -> Sequence[Value]:
    pairs = zip(numbers(columns["seen_prefix"]), numbers(columns["cached_tokens"]), strict=True)
    return [
        None if seen is None or had is None or seen < WORTH else float(had < seen / 2)
        for seen, had in pairs
    ]


ROWS: tuple[Metric, ...] = (
    Metric(
        name="cache_minimum",
        unit="tokens",
        means="prompt tokens below which the vendor caches nothing of this model",
        of=_minimum,
        modes=("vendor",),
    ),
    Metric(
        name="cache_fill",
        unit="share",
        means="prompt tokens, as a share of cache_minimum (over 1: long enough)",
        of=_fill,
        modes=("vendor",),
    ),
    Metric(
        name="below_minimum",
        unit="truth",
        means="whether the prompt is shorter than cache_minimum",
        of=_below,
        modes=("vendor",),
    ),
    Metric(
        name="vendor_ttl",
        unit="ns",
        means="how long the vendor keeps this call's prefix without use",
        of=_ttl,
        modes=("vendor",),
    ),
    Metric(
        name="prefix_key",
        unit="text",
        means="the same for calls whose prompts begin alike (2 KiB), else for those of one session",
        of=_prefix_key,
        collect=HASHES,
    ),
    Metric(
        name="prefix_ladder",
        unit="text",
        means="prefix hashes at depths of 2 KiB, 4 KiB, 8 KiB and so on",
        of=_ladder,
        collect=HASHES,
    ),
    Metric(
        name="block_tokens",
        unit="tokens",
        means="tokens of one hashed block of the prompt (256 bytes), on average",
        of=_block_tokens,
        collect=HASHES,
    ),
    Metric(
        name="same_prefix_age",
        unit="ns",
        means="since when the longest beginning of it that had been sent before, and is long enough"
        " for the vendor's cache, was last sent; not told where none had been",
        over=_same_prefix_age,
        every=True,
        needs=("prefix_key", "prefix_ladder", "block_tokens", "cache_minimum"),
        collect=HASHES,
    ),
    Metric(
        name="past_ttl",
        unit="truth",
        means="whether the same prefix was last sent longer ago than vendor_ttl",
        over=_past_ttl,
        needs=("same_prefix_age", "vendor_ttl"),
        modes=("vendor",),
        collect=HASHES,
    ),
    Metric(
        name="seen_prefix",
        unit="tokens",
        means="prompt tokens that another call had sent, and got an answer to, within a minute",
        over=_seen_prefix,
        needs=(
            "prefix_ladder",
            "prefix_key",
            "block_tokens",
            "ttft",
            "input_tokens",
            "output_tokens",
        ),
        collect=HASHES,
    ),
    Metric(
        name="repeat_miss",
        unit="truth",
        means="whether the cache had less than half of seen_prefix (told from 500 tokens on)",
        over=_repeat_miss,
        needs=("seen_prefix", "cached_tokens"),
        collect=HASHES,
    ),
)
