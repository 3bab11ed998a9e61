"""A real path between namespaces: what is asked for happens, is logged, and leaves nothing."""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path as File
from typing import Any

import pytest

from latscope.documents.recordings import read_text
from latscope.units import MS, S
from tests.lab import leftovers
from tests.lab.cases import Told
from tests.lab.hops import ROOT
from tests.lab.path import Path, PathError, path
from tests.lab.profile import Profile, ProfileError, both
from tests.lab.truth import (
    lags,
    since_zero,
    stamps_of,
    token_reads,
    truth_of,
    violations,
)
from tests.lab.upstream import Schedule

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("needs_namespaces")]

PORT = 8000
DENSE = Schedule(events=80, every_ns=20 * MS)
NEVER = Schedule(events=1)
CONNECTS = """
import socket, sys, time
for _ in range(20):
    begin = time.perf_counter_ns()
    socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
    print(time.perf_counter_ns() - begin)
"""


@contextlib.contextmanager
def serving(made: Path, schedule: Schedule, stamps: File) -> Iterator["subprocess.Popen[str]"]:
    """A model server at the server's end."""
    command = [sys.executable, "-m", "tests.lab.upstream", "--stamps", str(stamps)]
    command += ["--host", made.server_ip, "--port", str(PORT), *schedule.options()]
    process = made.serve(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def call(
    asked: Profile,
    folder: File,
    schedule: Schedule = DENSE,
    asking: str = "",
    answering: str = "",
) -> tuple[Told, list[dict[str, Any]]]:
    """One captured call over such a path, and the path's log. asking, answering: what the path is
    told when the server has the request, and when its first token is about to leave."""
    stamps = folder / "stamps.jsonl"
    with path(asked) as made, serving(made, schedule, stamps) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == f"{PORT}\n"
        url = f"http://{made.server_ip}:{PORT}"
        client = made.popen(
            "client",
            [sys.executable, "-m", "tests.lab.client", url],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        with client:
            for moment, command in (("asked", asking), ("answering", answering)):
                assert server.stdout.readline() == f"{moment}\n"
                if command:
                    made.tell(command)
            out, _ = client.communicate(timeout=60)
        assert client.returncode == 0
        recording = read_text(out.strip())
        found = stamps_of(stamps)
        log = made.log()
    recording = replace(recording, truth=truth_of(recording, found))
    return Told(recording=recording, stamps=found), log


def rows(log: list[dict[str, Any]], what: str) -> list[dict[str, Any]]:
    return [row for row in log if row["what"] == what]


def one_row(log: list[dict[str, Any]], what: str) -> dict[str, Any]:
    (row,) = rows(log, what)
    return row


def out_of_order(told: Told) -> int:
    """Segments the client's kernel had to keep back for an earlier one, by the call's end."""
    last = told.recording.attempts[-1].tcp_info[-1]
    assert last.rcv_ooopack is not None
    return last.rcv_ooopack


def test_a_path_of_40_ms_connects_in_40_ms(tmp_path: File) -> None:
    """20 ms each way; the median of 20 TCP connects is within 2 ms."""
    with path(both("delay=20ms")) as made, serving(made, NEVER, tmp_path / "stamps"):
        command = [sys.executable, "-c", CONNECTS, made.server_ip, str(PORT)]
        took = [int(line) for line in made.run("client", command).split()]
    assert len(took) == 20
    assert abs(statistics.median(took) - 40 * MS) <= 2 * MS
    assert min(took) >= 40 * MS


def test_a_hold_appears_in_the_reads(tmp_path: File) -> None:
    """Nothing is read while the path holds; then all it kept comes at once and nothing is lost."""
    told, log = call(both("delay=5ms"), tmp_path, answering="hold down 300ms")
    hold, ended = one_row(log, "hold"), one_row(log, "hold.ended")
    begin = since_zero(told.recording, hold["at_ns"])
    end = since_zero(told.recording, ended["at_ns"])
    assert end - begin >= 300 * MS
    arrived = token_reads(told.recording)
    on_the_way = 2 * MS  # written just before, read just after
    assert [at for at in arrived if begin + on_the_way < at < end] == []
    sent = [since_zero(told.recording, ns) for ns in told.stamps["tokens"]]
    during = [at for at, ns in zip(arrived, sent, strict=True) if begin < ns < begin + 250 * MS]
    assert len(during) >= 10
    assert all(at >= end for at in during)
    assert max(during) - min(during) < 200 * MS  # 12 steps of 20 ms were made, all came together
    assert min(lags(told.recording, told.stamps)[-10:]) < 100 * MS  # and the stream caught up
    assert out_of_order(told) == 0


def test_a_lost_segment_shows_as_out_of_order(tmp_path: File) -> None:
    told, log = call(both("delay=20ms"), tmp_path, answering="drop down 1")
    assert one_row(log, "drop")["data"] is True
    assert out_of_order(told) > 0
    assert len(token_reads(told.recording)) == DENSE.events


def test_without_loss_nothing_is_out_of_order(tmp_path: File) -> None:
    told, log = call(both("delay=20ms jitter=5ms"), tmp_path)
    assert rows(log, "drop") == []
    assert out_of_order(told) == 0


def test_a_blackout_loses_segments_that_come_again(tmp_path: File) -> None:
    told, log = call(both("delay=5ms"), tmp_path, answering="blackout down 200ms")
    begin = since_zero(told.recording, one_row(log, "blackout")["at_ns"])
    end = since_zero(told.recording, one_row(log, "blackout.ended")["at_ns"])
    assert {row["why"] for row in rows(log, "drop")} == {"blackout"}
    arrived = token_reads(told.recording)
    assert [at for at in arrived if begin + 10 * MS < at < end] == []
    assert len(arrived) == DENSE.events


def test_a_rate_is_kept(tmp_path: File) -> None:
    """300 events at once over 500 kbit/s: their bytes take their time, and the log says so."""
    schedule = Schedule(events=300, every_ns=0)
    told, log = call(both("rate=500kbit"), tmp_path, schedule)
    arrived = token_reads(told.recording)
    size = len(told.recording.attempts[-1].body or b"")
    assert arrived[-1] - arrived[0] >= 0.8 * size * 8 * S / 500_000
    assert rows(log, "queued")


def test_the_ways_differ_when_they_are_asked_to(tmp_path: File) -> None:
    """5 ms up, 30 ms down: one clock on both ends tells them apart."""
    asked = Profile(up=both("delay=5ms").up, down=both("delay=30ms").down)
    told, _ = call(asked, tmp_path)
    attempt = told.recording.attempts[-1]
    written = attempt.mark("request.headers")
    assert written is not None
    up = since_zero(told.recording, told.stamps["received_ns"]) - written
    down = lags(told.recording, told.stamps)
    assert 5 * MS <= up < 30 * MS
    assert min(down) >= 30 * MS
    assert statistics.median(down) < 45 * MS


def test_settings_change_while_it_runs(tmp_path: File) -> None:
    """From the first token on the way down is 40 ms longer; the log has both settings."""
    told, log = call(both("delay=1ms"), tmp_path, answering="set down delay=41ms")
    assert [row["delay_ns"] for row in rows(log, "set") if row["way"] == "down"] == [MS, 41 * MS]
    assert min(lags(told.recording, told.stamps)[5:]) >= 41 * MS


@pytest.mark.parametrize(
    ("settings", "asking", "answering"),
    [
        pytest.param("delay=20ms", "", "", id="plain"),
        pytest.param("delay=20ms loss=3%", "", "", id="loss"),
        pytest.param("delay=20ms", "at 200ms hold down 400ms", "", id="hold-first"),
        pytest.param("delay=20ms", "", "at 500ms hold down 400ms", id="hold-middle"),
        pytest.param("delay=20ms", "", "at 1400ms hold down 400ms", id="hold-last"),
        pytest.param("delay=20ms", "at 200ms blackout down 300ms", "", id="blackout-first"),
        pytest.param("delay=20ms", "", "at 500ms blackout down 300ms", id="blackout-middle"),
        pytest.param("delay=5ms rate=300kbit", "", "", id="rate"),
        pytest.param("delay=2ms", "at 100ms set down delay=20ms", "", id="slower"),
        pytest.param("delay=20ms", "at 100ms set down delay=1ms", "", id="faster"),
    ],
)
def test_the_truth_lies_inside_the_hard_bounds(
    settings: str, asking: str, answering: str, tmp_path: File
) -> None:
    """Law 2 over a real path, faults at the first token, in the middle and at the last."""
    told, _ = call(both(settings), tmp_path, asking=asking, answering=answering)
    assert violations(told.recording) == []


def test_congestion_control_is_the_one_asked_for() -> None:
    command = ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]
    with path(Profile(congestion="reno")) as made:
        assert made.run("client", command) == made.run("server", command) == "reno\n"


def test_a_wrong_command_is_refused_and_the_path_goes_on() -> None:
    with path() as made:
        with pytest.raises(ProfileError, match="not a command"):
            made.tell("dance")
        assert made.tell("hold down 1ms") > 0
        made.wait_for("hold.ended")
    with pytest.raises(PathError, match="no path answers"):
        made.tell("hold 1ms")


def test_a_server_that_dies_is_told() -> None:
    with path() as made, pytest.raises(PathError, match="exited with 3"):
        made.serve(["sh", "-c", "exit 3"])


def inhabitants(namespace: str) -> list[int]:
    """Processes whose network namespace is that inode."""
    found = []
    for place in File("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(place / "ns/net") == namespace:
                found.append(int(place.name))
    return found


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_nothing_of_a_path_stays() -> None:
    """Neither the relay nor a command that outlived its parent, nor folder, nor namespace."""
    with path() as made:
        command = ["sh", "-c", "readlink /proc/self/ns/net; setsid sleep 1000 >/dev/null 2>&1 &"]
        namespace = made.run("server", command).strip()
        until(lambda: len(inhabitants(namespace)) == 1)
        until(lambda: len(leftovers.mine()) == 2)
    assert leftovers.mine() == []
    assert inhabitants(namespace) == []
    assert not made.control.parent.exists()


KILLED = """
import os, sys, time
from tests.lab.path import path
with path() as made:
    made.popen("server", ["sleep", "1000"])
    made.run("server", ["true"])
    print(made.relay, made.control.parent, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("relay_too", [False, True])
def test_nothing_stays_of_a_run_that_was_killed(relay_too: bool) -> None:
    """The relay ends with its run; where it was killed as well, the next start clears away."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED], stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as run:
        assert run.stdout is not None
        try:
            relay, folder = run.stdout.readline().split()
            owner = File(folder).name.removeprefix(leftovers.PREFIX).split("-")[0]
            until(lambda: len(leftovers.marked(owner)) == 2)
        finally:
            run.kill()
        if relay_too:
            os.kill(int(relay), signal.SIGKILL)
    if not relay_too:
        until(lambda: leftovers.marked(owner) == [])
    leftovers.sweep()
    until(lambda: leftovers.marked(owner) == [])
    assert not File(folder).exists()


TOOL = [sys.executable, "-m", "tests.lab.path"]


def tool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*TOOL, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_tool_runs_a_command_behind_a_path(tmp_path: File) -> None:
    """Its exit code is the command's; the timetable counts from the command's start."""
    log = tmp_path / "log.jsonl"
    stamps = tmp_path / "stamps.jsonl"
    upstream = f"{sys.executable} -m tests.lab.upstream --host 10.77.0.2 --port 8000"
    ran = tool(
        *("--delay", "2ms", "--down", "delay=9ms", "--log", str(log)),
        *("--at", "0ms hold up 5ms", "--server", f"{upstream} --stamps {stamps} --events 2"),
        *("--", sys.executable, "-m", "tests.lab.client", "http://10.77.0.2:8000"),
    )
    assert ran.returncode == 0, ran.stderr
    assert len(token_reads(read_text(ran.stdout.strip()))) == 2
    told = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["delay_ns"] for row in rows(told, "set")] == [2 * MS, 9 * MS]
    assert one_row(told, "hold")["way"] == "up"
    assert tool("--", "sh", "-c", "exit 7").returncode == 7


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "nothing to run"),
        (("--delay", "20", "--", "true"), 2, "'20' is not a duration"),
        (("--at", "1s dance", "--", "true"), 2, "not a command"),
        (("--tell", "/no/such/socket", "hold", "1ms"), 3, "no path answers there"),
    ],
)
def test_the_tool_says_what_is_wrong(arguments: tuple[str, ...], code: int, says: str) -> None:
    ran = tool(*arguments)
    assert ran.returncode == code
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


def test_why_there_is_no_path_is_said() -> None:
    ran = subprocess.run(
        [*TOOL, "--", "true"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/nowhere"},
    )
    assert ran.returncode == 3
    assert ran.stderr == "path: nsenter (util-linux) is not on PATH\n"


def test_gaps_of_a_quiet_path_are_the_streams_own(tmp_path: File) -> None:
    """No fault asked for, none made: what the relay failed at itself is in its log."""
    told, log = call(both("delay=1ms"), tmp_path)
    hiccups = sum(row["ns"] for what in ("late", "starved") for row in rows(log, what))
    sent = told.stamps["tokens"]
    widest = max(after - at for at, after in pairwise(sent))
    arrived = token_reads(told.recording)
    seen = max(after - at for at, after in pairwise(arrived))
    assert seen <= widest + hiccups + 100 * MS
