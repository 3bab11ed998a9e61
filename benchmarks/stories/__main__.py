"""The runbooks over stories: `python -m benchmarks.stories [--half b] [--seeds 100] [--jobs 2]`.

Each seed is a set of weeks (world.py): a healthy one as the reference, another healthy one, and one
for each cause. A cause's week is judged against the reference; the other healthy week is the one
after the fix, judged with the cause's week as `--before`; then a third of the cause's calls, learnt
from and attributed anew. Half A's seeds are `a-1`, `a-2` ...; half B's follow from the pages, the
rules with their metrics, and the stories themselves, so that they are new whenever one of these is.

`--keep FILE` writes each seed's rows down as they come, and takes those of the same half, pages,
rules and stories that stand there already: a run can be broken off, or dealt over several.

Prints a table, appends one line to results/stories.jsonl, and exits 1 when a target is missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.setting import ROOT, commit, machine
from benchmarks.stories import judge, report
from benchmarks.stories.client import week
from benchmarks.stories.rightly import RIGHTLY, is_right, is_wrong
from benchmarks.stories.world import STORIES, Setting, World, healthy
from latscope.rules.finding import Finding
from latscope.rules.table import Gathered

RESULTS = ROOT / "benchmarks" / "results" / "stories.jsonl"
FROZEN = ("runbooks/*.md", "latscope/rules/**/*.py", "benchmarks/stories/*.py")


def main() -> int:
    asked = _asked()
    frozen = frozen_hash()
    names = _seeds(asked.half, frozen, asked.first, asked.seeds)
    stories = [name for name in STORIES if not asked.story or name in asked.story]
    judge.pages()
    judge.names()
    begun = time.monotonic()
    rows = [row for file in asked.keep for row in _kept(Path(file), {seed for _, seed in names})]
    ready = {row["number"] for row in rows}
    work = [(number, seed, stories) for number, seed in names if number not in ready]
    with get_context("fork").Pool(asked.jobs) as pool:
        for done, more in enumerate(pool.imap_unordered(_seed, work), 1):
            rows += more
            if asked.keep:
                _keep(Path(asked.keep[0]), more)
            took = time.monotonic() - begun
            print(
                f"\r{done} of {len(work)} seeds, {took:.0f} s", end="", file=sys.stderr, flush=True
            )
    print(file=sys.stderr)
    rows.sort(key=lambda row: (stories.index(row["story"]), row["number"]))
    found = report.summary(rows)
    print("\n".join(report.table(found)))
    _told(rows)
    line = {
        "benchmark": "stories",
        "half": asked.half,
        "seed": frozen[:16] if asked.half == "b" else "a",
        "frozen": frozen,
        "stories": found,
        "missed": [_short(row) for row in rows if _missed(row)],
        "seconds": round(time.monotonic() - begun),
        "commit": commit(),
        "machine": machine(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if not asked.dry:
        with RESULTS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    return 0 if report.met(found) else 1


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stories")
    parser.add_argument("--half", choices=("a", "b"), default="b")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1, help="number of half A's first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--story", action="append", choices=[*STORIES], help="only this one")
    parser.add_argument("--keep", action="append", default=[], metavar="FILE")
    parser.add_argument("--dry", action="store_true", help="append no line")
    return parser.parse_args()


def _kept(file: Path, seeds: set[str]) -> list[report.Row]:
    """Rows of these seeds from an earlier run; a seed's name holds the hash of what was frozen."""
    if not file.exists():
        return []
    rows: list[report.Row] = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [row for row in rows if row["seed"] in seeds]


def _keep(file: Path, rows: Sequence[report.Row]) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.writelines(f"{json.dumps(row)}\n" for row in rows)


def frozen_hash() -> str:
    """BLAKE2b of all that decides a verdict, and of the stories, by name."""
    digest = blake2b(digest_size=16)
    for path in sorted(path for pattern in FROZEN for path in Path(ROOT).glob(pattern)):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def _seeds(half: str, frozen: str, first: int, most: int) -> list[tuple[int, str]]:
    name = f"b-{frozen}" if half == "b" else "a"
    return [(number, f"{name}-{number}") for number in islice(count(first), most)]


# -- one seed --------------------------------------------------------------------------------------


class _Healthy:
    """A setting's reference and its other healthy week, made when first asked for."""

    def __init__(self, setting: Setting, seed: str) -> None:
        self.world: World = healthy(setting, seed)
        self.reference = _gathered(judge.looked_at(week(self.world, "reference")))
        self.calls = judge.looked_at(week(self.world, "healthy"))
        self.after = _gathered(self.calls)


def _gathered(calls: Sequence[judge.Seen]) -> Gathered:
    return judge.gathered(judge.attributed(calls))


def _seed(work: tuple[int, str, list[str]]) -> list[report.Row]:
    number, seed, stories = work
    ready: dict[Setting, _Healthy] = {}
    found = []
    for name in stories:
        story = STORIES[name]
        setting = story.settings[number % len(story.settings)]
        if setting not in ready:
            ready[setting] = _Healthy(setting, seed)
        row = _story(name, ready[setting], seed)
        found.append({"story": name, "number": number, "seed": seed, "setting": setting, **row})
    return found


def _story(name: str, base: _Healthy, seed: str) -> report.Row:
    ill = name != "healthy week"
    if ill:
        changed = STORIES[name].change(base.world, Random(f"{seed}:{name}"))
        calls = judge.looked_at(week(changed, name))
        told = _gathered(calls)
    else:
        calls, told = base.calls, base.after
    whole = judge.findings(told, baseline=base.reference)
    few = _gathered(judge.a_third(calls, f"{seed}:{name}"))
    third = judge.findings(few, baseline=base.reference)
    fixed = judge.findings(base.after, baseline=base.reference, before=told) if ill else ()
    first = next((one for one in whole if is_right(one, name)), None)
    return {
        "right": _verdict(whole, name),
        "segment": None if first is None else first.segment,
        "causes": [] if first is None else [cause.id for cause in first.causes if cause.named],
        "wrong": _wrong(whole, name),
        "third": _verdict(third, name),
        "third_wrong": _wrong(third, name),
        "fixed": _after(fixed, name),
        "fixed_wrong": _wrong(fixed, None),
        "why": [one.reason for one in whole if one.runbook in RIGHTLY[name].right and one.reason],
    }


def _verdict(found: Sequence[Finding], story: str) -> str:
    """The right runbook's: open if it is with a true segment, else the least wrong it says. Of a
    healthy week: open when nothing wrong is."""
    if not RIGHTLY[story].right:
        return "insufficient evidence" if _wrong(found, story) else "open"
    if any(is_right(one, story) for one in found):
        return "open"
    mine = [one for one in found if one.runbook in RIGHTLY[story].right]
    if any(one.verdict == "open" for one in mine):
        return "another segment"
    unsure = any(one.verdict == "insufficient evidence" for one in mine)
    return "insufficient evidence" if unsure else "not seen"


def _after(found: Sequence[Finding], story: str) -> str:
    mine = [one.verdict for one in found if one.runbook in RIGHTLY[story].right]
    for verdict in ("open", "insufficient evidence", "resolved"):
        if verdict in mine:
            return verdict
    return "not seen"


def _wrong(found: Sequence[Finding], story: str | None) -> list[str]:
    return [f"{one.runbook} ({one.segment})" for one in found if is_wrong(one, story)]


# -- telling ---------------------------------------------------------------------------------------


def _missed(row: report.Row) -> bool:
    return (
        row["right"] != "open"
        or bool(row["wrong"] or row["third_wrong"] or row["fixed_wrong"])
        or (row["fixed"] not in ("resolved", "not seen"))
    )


def _short(row: report.Row) -> dict[str, Any]:
    keys = ("story", "number", "setting", "right", "wrong", "third_wrong", "fixed", "fixed_wrong")
    return {key: row[key] for key in keys}


def _told(rows: Sequence[report.Row]) -> None:
    for row in rows:
        if _missed(row):
            print(" ".join(_words(row)))


def _words(row: report.Row) -> Iterator[str]:
    yield f"{row['story']} #{row['number']} {row['setting']}: {row['right']}"
    yield f"{'; '.join(row['why'])[:160]}" if row["right"] != "open" else ""
    for key in ("wrong", "third_wrong", "fixed_wrong"):
        if row[key]:
            yield f"{key}: {', '.join(row[key])}"
    if row["fixed"] not in ("resolved", "not seen"):
        yield f"after: {row['fixed']}"


if __name__ == "__main__":
    sys.exit(main())
