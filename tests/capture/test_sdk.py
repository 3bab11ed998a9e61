"""The logical call: one recording with all its attempts, whichever way the SDK was entered."""

import asyncio
import gc
import threading
from typing import Any

import openai
import pytest

from latscope.capture.instrument import attach
from latscope.recording import Recording
from tests.capture import bodies, clients, styles, styles_async
from tests.capture.scripted import Reply, chunk, serving, stream_head

SYNC = ["openai", "openai-httpx", "anthropic"]
ASYNC = ["openai-async", "openai-async-httpx", "anthropic-async"]


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def arguments(kind: str) -> dict[str, Any]:
    return styles.CHAT if kind.startswith("openai") else styles.MESSAGE


def streamed(kind: str) -> Reply:
    return bodies.chat_stream() if kind.startswith("openai") else bodies.message_stream()


def refusals() -> list[Reply]:
    return [bodies.refused(429, retry_after_ms="30"), bodies.refused(500, retry_after_ms="30")]


def assert_one_call_three_attempts(recordings: list[Recording], kind: str) -> None:
    (recording,) = recordings
    assert recording.start == "sdk"
    assert recording.sdk is not None
    assert recording.sdk.startswith(kind.partition("-")[0] + "/")
    assert [attempt.status for attempt in recording.attempts] == [429, 500, 200]
    assert [attempt.retry_count for attempt in recording.attempts] == [0, 1, 2]
    entries = [attempt.marks[0].ns for attempt in recording.attempts]
    closed = [attempt.mark("closed") for attempt in recording.attempts]
    assert all(entry > 0 for entry in entries)
    for before, after in zip(closed[:2], entries[1:], strict=True):
        assert before is not None
        assert after - before >= 30_000_000
    assert recording.attempts[2].reads
    assert recording.broken == ()
    assert recording.in_flight == 0


@pytest.mark.parametrize("kind", SYNC)
@pytest.mark.parametrize("stream", [True, False])
def test_retries_through_with_options_are_one_call(
    kind: str, stream: bool, recordings: list[Recording]
) -> None:
    """429, 500, then 200 through `with_options`: one recording, back-off between attempts."""
    last = streamed(kind) if stream else styles_async.REPLIES[kind.partition("-")[0]]["whole"]()
    with serving(*refusals(), last) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        api = clients.api(client.with_options(max_retries=3))
        result = api.create(**arguments(kind), stream=stream)
        if stream:
            list(result)
    assert_one_call_three_attempts(recordings, kind)


@pytest.mark.parametrize("kind", ASYNC)
async def test_async_retries_through_with_options_are_one_call(
    kind: str, recordings: list[Recording]
) -> None:
    """The same for asynchronous clients."""
    with serving(*refusals(), streamed(kind)) as server:
        async with clients.make(kind, server.url) as client:
            attach(client, done=recordings.append)
            api = clients.api(client.with_options(max_retries=3))
            async for _ in await api.create(**arguments(kind), stream=True):
                pass
    assert_one_call_three_attempts(recordings, kind)


@pytest.mark.parametrize("kind", SYNC)
def test_every_copy_of_a_client_is_served(kind: str, recordings: list[Recording]) -> None:
    """copy, with_options twice over, raw and streaming responses each make one hooked call."""
    whole = styles_async.REPLIES[kind.partition("-")[0]]["whole"]
    with serving(*[whole() for _ in range(4)]) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        kw = arguments(kind)
        clients.api(client.copy()).create(**kw)
        clients.api(client.with_options(timeout=9).with_options(max_retries=0)).create(**kw)
        clients.api(client.with_options(timeout=9)).with_raw_response.create(**kw)
        with clients.api(client.copy()).with_streaming_response.create(**kw) as raw:
            raw.read()
    assert [recording.start for recording in recordings] == ["sdk"] * 4
    assert [recording.end.reason for recording in recordings] == ["complete"] * 4
    assert all(recording.broken == () for recording in recordings)


def test_azure_clients_are_served(recordings: list[Recording]) -> None:
    """A subclass of the SDK's client is recognised by its bases."""
    import openai

    with serving(bodies.chat()) as server:
        client: Any = openai.AzureOpenAI(
            api_key=clients.KEY, api_version="2024-06-01", azure_endpoint=server.url
        )
        with client:
            attach(client, done=recordings.append)
            client.chat.completions.create(**styles.CHAT)
    assert [recording.start for recording in recordings] == ["sdk"]


@pytest.mark.parametrize("kind", SYNC)
def test_giving_up_ends_in_the_sdks_error(kind: str, recordings: list[Recording]) -> None:
    """Retries that run out: one recording that ends in the error the caller got."""
    with serving(*refusals()) as server, clients.make(kind, server.url, max_retries=1) as client:
        attach(client, done=recordings.append)
        with pytest.raises(Exception, match="not now") as caught:
            clients.api(client).create(**arguments(kind))
    (recording,) = recordings
    assert [attempt.status for attempt in recording.attempts] == [429, 500]
    assert (recording.end.reason, recording.end.detail) == ("error", type(caught.value).__name__)


@pytest.mark.parametrize("kind", SYNC)
def test_a_timeout_is_an_attempt(kind: str, recordings: list[Recording]) -> None:
    """Headers that never come: the attempt names the timeout, the retry follows in the call."""
    stalled: Reply = [threading.Event()]
    whole = styles_async.REPLIES[kind.partition("-")[0]]["whole"]()
    options = {"timeout": 0.3, "max_retries": 1}
    with serving(stalled, whole) as server, clients.make(kind, server.url, **options) as client:
        attach(client, done=recordings.append)
        clients.api(client).create(**arguments(kind))
    (recording,) = recordings
    first, second = recording.attempts
    assert first.error_type is not None
    assert first.error_type.endswith(".ReadTimeout")
    assert second.status == 200
    assert recording.end.reason == "complete"


@pytest.mark.parametrize("kind", ASYNC)
@pytest.mark.parametrize("phase", ["before headers", "in back-off"])
async def test_a_cancelled_call_is_recorded_once(
    kind: str, phase: str, recordings: list[Recording]
) -> None:
    """Cancelled before headers, or while the SDK sleeps between tries: cancelled, once."""
    busy = bodies.refused(429, retry_after="60")
    reply: Reply = [threading.Event()] if phase == "before headers" else busy
    with serving(reply) as server:
        async with clients.make(kind, server.url, max_retries=1) as client:
            attach(client, done=recordings.append)
            task = asyncio.create_task(clients.api(client).create(**arguments(kind)))
            await asyncio.to_thread(server.arrived.acquire, timeout=10)
            while phase == "in back-off" and client._client._transport._pool.connections != []:
                await asyncio.sleep(0.01)
                if all(c.is_idle() for c in client._client._transport._pool.connections):
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    (recording,) = recordings
    assert (recording.end.reason, recording.end.detail) == ("cancelled", "CancelledError")
    assert recording.mark("stop") == recording.mark("end")
    assert len(recording.attempts) == 1
    assert recording.attempts[0].error_type is None


@pytest.mark.parametrize("kind", ["openai-async", "openai-async-httpx"])
async def test_the_drain_after_done_reads_to_the_end(
    kind: str, recordings: list[Recording]
) -> None:
    """openai's async stream is iterated a second time to its end: complete, each byte once. The
    first releases on httpx2 close it instead, and lose the connection, with us or without."""
    pools = []
    for instrumented in (False, True):
        with serving(bodies.chat_stream()) as server:
            async with clients.make(kind, server.url) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                async for _ in await client.chat.completions.create(**styles.CHAT, stream=True):
                    pass
                pools.append(clients.pool_state(client))
    assert pools[0] == pools[1]
    drained = pools[0] != []
    (recording,) = recordings
    assert recording.end.reason == ("complete" if drained else "closed")
    assert drained or openai.__version__ == "3.0.0"
    assert b"".join(recording.attempts[0].wire or ()) == b"".join(bodies.CHAT_PARTS)


def test_a_sync_stream_closed_at_done_is_closed(recordings: list[Recording]) -> None:
    """openai's sync stream stops at [DONE] (2.x read on to the end): capture says closed, the
    content tells the rest."""
    import openai

    reads_on = openai.__version__.startswith("2.")
    with serving(bodies.chat_stream()) as server, clients.make("openai", server.url) as client:
        attach(client, done=recordings.append)
        list(client.chat.completions.create(**styles.CHAT, stream=True))
    (recording,) = recordings
    ended = (recording.end.reason, recording.end.detail)
    assert ended == (("complete", None) if reads_on else ("closed", "close"))
    assert b"".join(recording.attempts[0].wire or ()).endswith(b"[DONE]\n\n")
    assert recording.mark("end") is not None
    assert recording.mark("stop") == (None if reads_on else recording.attempts[0].mark("closed"))


def open_stream() -> Reply:
    return [stream_head(), chunk(bodies.CHAT_PARTS[0]), threading.Event()]


def test_an_abandoned_sync_stream_is_reported_once(recordings: list[Recording]) -> None:
    """Dropped in mid-stream: when the collector finds the cycle, one recording says so."""
    with serving(open_stream()) as server, clients.make("openai", server.url) as client:
        attach(client, done=recordings.append)
        stream = client.chat.completions.create(**styles.CHAT, stream=True)
        next(stream)
        gc.collect()
        assert recordings == []
        del stream
        gc.collect()
        assert len(recordings) == 1
        gc.collect()
    (recording,) = recordings
    assert recording.end.reason in ("abandoned", "closed")
    assert recording.last_ns == recording.mark("stop") == recording.attempts[0].reads[-1].got_ns


@pytest.mark.parametrize("kind", ["openai", "openai-async"])
async def test_a_stream_never_read_is_reported_once(kind: str, recordings: list[Recording]) -> None:
    """Never iterated and dropped: abandoned, once."""
    with serving(open_stream()) as server:
        client = clients.make(kind, server.url)
        attach(client, done=recordings.append)
        stream = client.chat.completions.create(**styles.CHAT, stream=True)
        if asyncio.iscoroutine(stream):
            stream = await stream
        del stream
        gc.collect()
        assert [recording.end.reason for recording in recordings] == ["abandoned"]
        closing = client.close()
        if closing is not None:
            await closing
    assert len(recordings) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_an_abandoned_async_stream_is_reported_once(recordings: list[Recording]) -> None:
    """An async stream dropped between chunks is finished by the loop, and reported once."""
    with serving(open_stream()) as server:
        async with clients.make("openai-async", server.url) as client:
            attach(client, done=recordings.append)
            stream = await client.chat.completions.create(**styles.CHAT, stream=True)
            await stream.__anext__()
            del stream
            gc.collect()
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(recordings) == 1
        gc.collect()
    (recording,) = recordings
    assert recording.end.reason in ("abandoned", "closed")
    assert recording.last_ns == recording.attempts[0].reads[-1].got_ns


def test_a_failure_before_any_request_is_a_call_without_attempts(
    recordings: list[Recording],
) -> None:
    """A client already closed: nothing was sent, the target is the SDK's base URL."""
    with serving() as server:
        client = clients.make("openai", server.url, max_retries=0)
        attach(client, done=recordings.append)
        client.close()
        with pytest.raises(Exception, match=r"client has been closed|Connection error"):
            client.chat.completions.create(**styles.CHAT)
    (recording,) = recordings
    assert recording.attempts == ()
    assert recording.end.reason == "error"
    assert recording.target.port == server.port
