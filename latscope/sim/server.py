"""The server itself: an ASGI app over uvicorn, on the loopback interface, one process, one loop.

A route is a row of a table; the model a request names selects the scenario. Uvicorn (h11) writes a
response's head to the socket the moment it is started, which the header policies rely on.
"""

import asyncio
import json
import socket
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from time import perf_counter_ns
from typing import Any, TypeAlias
from uuid import uuid4

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from latscope.documents.scenarios import Scenario
from latscope.errors import EndpointError, UsageError
from latscope.protocols import DIALECTS
from latscope.protocols.dialect import Api, Dialect, Reply
from latscope.sim import answer, requests, stamps
from latscope.sim.play import Call, Exchange, Headers, Model, Send, run, until
from latscope.sim.prompt import prompt_text, tokenise
from latscope.sim.requests import Refused, Request
from latscope.sim.stamps import Stamps
from latscope.units import Ns, ns_from_ms

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Scope: TypeAlias = Mapping[str, Any]

SERVER = "latscope-sim"
KEPT = 2_000
"""Exchanges whose stamps are kept, the oldest forgotten first."""
MAX_BODY = 64 * 1024 * 1024
TRUTH = "/_latscope/truth"
RETRY_LATER = (429, 503, 529)

PATHS: Mapping[str, Api] = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "completions",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One HTTP request as uvicorn hands it over, with a way to drop its connection."""

    method: str
    path: str
    headers: Mapping[str, str]
    receive: Receive
    send: Send
    drop: Callable[[], None]


@dataclass(slots=True, kw_only=True)
class Simulator:
    """All that lives as long as the server: a model a scenario, and what is remembered of calls."""

    models: Mapping[str, Model]
    kept: OrderedDict[str, Stamps] = field(default_factory=OrderedDict)
    transports: dict[tuple[str, int], asyncio.Transport] = field(default_factory=dict)
    started: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _answer(self, _asked(self, scope, receive, send))


def simulator(scenarios: Iterable[Scenario]) -> Simulator:
    """The app. Scenarios are served under their names; a later one of equal name wins."""
    models = {
        scenario.name: Model(scenario=scenario, slots=asyncio.Semaphore(scenario.slots))
        for scenario in scenarios
    }
    if not models:
        raise UsageError("no scenario to serve; name one, or leave the names out for all")
    return Simulator(models=models, started=int(time.time()))


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    scenarios: Iterable[Scenario] = (),
    ready: Callable[[str], None] | None = None,
    until_stopped: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Serves until it is told to stop (SIGINT, SIGTERM). `ready` gets the base URL, without /v1,
    once requests are answered; port 0 takes a free one. `until_stopped` is handed a function
    that stops the server from another thread.

    Raises UsageError for a host other than this one, EndpointError for a port that is taken."""
    _check_host(host)
    app = simulator(scenarios)
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{listening.getsockname()[1]}"
    server = _Server(_config(app), lambda: ready(url) if ready else None)
    if until_stopped is not None:
        until_stopped(lambda: setattr(server, "should_exit", True))
    with listening:
        server.run(sockets=[listening])


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._ready()


def _config(app: Simulator) -> uvicorn.Config:
    class Connection(H11Protocol):
        """Remembers its transport by the client's address, so that a call can be cut."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if self.client is not None:
                app.transports[self.client] = transport

        def connection_lost(self, exc: Exception | None) -> None:
            if self.client is not None:
                app.transports.pop(self.client, None)
            super().connection_lost(exc)

    return uvicorn.Config(
        app,
        http=Connection,
        loop="asyncio",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=1,
    )


def _check_host(host: str) -> None:
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(f"host {host!r}: the simulator serves this machine only; use 127.0.0.1")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise EndpointError(f"{host}:{port}: {error}; --port 0 takes a free one") from error
    listening.listen(512)
    return listening


def _asked(app: Simulator, scope: Scope, receive: Receive, send: Send) -> Asked:
    client = scope.get("client")

    def drop() -> None:
        transport = app.transports.get(tuple(client)) if client else None
        if transport is not None:
            transport.abort()

    return Asked(
        method=scope["method"],
        path=scope["path"],
        headers={
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        },
        receive=receive,
        send=send,
        drop=drop,
    )


async def _answer(app: Simulator, asked: Asked) -> None:
    path = asked.path.rstrip("/")
    if path in PATHS and asked.method == "POST":
        await _model_call(app, asked, BY_API[PATHS[path]])
    elif path in PATHS:
        await _refuse(asked, Refused(405, "invalid_request_error", f"POST {path}, not GET"))
    elif path in PAGES and asked.method in ("GET", "HEAD"):
        await _page(asked, PAGES[path](app))
    elif path.startswith(f"{TRUTH}/") and asked.method == "GET":
        found = app.kept.get(path.removeprefix(f"{TRUTH}/"))
        await _page(asked, None if found is None else stamps.to_mapping(found))
    else:
        await _page(asked, None)


def _health(app: Simulator) -> dict[str, Any]:
    return {"status": "ok"}


def _models(app: Simulator) -> dict[str, Any]:
    """The scenarios as models, with the keys of OpenAI's list and of Anthropic's."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(app.started))
    data = [
        {
            "id": name,
            "object": "model",
            "created": app.started,
            "owned_by": SERVER,
            "type": "model",
            "display_name": model.scenario.title or name,
            "created_at": created,
        }
        for name, model in app.models.items()
    ]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"], "has_more": False}
    return {"object": "list", "data": data, **ends}


def _truths(app: Simulator) -> dict[str, Any]:
    return {"calls": [stamps.to_mapping(kept) for kept in app.kept.values()]}


PAGES: Mapping[str, Callable[[Simulator], dict[str, Any]]] = {
    "/health": _health,
    "/v1/models": _models,
    TRUTH: _truths,
}

BY_API: Mapping[Api, Dialect] = {dialect.api: dialect for dialect in DIALECTS}


async def _page(asked: Asked, page: Mapping[str, Any] | None) -> None:
    if page is None:
        await _refuse(asked, Refused(404, "not_found_error", f"nothing at {asked.path}"))
        return
    await _exchange(asked, _stray()).whole(200, json.dumps(page).encode())


async def _refuse(asked: Asked, refused: Refused, dialect: Dialect | None = None) -> None:
    """An HTTP error in the API's own shape, OpenAI's where the path tells of none."""
    body = (dialect or BY_API["chat"]).error_body(refused.status, refused.kind, str(refused))
    await _exchange(asked, _stray()).whole(refused.status, body)


def _stray() -> Stamps:
    """Stamps of an exchange nobody will ask about."""
    return Stamps(id=uuid4().hex, scenario="", api="", stream=False, received_ns=perf_counter_ns())


def _exchange(asked: Asked, stamped: Stamps, scenario: Scenario | None = None) -> Exchange:
    headers: Headers = {
        "server": SERVER,
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "x-request-id": stamped.id,
    }
    headers |= scenario.headers if scenario else {}
    return Exchange(send=asked.send, drop=asked.drop, stamps=stamped, headers=headers)


async def _model_call(app: Simulator, asked: Asked, dialect: Dialect) -> None:
    try:
        raw = await _body(asked.receive)
        received = perf_counter_ns()
        request = requests.parse(dialect.api, raw)
        model = app.models.get(request.model)
        if model is None:
            known = ", ".join(app.models)
            message = f"the model {request.model!r} does not exist; there are: {known}"
            raise Refused(404, "model_not_found", message)
    except Refused as refused:
        await _refuse(asked, refused, dialect)
        return
    except ConnectionResetError:
        return
    stamped = _stamp(app, asked, request, received)
    status = _status(model, asked.headers)
    if status == 200:
        await _attended(run(_call(asked, dialect, request, model, stamped)), asked.receive)
    else:
        await _failure(asked, dialect, model.scenario, stamped, status)


async def _body(receive: Receive) -> bytes:
    """The whole request body. Raises Refused when it is too long, ConnectionResetError when the
    client went away before its end."""
    found = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        found += message.get("body", b"")
        if len(found) > MAX_BODY:
            raise Refused(413, "invalid_request_error", f"the body is over {MAX_BODY} bytes")
        if not message.get("more_body", False):
            return bytes(found)


def _stamp(app: Simulator, asked: Asked, request: Request, received: Ns) -> Stamps:
    """The exchange's stamps, kept under the client's own request id where it sent one."""
    given = asked.headers.get("x-request-id", "")
    usable = 0 < len(given) <= 200 and given.isascii() and given.isprintable() and "/" not in given
    stamped = Stamps(
        id=given if usable else uuid4().hex,
        scenario=request.model,
        api=request.api,
        stream=request.stream,
        received_ns=received,
    )
    app.kept.pop(stamped.id, None)
    app.kept[stamped.id] = stamped
    while len(app.kept) > KEPT:
        app.kept.popitem(last=False)
    return stamped


def _call(asked: Asked, dialect: Dialect, request: Request, model: Model, stamped: Stamps) -> Call:
    reply = Reply(
        id=f"{answer.ID_PREFIX[dialect.api]}{stamped.id}",
        model=request.model,
        created=int(time.time()),
        stream=request.stream,
        include_usage=request.include_usage,
    )
    prompt = tokenise(prompt_text(dialect.api, request.body))
    stamped.prompt_tokens = len(prompt)
    return Call(
        exchange=_exchange(asked, stamped, model.scenario),
        model=model,
        dialect=dialect,
        encoder=dialect.encoder(reply),
        prompt=prompt,
        cap=request.cap,
        stream=request.stream,
    )


def _status(model: Model, headers: Mapping[str, str]) -> int:
    """The status this attempt gets: by the SDK's own retry count, else the next in the round."""
    statuses = model.scenario.statuses
    if not statuses:
        return 200
    count = headers.get("x-stainless-retry-count", "")
    if count.isdecimal():
        return statuses[min(int(count), len(statuses) - 1)]
    model.attempts += 1
    return statuses[(model.attempts - 1) % len(statuses)]


async def _failure(
    asked: Asked, dialect: Dialect, scenario: Scenario, stamped: Stamps, status: int
) -> None:
    """An HTTP error once the frontend's work is done; the engine never sees the call."""
    await until(stamped.received_ns + ns_from_ms(scenario.frontend_ms))
    exchange = _exchange(asked, stamped, scenario)
    if scenario.retry_after_s is not None and status in RETRY_LATER:
        exchange.headers["retry-after"] = f"{scenario.retry_after_s:g}"
    kind = answer.FAILURES.get(status, "server_error")
    body = dialect.error_body(status, kind, f"simulated failure: HTTP {status}")
    stamped.terminal_end = len(body)
    await exchange.whole(status, body)


async def _attended(work: Awaitable[None], receive: Receive) -> None:
    """Does the work until it is done or the client has gone, as a model server aborts a call."""
    answering = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        answering.cancel()
        gone.cancel()
        results = await asyncio.gather(answering, gone, return_exceptions=True)
    if isinstance(results[0], Exception):
        raise results[0]


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
