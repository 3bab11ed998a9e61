"""Bodies and headers a vendor accepts, and what to change when it names a parameter it does not.

Each API spells the output cap in its own way (`max_completion_tokens`, `max_output_tokens`,
`max_tokens`); usage is asked for on streams and padding of deltas switched off where a vendor has
it, since padded chunks say nothing of tokens. Nothing else is added: what is measured is a plain
request.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from latscope.probe.targets import NATIVE, Target
from latscope.protocols.dialect import Api

ANTHROPIC_VERSION = "2023-06-01"
CAPS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
"""Every spelling of the output cap a server may ask for instead of another."""

_CAPS: Mapping[Api, str] = {
    "responses": "max_output_tokens",
    "lmstudio": "max_output_tokens",
    "ollama": "num_predict",  # inside `options`
}
"""How an API spells it, where not `max_tokens`; chat's spelling is the vendor's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What every call of one probe asks for. spelled: the cap's name once a server has said which
    it wants; without: parameters it refused."""

    target: Target
    model: str
    max_tokens: int | None
    """The output cap; null sends none."""
    stream: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    key: str | None = field(default=None, repr=False)
    spelled: str | None = None
    without: frozenset[str] = frozenset()


def body(ask: Ask, prompt: str) -> dict[str, Any]:
    """The request's JSON, `--extra-body` merged over it."""
    made: dict[str, Any] = {"model": ask.model, **_PROMPTS[ask.target.api](prompt)}
    made["stream"] = ask.stream
    if ask.max_tokens is not None:
        cap = {cap_name(ask): ask.max_tokens}
        made.update({"options": cap} if ask.target.api == "ollama" else cap)
    made.update(_stream_options(ask))
    if ask.target.api == "lmstudio" or (ask.target.api == "responses" and ask.target.obfuscates):
        made["store"] = False
    kept = {name: value for name, value in made.items() if name not in ask.without}
    extra = dict(ask.extra)
    if isinstance(extra.get("options"), Mapping):
        extra["options"] = {**kept.get("options", {}), **extra["options"]}  # the cap may be in it
    return {**kept, **extra}


def headers(ask: Ask, request_id: str) -> dict[str, str]:
    """The request's headers; the user's own win."""
    made = {"content-type": "application/json", "x-request-id": request_id, **auth(ask)}
    if ask.target.api == "messages":
        made["anthropic-version"] = ANTHROPIC_VERSION
    for name, value in ask.headers:
        made[name.lower()] = value
    return made


def auth(ask: Ask) -> dict[str, str]:
    if ask.key is None:
        return {}
    if ask.target.vendor == "anthropic":
        return {"x-api-key": ask.key}
    both = {"x-api-key": ask.key} if ask.target.api == "messages" else {}
    return {"authorization": f"Bearer {ask.key}", **both}


def cap_name(ask: Ask) -> str:
    if ask.spelled is not None:
        return ask.spelled
    if ask.target.api == "chat":
        return ask.target.cap
    return _CAPS.get(ask.target.api, "max_tokens")


def adapt(ask: Ask, answer: bytes) -> tuple[Ask, str] | None:
    """The ask in another spelling, and the change in words, when a 400 or 422 names a parameter
    this ask carries; null when it names none."""
    refused = _named(answer)
    if refused is None:
        return None
    cap = cap_name(ask)
    sent = body(ask, "")
    for name in ("include_obfuscation", "stream_options", "store", cap):
        if name in ask.extra or not _sent(sent, name) or not _refuses(refused, name):
            continue
        if name == cap:
            return _respelled(ask, cap, refused)
        return replace(ask, without=ask.without | {name}), f"without {name}"
    return None


def _respelled(ask: Ask, cap: str, refused: str) -> tuple[Ask, str] | None:
    """The other spelling: the one the answer suggests, else the usual alternative."""
    others = [name for name in CAPS if name != cap]
    suggested = [name for name in others if f"'{name}'" in refused or f'"{name}"' in refused]
    usual = {"max_tokens": "max_completion_tokens"}.get(cap, "max_tokens")
    chosen = suggested[0] if suggested else usual
    return replace(ask, spelled=chosen), f"{chosen} instead of {cap}"


def _stream_options(ask: Ask) -> dict[str, Any]:
    if not ask.stream or ask.target.api in ("messages", *NATIVE):
        return {}
    options: dict[str, Any] = {}
    if ask.target.api != "responses" and ask.target.asks_usage:
        options["include_usage"] = True
    if ask.target.obfuscates and "include_obfuscation" not in ask.without:
        options["include_obfuscation"] = False
    return {"stream_options": options} if options else {}


def _sent(sent: Mapping[str, Any], name: str) -> bool:
    return name in sent or name in sent.get("stream_options", {})


def _named(answer: bytes) -> str | None:
    """The part of an error answer that may name a parameter: `param`, message, FastAPI's detail."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return None
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return json.dumps(error)
    told = {name: error.get(name) for name in ("param", "message", "detail", "code")}
    return json.dumps({name: value for name, value in told.items() if value})


def _refuses(refused: str, name: str) -> bool:
    """Whether the parameter's name stands in the text as a word of its own."""
    before = refused.find(name)
    while before >= 0:
        around = refused[before - 1 : before] + refused[before + len(name) :][:1]
        if not any(char.isalnum() or char == "_" for char in around):
            return True
        before = refused.find(name, before + 1)
    return False


_PROMPTS: dict[Api, Callable[[str], dict[str, Any]]] = {
    "chat": lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    "messages": lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    "responses": lambda prompt: {"input": prompt},
    "completions": lambda prompt: {"prompt": prompt},
    "ollama": lambda prompt: {"messages": [{"role": "user", "content": prompt}]},
    "lmstudio": lambda prompt: {"input": prompt},
}
