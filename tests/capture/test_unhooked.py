"""SDK calls whose entry was missed: their tries are joined by the SDK's own count, and flagged."""

import importlib
from typing import Any

import httpx
import pytest

from latscope.capture.instrument import attach, detach, settle
from latscope.capture.recorder import NOT_HOOKED
from latscope.recording import Recording
from tests.capture import bodies, clients, styles
from tests.capture.scripted import Reply, serving


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def refusals() -> list[Reply]:
    return [bodies.refused(429, retry_after_ms="30"), bodies.refused(500, retry_after_ms="30")]


@pytest.mark.parametrize("kind", ["its own", "httpx"])
def test_retries_of_an_unhooked_sdk_are_joined_and_flagged(
    kind: str, recordings: list[Recording]
) -> None:
    """Only the HTTP client was instrumented: the SDK's retry count joins its tries."""
    import openai

    library = httpx if kind == "httpx" else clients.library_of(openai)
    with serving(*refusals(), bodies.chat()) as server, library.Client() as http:
        attach(http, done=recordings.append)
        client: Any = openai.OpenAI(
            api_key=clients.KEY, base_url=server.url, http_client=http, max_retries=3
        )
        client.chat.completions.create(**styles.CHAT)
    (recording,) = recordings
    assert [attempt.status for attempt in recording.attempts] == [429, 500, 200]
    assert recording.broken == (NOT_HOOKED,)
    assert recording.start == "transport"


def test_an_unhooked_failure_is_reported_when_asked(recordings: list[Recording]) -> None:
    """No retry came: the attempt waits for it, and `settle` or `detach` reports it."""
    import openai

    replies = [bodies.refused(429), bodies.refused(500), bodies.refused(400)]
    with serving(*replies) as server, clients.library_of(openai).Client() as http:
        attach(http, done=recordings.append)
        client: Any = openai.OpenAI(
            api_key=clients.KEY, base_url=server.url, http_client=http, max_retries=0
        )
        statuses: list[int | None] = []
        for report in (settle, detach):
            with pytest.raises(openai.APIStatusError):
                client.chat.completions.create(**styles.CHAT)
            assert [r.attempts[0].status for r in recordings] == statuses
            report(http)
            statuses = [r.attempts[0].status for r in recordings]
        assert statuses == [429, 500]
        attach(http, done=recordings.append)
        with pytest.raises(openai.APIStatusError):
            client.chat.completions.create(**styles.CHAT)
        assert recordings[-1].attempts[0].status == 400


def test_a_capture_transport_joins_retries_too(recordings: list[Recording]) -> None:
    """The public transport, in a client of the user's own making."""
    import openai

    library = clients.library_of(openai)
    ours = importlib.import_module(f"latscope.capture.{library.__name__}")
    with serving(*refusals(), bodies.chat()) as server:
        http = library.Client(transport=ours.CaptureTransport(done=recordings.append))
        client: Any = openai.OpenAI(
            api_key=clients.KEY, base_url=server.url, http_client=http, max_retries=2
        )
        with client:
            client.chat.completions.create(**styles.CHAT)
    (recording,) = recordings
    assert [attempt.retry_count for attempt in recording.attempts] == [0, 1, 2]
    assert recording.broken == (NOT_HOOKED,)


async def test_an_async_capture_transport_makes_recordings(recordings: list[Recording]) -> None:
    """The same for an asynchronous client; instrumenting it as well only adds the SDK's entry."""
    import openai

    library = clients.library_of(openai)
    ours = importlib.import_module(f"latscope.capture.{library.__name__}")
    other: list[Recording] = []
    with serving(bodies.chat(), bodies.chat()) as server:
        inner = library.AsyncHTTPTransport()
        transport = ours.AsyncCaptureTransport(inner, done=recordings.append)
        http = library.AsyncClient(transport=transport)
        client: Any = openai.AsyncOpenAI(api_key=clients.KEY, base_url=server.url, http_client=http)
        async with client:
            await client.chat.completions.create(**styles.CHAT)
            attach(client, done=other.append)
            await client.chat.completions.create(**styles.CHAT)
            detach(client)
    assert [recording.start for recording in recordings] == ["transport", "sdk"]
    assert other == []


def test_a_failed_try_that_waited_too_long_is_reported(
    recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unhooked failure waits at most RETRY_WITHIN: the next call reports it. A retry count that
    does not follow, or of another client, joins nothing."""
    from latscope.capture import tap

    tries = ("0", "2", "1", "none", "0")
    replies = [bodies.refused(429) for _ in tries]
    with serving(*replies) as server, httpx.Client() as client, httpx.Client() as other:
        attach(client, done=recordings.append)
        attach(other, done=recordings.append)
        client.get(server.url, headers={"x-stainless-retry-count": "0"})
        client.get(server.url, headers={"x-stainless-retry-count": "2"})
        other.get(server.url, headers={"x-stainless-retry-count": "3"})
        assert recordings == []
        client.get(server.url, headers={"x-stainless-retry-count": "none"})
        assert len(recordings) == 1
        monkeypatch.setattr(tap, "RETRY_WITHIN", -1)
        client.get(server.url)
        settle(other)
    assert [len(r.attempts) for r in recordings] == [1] * 5
    assert [r.attempts[0].retry_count for r in recordings] == [None, 0, 2, None, 3]


def test_an_error_that_no_retry_follows_ends_an_unhooked_call(
    recordings: list[Recording],
) -> None:
    """An exception in an unhooked SDK request waits for its retry too, and ends as an error."""
    with httpx.Client() as client:
        attach(client, done=recordings.append)
        with pytest.raises(httpx.ConnectError):
            client.get("http://127.0.0.1:1", headers={"x-stainless-retry-count": "0"})
        assert recordings == []
        detach(client)
    assert [r.end.reason for r in recordings] == ["error"]
