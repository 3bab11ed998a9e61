"""A small agent, recorded: the turn of docs/turns.svg. Three tools one after the other, and a
system text whose clock moves on in the middle.

    latscope sim serve &
    python docs/agent.py http://127.0.0.1:8123/v1 calls.jsonl tools.json
    python docs/picture.py --turns "calls.jsonl --spans tools.json --prices prices.toml"
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from openai import OpenAI

import latscope

SYSTEM = "You answer the customers of a shop, shortly and kindly. " * 30
TOOLS = (("find_customer", 0.4), ("search_orders", 1.1), ("track_parcel", 0.5))


def main(base_url: str, calls: str, spans: str) -> None:
    client = OpenAI(base_url=base_url, api_key="none")
    latscope.instrument(client, sink=latscope.JSONLSink(calls), prefix=True)
    messages: list[Any] = [
        {"role": "system", "content": f"It is 12:02. {SYSTEM}"},
        {"role": "user", "content": "Where is my order? " * 20},
    ]
    made = []
    with latscope.turn("order-4711"):
        for number, (name, seconds) in enumerate(TOOLS):
            ask(client, messages, 20)
            made.append(span(number, name, seconds))
            call = {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
            messages += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {
                    "role": "tool",
                    "tool_call_id": name,
                    "content": "Found what was asked for. " * 20,
                },
            ]
            if number == 1:
                messages[0] = {"role": "system", "content": f"It is 12:03. {SYSTEM}"}
                time.sleep(0.25)
        ask(client, messages, 40)
    latscope.flush()
    document = {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}
    Path(spans).write_text(json.dumps(document), encoding="utf-8")


def ask(client: OpenAI, messages: list[Any], tokens: int) -> None:
    stream = client.chat.completions.create(
        model="healthy",
        messages=messages,
        max_tokens=tokens,
        stream=True,
        stream_options={"include_usage": True},
    )
    for _ in stream:
        pass


def span(number: int, name: str, seconds: float) -> dict[str, Any]:
    """What an OpenTelemetry SDK would say of the tool."""
    began = time.time_ns()
    time.sleep(seconds)
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return {
        "traceId": "a" * 32,
        "spanId": f"{number + 1:016x}",
        "name": f"execute_tool {name}",
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(time.time_ns()),
        "attributes": [{"key": key, "value": {"stringValue": said}} for key, said in named.items()],
    }


if __name__ == "__main__":
    main(*sys.argv[1:4])
