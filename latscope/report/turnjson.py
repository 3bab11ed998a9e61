"""`latscope.turns/1`: a session with its turns, one JSON line each; null where not known."""

from collections.abc import Mapping, Sequence
from typing import Any

from latscope.rules.inbound import Inbound, first_byte
from latscope.rules.prefixes import Break, cost_of, prompt_of
from latscope.rules.stats import Estimate
from latscope.rules.turns import OWNER, Session, Turn, history_of, money, slopes, total
from latscope.units import rfc3339

SCHEMA = "latscope.turns/1"
CALL = (
    "call_id", "model", "endpoint", "status", "wall_ns", "first_token_ns", "input_tokens",
    "cached_tokens", "output_tokens", "reasoning_tokens",
)  # fmt: skip
"""Fields of a call that stand in its turn."""


def to_mapping(session: Session, rates: Mapping[Any, float | None]) -> dict[str, Any]:
    """rates: of each (model, endpoint) what an uncached prompt token takes, ns; null: unknown."""
    grown = slopes(session)
    return {
        "schema": SCHEMA,
        "session": session.name,
        "tie": session.tie,
        "turns": [_turn(turn, rates) for turn in session.turns],
        "calls": len(session.calls),
        "input_tokens": total(session.calls, "input_tokens"),
        "money": _money(session.calls),
        "slopes": {
            "input_tokens": _slope(grown.input_tokens),
            "ttft_ns": _slope(grown.ttft_ns),
            "cached_share": _slope(grown.cached_share),
            "money": _slope(grown.money),
        },
    }


def _turn(turn: Turn, rates: Mapping[Any, float | None]) -> dict[str, Any]:
    history = history_of(turn, rates)
    return {
        "turn": turn.index,
        "name": turn.calls[0].get("turn"),
        "trace_id": turn.calls[0].get("trace_id"),
        "started_at": _moment(turn.started_ns),
        "wall_ns": turn.wall_ns,
        "model_ns": turn.busy_ns,
        "outside_ns": turn.outside_ns,
        "ttft_ns": turn.ttft_ns,
        "input_tokens": turn.input_tokens,
        "cached_share": turn.cached_share,
        "ttft_ns_a_token": turn.ttft_ns_a_token,
        "history": {
            "tokens": history.tokens,
            "computed_tokens": history.computed,
            "ns": history.ns,
            "money": history.money,
        },
        "money": _money(turn.calls),
        "inbound": [_inbound(turn, request) for request in turn.inbound],
        "calls": [_call(turn, place, rates) for place in range(len(turn.calls))],
        "gaps": [
            {
                "at_ns": gap.at_ns,
                "ns": gap.ns,
                "owner": OWNER,
                "tools": [{"name": tool.name, "ns": tool.ns} for tool in gap.tools],
            }
            for gap in turn.gaps
        ],
        "critical_path": {
            "calls": [turn.calls[place]["call_id"] for place in turn.critical],
            "waits_ns": turn.waits_ns,
        },
        "overlaps": turn.overlaps,
        "loops": [
            {
                "first": turn.calls[loop.first]["call_id"],
                "calls": loop.calls,
                "tool_results": loop.results,
                "one_each": loop.one_each,
                "suffice": loop.suffice,
                "saved_ns": loop.saved_ns if loop.suffice else None,
            }
            for loop in turn.loops
        ],
        "could_overlap": [
            {
                "calls": [turn.calls[place]["call_id"] for place in apart.places],
                "saved_ns": apart.saved_ns,
            }
            for apart in turn.apart
        ],
    }


def _inbound(turn: Turn, request: Inbound) -> dict[str, Any]:
    """The request the turn was made for; `first_byte` null when no byte was sent."""
    found = first_byte(turn, request)
    return {
        "at_ns": request.started_ns - turn.started_ns,
        "wall_ns": request.wall_ns,
        "first_byte_ns": request.first_byte_ns,
        "status": request.status,
        "method": request.method,
        "route": request.route,
        "end": request.end,
        "first_byte": None
        if found is None
        else {
            "call": None if found.call is None else turn.calls[found.call]["call_id"],
            "before_ns": found.before_ns,
            "ttft_ns": found.ttft_ns,
            "after_ns": found.after_ns,
            "held": found.held,
        },
    }


def _call(turn: Turn, place: int, rates: Mapping[Any, float | None]) -> dict[str, Any]:
    call, found = turn.calls[place], turn.breaks[place]
    shares = prompt_of(call).shares
    names = ("system", "tools", "history", "last_turn")
    return {
        **{name: call.get(name) for name in CALL},
        "at_ns": turn.at_ns[place],
        "segments": [
            {"name": share["name"], "ns": share["ns"], "ttft_ns": share["ttft_ns"]}
            for share in call["segments"]
        ],
        "prompt": None if shares is None else dict(zip(names, shares, strict=True)),
        "prefix": _break(found, call, rates),
        "money": call.get("money"),
    }


def _break(
    found: Break | None, call: Mapping[str, Any], rates: Mapping[Any, float | None]
) -> dict[str, Any] | None:
    """What the call shares with the one before it that is its like; null where nobody knows."""
    if found is None:
        return None
    ns, cost = cost_of(found, call, rates.get((call.get("model"), call.get("endpoint"))))
    return {
        "kept_share": found.share,
        "broken_in": found.part,
        "to": found.to,
        "at": found.at,
        "tokens": found.tokens,
        "ns": ns,
        "money": cost,
    }


def _money(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over the calls; null where one is not known."""
    parts = {part: money(calls, part) for part in PARTS}
    return {**parts, "currency": currency(calls)}


PARTS = (
    "total", "uncached_input", "cached_input", "cache_write", "output", "reasoning", "visible",
)  # fmt: skip


def currency(calls: Sequence[Mapping[str, Any]]) -> str | None:
    """The one the calls' prices are in; null where none is known."""
    known = {
        found["currency"] for call in calls if (found := call.get("money") or {}).get("currency")
    }
    return known.pop() if len(known) == 1 else None


def _slope(found: Estimate | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"value": found.value, "low": found.low, "high": found.high, "turns": found.n}


def _moment(ns: int) -> str:
    text = rfc3339(ns / 1e9)
    return f"{text[:19]}.{ns // 1000 % 1_000_000:06d}Z"
