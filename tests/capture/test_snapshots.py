"""When the kernel is asked about the connection, and what it says of real ones."""

import contextlib
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import pytest

from latscope.capture import rtt, sockets
from latscope.capture.instrument import attach
from latscope.capture.snapshots import GAPS, Snapshots
from latscope.middleware.pipeline import finish
from latscope.recording import Attempt, Recording, TcpInfo
from latscope.units import MS, US, Ns
from tests.capture.h2server import serving_h2
from tests.capture.scripted import LAST, Reply, answer, chunk, serving, stream_head
from tests.wire.test_tcp_info import raw

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's kernel")


@pytest.fixture
def recordings() -> list[Recording]:
    return []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every socket tells the same."""
    monkeypatch.setattr(sockets, "tcp_info", lambda sock: b"told")


def gaps(kernel: Snapshots, silences: Sequence[Ns]) -> list[int]:
    """Reads so far apart: the indices of those whose silence was found to stand out."""
    at = 0
    calm = kernel.read(0, at, None)
    found = []
    for index, silence in enumerate(silences):
        at += silence
        if silence > calm:  # as the recorder does
            calm = kernel.read(silence, at, None)
        if kernel.taken[-1][:2] == ("gap", at):
            found.append(index)
    return found


@pytest.mark.usefixtures("told")
def test_the_first_read_is_snapped_whatever_it_waited() -> None:
    kernel = Snapshots()
    assert gaps(kernel, []) == []
    assert kernel.taken == [("first", 0, b"told")]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize(
    ("silences", "found"),
    [
        ([10 * MS] * 20 + [24 * MS] + [10 * MS] * 9, []),
        ([10 * MS] * 20 + [200 * MS] + [10 * MS] * 9 + [200 * MS], [20, 30]),
        ([MS] * 20 + [26 * MS] + [MS] * 9, [20]),
        ([10 * MS, 0, 0, 0, 0] * 20, []),
        ([90 * MS] * 20 + [150 * MS] + [90 * MS] * 9, [*range(5)]),
        ([90 * MS] * 40 + [500 * MS] + [10 * MS] * 40 + [80 * MS], [*range(5), 40, 81]),
    ],
    ids=["steady", "two stalls", "short", "bursts", "slow", "slow then fast"],
)
def test_a_gap_stands_out_of_its_stream(silences: list[Ns], found: list[int]) -> None:
    """Over 25 ms, and over three times what is usual; what that is shows within a few reads."""
    assert gaps(Snapshots(), silences) == found


@pytest.mark.usefixtures("told")
def test_gaps_are_snapped_up_to_a_limit_and_then_at_each_doubling() -> None:
    """Of 600 gaps the first 64, the 128th, the 256th and the 512th."""
    kernel = Snapshots()
    found = gaps(kernel, ([MS] * 40 + [200 * MS]) * 600)
    assert [index // 41 + 1 for index in found] == [*range(1, GAPS + 1), 128, 256, 512]


def moments(attempt: Attempt) -> dict[str, TcpInfo]:
    return {info.at: info for info in attempt.tcp_info}


def test_a_silence_in_a_stream_is_snapped_at_the_read_that_ends_it(
    recordings: list[Recording],
) -> None:
    """The snapshot bears the read's own stamp, and says that the bytes had just come."""
    gate = threading.Event()
    reply: Reply = [stream_head(), chunk(b"a"), gate, chunk(b"b"), LAST]
    with serving(reply) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        with client.stream("GET", server.url) as response:
            parts = response.iter_raw()
            next(parts)
            timer = threading.Timer(0.2, gate.set)
            timer.start()
            assert list(parts) == [b"b"]
            timer.join()
    (attempt,) = finish(recordings[0]).attempts
    found = moments(attempt)
    assert list(found) == ["window", "connect", "sent", "headers", "first", "gap", "end"]
    assert (found["first"].at_ns, found["gap"].at_ns) == tuple(r.got_ns for r in attempt.reads)
    assert found["connect"].at_ns == attempt.mark("connect.complete")
    assert found["sent"].at_ns == attempt.mark("request.sent")
    assert found["end"].at_ns == attempt.mark("body.end")
    assert all(0 <= (info.at_ns or 0) <= recordings[0].last_ns for info in attempt.tcp_info)


def test_bytes_that_waited_for_the_consumer_tell_how_long(recordings: list[Recording]) -> None:
    """The stream had come whole when the consumer paused: its last data is as old as that."""
    parts = [stream_head(), chunk(b"a"), chunk(b"b"), LAST]
    with serving(parts) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        with client.stream("GET", server.url) as response:
            rest = response.iter_raw()
            next(rest)
            sock = response.extensions["network_stream"].get_extra_info("socket")
            while received(sock) < sum(map(len, parts)):
                time.sleep(0.001)
            whole = time.perf_counter_ns()
            time.sleep(0.3)
            assert list(rest) == [b"b"]
    recording = finish(recordings[0])
    (attempt,) = recording.attempts
    assert recording.clock is not None
    gap = moments(attempt)["gap"]
    assert gap.at_ns == attempt.reads[1].got_ns
    assert gap.last_data_recv_ns is not None
    since = recording.clock.zero_ns + gap.at_ns - whole
    assert since >= 300 * MS
    # The kernel counts in ticks of at most 10 ms.
    assert since - 20 * MS <= gap.last_data_recv_ns <= gap.at_ns + 20 * MS
    held = attempt.reads[1].asked_ns - attempt.reads[0].got_ns
    assert (attempt.reads[0].got_ns, held) in recording.client.consumer


def received(sock: socket.socket) -> int:
    """Bytes the kernel has got so far."""
    count: int = struct.unpack_from("=Q", sock.getsockopt(socket.IPPROTO_TCP, 11, 280), 128)[0]
    return count


@contextlib.contextmanager
def slow_reader(pause_s: float) -> Iterator[str]:
    """A server that takes a connection and lets the first request wait before it reads on."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            pause = pause_s
            while head := connection.recv(16):
                time.sleep(pause)
                pause = 0.0
                while b"\r\n\r\n" not in head:
                    head += connection.recv(4096)
                head, _, body = head.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                while len(body) < length:
                    body += connection.recv(1 << 20)
                connection.sendall(answer(200, b"ok")[0])  # type: ignore[arg-type]

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(20)


def test_a_large_body_keeps_the_kernel_busy(recordings: list[Recording]) -> None:
    """A server that does not read: what is sent is not the kernel's yet to have sent, and by the
    headers it was busy for as long as the server slept."""
    body = b"x" * 3_000_000
    with slow_reader(0.3) as url, httpx2.Client() as client:
        attach(client, done=recordings.append)
        client.post(url, content=body)
        client.post(url, content=b"small")
    first, second = (moments(finish(recording).attempts[0]) for recording in recordings)
    assert first["headers"].busy_ns is not None
    assert first["headers"].busy_ns >= 250 * MS
    assert first["connect"].busy_ns == 0
    assert (first["sent"].notsent_bytes or 0) >= 0
    # A connection counts on: the next call's share is what came since its request began.
    assert second["started"].busy_ns is not None
    assert second["headers"].busy_ns is not None
    assert first["headers"].busy_ns <= second["started"].busy_ns <= second["headers"].busy_ns


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    table: dict[str, Any] = {}
    monkeypatch.setattr(rtt, "_seen", table)
    return table


def test_the_window_reaches_back_to_earlier_calls(
    recordings: list[Recording], seen: dict[str, Any]
) -> None:
    """An address once seen nearer stays so near for five minutes, on new connections too."""
    with serving(answer(200, b"a"), answer(200, b"b", connection="close")) as server:
        peer = f"127.0.0.1:{server.port}"
        with httpx2.Client() as client:
            attach(client, done=recordings.append)
            client.get(server.url)
        lowest = seen[peer][0][1]
        assert lowest == moments(finish(recordings[0]).attempts[0])["window"].min_rtt_ns
        seen[peer] = ((time.perf_counter_ns(), 1),)
        with httpx2.Client() as client:
            attach(client, done=recordings.append)
            client.get(server.url)
    window = moments(finish(recordings[1]).attempts[0])["window"]
    assert (window.min_rtt_ns, window.rtt_ns) == (1, None)
    assert window.at_ns is not None
    headers = recordings[1].attempts[0].mark("headers")
    assert headers is not None
    assert headers <= window.at_ns


def test_http2_streams_have_snapshots_and_a_window(
    recordings: list[Recording], seen: dict[str, Any]
) -> None:
    """The second request finds the connection there before its answer names it."""
    transport = httpx2.HTTPTransport(http1=False, http2=True)
    with serving_h2([b"one"], [b"two"]) as url, httpx2.Client(transport=transport) as client:
        attach(client, done=recordings.append)
        client.get(url)
        client.get(url)
    (first,), (second,) = (finish(recording).attempts for recording in recordings)
    assert list(moments(first))[:4] == ["window", "connect", "sent", "headers"]
    assert list(moments(second))[:4] == ["window", "started", "sent", "headers"]
    assert moments(second)["window"].min_rtt_ns is not None


def test_a_reused_connection_that_dies_unanswered_is_named(recordings: list[Recording]) -> None:
    """No response tells of it: what the pool gave the request does."""
    replies: list[Reply] = [answer(200, b"a"), [threading.Event()]]
    with serving(*replies) as server, httpx2.Client(timeout=0.5) as client:
        attach(client, done=recordings.append)
        client.get(server.url)
        with pytest.raises(httpx2.ReadTimeout):
            client.get(server.url)
    first, second = (recording.attempts[0].connection for recording in recordings)
    assert first is not None
    assert second is not None
    assert (second.id, second.peer, second.reused) == (first.id, first.peer, True)


def test_each_address_that_was_tried_has_its_marks(
    recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connecting fails, waits and succeeds within one attempt: all of it is marked."""
    with serving(answer(200, b"x")) as server:
        refused = iter([True])
        connect = socket.create_connection

        def flaky(*args: Any, **kwargs: Any) -> socket.socket:
            if next(refused, False):
                raise ConnectionRefusedError
            return connect(*args, **kwargs)

        monkeypatch.setattr(socket, "create_connection", flaky)
        with httpx2.Client(transport=httpx2.HTTPTransport(retries=1)) as client:
            attach(client, done=recordings.append)
            client.get(server.url)
    names = [mark.name for mark in recordings[0].attempts[0].marks]
    assert names[1:5] == [
        "connect.started", "connect.failed", "connect.started", "connect.complete",
    ]  # fmt: skip


def test_the_one_figure_read_here_is_the_decoders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """min_rtt in nanoseconds; null without a sample, cut short, or from another system."""
    assert sockets.min_rtt(raw(232, min_rtt=900)) == 900 * US
    assert sockets.min_rtt(raw(232, min_rtt=0xFFFFFFFF)) is None
    assert sockets.min_rtt(raw(151, min_rtt=900)) is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sockets.min_rtt(raw(232, min_rtt=900)) is None


def test_a_transport_of_another_make_has_no_stream_to_show() -> None:
    """No pool, no request of that name, no connection yet: null, no error."""
    request = httpx2.Request("GET", "http://x/")
    assert sockets.stream_of(None, request) is None
    with httpx2.HTTPTransport() as transport:
        assert sockets.stream_of(transport, request) is None
        transport._pool._requests.append(type("Each", (), {"request": request})())
        assert sockets.stream_of(transport, request) is None
        transport._pool._requests.clear()
