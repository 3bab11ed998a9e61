"""How wrong the estimates of queue, prefill and load excess are where the truth is known, and the
intervals that follow: makes latscope/attribution/residuals.py.

Half A of the lab: eighteen simulated endpoints (model, token budget, places, prompts, prefixes;
six of them on machines whose steps vary) at six loads. For each of them the profile is learnt as a
user would learn it: from traffic at the load itself (unless its floor is refused), from a calm hour
(`inferred`), and from spaced single calls (`probed`); with the response head as anchor, and without
it, behind a front end and a way that jitters. Every call is then estimated and compared with the
book-keeping of the scheduler.

`python -m benchmarks.intervals` writes the module from two seeds; with `--check` it then scores a
third, each endpoint by residuals of the others, a line a cell, one JSON line appended to
results/intervals.jsonl.
`--jobs N` simulates in N processes.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean, median
from textwrap import fill

from benchmarks.half_a import LOADS, WORLDS, Cell, cells
from benchmarks.setting import commit
from latscope.attribution import intervals
from latscope.attribution.excess import point_of, split
from latscope.attribution.profile import Residual

SEEDS, CHECK_SEED = (1, 2), 5
LEAST = 200
"""Calls of a group, at least, for its residuals to be shipped."""
MODULE = Path(__file__).parent.parent / "latscope" / "attribution" / "residuals.py"
RESULTS = Path(__file__).parent / "results" / "intervals.jsonl"


def shares(found: Sequence[Cell]) -> dict[str, float]:
    """By group, the median share of an excess that was prefill; what joining a busy engine took and
    what an uneven machine takes more in calm calls left out. Excesses within what a floor can be
    known to are left out, too: their shares are noise."""
    groups: dict[str, list[float]] = {}
    for cell in found:
        for call in cell.calls:
            point = point_of(call.row, cell.profile, {})
            rest = 0 if point is None else point.excess_ns - point.joined_ns
            if point is not None and rest > point.pad_ns - point.slow_ns:
                own = point.floor_ns - point.front_ns + point.joined_ns
                groups.setdefault(point.group, []).append((call.prefill_ns - own) / rest)
    return {
        group: round(min(1.0, max(0.0, median(values))), 3)
        for group, values in sorted(groups.items())
        if len(values) >= LEAST
    }


def errors(cell: Cell, known: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """(quantity/group, residual) of every call of the cell, those of the group `any` too. known:
    shares of excesses."""
    for call in cell.calls:
        point = point_of(call.row, cell.profile, known)
        if point is None:
            continue
        true = call.queue_ns + call.prefill_ns - call.floor_ns
        found = {
            "prefill": call.prefill_ns - point.prefill_ns,
            "queue": call.queue_ns - point.waiting_ns,
            "excess": true - point.excess_ns,
        }
        for quantity, ns in found.items():
            for group in (point.group, intervals.ANY):
                yield f"{quantity}/{group}", ns / point.scale_ns


def table(found: Sequence[Cell]) -> tuple[dict[str, Residual], dict[str, float]]:
    """Residuals, and the shares they were found with."""
    known = shares(found)
    pairs = (pair for cell in found for pair in errors(cell, known))
    return intervals.residuals(pairs, least=LEAST), known


# -- the module -----------------------------------------------------------------------------------

HEAD = '''"""Residuals of estimates, from the lab. Made by benchmarks/intervals.py, never edited.

Commit {commit}, seeds {seeds}. Half A: {count} calls of {worlds} simulated endpoints
{names}
at loads {loads}, token budgets {budgets}.
A name is quantity/provenance/anchor/load/company; the values are quantiles of (truth - estimate) in
the estimate's scale, at the levels of intervals.LEVELS. SHARES: by the same groups, the median
share of an excess that was prefill.
"""

from collections.abc import Mapping

from latscope.attribution.profile import Residual

RESIDUALS: Mapping[str, Residual] = {{
'''


def write(found: Sequence[Cell]) -> None:
    made, known = table(found)
    head = HEAD.format(
        commit=commit(),
        seeds=", ".join(str(seed) for seed in SEEDS),
        count=sum(len(cell.calls) for cell in found if cell.profile.floor is not None),
        worlds=len(WORLDS),
        names=fill(f"({', '.join(world.name for world in WORLDS)})", 100),
        loads=", ".join(str(load) for load in LOADS),
        budgets=", ".join(str(budget) for budget in sorted({world.budget for world in WORLDS})),
    )
    rows = [
        f'    "{name}": Residual(low={one.low}, high={one.high}, n={one.n}),\n'
        for name, one in made.items()
    ]
    middles = "".join(f'    "{group}": {share},\n' for group, share in known.items())
    tail = f"}}\n\nSHARES: Mapping[str, float] = {{\n{middles}}}\n"
    MODULE.write_text(head + "".join(rows) + tail, encoding="utf-8")
    print(f"{len(made)} groups written to {MODULE}", flush=True)


# -- the check ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of one cell: shares of calls whose truth lay in the interval; mean width of prefill's as a
    share of the trivial bound; median share error in points of E2E and of the engine's interval;
    share of calls without a dominant segment, and of the others how many were right."""

    prefill: float
    queue: float
    excess: float
    width: float
    e2e_points: float
    ttft_points: float
    abstained: float
    dominant: float | None


def score(cell: Cell, shipped: Mapping[str, Residual], known: Mapping[str, float]) -> Score | None:
    """Null where the floor was refused."""
    pairs = ((call, split(call.row, cell.profile, shipped, known)) for call in cell.calls)
    rows = [(call, one) for call, one in pairs if one is not None]
    if not rows:
        return None
    apart = [(abs(one.prefill_ns - call.prefill_ns), call, one) for call, one in rows]
    said = [(one.dominant, call) for call, one in rows if one.dominant is not None]
    right = [
        who == ("queue" if call.queue_ns > call.prefill_ns else "prefill") for who, call in said
    ]
    excesses = [
        one.excess_low_ns <= call.queue_ns + call.prefill_ns - call.floor_ns <= one.excess_high_ns
        for call, one in rows
    ]
    return Score(
        prefill=fmean(one.prefill_low_ns <= c.prefill_ns <= one.prefill_high_ns for c, one in rows),
        queue=fmean(one.waiting_low_ns <= c.queue_ns <= one.waiting_high_ns for c, one in rows),
        excess=fmean(excesses),
        width=fmean((o.prefill_high_ns - o.prefill_low_ns) / max(1, o.total_ns) for _, o in rows),
        e2e_points=100 * median(ns / call.e2e_ns for ns, call, _ in apart),
        ttft_points=100 * median(ns / max(1, one.total_ns) for ns, _, one in apart),
        abstained=1 - len(said) / len(rows),
        dominant=fmean(right) if right else None,
    )


def check(train: Sequence[Cell], found: Sequence[Cell]) -> int:
    """Each endpoint by residuals of the others."""
    scores: list[tuple[Cell, Score]] = []
    refused: dict[float, list[bool]] = {load: [] for load in LOADS}
    for world in WORLDS:
        others = table([cell for cell in train if cell.world != world.name])
        for cell in found:
            if cell.world != world.name:
                continue
            one = score(cell, *others)
            if cell.how.startswith("traffic"):
                refused[cell.load].append(one is None)
            said = f"refused: {cell.profile.refused}" if one is None else _said(one)
            print(f"{cell.world:10} {cell.load:<4} {cell.how:12} {said}")
            if one is not None:
                scores.append((cell, one))
    line = _line(scores, refused)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")
    print(json.dumps(line, indent=1))
    return 0


def _said(one: Score) -> str:
    return "  ".join(
        f"{name} {'-' if value is None else format(value, '.2f')}"
        for name, value in asdict(one).items()
    )


def _line(
    scores: Sequence[tuple[Cell, Score]], refused: dict[float, list[bool]]
) -> dict[str, object]:
    """Means over the cells (not over calls), by quantity, and the worst."""
    whole = [asdict(one) for _, one in scores]
    means: dict[str, float] = {}
    worst: dict[str, float] = {}
    for name in Score.__dataclass_fields__:
        values = [row[name] for row in whole if row[name] is not None]
        means[name] = round(fmean(values), 4)
        bad = max if name in ("width", "e2e_points", "ttft_points", "abstained") else min
        worst[name] = round(bad(values), 4)
    return {
        "schema": "latscope.benchmark/1",
        "name": "intervals",
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": CHECK_SEED,
        "cells": len(scores),
        "mean": means,
        "worst": worst,
        "refused": {str(load): f"{sum(found)} of {len(found)}" for load, found in refused.items()},
    }


def main(arguments: Sequence[str]) -> int:
    jobs = int(arguments[arguments.index("--jobs") + 1]) if "--jobs" in arguments else 1
    with ProcessPoolExecutor(jobs) as pool:

        def drawn_cells(seed: int) -> list[Cell]:
            return [cell for some in pool.map(partial(cells, seed=seed), WORLDS) for cell in some]

        train = [cell for seed in SEEDS for cell in drawn_cells(seed)]
        write(train)
        return check(train, drawn_cells(CHECK_SEED)) if "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
