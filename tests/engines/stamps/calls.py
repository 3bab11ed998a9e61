"""Calls to a stamped server: drawn by seed, made by an instrumented client, kept masked."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from uuid import uuid4

import httpx2

from latscope.capture.instrument import attach
from latscope.middleware.pipeline import finish
from latscope.probe.prompts import WORDS, fresh
from latscope.probe.requests import Ask, body, headers
from latscope.probe.targets import target
from latscope.protocols.dialect import Api
from latscope.recording import Recording
from tests.engines import servers

TIMEOUT_S = 120.0
PROMPTS = (20, 100, 400, 1000, 2000)
"""Tokens of the prompt, about: the tiny model's tokenizer makes two of a word, and OVERHEAD of the
nonce and the template."""
TOKENS_A_WORD = 2.1
OVERHEAD = 20
OUTPUTS = (1, 8, 32, 64)
SHAPES: tuple[tuple[Api, bool, bool, int], ...] = (
    # api, streamed, usage asked for, weight
    ("chat", True, True, 9),
    ("chat", True, False, 5),
    ("chat", False, True, 4),
    ("completions", True, True, 5),
    ("completions", True, False, 2),
    ("completions", False, True, 2),
    ("responses", True, True, 5),
    ("responses", False, True, 2),
    ("messages", True, True, 5),
    ("messages", False, True, 1),
)
"""vLLM states its figures wherever usage is, except on messages."""

_REQUEST: ContextVar[str] = ContextVar("stamps.request")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What to ask. usage: whether a stream is asked for its usage, and with it for its figures."""

    api: Api
    stream: bool
    usage: bool
    prompt: str
    max_tokens: int
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call and its recording, as a sink would be given it."""

    call: Call
    request_id: str
    recording: Recording


def drawn(count: int, concurrency: int, seed: int) -> list[Call]:
    """Shapes by their weight, each with a prompt and an output of its own."""
    random = Random(seed)
    bag = [shape[:3] for shape in SHAPES for _ in range(shape[3])]
    random.shuffle(bag)
    shapes = [bag[number % len(bag)] for number in range(count)]
    return [
        Call(
            api=api,
            stream=stream,
            usage=usage,
            prompt=_prompt(random),
            max_tokens=random.choice(OUTPUTS),
            concurrency=concurrency,
        )
        for api, stream, usage in shapes
    ]


def _prompt(random: Random) -> str:
    words = max(1, round((random.choice(PROMPTS) - OVERHEAD) / TOKENS_A_WORD))
    return fresh(" ".join(random.choices(WORDS, k=words)))


async def make(server: servers.Server, calls: Sequence[Call], concurrency: int) -> list[Made]:
    """Make all calls, so many at a time; the order is that of their ends."""
    kept: dict[object, Recording] = {}
    made: list[Made] = []
    waiting = iter(calls)
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(timeout=TIMEOUT_S, limits=limits, trust_env=False) as client:
        attach(client, done=lambda it: kept.update({it.context: it}), context=_REQUEST.get)

        async def caller() -> None:
            for call in waiting:
                request_id = uuid4().hex
                _REQUEST.set(request_id)
                await _ask(client, server, call, request_id)
                made.append(Made(call=call, request_id=request_id, recording=kept[request_id]))

        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(caller())
    return list(_finished(made))


async def _ask(
    client: httpx2.AsyncClient, server: servers.Server, call: Call, request_id: str
) -> None:
    ask = Ask(
        target=target(f"{server.base_url}/v1", api=call.api),
        model=server.model,
        max_tokens=call.max_tokens,
        stream=call.stream,
        without=frozenset() if call.usage else frozenset({"stream_options"}),
    )
    content = json.dumps(body(ask, call.prompt)).encode()
    sent = headers(ask, request_id)
    async with client.stream("POST", ask.target.url, content=content, headers=sent) as response:
        async for _ in response.aiter_bytes():
            pass
    response.raise_for_status()


def _finished(made: Iterable[Made]) -> Iterable[Made]:
    """Decoded and masked only now: no such work may sit in the way of a stream."""
    for one in made:
        recording = finish(one.recording)
        assert not recording.broken, recording.broken
        yield Made(call=one.call, request_id=one.request_id, recording=recording)
