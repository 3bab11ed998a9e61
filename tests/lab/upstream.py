"""A scripted model server: it answers every chat call by one schedule and stamps what it does.

    python -m tests.lab.upstream --stamps FILE [--host H] [--events 10] [--every 100ms] ...

Prints the port it listens on, then of each call `asked` and, at its first token, `answering`. It
appends one JSON line to FILE for each call it has answered (or that broke): `head_ns`,
`received_ns` (the whole request was there), `scheduled_ns` (after --queue), `headers_ns`, `tokens`
(just before each send), `end_ns` (before the send of usage and [DONE]), and the names of the
request's headers. The clock is CLOCK_MONOTONIC, shared by all of the host.
The head goes out at once and the role with the first token, as vLLM does.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latscope.units import Ns, S
from tests.lab import kernel
from tests.lab.profile import duration

FRAMINGS = {
    "chunked": ("transfer-encoding: chunked", b"%x\r\n%b\r\n", b"0\r\n\r\n"),
    "close": ("connection: close", b"", b""),
}
"""How the body ends: the header that says so, a part's frame, and what comes last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One answer. queue and prefill before the first token; then a token every `every_ns`."""

    events: int = 10
    every_ns: Ns = 100_000_000
    queue_ns: Ns = 100_000_000
    prefill_ns: Ns = 200_000_000
    framing: str = "chunked"
    server: str = "uvicorn"

    def options(self) -> list[str]:
        """Give the command line that asks for this schedule."""
        found = ["--events", str(self.events), "--framing", self.framing, "--server", self.server]
        for name in ("every", "queue", "prefill"):
            found += [f"--{name}", f"{getattr(self, f'{name}_ns') // 1000}us"]
        return found


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """Make a chat chunk as an event."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"choices": [choice]})


def usage(events: int) -> bytes:
    """Make the chunk that counts the tokens."""
    counts = {"prompt_tokens": 12, "completion_tokens": events, "total_tokens": 12 + events}
    return _event({"choices": [], "usage": counts})


def _event(more: dict[str, Any]) -> bytes:
    fixed = {"id": "chatcmpl-lab", "object": "chat.completion.chunk", "created": 0, "model": "lab"}
    return b"data: " + json.dumps({**fixed, **more}).encode() + b"\n\n"


async def answer(
    schedule: Schedule,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stamps: dict[str, Any],
) -> None:
    """Serve one request and stamp it."""
    head = await reader.readuntil(b"\r\n\r\n")
    stamps["head_ns"] = time.monotonic_ns()
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    stamps["request_headers"] = sorted(headers)
    await _read_body(reader, headers)
    stamps["received_ns"] = received = time.monotonic_ns()
    print("asked", flush=True)
    said, frame, last = FRAMINGS[schedule.framing]
    status = ["HTTP/1.1 200 OK", "content-type: text/event-stream", f"server: {schedule.server}"]
    stamps["headers_ns"] = time.monotonic_ns()
    writer.write("\r\n".join([*status, said, "", ""]).encode())
    await _until(received + schedule.queue_ns)
    stamps["scheduled_ns"] = time.monotonic_ns()
    first = received + schedule.queue_ns + schedule.prefill_ns
    for index in range(schedule.events):
        await _until(first + index * schedule.every_ns)
        data = chunk({"content": f"word{index} "})
        if index == 0:
            data = chunk({"role": "assistant", "content": ""}) + data
            print("answering", flush=True)
        stamps["tokens"].append(time.monotonic_ns())
        writer.write(frame % (len(data), data) if frame else data)
        await writer.drain()
    data = chunk({}, "stop") + usage(schedule.events) + b"data: [DONE]\n\n"
    stamps["end_ns"] = time.monotonic_ns()
    writer.write((frame % (len(data), data) if frame else data) + last)
    await writer.drain()


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> None:
    if headers.get("transfer-encoding") != "chunked":
        await reader.readexactly(int(headers.get("content-length", "0")))
        return
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        await reader.readexactly(size + 2)
    await reader.readuntil(b"\r\n")


async def _until(ns: Ns) -> None:
    await asyncio.sleep(max(0, ns - time.monotonic_ns()) / S)


async def serve(host: str, port: int, schedule: Schedule, out: Path) -> None:
    """Serve until killed."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                stamps: dict[str, Any] = {"tokens": []}
                try:
                    await answer(schedule, reader, writer, stamps)
                finally:
                    if "received_ns" in stamps:
                        with out.open("a", encoding="utf-8") as file:
                            file.write(json.dumps(stamps) + "\n")
                if schedule.framing == "close":
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(one, host, port)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Be the server."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.upstream")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stamps", type=Path, required=True)
    parser.add_argument("--events", type=int, default=10)
    parser.add_argument("--framing", choices=list(FRAMINGS), default="chunked")
    parser.add_argument("--server", default="uvicorn", help="what its Server header says")
    for name, value in (("every", "100ms"), ("queue", "100ms"), ("prefill", "200ms")):
        parser.add_argument(f"--{name}", type=duration, default=duration(value))
    asked = parser.parse_args(arguments)
    schedule = Schedule(
        events=asked.events,
        every_ns=asked.every,
        queue_ns=asked.queue,
        prefill_ns=asked.prefill,
        framing=asked.framing,
        server=asked.server,
    )
    kernel.go_ahead()
    asyncio.run(serve(asked.host, asked.port, schedule, asked.stamps))


if __name__ == "__main__":
    main()
