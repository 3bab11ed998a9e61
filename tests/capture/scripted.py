"""An HTTP server that does exactly what it is told: these bytes, then wait, then those.

Raw sockets and one thread a connection. A reply is a list of steps; each request takes the next.
"""

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

PATIENCE_S = 20.0
"""How long a gate is waited for before the test is given up."""


class Close:
    """Step: end the connection as a server does that is done."""


class Reset:
    """Step: end it with a TCP reset."""


Step = bytes | threading.Event | type[Close] | type[Reset]
Reply = Sequence[Step]


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class ScriptedServer:
    url: str
    port: int
    replies: list[Reply | Callable[[Received], Reply]]
    tls: ssl.SSLContext | None = None
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when a client has closed a connection."""
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    """Released once a request has been read."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _open: list[socket.socket] = field(default_factory=list)

    def _take(self, request: Received) -> Reply:
        with self._lock:
            self.requests.append(request)
            reply = self.replies.pop(0) if self.replies else answer(599, b"no reply left")
        self.arrived.release()
        return reply(request) if callable(reply) else reply

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            buffer = b""
            while True:
                request, buffer = _read_request(connection, buffer, number)
                if request is None or not _play(connection, self._take(request)):
                    break
        except (OSError, ssl.SSLError):
            pass
        finally:
            with contextlib.suppress(OSError):
                connection.close()
            self.gone.set()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.append(connection)
                number = self.connections
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()


@contextlib.contextmanager
def serving(
    *replies: Reply | Callable[[Received], Reply], tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """A server on a free port of the loopback, gone at the end of the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    scheme = "http" if tls is None else "https"
    server = ScriptedServer(f"{scheme}://127.0.0.1:{port}", port, list(replies), tls)
    thread = threading.Thread(target=server._accept, args=(listener,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in server._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        thread.join(PATIENCE_S)


def _read_request(
    connection: socket.socket, buffer: bytes, number: int
) -> tuple[Received | None, bytes]:
    while b"\r\n\r\n" not in buffer:
        data = connection.recv(65536)
        if not data:
            return None, b""
        buffer += data
    head, _, buffer = buffer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body, buffer = _read_body(connection, buffer, headers)
    return Received(method, path, headers, body, number), buffer


def _read_body(
    connection: socket.socket, buffer: bytes, headers: dict[str, str]
) -> tuple[bytes, bytes]:
    if headers.get("transfer-encoding") == "chunked":
        while b"0\r\n\r\n" not in buffer:
            buffer += connection.recv(65536)
        return buffer, b""
    length = int(headers.get("content-length", "0"))
    while len(buffer) < length:
        buffer += connection.recv(65536)
    return buffer[:length], buffer[length:]


def _play(connection: socket.socket, reply: Reply) -> bool:
    """False when the connection is over."""
    for step in reply:
        if isinstance(step, bytes):
            connection.sendall(step)
        elif isinstance(step, threading.Event):
            if not step.wait(PATIENCE_S):
                return False
        elif step is Reset:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        else:
            return False
    return True


def answer(status: int, body: bytes, **headers: str) -> list[Step]:
    """A whole response of known length. Header names are given with _ for -."""
    lines = [f"HTTP/1.1 {status} Scripted", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ["\r\n".join([*lines, "", ""]).encode() + body]


def json_answer(value: Any, status: int = 200, **headers: str) -> list[Step]:
    return answer(status, json.dumps(value).encode(), content_type="application/json", **headers)


def stream_head(content_type: str = "text/event-stream", **headers: str) -> bytes:
    """Status and headers of a streamed response."""
    lines = ["HTTP/1.1 200 OK", "transfer-encoding: chunked", f"content-type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"


def stream(*parts: bytes, **headers: str) -> list[Step]:
    """A streamed response sent at once, each part a chunk of its own."""
    return [stream_head(**headers), *(chunk(part) for part in parts), LAST]
