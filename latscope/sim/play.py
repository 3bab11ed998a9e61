"""Playing a call: every step on its absolute deadline, every stamp the moment it happened.

A deadline is an instant, not a delay after the step before it, so being late once (a busy machine,
a timer that wakes on whole milliseconds) never adds up; and what is stamped is what happened.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, TypeAlias

from latscope.documents.scenarios import Quantum, Scenario
from latscope.protocols.dialect import Dialect, Encoder
from latscope.sim import answer
from latscope.sim.engine import Ask, Plan, Step, What, plan
from latscope.sim.prompt import PrefixCache
from latscope.sim.stamps import Sent, Stamps
from latscope.units import Ns, S, ns_from_ms

Message: TypeAlias = MutableMapping[str, Any]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Headers: TypeAlias = dict[str, str]

DONE_AFTER_ERROR = ("chat", "completions")
"""APIs whose servers close a broken stream with their terminal event all the same (vLLM does)."""

STOPPED = "the engine stopped while generating"


@dataclass(slots=True, kw_only=True)
class Model:
    """One scenario being served: its engine's slots, its prefix cache, how many calls it had."""

    scenario: Scenario
    slots: asyncio.Semaphore
    cache: PrefixCache = field(default_factory=PrefixCache)
    calls: int = 0
    attempts: int = 0


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One HTTP exchange under way. `made` counts body bytes written, `held` those not yet sent."""

    send: Send
    drop: Callable[[], None]
    stamps: Stamps
    headers: Headers
    started: bool = False
    made: int = 0
    held: bytearray = field(default_factory=bytearray)

    async def start(self, status: int) -> None:
        """The response's status line and headers leave."""
        if self.started:
            return
        self.started = True
        self.stamps.status = status
        self.stamps.headers_ns = perf_counter_ns()
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data: bytes) -> None:
        self.held += data
        self.made += len(data)

    async def release(self, block: int = 1) -> None:
        """What is held leaves, as far as it fills whole blocks; the headers before it."""
        size = len(self.held) - len(self.held) % block
        if not size:
            return
        await self.start(200)
        data = bytes(self.held[:size])
        del self.held[:size]
        stop = self.made - len(self.held)
        self.stamps.sends.append(Sent(perf_counter_ns(), stop - size, stop))
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        await self.start(200)
        self.stamps.closed_ns = perf_counter_ns()
        await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def whole(self, status: int, body: bytes) -> None:
        """An answer in one body, with its length known."""
        self.headers["content-type"] = "application/json"
        self.headers["content-length"] = str(len(body))
        await self.start(status)
        self.write(body)
        await self.release()
        await self.end()


@dataclass(slots=True, kw_only=True)
class Call:
    """One call being answered: who writes it, for which model, from which prompt."""

    exchange: Exchange
    model: Model
    dialect: Dialect
    encoder: Encoder
    prompt: list[str]
    cap: int | None
    stream: bool
    begun: bool = False
    in_slot: bool = False

    @property
    def stamps(self) -> Stamps:
        return self.exchange.stamps

    @property
    def scenario(self) -> Scenario:
        return self.model.scenario


async def until(deadline: Ns) -> None:
    """Sleeps until the clock shows `deadline`; gives way once even when that has passed."""
    await asyncio.sleep(max(deadline - perf_counter_ns(), 0) / S)
    while (left := deadline - perf_counter_ns()) > 0:
        await asyncio.sleep(left / S)


async def run(call: Call) -> None:
    """The call from its arrival to its last byte. The engine's slot is free again once the last
    token exists, whoever still holds bytes; and when the client goes away."""
    try:
        scheduled = await _wait_for_engine(call)
        planned = _plan(call)
        if call.stream and call.scenario.header_policy == "slot":
            await _open(call)
        for step in planned.steps:
            await until(scheduled + step.at_ns)
            await STEPS[step.what](call, planned, step)
    finally:
        _leave_slot(call)
        if call.stamps.closed_ns is None:
            call.stamps.closed_ns = perf_counter_ns()


async def _wait_for_engine(call: Call) -> Ns:
    """Frontend, then the queue: the scenario's own wait, then a slot, first come first served."""
    scenario, stamps = call.scenario, call.stamps
    await until(stamps.received_ns + ns_from_ms(scenario.frontend_ms))
    stamps.queued_ns = perf_counter_ns()
    if call.stream and scenario.header_policy == "early":
        await _open(call)
    async with _kept_alive(call):
        await until(stamps.queued_ns + ns_from_ms(scenario.queue_ms))
        await call.model.slots.acquire()
    call.in_slot = True
    stamps.scheduled_ns = perf_counter_ns()
    return stamps.scheduled_ns


def _leave_slot(call: Call) -> None:
    if call.in_slot:
        call.in_slot = False
        call.model.slots.release()


def _plan(call: Call) -> Plan:
    stamps, model = call.stamps, call.model
    stamps.cached_tokens = model.cache.cached(call.prompt) if model.scenario.prefix_cache else 0
    ask = Ask(
        prompt_tokens=stamps.prompt_tokens,
        cached_tokens=stamps.cached_tokens,
        cap=call.cap,
        stream=call.stream,
    )
    model.calls += 1
    planned = plan(model.scenario, ask, model.calls)
    channels = [token.channel for token in planned.tokens]
    stamps.hidden_tokens = channels.count("hidden")
    stamps.reasoning_tokens = channels.count("reasoning")
    return planned


@asynccontextmanager
async def _kept_alive(call: Call) -> AsyncIterator[None]:
    """Keep-alives while the call waits for the engine, if its headers are out."""
    if call.scenario.pings_ms is None or not call.exchange.started:
        yield
        return
    pinging = asyncio.create_task(_ping_for_ever(call, call.scenario.pings_ms))
    try:
        yield
    finally:
        pinging.cancel()
        with suppress(asyncio.CancelledError):
            await pinging


async def _ping_for_ever(call: Call, interval_ms: float) -> None:
    due = perf_counter_ns()
    while True:
        due += ns_from_ms(interval_ms)
        await until(due)
        call.exchange.write(call.encoder.ping())
        await _pass_on(call)


async def _open(call: Call) -> None:
    """The headers leave, and with them the envelope where the server sends it before any token."""
    await call.exchange.start(200)
    if call.scenario.role_chunk == "early" or call.dialect.api == "responses":
        _begin(call)
        await _pass_on(call)


def _begin(call: Call) -> None:
    if not call.begun:
        call.begun = True
        call.exchange.write(call.encoder.start())


async def _pass_on(call: Call) -> None:
    """Bytes outside the plan leave at once, unless a hop holds the stream."""
    if call.scenario.holds == "none":
        await call.exchange.release()


async def _token(call: Call, planned: Plan, step: Step) -> None:
    call.stamps.tokens.append(perf_counter_ns())
    if step.first == 0:
        call.model.cache.add(call.prompt)
    if step.first == len(planned.tokens) - 1:
        _leave_slot(call)


async def _emit(call: Call, planned: Plan, step: Step) -> None:
    _begin(call)
    for piece in answer.pieces(call.dialect.api, planned.tokens[step.first : step.stop]):
        call.exchange.write(call.encoder.piece(piece))
    if call.stamps.first_sent is None:
        call.stamps.first_sent = step.first
        call.stamps.first_token_end = call.exchange.made


async def _ping(call: Call, planned: Plan, step: Step) -> None:
    if call.exchange.started:  # before the headers there is nothing to keep alive
        call.exchange.write(call.encoder.ping())


async def _tail(call: Call, planned: Plan, step: Step) -> None:
    """Finish reason, usage, the server's timings, terminal event."""
    _begin(call)
    finish = call.encoder.finish(planned.finish)
    close = call.encoder.close(answer.usage(call.stamps), _metrics(call))
    if _sends_timings(call):
        timings = answer.llama_timings(call.stamps)
        if close:
            close = answer.with_timings(close, timings)
        else:
            finish = answer.with_timings(finish, timings)
    call.exchange.write(finish + close + call.encoder.done())
    call.stamps.terminal_end = call.exchange.made


async def _error(call: Call, planned: Plan, step: Step) -> None:
    _begin(call)
    call.exchange.write(call.encoder.error("server_error", STOPPED))
    if call.dialect.api in DONE_AFTER_ERROR:
        call.exchange.write(call.encoder.done())
        call.stamps.terminal_end = call.exchange.made


async def _flush(call: Call, planned: Plan, step: Step) -> None:
    holds = call.scenario.holds
    block = holds.quantum_bytes if isinstance(holds, Quantum) else None
    await call.exchange.release(block or 1)


async def _drain(call: Call, planned: Plan, step: Step) -> None:
    await call.exchange.release()
    await call.exchange.end()


async def _cut(call: Call, planned: Plan, step: Step) -> None:
    call.stamps.closed_ns = perf_counter_ns()
    call.exchange.drop()


async def _whole(call: Call, planned: Plan, step: Step) -> None:
    body = call.encoder.whole(
        answer.pieces(call.dialect.api, planned.tokens),
        planned.finish,
        answer.usage(call.stamps),
        _metrics(call),
    )
    if _sends_timings(call):
        body = answer.with_timings(body, answer.llama_timings(call.stamps))
    call.stamps.terminal_end = len(body)
    await call.exchange.whole(200, body)


async def _fail(call: Call, planned: Plan, step: Step) -> None:
    body = call.dialect.error_body(500, "server_error", STOPPED)
    call.stamps.terminal_end = len(body)
    await call.exchange.whole(500, body)


def _metrics(call: Call) -> dict[str, float | None] | None:
    return answer.vllm_metrics(call.stamps) if call.scenario.metrics == "vllm" else None


def _sends_timings(call: Call) -> bool:
    return call.scenario.metrics == "llama" and call.dialect.api in ("chat", "completions")


STEPS: dict[What, Callable[[Call, Plan, Step], Awaitable[None]]] = {
    "token": _token,
    "emit": _emit,
    "ping": _ping,
    "tail": _tail,
    "error": _error,
    "flush": _flush,
    "drain": _drain,
    "cut": _cut,
    "whole": _whole,
    "fail": _fail,
}
