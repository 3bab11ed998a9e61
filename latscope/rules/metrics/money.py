"""Metrics of money, split like time. `money` is laid into each call by `documents.prices`; a price
that is not known makes a figure null, never 0."""

from collections.abc import Callable

from latscope.rules.metrics.metric import Call, Columns, Metric, Value
from latscope.rules.metrics.sessions import at_first, growth, sessions, total, turns

PRICES = "give prices: --prices FILE, or latscope[analysis] for a vendor's"
PARTS = {
    "uncached_input": "prompt tokens the server computed",
    "cached_input": "prompt tokens from the cache",
    "cache_write": "prompt tokens written to the cache",
    "output": "output tokens, reasoning with them",
    "reasoning": "reasoning tokens, which are output that nobody reads",
    "visible": "output tokens that are shown",
}


def _of(field: str, group: str = "") -> Callable[[Call], Value]:
    def of(call: Call) -> Value:
        money = call.get("money") or {}
        found = (money.get(group) or {}).get(field) if group else money.get(field)
        return None if found is None else float(found)

    return of


def _turn_cost(columns: Columns) -> list[Value]:
    return at_first(columns, [(turn[0], total(columns["cost"], turn)) for turn in turns(columns)])


def _session_cost(columns: Columns) -> list[Value]:
    return at_first(
        columns,
        [
            (inside[0][0], total(columns["cost"], [index for turn in inside for index in turn]))
            for inside in sessions(columns)
        ],
    )


def _growth(columns: Columns) -> list[Value]:
    cost = columns["cost"]
    return growth(columns, lambda turn: total(cost, turn))


def _row(name: str, means: str, over: Callable[[Columns], list[Value]]) -> Metric:
    return Metric(
        name=name,
        unit="money",
        means=means,
        over=over,
        needs=("session.place", "started_ns", "cost"),
        collect=PRICES,
    )


ROWS = (
    Metric(name="cost", unit="money", means="what the call cost", of=_of("total"), collect=PRICES),
    *(
        Metric(name=f"cost.{part}", unit="money", means=of, of=_of(part), collect=PRICES)
        for part, of in PARTS.items()
    ),
    Metric(
        name="rate.input",
        unit="money",
        means="price of a prompt token",
        of=_of("input", "rates"),
        collect=PRICES,
    ),
    Metric(
        name="rate.cached_input",
        unit="money",
        means="price of a prompt token from the cache",
        of=_of("cached_input", "rates"),
        collect=PRICES,
    ),
    _row("cost_per_turn", "what the turn's calls cost; at its first call", _turn_cost),
    _row("cost_per_session", "what the session's calls cost; at its first call", _session_cost),
    _row(
        "session.cost_growth",
        "what a turn costs more than the one before it (Theil-Sen); at the session's first call,"
        " from three turns on",
        _growth,
    ),
)
