"""Answers as vendors document them, written by hand where no server of theirs runs here. Native
APIs are in `synthetic_native`.

    python -m tests.protocols.synthetic

writes fixtures/recordings/synthetic-*.jsonl. Shapes and field names are those of the source each
recording names in its tags; texts are fillers; times are made up so that the client's clock and
the server's figures agree: the server has the request at 35 ms, one way is 10 ms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from latscope.recording import Clock, Recording, Target, to_line
from tests.calls import Chunk, attempt, call, sse
from tests.protocols.synthetic_shapes import COUNTS, FIRST, LAST, SENT, chat, messages, whole

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """name: of the file, after `synthetic-`. source: where the shape is documented. chunks: what
    came when; head: when the response head did."""

    name: str
    host: str
    path: str = "/v1/chat/completions"
    source: str
    headers: Headers = ()
    chunks: Sequence[Chunk]
    head: float = 45.0

    @property
    def streamed(self) -> bool:
        return self.name.endswith("-stream")


GROQ = {**COUNTS, "queue_time": 0.012, "prompt_time": 0.03, "completion_time": 0.04}
GROQ["total_time"] = 0.07

FIREWORKS = {"prompt-tokens": "12", "cached-prompt-tokens": "0", "backend-host": "gpu-7"}
DEDICATED = {
    "tokenizer-queue-duration": "0.0004",
    "tokenizer-duration": "0.0006",
    "prefill-queue-duration": "0.011",
    "prefill-duration": "0.029",
    "generation-queue-duration": "0.0002",
    "generation-duration": "0.040",
    "server-time-to-first-token": "0.042",
    "server-processing-time": "0.082",
}

SAMBANOVA = {
    **COUNTS,
    "time_to_first_token": 0.042,
    "total_latency": 0.082,
    "start_time": 1795971377.01,
    "end_time": 1795971377.09,
    "completion_tokens_per_sec": 60.9,
    "is_last_response": True,
}

SGLANG = {
    "id": "5f1c0a",
    "finish_reason": {"type": "stop", "matched": 2},
    "prompt_tokens": 12,
    "completion_tokens": 5,
    "cached_tokens": 0,
    "num_retractions": 0,
    "queue_time": 0.011,
    "forward_entry_time": 1795971377.02,
    "prefill_finished_time": 1795971377.049,
    "first_token_latency": 0.042,
    "e2e_latency": 0.082,
    "decode_throughput": 125.0,
}


def milestone(event: str, at: int) -> Chunk:
    """A debug chunk of OpenRouter's: its clock started at 35 ms of ours."""
    timings = {"event": event, "start_ms": at, "epoch_ms": 1795971377000 + at}
    chunk = {"id": "gen-1", "object": "chat.completion.chunk", "choices": []}
    return 45.0 + at, sse({**chunk, "debug": {"timings": timings}})


CASES: tuple[Case, ...] = (
    Case(
        name="groq-chat-stream",
        host="api.groq.com",
        path="/openai/v1/chat/completions",
        source="groq 1.7.0 types: x_groq.usage",
        headers=[("x-groq-region", "us-west-1"), ("server", "cloudflare"), ("cf-ray", "9c-ZRH")],
        chunks=chat(model="llama", finish={"x_groq": {"id": "req_1", "usage": GROQ}}),
    ),
    Case(
        name="cerebras-chat-stream",
        host="api.cerebras.ai",
        source="cerebras-cloud-sdk 1.91.0 types: time_info",
        chunks=chat(
            model="llama",
            usage={
                "usage": COUNTS,
                "time_info": {
                    "queue_time": 0.0115,
                    "prompt_time": 0.03,
                    "completion_time": 0.04,
                    "total_time": 0.083,
                    "created": 1795971377,
                },
            },
        ),
    ),
    Case(
        name="fireworks-chat_dedicated-stream",
        host="api.fireworks.ai",
        path="/inference/v1/chat/completions",
        source="fireworks-ai 1.2.30 types and docs: perf_metrics_in_response, dedicated",
        headers=[("fireworks-server-time-to-first-token", "0.042")],
        chunks=chat(
            model="llama", finish={"usage": COUNTS, "perf_metrics": {**FIREWORKS, **DEDICATED}}
        ),
        head=FIRST,
    ),
    Case(
        name="fireworks-chat_serverless-stream",
        host="api.fireworks.ai",
        path="/inference/v1/chat/completions",
        source="fireworks-ai 1.2.30 types and docs: perf_metrics_in_response, serverless",
        headers=[("fireworks-server-time-to-first-token", "0.042")],
        chunks=chat(
            model="llama",
            finish={
                "usage": COUNTS,
                "perf_metrics": {
                    **FIREWORKS,
                    "server-time-to-first-token": "0.042",
                    "server-processing-time": "0.082",
                },
            },
        ),
        head=FIRST,
    ),
    Case(
        name="sambanova-chat-stream",
        host="api.sambanova.ai",
        source="sambanova 1.13.0 types: usage",
        chunks=chat(model="llama", usage={"usage": SAMBANOVA}),
    ),
    Case(
        name="xai-chat-body",
        host="api.x.ai",
        source="headers in public clients, 2026",
        headers=[
            ("x-metrics-ttft-ms", "41.7"),
            ("x-metrics-mean-itl-ms", "10.0"),
            ("x-metrics-e2e-ms", "81.9"),
        ],
        chunks=whole(model="grok"),
        head=LAST,
    ),
    Case(
        name="together-chat-body",
        host="api.together.xyz",
        source="headers in public probes, 2026",
        headers=[
            ("x-api-received", "2026-11-29T12:00:00.035Z"),
            ("x-api-call-start", "2026-11-29T12:00:00.038Z"),
            ("x-api-call-end", "2026-11-29T12:00:00.116Z"),
            ("x-cluster", "c1"),
        ],
        chunks=whole(model="llama"),
        head=LAST,
    ),
    Case(
        name="openrouter-chat-stream",
        host="openrouter.ai",
        path="/api/v1/chat/completions",
        source="openrouter 1.3.84 types: debug timings, openrouter_metadata; docs: comments",
        headers=[("x-generation-id", "gen-1"), ("server", "cloudflare")],
        chunks=chat(
            model="llama",
            waiting=[
                (46.0, b": OPENROUTER PROCESSING\n\n"),
                milestone("adapter_request", 4),
                milestone("upstream_headers_received", 30),
                milestone("first_token_received", 42),
            ],
            usage={
                "usage": COUNTS,
                "provider": "Example",
                "openrouter_metadata": {"attempt": 1, "generation_time": 76},
            },
            after=[(LAST, milestone("upstream_body_ended", 80)[1])],
        ),
    ),
    Case(
        name="dynamo-chat-stream",
        host="10.0.0.7",
        source="Dynamo protocols/openai/nvext.rs and common/timing.rs",
        chunks=chat(
            model="llama",
            finish={
                "nvext": {
                    "timing": {
                        "request_received_ms": 1795971377000,
                        "prefill_wait_time_ms": 2.5,
                        "prefill_time_ms": 39.5,
                        "ttft_ms": 42.0,
                        "total_time_ms": 82.0,
                        "kv_hit_rate": 0.25,
                    }
                }
            },
        ),
    ),
    Case(
        name="sglang-chat_meta_info-body",
        host="10.0.0.7",
        source="SGLang 0.5.23: return_meta_info with --enable-metrics",
        headers=[("server", "uvicorn")],
        chunks=whole(model="llama", choice={"meta_info": SGLANG}),
        head=LAST,
    ),
    Case(
        name="tgi-chat-body",
        host="10.0.0.7",
        source="text-generation-inference router/src/server.rs",
        headers=[
            ("x-compute-type", "gpu+optimized"),
            ("x-compute-time", "0.082471"),
            ("x-compute-characters", "31"),
            ("x-total-time", "82"),
            ("x-validation-time", "0"),
            ("x-queue-time", "11"),
            ("x-inference-time", "70"),
            ("x-time-per-token", "14"),
        ],
        chunks=whole(model="llama"),
        head=LAST,
    ),
    Case(
        name="bedrock-messages-stream",
        host="gateway.example",
        path="/v1/messages",
        source="Bedrock invocationMetrics in public captures; events as the Anthropic SDK decodes"
        " them from the event stream",
        chunks=messages(
            "anthropic.claude",
            stop={
                "amazon-bedrock-invocationMetrics": {
                    "inputTokenCount": 12,
                    "outputTokenCount": 5,
                    "invocationLatency": 82,
                    "firstByteLatency": 42,
                }
            },
        ),
    ),
    Case(
        name="anthropic-messages-stream",
        host="api.anthropic.com",
        path="/v1/messages",
        source="headers in public captures, 2026",
        headers=[
            ("request-id", "req_1"),
            ("x-envoy-upstream-service-time", "39"),
            ("server-timing", "x-originResponse;dur=42"),
            ("server", "cloudflare"),
            ("cf-ray", "9c-ZRH"),
        ],
        chunks=messages("claude"),
        head=FIRST,
    ),
    Case(
        name="openai-chat-stream",
        host="api.openai.com",
        source="OpenAI's documented headers; on streams in public recordings",
        headers=[
            ("openai-processing-ms", "38"),
            ("openai-version", "2020-10-01"),
            ("server", "cloudflare"),
            ("cf-ray", "9c-ZRH"),
        ],
        chunks=chat(model="gpt", usage={"usage": COUNTS}),
        head=FIRST,
    ),
    Case(
        name="litellm-chat-stream",
        host="10.0.0.8",
        source="LiteLLM 1.110.2 response headers; OpenAI behind it",
        headers=[
            ("server", "uvicorn"),
            ("x-litellm-call-id", "c-1"),
            ("x-litellm-response-duration-ms", "51.25"),
            ("x-litellm-overhead-duration-ms", "3.25"),
            ("llm_provider-openai-processing-ms", "38"),
        ],
        chunks=chat(model="gpt", usage={"usage": COUNTS}),
        head=FIRST,
    ),
    Case(
        name="litellm-chat_cached-stream",
        host="10.0.0.8",
        source="LiteLLM 1.110.2 response headers; Groq's answer of an earlier call, from its cache",
        headers=[
            ("server", "uvicorn"),
            ("x-litellm-cache-key", "586bf3f3c1bf5aec"),
            ("x-litellm-response-duration-ms", "4.5"),
            ("llm_provider-x-groq-region", "us-west-1"),
        ],
        chunks=chat(model="llama", usage={"usage": GROQ}),
    ),
    Case(
        name="mistral-chat-stream",
        host="api.mistral.ai",
        source="headers in public captures: Kong and Envoy",
        headers=[
            ("mistral-correlation-id", "m-1"),
            ("x-kong-request-id", "k-1"),
            ("x-kong-proxy-latency", "3"),
            ("x-kong-upstream-latency", "39"),
            ("x-envoy-upstream-service-time", "37"),
            ("server", "cloudflare"),
        ],
        chunks=chat(model="mistral", finish={"usage": COUNTS}),
        head=FIRST,
    ),
    Case(
        name="gemini-chat-stream",
        host="generativelanguage.googleapis.com",
        path="/v1beta/openai/chat/completions",
        source="headers in public captures; gfet4t7 by Cloud Spanner's documentation",
        headers=[("server", "scaffolding on HTTPServer2"), ("server-timing", "gfet4t7; dur=42")],
        chunks=chat(model="gemini", finish={"usage": COUNTS}),
        head=FIRST,
    ),
)


def recording(case: Case) -> Recording:
    kind = "text/event-stream" if case.streamed else "application/json"
    engine, _, rest = case.name.partition("-")
    made = call(
        attempt(
            case.chunks,
            sent=SENT,
            headers=case.head,
            kind=kind,
            response_headers=case.headers,
            rtt_us=20_000,
            peer="203.0.113.7:443",
        ),
        request={"model": "m", "stream": case.streamed, "max_tokens": 32},
    )
    return replace(
        made,
        call_id=f"synthetic-{case.name}",
        target=Target(scheme="https", host=case.host, port=443, path=case.path),
        tags={"engine": engine, "case": rest, "origin": "synthetic", "source": case.source},
        clock=Clock(name="synthetic", zero_ns=0),
    )


def main() -> None:
    for case in CASES:
        path = FOLDER / f"synthetic-{case.name}.jsonl"
        path.write_text(to_line(recording(case)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
