"""SDK clients for the scripted server, over either HTTP library where the SDK takes it."""

import gc
import importlib
from typing import Any

import anthropic
import openai

KEY = "no-key"


def library_of(sdk: Any) -> Any:
    """The HTTP library an SDK is built on: httpx2 of late, httpx before."""
    roots = {base.__module__.partition(".")[0] for base in sdk.DefaultHttpxClient.__mro__}
    return importlib.import_module("httpx2" if "httpx2" in roots else "httpx")


def make(kind: str, url: str, **options: Any) -> Any:
    """kind: `openai`, `anthropic`, with `-async` and `-httpx` or `-aio` after it as wished."""
    name, *traits = kind.split("-")
    is_async = "async" in traits
    if "httpx" in traits:
        library = importlib.import_module("httpx")
        options["http_client"] = (library.AsyncClient if is_async else library.Client)()
    if "aio" in traits:
        options["http_client"] = importlib.import_module(name).DefaultAioHttpClient()
    if name == "openai":
        made = openai.AsyncOpenAI if is_async else openai.OpenAI
        return made(api_key=KEY, base_url=f"{url}/v1", **options)
    made_ = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return made_(api_key=KEY, base_url=url, **options)


def api(client: Any) -> Any:
    """The resource that holds `create`."""
    return client.chat.completions if hasattr(client, "chat") else client.messages


def pool_state(client: Any) -> list[str]:
    """The connections of a client's pool, ports left out."""
    gc.collect()
    http = getattr(client, "_client", client)
    if not hasattr(http._transport, "_pool"):  # aiohttp's
        connector = http._transport.client.connector
        idle = sum(map(len, connector._conns.values()))
        return [f"{len(connector._acquired)} in use, {idle} idle"]
    return [repr(connection).partition(",")[2] for connection in http._transport._pool.connections]
