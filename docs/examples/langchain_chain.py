"""LangChain, recorded: its models take, or make, an SDK client, and that is instrumented.

pip install latscope langchain-openai langchain-anthropic
latscope sim serve &
python docs/examples/langchain_chain.py http://127.0.0.1:8123 calls.jsonl
latscope turns calls.jsonl
"""

import asyncio
import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

import latscope


async def main(base_url: str, calls: str) -> None:
    sink = latscope.JSONLSink(calls)
    openai = ChatOpenAI(model="healthy", base_url=f"{base_url}/v1", api_key="none")
    anthropic = ChatAnthropic(model_name="healthy", base_url=base_url, api_key="none")
    # The clients both models made for themselves, one for `invoke` and one for `ainvoke`.
    for made in (
        openai.root_client,
        openai.root_async_client,
        anthropic._client,
        anthropic._async_client,
    ):
        latscope.instrument(made, sink=sink)

    prompt = ChatPromptTemplate.from_template("{question}")
    with latscope.turn("langchain"):
        found = (prompt | openai | StrOutputParser()).invoke({"question": "Where is my order?"})
        chain = prompt | anthropic | StrOutputParser()
        async for _ in chain.astream({"question": f"Tell the customer: {found}"}):
            pass
        await asyncio.gather(*(openai.ainvoke("Anything else?") for _ in range(2)))
    latscope.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
