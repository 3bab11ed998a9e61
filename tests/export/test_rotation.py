"""A file of recordings put aside when full or old, by whichever of its writers comes first."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from latscope.documents.recordings import read
from latscope.errors import UsageError
from latscope.export.jsonl import JSONLSink
from latscope.export.rotation import Rotation
from latscope.recording import Attempt, Read, Recording, to_line
from latscope.timeline import build
from tests.test_fixtures import FOLDER

from .test_jsonl import ROOT, TARGET, ids, recording

LINE = len(to_line(recording("a"))) + 1


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0  # 2027-01-15T08:00:00Z

    def __call__(self) -> float:
        return self.now


def aside(path: Path) -> list[Path]:
    return sorted(each for each in path.parent.iterdir() if each != path)


def test_a_full_file_is_put_aside_before_the_next_line(tmp_path: Path) -> None:
    """No line is cut or lost, and the new file is its owner's alone as well."""
    path = tmp_path / "calls.jsonl"
    with JSONLSink(path, max_bytes=2 * LINE, clock=Clock()) as sink:
        for name in "abcde":
            sink.write(recording(name))
    assert [each.name for each in aside(path)] == [
        "calls.20270115T080000-000001.jsonl",
        "calls.20270115T080000-000002.jsonl",
    ]
    assert [ids(each) for each in (*aside(path), path)] == [["a", "b"], ["c", "d"], ["e"]]
    assert [each.stat().st_mode & 0o777 for each in (*aside(path), path)] == [0o600] * 3
    assert (sink.written, sink.lost) == (5, 0)


def test_an_old_file_is_put_aside(tmp_path: Path) -> None:
    """Its age counts from its first line; of one that was there before, from its last at least."""
    path, clock = tmp_path / "calls.jsonl", Clock()
    with JSONLSink(path, max_age=60, clock=clock) as sink:
        for name, passed in (("a", 0), ("b", 59), ("c", 1), ("d", 59)):
            clock.now += passed
            sink.write(recording(name))
    assert [ids(each) for each in (*aside(path), path)] == [["a", "b"], ["c", "d"]]
    os.utime(path, (clock.now - 61, clock.now - 61))
    with JSONLSink(path, max_age=60, clock=clock) as sink:
        sink.write(recording("e"))
        sink.write(recording("f"))
    assert ids(path) == ["f"]


def test_only_so_many_are_kept(tmp_path: Path) -> None:
    """The oldest go; what only looks like one stays."""
    path = tmp_path / "calls.jsonl"
    other = tmp_path / "calls.mine.jsonl"
    other.write_text("{}")
    with JSONLSink(path, max_bytes=1, keep=2, clock=Clock()) as sink:
        for name in "abcdef":
            sink.write(recording(name))
    kept = [each for each in aside(path) if each != other]
    assert [ids(each) for each in kept] == [["d"], ["e"]]
    assert other.exists()


def test_another_writer_goes_over_to_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    one = JSONLSink(path, max_bytes=2 * LINE, clock=Clock())
    other = JSONLSink(path, max_bytes=2 * LINE, clock=Clock())
    for sink, name in ((one, "a"), (other, "b"), (one, "c"), (other, "d"), (other, "e")):
        sink.write(recording(name))
    assert [ids(each) for each in (*aside(path), path)] == [["a", "b"], ["c", "d"], ["e"]]


MANY = """
import sys
from tests.export.test_jsonl import JSONLSink, recording
sink = JSONLSink(sys.argv[1], max_bytes=100_000)
for number in range(200):
    sink.write(recording(f"{sys.argv[2]}{number}", body=b"x" * 2_000))
assert sink.lost == 0
"""


def test_no_line_of_two_processes_is_lost_over_many_rotations(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    command = [sys.executable, "-c", MANY, str(path)]
    writers = [subprocess.Popen([*command, name], cwd=ROOT) for name in "ab"]
    assert [each.wait(60) for each in writers] == [0, 0]
    found = [name for each in (*aside(path), path) for name in ids(each)]
    assert sorted(found) == sorted(f"{name}{n}" for name in "ab" for n in range(200))
    assert len(aside(path)) >= 5


def test_a_folder_that_takes_no_renaming_costs_recordings_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "calls.jsonl"
    sink = JSONLSink(path, max_bytes=1, clock=Clock())
    sink.write(recording("a"))
    monkeypatch.setattr(Path, "rename", refuse)
    sink.write(recording("b"))
    sink.write(recording("c"))
    assert (sink.written, sink.lost, len(caplog.records)) == (1, 2, 1)
    monkeypatch.undo()
    sink.write(recording("d"))
    assert (ids(path), sink.lost) == (["d"], 2)


def test_what_is_no_file_is_not_put_aside() -> None:
    reading, writing = os.pipe()
    assert not Rotation(Path("/nowhere"), 1, 1, None, Clock()).over(writing)
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    "wrong", [{"detail": "all"}, {"max_bytes": 0}, {"max_age": -1.0}, {"keep": -1}]
)
def test_arguments_that_make_no_sense(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        JSONLSink(tmp_path / "calls.jsonl", **wrong)  # type: ignore[arg-type]


def test_timing_keeps_what_happened_and_no_body(tmp_path: Path) -> None:
    """Read again it tells the same first token, status and usage, in fewer bytes."""
    (whole,) = read(FOLDER / "vllm-chat-stream.jsonl")
    path, full = tmp_path / "calls.jsonl", tmp_path / "full.jsonl"
    for sink in (JSONLSink(path, detail="timing"), JSONLSink(full)):
        with sink:
            sink.write(whole)
    (kept,) = read(path)
    attempt = json.loads(path.read_text())["attempts"][-1]
    assert "body" not in attempt
    assert attempt["events"]
    told, expected = build(kept), build(whole)
    assert (told.first_token, told.usage, told.verdict) == (
        expected.first_token,
        expected.usage,
        expected.verdict,
    )
    assert path.stat().st_size < full.stat().st_size / 2


def test_timing_of_a_call_without_a_body() -> None:
    made = Recording(
        call_id="c",
        started_at="t",
        target=TARGET,
        attempts=(Attempt(reads=(Read(0, 1, 2, 2),)),),
    )
    sink = JSONLSink("/dev/null", detail="timing")
    sink.write(made)
    assert sink.written == 1
