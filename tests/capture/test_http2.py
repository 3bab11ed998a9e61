"""HTTP/2: streams of one connection are told apart, and the connection is told to be one."""

from typing import Any

import httpx2
import pytest

from latscope.capture.instrument import attach
from latscope.recording import Recording
from tests.capture import bodies, clients, styles
from tests.capture.h2server import serving_h2


def transport(kind: type[Any]) -> Any:
    return kind(http1=False, http2=True)


def test_two_streams_share_a_connection() -> None:
    """Two overlapping requests: own reads each, one connection id, HTTP/2 on both."""
    recordings: list[Recording] = []
    with (
        serving_h2([b"one", b"two"], [b"three"]) as url,
        httpx2.Client(transport=transport(httpx2.HTTPTransport)) as client,
    ):
        attach(client, done=recordings.append)
        with client.stream("GET", url) as first:
            assert client.get(url).content == b"three"
            assert b"".join(first.iter_raw()) == b"onetwo"
            assert "stream_id" in first.extensions
    inner, outer = (recording.attempts[0] for recording in recordings)
    assert inner.connection is not None
    assert outer.connection is not None
    assert inner.connection.http == outer.connection.http == "HTTP/2"
    assert inner.connection.id == outer.connection.id
    assert (outer.connection.reused, inner.connection.reused) == (False, True)
    # The frame that only ends the stream is a read of nothing.
    assert (inner.wire, outer.wire) == ((b"three", b""), (b"one", b"two", b""))


@pytest.mark.parametrize("instrumented", [False, True])
async def test_the_sdk_sees_http2_through_the_wrapper(instrumented: bool) -> None:
    """openai skips its drain on HTTP/2 by looking at the response: the version is still there."""
    import openai

    recordings: list[Recording] = []
    with serving_h2(bodies.CHAT_PARTS) as url:
        library = clients.library_of(openai)
        http = library.AsyncClient(transport=transport(library.AsyncHTTPTransport))
        client: Any = openai.AsyncOpenAI(api_key=clients.KEY, base_url=url, http_client=http)
        async with client:
            if instrumented:
                attach(client, done=recordings.append)
            stream = await client.chat.completions.create(**styles.CHAT, stream=True)
            assert stream.response.http_version == "HTTP/2"
            assert len([event async for event in stream]) == len(bodies.CHAT_PARTS) - 1
            assert len(clients.pool_state(client)) == 1
            assert "IDLE" in clients.pool_state(client)[0]
    assert len(recordings) == int(instrumented)
