"""Where a prompt broke the cache: the first block that is not the earlier call's.

A prefix cache serves a prompt up to the first place where it differs from one it has seen. The
recording's hashes (protocols.prefix) are of blocks of 256 bytes, each over all before it, so two
prompts share exactly the blocks whose hashes are equal. A call that carries an earlier one's turns
should begin with the whole of its prompt; others of one template should share the tools and the
system text. What is shared less than that, the change in front of it broke.

Counts of tokens are estimates: bytes to tokens by the call's own ratio, known to one block and to
the size of the engine's own cache blocks (16 tokens at vLLM, 128 at OpenAI).
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latscope.rules.stats import Estimate, theil_sen
from latscope.units import Ns

BLOCK = 256
"""Bytes of prompt a hash covers."""
WIDTH = 16
"""Characters of a hash."""
NEAR = 0.1
"""Calls without a session are of one template when their tools and system text are that alike."""
LEAST = 8
"""Calls below which no slope is told."""
MOST = 300
"""Calls a slope is told from; of more, so many spread evenly."""
CARRIED = 0.5
"""A history that long, over the turns of the call before, is theirs: trimmed, maybe."""
WINDOW = 16
"""Calls before a call among which its like is looked for."""
SPREAD = 1.5
"""The longest prompt over the shortest, below which a slope is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A call's prompt. hashes, parts: as in `RequestShape`. sizes: bytes of system text, tools,
    history and last turn. tokens, cached: as the answer counted them, null where it did not."""

    hashes: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    sizes: tuple[int, int, int, int] = (0, 0, 0, 0)
    tokens: int | None = None
    cached: int | None = None

    @property
    def shares(self) -> tuple[float, float, float, float] | None:
        """Of the prompt, by bytes: system, tools, history, last turn; null for an empty one."""
        whole = sum(self.sizes)
        if not whole:
            return None
        system, tools, history, last = (size / whole for size in self.sizes)
        return system, tools, history, last

    @property
    def tokens_a_block(self) -> float | None:
        """A prompt's last block is half full on average."""
        count = blocks(self.hashes)
        return None if self.tokens is None or not count else self.tokens / (count - 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """What two prompts share. kept: blocks; due: those that should have been. part: where the first
    block that differs begins, and `to` where it ends (the same, mostly); null when all that was due
    was kept. at: its place in the prompt, 0 to 1. tokens: what the cache could have served and
    cannot for this change (null: the tokens of the prompt are not known)."""

    kept: int
    due: int
    part: str | None
    to: str | None
    at: float | None
    tokens: int | None

    @property
    def share(self) -> float:
        """Of what should have been shared, how much was."""
        return min(1.0, self.kept / self.due)


def prompt_of(call: Mapping[str, Any]) -> Prompt:
    """call: a mapping of `latscope.attribution/1`. Of a request that leaves the history to the
    server no sizes are known: it holds only a part of its prompt."""
    shape = call.get("request") or {}
    names = ("system_bytes", "tools_bytes", "history_bytes", "last_bytes")
    system, tools, history, last = (shape.get(name) or 0 for name in names)
    return Prompt(
        hashes=shape.get("hashes") or "",
        parts=tuple((str(part), int(count)) for part, count in shape.get("parts") or ()),
        sizes=(0, 0, 0, 0) if resumed(call) else (system, tools, history, last),
        tokens=call.get("input_tokens"),
        cached=call.get("cached_tokens"),
    )


def resumed(call: Mapping[str, Any]) -> bool:
    """Whether the server itself keeps what was said before: the request holds only what is new."""
    kept = call.get("api") == "responses" and call.get("session_id") is not None
    return kept or call.get("previous_response_id") is not None


def blocks(hashes: str) -> int:
    return len(hashes) // WIDTH


def common(one: str, other: str) -> int:
    """How many blocks two prompts share: each hash is over all before it, so by halving."""
    low, high = 0, min(blocks(one), blocks(other))
    while low < high:
        middle = (low + high + 1) // 2
        place = slice((middle - 1) * WIDTH, middle * WIDTH)
        low, high = (middle, high) if one[place] == other[place] else (low, middle - 1)
    return low


def breaks(
    rows: Iterable[tuple[Hashable, Hashable, bool, Prompt]],
) -> Iterator[Break | None]:
    """Of each call what its prompt shares with the one before it that is its like, in its session
    or, for a session's first, at its model and endpoint. rows: in order of time, (session, null for
    one alone; model and endpoint; whether the server itself keeps what was said; prompt)."""
    windows: dict[Hashable, deque[Prompt]] = {}
    for session, place, kept, prompt in rows:
        own, shared = (
            windows.setdefault(key, deque(maxlen=WINDOW))
            for key in (("session", session), ("place", place))
        )
        near = own if own and session is not None else shared
        yield None if kept else judged(near, prompt)
        own.append(prompt)
        shared.append(prompt)


def judged(window: Sequence[Prompt], after: Prompt) -> Break | None:
    """What a call's prompt shares with the one before it that is its like. window: the calls before
    it, in order of time. Null where nothing was due: none of its kind before it, no hashes, or
    prompts of less than a block.

    Its like is the call it shares most with; where it shares nothing with any, the latest of the
    same template, since a change at the very front leaves nothing to share. One that carries that
    call's turns as its history should hold its whole prompt; any other, tools and system text.
    """
    before = max(reversed(window), key=lambda one: common(one.hashes, after.hashes), default=None)
    if before is None or not after.hashes:
        return None
    if not common(before.hashes, after.hashes):
        before = next((one for one in reversed(window) if _alike(one, after)), None)
        if before is None:
            return None
    ahead = blocks(before.hashes) - 1
    history, carried = after.sizes[2], before.sizes[2] + before.sizes[3]
    if history and history >= CARRIED * carried:
        return _broken(before, after, ahead)
    if after.shares is None or not _alike(before, after):
        return None
    steady = int((after.shares[0] + after.shares[1]) * (blocks(after.hashes) - 0.5))
    return _broken(before, after, min(steady, ahead))


def _alike(one: Prompt, other: Prompt) -> bool:
    pairs = zip(one.sizes[:2], other.sizes[:2], strict=True)
    return all(abs(a - b) <= NEAR * max(a, b) for a, b in pairs)


def _broken(before: Prompt, after: Prompt, due: int) -> Break | None:
    if due < 1:
        return None
    kept = common(before.hashes, after.hashes)
    if kept >= due:
        return Break(kept=kept, due=due, part=None, to=None, at=None, tokens=0)
    each = before.tokens_a_block  # what is lost is the earlier prompt's
    each = after.tokens_a_block if each is None else each
    lost = min(due, blocks(after.hashes)) - kept
    return Break(
        kept=kept,
        due=due,
        part=part_at(after.parts, kept),
        to=part_at(after.parts, kept + 1),
        at=kept / blocks(after.hashes),
        tokens=None if each is None else round(each * max(0, lost)),
    )


def part_at(parts: Sequence[tuple[str, int]], block: int) -> str | None:
    """The part of the request a block begins in; the last one beyond the end."""
    for part, count in parts:
        block -= count
        if block < 0:
            return part
    return parts[-1][0] if parts else None


def reusable(
    kept: int, prompt: Prompt, grain: int = 1, before: Prompt | None = None
) -> tuple[int, int] | None:
    """Fewest and most tokens a cache in blocks of `grain` tokens can serve of a prompt that shares
    `kept` blocks with an earlier one: what differs lies somewhere in the block after them. before:
    that prompt, whose tokens a block are the better measure the more of it is shared. Null where
    no tokens are known."""
    whole = prompt if before is None or before.tokens is None else before
    each = whole.tokens_a_block
    if each is None or whole.tokens is None:
        return None
    low, high = (min(whole.tokens, int(each * count)) for count in (kept, kept + 1))
    return low // grain * grain, high // grain * grain


def cost_of(
    found: Break, call: Mapping[str, Any], ns_a_token: float | None
) -> tuple[Ns | None, float | None]:
    """What a break costs this call, in time and in money: its tokens computed in place of served.
    ns_a_token: what an uncached prompt token takes; each null where it is not known."""
    rates = (call.get("money") or {}).get("rates") or {}
    full, cheap = rates.get("input"), rates.get("cached_input")
    if found.tokens is None:
        return None, None
    ns = None if ns_a_token is None else round(ns_a_token * found.tokens)
    return ns, None if full is None or cheap is None else found.tokens * (full - cheap)


# -- what a token of prompt costs in time ----------------------------------------------------------


def prefill_slope(calls: Iterable[Mapping[str, Any]]) -> Estimate | None:
    """Nanoseconds of prefill an uncached prompt token takes, from calls of one model at one
    endpoint: their servers' own figures where enough state them, else the time from the request's
    last byte to the first token. Null where the calls do not show one: too few, prompts of like
    length, or an interval that includes zero."""
    rows = list(calls)
    sizes = [uncached(call) for call in rows]
    return slope_of(sizes, map(stated_ns, rows)) or slope_of(sizes, map(waited_ns, rows))


def uncached(call: Mapping[str, Any]) -> int | None:
    """Prompt tokens the server had to compute."""
    size = call.get("input_tokens")
    return None if size is None else max(0, size - (call.get("cached_tokens") or 0))


def slope_of(sizes: Iterable[float | None], times: Iterable[float | None]) -> Estimate | None:
    """How much time grows with size, over the calls that tell both; null where they do not show
    it."""
    points = [
        (float(size), float(ns))
        for size, ns in zip(sizes, times, strict=True)
        if size and ns is not None
    ]
    if len(points) < LEAST or max(points)[0] < SPREAD * min(points)[0]:
        return None
    chosen = points[:: -(-len(points) // MOST)]
    found = theil_sen([x for x, _ in chosen], [y for _, y in chosen])
    return found if found is not None and found.low is not None and found.low > 0 else None


def stated_ns(call: Mapping[str, Any]) -> Ns | None:
    """Prefill as the server states it."""
    share = next((one for one in call.get("segments") or () if one["name"] == "prefill"), None)
    if share is None or share["provenance"] not in ("measured", "reported") or not share["ns"]:
        return None
    ns: Ns = share["ns"]
    return ns


def waited_ns(call: Mapping[str, Any]) -> Ns | None:
    """From the request's last byte to the first token."""
    first, sent = call.get("first_token_ns"), call.get("sent_ns")
    return None if first is None or sent is None else max(0, first - sent)
