"""What watching a stream costs: `python -m benchmarks.overhead`.

The bare client, latscope and each peer (design: those that instrument openai and anthropic clients
in Python), every one in an environment of its own, in one run and in turns: in each round each tool
has its turn in an order of chance, beside it a bare client of the same environment. Streams come
from a scripted server in a process of its own, one event a chunk, paced so that each is a read of
its own. Figures are medians over the rounds of processor time a chunk, with their 90 % intervals,
so that other work on the machine counts as little as it can; still, leave it alone.

Prints the figures beside their targets, appends one JSON line to results/overhead.jsonl, and exits
1 when a target is missed.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.overhead import start
from benchmarks.overhead.peers import PEERS, SDKS, python, versions
from benchmarks.overhead.run import Cost, Tool, compare, serving
from benchmarks.setting import ROOT, commit, machine

RESULTS = ROOT / "benchmarks" / "results" / "overhead.jsonl"
STYLES = ("sync", "async")
OURS = ("latscope", "latscope+sinks")
MODEL = "chunks-400-gap-200"

Costs = Mapping[str, Mapping[str, Cost]]
"""`openai sync` -> tool -> its cost."""


class Target(NamedTuple):
    what: str
    found: float
    most: float
    unit: str

    @property
    def met(self) -> bool:
        return self.found <= self.most


def tools(peers: bool) -> list[Tool]:
    ours = [Tool(name, Path(sys.executable), SDKS) for name in OURS]
    return ours + [Tool(each.name, python(each), each.sdks) for each in PEERS if peers]


def costs(made: Sequence[Tool], options: argparse.Namespace, port: int) -> Costs:
    found = {}
    for sdk in SDKS:
        for style in STYLES:
            found[f"{sdk} {style}"] = row = compare(
                made,
                sdk,
                style,
                port=port,
                rounds=options.rounds,
                calls=options.calls,
                model=MODEL,
                seed=options.seed,
            )
            say(f"\n{sdk}, {style}: us a chunk, over the bare client beside it")
            for name, cost in row.items():
                say(
                    f"  {name:16} bare {cost.bare_us:7.1f}   caller {cost.thread_us:+7.2f}"
                    f" +-{cost.thread_sure_us:4.1f}  x {cost.ratio:5.3f}"
                    f"   process {cost.process_us:+7.2f} +-{cost.process_sure_us:4.1f}"
                )
    return found


def inside(what: str, port: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.overhead.inside", what, str(port)]
    ran = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def of_streams(found: Costs) -> Iterator[Target]:
    for case, row in found.items():
        ours, sinks = (row[name] for name in OURS)
        peers = [cost for name, cost in row.items() if name not in OURS]
        yield Target(f"{case}: on the caller's thread", ours.thread_us, 4.0, "us a chunk")
        yield Target(f"{case}: the caller's thread over bare", ours.ratio, 1.04, "x")
        yield Target(f"{case}: whole process, JSONL and OTel", sinks.process_us, 15.0, "us a chunk")
        if peers:
            least = min(cost.thread_us for cost in peers)
            yield Target(f"{case}: a sixth of the cheapest peer", ours.thread_us, least / 6, "us")
            whole = min(cost.process_us for cost in peers)
            yield Target(f"{case}: the cheapest peer's process", sinks.process_us, whole, "us")


def of_one(found: Mapping[str, Any]) -> Iterator[Target]:
    yield Target("inside the wrapper, p99", found["wrapper_p99_us"], 5.0, "us")
    yield Target("loop lag added while draining, p99", found["lag_added_p99_ms"], 0.3, "ms")
    yield Target("the same, JSONL and OTel", found["lag_otel_added_p99_ms"], 0.3, "ms")
    most = found["stream_most_bytes"]
    yield Target("memory of an open stream", found["stream_bytes"] / 1024, most / 1024, "KiB")
    grown = found["abandoned_growth_bytes"] / 1024
    yield Target("growth over 10,000 abandoned streams", grown, 64.0, "KiB")
    yield Target("import latscope over an empty interpreter", found["import_ms"], 30.0, "ms")
    third = found["import_third_party"]
    yield Target("third-party modules that loads", float(len(third)), 0.0, " ".join(third))


def say(text: str) -> None:
    print(text, flush=True)


def line(found: Costs, one: Mapping[str, Any], made: Sequence[Tool], seed: int) -> dict[str, Any]:
    packages = {each.name: each.package for each in PEERS}
    told = {
        tool.name: versions(tool.interpreter, packages[tool.name])
        for tool in made
        if tool.name in packages
    }
    return {
        "schema": "latscope.benchmark/1",
        "name": "overhead",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "model": MODEL,
        "sdks": versions(Path(sys.executable), *SDKS),
        "peers": told,
        "costs": {
            case: {name: [round(value, 2) for value in cost] for name, cost in row.items()}
            for case, row in found.items()
        },
        **{name: round(v, 4) if isinstance(v, float) else v for name, v in one.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="What watching a stream costs.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=3, help="of 400 chunks, a turn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-peers", action="store_true", help="latscope alone")
    options = parser.parse_args()
    made = tools(not options.no_peers)
    with serving() as port:
        found = costs(made, options, port)
        one: dict[str, Any] = {}
        for what in ("wrapper", "lag", "memory", "work"):
            one |= inside(what, port)
        one |= start.measured()
    targets = [*of_streams(found), *of_one(one)]
    say("")
    for target in targets:
        met = "met   " if target.met else "MISSED"
        say(f"{met} {target.what:50} {target.found:9.3f} (at most {target.most:.3f}) {target.unit}")
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps(line(found, one, made, options.seed)) + "\n")
    return 0 if all(target.met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())
