"""However a stream ends: one recording that says so, the caller and the pool as without us."""

import asyncio
import gc
import logging
import threading
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.capture.instrument import attach
from latscope.middleware.pipeline import finish
from latscope.recording import Recording
from tests.capture import clients, outcomes
from tests.capture.outcomes import Way
from tests.capture.scripted import serving

SYNC_KINDS = ["openai", "openai-httpx", "anthropic"]
ASYNC_KINDS = ["openai-async", "openai-async-httpx", "anthropic-async"]


def check(way: Way, recordings: list[Recording], seen: list[Any]) -> None:
    assert seen[0] == seen[1]
    (recording,) = recordings
    assert recording.end.reason in way.ends
    assert recording.broken == ()
    assert len(recording.attempts) == way.attempts
    assert attribute(finish(recording)).status in way.status


def open_calls(client: Any) -> int:
    return len(client._client._transport.latscope_tap.open)


@pytest.mark.parametrize("kind", SYNC_KINDS)
@pytest.mark.parametrize("name", outcomes.SYNC)
def test_a_sync_stream_ends(kind: str, name: str) -> None:
    way = outcomes.SYNC[name]
    recordings: list[Recording] = []
    seen = []
    for instrumented in (False, True):
        with clients.make(kind, "http://x", max_retries=0) as client:
            parts = outcomes.parts_of(client)
        with (
            serving(*way.reply(parts)) as server,
            clients.make(kind, server.url, max_retries=0) as client,
        ):
            if instrumented:
                attach(client, done=recordings.append)
            result = way.play(client, server)
            pool = clients.pool_state(client)
            seen.append((result, pool, len(server.requests)))
            if instrumented:
                assert open_calls(client) == 0
    check(way, recordings, seen)


async def settled(client: Any) -> list[str]:
    """The pool once the loop has finished what nobody holds any more."""
    for turn in range(20):
        if turn % 7 == 0:
            gc.collect()
        await asyncio.sleep(0)
    await asyncio.sleep(0.01)
    return clients.pool_state(client)


AIO_KINDS = ["openai-async-aio", "anthropic-async-aio"]
"""Over aiohttp, whose pool is one of its own."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", [*ASYNC_KINDS, *AIO_KINDS])
@pytest.mark.parametrize("name", outcomes.ASYNC)
async def test_an_async_stream_ends(kind: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    way = outcomes.ASYNC[name]
    recordings: list[Recording] = []
    seen = []
    for instrumented in (False, True):
        async with clients.make(kind, "http://x", max_retries=0) as client:
            parts = outcomes.parts_of(client)
        with serving(*way.reply(parts)) as server:
            async with clients.make(kind, server.url, max_retries=0) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                result = await way.play(client, server)
                seen.append((result, await settled(client), len(server.requests)))
                if instrumented:
                    assert open_calls(client) == 0
    check(way, recordings, seen)
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("kind", SYNC_KINDS)
def test_threads_that_share_a_client_keep_their_calls_apart(kind: str) -> None:
    """Eight at once, four of which leave early: eight recordings, the pool as it was before."""
    recordings: list[Recording] = []
    with clients.make(kind, "http://x") as client:
        parts = outcomes.parts_of(client)
    with (
        serving(*outcomes.whole(parts) * 8) as server,
        clients.make(kind, server.url, max_retries=0) as client,
    ):
        attach(client, done=recordings.append)
        failures: list[BaseException] = []
        together = threading.Barrier(8)

        def work(number: int) -> None:
            try:
                together.wait(10)
                play = outcomes.closed if number % 2 else outcomes.exhausted
                play(client, server)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert failures == []
        gc.collect()
        assert open_calls(client) == 0
    assert len(recordings) == 8
    assert [recording.broken for recording in recordings] == [()] * 8
    statuses = sorted(attribute(finish(recording)).status for recording in recordings)
    assert statuses == ["cancelled"] * 4 + ["complete"] * 4


TRIO = ["exhausted", "broken out of", "left in with", "closed", "timed out", "reset midway"]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("kind", ASYNC_KINDS)
@pytest.mark.parametrize("name", TRIO)
def test_a_stream_ends_under_trio(kind: str, name: str) -> None:
    """The same ways, asyncio nowhere near."""
    import trio

    way = outcomes.ASYNC[name]
    recordings: list[Recording] = []
    seen: list[Any] = []

    async def run(instrumented: bool) -> None:
        async with clients.make(kind, "http://x", max_retries=0) as client:
            parts = outcomes.parts_of(client)
        with serving(*way.reply(parts)) as server:
            async with clients.make(kind, server.url, max_retries=0) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                result = await way.play(client, server)
                for _ in range(5):
                    gc.collect()
                    await trio.sleep(0)
                # What nobody closes trio closes in an order of its own, never the same twice.
                dropped = name == "broken out of"
                seen.append((result, None if dropped else clients.pool_state(client)))

    for instrumented in (False, True):
        trio.run(run, instrumented)
        gc.collect()
    check(way, recordings, seen)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ASYNC_KINDS)
@pytest.mark.parametrize("when", ["before headers", "during a read", "while consuming"])
def test_a_trio_scope_that_is_cancelled(kind: str, when: str) -> None:
    """trio raises Cancelled at every checkpoint until the scope is left: nothing of ours waits."""
    import trio

    recordings: list[Recording] = []
    seen: list[Any] = []

    async def consume(client: Any, scope: Any) -> None:
        async with await outcomes.opened(client) as stream:
            async for _ in stream:
                if when == "while consuming":
                    scope.cancel()
                    await trio.sleep_forever()

    async def run(instrumented: bool) -> None:
        reply = outcomes.silent if when == "before headers" else outcomes.stalled
        async with clients.make(kind, "http://x") as client:
            parts = outcomes.parts_of(client)
        with serving(*reply(parts)) as server:
            async with clients.make(kind, server.url, max_retries=0) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                with trio.move_on_after(0.4) as scope:
                    await consume(client, scope)
                seen.append((scope.cancelled_caught, clients.pool_state(client)))

    for instrumented in (False, True):
        trio.run(run, instrumented)
    assert seen[0] == seen[1]
    (recording,) = recordings
    assert recording.end.reason in ("cancelled", "closed")
    assert attribute(finish(recording)).status == "cancelled"


def stalled_server(kind: str) -> Any:
    with_parts = clients.make(kind, "http://x")
    return serving(*outcomes.stalled(outcomes.parts_of(with_parts)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ASYNC_KINDS)
def test_a_loop_that_was_closed_under_a_stream(kind: str) -> None:
    """`asyncio.run` ends in the midst of a stream: one recording, when the stream is let go."""
    recordings: list[Recording] = []
    with stalled_server(kind) as server:
        held: list[Any] = []

        async def leave() -> None:
            client = clients.make(kind, server.url, max_retries=0)
            attach(client, done=recordings.append)
            stream = await outcomes.opened(client)
            await stream.__anext__()
            held.extend((client, stream))

        asyncio.run(leave())
        held.clear()
        gc.collect()
    (recording,) = recordings
    assert recording.end.reason in ("closed", "abandoned", "cancelled")
    assert attribute(finish(recording)).status == "cancelled"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_tasks_that_hand_a_stream_on(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Opened in one task, iterated in a second, closed in a third, collected in a fourth: no call
    stays current anywhere, and nobody complains of another's context."""
    from latscope.capture.recorder import CURRENT

    recordings: list[Recording] = []
    with stalled_server(kind) as server:
        async with clients.make(kind, server.url, max_retries=0) as client:
            attach(client, done=recordings.append)
            held: dict[str, Any] = {}

            async def start() -> None:
                held["stream"] = await outcomes.opened(client)
                assert CURRENT.get() is None

            async def iterate() -> None:
                await held["stream"].__anext__()
                assert CURRENT.get() is None

            async def close() -> None:
                await held["stream"].close()
                assert CURRENT.get() is None

            async def let_go() -> None:
                held.clear()
                gc.collect()
                assert CURRENT.get() is None

            for step in (start, iterate, close, let_go):
                await asyncio.create_task(step())
                assert CURRENT.get() is None
            await settled(client)
    assert [recording.end.reason for recording in recordings] == ["closed"]
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_stream_opened_in_one_loop_and_dropped_in_another() -> None:
    """Its state is its own: nothing of ours belongs to a loop or a thread."""
    recordings: list[Recording] = []
    with stalled_server("openai-async") as server:
        held: list[Any] = []

        async def open_it() -> None:
            client = clients.make("openai-async", server.url, max_retries=0)
            attach(client, done=recordings.append)
            held.extend((client, await outcomes.opened(client)))

        await asyncio.to_thread(asyncio.run, open_it())
        assert recordings == []
        held.clear()
        gc.collect()
    assert [recording.end.reason for recording in recordings] == ["abandoned"]
