"""What the caller sees is the same with capture and without: values, types, errors, pool."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from latscope.capture.instrument import attach
from latscope.recording import Recording
from tests.capture import clients, styles, styles_async
from tests.capture.scripted import Reply, serving

SYNC = [
    pytest.param(kind, *style, id=f"{kind}-{name}")
    for kind, table in (
        ("openai", styles.OPENAI),
        ("openai-httpx", styles.OPENAI),
        ("anthropic", styles.ANTHROPIC),
    )
    for name, style in table.items()
]

ASYNC = [
    pytest.param(kind, style, reply, id=f"{kind}-{name}")
    for kind in ("openai-async", "openai-async-httpx", "anthropic-async")
    for name, (style, reply) in styles_async.ASYNC.items()
]


@pytest.mark.parametrize(("kind", "use", "reply"), SYNC)
def test_a_sync_sdk_client_behaves_the_same(
    kind: str, use: Callable[[Any], Any], reply: Callable[[], Reply]
) -> None:
    """Every way of using a sync SDK client gives the same, and one recording."""
    recordings: list[Recording] = []
    outcomes = []
    for instrumented in (False, True):
        with serving(reply()) as server, clients.make(kind, server.url, max_retries=0) as client:
            if instrumented:
                attach(client, done=recordings.append)
            outcomes.append((use(client), clients.pool_state(client), len(server.requests)))
    assert outcomes[0] == outcomes[1]
    assert len(recordings) == 1
    assert recordings[0].broken == ()
    assert recordings[0].start == "sdk"


@pytest.mark.parametrize(("kind", "use", "reply"), ASYNC)
async def test_an_async_sdk_client_behaves_the_same(
    kind: str, use: styles_async.Async, reply: str
) -> None:
    """Every way of using an async SDK client, cancelled too, gives the same, and one recording."""
    recordings: list[Recording] = []
    outcomes = []
    name = kind.partition("-")[0]
    kw = styles.CHAT if name == "openai" else styles.MESSAGE
    for instrumented in (False, True):
        with serving(styles_async.REPLIES[name][reply]()) as server:
            client = clients.make(kind, server.url, max_retries=0)
            async with client:
                if instrumented:
                    attach(client, done=recordings.append)
                seen = await use(clients.api(client), kw)
                await asyncio.sleep(0)
                outcomes.append((seen, clients.pool_state(client), len(server.requests)))
            gc.collect()
    assert outcomes[0] == outcomes[1]
    assert len(recordings) == 1
    assert recordings[0].broken == ()
    assert recordings[0].start == "sdk"
