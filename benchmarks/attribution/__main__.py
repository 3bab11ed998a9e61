"""`python -m benchmarks.attribution [--seed N] [--cells TEXT] [--no-real] [--dry]`."""

import argparse
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks.attribution.baselines import BASELINES
from benchmarks.attribution.cells import cells, served
from benchmarks.attribution.report import table, written
from benchmarks.attribution.score import Judged, Score, Tally, baseline_of, score, worse_than
from benchmarks.setting import commit, machine
from latscope.attribution import attribute
from latscope.attribution.learn import learn_from
from latscope.attribution.observe import observe
from latscope.recording import Recording, SegmentTruth

RESULTS = Path(__file__).parent.parent / "results" / "attribution.jsonl"
ACCURACY = Path(__file__).parent.parent.parent / "docs" / "accuracy.md"
SEED = 40_000
"""Of half B; half A's are below 10,000."""


def judged(
    history: Sequence[Recording], scored: Sequence[Recording]
) -> tuple[list[Judged], str | None]:
    """The scored calls under a profile of the others; why its floor was refused, if it was."""
    rows = [row for call in history if (row := observe(call)) is not None]
    profile = learn_from(rows)
    rules = {baseline.name: baseline.made(rows) for baseline in BASELINES}
    found = []
    for call in scored:
        assert call.truth is not None
        assert call.truth.ttft is not None
        found.append(
            Judged(
                call=attribute(call, profile=profile),
                e2e=_by_name(call.truth.segments),
                ttft=_by_name(call.truth.ttft),
                baselines=baseline_of(observe(call), rules),
            )
        )
    return found, profile.refused


def _by_name(parts: Sequence[SegmentTruth]) -> dict[str, int]:
    return {part.name: part.ns for part in parts}


def run(seed: int, only: str, *, real: bool) -> list[Score]:
    """Every cell, its line printed as it comes."""
    scores = []
    for cell in cells(seed):
        if only in cell.name:
            calls = served(cell)
            found, refused = judged(calls.history, calls.scored)
            scores.append(score(cell.name, found, refused))
            print(table([scores[-1]], head=len(scores) == 1), flush=True)
    if real:
        from benchmarks.attribution.real import real_cells

        for name, history, scored_calls in real_cells(seed):
            found, refused = judged(history, scored_calls)
            scores.append(score(name, found, refused))
            print(table([scores[-1]], head=False), flush=True)
    return scores


def line(scores: Sequence[Score], seed: int) -> dict[str, Any]:
    """The scoreboard's line: macro averages over guarded cells, the worst one beside them."""
    guarded = [one for one in scores if one.refused is None and one.ttft_errors]
    e2e = _sum(one.e2e for one in guarded)
    ttft = _sum(one.ttft for one in guarded)
    errors = [median(one.errors) for one in guarded]
    coverages = {one.name: one.coverage for one in guarded if one.coverage is not None}
    inside, intervals = sum(o.inside for o in guarded), sum(o.intervals for o in guarded)
    hard, calls = sum(one.hard for one in scores), sum(one.n for one in scores)
    worst = min(coverages, key=lambda name: coverages[name], default=None)
    return {
        "benchmark": "attribution",
        "cells": len(scores),
        "guarded": len(guarded),
        "refused": [one.name for one in scores if one.refused is not None],
        "calls": calls,
        "dominant_e2e": _macro(one.e2e.right / one.e2e.n for one in guarded if one.e2e.n),
        "dominant_e2e_answered": e2e.answered,
        "abstained_e2e": e2e.abstained / e2e.n if e2e.n else None,
        "dominant_ttft": _macro(o.ttft.answered for o in guarded if o.ttft.answered is not None),
        "abstained": _macro(o.ttft.abstained / o.ttft.n for o in guarded if o.ttft.n),
        "dominant_ttft_pooled": ttft.answered,
        "share_error_points": _macro(errors),
        "share_error_worst": max(errors, default=None),
        "coverage_pooled": inside / intervals if intervals else None,
        "coverage_worst": coverages[worst] if worst else None,
        "coverage_worst_cell": worst,
        "width_of_trivial": _macro(o.width for o in guarded if o.width is not None),
        "hard_bounds_held": hard / calls if calls else None,
        "baselines": _baselines(guarded),
        "seed": seed,
        "commit": commit(),
        "machine": machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _sum(tallies: Any) -> Tally:
    total = Tally()
    for one in tallies:
        total = total.plus(one)
    return total


def _macro(values: Any) -> float | None:
    found = [value for value in values if value is not None]
    return round(fmean(found), 4) if found else None


def _baselines(guarded: Sequence[Score]) -> dict[str, Mapping[str, float]]:
    """Median TTFT share error by rule, ours first; and the worst cell's difference to ours with the
    upper end of its interval: above 1 point we lost there."""
    found: dict[str, Mapping[str, float]] = {
        "latscope": {"median_points": round(median(e for o in guarded for e in o.ttft_errors), 3)}
        if guarded
        else {}
    }
    for baseline in BASELINES:
        if not guarded:
            break
        theirs = [error for one in guarded for error in one.baseline_errors[baseline.name]]
        gaps = [worse_than(one.ttft_errors, one.baseline_errors[baseline.name]) for one in guarded]
        found[baseline.name] = {
            "median_points": round(median(theirs), 3),
            "worst_cell_ours_above": round(max(gap for gap, _ in gaps), 3),
            "worst_cell_upper": round(max(upper for _, upper in gaps), 3),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--cells", default="", help="Only cells whose name holds this.")
    parser.add_argument("--no-real", action="store_true", help="Without the real engine.")
    parser.add_argument("--dry", action="store_true", help="Append nothing.")
    asked = parser.parse_args()
    scores = run(asked.seed, asked.cells, real=not asked.no_real)
    found = line(scores, asked.seed)
    print(json.dumps(found, indent=1))
    if not asked.dry:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
        written(ACCURACY, found, scores)


if __name__ == "__main__":
    main()
