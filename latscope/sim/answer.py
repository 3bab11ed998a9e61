"""What the server says in an answer: ids, usage, its own timings. No clock; stamps come in."""

import json
from collections.abc import Mapping, Sequence

from latscope.protocols.dialect import Api, Channel, Piece
from latscope.protocols.events import Usage
from latscope.sim.engine import Token
from latscope.sim.stamps import Stamps
from latscope.units import MS, US, Ns, S

ID_PREFIX: Mapping[Api, str] = {
    "chat": "chatcmpl-",
    "completions": "cmpl-",
    "responses": "resp_",
    "messages": "msg_",
}

FAILURES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}
"""Error types by status; any other failure is a `server_error`."""


def pieces(api: Api, tokens: Sequence[Token]) -> list[Piece]:
    """Tokens as an encoder writes them, one piece for each run of a channel; hidden ones are never
    written. Legacy completions know one channel only: there reasoning is plain text."""
    found: list[Piece] = []
    for token in tokens:
        if token.channel == "hidden":
            continue
        plain: Channel = "content" if api == "completions" else token.channel
        if found and found[-1].channel == plain:
            found[-1] = Piece(channel=plain, text=found[-1].text + token.text)
        else:
            found.append(Piece(channel=plain, text=token.text))
    return found


def usage(stamps: Stamps) -> Usage:
    """Counts of what was really generated so far."""
    reasoning = min(len(stamps.tokens), stamps.hidden_tokens + stamps.reasoning_tokens)
    return Usage(
        input_tokens=stamps.prompt_tokens,
        cached_tokens=stamps.cached_tokens,
        output_tokens=len(stamps.tokens),
        reasoning_tokens=reasoning if stamps.hidden_tokens or stamps.reasoning_tokens else None,
    )


def vllm_metrics(stamps: Stamps) -> dict[str, float | None]:
    """vLLM's per-request `metrics` from what happened: queued -> scheduled, scheduled -> first
    token (which it calls time to first token), first -> last token. Milliseconds, to the ns."""
    queued, scheduled, first, last = _spans(stamps)
    steps = len(stamps.tokens) - 1
    return {
        "queue_time_ms": (scheduled - queued) / MS,
        "time_to_first_token_ms": (first - scheduled) / MS,
        "generation_time_ms": (last - first) / MS,
        "mean_itl_ms": (last - first) / MS / steps if steps else None,
        "tokens_per_second": len(stamps.tokens) * S / max(last - scheduled, 1),
    }


def llama_timings(stamps: Stamps) -> dict[str, float]:
    """llama.cpp's `timings`: like it, whole microseconds printed as milliseconds, without the wait
    for a slot; a single token's `predicted_ms` is its floor of 1 us."""
    _, scheduled, first, last = _spans(stamps)
    prompt_n = max(stamps.prompt_tokens - stamps.cached_tokens, 1)
    predicted_n = len(stamps.tokens)
    prompt_ms = round((first - scheduled) / US) / 1000
    predicted_ms = max(round((last - first) / US), 1) / 1000
    return {
        "cache_n": stamps.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / prompt_n,
        "prompt_per_second": 1000 * prompt_n / max(prompt_ms, 0.001),
        "predicted_n": predicted_n,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / predicted_n,
        "predicted_per_second": 1000 * predicted_n / predicted_ms,
    }


def with_timings(written: bytes, timings: Mapping[str, float]) -> bytes:
    """`timings` added at the top of the last SSE event, or of the body, where llama.cpp does."""
    head, mark, last = written.rpartition(b"data: ")
    chunk = json.loads(last)
    tail = b"\n\n" if mark else b""
    text = json.dumps({**chunk, "timings": timings}, separators=(",", ":"), ensure_ascii=False)
    return head + mark + text.encode() + tail


def _spans(stamps: Stamps) -> tuple[Ns, Ns, Ns, Ns]:
    """queued, scheduled, first and last token of an answer that came to its end."""
    queued, scheduled = stamps.queued_ns, stamps.scheduled_ns
    first, last = stamps.first_token_ns, stamps.last_token_ns
    assert queued is not None
    assert scheduled is not None
    assert first is not None
    assert last is not None
    return queued, scheduled, first, last
