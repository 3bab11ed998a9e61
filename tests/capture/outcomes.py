"""Every way a stream can end, driven through the SDKs: what the caller sees, and the pool after.

A way is played twice, without us and with us; what it gives back must be the same.
"""

import asyncio
import contextlib
import gc
import importlib
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.capture import bodies, clients, styles
from tests.capture.scripted import Close, Reply, Reset, ScriptedServer, chunk, stream_head

Sync = Callable[[Any, ScriptedServer], Any]
Async = Callable[[Any, ScriptedServer], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Way:
    """play: drives a client and gives back what was seen. reply: the server's answers, by the
    SDK's stream parts. ends: what the recording may say (`End.reason`); status: the attribution's;
    attempts: HTTP exchanges."""

    play: Any
    reply: Callable[[list[bytes]], list[Reply]]
    ends: frozenset[str]
    status: frozenset[str]
    attempts: int = 1


def way(play: Any, reply: Any, ends: str, status: str, attempts: int = 1) -> Way:
    return Way(
        play=play,
        reply=reply,
        ends=frozenset(ends.split()),
        status=frozenset(status.split()),
        attempts=attempts,
    )


def whole(parts: list[bytes]) -> list[Reply]:
    return [[stream_head(), *(chunk(part) for part in parts), b"0\r\n\r\n"]]


def stalled(parts: list[bytes]) -> list[Reply]:
    """Three parts, then silence."""
    return [[stream_head(), *(chunk(part) for part in parts[:3]), threading.Event()]]


def silent(parts: list[bytes]) -> list[Reply]:
    """Not even headers."""
    return [[threading.Event()]]


def reset(parts: list[bytes]) -> list[Reply]:
    return [[stream_head(), *(chunk(part) for part in parts[:3]), Reset]]


def cut(parts: list[bytes]) -> list[Reply]:
    return [[stream_head(), *(chunk(part) for part in parts[:3]), Close]]


def refused_first(parts: list[bytes]) -> list[Reply]:
    return [bodies.refused(429, retry_after_ms="1"), *whole(parts)]


def arguments(client: Any) -> dict[str, Any]:
    return styles.CHAT if hasattr(client, "chat") else styles.MESSAGE


def parts_of(client: Any) -> list[bytes]:
    return bodies.CHAT_PARTS if hasattr(client, "chat") else bodies.MESSAGE_PARTS


def opened(client: Any) -> Any:
    return clients.api(client).create(**arguments(client), stream=True)


def exhausted(client: Any, server: ScriptedServer) -> Any:
    return styles.shapes(opened(client))


def broken_out_of(client: Any, server: ScriptedServer) -> Any:
    for event in opened(client):
        return styles.shape(event)
    return None


def left_in_with(client: Any, server: ScriptedServer) -> Any:
    with opened(client) as stream:
        for event in stream:
            return styles.shape(event)
    return None


def raised_in_with(client: Any, server: ScriptedServer) -> Any:
    try:
        with opened(client) as stream:
            next(stream)
            raise KeyError("the caller's own")
    except KeyError as error:
        return repr(error)


def closed(client: Any, server: ScriptedServer) -> Any:
    stream = opened(client)
    first = styles.shape(next(stream))
    stream.close()
    stream.close()
    return first


def never_iterated(client: Any, server: ScriptedServer) -> Any:
    return type(opened(client)).__name__


def collected(client: Any, server: ScriptedServer) -> Any:
    stream = opened(client)
    first = styles.shape(next(stream))
    del stream
    gc.collect()
    return first


def fails(client: Any, server: ScriptedServer) -> Any:
    seen: list[Any] = []
    try:
        for event in opened(client):
            seen.append(styles.shape(event))  # noqa: PERF401 - what came before the error counts
    except Exception as error:
        return seen, type(error), type(error.__cause__)
    return seen


def impatient(client: Any) -> Any:
    """A copy that waits half a second for each read, and long for a connection."""
    http = type(client._client)
    roots = [base.__module__.partition(".")[0] for base in http.__mro__]
    library = importlib.import_module("httpx2" if "httpx2" in roots else "httpx")
    return client.with_options(timeout=library.Timeout(20, read=0.5))


def timed_out(client: Any, server: ScriptedServer) -> Any:
    return fails(impatient(client), server)


def retried(client: Any, server: ScriptedServer) -> Any:
    return exhausted(client.with_options(max_retries=1), server)


SYNC: Mapping[str, Way] = {
    "exhausted": way(exhausted, whole, "complete closed", "complete"),
    "broken out of": way(broken_out_of, stalled, "closed abandoned", "cancelled"),
    "left in with": way(left_in_with, stalled, "closed", "cancelled"),
    "raised in with": way(raised_in_with, stalled, "closed", "cancelled"),
    "closed": way(closed, stalled, "closed", "cancelled"),
    "never iterated": way(never_iterated, stalled, "abandoned", "cancelled"),
    "garbage collected": way(collected, stalled, "abandoned closed", "cancelled"),
    "timed out": way(timed_out, stalled, "error", "cut error"),
    "timed out before headers": way(timed_out, silent, "error", "error"),
    "reset midway": way(fails, reset, "error", "cut error"),
    "cut midway": way(fails, cut, "error", "cut error"),
    "retried": way(retried, refused_first, "complete closed", "complete", attempts=2),
}


async def a_exhausted(client: Any, server: ScriptedServer) -> Any:
    return [styles.shape(event) async for event in await opened(client)]


async def a_broken_out_of(client: Any, server: ScriptedServer) -> Any:
    async for event in await opened(client):
        return styles.shape(event)
    return None


async def a_left_in_with(client: Any, server: ScriptedServer) -> Any:
    async with await opened(client) as stream:
        async for event in stream:
            return styles.shape(event)
    return None


async def a_closed(client: Any, server: ScriptedServer) -> Any:
    stream = await opened(client)
    first = styles.shape(await stream.__anext__())
    await stream.close()
    await stream.close()
    return first


async def a_never_iterated(client: Any, server: ScriptedServer) -> Any:
    return type(await opened(client)).__name__


async def a_fails(client: Any, server: ScriptedServer) -> Any:
    seen: list[Any] = []
    try:
        async for event in await opened(client):
            seen.append(styles.shape(event))  # noqa: PERF401 - what came before the error counts
    except Exception as error:
        return seen, type(error), type(error.__cause__)
    return seen


async def a_timed_out(client: Any, server: ScriptedServer) -> Any:
    return await a_fails(impatient(client), server)


async def a_retried(client: Any, server: ScriptedServer) -> Any:
    return await a_exhausted(client.with_options(max_retries=1), server)


async def cancelled(task: "asyncio.Task[Any]", times: int = 1) -> str:
    """Cancels a task, so often in a row, and says how it ended."""
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    try:
        await task
    except BaseException as error:
        return f"{type(error).__qualname__} {error.args}"
    return "not cancelled"


async def cancelled_before_headers(client: Any, server: ScriptedServer, times: int = 1) -> Any:
    async def call() -> None:
        await opened(client)

    task = asyncio.create_task(call())
    await asyncio.to_thread(server.arrived.acquire, timeout=10)
    return await cancelled(task, times)


async def cancelled_in_a_read(client: Any, server: ScriptedServer, times: int = 1) -> Any:
    seen: list[Any] = []
    last = asyncio.Event()

    async def consume() -> None:
        async for event in await opened(client):
            seen.append(styles.shape(event))
            last.set()

    task = asyncio.create_task(consume())
    await last.wait()
    for _ in range(3):  # it takes what is there, and asks for what never comes
        await asyncio.sleep(0.01)
    return await cancelled(task, times), seen


async def cancelled_twice_before_headers(client: Any, server: ScriptedServer) -> Any:
    return await cancelled_before_headers(client, server, 2)


async def cancelled_twice_in_a_read(client: Any, server: ScriptedServer) -> Any:
    return await cancelled_in_a_read(client, server, 2)


async def cancelled_while_consuming(client: Any, server: ScriptedServer) -> Any:
    got = asyncio.Event()

    async def consume() -> None:
        async for _ in await opened(client):
            got.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await got.wait()
    return await cancelled(task)


async def past_a_deadline(client: Any, server: ScriptedServer) -> Any:
    seen: list[Any] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.3):
            async for event in await opened(client):
                seen.append(styles.shape(event))  # noqa: PERF401 - what came before counts
    return seen


ASYNC: Mapping[str, Way] = {
    "exhausted": way(a_exhausted, whole, "complete closed", "complete"),
    "broken out of": way(a_broken_out_of, stalled, "closed abandoned", "cancelled"),
    "left in with": way(a_left_in_with, stalled, "closed abandoned", "cancelled"),
    "closed": way(a_closed, stalled, "closed", "cancelled"),
    "never iterated": way(a_never_iterated, stalled, "abandoned", "cancelled"),
    "timed out": way(a_timed_out, stalled, "error", "cut error"),
    "timed out before headers": way(a_timed_out, silent, "error", "error"),
    "reset midway": way(a_fails, reset, "error", "cut error"),
    "cut midway": way(a_fails, cut, "error", "cut error"),
    "retried": way(a_retried, refused_first, "complete closed", "complete", attempts=2),
    "cancelled before headers": way(cancelled_before_headers, silent, "cancelled", "cancelled"),
    "cancelled during a read": way(cancelled_in_a_read, stalled, "cancelled", "cancelled"),
    "cancelled while consuming": way(
        cancelled_while_consuming, stalled, "cancelled closed abandoned", "cancelled"
    ),
    "cancelled twice before headers": way(
        cancelled_twice_before_headers, silent, "cancelled", "cancelled"
    ),
    "cancelled twice during a read": way(
        cancelled_twice_in_a_read, stalled, "cancelled", "cancelled"
    ),
    "past a deadline": way(past_a_deadline, stalled, "cancelled closed", "cancelled"),
}
