"""Transports of httpx that stamp what passes through them.

Generated from `latscope/capture/httpx2.py` by `tests/capture/twin.py --write`: edit that one.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Self

import httpx

from latscope.capture.recorder import AttemptRecorder, now
from latscope.capture.tap import Context, Done, Outgoing, Tap

Extensions = Any


class TappedTransport(httpx.BaseTransport):
    """Passes each request to the transport inside, and stamps it. What the inner transport has
    beyond the interface is reached through this one."""

    def __init__(self, inner: httpx.BaseTransport, tap: Tap) -> None:
        self.latscope_inner = inner
        self.latscope_tap = tap

    def __getattr__(self, name: str) -> Any:
        return _inner_attribute(self, name)

    def __enter__(self) -> Self:
        self.latscope_inner.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.latscope_inner.__exit__(exc_type, exc_value, traceback)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        attempt = self.latscope_tap.enter(request)
        if attempt is None:
            return self.latscope_inner.handle_request(request)
        attempt.kernel.transport = self.latscope_inner
        extensions = request.extensions
        request.extensions = _traced(extensions, attempt, _nothing)
        try:
            response = self.latscope_inner.handle_request(request)
        except BaseException as error:
            attempt.failed(error)
            raise
        finally:
            request.extensions = extensions
        return _stamped(response, attempt, httpx.SyncByteStream, StampedStream)

    def close(self) -> None:
        self.latscope_inner.close()


class AsyncTappedTransport(httpx.AsyncBaseTransport):
    """As `TappedTransport`, for an asynchronous client."""

    def __init__(self, inner: httpx.AsyncBaseTransport, tap: Tap) -> None:
        self.latscope_inner = inner
        self.latscope_tap = tap
        tap.looped = True

    def __getattr__(self, name: str) -> Any:
        return _inner_attribute(self, name)

    async def __aenter__(self) -> Self:
        await self.latscope_inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.latscope_inner.__aexit__(exc_type, exc_value, traceback)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        attempt = self.latscope_tap.enter(request)
        if attempt is None:
            return await self.latscope_inner.handle_async_request(request)
        attempt.kernel.transport = self.latscope_inner
        extensions = request.extensions
        request.extensions = _traced(extensions, attempt, _async_nothing)
        try:
            response = await self.latscope_inner.handle_async_request(request)
        except BaseException as error:
            attempt.failed(error)
            raise
        finally:
            request.extensions = extensions
        return _stamped(response, attempt, httpx.AsyncByteStream, AsyncStampedStream)

    async def aclose(self) -> None:
        await self.latscope_inner.aclose()


class CaptureTransport(TappedTransport):
    """A transport for those who build their client themselves: each request, or each retry of an
    SDK, becomes part of a recording given to `done`. Redirects are calls of their own here; to
    have them joined, instrument the client."""

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        done: Done,
        outgoing: Outgoing | None = None,
        context: Context | None = None,
    ) -> None:
        tap = Tap(done=done, outgoing=outgoing, context=context, sdk=LIBRARY)
        super().__init__(transport or httpx.HTTPTransport(), tap)


class AsyncCaptureTransport(AsyncTappedTransport):
    """As `CaptureTransport`, for an asynchronous client."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        done: Done,
        outgoing: Outgoing | None = None,
        context: Context | None = None,
    ) -> None:
        tap = Tap(done=done, outgoing=outgoing, context=context, sdk=LIBRARY)
        super().__init__(transport or httpx.AsyncHTTPTransport(), tap)


class StampedStream(httpx.SyncByteStream):
    """The response's byte stream, each read stamped. The chunks are the ones that came."""

    def __init__(self, inner: httpx.SyncByteStream, attempt: AttemptRecorder) -> None:
        self.latscope_inner = inner
        self._attempt = attempt

    def __getattr__(self, name: str) -> Any:
        return _inner_attribute(self, name)

    def __iter__(self) -> Iterator[bytes]:
        attempt = self._attempt
        source = iter(self.latscope_inner)
        try:
            asked = now()
            for chunk in source:
                attempt.keep(asked, chunk)
                yield chunk
                asked = now()
            attempt.eof()
        except GeneratorExit as leaving:
            attempt.interrupted(leaving)
            # As `yield from` would: the source learns at once that nobody will ask for more.
            close = getattr(source, "close", None)
            if close is not None:
                close()
            raise
        except BaseException as error:
            attempt.interrupted(error)
            raise

    def close(self) -> None:
        self._attempt.closing()
        try:
            self.latscope_inner.close()
        finally:
            self._attempt.released()

    def __del__(self) -> None:
        _forget(self)


class AsyncStampedStream(httpx.AsyncByteStream):
    """As `StampedStream`; may be iterated again while an earlier iterator is suspended."""

    def __init__(self, inner: httpx.AsyncByteStream, attempt: AttemptRecorder) -> None:
        self.latscope_inner = inner
        self._attempt = attempt

    def __getattr__(self, name: str) -> Any:
        return _inner_attribute(self, name)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        attempt = self._attempt
        source = self.latscope_inner.__aiter__()
        try:
            asked = now()
            async for chunk in source:
                attempt.keep(asked, chunk)
                yield chunk
                asked = now()
            attempt.eof()
        except BaseException as error:
            attempt.interrupted(error)
            raise
        finally:
            # Done already, and so no wait, unless we are being closed between two chunks.
            if isinstance(source, AsyncGenerator):
                await source.aclose()

    async def aclose(self) -> None:
        self._attempt.closing()
        try:
            await self.latscope_inner.aclose()
        finally:
            self._attempt.released()

    def __del__(self) -> None:
        _forget(self)


LIBRARY = f"httpx/{httpx.__version__}"


def wrap(client: object, transport: Any, tap: Tap) -> Any:
    """The client's transport, tapped; `TypeError` when it is none that can be."""
    if isinstance(transport, TappedTransport | AsyncTappedTransport):
        return transport
    is_async = isinstance(client, httpx.AsyncClient)
    method = "handle_async_request" if is_async else "handle_request"
    if not callable(getattr(transport, method, None)):
        raise TypeError(f"{type(transport).__name__} has no {method}")
    return (AsyncTappedTransport if is_async else TappedTransport)(transport, tap)


def unwrap(transport: Any) -> Any:
    """The transport that `wrap` was given."""
    if isinstance(transport, TappedTransport | AsyncTappedTransport):
        return transport.latscope_inner
    return transport


def _traced(
    extensions: Extensions, attempt: AttemptRecorder, nothing: Callable[[], Any]
) -> Extensions:
    user = extensions.get("trace")

    # Plain on purpose: stamps now, and hands back whatever the user's own callback gave. So what
    # the library says about a callback of the wrong kind, or one that raises, is what it was.
    def trace(name: str, info: Any) -> Any:
        attempt.trace(name, info)
        return nothing() if user is None else user(name, info)

    return {**extensions, "trace": trace}


def _nothing() -> None:
    return None


async def _async_nothing() -> None:
    return None


def _stamped(
    response: httpx.Response, attempt: AttemptRecorder, kind: type[Any], stamped: type[Any]
) -> httpx.Response:
    attempt.responded(response)
    stream = response.stream
    if response.is_closed:
        attempt.unwrapped(list(stream) if isinstance(stream, httpx.ByteStream) else [])
    elif isinstance(stream, kind):
        response.stream = stamped(stream, attempt)
    else:
        # Not for us to mend: the client is about to say what is wrong with it.
        attempt.unwrapped([])
    return response


def _inner_attribute(outer: Any, name: str) -> Any:
    if name.startswith("latscope_"):  # not there yet, or no more: there is nothing inside to ask
        raise AttributeError(name)
    return getattr(outer.latscope_inner, name)


def _forget(stream: Any) -> None:
    try:
        stream._attempt.forgotten()
    except Exception:  # the interpreter is going down, or the object was never finished
        return
