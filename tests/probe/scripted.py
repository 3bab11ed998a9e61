"""A server on loopback that answers each request with the next scripted reply, byte for byte.

A reply is bytes to send, or a list of bytes and events: an event is waited for before what follows
is sent. After the last step the connection is closed. What was asked is kept.
"""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

PATIENCE_S = 20.0
Reply = bytes | Sequence[bytes | threading.Event]


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Server:
    url: str
    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        return [asked.body for asked in self.asked if asked.method == "POST"]


@contextmanager
def serving(*replies: Reply, models: Sequence[str] = ()) -> Iterator[Server]:
    """The last reply answers everything after it too. GET .../models lists `models`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = Server(url=f"http://127.0.0.1:{port}", port=port)
        stop = threading.Event()
        waiting = list(replies)
        thread = threading.Thread(
            target=_accept, args=(listening, server, waiting, list(models), stop), daemon=True
        )
        thread.start()
        try:
            yield server
        finally:
            stop.set()
            for reply in replies:
                for step in reply if not isinstance(reply, bytes) else ():
                    if isinstance(step, threading.Event):
                        step.set()
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            thread.join(PATIENCE_S)


def _accept(
    listening: socket.socket,
    server: Server,
    waiting: list[Reply],
    models: list[str],
    stop: threading.Event,
) -> None:
    while True:
        connection, _ = listening.accept()
        with connection:
            if stop.is_set():
                return
            connection.settimeout(PATIENCE_S)
            with suppress(OSError):
                _serve(connection, server, waiting, models)


def _serve(
    connection: socket.socket, server: Server, waiting: list[Reply], models: list[str]
) -> None:
    asked = _read(connection)
    if asked is None:
        return
    server.asked.append(asked)
    if asked.method == "GET":
        listed = {"data": [{"id": name} for name in models]}
        connection.sendall(answer(json.dumps(listed), kind="application/json"))
        return
    reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
    for step in [reply] if isinstance(reply, bytes) else reply:
        if isinstance(step, bytes):
            connection.sendall(step)
        else:
            step.wait(PATIENCE_S)


def _read(connection: socket.socket) -> Asked | None:
    got = b""
    while b"\r\n\r\n" not in got:
        more = connection.recv(65536)
        if not more:
            return None
        got += more
        if got[:1] == b"\x16":  # a TLS hello: answered as plain HTTP servers do
            connection.sendall(answer("", status="400 Bad Request"))
            return None
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, json.loads(body) if body else None)


def answer(
    body: str | bytes,
    *,
    status: str = "200 OK",
    kind: str = "text/event-stream",
    headers: dict[str, str] | None = None,
) -> bytes:
    """A whole response that closes its connection."""
    body = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
        "connection: close",
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def opened(kind: str = "text/event-stream") -> bytes:
    """The head of a stream that ends with its connection."""
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n".encode()


def error(status: str, message: str, **more: Any) -> bytes:
    """An error answer in OpenAI's shape."""
    headers = more.pop("headers", None)
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", **more}})
    return answer(body, status=status, kind="application/json", headers=headers)


def sse(*payloads: dict[str, Any] | str) -> bytes:
    texts = [item if isinstance(item, str) else json.dumps(item) for item in payloads]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def chunk(content: str | None = None, **more: Any) -> dict[str, Any]:
    """A chat chunk of one choice; finish= and reasoning= as deltas have them."""
    delta: dict[str, Any] = {} if content is None else {"content": content}
    if "reasoning" in more:
        delta["reasoning_content"] = more["reasoning"]
    choice = {"index": 0, "delta": delta, "finish_reason": more.get("finish")}
    return {"id": "c", "object": "chat.completion.chunk", "model": "tiny", "choices": [choice]}


def usage(output: int, reasoning: int = 0) -> dict[str, Any]:
    counts: dict[str, Any] = {"prompt_tokens": 9, "completion_tokens": output}
    if reasoning:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": counts}


def good() -> bytes:
    """A short chat stream, complete."""
    frames = sse(chunk("one"), chunk(" two"), chunk(finish="stop"), usage(2), "[DONE]")
    return answer(frames)
