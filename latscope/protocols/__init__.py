"""Dialects: frames to events and back, one file an API; and what is masked before anything leaves.

`DIALECTS` is the table; `detect` picks a row by path and content.
"""

from collections.abc import Iterator, Sequence

from latscope.protocols import (
    anthropic_messages,
    lmstudio,
    ollama,
    openai_chat,
    openai_completions,
    openai_responses,
)
from latscope.protocols.bedrock import unwrapped
from latscope.protocols.dialect import Dialect
from latscope.protocols.fields import as_list, as_map, as_str, parse
from latscope.wire.frames import Frame

DIALECTS: tuple[Dialect, ...] = (
    openai_chat.DIALECT,  # before completions: its path ends in theirs
    openai_completions.DIALECT,
    openai_responses.DIALECT,
    anthropic_messages.DIALECT,
    ollama.DIALECT,
    lmstudio.DIALECT,
)

FRAMES_READ = 16
"""How many frames `detect` reads before it gives up."""


def detect(path: str, body: bytes | None = None, frames: Sequence[Frame] = ()) -> Dialect | None:
    """The dialect of a call; null when neither its path nor its content gives one away.

    The request's path decides, by its ending (any prefix will do: `/v1`, a proxy's own, Azure's
    `/openai/deployments/NAME`). Else the response does: the first of its frames, or its body,
    that carries a dialect's sign. A path that is not one API's alone (`/api/chat`) decides only
    where the response gives no other away. Without a dialect a call is still bytes and frames.
    """
    ending = path.partition("?")[0].rstrip("/")
    named = next((dialect for dialect in DIALECTS if ending.endswith(dialect.paths)), None)
    if named is not None and named.path_decides:
        return named
    whole = () if body is None else _signs("", body)
    for signs in (*(_signs(f.name, f.data) for f in map(unwrapped, frames[:FRAMES_READ])), whole):
        for sign in signs:
            for dialect in DIALECTS:
                if sign in dialect.signs:
                    return dialect
    return named


def _signs(name: str, data: bytes) -> Iterator[str]:
    """What may give a dialect away: `object`, `type`, the keys of a choice, the event's name
    (not `message`, which is any SSE event's), and where there is neither object nor type, keys
    nobody else has: a dated line that says whether it is `done`, `model_instance_id`."""
    fields = as_map(parse(data))
    yield as_str(fields.get("object"))
    yield as_str(fields.get("type"))
    for choice in as_list(fields.get("choices"))[:1]:
        yield from (f"choices.{key}" for key in as_map(choice))
    if isinstance(fields.get("done"), bool) and "created_at" in fields:
        yield "done"
    if "model_instance_id" in fields:
        yield "model_instance_id"
    if name != "message":
        yield name
