"""What an attribution costs on one core: `cost.py`.

A 500-chunk call: from its built timeline, and from its recording; 50-chunk recordings in bulk, read
from a file's lines. Medians of repeated runs; one JSON line is appended to results/cost.jsonl.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.setting import commit, machine
from latscope.attribution import attribute
from latscope.attribution.attribute import attribute_timeline
from latscope.documents.recordings import read_text
from latscope.recording import Recording, to_line
from latscope.sim.fleet.arrivals import Call
from latscope.sim.fleet.engine import Fleet, simulate
from latscope.sim.fleet.recordings import Path as Way
from latscope.sim.fleet.recordings import recordings
from latscope.timeline import build
from latscope.units import MS

RESULTS = Path(__file__).parent / "results" / "cost.jsonl"
RUNS, BULK = 41, 300


def call(chunks: int) -> Recording:
    """A streamed chat answer of so many chunks, a token each."""
    run = simulate(Fleet(), [Call(0, 600, chunks, chunks)], trace=[0])
    return next(iter(recordings(run, Way(rtt_ns=20 * MS, jitter_ns=MS // 10))))


def spent(work: Callable[[], object], runs: int = RUNS) -> float:
    """Median processor time of one run, ms."""
    found = []
    for _ in range(runs):
        start = time.process_time_ns()
        work()
        found.append((time.process_time_ns() - start) / MS)
    return median(found)


def main() -> None:
    long, short = call(500), call(50)
    timeline, line = build(long), to_line(short)
    bulk = spent(lambda: [attribute(read_text(line)) for _ in range(BULK)], runs=5)
    found: dict[str, Any] = {
        "benchmark": "cost",
        "timeline_500_ms": round(spent(lambda: attribute_timeline(long, timeline)), 3),
        "recording_500_ms": round(spent(lambda: attribute(long)), 3),
        "bulk_50_per_s": round(BULK / bulk * 1e3),
        "commit": commit(),
        "machine": machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    print(json.dumps(found, indent=1))
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
