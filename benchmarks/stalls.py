"""How many stalls of a stream are found, and how often their cause is right, over a real path.

`stalls.py [--half b] [--faults 324] [--lanes 4]`. A scripted server, a hop, a path of TUN devices
and a captured client, each of which can be told to misbehave (tests/lab/stalls): six kinds of
faults of 0.2 to 0.6 s, dealt out evenly over streams of one token, several tokens or several events
a step, 15 to 260 ms apart. The truth is every stall of 30 ms or more that the stamps of server,
hop, path and client show, asked for or not; a shorter one that is found is not held against the
finder. Each recording is judged with the round-trip probe that ran beside it, and without.

A cause is right when it names whose share of the delay was largest, or another's with 40 % of it.
Without the probe a path delay and a hold are one trace (`hold_or_delay`) and are not scored for
their cause. Half A's seed is for setting thresholds; half B's follows from the finder's files, so
that it changes with them.

Prints tables and every stall missed or misnamed, appends one JSON line to results/stalls.jsonl, and
exits 1 when a target is missed. Linux, root.
"""

import argparse
import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.setting import commit, machine
from latscope.attribution.schedule import schedule
from latscope.attribution.stalls import CAUSES, Found, find
from latscope.timeline import build
from latscope.units import MS, Ns, S
from tests.lab import kernel
from tests.lab.stalls.plans import KINDS, links, plans
from tests.lab.stalls.play import Played, play
from tests.lab.stalls.truth import Stall, met

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "stalls.jsonl"
FINDER = ("stalls", "schedule", "quanta")
FAULTS, LANES = 324, 4
RECALL, PRECISION, NAMED, ALARMS = 0.95, 0.95, 0.95, 1.0
SEPARABLE = {"with": KINDS, "without": ("server_pause", "packet_loss", "client_block")}
NAMES = {
    "server_pause": "server_pause",
    "server_flush": "hold",
    "proxy_hold": "hold",
    "packet_loss": "loss",
    "path_delay": "delay",
    "client_block": "client",
}
"""The right word for each kind of fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One true stall and what was found of it; found: null when nothing was. first: no larger stall
    shares the silence, whose one cause would be that one's."""

    played: Played
    stall: Stall
    found: Found | None
    first: bool

    @property
    def right(self) -> bool:
        """Whether the cause is one the stamps show."""
        kinds = (self.stall.kind, *self.stall.also)
        return self.found is not None and self.found.cause in [NAMES[kind] for kind in kinds]

    @property
    def half_right(self) -> bool:
        """Whether the one word for both is right: it was a hold, or a delay."""
        either = {"server_flush", "proxy_hold", "path_delay"}
        named = self.found is not None and self.found.cause == "hold_or_delay"
        return named and bool(either & {self.stall.kind, *self.stall.also})


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A half, judged one way. alarms: found where the stamps show no stall of any length."""

    stalls: list[Scored]
    small: int
    found: int
    alarms: list[tuple[Played, Found]]
    tokens: int


def seed_of(half: str) -> str:
    """Half A's is fixed."""
    if half == "a":
        return "half a"
    digest = hashlib.blake2b(digest_size=8)
    for name in FINDER:
        digest.update((ROOT / "latscope" / "attribution" / f"{name}.py").read_bytes())
    return f"half b {digest.hexdigest()}"


def played(half: str, seed: str, faults: int, lanes: int) -> list[Played]:
    """Every call of the half."""
    asked = [
        (link, plans(f"{seed} {index}", faults // lanes, link))
        for index, link in enumerate(links(half, seed, lanes))
    ]
    lengths = [sum(plan.offsets[-1] for plan in lane) / S for _, lane in asked]
    count = sum(len(lane) for _, lane in asked)
    minutes = (max(lengths) + 30) / 60
    print(f"{count} calls over {lanes} paths, about {minutes:.0f} minutes", file=sys.stderr)
    return play(asked)


def score(calls: Sequence[Played], *, probe: bool) -> Score:
    """Find the stalls of each call and lay them beside the true ones."""
    stalls: list[Scored] = []
    alarms: list[tuple[Played, Found]] = []
    small, count, tokens = 0, 0, 0
    for call in calls:
        recording = call.recording if probe else replace(call.recording, rtt_probe=())
        timeline = build(recording)
        found = find(timeline, schedule(timeline.arrivals))
        tokens += len(timeline.arrivals)
        count += len(found)
        stalls += _scored(call, found)
        for one in found:
            near = [stall for stall in call.stalls if _near(stall, one)]
            if not near:
                alarms.append((call, one))
            elif not any(stall.counts for stall in near):
                small += 1
    return Score(stalls=stalls, small=small, found=count, alarms=alarms, tokens=tokens)


def _near(stall: Stall, one: Found) -> bool:
    return stall.at_ns - one.ns <= one.end_ns and one.at_ns <= stall.until_ns


def _scored(call: Played, found: Sequence[Found]) -> Iterator[Scored]:
    taken: set[Ns] = set()
    for stall in sorted(call.stalls, key=lambda one: -one.ns):
        if stall.counts:
            fits = [f for f in found if met(stall, f.at_ns, f.end_ns, call.plan.step_ns)]
            best = max(fits, key=lambda f: _shared(stall, f), default=None)
            first = best is None or best.at_ns not in taken
            if best is not None:
                taken.add(best.at_ns)
            yield Scored(played=call, stall=stall, found=best, first=first)


def _shared(stall: Stall, one: Found) -> Ns:
    return min(stall.end_ns, one.end_ns) - max(stall.at_ns, one.at_ns)


def row(score: Score, kinds: Iterable[str]) -> dict[str, Any]:
    """The figures of one way of judging. recall over all stalls, and over those asked for; cause
    over the kinds that can be told apart this way, of those found."""
    asked = [one for one in score.stalls if one.stall.by_plan]
    told = [s for s in score.stalls if s.found and s.first and s.stall.kind in kinds]
    told_asked = [one for one in told if one.stall.by_plan]
    return {
        "stalls": len(score.stalls),
        "asked_for": len(asked),
        "recall": _share([s.found is not None for s in score.stalls]),
        "recall_asked_for": _share([s.found is not None for s in asked]),
        "precision": round(1 - len(score.alarms) / max(1, score.found), 4),
        "cause": _share([one.right for one in told]),
        "cause_asked_for": _share([one.right for one in told_asked]),
        "alarms_per_1000_tokens": round(1000 * len(score.alarms) / score.tokens, 3),
        "by_kind": {kind: _by_kind(score, kind, kind in kinds) for kind in KINDS},
        "by_word": {word: _by_word(score, word) for word in CAUSES},
        "found": score.found,
        "shorter_found": score.small,
        "tokens": score.tokens,
    }


def _by_word(score: Score, word: str) -> dict[str, Any]:
    """How often a cause that was named is right: what its stated confidence should be."""
    named = [one for one in score.stalls if one.first and one.found and one.found.cause == word]
    stated = [one.found.confidence for one in named if one.found]
    return {
        "n": len(named),
        "right": _share([one.right or one.half_right for one in named]),
        "stated": round(sum(stated) / len(stated), 3) if stated else None,
    }


def _by_kind(score: Score, kind: str, told: bool) -> dict[str, Any]:
    of_kind = [one for one in score.stalls if one.stall.kind == kind]
    named = Counter(one.found.cause if one.found else "missed" for one in of_kind if one.first)
    return {
        "n": len(of_kind),
        "asked_for": sum(one.stall.by_plan for one in of_kind),
        "recall": _share([one.found is not None for one in of_kind]),
        "cause": _share([one.right for one in of_kind if told and one.found and one.first]),
        "named": dict(sorted(named.items())),
    }


def _share(held: Sequence[bool]) -> float | None:
    return round(sum(held) / len(held), 4) if held else None


def show(rows: dict[str, dict[str, Any]]) -> None:
    """The tables."""
    for way, found in rows.items():
        print(f"\n{way} the probe: {found['stalls']} stalls, {found['asked_for']} asked for")
        print(f"{'kind':14}{'n':>5}{'asked':>7}{'recall':>8}{'cause':>8}   named")
        for kind, of in found["by_kind"].items():
            named = ", ".join(f"{cause} {n}" for cause, n in of["named"].items())
            shares = "".join(f"{'-' if of[k] is None else of[k]:>8}" for k in ("recall", "cause"))
            print(f"{kind:14}{of['n']:5}{of['asked_for']:7}{shares}   {named}")
        for word, of in found["by_word"].items():
            print(f"  said {word:14} {of['n']:4}, right {of['right']}, stated {of['stated']}")
        print(
            f"recall {found['recall']} (asked for {found['recall_asked_for']}), precision "
            f"{found['precision']}, cause {found['cause']} (asked for {found['cause_asked_for']}), "
            f"{found['alarms_per_1000_tokens']} false alarms per 1,000 of {found['tokens']} tokens"
        )


def faulty(scores: dict[str, Score]) -> Iterator[dict[str, Any]]:
    """Every stall missed or misnamed, and every false alarm."""
    for way, of in scores.items():
        for one in of.stalls:
            wrong = one.first and not one.right and one.stall.kind in SEPARABLE[way]
            if one.found is None or wrong:
                yield {
                    **_where(way, one.played),
                    "kind": one.stall.kind,
                    "asked_for": one.stall.by_plan,
                    "at_ms": one.stall.at_ns // MS,
                    "ms": one.stall.ns // MS,
                    "named": one.found.cause if one.found else None,
                    "shift": one.found.shift if one.found else None,
                }
        for call, found in of.alarms:
            yield {**_where(way, call), "alarm": found.cause, "ms": found.ns // MS}


def _where(way: str, call: Played) -> dict[str, Any]:
    return {
        "probe": way,
        "call": call.plan.id,
        "style": call.plan.style,
        "step_ms": call.plan.step_ns // MS,
        "delay_ms": call.link.delay_ns // MS,
    }


def good(rows: dict[str, dict[str, Any]]) -> bool:
    """Whether every target is met, with the probe and without."""
    return all(
        found["recall"] >= RECALL
        and found["precision"] >= PRECISION
        and found["cause"] >= NAMED
        and found["alarms_per_1000_tokens"] <= ALARMS
        for found in rows.values()
    )


def publish(line: dict[str, Any]) -> None:
    """Append the run to the results."""
    head = {
        "schema": "latscope.benchmark/1",
        "name": "stalls",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps({**head, **line}) + "\n")


def arguments() -> argparse.Namespace:
    """Read the command line; exits where there can be no path."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=("a", "b"), default="b")
    parser.add_argument("--faults", type=int, default=FAULTS)
    parser.add_argument("--lanes", type=int, default=LANES)
    reason = kernel.why_not()
    if reason:
        parser.exit(2, f"no path here: {reason}\n")
    return parser.parse_args()


def main() -> int:
    """Play, judge, publish."""
    args = arguments()
    started = time.monotonic()
    seed = seed_of(args.half)  # of the files as they were read
    every = played(args.half, seed, args.faults, args.lanes)
    calls = [call for call in every if call.stamps.whole]
    scores = {"with": score(calls, probe=True), "without": score(calls, probe=False)}
    rows = {way: row(of, SEPARABLE[way]) for way, of in scores.items()}
    wrong = list(faulty(scores))
    publish(
        {
            "seconds": round(time.monotonic() - started),
            "half": args.half,
            "seed": seed,
            "calls": len(calls),
            "left_out": len(every) - len(calls),
            "faults_asked_for": sum(len(call.plan.faults) for call in calls),
            "load": round(os.getloadavg()[0], 1),
            "probe": rows,
            "faulty": wrong,
        }
    )
    show(rows)
    print(f"{len(every) - len(calls)} calls whose stamps were not whole left out")
    for one in wrong:
        print(json.dumps(one))
    return 0 if good(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
