"""Calls written by hand: what came when, in milliseconds, as a recording.

The bodies are literal JSON, not the encoders' output, so that a test of the reading side does not
lean on the writing side.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from latscope.attribution import Attribution, attribute, check_laws
from latscope.recording import (
    Attempt,
    Connection,
    End,
    EndReason,
    Mark,
    Read,
    Recording,
    Target,
    TcpInfo,
)
from latscope.units import MS, US

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}

Chunk = tuple[float, bytes]
"""(milliseconds since zero, bytes of one read)."""


def sse(payload: Mapping[str, Any] | str, event: str = "") -> bytes:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {text}\n\n".encode()


def delta(content: str = "", **fields: Any) -> bytes:
    """One chat chunk; `content` and any other delta field."""
    body = {"content": content} if content or not fields else {}
    return sse(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "model": "tiny",
            "choices": [{"index": 0, "delta": {**body, **fields}, "finish_reason": None}],
        }
    )


def finish(reason: str = "stop", index: int = 0) -> bytes:
    choice = {"index": index, "delta": {}, "finish_reason": reason}
    return sse({"object": "chat.completion.chunk", "model": "tiny", "choices": [choice]})


def usage(output: int, *, prompt: int = 10, **extra: Any) -> bytes:
    counts: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": output}
    counts.update(extra.pop("details", {}))
    chunk = {"object": "chat.completion.chunk", "model": "tiny", "choices": [], "usage": counts}
    return sse({**chunk, **extra})


def metrics(queue: float, prefill: float, decode: float) -> dict[str, float]:
    """vLLM's per-request metrics, in milliseconds."""
    return {
        "queue_time_ms": queue,
        "time_to_first_token_ms": prefill,
        "generation_time_ms": decode,
    }


DONE = b"data: [DONE]\n\n"


def tokens(n: int, *, start: float, step: float) -> list[Chunk]:
    """`n` one-token chunks, the first at `start` ms, then one each `step` ms."""
    return [(start + index * step, delta(f"t{index} ")) for index in range(n)]


def attempt(
    chunks: Sequence[Chunk] = (),
    *,
    entry: float = 0.0,
    connect: float | None = 1.0,
    sent: float | None = 3.0,
    headers: float | None = 5.0,
    status: int | None = 200,
    kind: str = "text/event-stream",
    response_headers: Iterable[tuple[str, str]] = (("server", "uvicorn"),),
    end: float | None = None,
    error: str | None = None,
    rtt_us: int | None = 40,
    peer: str = "127.0.0.1:8000",
    at_once: frozenset[int] = frozenset(),
    asked: Mapping[int, float] | None = None,
    http: str = "HTTP/1.1",
    retry_count: int | None = None,
) -> Attempt:
    """One attempt. A null step did not happen; `connect` null means a reused connection. Reads in
    `at_once` found their bytes waiting; `asked` says when a read was asked for."""
    marks = [Mark("entry", _ns(entry))]
    if connect is not None:
        marks += [Mark("connect.started", _ns(connect)), Mark("connect.complete", _ns(connect) + 1)]
    if sent is not None:
        marks += [
            Mark("request.started", _ns(sent) - 200 * US),
            Mark("request.headers", _ns(sent) - 100 * US),
            Mark("request.sent", _ns(sent)),
        ]
    if headers is not None and status is not None:
        marks.append(Mark("headers", _ns(headers)))
    reads, body, before = [], b"", headers or 0.0
    for index, (at, data) in enumerate(chunks):
        body += data
        when = (asked or {}).get(index, at if index in at_once else before)
        reads.append(Read(_ns(when), _ns(at), len(data), len(body)))
        before = at
    if end is None and error is None:
        end = before if chunks else headers
    if end is not None:
        marks.append(Mark("body.end", _ns(end)))
    if error is not None:
        marks.append(Mark("error", _ns(before if end is None else end)))
    content = (("content-type", kind),) if status is not None else ()
    return Attempt(
        marks=tuple(marks),
        connection=Connection(reused=connect is None, http=http, peer=peer),
        status=status,
        headers=(*content, *response_headers),
        reads=tuple(reads),
        body=body if status is not None else None,
        tcp_info=(TcpInfo(at="connect", min_rtt_ns=rtt_us * US),) if rtt_us else (),
        error_type=error,
        retry_count=retry_count,
    )


def call(
    *attempts: Attempt,
    api: str = "chat",
    reason: EndReason = "complete",
    detail: str | None = None,
    stop: float | None = None,
    end: float | None = None,
    host: str = "127.0.0.1",
    path: str | None = None,
    request: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Recording:
    marks = [Mark("entry", 0)]
    if stop is not None:
        marks.append(Mark("stop", _ns(stop)))
    if end is not None:
        marks.append(Mark("end", _ns(end)))
    return Recording(
        call_id="0" * 32,
        started_at="2026-11-29T12:00:00.000000Z",
        target=Target(scheme="http", host=host, port=8000, path=path or PATHS[api]),
        end=End(reason=reason, detail=detail),
        marks=tuple(marks),
        attempts=attempts,
        request=request,
        **fields,
    )


def stream(chunks: Sequence[Chunk], **how: Any) -> Recording:
    """A streamed chat call of one attempt."""
    names = attempt.__kwdefaults__ or {}
    mine = {key: how.pop(key) for key in list(how) if key in names and key not in ("end",)}
    return call(attempt(chunks, **mine), **how)


def attributed(recording: Recording, **how: Any) -> Attribution:
    """The attribution, its laws checked."""
    found = attribute(recording, **how)
    check_laws(found)
    return found


def ms(ns: int | None) -> float | None:
    return None if ns is None else ns / MS


def _ns(at: float) -> int:
    return round(at * MS)
