"""The file sink: whole lines, for the owner's eyes, from any number of writers."""

import json
import logging
import os
import resource
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from latscope.documents.recordings import read
from latscope.export.jsonl import JSONLSink
from latscope.recording import (
    Attempt,
    Mark,
    Read,
    Recording,
    Target,
    line_pieces,
    to_line,
    to_mapping,
)

ROOT = Path(__file__).parents[2]
TARGET = Target(scheme="http", host="127.0.0.1", port=80, path="/v1/chat/completions")


def recording(call_id: str = "c1", *, body: bytes | None = b"data: x\n\n") -> Recording:
    attempt = Attempt(marks=(Mark("entry", 0),), reads=(Read(0, 5, 9, 9),), body=body)
    return Recording(
        call_id=call_id,
        started_at="2026-01-01T00:00:00Z",
        target=TARGET,
        attempts=(attempt,),
        masked=True,
    )


def ids(path: Path) -> list[str]:
    return [json.loads(line)["call_id"] for line in path.read_text().splitlines() if line]


def test_a_recording_is_one_line_of_the_format(tmp_path: Path) -> None:
    """What the sink writes is what `to_line` gives, ended by a line feed."""
    path = tmp_path / "calls.jsonl"
    with JSONLSink(path) as sink:
        sink.write(recording("a"))
        sink.write(recording("b"))
    assert path.read_text() == to_line(recording("a")) + "\n" + to_line(recording("b")) + "\n"
    assert sink.written == 2


@pytest.mark.parametrize(
    "body", [None, b"", b'text \xc3\xa9 "q" \\ \x00', b"\xff\xfe raw", b"x" * 200_000]
)
@pytest.mark.parametrize("reads", [0, 1, 64, 65, 200])
@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_the_pieces_of_a_line_add_up_to_the_mapping(
    body: bytes | None, reads: int, attempts: int
) -> None:
    """A line written in pieces says the same as the whole mapping, whatever is absent from it."""
    rows = tuple(Read(n, n + 1, n + 2, n + 3) for n in range(reads))
    attempt = Attempt(status=200, reads=rows, body=body)
    made = Recording(call_id="c", started_at="t", target=TARGET, attempts=(attempt,) * attempts)
    assert json.loads("".join(line_pieces(made))) == json.loads(json.dumps(to_mapping(made)))
    bare = Recording(call_id="c", started_at="t", target=TARGET, attempts=(Attempt(),))
    assert json.loads(to_line(bare)) == to_mapping(bare)


def test_no_piece_is_long() -> None:
    """However big a recording is, no one piece of its line is: the writer can stop between any."""
    rows = tuple(Read(n, n, n, n) for n in range(10_000))
    made = Recording(
        call_id="c",
        started_at="t",
        target=TARGET,
        attempts=(Attempt(reads=rows, body=b"x" * 1_000_000),),
    )
    assert max(map(len, line_pieces(made))) < 70_000


def test_the_file_is_its_owners_alone_from_creation(tmp_path: Path) -> None:
    """The mode is 0600 whatever the umask lets through; the mode of an existing file stays."""
    path = tmp_path / "calls.jsonl"
    before = os.umask(0)
    try:
        JSONLSink(path).write(recording())
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    JSONLSink(path).write(recording())
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_existing_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    for name in ("a", "b"):
        with JSONLSink(path) as sink:
            sink.write(recording(name))
    assert ids(path) == ["a", "b"]


def test_a_torn_last_line_is_left_alone(tmp_path: Path) -> None:
    """After a killed writer's half line the next recording starts on a line of its own."""
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b'{"call_id": "half')
    with JSONLSink(path) as sink:
        sink.write(recording("a"))
        sink.write(recording("b"))
    assert path.read_text().splitlines()[0] == '{"call_id": "half'
    assert [json.loads(line)["call_id"] for line in path.read_text().splitlines()[1:]] == ["a", "b"]


def test_an_unwritable_file_is_said_once_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that is missing costs recordings, not exceptions; once it exists, writing goes on
    and a new failure is said again."""
    path = tmp_path / "missing" / "calls.jsonl"
    sink = JSONLSink(path)
    sink.write(recording("a"))
    sink.write(recording("b"))
    assert sink.lost == 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(path) in caplog.text
    path.parent.mkdir()
    sink.write(recording("c"))
    assert (sink.written, sink.lost, ids(path)) == (1, 2, ["c"])
    sink.close()
    sink.write(recording("d"))
    assert (sink.lost, len(caplog.records)) == (3, 2)


FULL_DISK = """
import resource, signal, sys
from tests.export.test_jsonl import JSONLSink, recording, to_line
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = len(to_line(recording("a"))) + 1
sink = JSONLSink(sys.argv[1])
sink.write(recording("a"))
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, resource.RLIM_INFINITY))
sink.write(recording("b"))
sink.write(recording("c"))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
sink.write(recording("d"))
print(sink.written, sink.lost)
"""


def test_a_full_disk_costs_the_recordings_that_do_not_fit(tmp_path: Path) -> None:
    """A line cut by a full disk is one broken line: what is written later is whole again. (The
    limit on the size of a file stands for the disk's.)"""
    path = tmp_path / "calls.jsonl"
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["2", "2"]
    assert ran.stderr.count("recordings are being lost") == 1
    first, torn, last = path.read_text().splitlines()
    assert (json.loads(first)["call_id"], json.loads(last)["call_id"]) == ("a", "d")
    assert len(torn) == 10
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


MANY = """
import sys
from tests.export.test_jsonl import JSONLSink, recording
sink = JSONLSink(sys.argv[1])
for number in range(int(sys.argv[3])):
    sink.write(recording(f"{sys.argv[2]}{number}", body=b"x" * 20_000))
    if not number:
        print("started", flush=True)
"""


def writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", MANY, str(path), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_lines_of_two_processes_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with writer(path, "a", 200) as one, writer(path, "b", 200) as other:
        assert (one.wait(), other.wait()) == (0, 0)
    assert sorted(ids(path)) == sorted(f"{name}{n}" for name in "ab" for n in range(200))


def test_a_killed_process_leaves_whole_lines_but_at_most_the_last(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with writer(path, "a", 1_000_000) as process:
        assert process.stdout is not None
        process.stdout.readline()
        while path.stat().st_size < 1_000_000:
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    *whole, last = path.read_bytes().split(b"\n")
    assert [json.loads(line)["call_id"] for line in whole] == [f"a{n}" for n in range(len(whole))]
    assert len(whole) > 40
    assert len(last) < len(whole[0])


def test_closing_first_writes_what_still_waits(tmp_path: Path) -> None:
    """`before_close` runs while the file is open, once."""
    sink = JSONLSink(tmp_path / "calls.jsonl")
    sink.before_close = lambda: sink.write(recording("late"))
    sink.close()
    sink.close()
    assert ids(sink.path) == ["late"]
    assert repr(sink) == f"JSONLSink('{sink.path}')"


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_its_parents_lock(tmp_path: Path) -> None:
    """A fork while another thread is writing leaves the child able to write."""
    sink = JSONLSink(tmp_path / "calls.jsonl")
    with sink._locked():
        child = os.fork()
        if not child:
            signal.alarm(20)
            sink.write(recording("child"))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ids(sink.path) == ["child"]


def test_what_is_not_a_regular_file_can_be_written(tmp_path: Path) -> None:
    """A device has no last line to look at."""
    sink = JSONLSink("/dev/null")
    sink.write(recording())
    assert (sink.written, sink.lost) == (1, 0)


def test_a_line_another_writer_left_torn_costs_that_line_only(tmp_path: Path) -> None:
    """Though the file was open here before the other was killed."""
    path = tmp_path / "calls.jsonl"
    with JSONLSink(path) as sink:
        sink.write(recording())
        with path.open("ab") as other:
            other.write(b'{"schema":"latscope.recording/1","call_id":"cut')
        sink.write(recording())
        sink.write(recording())
    assert len(list(read(path, problems=[]))) == sink.written == 3


def test_half_a_surrogate_pair_in_a_tag_costs_nothing(tmp_path: Path) -> None:
    sink = JSONLSink(tmp_path / "calls.jsonl")
    sink.write(replace(recording(), tags={"file": "r\udce9sum\udce9"}))
    assert [dict(call.tags) for call in read(sink.path)] == [{"file": "r?sum?"}]


def test_a_pipe_nobody_reads_is_an_error_and_no_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    sink = JSONLSink(tmp_path / "pipe")
    sink.write(recording())
    assert (sink.written, sink.lost) == (0, 1)
