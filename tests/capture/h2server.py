"""A small HTTP/2 server over plain TCP (prior knowledge): answers each stream from a script."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence

import h2.config
import h2.connection
import h2.events

Parts = Sequence[bytes | None]
"""The DATA frames of one response; the last one may be empty. Null: from here on silence."""


def _answer(connection: h2.connection.H2Connection, stream_id: int, parts: Parts | None) -> None:
    connection.send_headers(stream_id, [(":status", "200"), ("content-type", "text/plain")])
    if parts is None:  # headers, then silence
        return
    for part in parts:
        if part is None:
            return
        connection.send_data(stream_id, part)
    connection.end_stream(stream_id)


def _serve(peer: socket.socket, replies: list[Parts | None], events: list[str]) -> None:
    config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
    connection = h2.connection.H2Connection(config=config)
    connection.initiate_connection()
    with peer, contextlib.suppress(OSError):
        peer.sendall(connection.data_to_send())
        while data := peer.recv(65536):
            for event in connection.receive_data(data):
                events.append(type(event).__name__)
                if isinstance(event, h2.events.StreamEnded) and event.stream_id is not None:
                    _answer(connection, event.stream_id, replies.pop(0))
            peer.sendall(connection.data_to_send())


@contextlib.contextmanager
def serving_h2(*replies: Parts | None, events: list[str] | None = None) -> Iterator[str]:
    """The URL of a server that serves one connection. events: filled with what it is told."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with contextlib.suppress(OSError):
            _serve(listener.accept()[0], list(replies), [] if events is None else events)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
