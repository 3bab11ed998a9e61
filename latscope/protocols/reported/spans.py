"""Rows of what servers say out of band: OpenTelemetry spans, and TensorRT-LLM's records.

The `gen_ai.latency.*` names are one family with different meanings: vLLM's prefill starts at
scheduling, SGLang's where its API process has handed the request on, so the queue is in it. A
span's own duration stands under the span's name (`prefill_waiting`), in ns.
"""

from functools import partial

from latscope.protocols.reported.row import Row
from latscope.units import US, S

_LATENCY = "gen_ai.latency."

_vllm = partial(
    Row,
    source="vllm.otel",
    place="span",
    kind="text",
    unit=S,
    absent="without --otlp-traces-endpoint; sampled out",
    evidence="source: vLLM 0.32.0, v1/engine/output_processor.py",
)

VLLM: tuple[Row, ...] = (
    _vllm(
        field=_LATENCY + "time_in_queue",
        covers="queue.engine",
        interval="engine core has drained its input queue -> first scheduled",
    ),
    _vllm(
        field=_LATENCY + "time_in_model_prefill",
        covers="prefill",
        interval="first scheduled -> first token",
    ),
    _vllm(
        field=_LATENCY + "time_in_model_decode",
        covers="decode",
        interval="first token -> last token",
    ),
    _vllm(
        field=_LATENCY + "time_to_first_token",
        covers="queue+prefill",
        interval="arrival (the prompt is about to be rendered) -> first token is back at the front"
        " end; the body's field of this name starts at scheduling",
    ),
    _vllm(
        field=_LATENCY + "time_in_model_inference",
        covers="prefill+decode",
        interval="first scheduled -> last token",
    ),
    _vllm(
        field=_LATENCY + "e2e",
        covers="queue+prefill+decode",
        interval="arrival -> the finish is processed",
    ),
)

_sglang = partial(
    Row,
    source="sglang.otel",
    place="span",
    kind="text",
    unit=S,
    absent="without --enable-trace and --otlp-traces-endpoint; sampled out",
    evidence="source: SGLang 0.5.23, observability/req_time_stats.py",
)
# The API process stamps its first output; of a whole answer that comes late, in one of the
# scheduler's batches of outputs, with decode in it.
_whole = "without --enable-trace; on whole answers: their first output comes late"

SGLANG: tuple[Row, ...] = (
    _sglang(
        field=_LATENCY + "time_in_queue",
        covers="queue.engine",
        interval="enters the scheduler's waiting queue -> first forward batch",
        absent="in the versions read, where the span prefill_waiting says it",
    ),
    _sglang(
        field="prefill_waiting",
        unit=1,
        covers="queue.engine",
        interval="enters the scheduler's waiting queue -> first forward batch (a span of its own)",
    ),
    _sglang(
        field="prefill_forward",
        unit=1,
        covers="prefill",
        interval="first forward batch -> the prompt is done (a span of its own; a second one, after"
        " a retraction, makes neither count)",
    ),
    _sglang(
        field=_LATENCY + "time_to_first_token",
        covers="queue+prefill",
        interval="API process has the request -> its first output is back there",
        absent=_whole,
        streamed=True,
    ),
    _sglang(
        field=_LATENCY + "time_to_first_token",
        minus=_LATENCY + "time_in_model_prefill",
        covers="queue.frontend",
        interval="API process has the request -> it has handed it to the scheduler",
    ),
    _sglang(
        field=_LATENCY + "time_in_model_prefill",
        covers="stated",
        interval="handed to the scheduler -> first output is back: it contains the queue, unlike"
        " vLLM's of the same name; the end of time_to_first_token",
        absent=_whole,
        streamed=True,
    ),
    _sglang(
        field=_LATENCY + "time_in_model_decode",
        covers="decode",
        interval="first output is back at the API process -> the finish is",
        absent=_whole,
        streamed=True,
    ),
    _sglang(
        field=_LATENCY + "time_in_model_inference",
        covers="stated",
        interval="handed to the scheduler -> the finish is back: it contains the queue",
    ),
    _sglang(
        field=_LATENCY + "e2e",
        covers="queue+prefill+decode",
        interval="API process has the request -> the finish is back",
    ),
)

_trtllm = partial(
    Row,
    source="trtllm.otel",
    place="span",
    kind="text",
    unit=S,
    absent="without tracing; sampled out",
    evidence="users: TensorRT-LLM pull request 5897",
)

TRTLLM: tuple[Row, ...] = (
    _trtllm(
        field=_LATENCY + "time_in_queue",
        covers="queue.engine",
        interval="arrival at the executor -> first scheduled",
    ),
    _trtllm(
        field=_LATENCY + "time_to_first_token",
        covers="queue+prefill",
        interval="arrival -> first token",
    ),
    _trtllm(
        field=_LATENCY + "e2e",
        covers="queue+prefill+decode",
        interval="arrival -> last token",
    ),
)

_record = partial(
    Row,
    source="trtllm.record",
    place="record",
    unit=S,
    resolution=US,
    absent="without return_perf_metrics; read once, then gone",
    evidence="source: TensorRT-LLM, serve/_perf_metrics_schema.py; stamps of one steady clock",
)
_ENGINE = ("perf_metrics", "timing_metrics")
_CONTEXT = ("ctx_perf_metrics", *_ENGINE)
_GENERATION = ("gen_perf_metrics", *_ENGINE)

RECORDS: tuple[Row, ...] = (
    *(
        _record(
            where=where,
            field="first_scheduled_time",
            minus="arrival_time",
            covers="queue.engine",
            interval="arrival at the executor -> first scheduled",
        )
        for where in (_ENGINE, _CONTEXT)
    ),
    *(
        _record(
            where=where,
            field="first_token_time",
            minus="first_scheduled_time",
            covers="prefill",
            interval="first scheduled -> first token",
        )
        for where in (_ENGINE, _CONTEXT)
    ),
    _record(
        where=_ENGINE,
        field="last_token_time",
        minus="first_token_time",
        covers="decode",
        interval="first token -> last token",
    ),
    _record(
        where=_GENERATION,
        field="last_token_time",
        minus="first_token_time",
        covers="stated",
        interval="first token of the generation server, the call's second -> last token",
    ),
    _record(
        where=_ENGINE,
        field="server_first_token_time",
        minus="server_arrival_time",
        covers="queue+prefill",
        interval="HTTP server has the request -> its first token is back there",
    ),
    _record(
        where=(),
        field="disagg_server_first_token_time",
        minus="disagg_server_arrival_time",
        covers="queue+prefill",
        interval="the server in front of context and generation servers has the request -> first"
        " token is back there",
    ),
    _record(
        where=_GENERATION,
        field="kv_cache_transfer_end",
        minus="kv_cache_transfer_start",
        covers="stated",
        interval="the KV cache passes from the context to the generation server",
    ),
)

ROWS = (*VLLM, *SGLANG, *TRTLLM)
