"""What would split a piece that could not be split: the evidence, by target and by shape."""

from latscope.attribution.model import Mode, Segment
from latscope.timeline import Timeline

VLLM_FIRST = {"chat": "0.25.0", "completions": "0.25.0", "responses": "0.31.0"}
"""First vLLM release whose --enable-per-request-metrics covers the API (read in the releases)."""

RECORD = "record about 50 calls of mixed prompt length: explain learns from them"
CALIBRATE = "latscope calibrate, then explain or probe with --profile"


def would_split(timeline: Timeline, mode: Mode, candidates: tuple[Segment, ...]) -> tuple[str, ...]:
    """Ways to tell the candidates apart, surest first."""
    found: list[str] = []
    if timeline.verdict == "complete" and not timeline.streamed:
        found.append("stream this call")
    if {"queue", "prefill"} <= set(candidates):
        found += _server_times(timeline, mode)
    if "network" in candidates:
        found += _path(timeline)
    if "decode" in candidates and timeline.hidden_reasoning:
        found.append("ask for reasoning summaries, or compare with the reasoning effort lowered")
    elif "decode" in candidates and timeline.usage.output_tokens is None and timeline.streamed:
        found.append("ask for usage on the stream (stream_options.include_usage)")
    if {"queue", "prefill"} <= set(candidates):
        found += [RECORD, CALIBRATE]
    return tuple(dict.fromkeys(found))


def engine_of(timeline: Timeline) -> str:
    """The engine the answer names, by its fingerprint or by its server."""
    if (timeline.fingerprint or "").startswith("vllm"):
        return "vllm"
    return timeline.path.server or ""


def _server_times(timeline: Timeline, mode: Mode) -> list[str]:
    """The flag that makes this target report its own times."""
    engine = engine_of(timeline)
    if mode == "vendor":
        return []
    if engine == "llama.cpp":
        return ["ask llama.cpp on chat or completions, where its timings come unasked"]
    first = VLLM_FIRST.get(timeline.api or "")
    if first is None:
        return ["vLLM reports times on chat, completions and responses, not on this API"]
    flag = f"vLLM: --enable-per-request-metrics (from {first})"
    if timeline.streamed and timeline.usage.output_tokens is None and timeline.api != "responses":
        flag += " with usage asked for on the stream"
    return [flag]


def _path(timeline: Timeline) -> list[str]:
    if timeline.path.hops:
        return [f"call the server without the hop ({', '.join(timeline.path.hops[:2])})"]
    return []
