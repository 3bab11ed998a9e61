"""The server as a process: up, answering, down, never left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from latscope.documents.scenarios import Scenario, shipped
from latscope.errors import EndpointError
from latscope.sim.process import COMMAND, start

ONE = [Scenario(name="one")]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_runs_while_the_block_does_and_leaves_nothing() -> None:
    """Loopback address, a port of its own, no process and no listener afterwards."""
    with start(ONE) as running:
        where = urlsplit(running.base_url)
        assert (where.scheme, where.hostname) == ("http", "127.0.0.1")
        assert running.truths() == []
        assert is_alive(running.pid)
    assert not is_alive(running.pid)
    with pytest.raises(EndpointError, match="does not answer"):
        running.truths()


def test_it_stops_when_the_block_fails() -> None:
    pid = 0

    def fails() -> None:
        nonlocal pid
        with start(ONE) as running:
            pid = running.pid
            raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        fails()
    assert pid
    assert not is_alive(pid)


def test_it_stops_though_a_connection_is_open() -> None:
    with start(ONE) as running, socket.socket() as idle:
        where = urlsplit(running.base_url)
        idle.connect((where.hostname, where.port))
    assert not is_alive(running.pid)


def test_a_server_that_cannot_start_says_why() -> None:
    """A port that is taken: its own words, and no process left."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(EndpointError, match=rf"did not start: latscope: 127\.0\.0\.1:{port}"),
            start(ONE, port=port),
        ):
            pass


def test_nothing_to_serve_is_said_too() -> None:
    with pytest.raises(EndpointError, match="no scenario to serve"), start([]):
        pass


def test_a_server_that_says_nothing_in_time_is_ended() -> None:
    with pytest.raises(EndpointError, match="no answer in time"), start(ONE, timeout_s=0):
        pass


def test_it_ends_when_its_parent_goes_away() -> None:
    """A parent that is killed closes the pipe; the server stops by itself, with status 0."""
    child = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps([ONE[0].model_dump(mode="json", by_alias=True)]).encode() + b"\n")
    child.stdin.flush()
    assert json.loads(child.stdout.readline())["ready"].startswith("http://127.0.0.1:")
    child.stdin.close()
    assert child.wait(30) == 0
    child.stdout.close()


@pytest.mark.parametrize(
    ("files", "sent", "codes"),
    [(True, signal.SIGTERM, (0, -signal.SIGTERM)), (False, signal.SIGINT, (130,))],
)
def test_files_are_served_or_all_that_come_with_latscope(
    tmp_path: Path, files: bool, sent: signal.Signals, codes: tuple[int, ...]
) -> None:
    """`python -m latscope.sim [FILE ...]`, ended by a signal."""
    path = tmp_path / "mine.toml"
    path.write_text("queue_ms = 1")
    command = [sys.executable, "-P", "-m", "latscope.sim", *([str(path)] if files else [])]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    url = json.loads(child.stdout.readline())["ready"]
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port)) as raw:
        raw.sendall(b"GET /v1/models HTTP/1.1\r\nhost: sim\r\nconnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    models = [model["id"] for model in json.loads(answer.partition(b"\r\n\r\n")[2])["data"]]
    assert models == (["mine"] if files else list(shipped()))
    child.send_signal(sent)
    assert child.wait(30) in codes
    child.stdout.close()


def test_a_bad_file_is_one_line_and_exit_3(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("queue_ms = -1")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "latscope.sim", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("latscope: ")
    assert "bad.toml: queue_ms: Input should be greater" in done.stderr
    assert done.stderr.count("\n") == 1
