"""What a recording costs in memory, and that nothing of it stays."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from latscope.capture import recorder
from latscope.capture.instrument import attach
from latscope.capture.recorder import AttemptRecorder
from latscope.capture.tap import Tap
from latscope.recording import Recording


@pytest.fixture
def recordings() -> list[Recording]:
    return []


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
    monkeypatch.setattr(recorder, "KEEP_BYTES", 2 * (100 + recorder.A_READ))
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
        assert client._transport.latscope_tap.open == {}  # type: ignore[attr-defined]
    assert [recording.end.reason for recording in recordings] == ["abandoned"] * 1000
    assert len({recording.call_id for recording in recordings}) == 1000


def test_a_kept_response_keeps_no_payload(recordings: list[Recording]) -> None:
    """The caller holds on to the response: what was recorded through it is not held with it."""
    with httpx2.Client(transport=many(3)) as client:
        attach(client, done=recordings.append)
        response: Any = client.get("http://x/")
        assert len(recordings[0].attempts[0].reads) == 3
        assert response.stream._stream._attempt.reads == []
