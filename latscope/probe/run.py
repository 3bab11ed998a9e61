"""The probe's client: sends the calls, closed loop or open, and hands over what was recorded.

One warm-up goes first and alone, so that measured calls find a connection and a warm server. Each
call is recorded by the same capture that instruments an application. Results are handed over only
while no call is in flight: what is done with them must not sit in the way of a stream. A round-trip
probe, where one is given, runs only while a call is open.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TypeAlias
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2

import latscope
from latscope.capture.instrument import attach
from latscope.probe.requests import Ask, adapt, body, headers
from latscope.probe.rtt import RttProbe
from latscope.recording import Recording, Trace

HEAD_BYTES = 65_536
"""How much of an answer is kept to say what went wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """calls: measured ones. rate: calls a second, open loop; null for a closed loop of
    `concurrency`. timeout_s: how long the endpoint may be silent. traced: each request carries a
    `traceparent` of its own, and its recording the same ids."""

    calls: int = 5
    warm_up: bool = True
    concurrency: int = 1
    rate: float | None = None
    timeout_s: float = 120.0
    traced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One call. number: 0 for the warm-up, then 1, 2, ... recording: as captured, not masked;
    null when the call never reached the transport. head: the start of the answer's body. ask: as it
    was when the call was sent. tags: of the recording too."""

    number: int
    ask: Ask
    request_id: str
    recording: Recording | None
    status: int | None = None
    content_type: str = ""
    retry_after: str | None = None
    location: str | None = None
    head: bytes = field(default=b"", repr=False)
    error: Exception | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None

    @property
    def warm_up(self) -> bool:
        return self.number == 0


HandOver: TypeAlias = Callable[[Result], None]
Say: TypeAlias = Callable[[str], None]
Ready: TypeAlias = Callable[[], Awaitable[None]]
"""Awaited after the warm-up, before the first measured call."""

_recorded: ContextVar[list[Recording]] = ContextVar("latscope.probe.recorded")


@dataclass(slots=True, kw_only=True)
class Caller:
    """Mutable: one client and what it knows as it goes. Made by `calling`, used by `call`. tags:
    for the calls that begin from now on."""

    ask: Ask
    prompt: Callable[[], str]
    hand_over: HandOver
    say: Say
    client: httpx2.AsyncClient
    rtt: RttProbe | None = None
    traced: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    in_flight: int = 0
    waiting: list[Result] = field(default_factory=list)


async def run(
    ask: Ask,
    load: Load,
    *,
    prompt: Callable[[], str],
    hand_over: HandOver,
    say: Say,
    rtt: RttProbe | None = None,
    ready: Ready | None = None,
) -> Ask:
    """Sends the warm-up and the measured calls; gives the ask as the endpoint accepted it.

    Whatever ends it (an interrupt too), every finished call is handed over first.
    """
    async with calling(ask, load, prompt=prompt, hand_over=hand_over, say=say, rtt=rtt) as caller:
        if load.warm_up:
            await call(caller, 0)
        if ready is not None:
            await ready()
        await (_open_loop(caller, load) if load.rate else _closed_loop(caller, load))
    return caller.ask


@asynccontextmanager
async def calling(
    ask: Ask,
    load: Load,
    *,
    prompt: Callable[[], str],
    hand_over: HandOver,
    say: Say,
    rtt: RttProbe | None = None,
) -> AsyncIterator[Caller]:
    """A caller with an instrumented client of its own; what finished is handed over at its end."""
    async with _client(ask, load) as client:
        attach(client, done=_keep)
        caller = Caller(
            ask=ask,
            prompt=prompt,
            hand_over=hand_over,
            say=say,
            client=client,
            rtt=rtt,
            traced=load.traced,
        )
        try:
            yield caller
        finally:
            _flush(caller)


async def models(ask: Ask, timeout_s: float = 10.0) -> list[str]:
    """Names of the models the endpoint offers; empty when it does not say."""
    load = Load(timeout_s=timeout_s)
    try:
        async with _client(ask, load) as client:
            response = await client.get(
                f"{ask.target.base_url}/models", headers=headers(ask, uuid4().hex)
            )
            listed = response.json()
    except (httpx2.HTTPError, ValueError):
        return []
    rows = listed.get("data", []) if isinstance(listed, dict) else []
    names = [row.get("id") for row in rows if isinstance(row, dict)]
    return [name for name in names if isinstance(name, str)]


def _client(ask: Ask, load: Load) -> httpx2.AsyncClient:
    """Redirects are not followed: a probe of one address must not silently measure another. A
    proxy of the environment is for the world outside, not for this machine."""
    host = urlsplit(ask.target.base_url).hostname or ""
    direct = ask.target.loopback and ":" not in host
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(load.timeout_s),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        headers={"user-agent": f"latscope/{latscope.__version__}"},
        mounts={f"all://{host}": None} if direct else None,
    )


def _keep(recording: Recording) -> None:
    _recorded.get().append(recording)


async def _closed_loop(state: Caller, load: Load) -> None:
    """So many callers, each sending its next call when its last one ended."""
    numbers = iter(range(1, load.calls + 1))

    async def caller() -> None:
        for number in numbers:
            await call(state, number)

    await _together([caller() for _ in range(min(load.concurrency, load.calls))])


async def _open_loop(state: Caller, load: Load) -> None:
    """A call every 1/rate seconds, whatever the others do; each on its own deadline."""
    begin = monotonic()

    async def later(number: int) -> None:
        await asyncio.sleep(begin + (number - 1) / (load.rate or 1.0) - monotonic())
        await call(state, number)

    await _together([later(number) for number in range(1, load.calls + 1)])


async def _together(calls: list[Awaitable[None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_as_coroutine(call))
    except BaseExceptionGroup as found:
        # What stopped them (a reader that has gone, say) is told apart by its own type.
        raise _first(found) from None


def _first(found: BaseExceptionGroup[BaseException]) -> BaseException:
    error = found.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


async def _as_coroutine(call: Awaitable[None]) -> None:
    await call


async def call(state: Caller, number: int) -> None:
    """One call; once more where it met a connection the server had already closed, and in another
    spelling when the server names a parameter it refuses."""
    state.in_flight += 1
    if state.rtt is not None:
        state.rtt.resume()
    try:
        ask = state.ask
        result = await _exchange(state, number)
        if _stale(result):
            state.say(f"{ask.target.name} had closed an idle connection; asking again on a new one")
            result = await _exchange(state, number)
        changed = adapt(ask, result.head) if result.status in (400, 422) else None
        if changed is not None:
            if state.ask is ask:
                state.ask = changed[0]
                state.say(f"{ask.target.name} refused a parameter; asking again {changed[1]}")
            result = await _exchange(state, number)
        state.waiting.append(result)
    finally:
        state.in_flight -= 1
    if state.in_flight == 0:
        _flush(state)


def _stale(result: Result) -> bool:
    """The request went out on a kept-alive connection and the server hung up without a byte: it
    closed it while idle, and never saw the request (RFC 9112, 9.3.1 and 9.6)."""
    recording = result.recording
    if result.status is not None or recording is None or not recording.attempts:
        return False
    attempt = recording.attempts[-1]
    reused = attempt.connection is not None and attempt.connection.reused is True
    hung_up = isinstance(result.error, httpx2.RemoteProtocolError | httpx2.ReadError)
    return reused and hung_up and attempt.status is None


async def _exchange(state: Caller, number: int) -> Result:
    """One request and its answer; when it is interrupted, what was seen of it is kept."""
    recorded: list[Recording] = []
    token = _recorded.set(recorded)
    result = Result(
        number=number,
        ask=state.ask,
        request_id=uuid4().hex,
        recording=None,
        tags=state.tags,
        trace=_trace(state),
    )
    try:
        result = await _read(state.client, state.ask, state.prompt(), result)
    except httpx2.HTTPError as error:
        result = replace(result, error=error)
    except asyncio.CancelledError:
        if recorded:
            state.waiting.append(replace(result, recording=recorded[-1]))
        raise
    finally:
        _recorded.reset(token)
    return replace(result, recording=recorded[-1] if recorded else None)


def _trace(state: Caller) -> Trace | None:
    """Ids of the request's own, unless the user sends others."""
    own = any(name.lower() == "traceparent" for name, _ in state.ask.headers)
    if own or not state.traced:
        return None
    return Trace(trace_id=uuid4().hex, span_id=uuid4().hex[:16])


async def _read(client: httpx2.AsyncClient, ask: Ask, prompt: str, result: Result) -> Result:
    content = json.dumps(body(ask, prompt), ensure_ascii=False).encode("utf-8")
    sent = headers(ask, result.request_id)
    if result.trace is not None:
        sent["traceparent"] = f"00-{result.trace.trace_id}-{result.trace.span_id}-01"
    head = bytearray()
    error: Exception | None = None
    async with client.stream("POST", ask.target.url, content=content, headers=sent) as response:
        try:
            async for chunk in response.aiter_bytes():
                head += chunk[: max(0, HEAD_BYTES - len(head))]
        except httpx2.HTTPError as failed:
            error = failed
    return replace(
        result,
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        retry_after=response.headers.get("retry-after"),
        location=response.headers.get("location"),
        head=bytes(head),
        error=error,
    )


def _flush(state: Caller) -> None:
    if state.rtt is not None:
        state.rtt.pause()
    waiting, state.waiting = state.waiting, []
    for result in sorted(waiting, key=lambda item: item.number):
        state.hand_over(_beside(state.rtt, result))


def _beside(rtt: RttProbe | None, result: Result) -> Result:
    """The result with the round trips beside its call; the addresses it met are probed from now
    on, since only a call tells where it really went (a proxy, one of several addresses)."""
    recording = result.recording
    if recording is None:
        return result
    recording = replace(
        recording,
        tags={**recording.tags, **result.tags},
        trace=result.trace or recording.trace,
    )
    if rtt is not None:
        recording = rtt.during(recording)
        for attempt in recording.attempts:
            rtt.follow(attempt.connection.peer if attempt.connection else None)
    return replace(result, recording=recording)
