"""A real path between two network namespaces, with the faults you ask for and a log of them.

    python -m tests.lab.path --delay 20ms --loss 1% \\
        --server 'python -m http.server --bind 10.77.0.2 8000' \\
        --at '2s hold down 300ms' -- curl -s http://10.77.0.2:8000/

runs the server command in one namespace (10.77.0.2), waits until something listens there, and
runs the command after `--` in the other (10.77.0.1). Settings and commands: profile.py; the log:
relay.py (CLOCK_MONOTONIC, one clock for every process of the host). While it runs it can be told
more:

    python -m tests.lab.path --tell SOCKET hold down 300ms

In tests: `with path(both("delay=20ms")) as p: p.run("client", [...]); p.tell("drop down 1")`.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as File
from typing import Any

from latscope.units import Ns
from tests.lab import kernel, leftovers, profile
from tests.lab.profile import Profile, ProfileError
from tests.lab.relay import CLIENT, SERVER

ROOT = File(__file__).parents[2]
READY_S = 30.0
POLL_S = 0.01
REPLY_S = 10.0


class PathError(Exception):
    """The path could not be made or stopped answering."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path that carries packets. client_ip and server_ip are its ends; started: the commands it
    was asked to run."""

    relay: int
    namespaces: dict[str, int]
    log_file: File
    control: File
    client_ip: str = CLIENT
    server_ip: str = SERVER
    started: "list[subprocess.Popen[Any]]" = field(default_factory=list)

    def popen(self, side: str, command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a command at one end (`client` or `server`); it ends with the path."""
        env = leftovers.marked_env(LATSCOPE_CLIENT=self.client_ip, LATSCOPE_SERVER=self.server_ip)
        options = {"stdin": subprocess.DEVNULL, "env": env, **options}
        command = ["nsenter", f"--net={self._place(side)}", *command]
        self.started.append(subprocess.Popen(command, **options))
        return self.started[-1]

    def run(self, side: str, command: Sequence[str], timeout: float = 60.0) -> str:
        """Run a command at one end and give its stdout; PathError with its stderr on failure."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with self.popen(side, command, **pipes) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if process.returncode:
            raise PathError(f"{shlex.join(command)} exited with {process.returncode}:\n{err}")
        return str(out)

    def serve(self, command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a command at the server's end and wait until something listens there."""
        process = self.popen("server", command, **options)
        place = self._place("server")
        _wait(
            lambda: kernel.listening(process.pid, place) or process.poll() is not None,
            "the server to listen",
        )
        if process.poll() is not None:
            raise PathError(f"{shlex.join(command)} exited with {process.returncode}")
        return process

    def _place(self, side: str) -> str:
        """Name the namespace as a file: the relay holds it open."""
        return f"/proc/{self.relay}/fd/{self.namespaces[side]}"

    def tell(self, command: str) -> Ns:
        """Have the path do something now; gives the instant (CLOCK_MONOTONIC) it began."""
        return tell(self.control, command)

    def log(self, what: str = "") -> list[dict[str, Any]]:
        """Read what the path did so far: rows of that kind, or all."""
        lines = self.log_file.read_text(encoding="utf-8").splitlines(keepends=True)
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
        return [row for row in rows if not what or row["what"] == what]

    def wait_for(self, what: str, timeout_s: float = READY_S) -> dict[str, Any]:
        """Wait until the log has a row of that kind; give the last."""
        _wait(lambda: bool(self.log(what)), f"{what!r} in the log", timeout_s)
        return self.log(what)[-1]


@contextlib.contextmanager
def path(asked: Profile = Profile(), *, log: File | None = None) -> Iterator[Path]:  # noqa: B008
    """Make the path, and leave nothing of it at the end of the block but the log it was given."""
    leftovers.sweep()
    folder = leftovers.make_folder("path")
    log = log or folder / "log.jsonl"
    control = folder / "control"
    order = {"profile": profile.to_mapping(asked), "log": str(log), "control": str(control)}
    python_path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    relay = subprocess.Popen(
        [sys.executable, "-m", "tests.lab.relay", json.dumps(order)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=leftovers.marked_env(PYTHONPATH=python_path),
        start_new_session=True,  # Ctrl-C ends the commands; the relay ends after them
    )
    assert relay.stdin is not None
    assert relay.stdout is not None
    assert relay.stderr is not None
    started: list[subprocess.Popen[Any]] = []
    try:
        line = relay.stdout.readline()
        if not line:
            relay.wait(READY_S)
            raise PathError(f"the relay did not start:\n{relay.stderr.read().decode()}")
        namespaces = json.loads(line)["namespaces"]
        yield Path(relay.pid, namespaces, log.absolute(), control, started=started)
    finally:
        for process in started:
            process.kill()  # the relay ends what these started
            process.wait()
        _end(relay)
        leftovers.remove(folder)


def _end(relay: "subprocess.Popen[bytes]") -> None:
    assert relay.stdin is not None
    with contextlib.suppress(OSError):
        relay.stdin.close()
    try:
        relay.wait(READY_S)
    except subprocess.TimeoutExpired:
        os.kill(relay.pid, signal.SIGKILL)
        relay.wait()
    for pipe in (relay.stdout, relay.stderr):
        if pipe is not None:
            pipe.close()


def tell(control: File, command: str) -> Ns:
    """Send a command to a path's control socket; gives the instant it took effect."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asker:
        asker.bind("")  # a name of the kernel's choice, to be answered at
        asker.settimeout(REPLY_S)
        try:
            asker.sendto(command.encode(), str(control))
            reply = json.loads(asker.recv(65536))
        except OSError as error:
            raise PathError(f"{control}: no path answers there: {error}") from error
    if "error" in reply:
        raise ProfileError(reply["error"])
    return int(reply["at_ns"])


def _wait(happened: Callable[[], bool], what: str, timeout_s: float = READY_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() > deadline:
            raise PathError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(POLL_S)


def _asked(options: argparse.Namespace) -> Profile:
    words = [f"{name}={getattr(options, name)}" for name in profile.SETTINGS]
    shared = " ".join(word for word in words if not word.endswith("=None"))
    made = profile.both(shared, seed=options.seed, congestion=options.congestion)
    up, down = profile.change(made.up, options.up), profile.change(made.down, options.down)
    return replace(made, up=up, down=down)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.path",
        description="run a command behind a path with delay, loss and other faults",
    )
    for name, what in (
        ("delay", "of every packet, each way: 20ms"),
        ("jitter", "up to so much more or less: 2ms"),
        ("loss", "share of packets dropped: 1%%"),
        ("rate", "bits a second: 10mbit"),
        ("queue", "what waits for the rate at most: 64kB"),
    ):
        parser.add_argument(f"--{name}", help=what)
    parser.add_argument("--up", default="", metavar="SETTINGS", help="only client to server")
    parser.add_argument("--down", default="", metavar="SETTINGS", help="only server to client")
    parser.add_argument("--seed", type=int, default=1, help="decides losses and jitter")
    parser.add_argument("--congestion", help="TCP congestion control at both ends: cubic, bbr")
    parser.add_argument("--server", metavar="COMMAND", help="runs at the other end, 10.77.0.2")
    parser.add_argument(
        "--at", action="append", default=[], metavar="'TIME COMMAND'", help="'2s hold down 300ms'"
    )
    parser.add_argument("--log", type=File, help="keep what the path did, as JSON lines")
    parser.add_argument("--tell", type=File, metavar="SOCKET", help="tell a running path COMMAND")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="-- COMMAND at 10.77.0.1")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a command behind a path; its exit code, or 2 wrong usage, 3 no path here."""
    parser = _parser()
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("nothing to run: give -- COMMAND")
    try:
        if options.tell:
            print(tell(options.tell, " ".join(command)))
            return 0
        asked, timetable = _asked(options), [f"at {entry}" for entry in options.at]
        for entry in timetable:
            profile.parse(entry)
    except ProfileError as error:
        parser.error(str(error))
    except PathError as error:
        print(f"path: {error}", file=sys.stderr)
        return 3
    reason = kernel.why_not()
    if reason:
        print(f"path: {reason}", file=sys.stderr)
        return 3
    return _play(options, asked, timetable, command)


def _play(
    options: argparse.Namespace, asked: Profile, timetable: Sequence[str], command: Sequence[str]
) -> int:
    with path(asked, log=options.log) as made:
        print(f"path: {CLIENT} -> {SERVER}, tell it by {made.control}", file=sys.stderr)
        try:
            if options.server:
                made.serve(shlex.split(options.server), stdout=sys.stderr)
            for entry in timetable:
                made.tell(entry)
            return made.popen("client", command, stdin=None).wait()
        except KeyboardInterrupt:
            return 130
        except PathError as error:
            print(f"path: {error}", file=sys.stderr)
            return 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
