"""What only latscope can be asked: the time inside its wrapper, the loop's lag while the worker
drains, the memory of open streams, the worker's own work.

`python -m benchmarks.overhead.inside WHAT PORT` prints one line of JSON. In a process of its own,
for each measurement wants a fresh heap.
"""

import asyncio
import gc
import json
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from statistics import median
from typing import Any

import httpx2

import latscope
from benchmarks.overhead.server import chat
from benchmarks.overhead.subject import providers
from latscope.export.otel.sink import OTelSink
from latscope.middleware import worker

PATH = "/v1/chat/completions"
HEADERS = {"content-type": "text/event-stream"}


def percentile(values: list[int], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def asked(model: str) -> bytes:
    return json.dumps({"model": model, "messages": [], "stream": True}).encode()


# -- the wrapper -----------------------------------------------------------------------------------


class Leaving(httpx2.SyncByteStream):
    """Notes when each read leaves the stream inside."""

    def __init__(self, inner: Any, left: list[int]) -> None:
        self._inner, self._left = inner, left

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._inner:
            self._left.append(time.perf_counter_ns())
            yield chunk

    def close(self) -> None:
        self._inner.close()


class Noting(httpx2.BaseTransport):
    def __init__(self, left: list[int]) -> None:
        self._real, self._left = httpx2.HTTPTransport(), left

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._real.handle_request(request)
        response.stream = Leaving(response.stream, self._left)
        return response


def hops(client: httpx2.Client, left: list[int], url: str, calls: int, model: str) -> list[int]:
    """From the return of the inner read to that of the outer, ns each."""
    found: list[int] = []
    for _ in range(calls):
        left.clear()
        with client.stream("POST", url, content=asked(model)) as response:
            came = [time.perf_counter_ns() for _ in response.stream]  # type: ignore[union-attr]
        found += [there - here for here, there in zip(left, came, strict=True)]
        latscope.flush(60)
    return found


def wrapper(port: int) -> dict[str, float]:
    """Over real sockets, reads 2 ms apart so that the kernel is asked as in production; and without
    us, for what the two generators and the clock cost themselves."""
    url = f"http://127.0.0.1:{port}{PATH}"
    found: dict[str, list[int]] = {"bare": [], "latscope": []}
    left: list[int] = []
    clients = {name: httpx2.Client(transport=Noting(left), timeout=60) for name in found}
    latscope.instrument(clients["latscope"])
    for number in range(7):
        for name, client in clients.items():
            values = hops(client, left, url, 2, "chunks-300-gap-1000")
            if number:
                found[name] += values
    return {
        "wrapper_p50_us": percentile(found["latscope"], 0.5) / 1e3,
        "wrapper_p99_us": percentile(found["latscope"], 0.99) / 1e3,
        "wrapper_p999_us": percentile(found["latscope"], 0.999) / 1e3,
        "wrapper_bare_p99_us": percentile(found["bare"], 0.99) / 1e3,
        "wrapper_reads": len(found["latscope"]),
    }


# -- the loop --------------------------------------------------------------------------------------

TICK_S = 0.001


class Given(httpx2.AsyncByteStream):
    def __init__(self, events: list[bytes]) -> None:
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield event


async def ticks(seconds: float) -> list[int]:
    """How late each tick of the loop came, ns."""
    late: list[int] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        due = time.perf_counter_ns() + int(TICK_S * 1e9)
        await asyncio.sleep(TICK_S)
        late.append(time.perf_counter_ns() - due)
    return late


def sinks(otel: bool) -> list[Any]:
    found: list[Any] = [latscope.JSONLSink("/dev/null")]
    if otel:
        tracing, metering, _ = providers()
        found.append(OTelSink(tracer_provider=tracing, meter_provider=metering))
    return found


async def lags(
    rounds: int, calls: int, chunks: int, *, otel: bool
) -> tuple[list[float], list[float], int]:
    """p99 of the lag of each round, idle and while the worker drains `calls` calls; ticks seen."""
    events = chat(chunks)
    answer = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers=HEADERS, stream=Given(events))
    )
    idle: list[float] = []
    draining: list[float] = []
    seen = 0
    async with httpx2.AsyncClient(transport=answer) as client:
        latscope.instrument(client, sink=sinks(otel))
        for number in range(rounds + 1):
            quiet = await ticks(0.5)
            for _ in range(calls):
                await client.post(f"http://x{PATH}", content=asked("m"))
            busy: list[int] = []
            while worker.current().pending:
                busy += await ticks(0.02)
            if number:
                idle.append(percentile(quiet, 0.99))
                draining.append(percentile(busy, 0.99))
                seen += len(busy)
    return idle, draining, seen


def lag(port: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for otel, name in ((False, "lag"), (True, "lag_otel")):
        idle, draining, seen = asyncio.run(lags(9, 60, 400, otel=otel))
        added = median(b - a for a, b in zip(idle, draining, strict=True))
        found |= {
            f"{name}_idle_p99_ms": median(idle) / 1e6,
            f"{name}_draining_p99_ms": median(draining) / 1e6,
            f"{name}_added_p99_ms": added / 1e6,
            f"{name}_ticks": seen,
        }
    return found


# -- the work itself -------------------------------------------------------------------------------


def work(port: int) -> dict[str, float]:
    """What the worker does a chunk, us of processor time, at a stretch and with nobody beside it:
    masked and kept in memory, with a JSONL file, with OpenTelemetry besides."""
    events = chat(400)
    answer = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers=HEADERS, stream=Plain(events))
    )
    jobs: list[worker.Job] = []

    def offer(job: worker.Job, *, weight: int = 0) -> bool:
        jobs.append(job)
        return True

    worker.current().offer = offer  # type: ignore[method-assign]
    found: dict[str, float] = {}
    for name, kept in (("memory", None), ("jsonl", sinks(False)), ("both", sinks(True))):
        with httpx2.Client(transport=answer) as client:
            latscope.instrument(client, sink=kept)
            took = [_drained(client, jobs) / len(events) for _ in range(40)]
        found[f"work_{name}_us"] = median(took[5:]) / 1e3
    return found


def _drained(client: httpx2.Client, jobs: list[worker.Job]) -> int:
    client.post(f"http://x{PATH}", content=asked("m"))
    began = time.process_time_ns()
    for job in jobs:
        for _ in job():
            pass
    jobs.clear()
    return time.process_time_ns() - began


# -- memory ----------------------------------------------------------------------------------------


def held(client: httpx2.Client, streams: int, reads: int) -> tuple[float, Any]:
    """Bytes a stream that is open and so far read; and what keeps them open."""
    opened: list[tuple[httpx2.Response, Iterator[bytes]]] = []
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(streams):
        request = client.build_request("POST", f"http://x{PATH}", content=asked("m"))
        response = client.send(request, stream=True)
        source = response.iter_raw()
        for _ in range(reads):
            next(source)
        opened.append((response, source))
        worker.current().flush(60)
    gc.collect()
    return (tracemalloc.get_traced_memory()[0] - before) / streams, opened


class Plain(httpx2.SyncByteStream):
    def __init__(self, events: list[bytes]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[bytes]:
        for event in self._events:
            yield bytes(bytearray(event))  # as off a socket: an object of its own


def packed(client: httpx2.Client) -> int:
    """Bytes of the masked, packed copies of what is open."""
    from latscope.middleware.body import Body

    return sum(
        len(piece) for one in gc.get_objects() if isinstance(one, Body) for piece in one._packed
    )


def memory(port: int) -> dict[str, float]:
    streams, reads = 40, 4000
    events = chat(reads + 10)
    answer = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers=HEADERS, stream=Plain(events))
    )
    found: dict[str, float] = {}
    tracemalloc.start()
    with httpx2.Client(transport=answer) as bare, httpx2.Client(transport=answer) as ours:
        latscope.instrument(ours)
        for client in (bare, ours):
            held(client, 1, 1000)
        latscope.flush(60)
        plain, opened = held(bare, streams, reads)
        del opened
        watched, opened = held(ours, streams, reads)
        copy = packed(ours) / streams
        del opened
        found["stream_bytes"] = watched - plain
        found["stream_copy_bytes"] = copy
        found["stream_most_bytes"] = 64 * 1024 + 32 * reads + copy
        found["stream_reads"] = reads
        found |= abandoned(ours)
    return found


def abandoned(client: httpx2.Client) -> dict[str, float]:
    """What stays of streams that were opened, read a little and dropped: the growth from the
    2,000th to the 12,000th, once the calls kept in memory are full."""
    levels: list[int] = []
    latscope.instrument(client, sink=lambda recording: None)
    for count in range(1, 12_001):
        request = client.build_request("POST", f"http://x{PATH}", content=asked("m"))
        source = client.send(request, stream=True).iter_raw()
        next(source)
        del source
        if count % 500 == 0:
            latscope.flush(60)
            gc.collect()
            if count >= 2000:
                levels.append(tracemalloc.get_traced_memory()[0])
    return {"abandoned": 10_000, "abandoned_growth_bytes": levels[-1] - levels[0]}


MEASURES = {"wrapper": wrapper, "lag": lag, "memory": memory, "work": work}

if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](int(sys.argv[2]))), flush=True)
