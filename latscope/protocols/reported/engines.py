"""Rows of the engines people run themselves: what stands in their bodies and response headers.

NVIDIA NIM writes `stats` too; what its documentation names is here, any other name claims nothing.
Ollama's OpenAI-compatible API, LM Studio's, and llama.cpp's Responses body state no times.
"""

from functools import partial

from latscope.protocols.reported.row import Row, alike, at_least, at_most, beside
from latscope.units import MS, US, S

_vllm = partial(
    Row,
    source="vllm.metrics",
    place="body",
    where=("metrics",),
    unit=MS,
    absent="without --enable-per-request-metrics; on a chat or completions stream without usage;"
    " for n > 1 or several prompts; on /v1/messages; on a stream cut before its end",
    evidence="measured and source: vLLM 0.32.0, entrypoints/generate/base",
)
_llama = partial(
    Row,
    source="llama.timings",
    place="body",
    where=("timings",),
    unit=MS,
    resolution=US,
    absent="on a stream cut before its end; on /v1/messages; on a Responses body",
    evidence="measured and source: llama.cpp b11434, tools/server (microsecond stamps, in ms)",
)
_sglang = partial(
    Row,
    source="sglang.meta_info",
    place="body",
    where=("meta_info",),
    unit=S,
    absent="without --enable-metrics; on OpenAI streams (return_meta_info is for whole answers);"
    " before the last item",
    evidence="source: SGLang 0.5.23, observability/req_time_stats.py",
)

VLLM: tuple[Row, ...] = (
    _vllm(
        field="queue_time_ms",
        covers="queue.engine",
        interval="engine core has drained its input queue -> first scheduled; without HTTP,"
        " templating and tokenising, without the wait for the step running then; with the fetch"
        " of a remote KV cache",
    ),
    _vllm(
        field="time_to_first_token_ms",
        covers="prefill",
        interval="first scheduled -> first token: prefill, in spite of its name; with preemption",
    ),
    _vllm(
        field="generation_time_ms",
        covers="decode",
        interval="first token -> last token; with preemption; zero for one token",
    ),
)

LLAMA: tuple[Row, ...] = (
    _llama(
        field="prompt_ms",
        covers="prefill",
        interval="slot starts the prompt -> its last batch is evaluated, which is when the first"
        " token is sampled; the wait for a slot is in no field",
    ),
    _llama(
        field="predicted_ms",
        covers="decode",
        interval="first token -> last token (predicted_n - 1 steps: the first token comes out of"
        " the prompt's last batch); for one token a floor of 1 us, not a time",
        when=at_least("predicted_n", 2),
    ),
    # Whole ms, so `timings` of the same answer are preferred: it serves streams that were cut.
    Row(
        source="llama.prompt_progress",
        place="body",
        where=("prompt_progress",),
        field="time_ms",
        unit=MS,
        covers="prefill",
        interval="slot starts the prompt -> its last batch is evaluated (the chunk in which"
        " processed equals total; an earlier one times a part of the prompt only)",
        absent="without return_progress; on whole answers; some builds of 2025 wrote a clock"
        " reading, which no call's time can hold",
        evidence="source: llama.cpp b11434, tools/server; users",
        when=alike("processed", "total"),
    ),
)

SGLANG: tuple[Row, ...] = (
    _sglang(
        field="queue_time",
        covers="queue.engine",
        interval="enters the scheduler's waiting queue -> first forward batch; after a retraction"
        " it holds later stays too, so it counts only without one",
        when=at_most("num_retractions", 0),
    ),
    _sglang(
        field="prefill_finished_time",
        minus="forward_entry_time",
        covers="prefill",
        interval="enters its first forward batch -> the prompt's last chunk is done; two wall-clock"
        " stamps of one host",
        resolution=US,
        when=at_most("num_retractions", 0),
    ),
    _sglang(
        field="first_token_latency",
        covers="queue+prefill",
        interval="API process has the request -> its first output is back there (stream) or the"
        " scheduler's prefill ends (whole answer)",
    ),
    _sglang(
        field="e2e_latency",
        covers="queue+prefill+decode",
        interval="API process has the request -> it has seen the finish",
        absent="before the last item",
    ),
)

_ollama = partial(
    Row,
    source="ollama",
    place="body",
    unit=1,
    absent="before the line with done:true; on the OpenAI-compatible API",
    evidence="source: Ollama, server/routes.go and llm/llama_server.go, August 2026",
)

OLLAMA: tuple[Row, ...] = (
    _ollama(
        field="load_duration",
        covers="queue.frontend",
        interval="handler starts -> a runner is had: the wait in the scheduler and loading the"
        " model, told as one",
    ),
    _ollama(
        field="prompt_eval_duration",
        covers="prefill",
        interval="the inner server's slot starts the prompt -> it is evaluated; uncached tokens"
        " only",
        resolution=US,
    ),
    _ollama(
        field="eval_duration",
        covers="decode",
        interval="first token -> last token, by the inner server",
        resolution=US,
        when=at_least("eval_count", 2),
    ),
    _ollama(
        field="total_duration",
        covers="queue+prefill+decode",
        interval="handler starts -> the last line is made; what it has above load, prompt and eval"
        " is the inner wait for a slot, templating and handing over",
    ),
)

_lmstudio = partial(
    Row,
    place="body",
    where=("stats",),
    unit=S,
    absent="on the OpenAI-compatible API",
    evidence="documented: lmstudio-ai/docs, REST API",
)

LMSTUDIO: tuple[Row, ...] = (
    _lmstudio(
        source="lmstudio.stats",
        field="time_to_first_token_seconds",
        covers="queue+prefill",
        interval="the model is given the request -> first token; whether a wait is in it is not"
        " said",
    ),
    _lmstudio(
        source="lmstudio.stats",
        field="model_load_time_seconds",
        covers="queue.frontend",
        interval="loading the model for this request",
        absent="when it was loaded; on the OpenAI-compatible API",
    ),
    # The older /api/v0: other names in the same object.
    _lmstudio(
        source="lmstudio.v0",
        field="time_to_first_token",
        covers="queue+prefill",
        interval="the model is given the request -> first token",
        when=beside("generation_time"),
    ),
    _lmstudio(
        source="lmstudio.v0",
        field="generation_time",
        covers="stated",
        interval="generation; whether the prompt is in it is not said",
        when=beside("time_to_first_token"),
    ),
)

_localai = partial(
    Row,
    source="localai.usage",
    place="body",
    where=("usage",),
    unit=MS,
    absent="without the request header Extra-Usage: true; on a stream without usage",
    evidence="users: mudler/LocalAI discussion 11727",
)

LOCALAI: tuple[Row, ...] = (
    _localai(
        field="timing_prompt_processing",
        covers="prefill",
        interval="the backend starts the prompt -> it is evaluated",
    ),
    _localai(
        field="timing_token_generation",
        covers="decode",
        interval="first token -> last token",
        when=at_least("completion_tokens", 2),
    ),
)

_dynamo = partial(
    Row,
    source="dynamo.timing",
    place="body",
    where=("nvext", "timing"),
    unit=MS,
    absent='without nvext.extra_fields: ["timing"]; before the chunk with the finish reason',
    evidence="source: Dynamo, protocols/common/timing.rs and the KV router, 2026",
)

DYNAMO: tuple[Row, ...] = (
    # "prefill start" is stamped by the frontend's router just before it hands the request to a
    # worker (record_prefill_start): the worker's own queue is behind it, not before.
    _dynamo(
        field="prefill_wait_time_ms",
        covers="queue.frontend",
        interval="frontend has the request -> its router hands it to a worker; the worker's own"
        " queue comes after",
        absent="when no prefill start was stamped",
    ),
    _dynamo(
        field="ttft_ms",
        covers="queue+prefill",
        interval="frontend has the request -> first token is back there",
    ),
    _dynamo(
        field="prefill_time_ms",
        covers="stated",
        interval="router hands the request to a worker -> first token is back: the worker's queue,"
        " prefill and, with separate workers, the KV transfer; the end of ttft_ms",
    ),
    _dynamo(
        field="total_time_ms",
        covers="queue+prefill+decode",
        interval="frontend has the request -> the last token is back there",
    ),
)

_nim = partial(
    Row,
    source="nim.stats",
    place="body",
    unit=MS,
    absent="without NIM_PER_REQ_METRICS_ENABLE=1; experimental, NIM for LLMs 1.x",
    evidence="documented: NIM for LLMs 1.14, per-request metrics",
)

NIM: tuple[Row, ...] = (
    _nim(
        where=("stats",),
        field="time_in_queue_in_ms",
        covers="queue.engine",
        interval="waiting in the engine's queue",
        absent="other backends than vLLM; without NIM_PER_REQ_METRICS_ENABLE=1",
    ),
    _nim(
        where=("stats", "response_tokens"),
        field="time_to_first_token_in_ms",
        covers="queue+prefill",
        interval="processing starts -> first token; whether the queue is in it is not said",
    ),
    _nim(
        where=("stats",),
        field="generation_time_in_ms",
        covers="stated",
        interval="all processing by the model; where it starts is not said",
    ),
)

_tgi = partial(
    Row,
    source="tgi.headers",
    place="header",
    unit=MS,
    kind="text",
    zero=True,
    absent="on streams; for a server other than TGI (x-compute-type marks it)",
    evidence="source: text-generation-inference, router/src/server.rs, January 2026; whole"
    " milliseconds, cut not rounded",
    when=beside("x-compute-type"),
)

TGI: tuple[Row, ...] = (
    _tgi(
        field="x-validation-time",
        covers="queue.frontend",
        interval="router has the request -> it is validated and tokenised",
    ),
    _tgi(
        field="x-queue-time",
        covers="queue.engine",
        interval="validated -> its first batch is built",
    ),
    _tgi(
        field="x-inference-time",
        covers="prefill+decode",
        interval="its first batch is built -> last token; prefill is not told apart, and"
        " x-time-per-token averages it in",
    ),
    _tgi(
        field="x-compute-time",
        unit=S,
        zero=False,
        covers="queue+prefill+decode",
        interval="router has the request -> last token",
    ),
    _tgi(
        field="x-total-time",
        covers="queue+prefill+decode",
        interval="router has the request -> last token, in whole milliseconds",
    ),
)

ROWS = (*VLLM, *LLAMA, *SGLANG, *OLLAMA, *LMSTUDIO, *LOCALAI, *DYNAMO, *NIM, *TGI)
