"""Attaching and detaching: what is wrapped, what is refused, what is left as it was."""

import functools
import importlib
import subprocess
import sys
from typing import Any

import httpx2
import pytest

from latscope.capture.instrument import attach, attached, detach, settle
from latscope.capture.transports import AsyncClient, Client
from latscope.errors import InstrumentError
from latscope.recording import Recording
from tests.capture import bodies, clients, styles
from tests.capture.scripted import answer, serving


@pytest.fixture
def recordings() -> list[Recording]:
    return []


@pytest.fixture(params=["httpx2", "httpx"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


def test_attaching_twice_is_once(library: Any, recordings: list[Recording]) -> None:
    """The first sink stays, and one call makes one recording."""
    other: list[Recording] = []
    with serving(answer(200, b"x")) as server, library.Client() as client:
        attach(client, done=recordings.append)
        attach(client, done=other.append)
        client.get(server.url)
    assert (len(recordings), len(other)) == (1, 0)


def test_detaching_restores_the_client(library: Any, recordings: list[Recording]) -> None:
    """Same transport objects, same mounts, no trace of us; and nothing is recorded any more."""
    mounted = library.HTTPTransport()
    mounts = {"https://": mounted, "all://*.test": mounted, "all://no.test": None}
    with serving(answer(200, b"x")) as server, library.Client(mounts=mounts) as client:
        before = (client._transport, dict(client._mounts), dict(vars(client)))
        attach(client, done=recordings.append)
        assert attached(client)
        wrapped = [value for value in client._mounts.values() if value is not None]
        assert client._transport is not before[0]
        assert wrapped[0] is wrapped[1]
        assert client._transport._pool is before[0]._pool
        detach(client)
        detach(client)
        settle(client)
        assert not attached(client)
        client.get(server.url)
        assert (client._transport, client._mounts) == before[:2]
        assert vars(client).keys() == before[2].keys()
    assert recordings == []


def test_mounts_are_recorded_too(library: Any, recordings: list[Recording]) -> None:
    """A request that goes through a mount is a call like any other."""
    with serving(answer(200, b"x")) as server:
        mounts = {"http://127.0.0.1": library.HTTPTransport()}
        with library.Client(mounts=mounts) as client:
            attach(client, done=recordings.append)
            client.get(server.url)
    assert len(recordings) == 1
    assert recordings[0].attempts[0].connection is not None
    assert recordings[0].attempts[0].connection.peer == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("client", [object(), "client", 5, None])
def test_an_unknown_client_is_refused(client: Any) -> None:
    """One clear line, naming what was given and what would do."""
    for action in (functools.partial(attach, done=print), detach):
        with pytest.raises(InstrumentError, match="cannot instrument builtins") as caught:
            action(client)
        assert "\n" not in str(caught.value)


class Odd:
    """No transport at all."""


def test_a_transport_that_cannot_be_wrapped_is_refused_unchanged(library: Any) -> None:
    """The mount that cannot be wrapped is found before anything is changed."""
    with library.Client() as client:
        transport = client._transport
        client._mounts = {library._utils.URLPattern("all://"): Odd()}
        with pytest.raises(InstrumentError, match="Odd has no handle_request"):
            attach(client, done=print)
        assert client._transport is transport
        assert "send" not in vars(client)
        client._mounts = {}


async def test_a_sync_transport_in_an_async_client_is_refused(library: Any) -> None:
    """It could not have sent anything either."""
    async with library.AsyncClient() as client:
        transport = client._transport
        client._transport = library.HTTPTransport()
        with pytest.raises(InstrumentError, match="has no handle_async_request"):
            attach(client, done=print)
        client._transport = transport


def test_an_sdk_client_without_a_known_http_client_is_refused() -> None:
    """An SDK client over something else raises at once, not at the first call."""
    with clients.make("openai", "http://localhost") as client:
        http, client._client = client._client, Odd()
        with pytest.raises(InstrumentError, match="Odd"):
            attach(client, done=print)
        client._client = http


def test_a_send_of_the_users_own_is_kept(recordings: list[Recording]) -> None:
    """A `send` set on the instance before us runs inside ours."""
    seen = []
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        bound = client.send

        def send(request: httpx2.Request, **kwargs: Any) -> httpx2.Response:
            seen.append(request)
            return bound(request, **kwargs)

        client.send = send  # type: ignore[method-assign]
        attach(client, done=recordings.append)
        client.get(server.url)
    assert (len(seen), len(recordings)) == (1, 1)


def test_a_send_set_over_ours_stays(recordings: list[Recording]) -> None:
    """Another tool's `send` on top of ours is not removed with ours."""
    with httpx2.Client() as client:
        attach(client, done=recordings.append)
        ours = client.send
        client.send = lambda *a, **k: ours(*a, **k)  # type: ignore[method-assign]
        theirs = client.send
        detach(client)
        assert client.send is theirs


def test_two_sdk_clients_may_share_one_http_client(recordings: list[Recording]) -> None:
    """One tap, and each call named by the SDK that made it."""
    import openai

    library = clients.library_of(openai)
    with serving(bodies.chat(), bodies.message()) as server, library.Client() as http:
        chat = clients.make("openai", server.url, http_client=http)
        messages = clients.make("anthropic", server.url, http_client=http)
        attach(chat, done=recordings.append)
        attach(messages, done=recordings.append)
        clients.api(chat).create(**styles.CHAT)
        clients.api(messages).create(**styles.MESSAGE)
        detach(messages)
        detach(chat)
    assert [str(r.sdk).partition("/")[0] for r in recordings] == ["openai", "anthropic"]


def test_a_dropped_client_is_freed_at_once() -> None:
    """No cycle of ours keeps a client, and its connections, until the collector runs."""
    import weakref

    client = httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200)))
    attach(client, done=print)
    client.get("http://x/")
    gone = weakref.ref(client)
    del client
    assert gone() is None


async def test_ready_made_clients_record(recordings: list[Recording]) -> None:
    """Client and AsyncClient are httpx2 clients that record from the start."""
    with serving(answer(200, b"x"), answer(200, b"y")) as server:
        with Client(done=recordings.append, base_url=server.url) as client:
            assert client.get("/a").content == b"x"
        async with AsyncClient(done=recordings.append, base_url=server.url) as async_client:
            assert (await async_client.get("/b")).content == b"y"
    assert [recording.target.path for recording in recordings] == ["/a", "/b"]
    assert isinstance(client, httpx2.Client)


@pytest.mark.parametrize(
    ("brought", "absent"),
    [
        ("httpx2", ["httpx", "openai", "anthropic", "pydantic"]),
        ("httpx", ["httpx2", "openai", "anthropic", "pydantic"]),
    ],
)
def test_attaching_imports_nothing_the_client_did_not_bring(
    brought: str, absent: list[str]
) -> None:
    """No other HTTP library, no SDK, no third party."""
    code = f"""
import sys, {brought}
client = {brought}.Client()
before = {{name.partition(".")[0] for name in sys.modules}}
from latscope.capture.instrument import attach
attach(client, done=print)
after = {{name.partition(".")[0] for name in sys.modules}}
assert not after & set({absent!r}), after & set({absent!r})
new = after - before - set(sys.stdlib_module_names) - {{"latscope"}}
assert not new, new
client.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("open_first", [True, False])
async def test_a_client_may_be_entered_before_or_after(
    library: Any, recordings: list[Recording], open_first: bool
) -> None:
    """Entering and leaving reach the transport inside, whichever came first."""
    reply = [answer(200, b"x"), answer(200, b"y")]
    with serving(*reply) as server:
        client, async_client = library.Client(), library.AsyncClient()
        if not open_first:
            attach(client, done=recordings.append)
            attach(async_client, done=recordings.append)
        with client:
            attach(client, done=recordings.append)
            client.get(server.url)
        async with async_client:
            attach(async_client, done=recordings.append)
            await async_client.get(server.url)
        for each in (client, async_client):
            assert each._transport._pool._connections == []
    assert len(recordings) == 2


async def test_capture_transports_make_recordings(
    library: Any, recordings: list[Recording]
) -> None:
    """The public transports, over a default transport or one of the user's; a redirect is a call
    of its own there, and a client made with one takes no second tap."""
    ours = importlib.import_module(f"latscope.capture.{library.__name__}")
    inner = library.MockTransport(lambda request: library.Response(200, content=b"m"))
    async_inner = library.MockTransport(lambda request: library.Response(200, content=b"m"))
    with serving(answer(307, b"", Location="/n"), answer(200, b"x"), answer(200, b"y")) as server:
        transport = ours.CaptureTransport(done=recordings.append)
        with library.Client(transport=transport, follow_redirects=True) as client:
            client.get(server.url)
        assert [r.attempts[0].status for r in recordings] == [307, 200]
        with library.Client(
            transport=ours.CaptureTransport(inner, done=recordings.append)
        ) as client:
            attach(client, done=print)
            client.get(server.url)
        transport = ours.AsyncCaptureTransport(done=recordings.append)
        async with library.AsyncClient(transport=transport) as async_client:
            await async_client.get(server.url)
        transport = ours.AsyncCaptureTransport(async_inner, done=recordings.append)
        async with library.AsyncClient(transport=transport) as async_client:
            await async_client.get(server.url)
    assert len(recordings) == 5
    assert all(r.start == "transport" and r.broken == () for r in recordings)


def test_a_capture_transport_in_a_mount_keeps_its_own_sink(recordings: list[Recording]) -> None:
    """A transport tapped already is not tapped again."""
    from latscope.capture.httpx2 import CaptureTransport

    own: list[Recording] = []
    inner = httpx2.MockTransport(lambda request: httpx2.Response(200, content=b"m"))
    mounts = {"http://own.test": CaptureTransport(inner, done=own.append)}
    with httpx2.Client(mounts=mounts) as client:
        attach(client, done=recordings.append)
        client.get("http://own.test/")
    assert (len(own), len(recordings)) == (1, 0)


def test_a_request_that_never_reached_a_transport_is_no_call(recordings: list[Recording]) -> None:
    """A plain client that is closed already sent nothing: nothing is recorded, or left open."""
    client = httpx2.Client()
    attach(client, done=recordings.append)
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.get("http://x/")
    assert recordings == []
    assert client._transport.latscope_tap.open == {}  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
async def test_a_transport_that_cannot_record_passes_on(
    library: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No attempt can be opened: the request goes through untouched."""
    from latscope.capture.tap import Tap

    monkeypatch.setattr(Tap, "enter", lambda self, request: None)
    client = getattr(library, kind)()
    with serving(answer(200, b"x")) as server:
        attach(client, done=print)
        if kind == "Client":
            with client:
                assert client.get(server.url).content == b"x"
        else:
            async with client:
                assert (await client.get(server.url)).content == b"x"
