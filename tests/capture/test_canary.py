"""When a hook did not fire: these tests fail for the SDKs we have, one warning comes otherwise."""

import importlib
import inspect
import logging
import types
from typing import Any

import anthropic
import pytest

from latscope.capture import sdk
from latscope.capture.instrument import attach
from latscope.recording import Recording
from tests.capture import bodies, clients, styles
from tests.capture.scripted import serving

KINDS = ["openai", "openai-httpx", "anthropic"]
ASYNC = ["openai-async", "openai-async-httpx", "anthropic-async"]


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def arguments(kind: str) -> dict[str, Any]:
    return styles.CHAT if kind.startswith("openai") else styles.MESSAGE


def reply(kind: str) -> Any:
    return bodies.chat() if kind.startswith("openai") else bodies.message()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "latscope"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_hook_fires(
    kind: str, recordings: list[Recording], caplog: pytest.LogCaptureFixture
) -> None:
    """The canary: the SDK's entry, `send` and the transport, with the versions installed here."""
    with serving(reply(kind)) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        tap = sdk.tap_of(client._client)
        assert tap is not None
        clients.api(client).create(**arguments(kind))
        assert (tap.hooked, tap.attempts, tap.unseen) == (True, 1, 0)
    assert [(r.start, len(r.attempts)) for r in recordings] == [("sdk", 1)]
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("kind", ASYNC)
async def test_every_hook_of_an_async_client_fires(
    kind: str, recordings: list[Recording], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(reply(kind)) as server:
        async with clients.make(kind, server.url) as client:
            attach(client, done=recordings.append)
            tap = sdk.tap_of(client._client)
            assert tap is not None
            await clients.api(client).create(**arguments(kind))
            assert (tap.hooked, tap.attempts, tap.unseen) == (True, 1, 0)
    assert [(r.start, len(r.attempts)) for r in recordings] == [("sdk", 1)]
    assert warnings_in(caplog) == []


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_the_private_names_are_there(name: str) -> None:
    """What the hooks stand on, by name: the first thing to look at when a canary dies."""
    base = importlib.import_module(f"{name}._base_client")
    for kind in ("SyncAPIClient", "AsyncAPIClient"):
        assert callable(vars(getattr(base, kind))["request"])
    with clients.make(name, "http://127.0.0.1:1") as client:
        assert client._client._transport._pool is not None
        assert isinstance(client._client._mounts, dict)


def bypassed(client: Any) -> None:
    """As if the library kept its transports under another name."""
    inner = client._client._transport.latscope_inner
    client._client._transport_for_url = lambda url: inner


@pytest.mark.parametrize("kind", KINDS)
def test_a_transport_that_moved_is_warned_of_once(
    kind: str, recordings: list[Recording], caplog: pytest.LogCaptureFixture
) -> None:
    """The answers come as ever; the first of them says that nothing was recorded."""
    with serving(*[reply(kind)] * 3) as server, clients.make(kind, server.url) as client:
        attach(client, done=recordings.append)
        bypassed(client)
        for _ in range(3):
            assert clients.api(client).create(**arguments(kind)).id
    (said,) = warnings_in(caplog)
    assert said.startswith(f"calls of {recordings[0].sdk} are not recorded: no request of theirs")


def test_a_plain_client_whose_transport_moved_is_warned_of(
    recordings: list[Recording], caplog: pytest.LogCaptureFixture
) -> None:
    import httpx2

    with serving(bodies.chat(), bodies.chat()) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        bypassed(types.SimpleNamespace(_client=client))
        assert client.get(server.url).status_code == 200
        assert client.get(server.url).status_code == 200
    assert recordings == []
    assert len(warnings_in(caplog)) == 1


def test_an_entry_that_moved_is_warned_of_once(
    recordings: list[Recording], caplog: pytest.LogCaptureFixture
) -> None:
    """Another tool put the SDK's own method back: the calls are recorded from their transport."""
    import openai._base_client

    with serving(*[bodies.chat()] * 2) as server, clients.make("openai", server.url) as client:
        base = openai._base_client.SyncAPIClient
        attach(client, done=recordings.append)
        ours = base.request
        type.__setattr__(base, "request", ours.__wrapped__)  # type: ignore[attr-defined]
        client.chat.completions.create(**styles.CHAT)
        client.chat.completions.create(**styles.CHAT)
        type.__setattr__(base, "request", ours)
    assert [recording.start for recording in recordings] == ["transport"] * 2
    (said,) = warnings_in(caplog)
    assert "recorded from their transport on" in said


def test_an_sdk_without_an_entry_is_warned_of_and_recorded(
    recordings: list[Recording],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`request` is gone from the SDK's base: what remains is hooked, and nothing raises."""
    import openai._base_client

    base = openai._base_client.SyncAPIClient
    kept = base.request
    monkeypatch.setattr(openai.OpenAI, "request", kept, raising=False)
    monkeypatch.delattr(base, "request")
    with serving(bodies.chat()) as server, clients.make("openai", server.url) as client:
        attach(client, done=recordings.append)
        assert client.chat.completions.create(**styles.CHAT).id == "chatcmpl-1"
    assert [recording.start for recording in recordings] == ["transport"]
    assert len(warnings_in(caplog)) == 1


def answering(answer: Any, calls: int) -> list[Recording]:
    """Calls of an anthropic client with a middleware, over a server with one answer."""
    recordings: list[Recording] = []
    with (
        serving(*[bodies.message()] * calls) as server,
        clients.make("anthropic", server.url, middleware=[answer]) as client,
    ):
        attach(client, done=recordings.append)
        for _ in range(calls):
            client.messages.create(**styles.MESSAGE)
    return recordings


def test_a_middleware_that_answers_itself_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """The first call goes out, the others come from what a middleware kept: nobody is blind."""
    if "middleware" not in inspect.signature(anthropic.Anthropic).parameters:
        pytest.skip("this release has no middleware")
    kept: list[Any] = []

    def remember(request: Any, call_next: Any) -> Any:
        if not kept:
            kept.append(call_next(request))
        return kept[0]

    recordings = answering(remember, 5)
    assert [len(recording.attempts) for recording in recordings] == [1, 0, 0, 0, 0]
    assert warnings_in(caplog) == []


def test_a_logger_that_raises_is_not_felt(
    recordings: list[Recording], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(record: logging.LogRecord) -> bool:
        raise RuntimeError

    monkeypatch.setattr(logging.getLogger("latscope"), "filters", [fail])
    with serving(bodies.chat()) as server, clients.make("openai", server.url) as client:
        attach(client, done=recordings.append)
        bypassed(client)
        assert client.chat.completions.create(**styles.CHAT).id == "chatcmpl-1"
    assert len(recordings) == 1
