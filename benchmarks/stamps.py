"""How often the hard bounds hold on real vLLM, whose front end and scheduler are stamped.

`stamps.py [--calls 120] [--seed 11] [--save FOLDER]`. vLLM with two seats is asked over four APIs,
streamed and not, with prompts of 20 to 2,000 tokens, one, two and six at a time: a third of the
calls each. The truth is made of stamps the attribution never sees (tests/engines/stamps/truth.py);
each recording is judged with the server's own figures, and again without them.

Prints a table and every call outside its bounds with what delayed it, appends one JSON line to
results/stamps.jsonl, and exits 1 when of all judgements fewer than 99 % lie inside, or more than
1 % of the calls contradict themselves and could not be judged. The recordings of those outside are
saved, masked. Needs vLLM: python tests/engines/install.py vllm.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.setting import commit, machine
from latscope.attribution.model import OWNERS
from latscope.errors import InputError
from latscope.recording import to_line
from latscope.units import MS
from tests.engines import install
from tests.engines.stamps.calls import Made, drawn, make
from tests.engines.stamps.judge import Judged, Mode, judged
from tests.engines.stamps.serve import SEATS, stamped_vllm
from tests.engines.stamps.truth import Seen, complaints, delays, join, known

CALLS = 120
LEVELS = (1, 2, 6)
MODES: tuple[Mode, ...] = ("reported", "blind", "bare")
SEED = 11
TARGET = 0.99
INSIDE = ("n", "wall_inside", "ttft_n", "ttft_inside")
RESULTS = Path(__file__).parent / "results" / "stamps.jsonl"


def made(count: int, seed: int) -> list[tuple[Made, Seen]]:
    """Every call at every level, with what the server saw of it."""
    found: list[Made] = []
    with (
        tempfile.TemporaryDirectory(prefix="latscope-stamps-") as folder,
        stamped_vllm(Path(folder)) as server,
    ):
        asyncio.run(make(server, drawn(4, 1, 0), 1))  # warms the engine up
        for level in LEVELS:
            calls = drawn(count // len(LEVELS), level, seed + level)
            found += asyncio.run(make(server, calls, level))
        return join(Path(folder), found)


def judge(pairs: Sequence[tuple[Made, Seen]]) -> tuple[list[tuple[Judged, Seen]], list[str]]:
    """The verdicts; and the calls whose accounts contradict each other, which get none."""
    verdicts: list[tuple[Judged, Seen]] = []
    failed: list[str] = []
    for one, seen in pairs:
        wrong = list(complaints(one, seen))
        if wrong:
            failed.append(f"{named(one)}: {'; '.join(wrong)}")
            continue
        try:
            verdicts += [(verdict, seen) for verdict in judged(one, known(one, seen))]
        except InputError as error:
            failed.append(f"{named(one)}: {error}")
    return verdicts, failed


def named(one: Made) -> str:
    call = one.call
    how = "streamed" if call.stream else "body"
    return f"{one.recording.call_id[:8]} {call.api} {how}, {call.concurrency} at a time"


def row(verdicts: Sequence[Judged]) -> dict[str, Any]:
    """The figures of one group of attributions."""
    streamed = [verdict for verdict in verdicts if verdict.known.ttft is not None]
    winners = [verdict.winner for verdict in verdicts]
    return {
        "n": len(verdicts),
        "wall_inside": sum(not verdict.missed("wall") for verdict in verdicts),
        "ttft_n": len(streamed),
        "ttft_inside": sum(not verdict.missed("ttft") for verdict in streamed),
        "missed": missed(verdicts),
        "width": {
            of: {name: round(median(v.widths[of, name] for v in group), 4) for name in OWNERS}
            for of, group in (("wall", verdicts), ("ttft", streamed))
            if group
        },
        "dominant": {name: winners.count(name) for name in ("right", "null", "wrong")},
    }


def missed(verdicts: Sequence[Judged]) -> dict[str, int]:
    """How many calls lie outside, by whole and segment."""
    found: dict[str, int] = {}
    for verdict in verdicts:
        for miss in verdict.misses:
            name = f"{miss.of}.{miss.segment}"
            found[name] = found.get(name, 0) + 1
    return found


def outside(verdicts: Sequence[tuple[Judged, Seen]]) -> Iterator[dict[str, Any]]:
    """Each miss, with what the call's way took: the cause is among these."""
    for verdict, seen in verdicts:
        for miss in verdict.misses:
            yield {
                "call": named(verdict.made),
                "mode": verdict.mode,
                "share": f"{miss.of}.{miss.segment}",
                "true_ms": [round(ns / MS, 3) for ns in miss.true],
                "bounds_ms": [round(ns / MS, 3) for ns in miss.bounds],
                "outside_by_ms": round(miss.by_ns / MS, 3),
                "delays_ms": delayed(verdict.made, seen),
            }


def delayed(one: Made, seen: Seen) -> dict[str, float]:
    return {name: round(ns / MS, 3) for name, ns in delays(one, seen).items()}


def spread(pairs: Sequence[tuple[Made, Seen]]) -> dict[str, dict[str, float]]:
    """Median and greatest of each delay, in ms."""
    rows = [delayed(one, seen) for one, seen in pairs]
    names = dict.fromkeys(name for found in rows for name in found)
    values = {name: sorted(found[name] for found in rows if name in found) for name in names}
    return {name: {"p50": median(ms), "max": ms[-1]} for name, ms in values.items()}


def save(verdicts: Sequence[tuple[Judged, Seen]], folder: Path | None) -> None:
    """The recordings of the calls outside, one line each."""
    lines = dict.fromkeys(to_line(v.made.recording) for v, _ in verdicts if v.misses)
    if lines:
        folder = folder or Path(tempfile.mkdtemp(prefix="latscope-outside-"))
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "outside.jsonl"
        file.touch(mode=0o600)
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"recordings of {len(lines)} calls outside: {file}")


def show(rows: dict[str, dict[str, Any]]) -> None:
    """The table: widths are medians of the bounds' share of the wall."""
    names = "".join(f"{name:>9}" for name in OWNERS)
    heads = f"{'evidence':22}{'wall inside':>14}{'ttft inside':>14}"
    print(f"\n{heads}   width of{names}   right null wrong")
    for title, found in rows.items():
        widths = "".join(f"{found['width']['wall'][name]:9.1%}" for name in OWNERS)
        won = found["dominant"]
        wall = f"{found['wall_inside']}/{found['n']}"
        ttft = f"{found['ttft_inside']}/{found['ttft_n']}"
        print(
            f"{title:22}{wall:>14}{ttft:>14}           {widths}"
            f"   {won['right']:5} {won['null']:4} {won['wrong']:5}"
        )


def figures(
    verdicts: Sequence[tuple[Judged, Seen]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row for each kind of evidence, and one for each kind at each level."""
    groups = {mode: [v for v, _ in verdicts if v.mode == mode] for mode in MODES}
    rows = {str(mode): row(group) for mode, group in groups.items() if group}
    levels = {
        f"{mode}, {level} at a time": row(group)
        for mode in MODES
        for level in LEVELS
        if (group := [v for v in groups[mode] if v.made.call.concurrency == level])
    }
    return rows, levels


def publish(line: dict[str, Any]) -> None:
    head = {
        "schema": "latscope.benchmark/1",
        "name": "stamps",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps({**head, **line}) + "\n")


def good(calls: int, failed: int, verdicts: Sequence[tuple[Judged, Seen]]) -> bool:
    inside = sum(not verdict.misses for verdict, _ in verdicts)
    return inside >= TARGET * len(verdicts) and failed <= (1 - TARGET) * calls


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--save", type=Path)
    if not install.installed("vllm"):
        parser.exit(2, "vLLM is not installed: python tests/engines/install.py vllm\n")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    started = time.monotonic()
    pairs = made(args.calls, args.seed)
    verdicts, failed = judge(pairs)
    rows, levels = figures(verdicts)
    misses = list(outside(verdicts))
    publish(
        {
            "seconds": round(time.monotonic() - started),
            "seed": args.seed,
            "calls": len(pairs),
            "seats": SEATS,
            "levels": LEVELS,
            "contradicted": failed,
            "evidence": rows,
            "by_level": {
                name: {key: found[key] for key in INSIDE} for name, found in levels.items()
            },
            "delays_ms": spread(pairs),
            "outside": misses,
        }
    )
    show({**rows, **levels})
    for miss in misses:
        print(json.dumps(miss))
    print(f"{len(failed)} of {len(pairs)} calls contradict themselves", *failed, sep="\n  ")
    save(verdicts, args.save)
    return 0 if good(len(pairs), len(failed), verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
