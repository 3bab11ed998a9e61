"""Sends calls one by one or at once, on the kept connection or on one of their own.

The probe's own run keeps one ask and one client for all its calls; here the output cap, streaming
and the connection are factors of the experiment, so each call says how it is to be sent.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.probe.run import Caller, Load, Result, Say, call, calling

_text: ContextVar[str] = ContextVar("latscope.probe.calibration.text")
"""The prompt of the call this task sends, also when it has to be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """How one call is to be sent. cap: most output tokens."""

    prompt: str
    cap: int
    stream: bool = True
    fresh_connection: bool = False


@dataclass(slots=True, kw_only=True)
class Sender:
    """Mutable: numbers the calls; `sent` counts requests, those sent twice included."""

    caller: Caller
    load: Load
    results: list[Result] = field(default_factory=list)
    number: int = 0
    sent: int = 0

    async def send(self, wanted: Sending) -> Result:
        (result,) = await self.at_once([wanted])
        return result

    async def at_once(self, wanted: Sequence[Sending]) -> list[Result]:
        """All together, and all alike but for their prompts; each beyond the first may open a
        connection. Results in the order asked."""
        first = wanted[0]
        self.results.clear()
        if first.fresh_connection:
            async with self._fresh() as caller:
                await self._together(caller, wanted)
        else:
            await self._together(self.caller, wanted)
        return sorted(self.results, key=lambda result: result.number)

    async def _together(self, caller: Caller, wanted: Sequence[Sending]) -> None:
        caller.ask = replace(caller.ask, max_tokens=wanted[0].cap, stream=wanted[0].stream)
        async with asyncio.TaskGroup() as group:
            for one in wanted:
                self.number += 1
                group.create_task(self._one(caller, one.prompt, self.number))

    async def _one(self, caller: Caller, prompt: str, number: int) -> None:
        _text.set(prompt)
        await call(caller, number)

    @asynccontextmanager
    async def _fresh(self) -> AsyncIterator[Caller]:
        """A caller on a connection of its own, that spells requests as the endpoint wants them."""
        async with calling(
            self.caller.ask,
            self.load,
            prompt=self.caller.prompt,
            hand_over=self.results.append,
            say=self.caller.say,
            rtt=self.caller.rtt,
        ) as caller:
            yield caller
        spelled, without = caller.ask.spelled, caller.ask.without
        self.caller.ask = replace(self.caller.ask, spelled=spelled, without=without)


@asynccontextmanager
async def sending(
    ask: Ask, timeout_s: float, say: Say, rtt: RttProbe | None = None
) -> AsyncIterator[Sender]:
    """A sender with a connection it keeps. rtt: measures round trips beside every call."""
    load = Load(warm_up=False, timeout_s=timeout_s)
    results: list[Result] = []
    counted: list[Sender] = []

    def prompt() -> str:
        counted[0].sent += 1
        return _text.get()

    async with calling(
        ask, load, prompt=prompt, hand_over=results.append, say=say, rtt=rtt
    ) as caller:
        sender = Sender(caller=caller, load=load, results=results)
        counted.append(sender)
        yield sender
