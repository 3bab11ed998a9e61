"""Every client class the SDKs export, made for the scripted server.

Which there are is asked of the packages; `tests/capture/test_classes.py` fails for one that has no
row here. Keys and credentials are made up.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.capture import bodies
from tests.capture.scripted import Step, json_answer, stream
from tests.wire import messages

AWS = {"aws_access_key": "AKIDEXAMPLE", "aws_secret_key": "made-up", "aws_region": "us-east-1"}
OPENAI_AWS = {
    "aws_access_key_id": "AKIDEXAMPLE",
    "aws_secret_access_key": "made-up",
    "aws_region": "us-east-1",
}
BEDROCK_PARTS: list[bytes] = [
    messages.chunk(b"".join(part.partition(b"data: ")[2].split())) for part in bodies.MESSAGE_PARTS
]
"""The events of the plain API, each wrapped as Bedrock does."""

Api = Literal["chat", "messages"]


@dataclass(frozen=True, kw_only=True)
class Class:
    """One exported class. options: what it is made with, given the server's URL; path, stream_path:
    where its calls go; parts: what the server streams; kind: of which content type."""

    api: Api
    options: Callable[[str], Mapping[str, Any]]
    path: str
    stream_path: str = ""
    signed: bool = False
    parts: Sequence[bytes] = ()
    kind: str = "text/event-stream"

    def whole(self) -> list[Step]:
        return json_answer(bodies.CHAT if self.api == "chat" else bodies.MESSAGE)

    def streamed(self) -> list[Step]:
        plain = bodies.CHAT_PARTS if self.api == "chat" else bodies.MESSAGE_PARTS
        return stream(*(self.parts or plain), content_type=self.kind)


CHAT, MESSAGES = "/chat/completions", "/v1/messages"

OPENAI: dict[str, Class] = {
    "OpenAI": Class(
        api="chat",
        options=lambda url: {"api_key": "k", "base_url": f"{url}/v1"},
        path=f"/v1{CHAT}",
    ),
    "AzureOpenAI": Class(
        api="chat",
        options=lambda url: {"api_key": "k", "api_version": "2024-06-01", "azure_endpoint": url},
        path=f"/openai/deployments/tiny{CHAT}",
    ),
    "BedrockOpenAI": Class(
        api="chat",
        options=lambda url: {**OPENAI_AWS, "base_url": f"{url}/openai/v1"},
        path=f"/openai/v1{CHAT}",
        signed=True,
    ),
}

ANTHROPIC: dict[str, Class] = {
    "Anthropic": Class(
        api="messages", options=lambda url: {"api_key": "k", "base_url": url}, path=MESSAGES
    ),
    "AnthropicBedrock": Class(
        api="messages",
        options=lambda url: {**AWS, "base_url": url},
        path="/model/tiny/invoke",
        stream_path="/model/tiny/invoke-with-response-stream",
        signed=True,
        parts=BEDROCK_PARTS,
        kind="application/vnd.amazon.eventstream",
    ),
    "AnthropicBedrockMantle": Class(
        api="messages", options=lambda url: {**AWS, "base_url": url}, path=MESSAGES, signed=True
    ),
    "AnthropicAWS": Class(
        api="messages",
        options=lambda url: {**AWS, "base_url": url, "workspace_id": "w"},
        path=MESSAGES,
        signed=True,
    ),
    "AnthropicVertex": Class(
        api="messages",
        options=lambda url: {
            "region": "us-east5",
            "project_id": "p",
            "access_token": "made-up",
            "base_url": f"{url}/v1",
        },
        path="/v1/projects/p/locations/us-east5/publishers/anthropic/models/tiny:rawPredict",
        stream_path="/v1/projects/p/locations/us-east5/publishers/anthropic/models/tiny"
        ":streamRawPredict",
    ),
    "AnthropicFoundry": Class(
        api="messages",
        options=lambda url: {"api_key": "k", "base_url": f"{url}/anthropic/"},
        path=f"/anthropic{MESSAGES}",
    ),
    "AnthropicGoogleCloud": Class(
        api="messages",
        options=lambda url: {
            "base_url": url,
            "workspace_id": "w",
            "token_provider": lambda: "made-up",
        },
        path=MESSAGES,
    ),
}

CLASSES: dict[str, Class] = {
    f"{sdk}.{prefix}{name}": row
    for sdk, rows in (("openai", OPENAI), ("anthropic", ANTHROPIC))
    for name, row in rows.items()
    for prefix in ("", "Async")
    if hasattr(importlib.import_module(sdk), prefix + name)
}
"""Each class this release has, its asynchronous twin beside it, by the name it is imported by."""

ALIASES = frozenset(
    {"openai.Client", "openai.AsyncClient", "anthropic.Client", "anthropic.AsyncClient"}
)
"""Other names of the plain ones."""

HTTP_CLIENTS = frozenset({"DefaultHttpxClient", "DefaultAsyncHttpxClient", "DefaultAioHttpClient"})
"""What an SDK's client sends through, for those who want to set it up themselves."""


def exported() -> set[str]:
    """The client classes both SDKs export, under every public name."""
    found = set()
    for name in ("openai", "anthropic"):
        sdk = importlib.import_module(name)
        bases = tuple(
            getattr(importlib.import_module(f"{name}._base_client"), base)
            for base in ("SyncAPIClient", "AsyncAPIClient")
        )
        public = {each: getattr(sdk, each) for each in dir(sdk) if not each.startswith("_")}
        found |= {
            f"{name}.{each}"
            for each, value in public.items()
            if isinstance(value, type) and issubclass(value, bases)
        }
    return found


def make(name: str, url: str, **options: Any) -> Any:
    """A client of an exported class."""
    sdk, _, kind = name.partition(".")
    made = getattr(importlib.import_module(sdk), kind)
    return made(**{"max_retries": 0, **CLASSES[name].options(url), **options})
