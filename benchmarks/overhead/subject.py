"""One client, watched by one tool or by none, in an environment of that tool's own.

`python subject.py TOOL SDK STYLE PORT`: TOOL is a key of SETUPS, SDK openai or anthropic, STYLE
sync or async. Each line of standard input, `CALLS MODEL`, makes so many calls one after another and
is answered by one line of JSON: processor time of the caller's thread, and of the whole process
with what the tool still had to do (its flush) included, in us.

Knows latscope only as one of the tools: it runs where latscope is not.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

Flush = Callable[[], object]
exported = 0
"""Spans that tools made so far: one that makes none watches nothing."""
PROMPT = [{"role": "user", "content": "Why is the first token slow?"}]


def nothing(client: Any, sdk: str) -> Flush:
    return lambda: None


def exporter() -> Any:
    """An exporter of spans that counts them and throws them away."""
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Spans(SpanExporter):
        def export(self, spans: Any) -> Any:
            global exported
            exported += len(spans)
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None:
            return None

    return Spans()


def providers() -> tuple[Any, Any, Flush]:
    """Tracer and meter provider of the OpenTelemetry SDK as in production, batches and all, but for
    the network: what is exported is thrown away."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import (
        MetricExporter,
        MetricExportResult,
        PeriodicExportingMetricReader,
    )
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    class Metrics(MetricExporter):
        def export(self, *args: Any, **kwargs: Any) -> Any:
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis: float = 0) -> bool:
            return True

        def shutdown(self, *args: Any, **kwargs: Any) -> None:
            return None

    tracing = TracerProvider()
    tracing.add_span_processor(BatchSpanProcessor(exporter()))
    metering = MeterProvider([PeriodicExportingMetricReader(Metrics())])
    trace.set_tracer_provider(tracing)
    metrics.set_meter_provider(metering)
    return tracing, metering, lambda: (tracing.force_flush(), metering.force_flush())


def instrumentor(module: str, name: str) -> Flush:
    tracing, metering, flush = providers()
    tool = getattr(importlib.import_module(module), name)()
    tool.instrument(tracer_provider=tracing, meter_provider=metering)
    return flush


def otel_genai(client: Any, sdk: str) -> Flush:
    name = {"openai": "OpenAIInstrumentor", "anthropic": "AnthropicInstrumentor"}[sdk]
    return instrumentor(f"opentelemetry.instrumentation.genai.{sdk}", name)


def traceloop(client: Any, sdk: str) -> Flush:
    name = {"openai": "OpenAIInstrumentor", "anthropic": "AnthropicInstrumentor"}[sdk]
    return instrumentor(f"opentelemetry.instrumentation.{sdk}", name)


def openinference(client: Any, sdk: str) -> Flush:
    name = {"openai": "OpenAIInstrumentor", "anthropic": "AnthropicInstrumentor"}[sdk]
    return instrumentor(f"openinference.instrumentation.{sdk}", name)


def logfire(client: Any, sdk: str) -> Flush:
    tool = importlib.import_module("logfire")
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    kept = [BatchSpanProcessor(exporter())]
    tool.configure(
        send_to_logfire=False,
        console=False,
        inspect_arguments=False,
        additional_span_processors=kept,
    )
    getattr(tool, f"instrument_{sdk}")(client)
    return lambda: tool.force_flush()


def langfuse(client: Any, sdk: str) -> Flush:
    from opentelemetry.sdk.trace import TracerProvider

    tracing = TracerProvider()  # Langfuse adds its own processor, which batches
    made = importlib.import_module("langfuse").Langfuse
    made(
        public_key="pk-lf-none",
        secret_key="sk-lf-none",
        base_url="http://127.0.0.1:9",
        tracer_provider=tracing,
        span_exporter=exporter(),
        timeout=1,
    )
    importlib.import_module("langfuse.openai")
    return tracing.force_flush


def latscope(client: Any, sdk: str) -> Flush:
    """As it comes: recordings masked, in memory."""
    tool = importlib.import_module("latscope")
    tool.instrument(client)
    return lambda: tool.flush(60)


def latscope_sinks(client: Any, sdk: str) -> Flush:
    """A JSONL file and OpenTelemetry's spans and metrics besides."""
    tool = importlib.import_module("latscope")
    sinks = [tool.JSONLSink(os.path.join(tempfile.mkdtemp(), "calls.jsonl"))]
    flush: Flush = lambda: None  # noqa: E731
    with contextlib.suppress(ImportError):
        sink = importlib.import_module("latscope.export.otel.sink").OTelSink
        tracing, metering, flush = providers()
        sinks.append(sink(tracer_provider=tracing, meter_provider=metering))
    tool.instrument(client, sink=sinks)
    return lambda: (tool.flush(60), flush())


SETUPS: dict[str, Callable[[Any, str], Flush]] = {
    "bare": nothing,
    "latscope": latscope,
    "latscope+sinks": latscope_sinks,
    "otel-genai": otel_genai,
    "langfuse": langfuse,
    "traceloop": traceloop,
    "openinference": openinference,
    "logfire": logfire,
}


def client_of(sdk: str, style: str, port: int) -> Any:
    module = importlib.import_module(sdk)
    name = {"openai": "OpenAI", "anthropic": "Anthropic"}[sdk]
    made = getattr(module, name if style == "sync" else f"Async{name}")
    url = f"http://127.0.0.1:{port}" + ("/v1" if sdk == "openai" else "")
    return made(base_url=url, api_key="none", max_retries=0, timeout=60)


def arguments(sdk: str, model: str) -> dict[str, Any]:
    more = {"stream_options": {"include_usage": True}} if sdk == "openai" else {"max_tokens": 4096}
    return {"model": model, "messages": PROMPT, "stream": True, **more}


def create(client: Any, sdk: str) -> Callable[..., Any]:
    # Looked up at each call: some tools replace the method on its class.
    if sdk == "openai":
        return client.chat.completions.create  # type: ignore[no-any-return]
    return client.messages.create  # type: ignore[no-any-return]


def call(client: Any, sdk: str, model: str) -> int:
    count = 0
    for _ in create(client, sdk)(**arguments(sdk, model)):
        count += 1
    return count


async def acall(client: Any, sdk: str, model: str) -> int:
    count = 0
    async for _ in await create(client, sdk)(**arguments(sdk, model)):
        count += 1
    return count


def measured(make: Callable[[], int], calls: int, flush: Flush) -> dict[str, float]:
    gc.collect()
    process, thread = time.process_time_ns(), time.thread_time_ns()
    chunks = sum(make() for _ in range(calls))
    thread = time.thread_time_ns() - thread
    flush()
    process = time.process_time_ns() - process
    told = {"chunks": chunks, "thread_us": thread / 1e3, "process_us": process / 1e3}
    return {**told, "spans": exported}


def main(tool: str, sdk: str, style: str, port: str) -> None:
    # The anthropic SDK traces by itself as soon as there is a global provider: not measured here.
    os.environ["ANTHROPIC_OPEN_TELEMETRY"] = "false"
    client = client_of(sdk, style, int(port))
    flush = SETUPS[tool](client, sdk)
    loop = asyncio.new_event_loop()
    print("ready", flush=True)
    for line in sys.stdin:
        calls, model = line.split()

        def make(model: str = model) -> int:
            if style == "sync":
                return call(client, sdk, model)
            return loop.run_until_complete(acall(client, sdk, model))

        print(json.dumps(measured(make, int(calls), flush)), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
