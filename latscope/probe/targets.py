"""Where a probe goes: a URL, or a vendor by name. One table of vendors, no network.

A row holds what a request needs to be accepted: base URL, key variable, default API and how the
output cap is spelled. Keys are read from the environment when a request is built and kept nowhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from latscope.errors import UsageError
from latscope.protocols.dialect import Api

APIS: tuple[Api, ...] = ("chat", "responses", "messages", "completions", "ollama", "lmstudio")

PATHS: dict[Api, str] = {
    "chat": "chat/completions",
    "responses": "responses",
    "messages": "messages",
    "completions": "completions",
    "ollama": "api/chat",
    "lmstudio": "api/v1/chat",
}

NATIVE: frozenset[Api] = frozenset({"ollama", "lmstudio"})
"""APIs whose path starts at the server's root, beside `/v1`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """base_url: without a trailing slash, with its version segment. key_variable: environment
    variable of the key, null for none. cap: how chat spells the output cap. asks_usage: whether
    usage has to be asked for on streams. obfuscates: whether it pads deltas unless told not to.
    vendor: its name, null for a plain URL."""

    base_url: str
    api: Api = "chat"
    key_variable: str | None = None
    cap: str = "max_tokens"
    asks_usage: bool = True
    obfuscates: bool = False
    vendor: str | None = None

    @property
    def name(self) -> str:
        return self.vendor or self.base_url

    @property
    def url(self) -> str:
        """The address a request of this API goes to."""
        base = self.base_url.removesuffix("/v1") if self.api in NATIVE else self.base_url
        return f"{base}/{PATHS[self.api]}"

    @property
    def loopback(self) -> bool:
        return _loopback(urlsplit(self.base_url).hostname or "")


def _row(
    base_url: str,
    key_variable: str | None,
    *,
    api: Api = "chat",
    cap: str = "max_tokens",
    asks_usage: bool = True,
    obfuscates: bool = False,
) -> Target:
    return Target(
        base_url=base_url,
        key_variable=key_variable,
        api=api,
        cap=cap,
        asks_usage=asks_usage,
        obfuscates=obfuscates,
    )


VENDORS: dict[str, Target] = {
    "openai": _row(
        "https://api.openai.com/v1", "OPENAI_API_KEY", cap="max_completion_tokens", obfuscates=True
    ),
    "anthropic": _row("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", api="messages"),
    "groq": _row(
        "https://api.groq.com/openai/v1", "GROQ_API_KEY", cap="max_completion_tokens"
    ),
    "together": _row("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "fireworks": _row("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    "openrouter": _row("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "mistral": _row("https://api.mistral.ai/v1", "MISTRAL_API_KEY", asks_usage=False),
    "deepseek": _row("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": _row("https://api.x.ai/v1", "XAI_API_KEY"),
    "cerebras": _row(
        "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", cap="max_completion_tokens"
    ),
    "sambanova": _row("https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"),
    "nvidia": _row("https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY"),
    "perplexity": _row("https://api.perplexity.ai", "PERPLEXITY_API_KEY", asks_usage=False),
    "cohere": _row("https://api.cohere.ai/compatibility/v1", "COHERE_API_KEY"),
    "gemini": _row("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "ollama": _row("http://127.0.0.1:11434/v1", None),
    "vllm": _row("http://127.0.0.1:8000/v1", None),
    "sglang": _row("http://127.0.0.1:30000/v1", None),
    "llama.cpp": _row("http://127.0.0.1:8080/v1", None),
    "lmstudio": _row("http://127.0.0.1:1234/v1", None),
}  # fmt: skip


def target(text: str, *, api: str | None = None, key_variable: str | None = None) -> Target:
    """The target a command-line word names. UsageError when it is neither vendor nor URL."""
    row = VENDORS.get(text.lower())
    found = replace(row, vendor=text.lower()) if row is not None else _from_url(text)
    if api is not None:
        found = replace(found, api=_api(api))
    if key_variable is not None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key_variable):
            # Not repeated: it may be the key itself.
            raise UsageError("--key-env takes the name of a variable, not the key itself")
        found = replace(found, key_variable=key_variable)
    return found


def key(found: Target, environment: Mapping[str, str]) -> str | None:
    """The key itself; UsageError names the variable when a vendor's is missing."""
    if found.key_variable is None:
        return None
    value = environment.get(found.key_variable, "").strip()
    if not value:
        raise UsageError(f"{found.name} needs a key: set the variable {found.key_variable}")
    if not value.isascii() or not value.isprintable():
        raise UsageError(f"the variable {found.key_variable} holds no key: it has odd characters")
    return value


def _api(text: str) -> Api:
    for api in APIS:
        if api == text:
            return api
    raise UsageError(f"unknown API {text!r}: one of {', '.join(APIS)}")


def _from_url(text: str) -> Target:
    if "//" not in text and not _looks_like_host(text):
        near = get_close_matches(text.lower(), VENDORS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        names = ", ".join(VENDORS)
        raise UsageError(f"unknown target {text!r}: {hint}Give a URL or one of {names}")
    url = text if "//" in text else f"{_guessed_scheme(text)}://{text}"
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the target is no http or https URL: give one like http://127.0.0.1:8000")
    if parts.username or parts.password:
        raise UsageError(
            "the URL holds a user name or password: give a key with --key-env or a header with -H"
        )
    if parts.query:
        raise UsageError(
            "the URL holds a query, which a probe cannot send along: give its address without it"
        )
    _check_port(url)
    base, api = _base(f"{parts.scheme}://{parts.netloc}", parts.path)
    for name, row in VENDORS.items():
        known = urlsplit(row.base_url)
        if known.hostname == parts.hostname and row.key_variable and parts.scheme == "https":
            base = base if parts.path.strip("/") else row.base_url
            return replace(row, base_url=base, api=api or row.api, vendor=name)
    return Target(base_url=base, api=api or "chat")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise UsageError(
            "the target is no URL (a bracket without its other?): give one like"
            " http://127.0.0.1:8000"
        ) from error


def _base(origin: str, path: str) -> tuple[str, Api | None]:
    """The base URL and, when the path already ends in an API's own, that API."""
    path = path.rstrip("/")
    for api in sorted(PATHS, key=lambda name: -len(PATHS[name])):
        if path.endswith(f"/{PATHS[api]}"):
            base = f"{origin}{path.removesuffix('/' + PATHS[api])}"
            return (f"{base}/v1" if api in NATIVE else base), api
    if not re.search(r"/v\d[^/]*(/|$)", path):
        path += "/v1"
    return f"{origin}{path}", None


def _check_port(url: str) -> None:
    try:
        urlsplit(url).port  # noqa: B018  (reading it is what checks it)
    except ValueError as error:
        raise UsageError(f"the target's port is no port: {error}") from error


def _looks_like_host(text: str) -> bool:
    host = text.split("/", 1)[0]
    return host == "localhost" or ":" in host or ("." in host and " " not in host)


def _guessed_scheme(text: str) -> str:
    host = text.split("/", 1)[0].rsplit(":", 1)[0].strip("[]")
    return "http" if _loopback(host) else "https"


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
