"""An intake is given a stream's reads while it is open, and the call in place of its recording."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from latscope.capture import recorder
from latscope.capture.build import Ended
from latscope.capture.instrument import attach
from latscope.capture.recorder import A_READ, HAND_OVER, AttemptRecorder
from latscope.recording import Recording

URL = "http://x/v1/chat/completions"


class Taking:
    """Notes what it is given, as flat reads."""

    def __init__(self) -> None:
        self.parts: list[list[Any]] = []
        self.calls: list[Ended] = []

    def take(self, attempt: AttemptRecorder, reads: list[Any]) -> None:
        attempt.taken = "mine"
        self.parts.append(reads)

    def ended(self, call: Ended) -> None:
        self.calls.append(call)


class Chunks(httpx2.SyncByteStream):
    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.count):
            yield b"%0*d" % (self.size, number)


def client(count: int, size: int) -> httpx2.Client:
    return httpx2.Client(
        transport=httpx2.MockTransport(
            lambda request: httpx2.Response(200, stream=Chunks(count, size))
        )
    )


def not_to_be_called(recording: Recording) -> None:
    raise AssertionError


@pytest.mark.parametrize(("count", "size"), [(1000, 230), (20, 5000), (3, 70_000), (5, 10), (0, 1)])
def test_the_parts_and_the_rest_are_all_reads_in_order(count: int, size: int) -> None:
    """None is given twice, none holds more than its share, but for one chunk that is longer."""
    intake = Taking()
    with client(count, size) as made:
        attach(made, done=not_to_be_called, intake=intake)
        body = made.get(URL).content
    (call,) = intake.calls
    (left,) = call.attempts
    assert left.reads is not None
    flat = [item for part in [*intake.parts, left.reads] for item in part]
    assert b"".join(flat[2::3]) == body
    assert flat[1::3] == sorted(flat[1::3])
    assert all(asked <= got for asked, got in zip(flat[0::3], flat[1::3], strict=True))
    for part in intake.parts:
        whole = sum(map(len, part[2::3])) + A_READ * len(part) // 3
        assert HAND_OVER < whole <= HAND_OVER + A_READ + size
    assert (left.attempt.taken == "mine") is bool(intake.parts)


def test_the_recording_can_be_made_later_and_without_the_streams() -> None:
    intake = Taking()
    with client(3, 10) as made:
        attach(made, done=not_to_be_called, intake=intake)
        made.get(URL)
    (call,) = intake.calls
    whole, bare = call.recording(), call.recording(streams=False)
    assert [read.wire_bytes for read in whole.attempts[0].reads] == [10] * 3
    assert (bare.attempts[0].reads, bare.attempts[0].wire) == ((), ())
    assert whole.attempts[0].marks == bare.attempts[0].marks
    assert whole.attempts[0].status == bare.attempts[0].status == 200


def test_an_intake_that_raises_is_not_felt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller gets every byte."""

    class Broken:
        def take(self, attempt: AttemptRecorder, reads: list[Any]) -> None:
            raise RuntimeError

        def ended(self, call: Ended) -> None:
            noted.append(call.recording().broken)
            raise RuntimeError

    noted: list[tuple[str, ...]] = []
    monkeypatch.setattr(recorder, "HAND_OVER", 100)
    with client(50, 10) as made:
        attach(made, done=not_to_be_called, intake=Broken())
        assert len(made.get(URL).content) == 500
    assert noted == [("read: RuntimeError",)]


def test_the_last_stamp_is_known_after_a_part_was_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream left right behind a hand-over ends where it was left: at its last read."""
    monkeypatch.setattr(recorder, "HAND_OVER", 10)
    intake = Taking()
    with client(5, 20) as made:
        attach(made, done=not_to_be_called, intake=intake)
        response = made.send(made.build_request("GET", URL), stream=True)
        source = response.iter_raw()
        next(source)
        next(source)
        del source, response
    (call,) = intake.calls
    assert call.attempts[0].reads == []
    assert call.end_ns == intake.parts[-1][-2]
