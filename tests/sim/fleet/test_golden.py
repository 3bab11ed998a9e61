"""The simulator's scheduler decides, step by step, what vLLM's own classes decided."""

import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.sim.fleet.golden import turns

FOLDER = Path(__file__).parents[3] / "fixtures" / "scheduler"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


def case(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_step_is_vllms(name: str) -> None:
    """Batch and order, tokens to each call, admissions and what they find in memory, preemptions,
    outcomes, free blocks: all of every turn."""
    recorded = case(name)
    assert recorded["vllm"].startswith("0.32")
    for number, (mine, theirs) in enumerate(zip_longest(turns(recorded), recorded["turns"])):
        assert mine == theirs, f"{name}: turn {number}"


def test_the_recorded_cases_hold_what_they_are_for() -> None:
    """Both depths and policies, preemption and re-admission, cache hits, cut prompts, calls that
    wait for a place, a call computed once too often."""
    cases = [case(name) for name in NAMES]
    assert {c["limits"]["depth"] for c in cases} == {1, 2}
    assert {c["limits"]["policy"] for c in cases} == {"fcfs", "priority"}
    for depth in (1, 2):
        rows = [row for c in cases if c["limits"]["depth"] == depth for row in c["turns"]]
        assert any(row["preempted"] for row in rows)
        assert any(found for row in rows for _, found in row["admitted"])
    seats = case("async-seats")
    last = seats["turns"][2]
    assert last["ended"] == [1]
    assert [1, 1] in last["rows"], "planned before its stop token was known"
    assert seats["turns"][3]["admitted"] == [[2, 0]], "its place is filled one step later"
