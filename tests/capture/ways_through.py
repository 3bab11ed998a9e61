"""What a call may pass on its way to the scripted server: proxies, tunnels, a unix socket."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.capture.scripted import ScriptedServer, _read_request


@contextlib.contextmanager
def tunnelling() -> Iterator[tuple[str, list[str]]]:
    """A proxy that opens the tunnel a CONNECT asks for: its URL, and what it was asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[str] = []
    threads: list[threading.Thread] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        request, _ = _read_request(client, b"", 0)
        assert request is not None
        asked.append(f"{request.method} {request.path}")
        host, _, port = request.path.rpartition(":")
        with client, socket.create_connection((host, int(port))) as upstream:
            client.sendall(b"HTTP/1.1 200 Established\r\n\r\n")
            back = threading.Thread(target=pump, args=(upstream, client), daemon=True)
            back.start()
            pump(client, upstream)
            back.join(10)

    def accept() -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(client,), daemon=True))
            threads[-1].start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in [thread, *threads]:
            each.join(10)


@contextlib.contextmanager
def at_a_path(server: ScriptedServer, path: Path) -> Iterator[str]:
    """The scripted server at a unix socket as well."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            server._open.append(connection)
            threads.append(
                threading.Thread(target=server._serve, args=(connection, 1), daemon=True)
            )
            threads[-1].start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield str(path)
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
