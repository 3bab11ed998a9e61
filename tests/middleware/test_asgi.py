"""The ASGI middleware: a request and the calls made for it are one turn; nothing else changes."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
import uvicorn

import latscope
from latscope.cli.main import run
from latscope.documents.recordings import read, read_inbound
from latscope.errors import UsageError
from latscope.middleware import asgi, context
from latscope.middleware.asgi import App, Message, Receive, Scope, Send, TurnMiddleware
from latscope.rules.inbound import Inbound

from .server import REQUEST, SECRETS

TRACE, SPAN = "a1" * 16, "b2" * 8
START: Message = {"type": "http.response.start", "status": 200, "headers": []}
Log = list[Any]


def scope(*headers: tuple[str, str], **more: Any) -> dict[str, Any]:
    named = [(key.encode(), value.encode()) for key, value in headers]
    return {"type": "http", "method": "POST", "path": "/secret", "headers": named, **more}


async def receive() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def answering(client: httpx2.AsyncClient, url: str, *bodies: bytes) -> App:
    """Makes one call, then sends the bodies."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        await send(START)
        for number, body in enumerate(bodies, 1):
            more = number < len(bodies)
            await send({"type": "http.response.body", "body": body, "more_body": more})

    return app


async def serve(app: App, *headers: tuple[str, str], **more: Any) -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope(*headers, **more), receive, send)
    return sent


@pytest.fixture
def file(tmp_path: Path) -> Iterator[latscope.JSONLSink]:
    with latscope.JSONLSink(tmp_path / "calls.jsonl") as sink:
        yield sink


@pytest.fixture
async def client(file: latscope.JSONLSink) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient() as made:
        yield latscope.instrument(made, sink=file)


def inbound(file: latscope.JSONLSink) -> list[Inbound]:
    assert latscope.flush()
    problems: list[str] = []
    found = [*read_inbound(file.path, problems=problems)] if file.path.exists() else []
    assert problems == []
    return found


def calls(file: latscope.JSONLSink) -> list[latscope.Recording]:
    assert latscope.flush()
    problems: list[str] = []
    found = [*read(file.path, problems=problems)]
    assert problems == []
    return found


# -- one turn --------------------------------------------------------------------------------------


async def test_the_request_names_the_turn_of_its_calls(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    """By its x-request-id; the line beside the recording says the same."""
    app = TurnMiddleware(answering(client, url, b"hello"), sink=file)
    await serve(app, ("x-request-id", "req-7"), route=SimpleNamespace(path="/chat/{room}"))
    (call,), (line,) = calls(file), inbound(file)
    assert (call.turn, line.turn) == ("req-7", "req-7")
    assert (line.method, line.route, line.status, line.end) == (
        "POST", "/chat/{room}", 200, "complete",
    )  # fmt: skip
    assert line.first_byte_ns is not None
    assert 0 < line.first_byte_ns <= line.wall_ns
    assert line.started_at <= call.started_at
    text = file.path.read_text()
    assert not [secret for secret in (*SECRETS, "/secret") if secret in text]


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ([], "x-request-id"),
        ([("x-request-id", "hans@example.com")], "x-request-id"),
        ([("x-request-id", "")], "x-request-id"),
        ([("x-request-id", "x" * 129)], "x-request-id"),
        ([("x-request-id", "req-7")], None),
    ],
)
async def test_an_id_is_made_where_none_can_be_taken(
    given: list[tuple[str, str]],
    header: str | None,
    client: httpx2.AsyncClient,
    url: str,
    file: latscope.JSONLSink,
) -> None:
    """What is no plain identifier may be anything, a person's address for one. Each request has
    its own."""
    app = TurnMiddleware(answering(client, url, b"x"), sink=file, header=header)
    await serve(app, *given)
    await serve(app, *given)
    names = [line.turn for line in inbound(file)]
    assert names == [call.turn for call in calls(file)]
    assert len({*names}) == 2
    assert all(len(name) == 32 and name.isalnum() for name in names)


async def test_another_header_may_name_it(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    app = TurnMiddleware(answering(client, url, b"x"), sink=file, header="X-Conversation")
    await serve(app, ("x-request-id", "no"), ("x-conversation", "c-1"))
    assert calls(file)[0].turn == "c-1"


async def test_without_a_call_there_is_no_line(file: latscope.JSONLSink) -> None:
    """A service's health checks do not fill the file."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)

    await serve(TurnMiddleware(app, sink=file))
    assert inbound(file) == []


async def test_the_file_of_the_environment_gets_the_line(
    client: httpx2.AsyncClient, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATSCOPE_FILE", str(tmp_path / "env.jsonl"))
    await serve(TurnMiddleware(answering(client, url, b"x")))
    assert latscope.flush()
    assert len([*read_inbound(tmp_path / "env.jsonl")]) == 1


async def test_times_are_from_the_requests_begin(
    client: httpx2.AsyncClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First byte: when the application handed over the first body that is not empty. End: when the
    server had taken the last one."""
    found: list[Inbound] = []
    now = [1_000]
    clock = SimpleNamespace(time_ns=lambda: 10**18, perf_counter_ns=lambda: now[0])
    monkeypatch.setattr(asgi, "time", clock)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        for passed, body in ((20, b""), (300, b"a"), (4_000, b"b")):
            now[0] += passed
            await send({"type": "http.response.body", "body": body, "more_body": body != b"b"})
        now[0] += 50_000  # a background task

    async def send(message: Message) -> None:
        now[0] += 1

    await TurnMiddleware(app, sink=found.append)(scope(), receive, send)
    assert latscope.flush()
    (line,) = found
    assert (line.first_byte_ns, line.wall_ns) == (321, 4_323)
    assert line.started_at == "2001-09-09T01:46:40.000000Z"


@pytest.mark.parametrize("kind", ["http.response.pathsend", "http.response.zerocopysend"])
async def test_a_file_that_is_sent_counts_as_bytes(
    kind: str, client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        await send(START)
        await send({"type": kind})

    await serve(TurnMiddleware(app, sink=file))
    (line,) = inbound(file)
    assert line.first_byte_ns is not None
    assert line.end == "complete"


# -- nothing changes -------------------------------------------------------------------------------


async def test_messages_pass_as_they_are_and_at_once(client: httpx2.AsyncClient, url: str) -> None:
    """The same objects, each before the application goes on; `receive` and the scope are handed
    through themselves."""
    log: Log = []
    parts: list[Message] = [
        START,
        {"type": "http.response.body", "body": b"a", "more_body": True},
        {"type": "http.response.debug"},
        {"type": "http.response.body", "body": b""},
        {"type": "http.response.trailers"},
    ]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        log.append((scope, receive))
        await client.post(url, json=REQUEST)
        for part in parts:
            log.append("gives")
            await send(part)

    async def send(message: Message) -> None:
        log.append(message)

    given = scope()
    before = dict(given)
    await TurnMiddleware(app)(given, receive, send)
    assert log[0][0] is given
    assert log[0][1] is receive
    assert given == before
    assert [entry == "gives" for entry in log[1:]] == [True, False] * len(parts)
    assert all(got is part for got, part in zip(log[2::2], parts, strict=True))


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
async def test_what_is_no_request_passes_untouched(kind: str) -> None:
    seen: Log = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope, receive, send, context.served()))

    given = {"type": kind}

    async def send(message: Message) -> None:
        """Never called."""

    await TurnMiddleware(app)(given, receive, send)
    assert seen[0] is given
    assert seen[1:] == [receive, send, None]


@pytest.mark.parametrize(
    ("raised", "end"),
    [
        (ValueError("canary-of-the-error"), "error"),
        (asyncio.CancelledError(), "cancelled"),
        (KeyboardInterrupt(), "cancelled"),
    ],
)
async def test_what_the_application_raises_passes(
    raised: BaseException,
    end: str,
    client: httpx2.AsyncClient,
    url: str,
    file: latscope.JSONLSink,
) -> None:
    """The same object; the line says how it ended, and not in its words."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        raise raised

    with pytest.raises(type(raised)) as caught:
        await serve(TurnMiddleware(app, sink=file))
    assert caught.value is raised
    (line,) = inbound(file)
    assert (line.end, line.detail, line.status, line.first_byte_ns) == (
        end, type(raised).__name__, None, None,
    )  # fmt: skip
    assert "canary-of-the-error" not in file.path.read_text()
    assert context.snapshot().turn is None


async def test_what_is_raised_after_a_whole_answer_is_told_beside_it(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answering(client, url, b"x")(scope, receive, send)
        raise LookupError("late")

    with pytest.raises(LookupError, match="late"):
        await serve(TurnMiddleware(app, sink=file))
    (line,) = inbound(file)
    assert (line.end, line.detail) == ("complete", "LookupError")


async def test_an_answer_without_its_end_is_cut(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        await send(START)
        await send({"type": "http.response.body", "body": b"a", "more_body": True})

    await serve(TurnMiddleware(app, sink=file))
    assert inbound(file)[0].end == "cut"


@pytest.mark.parametrize("error", [ValueError, SystemExit])
async def test_a_sink_or_name_that_raises_reaches_nobody(
    error: type[BaseException],
    client: httpx2.AsyncClient,
    url: str,
    file: latscope.JSONLSink,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """And costs the other sink nothing; the first of a row is logged."""
    monkeypatch.setenv("LATSCOPE_FILE", str(tmp_path / "env.jsonl"))

    def fails(*_: object) -> None:
        raise error

    def unnamed(scope: Scope) -> str:
        raise ValueError

    app = TurnMiddleware(answering(client, url, b"x"), sink=fails, route=unnamed)
    for _ in range(2):
        assert len(await serve(app)) == 2
    assert latscope.flush()
    assert [line.route for line in read_inbound(tmp_path / "env.jsonl")] == [None, None]
    assert [record.getMessage() for record in caplog.records] == [
        f"a sink fails, requests are lost: {error.__name__}"
    ]


def test_a_sink_is_a_file_or_a_callable() -> None:
    with pytest.raises(UsageError, match="JSONLSink or a callable"):
        TurnMiddleware(answering, sink="calls.jsonl")  # type: ignore[arg-type]


async def test_a_request_within_a_request_is_part_of_it(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    """An application mounted in another, both wrapped: one turn, one line."""
    mounted = TurnMiddleware(answering(client, url, b"x"), sink=file)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        await mounted(scope, receive, send)

    await serve(TurnMiddleware(app, sink=file))
    (line,) = inbound(file)
    assert [call.turn for call in calls(file)] == [line.turn] * 2


# -- contexts --------------------------------------------------------------------------------------


async def _awaited(client: httpx2.AsyncClient, url: str) -> None:
    await client.post(url, json=REQUEST)


async def _in_a_task(client: httpx2.AsyncClient, url: str) -> None:
    await asyncio.create_task(_awaited(client, url))


async def _in_a_generator(client: httpx2.AsyncClient, url: str) -> None:
    async def chunks() -> AsyncIterator[str]:
        async with client.stream("POST", url, json=REQUEST) as response:
            async for line in response.aiter_lines():
                yield line

    assert [line async for line in chunks()]


async def _in_a_thread(client: httpx2.AsyncClient, url: str) -> None:
    def work() -> None:
        with httpx2.Client() as mine:
            latscope.instrument(mine, sink=INTO).post(url, json=REQUEST)

    await asyncio.to_thread(work)


Way = Callable[[httpx2.AsyncClient, str], Awaitable[None]]


class _Into:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: list[latscope.Recording] = []

    def write(self, recording: latscope.Recording) -> None:
        self.kept.append(recording)


INTO = _Into()


@pytest.mark.parametrize("way", [_awaited, _in_a_task, _in_a_generator, _in_a_thread])
async def test_calls_know_their_request_wherever_they_are_made(way: Way, url: str) -> None:
    """Ten requests at once: every call has its own request's turn."""
    INTO.kept.clear()
    async with httpx2.AsyncClient() as made:
        client = latscope.instrument(made, sink=INTO)
        lines: list[Inbound] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await way(client, url)
            await send(START)
            await send({"type": "http.response.body", "body": b"x"})

        wrapped = TurnMiddleware(app, sink=lines.append)
        names = [f"req-{number}" for number in range(10)]
        await asyncio.gather(*(serve(wrapped, ("x-request-id", name)) for name in names))
    assert latscope.flush()
    assert sorted(call.turn or "" for call in INTO.kept) == names
    assert sorted(line.turn for line in lines) == names


# -- trace context ---------------------------------------------------------------------------------


async def test_calls_continue_the_trace_the_request_came_with(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    app = TurnMiddleware(answering(client, url, b"x"), sink=file)
    await serve(app, ("traceparent", f"00-{TRACE}-{SPAN}-01"))
    (call,), (line,) = calls(file), inbound(file)
    assert call.trace is not None
    assert (call.trace.trace_id, call.trace.parent_id, line.trace_id) == (TRACE, SPAN, TRACE)
    assert call.trace.span_id != SPAN


@pytest.mark.parametrize(
    "broken",
    [
        "",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
    ],
)
async def test_a_traceparent_that_breaks_the_format_is_none(
    broken: str, client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    app = TurnMiddleware(answering(client, url, b"x"), sink=file)
    await serve(app, ("traceparent", broken))
    assert calls(file)[0].trace is None


async def test_a_later_versions_traceparent_may_go_on(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    app = TurnMiddleware(answering(client, url, b"x"), sink=file)
    await serve(app, ("traceparent", f"01-{TRACE}-{SPAN}-00-more"))
    assert inbound(file)[0].trace_id == TRACE


async def test_a_span_that_is_current_comes_first(
    client: httpx2.AsyncClient, url: str, file: latscope.JSONLSink
) -> None:
    """A framework instrumentation's server span continues the trace itself."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    tracer = sdk.TracerProvider().get_tracer("app")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with tracer.start_as_current_span("handler") as span:
            spans.append(f"{span.get_span_context().span_id:016x}")
            await client.post(url, json=REQUEST)

    spans: list[str] = []
    await serve(TurnMiddleware(app, sink=file), ("traceparent", f"00-{TRACE}-{SPAN}-01"))
    (call,) = calls(file)
    assert call.trace is not None
    assert call.trace.parent_id == spans[0]


@pytest.mark.parametrize(("flags", "exported"), [("01", 1), ("00", 0)])
async def test_a_sink_that_traces_takes_the_same_parent(
    flags: str, exported: int, url: str
) -> None:
    """And its sampler hears what the sender decided. The application's own context stays as it was:
    no span of it becomes the sender's child."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    from opentelemetry import trace as traces

    from latscope.export.otel.sink import OTelSink

    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    current: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await made.post(url, json=REQUEST)
        current.append(traces.get_current_span().get_span_context().is_valid)

    async with httpx2.AsyncClient() as made:
        latscope.instrument(made, sink=OTelSink(provider))
        await serve(TurnMiddleware(app), ("traceparent", f"00-{TRACE}-{SPAN}-{flags}"))
    assert latscope.flush()
    spans = [span for span in exporter.get_finished_spans() if span.parent.span_id == int(SPAN, 16)]
    assert len(spans) == exported
    assert all(span.context.trace_id == int(TRACE, 16) for span in spans)
    assert current == [False]


# -- a real server ---------------------------------------------------------------------------------


@asynccontextmanager
async def uvicorn_of(app: App) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def test_turns_shows_the_request_around_its_calls(
    client: httpx2.AsyncClient,
    url: str,
    file: latscope.JSONLSink,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Over a real server: two calls, of which the last one's stream is passed on."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await client.post(url, json=REQUEST)
        async with client.stream("POST", url, json=REQUEST) as response:
            await send(START)
            async for chunk in response.aiter_bytes():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    wrapped = TurnMiddleware(app, sink=file, route=lambda scope: "/chat")
    async with uvicorn_of(wrapped) as base, httpx2.AsyncClient() as user:
        answer = await user.get(base, headers={"x-request-id": "req-7"})
    assert answer.status_code == 200
    assert "[DONE]" in answer.text
    assert latscope.flush()
    assert run(["turns", str(file.path), "--json"]) == 0
    (session,) = map(json.loads, capsys.readouterr().out.splitlines())
    (turn,) = session["turns"]
    (request,) = turn["inbound"]
    assert (turn["name"], request["method"], request["route"]) == ("req-7", "GET", "/chat")
    assert turn["wall_ns"] >= request["wall_ns"] > 0
    first = request["first_byte"]
    assert first["call"] == turn["calls"][1]["call_id"]
    assert first["ttft_ns"] == turn["calls"][1]["first_token_ns"]
    assert (
        sum(first[f"{part}_ns"] for part in ("before", "ttft", "after"))
        == (request["first_byte_ns"])
    )
    assert turn["model_ns"] + turn["outside_ns"] == turn["wall_ns"]
    assert run(["turns", str(file.path)]) == 0
    said = capsys.readouterr().out
    assert "request " in said
    assert "GET /chat after " in said
