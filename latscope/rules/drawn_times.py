"""The times of a made-up call: a lawful partition from the few that a case states.

The segments add up to the whole, and their shares of the time to first token to that. What is
stated counts; what it leaves of the time to first token is prefill's, or that of the first segment
not stated (`REST`); what it leaves of the whole is decode's. With `blind` the rest stays unsplit:
`true` between queue and prefill, or between the segments it names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from latscope.attribution.model import OWNERS, SEGMENTS
from latscope.attribution.stalls import CAUSES
from latscope.rules.metrics.shares import PARTS
from latscope.units import MS, Ns, S

Values: TypeAlias = dict[str, Any]
"""Figures by the names of metrics; taken out as they are used."""

STEP = 20 * MS
TOKENS = 50
"""An answer's tokens and the time between two, where a case states neither them nor the whole."""
UPLOAD = 1 * MS
STALL = 200 * MS
BLIND = ("queue", "prefill")
PAUSED = ("decode", "network")
"""Whose a stall may be that nothing explains."""
REST = ("prefill", "network", "queue", "decode", "client")
"""To whom the rest of a time to first token belongs: the first of these that is not stated."""
BEFORE = ("queue", "prefill")
"""Segments that are over once the first token is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """ttft, e2e: null where they are not stated, or there is no first token. first, whole: stated
    segments of the time to first token, and of the call. stalls: cause and length of each.
    candidates: whose the unsplit rest may be; empty where nothing stays unsplit."""

    ttft: Ns | None
    e2e: Ns | None
    first: Mapping[str, Ns]
    whole: Mapping[str, Ns]
    parts: Mapping[str, Mapping[str, Ns]]
    stalls: list[tuple[str, Ns]]
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Laid:
    """ns, first: of each owner, of the call and to its first token (null without one). rest,
    first_rest: the unsplit time of each; paused: stalls that nothing explains."""

    ns: Mapping[str, Ns]
    first: Mapping[str, Ns] | None
    rest: Ns
    first_rest: Ns
    paused: Ns

    @property
    def wall(self) -> Ns:
        return sum(self.ns.values()) + self.rest + self.paused

    @property
    def ttft(self) -> Ns | None:
        return None if self.first is None else sum(self.first.values()) + self.first_rest


def take_ns(left: Values, name: str) -> Ns | None:
    """The figure of a name, taken out; null where it is not stated."""
    value = left.pop(name, None)
    return None if value is None else round(value)


def lay_times(call: dict[str, Any], left: Values) -> None:
    """Everything of the call that is a time, from the figures that state one."""
    step = take_ns(left, "itl_p50")
    tokens = left.get("output_tokens")
    gaps = (int(tokens) if tokens else TOKENS) - 1
    stated = _stated(call, left)
    laid = _laid(stated, max(0, gaps) * (STEP if step is None else step))
    call["wall_ns"] = laid.wall
    call["first_token_ns"] = call["first_visible_token_ns"] = laid.ttft
    answered = laid.wall if laid.ttft is None else laid.ttft
    call["sent_ns"] = _or(left, "sent", min(UPLOAD, answered))
    call["headers_ns"] = _or(left, "headers", None if left.get("timed_out") else answered)
    call["first_byte_ns"] = _or(left, "ttfb", call["headers_ns"])
    call["segments"] = [_share(segment, stated, laid) for segment in SEGMENTS]
    call["unsplit"] = _unsplit(stated, laid)
    call["stalls"] = [
        {"at_ns": answered, "ns": ns, "cause": cause, "confidence": 1.0}
        for cause, ns in stated.stalls
    ]
    longest = max((ns for _, ns in stated.stalls), default=0)
    _steps(call, left, STEP if step is None else step, gaps, longest)
    _excess(call, left)


def _or(left: Values, name: str, otherwise: Ns | None) -> Ns | None:
    return take_ns(left, name) if name in left else otherwise


# -- what is stated -------------------------------------------------------------------------------


def _stated(call: Mapping[str, Any], left: Values) -> _Stated:
    blind = left.pop("blind", False)
    parts = _parts(left)
    first, whole = _segments(left, "ttft."), _segments(left, "")
    for segment, named in parts.items():
        whole.setdefault(segment, max(sum(named.values()), first.get(segment, 0)))
    ttft, e2e, cut_age = (take_ns(left, name) for name in ("ttft", "e2e", "cut_age"))
    e2e = cut_age if e2e is None else e2e
    if left.pop("first_token", True) is False:
        ttft, first, e2e = None, {}, S if e2e is None else e2e
    elif ttft is not None or first:
        first = {name: whole[name] for name in BEFORE if name in whole} | first
    return _Stated(
        ttft=ttft if call["streamed"] else None,
        e2e=e2e,
        first=first if call["streamed"] else {},
        whole=whole,
        parts=parts,
        stalls=_stalls(left),
        candidates=tuple(blind.split()) if isinstance(blind, str) else BLIND if blind else (),
    )


def _parts(left: Values) -> dict[str, dict[str, Ns]]:
    found: dict[str, dict[str, Ns]] = {}
    for segment, names in PARTS.items():
        for part in names:
            ns = take_ns(left, f"{segment}.{part}")
            if ns is not None:
                found.setdefault(segment, {})[part] = ns
    return found


def _segments(left: Values, prefix: str) -> dict[str, Ns]:
    stated = {str(segment): take_ns(left, prefix + segment) for segment in OWNERS}
    return {segment: ns for segment, ns in stated.items() if ns is not None}


def _stalls(left: Values) -> list[tuple[str, Ns]]:
    """`stall.hold: 300ms`; and `stalls: 3`, of a `stall_time` together, that nothing explains."""
    listed = [(str(cause), take_ns(left, f"stall.{cause}")) for cause in CAUSES]
    found = [(cause, ns) for cause, ns in listed if ns]
    count, together = int(left.pop("stalls", 0) or 0), take_ns(left, "stall_time")
    if found or not (count or together):
        return found
    count = max(1, count)
    return [("unsplit", STALL if together is None else together // count)] * count


# -- the partition --------------------------------------------------------------------------------


def _laid(stated: _Stated, decoding: Ns) -> _Laid:
    """decoding: how long the tokens after the first took, where nothing else says."""
    first, first_rest = _to_first(stated)
    ns = dict.fromkeys(map(str, OWNERS), 0) if first is None else dict(first)
    paused = 0
    for cause, lasted in stated.stalls:
        segment = next(kind.segment for name, kind in CAUSES.items() if name == cause)
        if segment is None:
            paused += lasted
        else:
            ns[segment] += lasted
    for name, lasted in stated.whole.items():
        # A stall of a segment that is stated is part of what is stated.
        ns[name] = max(lasted, 0 if first is None else first[name])
    if "decode" not in stated.whole and stated.e2e is None:
        ns["decode"] += decoding
    rest = first_rest
    if stated.e2e is not None:
        more = max(0, stated.e2e - sum(ns.values()) - rest - paused)
        if first is None and stated.candidates:
            rest += more
        else:
            ns["decode"] += more
    return _Laid(ns=ns, first=first, rest=rest, first_rest=first_rest, paused=paused)


def _to_first(stated: _Stated) -> tuple[dict[str, Ns] | None, Ns]:
    """The owners' shares of the time to first token, null without one; and what of it stays
    unsplit. Where the stated shares are more than the whole, the whole is their sum."""
    if stated.ttft is None and not stated.first:
        return None, 0
    shares = dict.fromkeys(map(str, OWNERS), 0) | dict(stated.first)
    rest = max(0, (stated.ttft or 0) - sum(shares.values()))
    if stated.candidates:
        return shares, rest
    shares[next((name for name in REST if name not in stated.first), REST[0])] += rest
    return shares, 0


def _share(segment: str, stated: _Stated, laid: _Laid) -> dict[str, Any]:
    """A segment as a line states it."""
    open_ns = laid.rest * (segment in stated.candidates) + laid.paused * (segment in PAUSED)
    first_open = laid.first_rest * (segment in stated.candidates)
    if segment == "unattributed":
        ns, first = laid.rest + laid.paused, laid.first_rest
        low = first_low = 0
        high, first_high = ns, first
    else:
        ns, first = laid.ns[segment], (laid.first or laid.ns)[segment]
        low, first_low = ns, first
        high, first_high = ns + open_ns, first + first_open
    none = laid.first is None
    return {
        "name": segment,
        "ns": ns,
        "ttft_ns": None if none else first,
        "low_ns": low,
        "high_ns": high,
        "bounds_ns": [low, high],
        "provenance": "bound" if segment == "unattributed" else "reported",
        "evidence": [],
        "parts": [
            {"name": part, "ns": n, "bounds_ns": [n, n], "provenance": "reported"}
            for part, n in stated.parts.get(segment, {}).items()
        ],
        "owner": "-",
        "lever": "-",
        "ttft_low_ns": None if none else first_low,
        "ttft_high_ns": None if none else first_high,
    }


def _unsplit(stated: _Stated, laid: _Laid) -> list[dict[str, Any]]:
    pieces = [(stated.candidates, laid.rest, 0), (PAUSED, laid.paused, laid.ttft)]
    return [
        {"candidates": [*names], "ns": ns, "at_ns": at, "would_split": []}
        for names, ns, at in pieces
        if ns
    ]


# -- the stream, the floor ------------------------------------------------------------------------


def _steps(call: dict[str, Any], left: Values, step: Ns, gaps: int, longest: Ns) -> None:
    """The gaps between arrivals; a call without two has none."""
    p95, most, each = (take_ns(left, name) for name in ("itl_p95", "itl_max", "tpot"))
    chunk = left.pop("tokens_per_chunk", 1.0)
    if call["first_token_ns"] is None or gaps < 1:
        return
    p95 = round(1.2 * step) if p95 is None else p95
    most = max(2 * step, p95, longest) if most is None else most
    call["itl"] = {"p50_ns": step, "p95_ns": p95, "max_ns": most, "n": gaps, "unit": "token"}
    if each is None and left.get("output_tokens"):
        each = round((call["wall_ns"] - call["first_token_ns"]) / gaps)
    call["tpot_ns"] = each
    call["tokens_per_chunk"] = chunk


def _excess(call: dict[str, Any], left: Values) -> None:
    excess, floor, first = (
        take_ns(left, "load_excess"),
        take_ns(left, "floor"),
        call["first_token_ns"],
    )
    if first is None or (excess is None and floor is None):
        return
    ns = max(0, first - (floor or 0)) if excess is None else min(excess, first)
    call["load_excess"] = {
        "ns": ns,
        "low_ns": ns,
        "high_ns": ns,
        "floor_ns": first - ns,
        "n": 100,
        "provenance": "inferred",
    }
