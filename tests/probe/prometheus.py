"""A Prometheus on loopback that gives one answer to everything, and keeps what was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def ranges(*rows: dict[str, Any]) -> str:
    """A range query's answer, as Prometheus words it."""
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": rows}})


@contextmanager
def prometheus_at(body: str, *, status: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the paths asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
