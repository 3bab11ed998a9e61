"""The ways of `styles`, for asynchronous clients of either SDK, and cancelling in the midst."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from tests.capture import bodies
from tests.capture.scripted import Reply, chunk, stream_head
from tests.capture.styles import cut_stream, response_shape, shape


async def _all(stream: Any) -> list[Any]:
    return [shape(event) async for event in stream]


async def s_create(api: Any, kw: Any) -> Any:
    return shape(await api.create(**kw))


async def s_stream(api: Any, kw: Any) -> Any:
    stream = await api.create(**kw, stream=True)
    return [type(stream), await _all(stream), response_shape(stream.response)]


async def s_raw(api: Any, kw: Any) -> Any:
    raw = await api.with_raw_response.create(**kw)
    parsed = raw.parse()
    if asyncio.iscoroutine(parsed):
        parsed = await parsed
    return [type(raw), response_shape(raw.http_response), shape(parsed)]


async def s_raw_stream(api: Any, kw: Any) -> Any:
    raw = await api.with_raw_response.create(**kw, stream=True)
    stream = raw.parse()
    if asyncio.iscoroutine(stream):
        stream = await stream
    return [type(raw), await _all(stream)]


async def s_streaming_bytes(api: Any, kw: Any) -> Any:
    async with api.with_streaming_response.create(**kw, stream=True) as raw:
        parts = [part async for part in raw.iter_bytes()]
        return [type(raw), parts, response_shape(raw.http_response)]


async def s_streaming_parse(api: Any, kw: Any) -> Any:
    async with api.with_streaming_response.create(**kw, stream=True) as raw:
        return await _all(await raw.parse())


async def s_break(api: Any, kw: Any) -> Any:
    stream = await api.create(**kw, stream=True)
    seen = []
    async for event in stream:
        seen.append(shape(event))
        break
    await stream.close()
    return [seen, response_shape(stream.response)]


async def s_break_in_with(api: Any, kw: Any) -> Any:
    seen = []
    async with await api.create(**kw, stream=True) as stream:
        async for event in stream:
            seen.append(shape(event))
            break
    return [seen, response_shape(stream.response)]


async def s_close(api: Any, kw: Any) -> Any:
    stream = await api.create(**kw, stream=True)
    await stream.close()
    await stream.close()
    return response_shape(stream.response)


async def s_error(api: Any, kw: Any) -> Any:
    try:
        await api.create(**kw)
    except Exception as error:
        return [type(error), str(error)]
    return None


async def s_cut(api: Any, kw: Any) -> Any:
    seen = []
    try:
        async for event in await api.create(**kw, stream=True):
            seen.append(shape(event))  # noqa: PERF401 - what came before the error counts
    except Exception as error:
        return [seen, type(error), type(error.__cause__), str(error)]
    return seen


async def s_cancel_read(api: Any, kw: Any) -> Any:
    seen: list[Any] = []
    got = asyncio.Event()

    async def consume() -> None:
        async with await api.create(**kw, stream=True) as stream:
            async for event in stream:
                seen.append(shape(event))
                got.set()

    task = asyncio.create_task(consume())
    await got.wait()
    await asyncio.sleep(0)  # the consumer asks for the next chunk, which never comes
    return [await _cancelled(task), seen]


async def s_cancel_consumer(api: Any, kw: Any) -> Any:
    seen: list[Any] = []
    got = asyncio.Event()

    async def consume() -> None:
        async with await api.create(**kw, stream=True) as stream:
            async for event in stream:
                seen.append(shape(event))
                got.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await got.wait()
    return [await _cancelled(task), seen]


async def s_deadline(api: Any, kw: Any) -> Any:
    seen: list[Any] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2), await api.create(**kw, stream=True) as stream:
            async for event in stream:
                seen.append(shape(event))  # noqa: PERF401 - what came before the error counts
    return [seen, response_shape(stream.response)]


async def _cancelled(task: "asyncio.Task[Any]") -> str:
    task.cancel()
    try:
        await task
    except BaseException as error:
        return f"{type(error).__qualname__} {error.args}"
    return "not cancelled"


def stalled(parts: list[bytes]) -> Reply:
    """Some of the stream, then silence."""
    return [stream_head(), chunk(parts[0]), threading.Event()]


Async = Callable[[Any, Any], Awaitable[Any]]


ASYNC: dict[str, tuple[Async, str]] = {
    "create": (s_create, "whole"),
    "stream": (s_stream, "stream"),
    "raw": (s_raw, "whole"),
    "raw stream": (s_raw_stream, "stream"),
    "streaming bytes": (s_streaming_bytes, "stream"),
    "streaming parse": (s_streaming_parse, "stream"),
    "break": (s_break, "stream"),
    "break in with": (s_break_in_with, "stream"),
    "close": (s_close, "stream"),
    "error": (s_error, "refused"),
    "cut": (s_cut, "cut"),
    "cancel in read": (s_cancel_read, "stalled"),
    "cancel in consumer": (s_cancel_consumer, "stalled"),
    "deadline": (s_deadline, "stalled"),
}


REPLIES: dict[str, dict[str, Callable[[], Reply]]] = {
    "openai": {
        "whole": bodies.chat,
        "stream": bodies.chat_stream,
        "refused": lambda: bodies.refused(400),
        "cut": lambda: cut_stream(bodies.CHAT_PARTS),
        "stalled": lambda: stalled(bodies.CHAT_PARTS),
    },
    "anthropic": {
        "whole": bodies.message,
        "stream": bodies.message_stream,
        "refused": lambda: bodies.refused(400),
        "cut": lambda: cut_stream(bodies.MESSAGE_PARTS),
        "stalled": lambda: stalled(bodies.MESSAGE_PARTS),
    },
}
