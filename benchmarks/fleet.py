"""How many calls a second the fleet simulator gets done on one core, and that the rate lasts.

The default fleet and traffic at three loads, in turn in one run; a longer run of the middle one
(`fleet.py CALLS`, a million if you like) shows whether a call costs more late than early. Figures
are of processor time, so that other work on the machine counts as little as it can.

Prints one readable line a load, appends one JSON line to results/fleet.jsonl, and exits 1 when a
call of the long run costs more than 1.5 times one of the short.
"""

import json
import resource
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from benchmarks.setting import commit, machine
from latscope.sim.fleet.arrivals import Workload, drawn
from latscope.sim.fleet.engine import Fleet, simulate
from latscope.sim.fleet.summary import capacity, summary

SHORT = 5_000
LONG = 100_000
LOADS = (0.2, 0.5, 0.95)
LONG_LOAD = 0.5
REPEATS = 3
MAX_RATIO = 1.5
RESULTS = Path(__file__).parent / "results" / "fleet.jsonl"


def cost_us(calls: int, rate: float) -> tuple[float, int]:
    """Processor time a call, in microseconds, summary included; the steps simulated."""
    started = time.process_time()
    run = simulate(Fleet(), drawn(Workload(calls=calls, rate=rate)))
    steps: int = summary(run)["utilisation"]["steps"]
    return (time.process_time() - started) / calls * 1e6, steps


def at_loads(most: float) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for load in LOADS:
        runs = [cost_us(SHORT, load * most) for _ in range(REPEATS)]
        us = median(cost for cost, _ in runs)
        found[str(load)] = {
            "us_per_call": round(us, 1),
            "calls_per_s": round(1e6 / us),
            "steps_per_call": round(runs[0][1] / SHORT, 2),
        }
    return found


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else LONG
    most = capacity(Fleet(), drawn(Workload(calls=2000)))
    loads = at_loads(most)
    us, _ = cost_us(calls, LONG_LOAD * most)
    ratio = us / loads[str(LONG_LOAD)]["us_per_call"]
    line = {
        "schema": "latscope.benchmark/1",
        "name": "fleet",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "repeats": REPEATS,
        "calls": SHORT,
        "loads": loads,
        "long": {
            "calls": calls,
            "load": LONG_LOAD,
            "us_per_call": round(us, 1),
            "minutes_a_million": round(us / 60, 1),
            "ratio": round(ratio, 3),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        },
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")
    for name, row in loads.items():
        print(f"load {name:4}  {row['us_per_call']:.0f} us a call, {row['calls_per_s']} calls/s")
    said = f"{us:.0f} us a call, ratio {ratio:.2f} (at most {MAX_RATIO})"
    print(f"{calls} calls at load {LONG_LOAD}: {said}; a million takes {us / 60:.1f} min")
    return 1 if ratio > MAX_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
