"""Many streams at once for long: `python benchmarks/soak.py [--seconds 1800] [--streams 200]`.

One process with an asyncio client keeps so many streams open against a scripted server in another,
each chat answer an event a chunk, and is watched by latscope with a JSONL file that rotates. Some
callers break off, some drop the stream unread, the rest read to the end and compare every byte with
what was sent. At the end: each call is in the file once and whole, none was dropped, memory did not
grow.

Prints progress, appends one JSON line to results/soak.jsonl, and exits 1 when anything is amiss.
"""

import argparse
import asyncio
import gc
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

sys.path.insert(0, str(Path(__file__).parent.parent))

import latscope
from benchmarks.overhead.server import chat, framed
from benchmarks.setting import ROOT, commit, machine
from latscope.middleware import worker

RESULTS = ROOT / "benchmarks" / "results" / "soak.jsonl"
CHUNKS, GAP_S = 100, 0.05
WARM_SHARE = 0.25
"""Of the run, before memory is expected to be level."""
MOST_GROWTH = 0.05
"""Of the level after warming up: what an allocator's own unrest may look like."""

SENT = b"".join(chat(CHUNKS))
DIGEST = hashlib.sha256(SENT).hexdigest()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each request on the connection gets the same stream, its events GAP_S apart."""
    events = [framed(event) for event in chat(CHUNKS)]
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length:")
            )
            await reader.readexactly(length)
            writer.write(HEAD)
            for event in events:
                writer.write(event)
                await writer.drain()
                await asyncio.sleep(GAP_S)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


async def serve() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@dataclass
class Seen:
    """What the callers saw."""

    calls: Counter[str] = field(default_factory=Counter)
    altered: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    rss: list[int] = field(default_factory=list)


async def caller(client: httpx2.AsyncClient, url: str, until: float, seen: Seen, seed: int) -> None:
    dice = random.Random(seed)
    await asyncio.sleep(dice.random() * CHUNKS * GAP_S)  # not all in step
    while time.monotonic() < until:
        kind = dice.choices(("read", "broken off", "unread"), (90, 8, 2))[0]
        seen.calls[kind] += 1
        try:
            await one(client, url, kind, seen)
        except Exception as error:  # counted, told at the end
            seen.failed[type(error).__name__] += 1


async def one(client: httpx2.AsyncClient, url: str, kind: str, seen: Seen) -> None:
    body = {"model": "tiny", "messages": [{"role": "user", "content": "Why?"}], "stream": True}
    request = client.build_request("POST", url, json=body)
    response = await client.send(request, stream=True)
    if kind == "unread":
        await response.aclose()
        return
    digest = hashlib.sha256()
    async for chunk in response.aiter_raw():
        digest.update(chunk)
        if kind == "broken off":
            break
    await response.aclose()
    if kind == "read" and digest.hexdigest() != DIGEST:
        seen.altered += 1


def rss() -> int:
    """Bytes of memory this process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def watch(until: float, every_s: float, seen: Seen) -> None:
    began = time.monotonic()
    while time.monotonic() < until:
        await asyncio.sleep(every_s)
        seen.rss.append(rss())
        passed = time.monotonic() - began
        print(
            f"{passed:6.0f} s: {sum(seen.calls.values())} calls, {seen.rss[-1] / 2**20:.1f} MiB, "
            f"{worker.current().pending} wait, {worker.current().dropped} dropped",
            file=sys.stderr,
            flush=True,
        )


async def soak(url: str, seconds: float, streams: int, seen: Seen, folder: Path) -> None:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=streams)
    client = httpx2.AsyncClient(limits=limits, timeout=120, trust_env=False)
    sink = latscope.JSONLSink(folder / "calls.jsonl", max_bytes=64 * 2**20)
    latscope.instrument(client, sink=sink)
    until = time.monotonic() + seconds
    async with client:
        callers = [caller(client, url, until, seen, number) for number in range(streams)]
        await asyncio.gather(watch(until, max(seconds / 60, 1.0), seen), *callers)
    gc.collect()
    latscope.flush(120)


def recorded(folder: Path) -> tuple[Counter[str], int, int]:
    """End reasons of the calls in the files, each call once; lines that are not whole; bytes."""
    ends: dict[str, str] = {}
    torn = size = 0
    for path in folder.iterdir():
        for line in path.read_bytes().splitlines():
            size += len(line) + 1
            try:
                found = json.loads(line)
            except ValueError:
                torn += 1
                continue
            ends[found["call_id"]] = found["end"]["reason"]
            attempt = found["attempts"][-1]
            whole = attempt["reads"][-1][3] == len(SENT) if attempt.get("reads") else False
            if found["end"]["reason"] == "complete" and not whole:
                torn += 1
    return Counter(ends.values()), torn, size


def grown(levels: list[int]) -> float:
    """Growth after warming up: the last third's median over the first third's."""
    level = levels[int(len(levels) * WARM_SHARE) :]
    third = max(1, len(level) // 3)
    return median(level[-third:]) / median(level[:third]) - 1


def verdict(seen: Seen, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """The figures, and what is amiss."""
    ends, torn, size = recorded(folder)
    calls, kept = sum(seen.calls.values()), sum(ends.values())
    figures: dict[str, Any] = {
        "calls": calls,
        "recorded": kept,
        "dropped": worker.current().dropped,
        "altered": seen.altered,
        "torn": torn,
        "failed": sum(seen.failed.values()),
        "ends": dict(ends),
        "bytes_a_call": round(size / max(kept, 1)),
        "rss_mib": round(seen.rss[-1] / 2**20, 1),
        "grown": round(grown(seen.rss), 4),
    }
    amiss = [name for name in ("dropped", "altered", "torn", "failed") if figures[name]]
    if kept != calls:
        amiss.append(f"{calls} calls made, {kept} recorded")
    if figures["grown"] > MOST_GROWTH:
        amiss.append(f"memory grew by {figures['grown']:.1%}")
    return figures, amiss


def save(figures: Mapping[str, Any], options: argparse.Namespace) -> None:
    line = {
        "schema": "latscope.benchmark/1",
        "name": "soak",
        "commit": commit(),
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": options.seconds,
        "streams": options.streams,
        **figures,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as results:
        results.write(json.dumps(line) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Many streams at once for long.")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
        return 0
    command = [sys.executable, __file__, "--serve"]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server,
    ):
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1/chat/completions"
        seen = Seen()
        asyncio.run(soak(url, options.seconds, options.streams, seen, Path(folder)))
        figures, amiss = verdict(seen, Path(folder))
        server.kill()
    print(json.dumps(figures, indent=1))
    save(figures, options)
    for each in amiss:
        print(f"amiss: {each}")
    return 1 if amiss else 0


if __name__ == "__main__":
    sys.exit(main())
