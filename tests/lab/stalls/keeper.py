"""A hop that passes everything at once, but keeps what comes when a plan says so.

    python -m tests.lab.stalls.keeper --host H --port P --upstream P --stamps FILE

Of each call one JSON line: `id` and `kept`, the stretches in which it kept what came.
"""

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

from latscope.units import Ns, S
from tests.lab import kernel
from tests.lab.stalls.plans import Plan
from tests.lab.stalls.server import plan_in

PIECE = 65536


async def pass_back(
    plan: Plan, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> list[tuple[Ns, Ns]]:
    """Pass the answer on; gives when it was kept."""
    holds = {fault.index: fault.ns for fault in plan.faults if fault.kind == "proxy_hold"}
    events, kept = 0, []
    while data := await reader.read(PIECE):
        seen = events + data.count(b'"content": "w')
        due = [ns for index, ns in holds.items() if events <= index < seen]
        events = seen
        if due:
            begin = time.monotonic_ns()
            await asyncio.sleep(due[0] / S)
            kept.append((begin, time.monotonic_ns()))
        writer.write(data)
        await writer.drain()
        if data.endswith(b"0\r\n\r\n"):
            break
    return kept


async def serve(host: str, port: int, upstream: int, out: Path) -> None:
    """Serve until killed; a connection of its own for each call."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            plan = plan_in(head)
            back, there = await asyncio.open_connection(host, upstream)
            there.write(head + await reader.read(PIECE))
            kept = await pass_back(plan, back, writer)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"id": plan.id, "kept": kept}) + "\n")
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            for end in (there, writer):
                with contextlib.suppress(ConnectionError, AttributeError):
                    end.close()  # type: ignore[union-attr]

    server = await asyncio.start_server(one, host, port, limit=1 << 20)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str] | None = None) -> None:
    """Be the hop."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.stalls.keeper")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", type=int, required=True)
    parser.add_argument("--stamps", type=Path, required=True)
    asked = parser.parse_args(arguments)
    kernel.go_ahead()
    asyncio.run(serve(asked.host, asked.port, asked.upstream, asked.stamps))


if __name__ == "__main__":
    main()
