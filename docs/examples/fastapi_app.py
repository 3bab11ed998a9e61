"""A FastAPI service, recorded: each request is one turn, around the calls made for it.

    pip install latscope fastapi openai
    latscope sim serve &
    BASE_URL=http://127.0.0.1:8123 LATSCOPE_FILE=calls.jsonl uvicorn --app-dir docs/examples \
        fastapi_app:app
    curl -N -H 'x-request-id: order-4711' http://127.0.0.1:8000/orders/4711
    latscope turns calls.jsonl
"""

import os
from collections.abc import AsyncIterator

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from openai import AsyncOpenAI, OpenAI

import latscope
from latscope.middleware.asgi import TurnMiddleware

BASE = f"{os.environ['BASE_URL']}/v1"
client = latscope.instrument(AsyncOpenAI(base_url=BASE, api_key="none"))
blocking = latscope.instrument(OpenAI(base_url=BASE, api_key="none"))

app = FastAPI()
app.add_middleware(TurnMiddleware)  # last: around all other middleware


@app.get("/orders/{number}")
async def order(number: str) -> StreamingResponse:
    """Two calls: the answer of the second is passed on as it comes."""
    found = await client.chat.completions.create(
        model="healthy", messages=[{"role": "user", "content": f"Which parcel is {number}?"}]
    )
    question = f"Where is {found.choices[0].message.content}?"

    async def words() -> AsyncIterator[str]:
        stream = await client.chat.completions.create(
            model="healthy", messages=[{"role": "user", "content": question}], stream=True
        )
        async for chunk in stream:
            yield (chunk.choices[0].delta.content or "") if chunk.choices else ""

    return StreamingResponse(words(), media_type="text/plain")


@app.get("/summary")
def summary() -> str:
    """A plain function, which FastAPI runs in a thread."""
    found = blocking.chat.completions.create(
        model="healthy", messages=[{"role": "user", "content": "What happened today?"}]
    )
    return found.choices[0].message.content or ""
