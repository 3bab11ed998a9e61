"""Recordings of servers that cannot run here, written by hand in the shapes they document.

    python -m tests.protocols.synthetic_native [--out fixtures/recordings]

Ollama's and LM Studio's native APIs, llama.cpp's prompt progress and pings, DeepSeek's keep-alives.
The times are invented and fit together; each recording says in its tags that it is synthetic and
whose description its shape follows. `test_synthetic_native.py` keeps file and script equal.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from latscope.recording import Recording, to_line
from latscope.units import MS
from tests.calls import Chunk, attempt, call, delta, finish, sse, usage

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"

NDJSON = "application/x-ndjson"
JSON = "application/json; charset=utf-8"
SSE = "text/event-stream"

SOURCES: Mapping[str, str] = {
    "ollama": "ollama/ollama api/types.go and server/routes.go (August 2026);"
    " docs.ollama.com/api/usage",
    "lmstudio": "lmstudio-ai/docs, REST API: chat and streaming events",
    "llama": "ggml-org/llama.cpp pull request 15827 and tools/server/server-context.cpp",
    "deepseek": "api-docs.deepseek.com, rate limit",
}


def recording(
    name: str,
    chunks: Sequence[Chunk],
    *,
    path: str,
    kind: str,
    headers: float,
    server: str = "",
    host: str = "127.0.0.1",
    status: int = 200,
    request: Mapping[str, Any] | None = None,
) -> Recording:
    """A call of one attempt on a new connection; times in ms."""
    engine = name.split("-")[0]
    near = host == "127.0.0.1"
    made = attempt(
        chunks,
        headers=headers,
        kind=kind,
        status=status,
        response_headers=(("server", server),) if server else (),
        peer="127.0.0.1:8000" if near else "203.0.113.7:443",
        rtt_us=40 if near else None,
    )
    made_call = call(made, path=path, host=host, request=request, sdk="synthetic")
    far = replace(made_call.target, scheme="https", port=443)
    return replace(
        made_call,
        target=made_call.target if near else far,
        call_id=f"synthetic-{name}",
        tags={
            "engine": engine,
            "case": name.partition("-")[2],
            "origin": "synthetic",
            "source": SOURCES[engine],
        },
    )


MODEL = "tiny:1b"


def line(at: float, *, done: bool = False, **fields: Any) -> bytes:
    """One line of Ollama's, `at` ms after noon; its stamp is cut to whole milliseconds."""
    stamp = f"2026-11-29T12:00:{at / 1000:09.6f}Z"
    body = {"model": MODEL, "created_at": stamp, **fields, "done": done}
    return json.dumps(body).encode() + b"\n"


def said(content: str = "", **fields: Any) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": content, **fields}}


def ending(total: float, load: float, prompt: float, gen: float, n: int, **more: int) -> Any:
    """What the last line adds; durations in ms, written in ns as Ollama does."""
    return {
        "done_reason": "stop",
        "total_duration": round(total * MS),
        "load_duration": round(load * MS),
        "prompt_eval_count": 26,
        **more,
        "prompt_eval_duration": round(prompt * MS),
        "eval_count": n,
        "eval_duration": round(gen * MS),
    }


CHAT: Mapping[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": {"len": 24}}]}
TOOL = {"function": {"index": 0, "name": "set_lamp", "arguments": {"on": True, "room": "hall"}}}


def ollama_stream() -> list[Chunk]:
    """410 ms load, 80 ms prompt; four tokens of thinking and four of text, 20 ms apart."""
    thought = [said(thinking=text) for text in ("The ", "lamp ", "is ", "on.")]
    spoken = [said(text) for text in ("Yes", ", ", "it ", "is.")]
    chunks: list[Chunk] = []
    for index, body in enumerate(thought + spoken):
        at = 500.0 + 20 * index
        chunks.append((at, line(at, **body)))
    last = ending(640, 410, 80, 141, 8, prompt_eval_cached_count=12)
    return [*chunks, (645.0, line(645, done=True, **said(), **last))]


def ollama_tool() -> list[Chunk]:
    last = ending(330, 12, 80, 230, 12)
    return [
        (330.0, line(330, **said(tool_calls=[TOOL]))),
        (335.0, line(335, done=True, **said(), **last)),
    ]


def ollama_generate() -> list[Chunk]:
    texts = ("A ", "generator ", "yields.")
    chunks = [(100.0 + 20 * i, line(100 + 20 * i, response=text)) for i, text in enumerate(texts)]
    last = ending(144, 10, 80, 41, 3, prompt_eval_cached_count=0)
    tail = line(145, done=True, response="", context=[1, 2, 3], **last)
    return [*chunks, (145.0, tail)]


def ollama() -> Iterator[Recording]:
    chat: Any = {"path": "/api/chat", "request": CHAT}
    yield recording("ollama-chat-stream", ollama_stream(), kind=NDJSON, headers=499.8, **chat)
    yield recording("ollama-chat_tool-stream", ollama_tool(), kind=NDJSON, headers=329.8, **chat)
    body = line(640, done=True, **said("Yes.", thinking="On."), **ending(632, 410, 80, 140, 8))
    whole = [(640.0, body.removesuffix(b"\n"))]
    chat["request"] = {**CHAT, "stream": False}
    yield recording("ollama-chat-body", whole, kind=JSON, headers=639.9, **chat)
    failed = [(6.0, b'{"error":"model \'tiny:2b\' not found"}')]
    yield recording("ollama-chat-error", failed, kind=JSON, headers=5.9, status=404, **chat)
    prompt = {"model": MODEL, "prompt": {"len": 14}}
    yield recording(
        "ollama-generate-stream",
        ollama_generate(),
        path="/api/generate",
        kind=NDJSON,
        headers=99.8,
        request=prompt,
    )


INSTANCE = "lab/tiny-1b"
PROVIDER = {"type": "plugin", "plugin_id": "mcp/lamps"}


def told(name: str, **fields: Any) -> bytes:
    return sse({"type": name, **fields}, name)


def result(output: list[Any], **stats: float) -> dict[str, Any]:
    return {
        "model_instance_id": INSTANCE,
        "output": output,
        "stats": {"input_tokens": 26, **stats},
        "response_id": "resp_02b2017dbc06c12bfc353a2ed6c2b802",
    }


def lmstudio_stream() -> list[Chunk]:
    """Loaded from 10 to 410 ms, prompt from 420 to 500; eight tokens, 20 ms apart."""
    chunks: list[Chunk] = [
        (6, told("chat.start", model_instance_id=INSTANCE)),
        (10, told("model_load.start", model_instance_id=INSTANCE)),
        (210, told("model_load.progress", model_instance_id=INSTANCE, progress=0.5)),
        (410, told("model_load.end", model_instance_id=INSTANCE, load_time_seconds=0.4)),
        (420, told("prompt_processing.start")),
        (460, told("prompt_processing.progress", progress=0.5)),
        (500, told("prompt_processing.end")),
        (501, told("reasoning.start")),
    ]
    for index, text in enumerate(("The ", "lamp ", "is ", "on.")):
        chunks.append((502.0 + 20 * index, told("reasoning.delta", content=text)))
    chunks.append((581, told("reasoning.end") + told("message.start")))
    for index, text in enumerate(("Yes", ", ", "it ", "is.")):
        chunks.append((582.0 + 20 * index, told("message.delta", content=text)))
    output = [
        {"type": "reasoning", "content": "The lamp is on."},
        {"type": "message", "content": "Yes, it is."},
    ]
    stats = {
        "total_output_tokens": 8,
        "reasoning_output_tokens": 4,
        "tokens_per_second": 50.0,
        "time_to_first_token_seconds": 0.081,
        "model_load_time_seconds": 0.4,
    }
    end = told("message.end") + told("chat.end", result=result(output, **stats))
    return [*chunks, (645, end)]


def lmstudio_tool() -> list[Chunk]:
    """A tool call LM Studio makes itself, and the second prompt that follows it."""
    asked = {"tool": "set_lamp", "arguments": {"on": True}, "provider_info": PROVIDER}
    answered = '[{"type":"text","text":"on"}]'
    output = [
        {"type": "tool_call", **asked, "output": answered},
        {"type": "message", "content": "It is on."},
    ]
    stats = {
        "total_output_tokens": 14,
        "reasoning_output_tokens": 0,
        "tokens_per_second": 50.0,
        "time_to_first_token_seconds": 0.08,
    }
    return [
        (6, told("chat.start", model_instance_id=INSTANCE)),
        (10, told("prompt_processing.start")),
        (90, told("prompt_processing.end")),
        (91, told("tool_call.start", tool="set_lamp", provider_info=PROVIDER)),
        (251, told("tool_call.arguments", **asked)),
        (300, told("tool_call.success", **asked, output=answered)),
        (301, told("prompt_processing.start")),
        (340, told("prompt_processing.end")),
        (341, told("message.start") + told("message.delta", content="It ")),
        (361, told("message.delta", content="is ")),
        (381, told("message.delta", content="on.")),
        (385, told("message.end") + told("chat.end", result=result(output, **stats))),
    ]


def lmstudio() -> Iterator[Recording]:
    asked = {"model": INSTANCE, "input": {"len": 24}, "stream": True}
    chat: Any = {"path": "/api/v1/chat", "request": asked}
    yield recording("lmstudio-chat-stream", lmstudio_stream(), kind=SSE, headers=5.8, **chat)
    yield recording("lmstudio-chat_tool-stream", lmstudio_tool(), kind=SSE, headers=5.8, **chat)
    stats = {
        "total_output_tokens": 4,
        "reasoning_output_tokens": 0,
        "tokens_per_second": 50.0,
        "time_to_first_token_seconds": 0.08,
    }
    body = result([{"type": "message", "content": "Yes, it is."}], **stats)
    whole = [(150.0, json.dumps(body).encode())]
    chat["request"] = {**asked, "stream": False}
    yield recording("lmstudio-chat-body", whole, kind=JSON, headers=149.9, **chat)
    error = {"type": "invalid_request", "message": '"model" is required'}
    failed = [(6.0, json.dumps({"error": error}).encode())]
    yield recording("lmstudio-chat-error", failed, kind=JSON, headers=5.9, status=400, **chat)


def progress(processed: int, time_ms: int) -> bytes:
    """What llama.cpp sends with return_progress: a chunk whose only news is the progress."""
    told = {"total": 900, "cache": 100, "processed": processed, "time_ms": time_ms}
    choice = {"index": 0, "finish_reason": None, "delta": {"role": "assistant", "content": None}}
    chunk = {"object": "chat.completion.chunk", "model": "tiny", "choices": [choice]}
    return sse({**chunk, "prompt_progress": told})


def llama() -> Iterator[Recording]:
    """300 ms until a slot is free, 400 ms prompt in three batches, a ping between two of them."""
    chunks = [
        (300.0, progress(100, 0)),
        (430.0, progress(400, 130)),
        (500.0, b":\n\n"),
        (570.0, progress(700, 270)),
        (700.0, progress(900, 400)),
        *((701.0 + 20 * index, delta(f"t{index} ")) for index in range(4)),
        (763.0, finish("length")),
    ]
    timings = {
        "cache_n": 100,
        "prompt_n": 800,
        "prompt_ms": 400.2,
        "predicted_n": 4,
        "predicted_ms": 60.5,
    }
    tail = usage(4, prompt=900, details={"prompt_tokens_details": {"cached_tokens": 100}})
    data = json.loads(tail.removeprefix(b"data: "))
    chunks.append((764.0, sse({**data, "timings": timings}) + b"data: [DONE]\n\n"))
    yield recording(
        "llama-chat_progress-stream",
        chunks,
        path="/v1/chat/completions",
        kind=SSE,
        headers=300.0,
        server="llama.cpp",
        request={"model": "tiny", "stream": True, "return_progress": True},
    )


def deepseek() -> Iterator[Recording]:
    """Three keep-alives in 3.1 s before the answer starts, one more within it."""
    chunks = [
        *((at, b": keep-alive\n\n") for at in (1050.0, 2050.0, 3050.0)),
        (3900.0, delta(role="assistant", content="")),
        (3900.5, delta("Yes")),
        (3920.0, delta(", ")),
        (4500.0, b": keep-alive\n\n"),
        (4920.0, delta("it is.")),
        (4921.0, finish() + usage(3, details={"prompt_cache_hit_tokens": 0})),
        (4921.5, b"data: [DONE]\n\n"),
    ]
    yield recording(
        "deepseek-chat_keepalive-stream",
        chunks,
        path="/v1/chat/completions",
        kind=SSE,
        headers=50.0,
        host="api.deepseek.com",
        request={"model": "deepseek-chat", "stream": True},
    )


def recordings() -> Iterator[Recording]:
    for made in (ollama, lmstudio, llama, deepseek):
        yield from made()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER)
    folder = parser.parse_args().out
    for made in recordings():
        (folder / f"{made.call_id}.jsonl").write_text(to_line(made) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
