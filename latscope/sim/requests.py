"""Requests as the server reads them: which call is asked for, or why it cannot be answered."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from latscope.protocols.dialect import Api

CAPS: Mapping[Api, tuple[str, ...]] = {
    "chat": ("max_completion_tokens", "max_tokens"),
    "completions": ("max_tokens",),
    "responses": ("max_output_tokens",),
    "messages": ("max_tokens",),
}
"""Where each API states its output cap, the newer spelling first."""

NEEDED: Mapping[Api, tuple[str, ...]] = {
    "chat": ("messages",),
    "completions": ("prompt",),
    "responses": ("input",),
    "messages": ("messages", "max_tokens"),
}


class Refused(Exception):
    """A request no call comes of; the message is for the client."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """cap: the output cap, null when none is given; body: as parsed."""

    api: Api
    model: str
    stream: bool
    include_usage: bool
    cap: int | None
    body: Mapping[str, Any]


def parse(api: Api, raw: bytes) -> Request:
    """The request in a body. Raises Refused (400), naming the field."""
    body = _object(raw)
    for name in ("model", *NEEDED[api]):
        if body.get(name) in (None, "", [], {}):
            raise _invalid(f"{name}: field required")
    model = body["model"]
    if not isinstance(model, str):
        raise _invalid("model: must be a string")
    stream = body.get("stream") or False
    if not isinstance(stream, bool):
        raise _invalid("stream: must be true or false")
    if body.get("n") not in (None, 1):
        raise _invalid("n: the simulator gives one choice a request; leave n out")
    options = body.get("stream_options")
    return Request(
        api=api,
        model=model,
        stream=stream,
        include_usage=isinstance(options, Mapping) and options.get("include_usage") is True,
        cap=_cap(api, body),
        body=body,
    )


def _object(raw: bytes) -> dict[str, Any]:
    try:
        body = from_json(raw)
    except ValueError as error:
        raise _invalid(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise _invalid("the body must be a JSON object")
    return body


def _cap(api: Api, body: Mapping[str, Any]) -> int | None:
    for name in CAPS[api]:
        cap = body.get(name)
        if cap is None:
            continue
        if isinstance(cap, bool) or not isinstance(cap, int) or cap < 1:
            raise _invalid(f"{name}: must be a whole number above 0")
        return cap
    return None


def _invalid(message: str) -> Refused:
    return Refused(400, "invalid_request_error", message)
