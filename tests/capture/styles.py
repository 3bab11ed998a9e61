"""Every way people use the SDKs, each giving back all it saw, for laying two runs side by side."""

from collections.abc import Callable, Iterable
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


def o_manager(client: Any) -> Any:
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
    "manager": (o_manager, bodies.chat_stream),
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


def a_manager(client: Any) -> Any:
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
    "manager": (a_manager, bodies.message_stream),
    "raw": (a_raw, bodies.message),
    "raw stream": (a_raw_stream, bodies.message_stream),
    "streaming bytes": (a_streaming_bytes, bodies.message_stream),
    "break": (a_break, bodies.message_stream),
    "break in with": (a_break_in_with, bodies.message_stream),
    "close": (a_close, bodies.message_stream),
    "error": (a_error, lambda: bodies.refused(400)),
    "cut": (a_cut, lambda: cut_stream(bodies.MESSAGE_PARTS)),
}
