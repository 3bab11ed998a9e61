"""A plain HTTP client that keeps its own stamps: recordings made by hand, by none of our code."""

import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from latscope.documents.scenarios import Quantum, Scenario
from latscope.recording import Attempt, Clock, End, Mark, Read, Recording, Target
from latscope.sim.process import Running

FASTER = 20

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}

MILLISECONDS = (
    "frontend_ms",
    "queue_ms",
    "prefill_base_ms",
    "prefill_us_per_token",
    "decode_step_ms",
    "pings_ms",
    "retry_after_s",
)


def quick(scenario: Scenario, by: float = FASTER) -> Scenario:
    """The same story, told `by` times as fast."""
    times = {name: getattr(scenario, name) for name in MILLISECONDS}
    changed: dict[str, Any] = {k: v / by for k, v in times.items() if v is not None}
    changed["stalls"] = tuple(s.model_copy(update={"ms": s.ms / by}) for s in scenario.stalls)
    holds = scenario.holds
    if isinstance(holds, Quantum) and holds.quantum_ms is not None:
        changed["holds"] = Quantum(quantum_ms=holds.quantum_ms / by)
    return scenario.model_copy(update=changed)


def body_for(api: str, model: str, prompt: str, **extra: Any) -> dict[str, Any]:
    """A streamed request of that API with one user prompt, usage asked for."""
    said = [{"role": "user", "content": prompt}]
    usage = {"stream_options": {"include_usage": True}}
    fields: dict[str, dict[str, Any]] = {
        "chat": {"messages": said, **usage},
        "completions": {"prompt": prompt, **usage},
        "responses": {"input": prompt},
        "messages": {"messages": said, "max_tokens": 500},
    }
    return {"model": model, "stream": True, **fields[api], **extra}


class Stopwatch:
    """Nanoseconds since it was made."""

    def __init__(self) -> None:
        self.zero_ns = time.perf_counter_ns()

    def ns(self) -> int:
        return time.perf_counter_ns() - self.zero_ns


def attempt(
    base_url: str, path: str, body: bytes, headers: Mapping[str, str], w: Stopwatch
) -> Attempt:
    """One exchange, stamped; a connection that breaks ends it with an `error` mark."""
    marks = [Mark("entry", w.ns()), Mark("connect.started", w.ns())]
    where = urlsplit(base_url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    connection.connect()
    marks += [Mark("connect.complete", w.ns()), Mark("request.started", w.ns())]
    connection.request("POST", path, body, {"content-type": "application/json", **headers})
    marks.append(Mark("request.sent", w.ns()))
    reads: list[Read] = []
    received = bytearray()
    response = connection.getresponse()
    marks.append(Mark("headers", w.ns()))
    error = None
    try:
        while True:
            asked = w.ns()
            data = response.read1(65536)
            got = w.ns()
            if not data:
                break
            received += data
            reads.append(Read(asked, got, len(data), len(received)))
        marks.append(Mark("body.end", w.ns()))
    except (http.client.HTTPException, ConnectionError) as broken:
        marks.append(Mark("error", w.ns()))
        error = type(broken).__name__
    finally:
        connection.close()
    return Attempt(
        marks=tuple(marks),
        status=response.status,
        headers=tuple((name.lower(), value) for name, value in response.getheaders()),
        reads=tuple(reads),
        body=bytes(received),
        error_type=error,
    )


def call(
    base_url: str,
    api: str,
    body: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    tries: int = 3,
) -> Recording:
    """A call with as many attempts as it takes, the sleep between them what the server asked."""
    watch = Stopwatch()
    raw = json.dumps(body).encode()
    attempts: list[Attempt] = []
    for count in range(tries):
        retry = {"x-stainless-retry-count": str(count), **(headers or {})}
        attempts.append(attempt(base_url, PATHS[api], raw, retry, watch))
        if (attempts[-1].status or 0) < 400:
            break
        time.sleep(float(header(attempts[-1], "retry-after") or 0.01))
    return Recording(
        call_id="by-hand",
        started_at="2026-01-01T00:00:00Z",
        target=Target(scheme="http", host="127.0.0.1", port=0, path=PATHS[api]),
        marks=(Mark("entry", 0), Mark("end", watch.ns())),
        end=End(reason="error" if attempts[-1].error_type else "complete"),
        attempts=tuple(attempts),
        clock=Clock(name="perf_counter", zero_ns=watch.zero_ns),
    )


def header(exchange: Attempt, name: str) -> str | None:
    return dict(exchange.headers).get(name)


def request_id(recording: Recording) -> str:
    found = header(recording.attempts[-1], "x-request-id")
    assert found is not None
    return found


def body_of(recording: Recording) -> bytes:
    body = recording.attempts[-1].body
    assert body is not None
    return body


def read_at(recording: Recording, offset: int) -> int:
    """When the byte before `offset` of the last attempt's body was read."""
    return next(r.got_ns for r in recording.attempts[-1].reads if r.body_offset >= offset)


def frames(body: bytes) -> Iterator[tuple[bytes, int]]:
    """Each event's text and the offset just past its blank line; our servers write LF only."""
    start = 0
    while (end := body.find(b"\n\n", start)) >= 0:
        yield body[start:end], end + 2
        start = end + 2


def data_of(frame: bytes) -> dict[str, Any]:
    """The JSON of an event; empty for comments and [DONE]."""
    for line in frame.split(b"\n"):
        if line.startswith(b"data: "):
            with contextlib.suppress(ValueError):
                return dict(json.loads(line.removeprefix(b"data: ")))
    return {}


def ask(running: Running, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """One plain request: status and the JSON of the answer."""
    where = urlsplit(running.base_url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, None if body is None else raw)
    response = connection.getresponse()
    answer = response.read()
    connection.close()
    return response.status, json.loads(answer) if answer else None
