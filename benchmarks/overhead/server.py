"""A scripted server: streams of so many events, one write each. Standard library only.

`python server.py` prints its port and serves until its standard input closes. A request's model
says what it gets: `chunks-400-gap-250` is 400 events 250 us apart.
"""

import json
import re
import socket
import sys
import threading
import time

SCRIPT = re.compile(rb'"model":\s*"chunks-(\d+)-gap-(\d+)"')
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_1\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"


def framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def chat(count: int) -> list[bytes]:
    """A chat completion of `count` events of text, as vLLM writes them, usage and [DONE] last."""

    def event(choices: list[object], **more: object) -> bytes:
        told = {
            "id": "chatcmpl-0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1700000000,
            "model": "tiny",
            "choices": choices,
            **more,
        }
        return b"data: " + json.dumps(told, separators=(",", ":")).encode() + b"\n\n"

    def choice(delta: dict[str, str], reason: str | None = None) -> list[object]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]

    usage = {"prompt_tokens": 12, "completion_tokens": count, "total_tokens": 12 + count}
    return [
        event(choice({"role": "assistant", "content": ""})),
        *(event(choice({"content": f" token{n}"})) for n in range(count)),
        event(choice({}, "stop")),
        event([], usage=usage),
        b"data: [DONE]\n\n",
    ]


def messages(count: int) -> list[bytes]:
    """The same as an Anthropic message."""

    def event(kind: str, **told: object) -> bytes:
        data = json.dumps({"type": kind, **told}, separators=(",", ":"))
        return f"event: {kind}\ndata: {data}\n\n".encode()

    message: dict[str, object] = {
        "id": "msg_0123456789abcdef",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 1},
    }
    return [
        event("message_start", message=message),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(
            event(
                "content_block_delta",
                index=0,
                delta={"type": "text_delta", "text": f" token{n}"},
            )
            for n in range(count)
        ),
        event("content_block_stop", index=0),
        event(
            "message_delta",
            delta={"stop_reason": "end_turn", "stop_sequence": None},
            usage={"output_tokens": count},
        ),
        event("message_stop"),
    ]


def request(connection: socket.socket, buffer: bytes) -> tuple[bytes, bytes, bytes]:
    """Head and body of the next request, and what came after it; an empty head when none will."""
    while b"\r\n\r\n" not in buffer:
        data = connection.recv(65536)
        if not data:
            return b"", b"", b""
        buffer += data
    head, _, buffer = buffer.partition(b"\r\n\r\n")
    length = int((re.search(rb"content-length: *(\d+)", head, re.IGNORECASE) or [b"", b"0"])[1])
    while len(buffer) < length:
        buffer += connection.recv(65536)
    return head, buffer[:length], buffer[length:]


class Scripts:
    """The events of each script, written once."""

    def __init__(self) -> None:
        self._made: dict[tuple[bool, int], list[bytes]] = {}

    def get(self, anthropic: bool, count: int) -> list[bytes]:
        key = (anthropic, count)
        if key not in self._made:
            self._made[key] = [framed(e) for e in (messages if anthropic else chat)(count)]
        return self._made[key]


def play(connection: socket.socket, events: list[bytes], gap_s: float) -> None:
    connection.sendall(HEAD)
    for event in events:
        connection.sendall(event)
        if gap_s:
            time.sleep(gap_s)
    connection.sendall(END)


def serve(connection: socket.socket, scripts: Scripts) -> None:
    buffer = b""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while True:
            head, body, buffer = request(connection, buffer)
            script = SCRIPT.search(body)
            if script is None:
                return
            count, gap_us = script.groups()
            events = scripts.get(b"/messages" in head.partition(b"\r\n")[0], int(count))
            play(connection, events, int(gap_us) / 1e6)
    except OSError:
        return
    finally:
        connection.close()


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    print(listener.getsockname()[1], flush=True)
    scripts = Scripts()

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, scripts), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
