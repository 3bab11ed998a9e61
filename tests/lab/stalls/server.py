"""A scripted server: it answers each call by the plan in its `x-lab-plan` header.

    python -m tests.lab.stalls.server --host H --port P --stamps FILE [--control SOCKET]

Of each call one JSON line: `id`, `exists` (when each event was made, by the plan), `sent` (just
before its write) and `ends` (the bytes of the answer up to its end). A pause makes all that follow
later; a flush fault keeps what is made meanwhile. Just before the event at whose place the path has
a fault, the path is told.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from latscope.units import MS, Ns, S
from tests.lab import kernel
from tests.lab.stalls.plans import Plan, from_mapping
from tests.lab.upstream import chunk, usage

FIRST: Ns = 100 * MS
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nserver: uvicorn\r\n"
HEAD += b"transfer-encoding: chunked\r\n\r\n"


async def answer(
    plan: Plan, writer: asyncio.StreamWriter, tell: "Teller", stamps: dict[str, Any]
) -> None:
    """Play one plan and stamp it."""
    writer.write(HEAD)
    stamps["bytes"] = len(HEAD)
    begin = time.monotonic_ns() + FIRST
    cues = {fault.index: fault for fault in plan.faults}
    kept: list[bytes] = []
    flush_at = 0
    for index, (offset, words) in enumerate(zip(plan.offsets, plan.words, strict=True)):
        fault = cues.get(index)
        if fault is not None and fault.kind == "server_pause":
            begin += fault.ns
        due = begin + offset
        if kept and flush_at <= due:
            await _until(flush_at)
            _write(writer, kept, stamps)
        await _until(due)
        stamps["exists"].append(due)
        if fault is not None and fault.kind in ("packet_loss", "path_delay"):
            tell(fault.how)
        if fault is not None and fault.kind == "server_flush":
            flush_at = due + fault.ns
        kept.append(chunk({"content": f"w{index} " * words}))
        following = plan.offsets[index + 1 : index + 2]
        if due >= flush_at and following != (offset,):  # events of one step leave together
            _write(writer, kept, stamps)
    if kept:
        await _until(flush_at)
        _write(writer, kept, stamps)
    data = chunk({}, "stop") + usage(sum(plan.words)) + b"data: [DONE]\n\n"
    writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))
    await writer.drain()


def _write(writer: asyncio.StreamWriter, kept: list[bytes], stamps: dict[str, Any]) -> None:
    stamps["sent"] += [time.monotonic_ns()] * len(kept)
    data = b"".join(kept)
    framed = b"%x\r\n%b\r\n" % (len(data), data)
    stamps["bytes"] += len(framed)
    stamps["ends"] += [stamps["bytes"]] * len(kept)
    writer.write(framed)
    kept.clear()


async def _until(ns: Ns) -> None:
    await asyncio.sleep(max(0, ns - time.monotonic_ns()) / S)


class Teller:
    """Tells the path what to do, and does not wait for its answer."""

    def __init__(self, control: str) -> None:
        self._control = control
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("")  # a name of the kernel's choice: the path wants to answer
        self._socket.setblocking(False)

    def __call__(self, commands: str) -> None:
        """Send commands, parted by semicolons."""
        for command in commands.split(";"):
            with contextlib.suppress(BlockingIOError):
                self._socket.recv(4096)  # the last answer, so that they do not pile up
            self._socket.sendto(command.encode(), self._control)


def plan_in(head: bytes) -> Plan:
    """Read the plan off a request's head."""
    lines = head.decode("latin-1").split("\r\n")
    text = next(line for line in lines if line.lower().startswith("x-lab-plan:"))
    return from_mapping(json.loads(text.partition(":")[2]))


async def serve(host: str, port: int, out: Path, tell: Teller) -> None:
    """Serve until killed."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                )
                await reader.readexactly(size)
                plan = plan_in(head)
                stamps: dict[str, Any] = {"id": plan.id, "exists": [], "sent": [], "ends": []}
                await answer(plan, writer, tell, stamps)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(stamps) + "\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(one, host, port, limit=1 << 20)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Be the server."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.stalls.server")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--stamps", type=Path, required=True)
    parser.add_argument("--control", required=True)
    asked = parser.parse_args(arguments)
    kernel.go_ahead()
    asyncio.run(serve(asked.host, asked.port, asked.stamps, Teller(asked.control)))


if __name__ == "__main__":
    main()
