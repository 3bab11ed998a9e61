"""Rows of hosted APIs: what stands in their bodies, and in headers that are theirs alone.

They state nothing of their timing: Azure OpenAI (its headers come with the first visible token),
DeepSeek (its keep-alive comments say that a request waits), Mistral, Cohere, Perplexity, Baseten
and Novita. Of some of them a hop's headers tell (`hops`).
"""

from functools import partial

from latscope.protocols.reported.row import Row, beside
from latscope.units import MS, S

_groq = partial(
    Row,
    place="body",
    unit=S,
    source="groq.usage",
    absent="before the last chunk; x_groq.usage of a whole answer is another object, without times",
    evidence="types: groq 1.7.0",
)

GROQ: tuple[Row, ...] = tuple(
    row
    for where in (("usage",), ("x_groq", "usage"))
    for row in (
        _groq(
            where=where,
            field="queue_time",
            covers="queue.engine",
            interval="queued -> taken from the queue",
        ),
        _groq(
            where=where,
            field="prompt_time",
            covers="prefill",
            interval="processing the input tokens",
        ),
        _groq(
            where=where,
            field="completion_time",
            covers="decode",
            interval="generating the output tokens",
        ),
        _groq(
            where=where,
            field="total_time",
            covers="prefill+decode",
            interval="prompt and completion together: the queue is not in it",
            when=beside("prompt_time"),
        ),
    )
)

_cerebras = partial(
    Row,
    source="cerebras.time_info",
    place="body",
    where=("time_info",),
    unit=S,
    absent="before a late chunk",
    evidence="types: cerebras-cloud-sdk 1.91.0; documented",
)

CEREBRAS: tuple[Row, ...] = (
    _cerebras(
        field="queue_time",
        covers="queue.engine",
        interval="queued -> taken from the queue",
    ),
    _cerebras(
        field="prompt_time",
        covers="prefill",
        interval="processing the input tokens",
    ),
    _cerebras(
        field="completion_time",
        covers="decode",
        interval="generating the output tokens",
    ),
    _cerebras(
        field="total_time",
        covers="queue+prefill+decode",
        interval="the server's wall time: more than its parts, the rest is its own overhead",
    ),
)


def _fireworks() -> tuple[Row, ...]:
    body = partial(Row, source="fireworks.perf_metrics", place="body", where=("perf_metrics",))
    header = partial(Row, source="fireworks.headers", place="header")
    return (*_fireworks_rows(body, ""), *_fireworks_rows(header, "fireworks-"))


def _fireworks_rows(base: "partial[Row]", prefix: str) -> tuple[Row, ...]:
    """The same names in both places, in the headers with a prefix."""
    inside = base.keywords["place"] == "body"
    everywhere = (
        "without perf_metrics_in_response; before the chunk with the finish reason"
        if inside
        else "on errors; on streams what is not known when the head leaves"
    )
    row = partial(
        base,
        unit=S,
        kind="text",
        absent=everywhere,
        evidence="types: fireworks-ai 1.2.30; documented; values may be strings",
    )
    dedicated = partial(row, absent="on serverless; " + everywhere)
    return (
        dedicated(
            field=prefix + "tokenizer-queue-duration",
            plus=(prefix + "tokenizer-duration",),
            covers="queue.frontend",
            interval="waiting for the tokenizer, and tokenising",
        ),
        dedicated(
            field=prefix + "prefill-queue-duration",
            covers="queue.engine",
            interval="waiting for prefill",
        ),
        dedicated(
            field=prefix + "prefill-duration",
            covers="prefill",
            interval="prefill",
        ),
        dedicated(
            field=prefix + "generation-queue-duration",
            covers="stated",
            interval="waiting for generation, after prefill: on which side of the first token is"
            " not said",
        ),
        dedicated(
            field=prefix + "generation-duration",
            covers="decode",
            interval="generation",
            streamed=None if inside else False,
        ),
        row(
            field=prefix + "server-time-to-first-token",
            covers="queue+prefill",
            interval="server has the request -> first token",
        ),
        row(
            field=prefix + "server-processing-time",
            covers="queue+prefill+decode",
            interval="server has the request -> last token",
            streamed=None if inside else False,
        ),
    )


FIREWORKS = _fireworks()

_sambanova = partial(
    Row,
    source="sambanova.usage",
    place="body",
    where=("usage",),
    unit=S,
    absent="before the last chunk",
    evidence="types: sambanova 1.13.0",
)

SAMBANOVA: tuple[Row, ...] = (
    _sambanova(
        field="time_to_first_token",
        covers="queue+prefill",
        interval="server has the request -> first token",
        when=beside("total_latency"),
    ),
    _sambanova(
        field="total_latency",
        covers="queue+prefill+decode",
        interval="server has the request -> last token; rates with `_graph` are for display",
        when=beside("time_to_first_token"),
    ),
)

_xai = partial(
    Row,
    source="xai.headers",
    place="header",
    unit=MS,
    kind="text",
    absent="on errors; on streams, whose head leaves too early",
    evidence="users: several clients, 2026; undocumented",
    streamed=False,
)

XAI: tuple[Row, ...] = (
    _xai(
        field="x-metrics-ttft-ms",
        covers="queue+prefill",
        interval="server has the request -> first token",
    ),
    _xai(
        field="x-metrics-e2e-ms",
        covers="queue+prefill+decode",
        interval="server has the request -> last token",
    ),
)

_bedrock = partial(Row, unit=MS, evidence="users: public captures, anthropic-sdk-ruby 110")

BEDROCK: tuple[Row, ...] = (
    _bedrock(
        source="bedrock.metrics",
        place="body",
        where=("amazon-bedrock-invocationMetrics",),
        field="firstByteLatency",
        covers="queue+prefill",
        interval="service has the request -> first byte of the model's stream, which is not after"
        " the first token; a model that opens its stream early is timed to that",
        absent="on Converse; before the last chunk",
    ),
    _bedrock(
        source="bedrock.metrics",
        place="body",
        where=("amazon-bedrock-invocationMetrics",),
        field="invocationLatency",
        covers="queue+prefill+decode",
        interval="service has the request -> last byte of the model's stream",
        absent="on Converse; before the last chunk",
    ),
    _bedrock(
        source="bedrock.converse",
        place="body",
        where=("metrics",),
        field="latencyMs",
        covers="queue+prefill+decode",
        interval="the service's whole time for the call; no first byte is told",
        absent="before the metadata event, the last one",
        evidence="types: botocore 1.44.8",
    ),
    _bedrock(
        source="bedrock.headers",
        place="header",
        field="x-amzn-bedrock-invocation-latency",
        kind="text",
        covers="queue+prefill+decode",
        interval="service has the request -> the whole answer",
        absent="on streams",
        streamed=False,
    ),
)

_together = partial(
    Row,
    source="together.headers",
    place="header",
    unit=1,
    kind="stamp",
    evidence="users: probes of 2026 (RFC 3339 times in milliseconds)",
)

TOGETHER: tuple[Row, ...] = (
    _together(
        field="x-api-call-start",
        minus="x-api-received",
        covers="stated",
        interval="the API has the request -> it calls inference: its gateway, and waiting there;"
        " how much of which is not said",
        absent="on errors",
    ),
    _together(
        field="x-api-call-end",
        minus="x-api-call-start",
        covers="queue+prefill+decode",
        interval="the API calls inference -> the whole answer is back",
        absent="on errors; on streams, whose end is not known when the head leaves",
        streamed=False,
    ),
)

_generation = partial(
    Row,
    source="openrouter.generation",
    place="body",
    where=("data",),
    unit=MS,
    absent="until a little after the call, in GET /api/v1/generation",
    evidence="types: openrouter 1.3.84",
    when=beside("native_tokens_prompt"),
)

OPENROUTER: tuple[Row, ...] = (
    Row(
        source="openrouter.metadata",
        place="body",
        where=("openrouter_metadata",),
        field="generation_time",
        unit=MS,
        covers="stated",
        interval="router calls the provider -> its body ended; with the way between them",
        absent="without the request header X-OpenRouter-Metadata: enabled",
        evidence="types: openrouter 1.3.84",
    ),
    _generation(
        field="moderation_latency",
        covers="network.gateway",
        interval="the router's moderation of the prompt, before it calls the provider",
    ),
    _generation(
        field="generation_time",
        covers="stated",
        interval="generation, with the way between router and provider",
    ),
    _generation(
        field="latency",
        covers="stated",
        interval="documented as total latency, commonly taken for the time to the first token",
    ),
)

ROWS = (*GROQ, *CEREBRAS, *FIREWORKS, *SAMBANOVA, *XAI, *BEDROCK, *TOGETHER, *OPENROUTER)
