"""ASGI middleware: an inbound request and the LLM calls made for it are one turn.

    app.add_middleware(latscope.middleware.asgi.TurnMiddleware)  # Starlette, FastAPI
    app = TurnMiddleware(app)                                    # any ASGI application

Around the application and nothing else: every message goes on as it came, at once, in the same
task; `receive` is handed through untouched. Two stamps are taken, and when the request is over a
line of `latscope.inbound/1` goes to the file, if a call was made for it. `latscope turns` then
shows the request around its calls, and its first byte against the model's first token.
"""

import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TypeAlias

from latscope.documents.inbound import to_line
from latscope.errors import UsageError
from latscope.export.jsonl import JSONLSink
from latscope.middleware import compose, context, worker
from latscope.middleware.context import Parent, Served
from latscope.rules.inbound import Inbound, InboundEnd
from latscope.units import Ns, rfc3339_us

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

TURN_HEADER = "x-request-id"

BODY = frozenset({"http.response.body", "http.response.pathsend", "http.response.zerocopysend"})
"""Messages that carry the answer's body; the latter two are extensions that send a file."""

_ID = re.compile(rb"[A-Za-z0-9_.:\-]{1,128}").fullmatch
_TRACEPARENT = re.compile(
    rb"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
).fullmatch


class TurnMiddleware:
    """Wraps an ASGI application; see the module.

    sink: where `latscope.inbound/1` lines go: the JSONLSink the clients' calls go to, or a callable
    that is given each `Inbound` from the background thread; the file that LATSCOPE_FILE names gets
    them too. header: the request header that names the turn; one that is
    absent or no plain identifier (letters, digits, `_.:-`, at most 128), and null here, make a new
    id each. route: gives the name kept of a request from its scope, when the request is over; by
    default the template the framework matched (Starlette, FastAPI), never the path itself.

    The calls made inside are children of the span current at their entry, else of the one the
    request's `traceparent` names. Websockets and lifespan pass through as if it were not there, and
    so does a request that is served within another.

    Raises UsageError for a sink that is neither.
    """

    def __init__(
        self,
        app: App,
        *,
        sink: JSONLSink | Callable[[Inbound], object] | None = None,
        header: str | None = TURN_HEADER,
        route: Callable[[Scope], str | None] | None = None,
    ) -> None:
        if sink is not None and not isinstance(sink, JSONLSink) and not callable(sink):
            raise UsageError(f"an inbound request goes to a JSONLSink or a callable, not {sink!r}")
        self.app = app
        if isinstance(sink, JSONLSink):
            sink.before_close = compose.flush
        self._sinks = [_Safe(each) for each in compose._sinks(() if sink is None else sink)]
        self._header = None if header is None else header.lower().encode("latin-1")
        self._route = route or _template

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or context.served() is not None:
            await self.app(scope, receive, send)
            return
        request = _Request(_named(scope, self._header), _parent(scope))
        try:
            with context.serving(request.served), context.turn(request.turn):
                await self.app(scope, receive, request.watching(send))
        except BaseException as error:
            request.left(error)
            raise
        finally:
            self._over(request, scope)

    def _over(self, request: "_Request", scope: Scope) -> None:
        # Nothing of ours reaches the server. The scope is read here: it is the server's to reuse.
        if not request.served.called or not self._sinks:
            return
        with suppress(Exception):
            request.stop()
            inbound = request.told(str(scope.get("method", "")), self._name(scope))
            worker.current().submit(lambda: _write(inbound, self._sinks))

    def _name(self, scope: Scope) -> str | None:
        with suppress(Exception):
            name = self._route(scope)
            return None if name is None else str(name)[:256]
        return None


class _Request:
    """One request while it is served."""

    __slots__ = (
        "begin", "detail", "end", "first", "last", "over", "served", "status", "turn", "wall",
    )  # fmt: skip

    def __init__(self, turn: str, parent: Parent | None) -> None:
        self.turn = turn
        self.served = Served(parent)
        self.wall = time.time_ns()
        self.begin = time.perf_counter_ns()
        self.first: Ns | None = None
        self.last: Ns | None = None
        self.status: int | None = None
        self.over = False
        self.end: InboundEnd = "cut"
        self.detail: str | None = None

    def watching(self, send: Send) -> Send:
        async def watched(message: Message) -> None:
            kind = message.get("type")
            if kind in BODY:
                if self.first is None and (kind != "http.response.body" or message.get("body")):
                    self.first = time.perf_counter_ns()
                await send(message)
                if not message.get("more_body"):
                    self.end, self.last = "complete", time.perf_counter_ns()
                return
            if kind == "http.response.start":
                self.status = message.get("status")
            await send(message)

        return watched

    def left(self, error: BaseException) -> None:
        """The application raised; after a whole answer that changes nothing for its caller."""
        if self.end != "complete":
            self.end = "error" if isinstance(error, Exception) else "cancelled"
        self.detail = type(error).__name__

    def stop(self) -> None:
        if self.last is None:
            self.last = time.perf_counter_ns()

    def told(self, method: str, route: str | None) -> Inbound:
        parent = self.served.parent
        return Inbound(
            turn=self.turn,
            started_at=rfc3339_us(self.wall),
            wall_ns=(self.last or self.begin) - self.begin,
            first_byte_ns=None if self.first is None else self.first - self.begin,
            status=self.status,
            method=method,
            route=route,
            end=self.end,
            detail=self.detail,
            trace_id=None if parent is None else f"{parent.trace_id:032x}",
        )


def _named(scope: Scope, header: bytes | None) -> str:
    """The turn's id. Of a header sent twice the first counts."""
    named = None if header is None else _header(scope, header)
    if named is not None and _ID(named):
        return named.decode("ascii")
    return uuid.uuid4().hex


def _parent(scope: Scope) -> Parent | None:
    """The span a W3C `traceparent` names; null for none, or for one that breaks the format."""
    named = _header(scope, b"traceparent")
    found = None if named is None else _TRACEPARENT(named)
    if found is None or (named is not None and named.startswith(b"00") and len(named) != 55):
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    return Parent(trace_id, span_id, bool(flags & 1))


def _header(scope: Scope, name: bytes) -> bytes | None:
    headers: Iterable[tuple[bytes, bytes]] = scope.get("headers") or ()
    return next((bytes(value).strip() for key, value in headers if key.lower() == name), None)


def _template(scope: Mapping[str, Any]) -> str | None:
    """What Starlette's and FastAPI's routers leave in the scope."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else None


class _Safe:
    """A sink that never raises; the first of a row of failures is logged."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._failing = False

    def write(self, inbound: Inbound) -> None:
        try:
            if isinstance(self._sink, JSONLSink):
                self._sink.write_line(to_line(inbound))
            else:
                self._sink(inbound)
        except BaseException as error:  # one that calls sys.exit must not cost the others theirs
            if not self._failing:
                worker.warn("a sink fails, requests are lost: %s", type(error).__name__)
            self._failing = True
        else:
            self._failing = False


def _write(inbound: Inbound, sinks: Iterable[_Safe]) -> Iterator[None]:
    for sink in sinks:
        sink.write(inbound)
        yield
