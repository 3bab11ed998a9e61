"""LiteLLM, recorded: it sends with the client it is given, and that is instrumented.

pip install latscope litellm
latscope sim serve &
python docs/examples/litellm_calls.py http://127.0.0.1:8123 calls.jsonl
latscope turns calls.jsonl
"""

import asyncio
import sys
from typing import Any

import httpx
import litellm
from litellm.llms.custom_httpx.http_handler import HTTPHandler
from openai import AsyncOpenAI, OpenAI

import latscope

ASK: Any = [{"role": "user", "content": "Where is my order?"}]


async def main(base_url: str, calls: str) -> None:
    sink = latscope.JSONLSink(calls)
    # Whatever LiteLLM calls through the OpenAI SDK takes that SDK's clients.
    openai = OpenAI(base_url=f"{base_url}/v1", api_key="none")
    aopenai = AsyncOpenAI(base_url=f"{base_url}/v1", api_key="none")
    # For other providers it has a client of its own around httpx's.
    http = httpx.Client(timeout=600)
    for client in (openai, aopenai, http):
        latscope.instrument(client, sink=sink)

    with latscope.turn("litellm"):
        found = litellm.completion(model="openai/healthy", messages=ASK, client=openai)
        print(found.choices[0].message.content)
        stream = litellm.completion(
            model="anthropic/healthy",
            api_base=base_url,
            api_key="none",
            max_tokens=40,
            messages=ASK,
            stream=True,
            client=HTTPHandler(client=http),
        )
        for _ in stream:
            pass
        await asyncio.gather(
            *(
                litellm.acompletion(model="openai/healthy", messages=ASK, client=aopenai)
                for _ in range(2)
            )
        )
    latscope.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
