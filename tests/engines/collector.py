"""A real collector that takes spans over OTLP and leaves them in a file of JSON lines.

`with collector.running(folder) as found: ... found.grpc, found.http ... found.file`. The collector
is rotel, which has no file exporter of its own: it passes on to receiver.py, which writes what a
file exporter writes.
"""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.engines import install
from tests.engines.servers import HOST, EngineError, free_port, log_tail

READY_S = 30.0
STOP_S = 10.0
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Collector:
    """grpc, http: the ports it listens on; file: where the spans come to lie, and `metrics` beside
    it the metrics."""

    grpc: int
    http: int
    file: Path

    @property
    def metrics(self) -> Path:
        return self.file.with_suffix(f".metrics{self.file.suffix}")


@contextlib.contextmanager
def running(folder: Path, *, to: int | None = None) -> Iterator[Collector]:
    """Run the collector, its files in `folder`. to: the port of an OTLP/HTTP receiver it passes on
    to instead of the one that writes the file."""
    grpc, http = free_port(), free_port()
    behind = free_port() if to is None else to
    found = Collector(grpc, http, folder / "spans.jsonl")
    python = install.folder("collector") / "bin" / "python"
    receiver = [str(python), str(install.HERE / "receiver.py"), str(behind), str(found.file)]
    agent = [str(install.rotel_binary()), "start"]
    agent += ["--otlp-grpc-endpoint", f"{HOST}:{grpc}", "--otlp-http-endpoint", f"{HOST}:{http}"]
    agent += ["--exporter", "otlp", "--otlp-exporter-protocol", "http"]
    agent += ["--otlp-exporter-endpoint", f"http://{HOST}:{behind}"]
    agent += ["--pid-file", str(folder / "rotel.pid"), "--log-file", str(folder / "rotel.log")]
    with contextlib.ExitStack() as stack:
        if to is None:
            stack.enter_context(_process("receiver", receiver, [behind], folder))
        stack.enter_context(_process("rotel", agent, [grpc, http], folder))
        yield found


@contextlib.contextmanager
def _process(name: str, command: list[str], ports: list[int], folder: Path) -> Iterator[None]:
    log = folder / f"{name}.out"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + READY_S
        while not all(_open(port) for port in ports):
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(timeout=POLL_S)
                raise EngineError(f"{name} exited with {status}:\n{log_tail(log)}")
            if time.monotonic() > deadline:
                raise EngineError(f"{name} took no connection in {READY_S:.0f} s")
        yield
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=STOP_S)
        process.kill()
        process.wait()


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
