"""Calls in one trace through Envoy to vLLM, with the spans both made of them.

    python -m tests.engines.traced [--out fixtures/spans]

records the fixtures the unit tests of joining run on. The models have random weights and the
recordings are masked, so neither says anything; of the spans those attributes stay that a span's
own exporter sends of timing and usage, and the address of nobody.
"""

import argparse
import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

import latscope
from latscope.recording import Recording, Trace, to_line
from tests.engines import collector, servers
from tests.lab import hops

SPANS_S = 40.0
POLL_S = 0.2
TOKENS = 16
OUT = Path("fixtures/spans")


@dataclass(frozen=True, slots=True)
class Bed:
    """A vLLM that traces, and where its collector and its spans are."""

    vllm: servers.Server
    collector: collector.Collector


@contextlib.contextmanager
def bed(folder: Path) -> Iterator[Bed]:
    """Run the collector and a vLLM that exports to it."""
    with collector.running(folder) as found:
        env = {"OTEL_SERVICE_NAME": "vllm", "OTEL_BSP_SCHEDULE_DELAY": "500"}
        otlp = f"http://127.0.0.1:{found.grpc}"
        with servers.vllm(otlp=otlp, extra_env=env) as server:
            yield Bed(server, found)


def body(api: str, number: int) -> tuple[str, dict[str, Any]]:
    """One streamed request of an API; its prompt is its own, so that no cache serves it."""
    text = f"{number} " * 40
    if api == "completions":
        more: dict[str, Any] = {"prompt": text, "max_tokens": TOKENS}
    elif api == "responses":
        more = {"input": text, "max_output_tokens": TOKENS}
    else:
        more = {"messages": [{"role": "user", "content": text}], "max_tokens": TOKENS}
    path = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}.get(api, f"/v1/{api}")
    return path, {"model": servers.MODEL, "stream": True, **more}


def calls(
    base_url: str,
    apis: Sequence[str],
    *,
    trace_id: str | None,
    headers: Mapping[str, str] | None = None,
    at_once: int = 1,
) -> list[Recording]:
    """One recorded call an API, in one trace. What a client that propagates does is done here by
    hand: each call's own span id goes out as `traceparent` and lies in its recording."""
    found: dict[str, Recording] = {}

    def one(number: int) -> str:
        span_id = os.urandom(8).hex()
        sent = dict(headers or {})
        if trace_id is not None:
            sent["traceparent"] = f"00-{trace_id}-{span_id}-01"
        if "x-request-id" in sent:
            sent["x-request-id"] += f"-{number}"
        path, asked = body(apis[number], number)
        with (
            latscope.tags(span=span_id),
            client.stream("POST", base_url + path, json=asked, headers=sent) as answer,
        ):
            answer.read()
        return span_id

    with httpx2.Client(timeout=120) as client, ThreadPoolExecutor(at_once) as pool:
        latscope.instrument(client, sink=lambda call: found.update({call.tags["span"]: call}))
        order = list(pool.map(one, range(len(apis))))
        latscope.flush(30)
    return [_traced(found[span_id], trace_id, span_id) for span_id in order]


def _traced(call: Recording, trace_id: str | None, span_id: str) -> Recording:
    trace = None if trace_id is None else Trace(trace_id=trace_id, span_id=span_id)
    return replace(call, trace=trace, tags={})


def through_envoy(
    bed: Bed, apis: Sequence[str], *, own_span: bool, at_once: int
) -> list[Recording]:
    """The calls of one trace, with Envoy and its tracing on between."""
    port = urlsplit(bed.vllm.base_url).port or 80
    with hops.envoy(port, tracing=True, collector=bed.collector.http, own_span=own_span) as hop:
        trace_id = os.urandom(16).hex()
        made = calls(hop.url, apis, trace_id=trace_id, at_once=at_once)
        spans_of(bed.collector.file, trace_id, (3 if own_span else 2) * len(apis))
    return made


def spans_of(file: Path, mark: str, wanted: int) -> list[str]:
    """The lines that hold spans with `mark` (a trace id, or part of a request's), once there are as
    many as wanted; what is there by the deadline otherwise: exporters send when they like."""
    deadline = time.monotonic() + SPANS_S
    while True:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        lines = [line for line in text.splitlines() if mark in line]
        if sum(line.count(mark) for line in lines) >= wanted or time.monotonic() > deadline:
            return lines
        time.sleep(POLL_S)


KEPT = ("service.name",)
DROPPED = (
    "peer.address",
    "upstream_address",
    "user_agent",
    "node_id",
    "zone",
    "http.url",
    "code.filepath",
)


def scrubbed(line: str) -> str:
    """A collector's line without what names a machine or a process."""
    document = json.loads(line)
    for batch in document["resourceSpans"]:
        resource = batch.get("resource", {})
        resource["attributes"] = [a for a in resource.get("attributes", ()) if a["key"] in KEPT]
        for scope in batch["scopeSpans"]:
            for span in scope["spans"]:
                span["attributes"] = [
                    a for a in span.get("attributes", ()) if a["key"] not in DROPPED
                ]
    return json.dumps(document)


def main() -> None:
    """Record ten calls through Envoy and four without it, and their spans."""
    parser = argparse.ArgumentParser(description="record calls and the spans made of them")
    parser.add_argument("--out", type=Path, default=OUT)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, bed(Path(folder)) as found:
        calls(found.vllm.base_url, ["chat"], trace_id=None)  # a warm-up
        apis = ["chat", "completions", "responses", "messages"]
        made = through_envoy(found, ["chat"] * 5, own_span=False, at_once=1)
        made += through_envoy(found, ["chat", *apis], own_span=True, at_once=3)
        mark = "latscope-fixture"
        made += calls(found.vllm.base_url, apis, trace_id=None, headers={"x-request-id": mark})
        spans_of(found.collector.file, mark, len(apis))
        lines = found.collector.file.read_text(encoding="utf-8").splitlines()
    _write(out / "envoy-vllm.calls.jsonl", [to_line(call) for call in made])
    _write(out / "envoy-vllm.otlp.jsonl", [scrubbed(line) for line in lines])


def _write(path: Path, lines: Sequence[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{path}: {len(lines)} lines, {path.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
