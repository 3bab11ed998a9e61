"""Law 5: whatever happens in capture or in what is hooked to it, the caller never feels it."""

import asyncio
import gc
import importlib
import pickle
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from latscope.capture import build, recorder, sockets
from latscope.capture.instrument import attach
from latscope.capture.recorder import AttemptRecorder
from latscope.capture.tap import Tap, current_context
from latscope.recording import Recording
from tests.capture import clients
from tests.capture.scripted import Reply, answer, chunk, serving, stream, stream_head


@pytest.fixture(params=["httpx2", "httpx"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def fail(*_: object) -> None:
    raise RuntimeError("a canary nobody may see")


def test_a_sink_that_raises_is_not_felt(library: Any) -> None:
    """`done` raises: the caller has its answer all the same."""
    with serving(answer(200, b"x")) as server, library.Client() as client:
        attach(client, done=fail)
        assert client.get(server.url).content == b"x"


def test_hooks_that_raise_are_noted(library: Any, recordings: list[Recording]) -> None:
    """`outgoing` and `context` raise: noted by class name, never by message."""
    with serving(answer(200, b"x")) as server, library.Client() as client:
        attach(client, done=recordings.append, outgoing=fail, context=fail)
        assert client.get(server.url).content == b"x"
    assert recordings[0].broken == ("context: RuntimeError", "outgoing: RuntimeError")


def test_outgoing_may_add_headers_from_the_calls_context(recordings: list[Recording]) -> None:
    """What `context` gave at entry is at hand in `outgoing`, and comes back in the recording."""

    def outgoing(request: httpx2.Request) -> None:
        request.headers["x-span"] = str(current_context())

    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append, outgoing=outgoing, context=lambda: "span-1")
        client.get(server.url)
        assert server.requests[0].headers["x-span"] == "span-1"
    assert recordings[0].context == "span-1"
    assert current_context() is None


@pytest.mark.parametrize(
    "broken",
    [
        (recorder.AttemptRecorder, "__init__"),
        (recorder, "retry_count"),
        (recorder.Call, "begin"),
        (Tap, "call"),
        (Tap, "joined"),
    ],
    ids=lambda pair: pair[1],
)
def test_a_recorder_that_cannot_start_is_not_felt(
    broken: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """Nothing is recorded then, and the request goes on."""
    owner, name = broken
    monkeypatch.setattr(owner, name, fail)
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"x"
        assert client._transport.latscope_tap.open == set()  # type: ignore[attr-defined]


def test_a_recording_that_cannot_be_built_leaves_its_remains(
    monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """A fault of ours at the end: the call is reported with what is known."""
    monkeypatch.setattr(build, "_attempt", fail)
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"x"
    (recording,) = recordings
    assert recording.broken == ("recording: RuntimeError",)
    assert recording.attempts == ()


def test_faults_in_between_are_noted(
    monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """The snapshot fails at every point: the exchange is recorded, with notes."""
    monkeypatch.setattr(AttemptRecorder, "_snapshot", fail)
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"x"
    (recording,) = recordings
    assert recording.broken == (
        "trace: RuntimeError",
        "responded: RuntimeError",
        "eof: RuntimeError",
    )
    assert recording.end.reason == "complete"


def test_a_users_own_trace_is_called(library: Any, recordings: list[Recording]) -> None:
    """Chained, every event, and the request's extensions are the user's own again afterwards."""
    events: list[str] = []

    def trace(name: str, info: Any) -> None:
        events.append(name)

    extensions = {"trace": trace}
    with serving(stream(b"x")) as server, library.Client() as client:
        attach(client, done=recordings.append)
        response = client.get(server.url, extensions=extensions)
    assert response.request.extensions["trace"] is trace
    assert "connection.connect_tcp.started" in events
    assert "http11.receive_response_body.complete" in events
    assert recordings[0].attempts[0].mark("connect.complete") is not None


async def test_a_users_own_async_trace_is_awaited(
    library: Any, recordings: list[Recording]
) -> None:
    """The same for an asynchronous client and callback."""
    events: list[str] = []

    async def trace(name: str, info: Any) -> None:
        await asyncio.sleep(0)
        events.append(name)

    with serving(stream(b"x")) as server:
        async with library.AsyncClient() as client:
            attach(client, done=recordings.append)
            await client.get(server.url, extensions={"trace": trace})
    assert "http11.response_closed.complete" in events
    assert recordings[0].attempts[0].mark("connect.complete") is not None


@pytest.mark.parametrize("instrumented", [False, True])
def test_a_users_faulty_trace_fails_as_it_would(library: Any, instrumented: bool) -> None:
    """A callback that raises breaks the request, as it does without us."""
    recordings: list[Recording] = []
    with serving(answer(200, b"x")) as server, library.Client() as client:
        if instrumented:
            attach(client, done=recordings.append)
        with pytest.raises(RuntimeError, match="canary"):
            client.get(server.url, extensions={"trace": fail})
    assert [recording.end.reason for recording in recordings] == ["error"] * instrumented


@pytest.mark.parametrize("instrumented", [False, True])
async def test_a_trace_of_the_wrong_kind_fails_as_it_would(
    library: Any, instrumented: bool
) -> None:
    """A plain function as an asynchronous client's trace: the library's own TypeError."""
    with serving(answer(200, b"x")) as server:
        async with library.AsyncClient() as client:
            if instrumented:
                attach(client, done=lambda recording: None)
            with pytest.raises(TypeError, match="asynchronous"):
                await client.get(server.url, extensions={"trace": lambda name, info: None})


def test_a_proxys_connect_is_not_the_request() -> None:
    """CONNECT's own header events are set-up; the request's come after TLS through the tunnel."""
    call = Tap(done=fail).call("transport")
    attempt = AttemptRecorder(call, httpx2.Request("GET", "https://x/"), 0)
    connect: Any = httpx2.Request("CONNECT", "https://x/")
    connect.method = b"CONNECT"  # as httpcore has it
    request: Any = httpx2.Request("GET", "https://x/")
    request.method = b"GET"
    for name, info in (
        ("connection.connect_tcp.started", {}),
        ("connection.connect_tcp.complete", {"return_value": None}),
        ("http11.send_request_headers.started", {"request": connect}),
        ("http11.send_request_headers.complete", {"return_value": None}),
        ("http11.receive_response_headers.complete", {"return_value": None}),
        ("proxy.start_tls.started", {}),
        ("proxy.start_tls.complete", {"return_value": None}),
        ("http11.send_request_headers.started", {"request": request}),
        ("http11.send_request_headers.complete", {"return_value": None}),
    ):
        attempt.trace(name, info)
    assert [name for name, _ in attempt.marks] == [
        "entry", "connect.started", "connect.complete", "tls.started", "tls.complete",
        "request.started", "request.headers",
    ]  # fmt: skip
    attempt.trace("http11.send_request_headers.started", {})
    assert call.broken == ["trace: KeyError"]


class Stubborn:
    """A network stream that answers nothing."""

    __slots__ = ()

    def get_extra_info(self, name: str) -> Any:
        raise OSError(name)


def test_a_socket_that_tells_nothing_is_unknown() -> None:
    """Failing questions and foreign objects give nulls, never errors."""
    assert sockets.link(Stubborn(), 1) == (1, None, None, None)
    assert sockets.tcp_info(Stubborn()) is None
    assert sockets.tcp_info(None) is None
    assert Tap(done=fail).link(Stubborn()) is None  # it takes no weak reference either


class Named:
    def __init__(self, address: Any) -> None:
        self.address = address

    def get_extra_info(self, name: str) -> Any:
        return self.address if name == "server_addr" else None


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        (("::1", 80, 0, 0), "[::1]:80"),
        (("10.0.0.1", 443), "10.0.0.1:443"),
        ("/run/x.sock", "/run/x.sock"),
        ("", None),
        (None, None),
    ],
)
def test_peers_are_spelled_as_addresses_are(address: Any, peer: str | None) -> None:
    """IPv6 in brackets, a Unix socket by its path, nothing when there is nothing."""
    assert sockets.link(Named(address), 1).peer == peer


def test_the_response_pickles_as_before(recordings: list[Recording]) -> None:
    """A response read through the wrapper pickles, and forwards what the stream inside has."""
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        response: Any = client.get(server.url)
        stamped = response.stream._stream
        with pytest.raises(AttributeError):
            stamped.no_such_attribute  # noqa: B018 - asking is the test
        assert stamped._httpcore_stream is not None
        assert pickle.loads(pickle.dumps(response)).content == b"x"


@pytest.mark.parametrize("instrumented", [False, True])
async def test_closing_while_another_task_reads_is_as_it_was(
    library: Any, instrumented: bool
) -> None:
    """No lock of ours turns it into a deadlock; the reader gets what it got before."""
    recordings: list[Recording] = []
    reply: Reply = [stream_head(), chunk(b"x"), threading.Event()]
    with serving(reply) as server:
        async with library.AsyncClient() as client:
            if instrumented:
                attach(client, done=recordings.append)
            request = client.build_request("GET", server.url)
            response = await client.send(request, stream=True)
            parts = response.aiter_raw()
            assert await anext(parts) == b"x"
            reading = asyncio.create_task(anext(parts))
            await asyncio.sleep(0)
            await response.aclose()
            await response.aclose()
            with pytest.raises((library.ReadError, library.StreamClosed, StopAsyncIteration)):
                await asyncio.wait_for(reading, 10)
            await parts.aclose()
    assert [recording.end.reason for recording in recordings] == ["closed"] * instrumented


def test_leaving_a_plain_stream_is_a_break(library: Any, recordings: list[Recording]) -> None:
    """Breaking out of the library's own iterator ends the call, and gives the connection back."""
    reply: Reply = [stream_head(), chunk(b"x"), threading.Event()]
    with serving(reply) as server, library.Client() as client:
        attach(client, done=recordings.append)
        response = client.send(client.build_request("GET", server.url), stream=True)
        for _ in response.iter_raw():
            break
        gc.collect()
        assert (recordings[0].end.reason, recordings[0].end.detail) == ("closed", "break")
        assert clients.pool_state(client) == []
        response.close()
    assert len(recordings) == 1


class Endless(httpx2.SyncByteStream):
    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.count):
            yield b"%0100d" % number


def many(count: int) -> httpx2.MockTransport:
    return httpx2.MockTransport(lambda request: httpx2.Response(200, stream=Endless(count)))


def peak(client: httpx2.Client) -> int:
    tracemalloc.start()
    try:
        with client.stream("GET", "http://x/") as response:
            for _ in response.iter_raw():
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_bounded_per_read(recordings: list[Recording]) -> None:
    """10,000 chunks of 100 bytes cost their payload and less than 700 bytes each, peak included,
    and none of it stays when the recording goes."""
    with httpx2.Client(transport=many(10_000)) as client:
        bare = peak(client)
        attach(client, done=recordings.append)
        added = peak(client) - bare
    assert len(recordings[0].attempts[0].reads) == 10_000
    assert added < 10_000 * 800
    recordings.clear()
    gc.collect()
    assert not any(isinstance(item, AttemptRecorder) for item in gc.get_objects())


def test_a_long_body_keeps_its_times_only(
    monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """Past the limit a read keeps when and how much, not what; the caller gets every byte."""
    monkeypatch.setattr(recorder, "KEEP_BYTES", 250)
    with httpx2.Client(transport=many(4)) as client:
        attach(client, done=recordings.append)
        assert len(client.get("http://x/").content) == 400
    (attempt,) = recordings[0].attempts
    assert [read.wire_bytes for read in attempt.reads] == [100] * 4
    assert [len(part) for part in attempt.wire or ()] == [100, 100, 0, 0]
    assert recordings[0].broken == ("body: too long to keep whole",)


def test_abandoned_streams_do_not_pile_up(recordings: list[Recording]) -> None:
    """1,000 streams opened and dropped: each reported once, none still open."""
    with httpx2.Client(transport=many(3)) as client:
        tap = Tap(done=recordings.append)
        attach(client, done=tap.done)
        for _ in range(1000):
            client.send(client.build_request("GET", "http://x/"), stream=True)
        gc.collect()
        assert client._transport.latscope_tap.open == set()  # type: ignore[attr-defined]
    assert [recording.end.reason for recording in recordings] == ["abandoned"] * 1000
    assert len({recording.call_id for recording in recordings}) == 1000


async def test_a_request_thrown_away_is_abandoned(recordings: list[Recording]) -> None:
    """A request's coroutine closed while it waits: GeneratorExit ends the call, once."""

    async def wait(request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(wait)) as client:
        attach(client, done=recordings.append)
        coroutine = client.get("http://x/")
        coroutine.send(None)
        coroutine.close()
    (recording,) = recordings
    assert (recording.end.reason, recording.end.detail) == ("abandoned", "gc")
