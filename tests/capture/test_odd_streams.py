"""Streams, sockets and ends out of the ordinary."""

import asyncio
import gc
import importlib
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from latscope.capture import recorder, sockets
from latscope.capture.instrument import attach
from latscope.capture.recorder import AttemptRecorder
from latscope.capture.tap import Tap
from latscope.recording import Recording
from tests.capture import clients
from tests.capture.scripted import Reply, chunk, serving, stream, stream_head


@pytest.fixture(params=["httpx2", "httpx"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def fail(*_: object) -> None:
    raise RuntimeError("a canary nobody may see")


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


def test_a_stream_that_was_never_finished_goes_quietly(library: Any) -> None:
    """A stream object without its parts (a failed copy, say) raises nothing when it goes."""
    ours = importlib.import_module(f"latscope.capture.{library.__name__}")
    for kind in (ours.StampedStream, ours.AsyncStampedStream):
        empty = kind.__new__(kind)
        assert not hasattr(empty, "elapsed")
        del empty


class Bare:
    """A sync stream of the wrong class, as a transport with a fault would give."""


def test_a_stream_of_the_wrong_class_is_the_clients_to_refuse(
    library: Any, recordings: list[Recording]
) -> None:
    """The client's own assertion is what the caller sees."""

    def answer_wrongly(request: Any) -> Any:
        response = library.Response(200, stream=library.ByteStream(b"x"))
        response.stream = Bare()
        return response

    with library.Client(transport=library.MockTransport(answer_wrongly)) as client:
        attach(client, done=recordings.append)
        with pytest.raises(AssertionError):
            client.get("http://x/")
    assert len(recordings) == 1


class Plain:
    """An iterator that is no generator: it has nothing to close."""

    def __iter__(self) -> "Plain":
        return self

    def __next__(self) -> bytes:
        return b"x"


def test_an_iterator_without_close_is_left(recordings: list[Recording]) -> None:
    """Broken out of, a source that cannot be closed is simply let go."""

    class Source(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            return Plain()

    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=Source()))
    with httpx2.Client(transport=transport) as client:
        attach(client, done=recordings.append)
        with client.stream("GET", "http://x/") as response:
            for _ in response.iter_raw():
                break
    assert recordings[0].end.reason == "closed"


async def test_an_async_iterator_without_close_is_left(
    library: Any, recordings: list[Recording]
) -> None:
    """The same for an asynchronous source; and the stream forwards what the source has."""

    class Letters:
        def __init__(self) -> None:
            self.left = 2

        def __aiter__(self) -> "Letters":
            return self

        async def __anext__(self) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return b"x"

    class Source(library.AsyncByteStream):  # type: ignore[misc]
        elapsed = "forwarded"

        def __aiter__(self) -> Letters:
            return Letters()

    transport = library.MockTransport(lambda request: library.Response(200, stream=Source()))
    async with library.AsyncClient(transport=transport) as client:
        attach(client, done=recordings.append)
        async with client.stream("GET", "http://x/") as response:
            assert response.stream._stream.elapsed == "forwarded"
            assert await response.aread() == b"xx"
    assert recordings[0].end.reason == "complete"


def test_a_chunk_that_is_no_bytes_is_noted() -> None:
    """Something without a length among the chunks: a note, no error. A bytearray is copied."""
    recordings: list[Recording] = []
    call = Tap(done=recordings.append).call("transport")
    request = httpx2.Request("GET", "http://x/")
    attempt = AttemptRecorder(call, request, recorder.now())
    call.begin(attempt, request)
    attempt.keep(recorder.now(), object())
    attempt.keep(recorder.now(), object())
    attempt.keep(recorder.now(), bytearray(b"abc"))
    attempt.eof()
    attempt.eof()
    attempt.forgotten()
    attempt.released()
    attempt.closing()
    (recording,) = recordings
    assert recording.broken == ("read: TypeError",)
    assert recording.attempts[0].wire == (b"abc",)
    assert recording.end.reason == "complete"


def test_a_call_that_ends_badly_is_still_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault while ending a call: noted, and the call reported all the same, once."""
    recordings: list[Recording] = []
    call = Tap(done=recordings.append).call("sdk")
    call.url = httpx2.URL("http://x/")
    monkeypatch.setattr(recorder, "end_of", fail)
    call.leave(ValueError())
    call.leave(None)
    assert [recording.broken for recording in recordings] == [("end of call: RuntimeError",)]


def test_a_call_without_attempts_ends_complete() -> None:
    """Nothing was sent and nothing raised (a cache in the SDK, say): a call without attempts."""
    recordings: list[Recording] = []
    call = Tap(done=recordings.append).call("sdk")
    call.url = httpx2.URL("https://x/v1")
    call.leave(None)
    assert recordings[0].attempts == ()
    assert recordings[0].end.reason == "complete"


def test_a_source_is_closed_as_soon_as_it_is_left(recordings: list[Recording]) -> None:
    """Broken out of, the source's iterator is closed at once, though somebody else holds it."""
    held: list[Iterator[bytes]] = []
    closed: list[str] = []

    def parts() -> Iterator[bytes]:
        try:
            yield b"x"
            yield b"y"
        finally:
            closed.append("closed")

    class Source(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            held.append(parts())
            return held[0]

    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=Source()))
    with httpx2.Client(transport=transport) as client:
        attach(client, done=recordings.append)
        response = client.send(client.build_request("GET", "http://x/"), stream=True)
        for _ in response.iter_raw():
            break
        assert closed == ["closed"]


async def test_an_async_source_is_closed_as_soon_as_it_is_left(
    library: Any, recordings: list[Recording]
) -> None:
    """The same for an asynchronous generator: not left to the event loop."""
    held: list[Any] = []
    closed: list[str] = []

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"x"
            yield b"y"
        finally:
            closed.append("closed")

    class Source(library.AsyncByteStream):  # type: ignore[misc]
        def __aiter__(self) -> Any:
            held.append(parts())
            return held[0]

    transport = library.MockTransport(lambda request: library.Response(200, stream=Source()))
    async with library.AsyncClient(transport=transport) as client:
        attach(client, done=recordings.append)
        response = await client.send(client.build_request("GET", "http://x/"), stream=True)
        source = aiter(response.stream._stream)
        assert await anext(source) == b"x"
        await source.aclose()
        assert closed == ["closed"]
        await response.aclose()


def test_an_exception_handled_around_a_call_is_not_its_end(recordings: list[Recording]) -> None:
    """A call made while a cancellation is being handled, and closed early, was not cancelled."""
    with serving(stream(b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        try:
            raise asyncio.CancelledError
        except asyncio.CancelledError:
            request = client.build_request("GET", server.url)
            client.send(request, stream=True).close()
    assert recordings[0].end.reason == "closed"
