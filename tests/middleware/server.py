"""A small chat endpoint for tests: streams one answer, holding a canary, in real bytes."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CANARY = "canary-of-the-answer"
ASKED = "canary-of-the-prompt"
COOKIE = "canary-of-the-cookie"
KEY = "sk-canary-of-the-key-0123456789"

REQUEST = {
    "model": "tiny",
    "stream": True,
    "messages": [{"role": "user", "content": ASKED}],
}
HEADERS = {"authorization": f"Bearer {KEY}"}
SECRETS = (CANARY, ASKED, COOKIE, KEY)


def stream() -> bytes:
    def chunk(**delta: str) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}
        return b"data: " + json.dumps(body).encode() + b"\n\n"

    text = [chunk(content=word) for word in (CANARY, " and ", "more")]
    return b"".join([chunk(role="assistant"), *text, b"data: [DONE]\n\n"])


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = stream()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.send_header("set-cookie", COOKIE)
        self.send_header("x-request-id", "req-1")
        self.send_header("x-team-header", "blue")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def serving() -> Iterator[str]:
    """The base URL of a running server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
