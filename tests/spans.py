"""Spans written by hand, in milliseconds, and the JSON three stores would write of them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from latscope.recording import ServerSpan
from latscope.units import MS

START = 1_795_953_600_000_000_000
"""2026-11-29T12:00:00Z, where the calls of tests/calls.py begin."""
TRACE = "a" * 32
CALL = "c" * 16
"""The span id of the call."""


def span(
    id: int,
    *,
    parent: str | int | None = None,
    trace: str = TRACE,
    name: str = "hop",
    source: str = "",
    service: str = "hop",
    kind: str = "server",
    at: float = 0.0,
    ms: float = 10.0,
    **attributes: float | str,
) -> ServerSpan:
    """parent: another span's number, or an id."""
    return ServerSpan(
        name=name,
        source=source,
        service=service,
        trace_id=trace,
        span_id=f"{id:016x}",
        parent_id=f"{parent:016x}" if isinstance(parent, int) else parent,
        kind=kind,
        start_unix_ns=START + round(at * MS),
        duration_ns=round(ms * MS),
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
    )


def request(id: int, *, rid: str = "", **how: Any) -> ServerSpan:
    """An llm_request of vLLM."""
    if rid:
        how["gen_ai__request__id"] = rid
    return span(id, name="llm_request", source="vllm.otel", service="vllm", **how)


def otlp(
    spans: Iterable[Mapping[str, Any]], *, service: str = "vllm", scope: str = "vllm.llm_engine"
) -> dict[str, Any]:
    """A collector's export of spans as OTLP's JSON has them."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    groups = [{"scope": {"name": scope}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": groups}]}


def otlp_span(
    id: int = 1, *, at: float = 0.0, ms: float = 10.0, attributes: Any = (), **fields: Any
) -> dict[str, Any]:
    """One span of it; `fields` replace or add."""
    begin = START + round(at * MS)
    plain: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": f"{id:016x}",
        "parentSpanId": "",
        "name": "llm_request",
        "kind": 2,
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + round(ms * MS)),
        "attributes": [
            {"key": key, "value": {_tag(value): value}} for key, value in dict(attributes).items()
        ],
    }
    return plain | fields


def vllm_attributes(
    queue: float, prefill: float, decode: float, *, frontend: float = 0.001, rid: str = "chatcmpl-1"
) -> dict[str, Any]:
    """What vLLM says of a request, in seconds."""
    return {
        "gen_ai.latency.time_in_queue": queue,
        "gen_ai.latency.time_in_model_prefill": prefill,
        "gen_ai.latency.time_in_model_decode": decode,
        "gen_ai.latency.time_in_model_inference": prefill + decode,
        "gen_ai.latency.time_to_first_token": frontend + queue + prefill,
        "gen_ai.latency.e2e": frontend + queue + prefill + decode,
        "gen_ai.usage.prompt_tokens": 10,
        "gen_ai.usage.completion_tokens": 5,
        "gen_ai.request.id": rid,
    }


def _tag(value: object) -> str:
    return {str: "stringValue", int: "intValue", float: "doubleValue"}[type(value)]


def line(document: Mapping[str, Any]) -> str:
    return json.dumps(document) + "\n"
