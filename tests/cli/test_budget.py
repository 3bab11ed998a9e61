"""`latscope budget`: targets, planned calls, and a profile that cannot tell."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution.profile import Profile
from latscope.cli.main import run
from latscope.documents import profiles
from latscope.units import MS
from tests.attribution.test_budget import PROFILE

Capture = pytest.CaptureFixture[str]


def kept(tmp_path: Path, **changed: Any) -> str:
    """A profile that holds for another thousand years."""
    made: Profile = replace(PROFILE, expires_at="3026-12-06T12:00:00Z")
    file = tmp_path / "tiny.json"
    profiles.write(file, replace(made, **changed))
    return str(file)


def told(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert run(["budget", "--json", *arguments]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_the_largest_prompt_and_outputs_are_told(tmp_path: Path, capsys: Capture) -> None:
    file = kept(tmp_path)
    assert run(["budget", file, "--ttft", "150", "--e2e", "2000"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "p50  TTFT ≤ 150 ms, E2E ≤ 2000 ms: a prompt of up to" in out
    assert "p95  TTFT" in out
    assert out.count(" in   up to ") == 10
    assert "knows the unloaded floor only" in out


def test_json_holds_every_limit(tmp_path: Path, capsys: Capture) -> None:
    found = told(capsys, kept(tmp_path), "--ttft", "150", "--e2e", "2000")
    assert found["schema"] == "latscope.budget/1"
    assert (found["ttft_ns"], found["e2e_ns"]) == (150 * MS, 2000 * MS)
    p50, p95 = found["limits"]
    assert p50["prompt"]["tokens"] > p95["prompt"]["tokens"] > 0
    assert [row["prompt"] for row in p50["outputs"]] == sorted(
        row["prompt"] for row in p50["outputs"]
    )
    assert p50["outputs"][-1]["prompt"] == p50["prompt"]["tokens"]
    assert found["planned"] is None
    assert found["load"] == "unloaded floor only"


def test_a_planned_call_is_split_and_judged(tmp_path: Path, capsys: Capture) -> None:
    file = kept(tmp_path)
    plan = ("--prompt", "1000", "--cached", "400", "--output", "50", "--ttft", "92", "--e2e", "300")
    found = told(capsys, file, *plan)
    p50, p95 = found["planned"]
    assert sum(part["ns"] for part in p50["parts"]) == p50["e2e_ns"]
    assert (p50["keeps_ttft"], p95["keeps_ttft"]) == (True, False)
    assert p50["keeps_e2e"] is False
    assert [row["prompt"] for row in found["limits"][0]["outputs"]] == [1000]
    assert run(["budget", file, *plan]) == 0
    out = capsys.readouterr().out
    assert "1 000 in (400 cached), 50 out: TTFT 89.6 ms ✓" in out
    assert "✗" in out
    assert "queue | prefill" in out


def test_a_target_alone_or_a_call_alone(tmp_path: Path, capsys: Capture) -> None:
    file = kept(tmp_path)
    only_first = told(capsys, file, "--ttft", "100")
    assert only_first["limits"][0]["outputs"] == []
    only_call = told(capsys, file, "--prompt", "100")
    assert only_call["limits"] == []
    assert only_call["planned"][0]["keeps_ttft"] is None
    assert run(["budget", file, "--ttft", "100", "--output", "5"]) == 0
    assert "and 5 out" in capsys.readouterr().out


def test_targets_nothing_or_everything_keeps(tmp_path: Path, capsys: Capture) -> None:
    file = kept(tmp_path)
    assert run(["budget", file, "--ttft", "1", "--e2e", "1"]) == 0
    assert "not even one token keeps it" in capsys.readouterr().out
    assert PROFILE.floor is not None
    free = replace(
        PROFILE.floor, terms=replace(PROFILE.floor.terms, linear_ns=0.0, quadratic_ns=0.0)
    )
    step = replace(PROFILE.step, per_context_ns=0.0) if PROFILE.step else None
    flat = kept(tmp_path, floor=free, step=step)
    assert run(["budget", flat, "--ttft", "100", "--e2e", "1e9"]) == 0
    assert "any length" in capsys.readouterr().out


def test_far_prompts_are_beyond_what_was_measured(tmp_path: Path, capsys: Capture) -> None:
    assert run(["budget", kept(tmp_path), "--ttft", "900"]) == 0
    assert "(beyond what was measured)" in capsys.readouterr().out


def test_what_load_adds_is_included_where_it_is_known(tmp_path: Path, capsys: Capture) -> None:
    found = told(capsys, kept(tmp_path, excess_ns=(5 * MS, 80 * MS)), "--ttft", "150")
    assert found["load"] == "included"
    assert not any("unloaded" in note for note in found["notes"])


def test_a_profile_without_floor_or_step_cannot_tell(tmp_path: Path, capsys: Capture) -> None:
    file = kept(tmp_path, floor=None, refused="trend: it drifted")
    assert run(["budget", file, "--ttft", "100"]) == 4
    assert "trend: it drifted" in capsys.readouterr().err
    stepless = kept(tmp_path, step=None)
    assert run(["budget", stepless, "--e2e", "100"]) == 4
    assert "no decode step" in capsys.readouterr().err
    found = told(capsys, stepless, "--ttft", "100", "--prompt", "50")
    assert found["planned"][0]["e2e_ns"] is None


def test_an_expired_profile_is_said(tmp_path: Path, capsys: Capture) -> None:
    file = kept(tmp_path, expires_at="2020-01-01T00:00:00Z")
    assert run(["budget", file, "--ttft", "100"]) == 0
    assert "expired at 2020-01-01T00:00:00Z" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a target"),
        (["--ttft", "0"], "--ttft needs"),
        (["--e2e", "nan"], "--e2e needs"),
        (["--prompt", "5", "--cached", "6"], "--cached is more than --prompt"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: Capture
) -> None:
    assert run(["budget", kept(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_no_profile(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text('{"schema": "latscope.recording/1"}\n')
    assert run(["budget", str(file), "--ttft", "100"]) == 3
    assert "schema is not 'latscope.profile/1'" in capsys.readouterr().err
