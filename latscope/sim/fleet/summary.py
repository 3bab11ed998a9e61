"""A run in figures: `latscope.fleet/1` as JSON-ready values."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from math import ceil
from typing import Any

from latscope.sim.fleet.arrivals import Call
from latscope.sim.fleet.engine import Fleet, Run, Table, simulate
from latscope.units import US, Ns, S

SCHEMA = "latscope.fleet/1"

CAPACITY_CALLS = 2000
"""As many as are served at once to find out how many a second can be."""


def document(run: Run, workload: Mapping[str, Any], *, rows: bool) -> dict[str, Any]:
    """The whole run: settings, summary and, with `rows`, the table of truth."""
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "workload": dict(workload),
        "fleet": asdict(run.fleet),
        "summary": summary(run),
    }
    if rows:
        found["calls"] = list(table_rows(run.table))
    return found


def table_rows(table: Table) -> Iterator[dict[str, int]]:
    """A row a call, `call` its number."""
    for number in range(len(table)):
        yield {"call": number, **table.row(number)}


def summary(run: Run) -> dict[str, Any]:
    """Times in ns. share: of all calls' E2E time, ttft_share: of all their time to first token."""
    table = run.table
    queue = _between(table.arrival_ns, table.scheduled_ns)
    prefill = _between(table.scheduled_ns, table.first_token_ns)
    decode = _between(table.first_token_ns, table.last_token_ns)
    ttft = _between(table.arrival_ns, table.first_token_ns)
    e2e = _between(table.arrival_ns, table.last_token_ns)
    took = max(usage.until_ns for usage in run.usage)
    whole, early = sum(e2e), sum(ttft)
    prompts = sum(table.prompt_tokens)
    return {
        "calls": len(table),
        "took_ns": took,
        "calls_per_s": _ratio(len(table) * S, took),
        "output_tokens_per_s": _ratio(sum(table.output_tokens) * S, took),
        "ttft": _percentiles(ttft),
        "itl": _gaps(run.gaps),
        "e2e": _percentiles(e2e),
        "queue": _segment(queue, whole, early),
        "prefill": _segment(prefill, whole, early),
        "decode": {**_percentiles(decode), "share": _ratio(sum(decode), whole)},
        "utilisation": _utilisation(run, took),
        "preemptions": sum(table.preemptions),
        "calls_preempted": sum(1 for times in table.preemptions if times),
        "prompt_tokens": prompts,
        "cached_tokens": sum(table.cached_tokens),
        "cache_hit_share": _ratio(sum(table.cached_tokens), prompts),
        "prefill_tokens_computed": sum(usage.prefill_tokens for usage in run.usage),
    }


def capacity(fleet: Fleet, calls: Iterable[Call]) -> float:
    """Calls a second the fleet gets done when all of `calls` are there from the start."""
    run = simulate(fleet, (call._replace(at_ns=0) for call in calls))
    return len(run.table) * S / max(run.table.last_token_ns)


def _between(start: "array[int]", stop: "array[int]") -> "array[int]":
    return array("q", (after - before for before, after in zip(start, stop, strict=True)))


def _percentiles(values: "array[int]") -> dict[str, Ns]:
    """The smallest values that at least half, and 95 % of them, do not exceed."""
    ordered = sorted(values)
    return {f"p{of}_ns": ordered[_place(of, len(ordered))] for of in (50, 95)}


def _gaps(gaps: "Counter[int]") -> dict[str, Ns | None]:
    """The same of the times between tokens, to the microsecond; null when no call had two."""
    ordered = sorted(gaps.items())
    reached = list(accumulate(count for _, count in ordered))
    if not ordered:
        return {"p50_ns": None, "p95_ns": None}
    places = {of: _place(of, reached[-1]) for of in (50, 95)}
    return {f"p{of}_ns": _at(ordered, reached, place) * US for of, place in places.items()}


def _at(ordered: Sequence[tuple[int, int]], reached: Sequence[int], place: int) -> int:
    return next(gap for (gap, _), upto in zip(ordered, reached, strict=True) if upto > place)


def _place(of: int, count: int) -> int:
    return max(0, ceil(of * count / 100) - 1)


def _segment(values: "array[int]", whole: Ns, early: Ns) -> dict[str, Any]:
    total = sum(values)
    return {
        **_percentiles(values),
        "share": _ratio(total, whole),
        "ttft_share": _ratio(total, early),
    }


def _utilisation(run: Run, took: Ns) -> dict[str, Any]:
    """busy: share of the time with a step under way; running: calls in a step, on the average over
    the busy time; kv_peak: most of the KV memory held at once; all over the replicas, then each."""
    blocks = run.fleet.limits.blocks
    busy = sum(usage.busy_ns for usage in run.usage)
    return {
        "busy": _ratio(busy, took * len(run.usage)),
        "running": _ratio(sum(usage.running_ns for usage in run.usage), busy),
        "kv_peak": _ratio(max(usage.most_blocks for usage in run.usage), blocks),
        "steps": sum(usage.steps for usage in run.usage),
        "replicas": [
            {
                "calls": run.table.replica.count(number),
                "busy": _ratio(usage.busy_ns, took),
                "running": _ratio(usage.running_ns, usage.busy_ns),
                "kv_peak": _ratio(usage.most_blocks, blocks),
            }
            for number, usage in enumerate(run.usage)
        ],
    }


def _ratio(part: float, whole: float) -> float:
    return round(part / whole, 6) if whole else 0.0
