"""One HTTP exchange, as it stands in the recording: marks, reads, connection, end."""

import gzip
import importlib
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import trio

from latscope.capture.instrument import attach
from latscope.recording import Attempt, Recording
from tests.capture.clients import pool_state
from tests.capture.scripted import (
    LAST,
    Close,
    Reply,
    Reset,
    ScriptedServer,
    answer,
    chunk,
    serving,
    stream,
    stream_head,
)

LINUX = sys.platform == "linux"
PARTS = [b"data: one\n\n", b"data: two\n\n", b"data: three\n\n"]


@pytest.fixture(params=["httpx2", "httpx"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def names(attempt: Attempt) -> list[str]:
    return [mark.name for mark in attempt.marks]


def moments(attempt: Attempt) -> list[str]:
    """When the kernel was asked; a slow machine makes gaps of its own."""
    return [at for at, _, _ in attempt.tcp_raw if at != "gap"]


WHOLE = [
    "entry", "connect.started", "connect.complete", "request.started", "request.headers",
    "request.sent", "headers", "body.end", "closed",
]  # fmt: skip


def test_a_streamed_exchange_has_every_mark_and_read(
    library: Any, recordings: list[Recording]
) -> None:
    """Marks come in order, reads carry the bytes as they came, and no clock runs backwards."""
    with serving(stream(*PARTS, X_Request_Id="r1")) as server, library.Client() as client:
        attach(client, done=recordings.append)
        url = server.url.replace("://", "://user:secret@") + "/v1/x?key=secret"
        with client.stream("POST", url, content=b"question") as response:
            seen = list(response.iter_raw())
    (recording,) = recordings
    (attempt,) = recording.attempts
    assert b"".join(seen) == b"".join(PARTS)
    assert names(attempt) == WHOLE
    assert attempt.wire == tuple(seen)
    assert [read.wire_bytes for read in attempt.reads] == [len(part) for part in seen]
    assert attempt.reads[-1].body_offset == len(b"".join(PARTS))
    stamps = [mark.ns for mark in attempt.marks]
    assert stamps == sorted(stamps)
    assert all(read.asked_ns <= read.got_ns for read in attempt.reads)
    assert recording.start == "transport"
    assert attempt.marks[0].ns == 0
    assert recording.target.path == "/v1/x"
    assert (recording.target.host, recording.target.port) == ("127.0.0.1", server.port)
    assert recording.sent == b"question"
    assert recording.end.reason == "complete"
    assert [mark.name for mark in recording.marks] == ["entry", "end"]
    assert ("x-request-id", "r1") in attempt.headers
    assert (attempt.status, attempt.encoding, attempt.retry_count) == (200, None, None)
    assert recording.broken == ()
    assert recording.sdk == f"{library.__name__}/{library.__version__}"


def test_zero_is_anchored_to_both_clocks(recordings: list[Recording]) -> None:
    """clock.zero_ns is a perf_counter reading, started_at a wall clock of the same moment."""
    before = time.perf_counter_ns()
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        client.get(server.url)
    (recording,) = recordings
    assert recording.clock is not None
    assert before <= recording.clock.zero_ns <= time.perf_counter_ns()
    assert recording.started_at.endswith("Z")
    assert len(recording.started_at) == len("2026-01-01T00:00:00.000000Z")
    assert len(bytes.fromhex(recording.call_id)) == 16


def test_a_second_call_shares_the_connection(library: Any, recordings: list[Recording]) -> None:
    """A reused connection keeps its id, has no connect marks and no connect snapshot."""
    with serving(answer(200, b"a"), answer(200, b"b")) as server, library.Client() as client:
        attach(client, done=recordings.append)
        client.get(server.url)
        client.get(server.url)
    first, second = (recording.attempts[0] for recording in recordings)
    assert first.connection is not None
    assert second.connection is not None
    assert (first.connection.reused, second.connection.reused) == (False, True)
    assert first.connection.id == second.connection.id
    assert first.connection.http == "HTTP/1.1"
    assert first.connection.tls is False
    assert first.connection.peer == f"127.0.0.1:{server.port}"
    assert "connect.started" not in names(second)
    if LINUX:
        assert moments(first) == ["connect", "sent", "headers", "first", "end"]
        assert moments(second) == ["started", "sent", "headers", "first", "end"]
        assert all(len(raw) > 100 for _, _, raw in first.tcp_raw)


def test_a_read_is_asked_for_when_the_consumer_comes_back(recordings: list[Recording]) -> None:
    """The consumer's pause lies between two reads, not inside one."""
    gates = [threading.Event(), threading.Event()]
    reply: Reply = [stream_head(), gates[0], chunk(PARTS[0]), gates[1], chunk(PARTS[1]), LAST]
    with serving(reply) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        with client.stream("GET", server.url) as response:
            gates[0].set()
            for _ in response.iter_raw():
                gates[1].set()
                time.sleep(0.05)
    first, second = recordings[0].attempts[0].reads
    assert second.asked_ns - first.got_ns >= 50_000_000


def test_an_encoded_body_is_kept_encoded(library: Any, recordings: list[Recording]) -> None:
    """The caller gets the text, the recording the bytes off the wire and their encoding."""
    packed = gzip.compress(b"hello")
    reply = answer(200, packed, Content_Encoding="gzip")
    with serving(reply) as server, library.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"hello"
    (attempt,) = recordings[0].attempts
    assert attempt.encoding == "gzip"
    assert b"".join(attempt.wire or ()) == packed


async def test_an_async_exchange_has_the_same_marks(
    library: Any, recordings: list[Recording]
) -> None:
    """The asynchronous transport marks and reads as the synchronous one does."""
    with serving(stream(*PARTS)) as server:
        async with library.AsyncClient() as client:
            attach(client, done=recordings.append)
            async with client.stream("GET", server.url) as response:
                seen = [part async for part in response.aiter_raw()]
    (attempt,) = recordings[0].attempts
    assert names(attempt) == WHOLE
    assert attempt.wire == tuple(seen)
    assert recordings[0].end.reason == "complete"
    if LINUX:
        assert moments(attempt) == ["connect", "sent", "headers", "first", "end"]


def test_trio_is_served_too() -> None:
    """The same under trio, a cancelled scope included."""
    recordings: list[Recording] = []

    async def main(server: ScriptedServer) -> None:
        async with httpx2.AsyncClient() as client:
            attach(client, done=recordings.append)
            await client.get(server.url)
            with trio.CancelScope() as scope:
                async with client.stream("GET", server.url) as response:
                    async for _ in response.aiter_raw():
                        scope.cancel()
            assert scope.cancelled_caught
            assert pool_state(client) == []

    stalled: Reply = [stream_head(connection="close"), chunk(PARTS[0]), threading.Event()]
    with serving(answer(200, b"x"), stalled) as server:
        trio.run(main, server)
    assert [recording.end.reason for recording in recordings] == ["complete", "cancelled"]
    assert recordings[1].end.detail == "Cancelled"
    assert names(recordings[0].attempts[0]) == WHOLE
    assert recordings[0].attempts[0].connection is not None
    assert recordings[0].attempts[0].connection.peer == f"127.0.0.1:{server.port}"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_a_refused_connection_is_an_error(library: Any, recordings: list[Recording]) -> None:
    """No response: the connect failed, the attempt has an error, and the call ends with it."""
    with library.Client() as client:
        attach(client, done=recordings.append)
        with pytest.raises(library.ConnectError):
            client.get(f"http://127.0.0.1:{closed_port()}")
    (recording,) = recordings
    (attempt,) = recording.attempts
    assert names(attempt) == ["entry", "connect.started", "connect.failed", "error"]
    assert attempt.error_type == f"{library.__name__}.ConnectError"
    assert (recording.end.reason, recording.end.detail) == ("error", "ConnectError")
    assert attempt.status is None


@pytest.mark.parametrize(
    ("tail", "error"),
    [
        ([Reset], "ReadError"),
        ([Close], "RemoteProtocolError"),
        ([threading.Event()], "ReadTimeout"),
    ],
)
def test_a_stream_that_fails_keeps_what_came(
    library: Any, recordings: list[Recording], tail: list[Any], error: str
) -> None:
    """Reset, cut and timed out: the reads before it stand, and the error is named."""
    seen = threading.Event()
    reply = [stream_head(), chunk(PARTS[0]), seen, *tail]
    with serving(reply) as server, library.Client(timeout=0.3) as client:
        attach(client, done=recordings.append)
        response = client.send(client.build_request("GET", server.url), stream=True)
        parts = response.iter_raw()
        assert next(parts) == PARTS[0]
        seen.set()
        with pytest.raises(getattr(library, error)):
            next(parts)
    (recording,) = recordings
    (attempt,) = recording.attempts
    assert attempt.wire == (PARTS[0],)
    assert attempt.error_type == f"{library.__name__}.{error}"
    assert (recording.end.reason, recording.end.detail) == ("error", error)
    assert names(attempt)[-1] == "error"


def test_calls_in_flight_are_counted(recordings: list[Recording]) -> None:
    """A call opened while another streams has one in flight; itself is not counted."""
    replies = [stream(*PARTS), answer(200, b"x"), answer(200, b"x")]
    with serving(*replies) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        with client.stream("GET", server.url):
            client.get(server.url)
        client.get(server.url)
    assert [recording.in_flight for recording in recordings] == [1, 0, 0]


def test_a_stream_may_be_read_on_another_thread(recordings: list[Recording]) -> None:
    """State lives with the stream, not with the thread or context that asked for it."""
    with serving(stream(*PARTS)) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        response = client.send(client.build_request("GET", server.url), stream=True)
        thread = threading.Thread(target=response.read)
        thread.start()
        thread.join()
        assert response.content == b"".join(PARTS)
    assert recordings[0].end.reason == "complete"


def test_redirects_and_auth_hops_are_attempts_of_one_call(
    library: Any, recordings: list[Recording]
) -> None:
    """One `send`, one call: each hop is an attempt with its own marks."""
    replies = [
        answer(307, b"", Location="/next"),
        answer(401, b"", WWW_Authenticate='Digest realm="r", nonce="n", qop="auth"'),
        answer(200, b"x"),
    ]
    with serving(*replies) as server, library.Client(follow_redirects=True) as client:
        attach(client, done=recordings.append)
        assert client.get(server.url, auth=library.DigestAuth("u", "p")).status_code == 200
    (recording,) = recordings
    assert [attempt.status for attempt in recording.attempts] == [307, 401, 200]
    assert all(names(attempt)[0] == "entry" for attempt in recording.attempts)
    assert recording.broken == ()


async def test_async_hops_are_attempts_of_one_call(
    library: Any, recordings: list[Recording]
) -> None:
    """The same for an asynchronous client."""
    with serving(answer(307, b"", Location="/next"), answer(200, b"x")) as server:
        async with library.AsyncClient(follow_redirects=True) as client:
            attach(client, done=recordings.append)
            await client.get(server.url)
    (recording,) = recordings
    assert [attempt.status for attempt in recording.attempts] == [307, 200]


def test_a_body_in_memory_is_one_read(library: Any, recordings: list[Recording]) -> None:
    """A transport that answers from memory is recorded, with no connection known."""
    transport = library.MockTransport(lambda request: library.Response(200, content=b"hello"))
    with library.Client(transport=transport) as client:
        attach(client, done=recordings.append)
        assert client.get("https://example.test/").content == b"hello"
    (recording,) = recordings
    (attempt,) = recording.attempts
    assert attempt.wire == (b"hello",)
    assert names(attempt) == ["entry", "headers", "body.end"]
    assert attempt.connection is not None
    assert attempt.connection.reused is None
    assert attempt.connection.peer is None
    assert recording.target.port == 443


def test_a_streaming_request_body_is_left_alone(recordings: list[Recording]) -> None:
    """A request body that is a one-shot stream reaches the server whole and is not kept."""

    def body() -> Iterator[bytes]:
        yield b"one"
        yield b"two"

    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        client.post(server.url, content=body())
        assert b"one" in server.requests[0].body
        assert b"two" in server.requests[0].body
    assert recordings[0].sent is None


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(path / "key.pem"), "-out", str(path / "cert.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    return path


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_tls_is_marked_apart_from_connecting(
    library: Any, recordings: list[Recording], certificate: Path, kind: str
) -> None:
    """The handshake has its marks, the connection says TLS, and TCP_INFO is still there."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    verify = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with serving(answer(200, b"x"), tls=server_side) as server:
        if kind == "sync":
            with library.Client(verify=verify) as client:
                attach(client, done=recordings.append)
                client.get(server.url)
        else:
            async with library.AsyncClient(verify=verify) as client:
                attach(client, done=recordings.append)
                await client.get(server.url)
    (attempt,) = recordings[0].attempts
    assert names(attempt)[1:5] == [
        "connect.started",
        "connect.complete",
        "tls.started",
        "tls.complete",
    ]
    assert attempt.connection is not None
    assert attempt.connection.tls is True
    assert recordings[0].target.scheme == "https"
    if LINUX:
        assert moments(attempt) == ["connect", "sent", "headers", "first", "end"]


def test_types_are_the_librarys_own() -> None:
    """The streams pass the client's own type checks, in both libraries."""
    from latscope.capture import httpx as twin
    from latscope.capture import httpx2 as original

    assert issubclass(original.StampedStream, httpx2.SyncByteStream)
    assert issubclass(original.AsyncStampedStream, httpx2.AsyncByteStream)
    assert issubclass(twin.StampedStream, httpx.SyncByteStream)
    assert issubclass(twin.AsyncTappedTransport, httpx.AsyncBaseTransport)
