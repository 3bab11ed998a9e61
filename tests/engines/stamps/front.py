"""Stamps around vLLM's whole ASGI application: `vllm serve --middleware <this>.StampedFront`.

vLLM adds a middleware of the command line last, so it is the outermost: it sees the request before
anything of vLLM's does, and each send after everything has. A stamp is `perf_counter_ns`
(CLOCK_MONOTONIC on Linux). The line of a request is written once the application is done with it:

    request_id    its X-Request-Id: what the client knows it by
    answer_id     the `id` in the answer: what the engine knows it by (its own is this and a suffix)
    called_ns     the server had parsed the request's head
    received_ns   the application was given the end of the request's body
    headers_ns    just before the response's start was sent
    sends         [just before it, first byte, last byte + 1, written] of each part of the body;
                  written: the event loop's next turn, by which it had gone to the kernel (uvloop
                  writes at the end of a turn, whatever else the turn does)
    ended_ns      just before the message that ends the body
    closed_ns     the application had returned

Lines hold no text of either side.
"""

import re
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, MutableMapping
from time import perf_counter_ns
from typing import Any, TypeAlias

from tests.engines.stamps.lines import append

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

ID = re.compile(rb'"id": ?"([\w-]+)"')


class StampedFront:
    """ASGI middleware that changes nothing and notes when everything passed."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        called_ns = perf_counter_ns()
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        line: dict[str, Any] = {
            "request_id": headers.get(b"x-request-id", b"").decode("latin-1"),
            "path": scope["path"],
            "called_ns": called_ns,
            "sends": [],
        }
        try:
            await self.app(scope, _stamped_receive(receive, line), _stamped_send(send, line))
        finally:
            line["closed_ns"] = perf_counter_ns()
            get_running_loop().call_soon(append, "front", line)


def _stamped_receive(receive: Receive, line: dict[str, Any]) -> Receive:
    async def stamped() -> Message:
        message = await receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            line.setdefault("received_ns", perf_counter_ns())
        return message

    return stamped


def _stamped_send(send: Send, line: dict[str, Any]) -> Send:
    async def stamped(message: Message) -> None:
        at = perf_counter_ns()
        if message["type"] == "http.response.start":
            line["headers_ns"], line["status"] = at, message["status"]
        elif message["type"] == "http.response.body":
            _note(line, at, message.get("body", b""))
            if not message.get("more_body", False):
                line["ended_ns"] = at
        await send(message)

    return stamped


def _note(line: dict[str, Any], at: int, body: bytes) -> None:
    if not body:
        return
    if "answer_id" not in line and (found := ID.search(body)):
        line["answer_id"] = found[1].decode()
    start = line["sends"][-1][2] if line["sends"] else 0
    sent = [at, start, start + len(body)]
    line["sends"].append(sent)
    get_running_loop().call_soon(lambda: sent.append(perf_counter_ns()))
