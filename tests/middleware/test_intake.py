"""Streams taken while open, calls chosen, and what happens where the worker cannot follow."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest

import latscope
from latscope.errors import UsageError
from latscope.middleware import worker
from latscope.middleware.intake import Sampling, failed
from latscope.middleware.pipeline import finish
from latscope.recording import Attempt, End, EventRow, Mark, Recording, Sample, Target
from latscope.units import MS
from tests.wire.messages import exception

from .server import CANARY

CHUNK = (
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n'
)
URL = "http://127.0.0.1/v1/chat/completions"


class Stream(httpx2.SyncByteStream):
    def __init__(self, count: int, between: Callable[[int], object]) -> None:
        self.count, self.between = count, between

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.count):
            self.between(number)
            yield CHUNK % CANARY.encode()
        yield b"data: [DONE]\n\n"


def client(
    count: int = 1000, between: Callable[[int], object] = lambda number: None, status: int = 200
) -> httpx2.Client:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(status, headers=headers, stream=Stream(count, between))

    return httpx2.Client(transport=httpx2.MockTransport(answer))


def spoken(made: httpx2.Client) -> bytes:
    with made.stream("POST", URL, content=b"{}") as response:
        return b"".join(response.iter_raw())


@pytest.fixture
def calls() -> list[Recording]:
    return []


def test_a_stream_taken_in_parts_is_recorded_as_one_kept_whole(calls: list[Recording]) -> None:
    """What the parts add up to is what the pipeline makes of the raw recording."""
    from latscope.capture.instrument import attach

    raw: list[Recording] = []
    with client() as plain, client() as taken:
        attach(plain, done=raw.append)
        latscope.instrument(taken, sink=calls.append)
        answer = spoken(plain)
        assert spoken(taken) == answer
    latscope.flush()
    (attempt,), (expected,) = calls[0].attempts, finish(raw[0]).attempts
    assert len(answer) > 3 * 32 * 1024
    assert attempt.body == expected.body
    assert [read[2:] for read in attempt.reads] == [read[2:] for read in expected.reads]
    assert CANARY.encode() not in (attempt.body or b"")
    assert calls[0].broken == ()


def test_payload_is_let_go_while_the_stream_is_open(calls: list[Recording]) -> None:
    """Halfway through a stream of 100 KB nothing of its first 64 KB is in memory in clear."""

    def look(number: int) -> None:
        if number == 900:
            worker.current().flush()
            held = [one for one in gc.get_objects() if isinstance(one, list) and len(one) > 3]
            chunks = [item for one in held for item in one if item == CHUNK % CANARY.encode()]
            seen.append(len(chunks))

    seen: list[int] = []
    with client(between=look) as made:
        latscope.instrument(made, sink=calls.append)
        with made.stream("POST", URL, content=b"{}") as response:
            for _ in response.iter_raw():
                pass
    latscope.flush()
    assert seen[0] < 400
    assert len(calls) == 1


def test_a_longer_answer_is_truncated_and_keeps_its_events(calls: list[Recording]) -> None:
    with client() as made:
        latscope.instrument(made, sink=calls.append, max_body=50_000)
        spoken(made)
    latscope.flush()
    (attempt,) = calls[0].attempts
    assert attempt.body is None
    assert [row.kind for row in attempt.events or ()] == ["content"] * 1000 + ["done"]
    assert calls[0].broken == ("body: truncated, it is longer than is kept",)
    timeline = latscope.attribute(calls[0])
    assert (timeline.status, timeline.first_token_ns is not None) == ("complete", True)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[worker.Worker]:
    """A worker that takes two items, and is stopped at the end."""
    made = worker.Worker(limit=2)
    monkeypatch.setattr(worker, "_worker", made)
    yield made
    made.stop()


def test_a_call_that_cannot_be_followed_is_dropped_whole(
    small: worker.Worker, calls: list[Recording], caplog: pytest.LogCaptureFixture
) -> None:
    """A sink that hangs: the caller reads on as before, and no half of a call is recorded."""
    hangs, reached = threading.Event(), threading.Event()

    def sink(recording: Recording) -> None:
        calls.append(recording)
        reached.set()
        assert hangs.wait(20)

    with client(count=3) as first, client() as long:
        latscope.instrument(first, sink=sink)
        latscope.instrument(long, sink=sink)
        spoken(first)
        assert reached.wait(20)
        whole = spoken(long)
        assert len(whole) == 1000 * len(CHUNK % CANARY.encode()) + len(b"data: [DONE]\n\n")
        assert small.dropped == 1
        hangs.set()
        assert latscope.flush(20)
        small.limit = 100
        spoken(long)
        assert latscope.flush(20)
    assert [len(call.attempts[0].reads) for call in calls] == [4, 1001]
    assert "at least 1 dropped" in caplog.text


def test_what_waits_is_bounded_in_bytes(calls: list[Recording]) -> None:
    made = worker.Worker(limit_bytes=100)
    gate = threading.Event()

    def held() -> Iterator[None]:
        gate.wait(20)
        yield

    try:
        made.submit(held)
        assert made.offer(lambda: iter(()), weight=101)
        assert not made.offer(lambda: iter(()), weight=1)
        assert made.dropped == 0
        gate.set()
        assert made.flush(20)
        assert made.waiting_bytes == 0
        assert made.offer(lambda: iter(()), weight=1)
    finally:
        gate.set()
        made.stop()


def test_a_worker_that_is_stuck_has_its_drops_told_by_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once; and at the end how many there were."""
    gate, told = threading.Event(), threading.Event()
    now = 1

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    handler = Handler()
    logging.getLogger("latscope").addHandler(handler)
    made = worker.Worker(limit=0, clock=lambda: now)
    reached = threading.Event()

    def stuck() -> Iterator[None]:
        reached.set()
        gate.wait(20)
        yield

    try:
        made.limit = 1
        made.submit(stuck)
        assert reached.wait(20)
        made.limit = 0
        assert not made.submit(stuck)
        assert caplog.records == []
        now += worker.STUCK_NS + 1
        assert not made.submit(stuck)
        assert told.wait(20)
        made.submit(stuck)
    finally:
        gate.set()
        logging.getLogger("latscope").removeHandler(handler)
        made.stop()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "more calls than can be recorded: at least 2 dropped",
        "3 calls were dropped in all",
    ]


def recording(**changes: Any) -> Recording:
    made = Recording(
        call_id="c",
        started_at="t",
        target=Target(scheme="http", host="h", port=80, path="/"),
        marks=(Mark("entry", 0), Mark("end", 100 * MS)),
        attempts=(Attempt(status=200, body=b"data: {}\n\n"),),
    )
    return replace(made, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"end": End(reason="error", detail="ReadTimeout")},
        {"attempts": (Attempt(status=429), Attempt(status=200))},
        {"attempts": (Attempt(error_type="httpx2.ConnectError"), Attempt(status=200))},
        {"attempts": (Attempt(body=b'data: {"error":{"message":"xx"}}\n\n'),)},
        {"attempts": (Attempt(body=b'event: error\ndata: {"type":"error"}\n\n'),)},
        {"attempts": (Attempt(body=b'{"error": "xx"}\n'),)},
        {"attempts": (Attempt(body=exception("throttlingException", "xx")),)},
        {"attempts": (Attempt(events=(EventRow(9, "error", None),)),)},
    ],
)
def test_calls_that_failed_are_always_kept(changes: dict[str, Any]) -> None:
    """All of them are, so each stands for itself alone: rate 1."""
    assert failed(recording(**changes))
    assert Sampling(rate=0).of(recording(**changes)) == Sample(rate=1.0, why="error")


@pytest.mark.parametrize(
    ("body", "events"),
    [(b'data: {"error":null,"choices":[]}\n\n', None), (None, (EventRow(9, "done", None),))],
)
def test_others_are_not(body: bytes | None, events: Any) -> None:
    made = recording(attempts=(Attempt(status=200, body=body, events=events),))
    assert not failed(made)
    assert Sampling(rate=0).of(made) is None


def test_slow_calls_are_always_kept() -> None:
    assert Sampling(0, 100 * MS).of(recording()) == Sample(rate=1.0, why="slow")
    assert Sampling(0, 100 * MS + 1).of(recording()) is None
    assert Sampling(0).of(recording()) is None


def test_the_rest_is_chosen_at_random_and_says_at_what_rate() -> None:
    kept = [Sampling(0.25).of(recording(call_id=str(n))) for n in range(4000)]
    found = [sample for sample in kept if sample is not None]
    assert set(found) == {Sample(rate=0.25, why="random")}
    assert 800 < len(found) < 1200
    assert Sampling().of(recording()) == Sample(rate=1.0, why="all")


def test_a_recording_says_why_it_was_kept(calls: list[Recording]) -> None:
    with client(count=1) as quick, client(count=1, status=500) as broken:
        latscope.instrument(quick, sink=calls.append, sample=0, slow=30.0)
        latscope.instrument(broken, sink=calls.append, sample=0)
        spoken(quick)
        spoken(broken)
        latscope.instrument(quick, sink=calls.append, sample=0, slow=0)
        spoken(quick)
    latscope.flush()
    assert [call.sample.why for call in calls] == ["error", "slow"]


@pytest.mark.parametrize("wrong", [{"slow": -1.0}, {"slow": float("nan")}, {"max_body": -1}])
def test_arguments_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with client() as made, pytest.raises(UsageError, match=next(iter(wrong))):
        latscope.instrument(made, **wrong)


def test_paused_calls_are_not_recorded_and_open_ones_go_on(calls: list[Recording]) -> None:
    with client(count=3) as made:
        latscope.instrument(made, sink=calls.append)
        with made.stream("POST", URL) as response:
            latscope.pause()
            try:
                whole = spoken(made)
            finally:
                latscope.resume()
            assert b"".join(response.iter_raw()) == whole
        spoken(made)
    latscope.flush()
    assert len(calls) == 2


def test_paused_sdk_calls_are_not_recorded(calls: list[Recording]) -> None:
    openai = pytest.importorskip("openai")
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
    http = httpx2.Client(transport=httpx2.MockTransport(lambda r: httpx2.Response(200, json=body)))
    made = openai.OpenAI(api_key="k", base_url="http://127.0.0.1/v1", http_client=http)
    latscope.instrument(made, sink=calls.append)
    latscope.pause()
    try:
        made.chat.completions.create(model="m", messages=[])
    finally:
        latscope.resume()
    made.chat.completions.create(model="m", messages=[])
    latscope.flush()
    assert [call.start for call in calls] == ["sdk"]
