"""Every way people use the SDKs, each giving back all it saw, for laying two runs side by side."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import BaseModel

from tests.capture import bodies
from tests.capture.scripted import Close, Reply, chunk, stream_head


class Word(BaseModel):
    word: str


def shape(value: Any) -> Any:
    """What can be compared of a value: its exact type and what it holds."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return (kind, value.model_dump(warnings=False) if isinstance(value, BaseModel) else repr(value))


def shapes(values: Iterable[Any]) -> list[Any]:
    return [shape(value) for value in values]


def response_shape(response: Any) -> Any:
    """An HTTP response, as far as a caller can look at it."""
    kind = f"{type(response).__module__}.{type(response).__qualname__}"
    elapsed = type(response.elapsed).__name__ if response.is_closed else None
    return (
        kind,
        response.status_code,
        response.http_version,
        sorted(response.headers.items()),
        sorted(response.extensions),
        sorted(response.request.extensions),
        response.is_closed,
        elapsed,
    )


CHAT = {"model": "tiny", "messages": bodies.MESSAGES}
MESSAGE = {"model": "tiny", "max_tokens": 5, "messages": bodies.MESSAGES}


def cut_stream(parts: list[bytes]) -> Reply:
    return [stream_head(), chunk(parts[0]), chunk(parts[1]), Close]


# -- openai, sync


def o_create(client: Any) -> Any:
    return shape(client.chat.completions.create(**CHAT))


def o_stream(client: Any) -> Any:
    stream = client.chat.completions.create(**CHAT, stream=True)
    return [type(stream), shapes(stream), response_shape(stream.response)]


def o_next(client: Any) -> Any:
    stream = client.chat.completions.create(**CHAT, stream=True)
    first = shape(next(stream))
    return [first, shapes(stream), response_shape(stream.response)]


def o_helper(client: Any) -> Any:
    with client.chat.completions.stream(**CHAT) as stream:
        events = [event.type for event in stream]
        return [type(stream), events, shape(stream.get_final_completion())]


def o_raw(client: Any) -> Any:
    raw = client.chat.completions.with_raw_response.create(**CHAT)
    return [type(raw), raw.text, response_shape(raw.http_response), shape(raw.parse())]


def o_raw_stream(client: Any) -> Any:
    raw = client.chat.completions.with_raw_response.create(**CHAT, stream=True)
    return [type(raw), sorted(raw.headers.items()), shapes(raw.parse())]


def o_streaming_bytes(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as raw:
        return [type(raw), list(raw.iter_bytes()), response_shape(raw.http_response)]


def o_streaming_lines(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT) as raw:
        return [type(raw), list(raw.iter_lines())]


def o_streaming_parse(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as raw:
        return shapes(raw.parse())


def o_parse(client: Any) -> Any:
    return shape(client.chat.completions.parse(**CHAT, response_format=Word))


def o_break(client: Any) -> Any:
    stream = client.chat.completions.create(**CHAT, stream=True)
    seen = []
    for event in stream:
        seen.append(shape(event))
        break
    stream.close()
    return [seen, response_shape(stream.response)]


def o_break_in_with(client: Any) -> Any:
    with client.chat.completions.create(**CHAT, stream=True) as stream:
        for event in stream:
            return [shape(event)]
    return []


def o_close(client: Any) -> Any:
    stream = client.chat.completions.create(**CHAT, stream=True)
    stream.close()
    stream.close()
    return response_shape(stream.response)


def o_error(client: Any) -> Any:
    import openai

    try:
        client.chat.completions.create(**CHAT)
    except openai.APIStatusError as error:
        return [type(error), error.status_code, error.body, str(error)]
    return None


def o_cut(client: Any) -> Any:
    seen = []
    try:
        for event in client.chat.completions.create(**CHAT, stream=True):
            seen.append(shape(event))  # noqa: PERF401 - what came before the error counts
    except Exception as error:
        return [seen, type(error), type(error.__cause__), str(error)]
    return seen


OPENAI: dict[str, tuple[Callable[[Any], Any], Callable[[], Reply]]] = {
    "create": (o_create, bodies.chat),
    "stream": (o_stream, bodies.chat_stream),
    "next": (o_next, bodies.chat_stream),
    "helper": (o_helper, bodies.chat_stream),
    "raw": (o_raw, bodies.chat),
    "raw stream": (o_raw_stream, bodies.chat_stream),
    "streaming bytes": (o_streaming_bytes, bodies.chat_stream),
    "streaming lines": (o_streaming_lines, bodies.chat),
    "streaming parse": (o_streaming_parse, bodies.chat_stream),
    "parse": (o_parse, bodies.chat),
    "break": (o_break, bodies.chat_stream),
    "break in with": (o_break_in_with, bodies.chat_stream),
    "close": (o_close, bodies.chat_stream),
    "error": (o_error, lambda: bodies.refused(400)),
    "cut": (o_cut, lambda: cut_stream(bodies.CHAT_PARTS)),
}


# -- anthropic, sync


def a_create(client: Any) -> Any:
    return shape(client.messages.create(**MESSAGE))


def a_stream(client: Any) -> Any:
    stream = client.messages.create(**MESSAGE, stream=True)
    return [type(stream), shapes(stream), response_shape(stream.response)]


def a_helper(client: Any) -> Any:
    with client.messages.stream(**MESSAGE) as stream:
        text = list(stream.text_stream)
        return [type(stream), text, shape(stream.get_final_message())]


def a_raw(client: Any) -> Any:
    raw = client.messages.with_raw_response.create(**MESSAGE)
    return [type(raw), response_shape(raw.http_response), shape(raw.parse())]


def a_raw_stream(client: Any) -> Any:
    raw = client.messages.with_raw_response.create(**MESSAGE, stream=True)
    return [type(raw), shapes(raw.parse())]


def a_streaming_bytes(client: Any) -> Any:
    with client.messages.with_streaming_response.create(**MESSAGE, stream=True) as raw:
        return [type(raw), list(raw.iter_bytes()), response_shape(raw.http_response)]


def a_break(client: Any) -> Any:
    stream = client.messages.create(**MESSAGE, stream=True)
    seen = []
    for event in stream:
        seen.append(shape(event))
        break
    stream.close()
    return [seen, response_shape(stream.response)]


def a_break_in_with(client: Any) -> Any:
    with client.messages.stream(**MESSAGE) as stream:
        for event in stream:
            return [shape(event)]
    return []


def a_close(client: Any) -> Any:
    stream = client.messages.create(**MESSAGE, stream=True)
    stream.close()
    return response_shape(stream.response)


def a_error(client: Any) -> Any:
    import anthropic

    try:
        client.messages.create(**MESSAGE)
    except anthropic.APIStatusError as error:
        return [type(error), error.status_code, error.body, str(error)]
    return None


def a_cut(client: Any) -> Any:
    seen = []
    try:
        for event in client.messages.create(**MESSAGE, stream=True):
            seen.append(shape(event))  # noqa: PERF401 - what came before the error counts
    except Exception as error:
        return [seen, type(error), type(error.__cause__), str(error)]
    return seen


ANTHROPIC: dict[str, tuple[Callable[[Any], Any], Callable[[], Reply]]] = {
    "create": (a_create, bodies.message),
    "stream": (a_stream, bodies.message_stream),
    "helper": (a_helper, bodies.message_stream),
    "raw": (a_raw, bodies.message),
    "raw stream": (a_raw_stream, bodies.message_stream),
    "streaming bytes": (a_streaming_bytes, bodies.message_stream),
    "break": (a_break, bodies.message_stream),
    "break in with": (a_break_in_with, bodies.message_stream),
    "close": (a_close, bodies.message_stream),
    "error": (a_error, lambda: bodies.refused(400)),
    "cut": (a_cut, lambda: cut_stream(bodies.MESSAGE_PARTS)),
}


# -- async, both: `create` is the SDK's create method, `kw` its arguments


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


async def _cancelled(task: "asyncio.Task[Any]") -> str:
    task.cancel()
    try:
        await task
    except BaseException as error:
        return f"{type(error).__qualname__} {error.args}"
    return "not cancelled"


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
