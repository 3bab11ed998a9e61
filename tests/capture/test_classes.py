"""Every client class of both SDKs is recorded, and what it sends and gives stays as it was."""

import datetime
import importlib
import warnings
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.capture.instrument import attach, detach
from latscope.cli.startup import WATCHED
from latscope.middleware.pipeline import finish
from latscope.recording import Recording
from tests.capture import classes, clients, styles
from tests.capture.classes import CLASSES, Class
from tests.capture.scripted import Received, serving

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
SYNC = [name for name in CLASSES if ".Async" not in name]
ASYNC = [name for name in CLASSES if ".Async" in name]


@pytest.fixture(autouse=True)
def one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs sign with the same time, so that their signatures can be laid side by side; and no
    credential of the machine's own is looked for."""
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_: NOW)
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_AWS_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def sent(request: Received) -> tuple[str, str, dict[str, str], bytes]:
    return request.method, request.path, request.headers, request.body


def arguments(row: Class) -> dict[str, Any]:
    return styles.CHAT if row.api == "chat" else styles.MESSAGE


def check(name: str, recordings: list[Recording], requests: list[Received], seen: Any) -> None:
    """Two calls without and two with us: alike for the caller and on the wire, two recordings."""
    row = CLASSES[name]
    assert seen[0] == seen[1]
    before, after = requests[:2], requests[2:]
    assert [sent(each) for each in before] == [sent(each) for each in after]
    assert [each.path.partition("?")[0] for each in after] == [
        row.path,
        row.stream_path or row.path,
    ]
    if row.signed:
        assert all("AWS4-HMAC-SHA256" in each.headers["authorization"] for each in after)
    whole, streamed = recordings
    for recording in recordings:
        assert recording.start == "sdk"
        assert recording.sdk is not None
        assert recording.sdk.startswith(name.partition(".")[0] + "/")
        assert recording.broken == ()
        assert recording.in_flight == 0
        assert len(recording.attempts) == 1
        assert recording.attempts[0].mark("request.sent") is not None
    assert whole.end.reason == "complete"
    assert streamed.attempts[0].reads
    told = attribute(finish(streamed))
    assert (told.status, told.streamed) == ("complete", True)
    assert told.api == row.api
    assert told.model == "tiny"
    assert told.first_token_ns is not None
    assert told.flags == ()


def test_no_class_is_forgotten() -> None:
    """One that an SDK exports and that is not tested here fails this test."""
    assert classes.exported() - classes.ALIASES == set(CLASSES)


def test_the_aliases_are_no_classes_of_their_own() -> None:
    for alias in classes.ALIASES:
        sdk, _, name = alias.partition(".")
        module = importlib.import_module(sdk)
        kind = {"openai": "OpenAI", "anthropic": "Anthropic"}[sdk]
        assert getattr(module, name) is getattr(module, name.replace("Client", "") + kind)


@pytest.mark.parametrize("name", SYNC)
def test_a_class_is_recorded(name: str) -> None:
    row = CLASSES[name]
    recordings: list[Recording] = []
    seen = []
    with serving(*[row.whole(), row.streamed()] * 2) as server:
        for instrumented in (False, True):
            with classes.make(name, server.url) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                api = clients.api(client)
                whole = styles.shape(api.create(**arguments(row)))
                stream = styles.shapes(api.create(**arguments(row), stream=True))
                seen.append((whole, stream, clients.pool_state(client)))
                detach(client)
    check(name, recordings, server.requests, seen)


@pytest.mark.parametrize("name", ASYNC)
async def test_an_async_class_is_recorded(name: str) -> None:
    row = CLASSES[name]
    recordings: list[Recording] = []
    seen = []
    with serving(*[row.whole(), row.streamed()] * 2) as server:
        for instrumented in (False, True):
            async with classes.make(name, server.url) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                api = clients.api(client)
                whole = styles.shape(await api.create(**arguments(row)))
                stream = await api.create(**arguments(row), stream=True)
                parts = [styles.shape(event) async for event in stream]
                seen.append((whole, parts, clients.pool_state(client)))
                detach(client)
    check(name, recordings, server.requests, seen)


def test_latscope_run_knows_every_class() -> None:
    """Each is watched for, or is made through the `__init__` of one that is."""
    for name in CLASSES:
        sdk, _, kind = name.partition(".")
        module = importlib.import_module(sdk)
        bases = {base.__name__ for base in getattr(module, kind).__mro__}
        assert bases & set(WATCHED[sdk]), name


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
def test_the_http_clients_an_sdk_offers_are_known(sdk: str) -> None:
    """Another kind would be one nobody has tried; the newer names are the same by httpx2's."""
    module = importlib.import_module(sdk)
    offered = {n for n in dir(module) if n.startswith("Default") and "Client" in n}
    assert {name.replace("Httpx2", "Httpx") for name in offered} == classes.HTTP_CLIENTS


AIO = ["openai.AsyncOpenAI", "anthropic.AsyncAnthropic"]


def aio(sdk: str) -> Any:
    return importlib.import_module(sdk).DefaultAioHttpClient()


@pytest.mark.parametrize("name", AIO)
async def test_over_aiohttp_connection_phases_are_unknown_and_reads_are_stamped(name: str) -> None:
    """No mark of a connection, none claimed to be absent; the caller sees what it always saw."""
    row = CLASSES[name]
    sdk = name.partition(".")[0]
    recordings: list[Recording] = []
    seen = []
    with serving(*[row.whole(), row.streamed()] * 2) as server:
        for instrumented in (False, True):
            async with classes.make(name, server.url, http_client=aio(sdk)) as client:
                if instrumented:
                    attach(client, done=recordings.append)
                api = clients.api(client)
                whole = styles.shape(await api.create(**arguments(row)))
                stream = await api.create(**arguments(row), stream=True)
                parts = [styles.shape(event) async for event in stream]
                seen.append((whole, parts, stream.response.http_version))
    assert seen[0] == seen[1]
    before, after = server.requests[:2], server.requests[2:]
    assert [sent(each) for each in before] == [sent(each) for each in after]
    streamed = finish(recordings[1])
    (attempt,) = streamed.attempts
    assert streamed.broken == ()
    assert {mark.name for mark in attempt.marks} <= {"entry", "headers", "body.end", "closed"}
    assert attempt.connection is not None
    assert attempt.connection.unseen is True
    assert (attempt.connection.reused, attempt.connection.tls) == (None, None)
    assert attempt.reads
    assert all(read.got_ns >= read.asked_ns for read in attempt.reads)
    told = attribute(streamed)
    assert (told.status, told.sent_ns, told.connection.reused) == ("complete", None, None)
    assert told.first_token_ns is not None
    assert "connection_unseen" in told.flags
    network = next(s for s in told.segments if s.name == "network")
    assert {part.name for part in network.parts}.isdisjoint({"connect", "tls", "upload"})
    client_ = next(s for s in told.segments if s.name == "client")
    assert client_.bounds_ns[1] > client_.bounds_ns[0]


@pytest.mark.parametrize("name", AIO)
async def test_over_aiohttp_a_call_without_an_answer_blames_nobody(name: str) -> None:
    """Cancelled before the headers: waiting for a connection and for the server are not told
    apart, so the client's share has no firm size."""
    import asyncio
    import threading

    row = CLASSES[name]
    recordings: list[Recording] = []
    with serving([threading.Event()]) as server:
        http = aio(name.partition(".")[0])
        async with classes.make(name, server.url, http_client=http) as client:
            attach(client, done=recordings.append)
            task = asyncio.create_task(clients.api(client).create(**arguments(row)))
            await asyncio.to_thread(server.arrived.acquire, timeout=10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    told = attribute(finish(recordings[0]))
    assert told.status == "cancelled"
    assert told.unsplit[0].candidates == ("queue", "prefill", "decode", "network", "client")
    entry = recordings[0].attempts[0].mark("entry")
    client_ = next(s for s in told.segments if s.name == "client")
    assert client_.ns == client_.bounds_ns[0] == entry


def test_nothing_is_warned_of() -> None:
    """Making, instrumenting and dropping each class leaves no warning behind."""
    with warnings.catch_warnings(), serving() as server:
        warnings.simplefilter("error")
        for name in SYNC:
            with classes.make(name, server.url) as client:
                attach(client, done=lambda _: None)
                detach(client)
