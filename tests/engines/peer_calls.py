"""One call of a real SDK, watched by latscope and by another tool: what spans and metrics come out.

    python -m tests.engines.peer_calls TOOL SDK [late]

TOOL is a row of TOOLS or `none`, SDK `openai`, `openai-responses` or `anthropic`; `late` turns the
other tool on after latscope. Prints one JSON object. Runs in the environment of install.py's
`peers`.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import latscope
from latscope.export.otel.sink import OTelSink
from tests.calls import DONE, delta, finish, sse, usage
from tests.capture import scripted

TOOLS = {
    "genai-openai": ("opentelemetry.instrumentation.genai.openai", "OpenAIInstrumentor"),
    "genai-anthropic": ("opentelemetry.instrumentation.genai.anthropic", "AnthropicInstrumentor"),
    "traceloop-openai": ("opentelemetry.instrumentation.openai", "OpenAIInstrumentor"),
    "traceloop-anthropic": ("opentelemetry.instrumentation.anthropic", "AnthropicInstrumentor"),
    "openinference-openai": ("openinference.instrumentation.openai", "OpenAIInstrumentor"),
    "openinference-anthropic": ("openinference.instrumentation.anthropic", "AnthropicInstrumentor"),
    "httpx2": ("opentelemetry.instrumentation.httpx", "HTTPX2ClientInstrumentor"),
}

SPANS = InMemorySpanExporter()
TRACERS = TracerProvider()
READER = InMemoryMetricReader()
METERS = MeterProvider(metric_readers=[READER])


def turn_on(tool: str, client: Any) -> None:
    """The other tool as its own manual says."""
    if tool == "none":
        return
    if tool == "httpx2-client":
        module = importlib.import_module("opentelemetry.instrumentation.httpx")
        module.HTTPX2ClientInstrumentor.instrument_client(client._client, tracer_provider=TRACERS)
    elif tool == "langfuse":
        langfuse = importlib.import_module("langfuse")
        nowhere = "http://127.0.0.1:9"
        langfuse.Langfuse(public_key="pk", secret_key="sk", host=nowhere, tracer_provider=TRACERS)
        importlib.import_module("langfuse.openai")
    elif tool == "logfire":
        logfire = importlib.import_module("logfire")
        kept = [SimpleSpanProcessor(SPANS)]
        logfire.configure(send_to_logfire=False, console=False, additional_span_processors=kept)
        sdk = type(client).__module__.partition(".")[0]
        getattr(logfire, f"instrument_{sdk}")(client)
    else:
        path, name = TOOLS[tool]
        instrumentor = getattr(importlib.import_module(path), name)()
        instrumentor.instrument(tracer_provider=TRACERS, meter_provider=METERS)


def reply(sdk: str) -> list[Any]:
    if sdk == "openai":
        return scripted.stream(
            delta("", role="assistant"), delta("hi "), delta("there"), finish(), usage(2), DONE
        )
    if sdk == "openai-responses":
        text = {"type": "output_text", "text": "hi", "annotations": []}
        item = {"id": "m", "type": "message", "role": "assistant", "content": [text]}
        return scripted.json_answer(
            {
                "id": "resp_1",
                "object": "response",
                "created_at": 1,
                "status": "completed",
                "model": "tiny",
                "output": [{**item, "status": "completed"}],
                "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": [],
            }
        )
    return scripted.stream(*_events())


def _events() -> Iterator[bytes]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "tiny",
        "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    for kind, fields in (
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "hi"}}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}),
        ("message_stop", {}),
    ):
        yield sse({"type": kind, **fields}, event=kind)


def ask(sdk: str, client: Any) -> None:
    said = [{"role": "user", "content": "x"}]
    if sdk == "openai":
        options = {"include_usage": True}
        list(
            client.chat.completions.create(
                model="tiny", messages=said, stream=True, stream_options=options
            )
        )
    elif sdk == "openai-responses":
        client.responses.create(model="tiny", input="x")
    else:
        with client.messages.stream(model="tiny", max_tokens=10, messages=said) as stream:
            list(stream)


def made(sdk: str, url: str) -> Any:
    if sdk == "anthropic":
        return importlib.import_module("anthropic").Anthropic(
            api_key="k", base_url=url, max_retries=0
        )
    return importlib.import_module("openai").OpenAI(
        api_key="k", base_url=f"{url}/v1", max_retries=0
    )


def main(tool: str, sdk: str, *late: str) -> None:
    TRACERS.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(TRACERS)
    metrics.set_meter_provider(METERS)
    with scripted.serving(reply(sdk)) as server:
        client = made(sdk, server.url)
        if not late:
            turn_on(tool, client)
        latscope.instrument(client, sink=OTelSink(TRACERS, METERS, aliases=True))
        if late:
            turn_on(tool, client)
        with TRACERS.get_tracer("app").start_as_current_span("user") as user:
            ask(sdk, client)
            assert trace.get_current_span() is user
        latscope.flush()
        sent = server.requests[0].headers.get("traceparent")
    print(json.dumps({"sent": sent, "spans": list(spans()), "metrics": counted()}))
    sys.stdout.flush()


def spans() -> Iterator[dict[str, Any]]:
    for span in SPANS.get_finished_spans():
        context, scope = span.get_span_context(), span.instrumentation_scope
        keys = list(span.attributes or {})
        yield {
            "name": span.name,
            "scope": scope.name if scope else "",
            "id": f"{context.span_id:016x}" if context else "",
            "parent": f"{span.parent.span_id:016x}" if span.parent else None,
            "usage": any("usage" in key or "token_count" in key for key in keys),
            "call_id": "latscope.call_id" in keys,
        }


def counted() -> dict[str, list[str]]:
    data = READER.get_metrics_data()
    return {
        scope.scope.name: [metric.name for metric in scope.metrics]
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
