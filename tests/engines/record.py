"""Capture what real engines put on the wire, byte for byte, one JSON file a call.

    python -m tests.engines.record vllm|llama [--out FOLDER]

Each file holds the request, the status, the headers in their order, the stamps `zero`,
`connected`, `sent` and `headers`, and every read that carried body bytes as `[asked_ns, got_ns,
text]`: nanoseconds since `zero`, and the payload with the transfer encoding taken off, as latin-1
text (`text.encode("latin-1")` gives the bytes back).

It talks through a plain socket on purpose: a client library would hide how the bytes arrived.
"""

import argparse
import json
import socket
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.engines import servers
from tests.engines.cases import LLAMA, VLLM, VLLM_REASONING, WARM_UP, Case

RECEIVE = 65536
TIMEOUT_S = 120.0
OUT = Path("/tmp/latscope-raw")


@dataclass
class Chunked:
    """Take the chunked transfer encoding off, fed with reads of any size."""

    buffer: bytes = b""
    left: int = 0
    ended: bool = False

    def feed(self, data: bytes) -> bytes:
        """Give the payload bytes these wire bytes complete; `left` counts a chunk's CRLF too."""
        self.buffer += data
        payload = b""
        while not self.ended and self.buffer:
            if self.left:
                part, self.buffer = self.buffer[: self.left], self.buffer[self.left :]
                payload += part[: max(0, self.left - 2)]
                self.left -= len(part)
                continue
            line, found, rest = self.buffer.partition(b"\r\n")
            if not found:
                break
            size = int(line.split(b";")[0], 16)
            self.buffer, self.ended = rest, size == 0
            self.left = size + 2
        return payload


@dataclass
class Sized:
    """Count a body of a length known from its head (or of unknown length: until the end)."""

    left: int
    ended: bool = False

    def feed(self, data: bytes) -> bytes:
        """Give the bytes back and notice when the length is reached."""
        self.left -= len(data)
        self.ended = self.left == 0
        return data


@dataclass
class Capture:
    """What one call gave, in the shape of the file."""

    case: str
    captured_at: str
    request: dict[str, object]
    status: int = 0
    headers: list[list[str]] = field(default_factory=list)
    stamps: dict[str, int] = field(default_factory=dict)
    reads: list[tuple[int, int, str]] = field(default_factory=list)


def call(base_url: str, name: str, case: Case) -> Capture:
    """Make one call on a connection of its own and stamp everything that happens."""
    url = urlsplit(base_url)
    host, port = url.hostname or "127.0.0.1", url.port or 80
    payload = json.dumps(case.body).encode()
    fields = {
        "Host": f"{host}:{port}",
        "Accept": "*/*",
        "Content-Type": "application/json",
        "Content-Length": str(len(payload)),
        **case.headers,
    }
    lines = [f"POST {case.path} HTTP/1.1", *(f"{key}: {value}" for key, value in fields.items())]
    head = ("\r\n".join(lines) + "\r\n\r\n").encode()
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    request: dict[str, object] = {"method": "POST", "path": case.path}
    request |= {"headers": fields, "body": case.body}
    capture = Capture(name, now, request)
    zero = time.perf_counter_ns()
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected = time.perf_counter_ns() - zero
        connection.sendall(head + payload)
        sent = time.perf_counter_ns() - zero
        capture.stamps.update({"zero": 0, "connected": connected, "sent": sent})
        read_answer(connection, capture, zero)
    return capture


def read_answer(connection: socket.socket, capture: Capture, zero: int) -> None:
    """Read head and body, one entry a read; a read may hold the end of the head and body bytes."""
    head = b""
    decoder: Chunked | Sized | None = None
    while decoder is None or not decoder.ended:
        asked = time.perf_counter_ns() - zero
        data = connection.recv(RECEIVE)
        got = time.perf_counter_ns() - zero
        if not data:
            return
        if decoder is None:
            head += data
            if b"\r\n\r\n" not in head:
                continue
            head, _, data = head.partition(b"\r\n\r\n")
            capture.stamps["headers"] = got
            decoder = read_head(head, capture)
        payload = decoder.feed(data) if data else b""
        if payload:
            capture.reads.append((asked, got, payload.decode("latin-1")))


def read_head(head: bytes, capture: Capture) -> Chunked | Sized:
    """Note status and headers and choose how the body ends."""
    lines = head.decode("latin-1").split("\r\n")
    capture.status = int(lines[0].split()[1])
    capture.headers = [[part.strip() for part in line.split(":", 1)] for line in lines[1:]]
    names = {name.lower(): value for name, value in capture.headers}
    if names.get("transfer-encoding") == "chunked":
        return Chunked()
    length = int(names.get("content-length", "-1"))
    return Sized(length, ended=length == 0)


def record(engine: str, cases: dict[str, Case], base_url: str, out: Path) -> None:
    """Make every call of the table once, after one that warms the engine up."""
    out.mkdir(parents=True, exist_ok=True)
    call(base_url, "warm-up", WARM_UP)
    for name, case in cases.items():
        capture = call(base_url, f"{engine}-{name}", case)
        file = out / f"{engine}-{name}.json"
        file.write_text(json.dumps(asdict(capture), indent=1) + "\n", encoding="utf-8")
        size = sum(len(text) for _, _, text in capture.reads)
        print(f"{file}: {capture.status}, {len(capture.reads)} reads, {size} bytes", flush=True)


def record_vllm(out: Path) -> None:
    """Record vLLM, and once more with a parser that takes reasoning out of the text."""
    with servers.vllm() as server:
        record("vllm", VLLM, server.base_url, out)
    with servers.vllm(extra_args=["--reasoning-parser", "deepseek_r1"]) as server:
        record("vllm", VLLM_REASONING, server.base_url, out)


def record_llama(out: Path) -> None:
    """Record llama.cpp."""
    with servers.llama() as server:
        record("llama", LLAMA, server.base_url, out)


def main() -> None:
    """Start the engine that is asked for and record it."""
    recorders = {"vllm": record_vllm, "llama": record_llama}
    parser = argparse.ArgumentParser(description="capture raw streams of real engines")
    parser.add_argument("engine", choices=list(recorders))
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    recorders[args.engine](args.out)


if __name__ == "__main__":
    main()
