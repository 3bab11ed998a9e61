"""Law 7: a recording written by default holds none of what was said, wherever it was said."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from latscope.protocols.mask import mask
from latscope.recording import Attempt, End, Read, Recording, Target, to_line


class Canaries:
    """Hands out strings and numbers nobody else would write, and remembers them."""

    def __init__(self) -> None:
        self.out: list[str] = []

    def word(self) -> str:
        """A string of 20 characters that also passes for an identifier."""
        return self._new(f"canary-{len(self.out):02d}-feathers")

    def number(self) -> int:
        """A number of 14 digits."""
        return int(self._new(f"7731942806{len(self.out):04d}"))

    def byte_array(self) -> list[int]:
        """The bytes of a canary, as logprobs spell tokens; remembered as they would be written."""
        spelled = list(f"cAnArY{len(self.out):02d}BYTES".encode())
        self._new(",".join(map(str, spelled)))
        return spelled

    def _new(self, text: str) -> str:
        self.out.append(text)
        return text


def chat_stream(c: Canaries) -> bytes:
    logprobs = {
        "content": [
            {
                "token": c.word(),
                "bytes": c.byte_array(),
                "logprob": -0.25,
                "top_logprobs": [{"token": c.word(), "bytes": c.byte_array(), "logprob": -1}],
            }
        ],
        "refusal": [{"token": c.word()}],
    }
    function = {"name": c.word(), "arguments": json.dumps({c.word(): c.number()})}
    call = {"index": 0, "id": c.word(), "type": "function", "function": function}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": c.word()},
        {"reasoning_content": c.word(), "reasoning": c.word()},
        {"reasoning_details": [{"type": "reasoning.text", "text": c.word(), "data": c.word()}]},
        {"refusal": c.word()},
        {"tool_calls": [call]},
        {"function_call": {"name": c.word(), "arguments": c.word()}},
        {"audio": {"transcript": c.word(), "data": c.word(), "id": c.word()}},
        {c.word(): c.word(), "new": {c.word(): [c.word(), c.number()], "type": c.word()}},
    ]
    choice = {"index": 0, "logprobs": logprobs, "token_ids": [c.number(), c.number()]}
    chunks: list[dict[str, Any]] = [
        {"id": "chatcmpl-1", "choices": [{**choice, "delta": delta}]} for delta in deltas
    ]
    chunks[0]["prompt_token_ids"] = [c.number()]
    chunks[1]["choices"][0]["stop_reason"] = c.word()
    chunks[2]["obfuscation"] = c.word()
    head = f": {c.word()}\n\nid: {c.word()}\nevent: {c.word()}\n{c.word()}: x\n\n"
    return head.encode() + b"".join(sse(chunk) for chunk in chunks)


def broken_stream(c: Canaries) -> bytes:
    """What is no JSON, and JSON that is cut, spread or nested."""
    spread = json.dumps({"choices": [{"text": c.word()}]}, indent=1).replace("\n", "\r\ndata: ")
    error = {"error": {"message": c.word(), "param": c.word(), "type": "server_error", "code": 5}}
    number = b"data: %d\n\n" % c.number()
    cut = json.dumps({"choices": [{"text": c.word(), "n": c.number()}]})[:-3]
    lines = f"data: {spread}\r\n\r\ndata: {c.word()}\ndata: {c.word()}\n\n".encode()
    return lines + sse(error) + number + f"data: {cut}".encode()


def completions_body(c: Canaries) -> bytes:
    logprobs = {
        "tokens": [c.word()],
        "top_logprobs": [{c.word(): -0.5}],
        "text_offset": [c.number()],
    }
    choice = {"text": c.word(), "logprobs": logprobs, "prompt_logprobs": [{"9": c.word()}]}
    return json.dumps({"choices": [choice], "prompt": c.word(), "embedding": [c.number()]}).encode()


def responses_stream(c: Canaries) -> bytes:
    schema = {"type": "object", "properties": {c.word(): {"description": c.word()}}}
    response = {
        "id": "resp_1",
        "instructions": c.word(),
        "metadata": {c.word(): c.word()},
        "user": c.word(),
        "safety_identifier": c.word(),
        "prompt_cache_key": c.word(),
        "text": {"format": {"type": "json_schema", "name": c.word(), "schema": schema}},
        "tools": [{"type": "function", "name": c.word(), "parameters": schema}],
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": c.word()}]},
            {"type": "function_call", "call_id": c.word(), "arguments": c.word()},
            {"type": "web_search_call", "action": {"query": c.word(), "url": c.word()}},
            {"type": "mcp_call", "server_label": c.word(), "output": c.word(), "error": c.word()},
            {"type": "code_interpreter_call", "code": c.word(), "outputs": [{"logs": c.word()}]},
        ],
        "parsed": {c.word(): c.number()},
    }
    delta = {"type": "response.output_text.delta", "delta": c.word(), "logprobs": [{"t": c.word()}]}
    code = {"type": "response.code_interpreter_call_code.done", "code": c.word()}
    return sse(delta) + sse(code) + sse({"type": "response.completed", "response": response})


def messages_stream(c: Canaries) -> bytes:
    message = {"id": "msg_1", "role": "assistant", "model": "m", "content": []}
    tool = {"type": "tool_use", "id": c.word(), "name": c.word(), "input": {c.word(): c.number()}}
    citation = {"cited_text": c.word(), "document_title": c.word(), "url": c.word()}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": tool},
        *(
            {"type": "content_block_delta", "index": 0, "delta": delta}
            for delta in (
                {"type": "text_delta", "text": c.word()},
                {"type": "thinking_delta", "thinking": c.word()},
                {"type": "signature_delta", "signature": c.word()},
                {"type": "input_json_delta", "partial_json": '{"' + c.word() + '": '},
                {"type": "citations_delta", "citation": citation},
            )
        ),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": c.word()}},
        {"type": "error", "error": {"type": "overloaded_error", "message": c.word()}},
    ]
    return b"".join(sse(event, event["type"]) for event in events)


def ollama_lines(c: Canaries) -> bytes:
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": c.word()}, "done": False},
        {"model": "m", "response": c.word(), "thinking": c.word(), "context": [c.number()]},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def page(c: Canaries) -> bytes:
    return f"<html>\n<p title={c.word()}>{c.word()}</p>\ndata: {c.word()}\n".encode()


def cut_body(c: Canaries) -> bytes:
    text = json.dumps({"choices": [{"message": {"content": c.word(), "n": c.number()}}]}, indent=1)
    return text[:-8].encode()


def sse(data: Mapping[str, Any], event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    # Compact, as most servers write: then arrays read as they are remembered.
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def request(c: Canaries) -> dict[str, Any]:
    schema = {"type": "object", "properties": {c.word(): {"enum": [c.number()]}}}
    image = {"type": "image_url", "image_url": {"url": f"https://h/{c.word()}?k={c.word()}"}}
    source = {"type": "base64", "media_type": "image/png", "data": c.word()}
    call = {"id": c.word(), "type": "function", "function": {"name": c.word(), "arguments": "{}"}}
    return {
        "model": "m-1",
        "messages": [
            {"role": "system", "content": c.word(), "name": c.word()},
            {"role": "user", "content": [{"type": "text", "text": c.word()}, image]},
            {"role": "user", "content": [{"type": "image", "source": source}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": c.word(), "content": c.word()},
            {"role": c.word() + " x", "content": [{"type": "tool_use", "input": {"a": c.word()}}]},
        ],
        "system": [{"type": "text", "text": c.word(), "cache_control": {"type": "ephemeral"}}],
        "instructions": c.word(),
        "input": [{"type": "function_call_output", "output": c.word(), "arguments": c.word()}],
        "prompt": [c.number(), c.number()],
        "tools": [
            {"type": "function", "function": {"name": c.word(), "parameters": schema}},
            {"name": c.word(), "description": c.word(), "input_schema": schema},
            {"type": "mcp", "server_url": c.word(), "headers": {"a": c.word()}},
        ],
        "tool_choice": {"type": "function", "function": {"name": c.word()}},
        "response_format": {"type": "json_schema", "json_schema": {"name": c.word(), "x": schema}},
        "logit_bias": {str(c.number()): 1},
        "stop": [c.word()],
        "metadata": {c.word(): c.word()},
        "user": c.word(),
        "safety_identifier": c.word(),
        "prompt_cache_key": c.word(),
        "api_key": c.word(),
        "extra_headers": {"Authorization": c.word()},
        c.word(): c.word(),
        "extra_body": {c.word(): c.word()},
    }


def headers(c: Canaries) -> tuple[tuple[str, str], ...]:
    return (
        ("content-type", "text/event-stream"),
        ("set-cookie", c.word()),
        ("authorization", c.word()),
        ("x-api-key", c.word()),
        ("openai-organization", c.word()),
        ("x-litellm-model-api-base", c.word()),
        ("location", c.word()),
        (c.word(), c.word()),
    )


BODIES = (
    chat_stream,
    broken_stream,
    completions_body,
    responses_stream,
    messages_stream,
    ollama_lines,
    page,
    cut_body,
)


def recording(c: Canaries) -> Recording:
    """One call with a canary in every place a word can go, an attempt a body."""
    attempts = []
    for make in BODIES:
        body = make(c)
        reads = (Read(0, 1, len(body), len(body)),)
        attempts.append(Attempt(status=200, headers=headers(c), body=body, reads=reads))
    attempts[0] = replace(attempts[0], wire=(c.word().encode(),), error_type=f"E: {c.word()}")
    path = f"/v1/{c.word()}/accounts/{c.number()}/chat/completions?key={c.word()}#{c.word()}"
    return Recording(
        call_id="call",
        started_at="2026-11-29T10:00:00Z",
        target=Target(scheme="https", host=f"{c.word()}:pw@api.test", port=443, path=path),
        end=End(reason="error", detail=f"ValueError({c.word()!r})"),
        attempts=tuple(attempts),
        sent=c.word().encode(),
        request=request(c),
    )


def texts(line: str) -> Iterator[str]:
    """The line, and its bodies without JSON's escapes of them."""
    yield line
    for attempt in json.loads(line)["attempts"]:
        yield attempt["body"]


def test_no_canary_survives() -> None:
    """Well over a hundred canaries, in every field and shape: none is in the written line."""
    canaries = Canaries()
    call = recording(canaries)
    assert len(canaries.out) > 130
    line = to_line(mask(call))
    assert [c for c in canaries.out for text in texts(line) if c in text] == []


def test_every_canary_was_there_to_be_found() -> None:
    """The test above can fail: unmasked, only what is in memory alone is not written."""
    canaries = Canaries()
    call = recording(canaries)
    line = to_line(call)
    found = {c for c in canaries.out for text in texts(line) if c in text}
    assert len(set(canaries.out) - found) <= 2


@pytest.mark.parametrize("at", range(len(BODIES)))
def test_lengths_and_offsets_stay(at: int) -> None:
    """Each read still says how far into the body it reached."""
    call = recording(Canaries())
    before, after = call.attempts[at], mask(call).attempts[at]
    assert after.body is not None
    assert before.body is not None
    assert len(after.body) == len(before.body)
    assert after.reads == before.reads


def test_kept_content_holds_no_secret() -> None:
    """`keep_content` keeps texts; identities, credentials and headers go all the same."""
    c = Canaries()
    kept, gone = c.word(), [c.word() for _ in range(8)]
    asked = {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": kept}], "token": gone[0]}
        ],
        "user": gone[1],
        "metadata": {"a": gone[2]},
        "tools": [{"type": "mcp", "authorization": gone[3], "headers": {"b": gone[4]}}],
        "api_key": gone[5],
    }
    body = json.dumps({"choices": [{"text": kept}], "safety_identifier": gone[6]}).encode()
    call = Recording(
        call_id="c",
        started_at="t",
        target=Target(scheme="http", host="h", port=80, path="/"),
        attempts=(Attempt(body=body, headers=(("cookie", gone[7]),)),),
        request=asked,
    )
    line = to_line(mask(call, keep_content=True, keep_headers=["Cookie"]))
    assert line.count(kept) == 2
    assert [word for word in gone if word in line] == []
