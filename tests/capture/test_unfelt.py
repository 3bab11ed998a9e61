"""Law 5: whatever happens in capture or in what is hooked to it, the caller never feels it."""

import asyncio
import importlib
import pickle
from typing import Any

import httpx2
import pytest

from latscope.capture import build, recorder
from latscope.capture.instrument import attach
from latscope.capture.recorder import AttemptRecorder
from latscope.capture.snapshots import Snapshots
from latscope.capture.tap import Tap, current_context
from latscope.recording import Recording
from tests.capture.scripted import answer, serving, stream


@pytest.fixture(params=["httpx2", "httpx"])
def library(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


@pytest.fixture
def recordings() -> list[Recording]:
    return []


def fail(*_: object) -> None:
    raise RuntimeError("a canary nobody may see")


def test_a_sink_that_raises_is_not_felt(library: Any) -> None:
    """`done` raises: the caller has its answer all the same."""
    with serving(answer(200, b"x")) as server, library.Client() as client:
        attach(client, done=fail)
        assert client.get(server.url).content == b"x"


def test_hooks_that_raise_are_noted(library: Any, recordings: list[Recording]) -> None:
    """`outgoing` and `context` raise: noted by class name, never by message."""
    with serving(answer(200, b"x")) as server, library.Client() as client:
        attach(client, done=recordings.append, outgoing=fail, context=fail)
        assert client.get(server.url).content == b"x"
    assert recordings[0].broken == ("context: RuntimeError", "outgoing: RuntimeError")


def test_outgoing_may_add_headers_from_the_calls_context(recordings: list[Recording]) -> None:
    """What `context` gave at entry is at hand in `outgoing`, and comes back in the recording."""

    def outgoing(request: httpx2.Request) -> None:
        request.headers["x-span"] = str(current_context())

    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append, outgoing=outgoing, context=lambda: "span-1")
        client.get(server.url)
        assert server.requests[0].headers["x-span"] == "span-1"
    assert recordings[0].context == "span-1"
    assert current_context() is None


@pytest.mark.parametrize(
    "broken",
    [
        (recorder.AttemptRecorder, "__init__"),
        (recorder, "retry_count"),
        (recorder.Call, "begin"),
        (Tap, "call"),
        (Tap, "joined"),
    ],
    ids=lambda pair: pair[1],
)
def test_a_recorder_that_cannot_start_is_not_felt(
    broken: tuple[Any, str], monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """Nothing is recorded then, and the request goes on."""
    owner, name = broken
    monkeypatch.setattr(owner, name, fail)
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"x"
        assert client._transport.latscope_tap.open == {}  # type: ignore[attr-defined]


def test_a_recording_that_cannot_be_built_leaves_its_remains(
    monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """A fault of ours at the end: the call is reported with what is known."""
    monkeypatch.setattr(build, "_attempt", fail)
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"x"
    (recording,) = recordings
    assert recording.broken == ("recording: RuntimeError",)
    assert recording.attempts == ()


def test_faults_in_between_are_noted(
    monkeypatch: pytest.MonkeyPatch, recordings: list[Recording]
) -> None:
    """The snapshot fails at every point: the exchange is recorded, with notes."""
    monkeypatch.setattr(Snapshots, "take", fail)
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        assert client.get(server.url).content == b"x"
    (recording,) = recordings
    assert recording.broken == (
        "trace: RuntimeError",
        "responded: RuntimeError",
        "read: RuntimeError",
        "eof: RuntimeError",
    )
    assert recording.end.reason == "complete"


def test_a_users_own_trace_is_called(library: Any, recordings: list[Recording]) -> None:
    """Chained, every event, and the request's extensions are the user's own again afterwards."""
    events: list[str] = []

    def trace(name: str, info: Any) -> None:
        events.append(name)

    extensions = {"trace": trace}
    with serving(stream(b"x")) as server, library.Client() as client:
        attach(client, done=recordings.append)
        response = client.get(server.url, extensions=extensions)
    assert response.request.extensions["trace"] is trace
    assert "connection.connect_tcp.started" in events
    assert "http11.receive_response_body.complete" in events
    assert recordings[0].attempts[0].mark("connect.complete") is not None


async def test_a_users_own_async_trace_is_awaited(
    library: Any, recordings: list[Recording]
) -> None:
    """The same for an asynchronous client and callback."""
    events: list[str] = []

    async def trace(name: str, info: Any) -> None:
        await asyncio.sleep(0)
        events.append(name)

    with serving(stream(b"x")) as server:
        async with library.AsyncClient() as client:
            attach(client, done=recordings.append)
            await client.get(server.url, extensions={"trace": trace})
    assert "http11.response_closed.complete" in events
    assert recordings[0].attempts[0].mark("connect.complete") is not None


@pytest.mark.parametrize("instrumented", [False, True])
def test_a_users_faulty_trace_fails_as_it_would(library: Any, instrumented: bool) -> None:
    """A callback that raises breaks the request, as it does without us."""
    recordings: list[Recording] = []
    with serving(answer(200, b"x")) as server, library.Client() as client:
        if instrumented:
            attach(client, done=recordings.append)
        with pytest.raises(RuntimeError, match="canary"):
            client.get(server.url, extensions={"trace": fail})
    assert [recording.end.reason for recording in recordings] == ["error"] * instrumented


@pytest.mark.parametrize("instrumented", [False, True])
async def test_a_trace_of_the_wrong_kind_fails_as_it_would(
    library: Any, instrumented: bool
) -> None:
    """A plain function as an asynchronous client's trace: the library's own TypeError."""
    with serving(answer(200, b"x")) as server:
        async with library.AsyncClient() as client:
            if instrumented:
                attach(client, done=lambda recording: None)
            with pytest.raises(TypeError, match="asynchronous"):
                await client.get(server.url, extensions={"trace": lambda name, info: None})


def test_a_proxys_connect_is_not_the_request() -> None:
    """CONNECT's own header events are set-up; the request's come after TLS through the tunnel."""
    call = Tap(done=fail).call("transport")
    attempt = AttemptRecorder(call, httpx2.Request("GET", "https://x/"), 0)
    connect: Any = httpx2.Request("CONNECT", "https://x/")
    connect.method = b"CONNECT"  # as httpcore has it
    request: Any = httpx2.Request("GET", "https://x/")
    request.method = b"GET"
    for name, info in (
        ("connection.connect_tcp.started", {}),
        ("connection.connect_tcp.complete", {"return_value": None}),
        ("http11.send_request_headers.started", {"request": connect}),
        ("http11.send_request_headers.complete", {"return_value": None}),
        ("http11.receive_response_headers.complete", {"return_value": None}),
        ("proxy.start_tls.started", {}),
        ("proxy.start_tls.complete", {"return_value": None}),
        ("http11.send_request_headers.started", {"request": request}),
        ("http11.send_request_headers.complete", {"return_value": None}),
    ):
        attempt.trace(name, info)
    assert [name for name, _ in attempt.marks] == [
        "entry", "connect.started", "connect.complete", "tls.started", "tls.complete",
        "request.started", "request.headers",
    ]  # fmt: skip
    attempt.trace("http11.send_request_headers.started", {})
    assert call.broken == ["trace: KeyError"]


def test_the_response_pickles_as_before(recordings: list[Recording]) -> None:
    """A response read through the wrapper pickles, and forwards what the stream inside has."""
    with serving(answer(200, b"x")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        response: Any = client.get(server.url)
        stamped = response.stream._stream
        with pytest.raises(AttributeError):
            stamped.no_such_attribute  # noqa: B018 - asking is the test
        assert stamped._httpcore_stream is not None
        assert pickle.loads(pickle.dumps(response)).content == b"x"
