"""The Anthropic SDK's middleware: what it knows is written on the attempts the transport saw."""

import asyncio
import importlib
import sys
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

import latscope
from latscope.errors import UsageError
from latscope.middleware import compose
from latscope.middleware.anthropic import AttemptMarks
from latscope.recording import Recording
from latscope.timeline import build
from tests.capture import bodies
from tests.capture.scripted import Close, Reply, json_answer, serving

ASK: dict[str, Any] = {
    "model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}],
}  # fmt: skip
Make = Callable[..., Any]


def refused(status: int) -> Reply:
    return bodies.refused(status, retry_after_ms="1")


def call(url: str, *, is_async: bool, instrumented: bool = True, **options: Any) -> Any:
    """One call through a client that has the middleware; its answer."""
    made: Any = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    given = {"api_key": "none", "base_url": url, "middleware": [AttemptMarks()], **options}

    async def asked() -> Any:
        async with made(**given) as client:
            if instrumented:
                latscope.instrument(client)
            return await client.messages.create(**ASK)

    if is_async:
        return asyncio.run(asked())
    with made(**given) as client:
        if instrumented:
            latscope.instrument(client)
        return client.messages.create(**ASK)


def tries(recording: Recording) -> list[tuple[int | None, int | None]]:
    return [(attempt.retry_count, attempt.status) for attempt in recording.attempts]


@pytest.mark.parametrize("is_async", [False, True])
def test_each_attempt_says_which_try_it_is_of(is_async: bool) -> None:
    """Though the caller leaves out the header that tells the transport so. One call, nothing
    twice, the answer untouched."""
    unsaid = {"x-stainless-retry-count": anthropic.Omit()}
    replies = (refused(429), refused(529), json_answer(bodies.MESSAGE))
    with serving(*replies) as server:
        answer = call(server.url, is_async=is_async, default_headers=unsaid)
        assert ["x-stainless-retry-count" in got.headers for got in server.requests] == [False] * 3
    assert answer.content[0].text == "hello"
    (recording,) = latscope.recent()
    assert tries(recording) == [(0, 429), (1, 529), (2, 200)]
    assert recording.broken == ()
    for attempt in recording.attempts:
        names = [mark.name for mark in attempt.marks]
        assert names[:2] == ["entry", "attempt"]
        assert names.count("attempt") == 1
        began, entered = attempt.mark("attempt"), attempt.mark("entry")
        assert began is not None
        assert entered is not None
        assert 0 < began <= entered


def test_what_other_middleware_takes_is_no_wait_for_a_retry() -> None:
    """It is the client's own, from when the SDK began the try."""

    def busy(request: Any, call_next: Any) -> Any:
        for _ in range(20_000):
            pass
        return call_next(request)

    with serving(refused(500), json_answer(bodies.MESSAGE)) as server:
        call(server.url, is_async=False, middleware=[AttemptMarks(), busy])
    (recording,) = latscope.recent()
    began = recording.attempts[1].mark("attempt")
    entered = recording.attempts[1].mark("entry")
    assert began is not None
    assert entered is not None
    second = build(recording).exchanges[1]
    assert second.start_ns == began
    assert second.phases[0].name == "pool_wait"
    assert second.phases[0].start_ns == began
    assert second.phases[0].end_ns >= entered


def test_a_try_another_middleware_makes_again_is_the_same_try() -> None:
    """As the SDK counts; the transport saw both."""

    def twice(request: Any, call_next: Any) -> Any:
        call_next(request)
        return call_next(request)

    unsaid = {"x-stainless-retry-count": anthropic.Omit()}
    with serving(refused(429), json_answer(bodies.MESSAGE)) as server:
        call(server.url, is_async=False, middleware=[twice, AttemptMarks()], default_headers=unsaid)
    (recording,) = latscope.recent()
    assert tries(recording) == [(0, 429), (0, 200)]


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_raised_passes_and_its_attempt_is_marked(is_async: bool) -> None:
    with serving([Close]) as server, pytest.raises(anthropic.APIConnectionError):
        call(server.url, is_async=is_async, max_retries=0)
    (recording,) = latscope.recent()
    (attempt,) = recording.attempts
    assert attempt.mark("attempt") is not None
    assert recording.end.reason == "error"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_client_that_is_not_recorded_is_served_the_same(is_async: bool) -> None:
    with serving(json_answer(bodies.MESSAGE)) as server:
        answer = call(server.url, is_async=is_async, instrumented=False)
    assert answer.content[0].text == "hello"
    assert compose.recent() == []


def test_it_stays_quiet_where_it_cannot_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of its own costs the mark, not the call."""

    class Odd:
        @property
        def retries_taken(self) -> int:
            raise RuntimeError

    marks = AttemptMarks()
    with serving(json_answer(bodies.MESSAGE)) as server:
        answer = call(
            server.url,
            is_async=False,
            middleware=[
                lambda request, call_next: marks.handle(Odd(), lambda _: call_next(request))
            ],
            default_headers={"x-stainless-retry-count": anthropic.Omit()},
        )
    assert answer.content[0].text == "hello"
    (recording,) = latscope.recent()
    assert tries(recording) == [(None, 200)]


def test_an_sdk_without_middleware_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or none at all."""
    monkeypatch.delitem(sys.modules, "latscope.middleware.anthropic")
    monkeypatch.delattr(anthropic, "Middleware")
    with pytest.raises(UsageError, match="pip install -U anthropic"):
        importlib.import_module("latscope.middleware.anthropic")
