"""Puts a tap into a client in place, and takes it out again.

The client stays the object it was: its transports (`_transport` and every mount, so proxies from
the environment, limits and timeouts stay) are wrapped, and `send` is told where one logical call of
a plain HTTP client begins. Private names, for want of others: a client made with `transport=` loses
its environment proxies. A client of another shape is refused before anything is changed.
"""

import functools
import importlib
import inspect
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from latscope.capture import canary, sdk
from latscope.capture.tap import Context, Done, Intake, Outgoing, Tap
from latscope.errors import InstrumentError

TRANSPORTS: dict[str, str] = {
    "httpx2": "latscope.capture.httpx2",
    "httpx": "latscope.capture.httpx",
}
"""Module of the client's class -> our transports for it. Loaded only when such a client exists."""


def attach(
    client: Any,
    *,
    done: Done,
    outgoing: Outgoing | None = None,
    context: Context | None = None,
    intake: Intake | None = None,
) -> None:
    """Makes every call of the client end in one `done(recording)`, or in `intake` where there is
    one.

    client: openai or anthropic SDK client, or a Client or AsyncClient of httpx or httpx2. Twice is
    once: the first `done` stays. Copies an SDK client makes of itself are served too.
    Raises InstrumentError, with nothing changed, when the client's transport cannot be wrapped.
    """
    base, http = sdk.base_of(client), _http_client(client)
    if sdk.tap_of(http) is None:
        _wrap(http, done=done, outgoing=outgoing, context=context, intake=intake)
    tap = sdk.tap_of(http)
    if base is not None and tap is not None:
        tap.hooked = sdk.hook(base, http)
        if not tap.hooked:
            canary.not_hooked(tap, sdk.name_of(base))


def detach(client: Any) -> None:
    """Undoes `attach`; a client without a tap is left as it is. Calls still open report later."""
    base, http = sdk.base_of(client), _http_client(client)
    tap = sdk.tap_of(http)
    if tap is None:
        return
    if base is not None:
        sdk.unhook(base, http)
    tap.settle()
    library = _library(http)
    http._transport = library.unwrap(http._transport)
    mounts = http._mounts
    for pattern, transport in mounts.items():
        mounts[pattern] = library.unwrap(transport)
    ours = vars(http).get("send")
    if getattr(ours, "latscope_tap", None) is tap:
        del http.send


def attached(client: Any) -> bool:
    """Whether the client's calls are recorded."""
    return sdk.tap_of(_http_client(client)) is not None


def settle(client: Any) -> None:
    """Reports now the failed attempts that wait for a retry no hook announced (see recorder)."""
    tap = sdk.tap_of(_http_client(client))
    if tap is not None:
        tap.settle()


def _http_client(client: Any) -> Any:
    http = client if sdk.base_of(client) is None else getattr(client, "_client", None)
    _library(http)
    return http


def _library(http: object) -> ModuleType:
    for base in type(http).__mro__:
        root = base.__module__.partition(".")[0]
        if base.__name__ in ("Client", "AsyncClient") and root in TRANSPORTS:
            return importlib.import_module(TRANSPORTS[root])
    kind = type(http)
    raise InstrumentError(
        f"cannot instrument {kind.__module__}.{kind.__qualname__}: "
        "give an openai or anthropic client, or a Client or AsyncClient of httpx or httpx2"
    )


def _wrap(http: Any, **callbacks: Any) -> None:
    library = _library(http)
    tap = Tap(sdk=library.LIBRARY, **callbacks)
    wrapped: dict[int, Any] = {}

    def once(transport: Any) -> Any:
        # One transport under several patterns stays one.
        if id(transport) not in wrapped:
            wrapped[id(transport)] = library.wrap(http, transport, tap)
        return wrapped[id(transport)]

    try:
        transport = once(http._transport)
        mounts = {key: once(value) for key, value in http._mounts.items() if value is not None}
    except (AttributeError, TypeError) as error:
        raise InstrumentError(
            f"cannot instrument {type(http).__module__}.{type(http).__qualname__}: "
            f"its transport cannot be wrapped ({error})"
        ) from None
    http._transport = transport
    http._mounts.update(mounts)
    http.send = _send(http, tap)


def _send(http: Any, tap: Tap) -> Callable[..., Any]:
    """`send` that makes redirects and auth hops attempts of one call.

    It holds the client weakly: a cycle would keep the client, and its connections, until the
    collector runs.
    """
    mine = vars(http).get("send")
    method = type(http).send
    client = weakref.ref(http)

    def original(*args: Any, **kwargs: Any) -> Any:
        return method(client(), *args, **kwargs) if mine is None else mine(*args, **kwargs)

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def asend(request: Any, *args: Any, **kwargs: Any) -> Any:
            call = tap.scope(request)
            if call is None:
                return await original(request, *args, **kwargs)
            return await sdk.ainside(call, functools.partial(original, request, *args, **kwargs))

        asend.latscope_tap = tap  # type: ignore[attr-defined]
        return asend

    @functools.wraps(method)
    def send(request: Any, *args: Any, **kwargs: Any) -> Any:
        call = tap.scope(request)
        if call is None:
            return original(request, *args, **kwargs)
        return sdk.inside(call, functools.partial(original, request, *args, **kwargs))

    send.latscope_tap = tap  # type: ignore[attr-defined]
    return send
