"""Through proxies, tunnels, unix sockets, redirects and HTTP/2: recorded, and nothing else."""

import asyncio
import gc
import importlib
import ssl
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.capture.instrument import attach
from latscope.middleware.pipeline import finish
from latscope.recording import Recording
from tests.capture import bodies, clients, outcomes, styles
from tests.capture.h2server import serving_h2
from tests.capture.scripted import answer, serving
from tests.capture.test_transport import certificate as certificate
from tests.capture.ways_through import at_a_path, tunnelling

SYNC = ["openai", "openai-httpx", "anthropic"]
ASYNC = ["openai-async", "openai-async-httpx", "anthropic-async"]
EVERY = [*SYNC, *ASYNC]


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def library_of(kind: str) -> Any:
    sdk = importlib.import_module(kind.partition("-")[0])
    return importlib.import_module("httpx") if "httpx" in kind else clients.library_of(sdk)


def over(kind: str, url: str, **options: Any) -> Any:
    """An SDK client over an HTTP client with these options."""
    name = "AsyncClient" if "async" in kind else "Client"
    http = getattr(library_of(kind), name)(**options)
    return clients.make(kind.replace("-httpx", ""), url, http_client=http, max_retries=0)


def parts(kind: str) -> list[bytes]:
    return bodies.CHAT_PARTS if kind.startswith("openai") else bodies.MESSAGE_PARTS


async def streamed(kind: str, client: Any) -> list[Any]:
    """All of one stream, and the client closed."""
    stream = outcomes.opened(client)
    if "async" in kind:
        seen = [styles.shape(event) async for event in await stream]
        await client.close()
    else:
        seen = styles.shapes(stream)
        client.close()
    return seen


def check(recordings: list[Recording], attempts: int = 1) -> Recording:
    (recording,) = recordings
    assert recording.start == "sdk"
    assert recording.broken == ()
    assert len(recording.attempts) == attempts
    assert attribute(finish(recording)).status == "complete"
    return recording


@pytest.mark.parametrize("kind", [kind for kind in EVERY if "httpx" not in kind])
async def test_a_proxy_from_the_environment_is_still_used(
    kind: str, recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client made with a transport of one's own would go past it."""
    reply = outcomes.whole(parts(kind))
    seen = []
    with serving(*reply * 2) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        monkeypatch.setenv("NO_PROXY", "")
        for instrumented in (False, True):
            client = clients.make(kind, "http://model.invalid", max_retries=0)
            if instrumented:
                attach(client, done=recordings.append)
            seen.append(await streamed(kind, client))
    assert seen[0] == seen[1]
    assert len({request.path for request in server.requests}) == 1
    assert server.requests[1].path.startswith("http://model.invalid/v1/")
    assert check(recordings).target.host == "model.invalid"


@pytest.mark.parametrize("kind", EVERY)
async def test_a_tunnel_is_set_up_before_the_request(
    kind: str, recordings: list[Recording], certificate: Path
) -> None:
    """CONNECT, then TLS to the server inside: the connection is timed apart from the request."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    verify = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with (
        tunnelling() as (proxy, asked),
        serving(*outcomes.whole(parts(kind)), tls=server_side) as server,
    ):
        client = over(kind, server.url, proxy=proxy, verify=verify)
        attach(client, done=recordings.append)
        await streamed(kind, client)
    assert asked == [f"CONNECT 127.0.0.1:{server.port}"]
    (attempt,) = check(recordings).attempts
    marks = [mark.name for mark in attempt.marks]
    assert marks[:8] == [
        "entry",
        "connect.started",
        "connect.complete",
        "tls.started",
        "tls.complete",
        "request.started",
        "request.headers",
        "request.sent",
    ]
    assert marks.count("request.sent") == marks.count("headers") == 1


@pytest.mark.parametrize("kind", EVERY)
async def test_a_unix_socket(kind: str, recordings: list[Recording], tmp_path: Path) -> None:
    """Connected without TCP: nothing is claimed of the kernel's view of it."""
    name = "AsyncHTTPTransport" if "async" in kind else "HTTPTransport"
    with (
        serving(*outcomes.whole(parts(kind))) as server,
        at_a_path(server, tmp_path / "s") as path,
    ):
        transport = getattr(library_of(kind), name)(uds=path)
        client = over(kind, "http://local", transport=transport)
        attach(client, done=recordings.append)
        await streamed(kind, client)
    (attempt,) = check(recordings).attempts
    assert attempt.mark("connect.complete") is not None
    assert attempt.connection is not None
    assert attempt.connection.unseen is None
    assert (attempt.tcp_info, attempt.connection.tls) == ((), False)


@pytest.mark.parametrize("kind", EVERY)
async def test_a_redirect_is_an_attempt_of_the_call(kind: str, recordings: list[Recording]) -> None:
    """The transport is called again with the same extensions: each hop has its own marks."""
    with serving(
        lambda _: answer(307, b"", location=f"{server.url}/v2"), *outcomes.whole(parts(kind))
    ) as server:
        client = over(kind, server.url, follow_redirects=True)
        attach(client, done=recordings.append)
        await streamed(kind, client)
    first, second = check(recordings, attempts=2).attempts
    assert (first.status, second.status) == (307, 200)
    assert first.mark("headers") is not None
    assert second.mark("headers") is not None
    assert [each.path for each in server.requests][1] == "/v2"


H2_ASYNC = ["exhausted", "closed", "cancelled during a read", "cancelled twice during a read"]
STALLED = ["closed", "cancelled during a read", "cancelled twice during a read"]


def over_h2(kind: str, url: str) -> Any:
    name = "AsyncHTTPTransport" if "async" in kind else "HTTPTransport"
    transport = getattr(library_of(kind), name)(http1=False, http2=True)
    return over(kind, url, transport=transport)


@pytest.mark.parametrize("kind", ASYNC)
@pytest.mark.parametrize("name", H2_ASYNC)
async def test_http2_streams_end_as_they_would(
    kind: str, name: str, recordings: list[Recording]
) -> None:
    """The pool is the same, and so is what the server hears; a stream that was left goes on there,
    which the attribution says."""
    way = outcomes.ASYNC[name]
    seen = []
    for instrumented in (False, True):
        told: list[str] = []
        sent: list[bytes | None] = [*parts(kind)]
        if name in STALLED:
            sent = [*sent[:3], None]
        with serving_h2(sent, events=told) as url:
            client = over_h2(kind, url)
            async with client:
                if instrumented:
                    attach(client, done=recordings.append)
                result = await way.play(client, None)
                for _ in range(20):
                    gc.collect()
                    await asyncio.sleep(0)
                seen.append((result, clients.pool_state(client)))
        assert "StreamReset" not in told
    assert seen[0] == seen[1]
    (recording,) = recordings
    assert recording.end.reason in way.ends
    told_of = attribute(finish(recording))
    assert told_of.status in way.status
    assert ("left_running" in told_of.flags) == (name != "exhausted")


@pytest.mark.parametrize("kind", SYNC)
@pytest.mark.parametrize("name", ["exhausted", "closed", "left in with"])
def test_http2_streams_of_a_sync_client_end_as_they_would(
    kind: str, name: str, recordings: list[Recording]
) -> None:
    way = outcomes.SYNC[name]
    seen = []
    for instrumented in (False, True):
        sent: list[bytes | None] = [*parts(kind)]
        if name != "exhausted":
            sent = [*sent[:3], None]
        with serving_h2(sent) as url, over_h2(kind, url) as client:
            if instrumented:
                attach(client, done=recordings.append)
            result = way.play(client, None)
            seen.append((result, clients.pool_state(client)))
    assert seen[0] == seen[1]
    (recording,) = recordings
    assert recording.end.reason in way.ends
    assert ("left_running" in attribute(finish(recording)).flags) == (name != "exhausted")
