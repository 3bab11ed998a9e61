"""`latscope compare` over files: what it says, what it refuses, what a pipeline gets."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from latscope.cli.main import run
from latscope.documents import recordings
from latscope.recording import Clock, to_line

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same traffic on an idle server, and on one that is close to full."""
    folder = tmp_path_factory.mktemp("compare")
    calm, busy = folder / "calm.jsonl", folder / "busy.jsonl"
    common = ["sim", "fleet", "--calls", "300", "--output", "12", "--seed", "3"]
    for path, load in ((calm, "0.2"), (busy, "0.95")):
        assert run([*common, "--load", load, "--recordings", "80", str(path)]) == 0
    return calm, busy


def rewritten(path: Path, to: Path, **changes: object) -> Path:
    def lines() -> Iterator[str]:
        for call in recordings.read(path):
            yield to_line(replace(call, **changes))  # type: ignore[arg-type]

    to.write_text("\n".join(lines()) + "\n")
    return to


def test_it_says_what_moved_and_by_how_much(files: tuple[Path, Path], capsys: Capture) -> None:
    assert run(["compare", *map(str, files)]) == 0
    out = capsys.readouterr().out
    assert "E2E got " in out
    assert " slower; what moved: " in out
    assert "80 calls before, 80 after" in out


def test_json_holds_every_measure(files: tuple[Path, Path], capsys: Capture) -> None:
    assert run(["compare", *map(str, files), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "latscope.compare/1"
    (one,) = found["comparisons"]
    assert (one["model"], one["calls_base"], one["new_model"]) == ("fleet", 80, None)
    whole = one["moves"][0]
    assert (whole["measure"], whole["verdict"]) == ("e2e", "moved")
    assert whole["shift"]["low"] <= whole["shift"]["value"] <= whole["shift"]["high"]


def test_a_pipeline_fails_only_when_asked_to(
    files: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    calm, busy = map(str, files)
    report = tmp_path / "junit.xml"
    asked = ["--fail-on", "slower", "--github", "--junit", str(report)]
    assert run(["compare", calm, busy, *asked]) == 1
    assert "::error title=latscope compare::E2E got" in capsys.readouterr().out
    assert ElementTree.parse(report).getroot().get("failures") == "1"
    assert run(["compare", busy, calm, *asked]) == 0
    assert "faster" in capsys.readouterr().out
    assert run(["compare", calm, busy, "--github", "--json"]) == 0
    both = capsys.readouterr()
    assert len(both.out.splitlines()) == 1
    assert "::error" in both.err
    assert run(["compare", calm, busy, "--junit", str(tmp_path / "no" / "x")]) == 3
    assert "--junit" in capsys.readouterr().err


def test_what_cannot_be_told_is_no_pass(
    files: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text("".join(files[0].read_text().splitlines(keepends=True)[:4]))
    given = ["compare", str(files[0]), str(few)]
    assert run(given) == 0
    assert "cannot be told yet" in capsys.readouterr().out
    assert run([*given, "--fail-on", "slower", "--github"]) == 4
    assert "::warning" in capsys.readouterr().out
    assert run([*given, "--fail-on", "slower", "--allow-insufficient"]) == 0


def test_one_file_is_split_at_a_time(
    files: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    early = rewritten(files[0], tmp_path / "early.jsonl", started_at="2026-01-01T00:00:00Z")
    late = rewritten(files[1], tmp_path / "late.jsonl", started_at="2026-01-02T00:00:00Z")
    both = tmp_path / "both.jsonl"
    both.write_text(early.read_text() + late.read_text())
    at = ["--split-at", "2026-01-01T12:00:00Z"]
    assert run(["compare", str(both), *at]) == 0
    assert "80 calls before, 80 after" in capsys.readouterr().out
    assert run(["compare", str(both), *at, "--since", "2026-01-01T18:00:00Z"]) == 3
    assert "no call matches" in capsys.readouterr().err


def test_what_cannot_be_laid_side_by_side_is_refused(
    files: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    call = next(recordings.read(files[0]))
    moved = rewritten(
        files[1], tmp_path / "moved.jsonl", target=replace(call.target, host="elsewhere")
    )
    assert run(["compare", str(files[0]), str(moved)]) == 3
    assert "nothing to compare: BASE holds fleet at " in capsys.readouterr().err
    assert run(["compare", str(files[0]), str(moved), "--across"]) == 0
    assert " → http://elsewhere" in capsys.readouterr().out
    timed = rewritten(files[1], tmp_path / "timed.jsonl", clock=Clock(name="other", zero_ns=0))
    assert run(["compare", str(files[0]), str(timed)]) == 3
    assert "not comparable: their times come from different clocks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["one.jsonl"], "compare needs two files, or one with --split-at TIME"),
        (["-", "-"], "- stands for stdin"),
        (["a", "b", "--split-at", "2h"], "--split-at splits one file"),
        (["-", "--split-at", "2h"], "--split-at reads its file twice"),
        (["a", "--split-at", "nonsense"], "--split-at: 'nonsense' is no time"),
    ],
)
def test_wrong_usage_is_one_line(given: list[str], said: str, capsys: Capture) -> None:
    assert run(["compare", *given]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_recording_is_what_it_says(files: tuple[Path, Path]) -> None:
    """The fixture's own ground: the two loads differ, the traffic does not."""
    calm, busy = ([*recordings.read(path)] for path in files)

    sizes = [sorted(call.request_bytes or 0 for call in calls) for calls in (calm, busy)]
    assert len(calm) == 80
    assert sizes[0] == sizes[1]
