"""The calls whose streams are worth keeping, one table an engine.

A name says the API, after an underscore what is special, and how the answer comes: as a stream,
as one body, or as an error.
"""

from dataclasses import dataclass, field

Body = dict[str, object]

MESSAGES = [{"role": "user", "content": "How does a generator differ from a list?"}]
LONG = [{"role": "user", "content": "The statement is executed before the loop. " * 60}]
TOO_LONG = [{"role": "user", "content": "The statement is executed before the loop. " * 700}]
STREAM: Body = {"stream": True, "stream_options": {"include_usage": True}}
EACH: Body = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
CHAT: Body = {"model": "tiny", "messages": MESSAGES, "max_tokens": 32, "seed": 7}
COMPLETION: Body = {"model": "tiny", "prompt": "A generator is", "max_tokens": 32, "seed": 7}
RESPONSE: Body = {"model": "tiny", "input": "How does it differ?", "max_output_tokens": 32}
MESSAGE: Body = {"model": "tiny", "messages": MESSAGES, "max_tokens": 32}
LAMP: Body = {
    "type": "object",
    "properties": {
        "on": {"type": "boolean"},
        "room": {"type": "string", "enum": ["hall", "attic"]},
    },
    "required": ["on", "room"],
    "additionalProperties": False,
}
TOOLS: Body = {
    "tools": [
        {"type": "function", "function": {"name": "set_lamp", "parameters": LAMP, "strict": True}}
    ],
    "tool_choice": {"type": "function", "function": {"name": "set_lamp"}},
    "max_tokens": 200,
}
MESSAGE_TOOLS: Body = {
    "tools": [{"name": "set_lamp", "input_schema": LAMP}],
    "tool_choice": {"type": "tool", "name": "set_lamp"},
    "max_tokens": 200,
}
RESPONSE_TOOLS: Body = {
    "tools": [{"type": "function", "name": "set_lamp", "parameters": LAMP, "strict": True}],
    "tool_choice": "required",
    "max_output_tokens": 200,
}
# Token 4095 ends the reasoning (see models.py); this bias brings it after some twenty tokens.
THINKING: Body = {"logit_bias": {"4095": 8}, "max_tokens": 64}
ABSENT: Body = {"model": "absent"}


@dataclass(frozen=True)
class Case:
    """One call: where it goes and what is sent."""

    path: str
    body: Body
    headers: dict[str, str] = field(default_factory=dict)


def chat(*parts: Body, headers: dict[str, str] | None = None) -> Case:
    """Make a chat call; later parts win."""
    return Case("/v1/chat/completions", _merged(CHAT, *parts), headers or {})


def completion(*parts: Body) -> Case:
    """Make a call of the older completions API."""
    return Case("/v1/completions", _merged(COMPLETION, *parts))


def response(*parts: Body) -> Case:
    """Make a call of the responses API."""
    return Case("/v1/responses", _merged(RESPONSE, *parts))


def message(*parts: Body) -> Case:
    """Make a call of the messages API."""
    return Case("/v1/messages", _merged(MESSAGE, *parts))


def _merged(*parts: Body) -> Body:
    return {key: value for part in parts for key, value in part.items()}


ONLY_STREAM: Body = {"stream": True}
WARM_UP = chat(STREAM)
COMMON: dict[str, Case] = {
    "chat-stream": chat(STREAM),
    "chat-body": chat(),
    "chat_no_usage-stream": chat(ONLY_STREAM),
    "chat_long-stream": chat(STREAM, {"messages": LONG}),
    "chat_cached-stream": chat(STREAM, {"messages": LONG}),
    "chat_two-stream": chat(STREAM, {"n": 2}),
    "chat_stop-stream": chat(STREAM, {"stop": ["a"]}),
    "chat_logprobs-stream": chat(STREAM, {"max_tokens": 6, "logprobs": True, "top_logprobs": 2}),
    "chat_think-stream": chat(STREAM, THINKING, {"logit_bias": {"4094": 8, "4095": 8}}),
    "chat_json-stream": chat(
        STREAM,
        {"max_tokens": 200},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "lamp", "schema": LAMP},
            }
        },
    ),
    "chat_request_id-stream": chat(STREAM, headers={"X-Request-Id": "latscope-1"}),
    "chat_too_long-error": chat({"messages": TOO_LONG}),
    "completions-stream": completion(STREAM),
    "completions-body": completion(),
    "responses-stream": response(ONLY_STREAM),
    "responses-body": response(),
    "messages-stream": message(ONLY_STREAM),
    "messages-body": message(),
}
VLLM: dict[str, Case] = {
    **COMMON,
    "chat_each_usage-stream": chat(EACH),
    "chat_tool-stream": chat(STREAM, TOOLS),
    "chat_tool-body": chat(TOOLS),
    "messages_tool-stream": message(ONLY_STREAM, MESSAGE_TOOLS),
    "responses_tool-stream": response(ONLY_STREAM, RESPONSE_TOOLS),
    "chat-error": chat(ABSENT),
    "completions-error": completion(ABSENT),
    "responses-error": response(ABSENT),
    "messages-error": message(ABSENT),
}
VLLM_REASONING: dict[str, Case] = {
    "chat_reasoning-stream": chat(STREAM, THINKING),
    "chat_reasoning-body": chat(THINKING),
    "responses_reasoning-stream": response(ONLY_STREAM, {"logit_bias": {"4095": 8}}),
    "messages_reasoning-stream": message(ONLY_STREAM),
}
LLAMA: dict[str, Case] = {
    **COMMON,
    "chat_each_timings-stream": chat(STREAM, {"timings_per_token": True}),
    "chat_progress-stream": chat(STREAM, {"messages": LONG, "return_progress": True}),
    "chat-error": chat({"messages": "not a list"}),
    "messages_too_long-error": message({"messages": TOO_LONG}),
    "responses-error": response({"input": 1}),
}
