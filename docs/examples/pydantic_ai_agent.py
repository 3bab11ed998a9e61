"""A pydantic-ai agent, recorded: its providers take an SDK client, and that is instrumented.

pip install latscope 'pydantic-ai-slim[openai,anthropic]'
latscope sim serve &
python docs/examples/pydantic_ai_agent.py http://127.0.0.1:8123 calls.jsonl
latscope turns calls.jsonl
"""

import asyncio
import sys

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

import latscope


async def main(base_url: str, calls: str) -> None:
    sink = latscope.JSONLSink(calls)
    openai = AsyncOpenAI(base_url=f"{base_url}/v1", api_key="none")
    latscope.instrument(openai, sink=sink, tags={"agent": "orders"})
    orders = Agent(OpenAIChatModel("healthy", provider=OpenAIProvider(openai_client=openai)))

    anthropic = AsyncAnthropic(base_url=base_url, api_key="none")
    latscope.instrument(anthropic, sink=sink, tags={"agent": "letters"})
    letters = Agent(
        AnthropicModel("healthy", provider=AnthropicProvider(anthropic_client=anthropic))
    )

    with latscope.turn("pydantic-ai"):
        found = await orders.run("Where is my order?")
        async with letters.run_stream(f"Tell the customer: {found.output}") as answer:
            async for _ in answer.stream_text(delta=True):
                pass
    latscope.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
