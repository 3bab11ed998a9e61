"""What a dialect is: a row that knows one API's paths, how to read it and how to write it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from latscope.protocols.events import Event, Usage
from latscope.wire.frames import Frame

Api = Literal["chat", "completions", "responses", "messages", "ollama", "lmstudio"]
Channel = Literal["reasoning", "content", "tool_call", "refusal"]

Decoder: TypeAlias = Callable[[Frame], list[Event]]
"""Fed the frames of one response in order, gives the events of each. Holds the response's state
(cumulative usage, open tool calls), so one decoder serves one response. Never raises: a frame it
cannot read gives one `unknown` event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an encoder needs to know of the answer it writes."""

    id: str
    model: str
    created: int = 0
    stream: bool = True
    include_usage: bool = True
    """Whether the client asked for usage on the stream (chat, completions)."""
    reasoning_key: str = "reasoning_content"
    """Which spelling chat deltas use: `reasoning_content`, `reasoning` or `reasoning_details`."""
    prompt: Usage = field(default_factory=Usage)
    """What is known of usage before the first token; messages states it in `message_start`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One stretch of output as an encoder writes it: whole tokens of one channel of one choice."""

    channel: Channel
    text: str
    choice: int = 0
    tool: int = 0
    """Index of the tool call the text belongs to (channel tool_call)."""


class Encoder(Protocol):
    """Writes one answer. The simulator's side of a dialect: real frames, no timing of its own.

    Each method gives the bytes a server of this API would send at that point of the stream (b""
    where it sends nothing). `whole` gives the JSON body of an answer that is not streamed.
    """

    def start(self) -> bytes:
        """Envelope events before any token (message_start, response.created); chat's role chunk."""
        ...

    def piece(self, piece: Piece) -> bytes: ...

    def finish(self, reason: str, choice: int = 0) -> bytes:
        """The choice's finish reason, in latscope's words: stop, length, tool_calls."""
        ...

    def close(self, usage: Usage, metrics: Mapping[str, Any] | None) -> bytes:
        """Usage (and the server's own per-request metrics, where the API carries them)."""
        ...

    def done(self) -> bytes:
        """The protocol's terminal event ([DONE]; message_stop; nothing where `close` holds it)."""
        ...

    def error(self, kind: str, message: str) -> bytes:
        """An error object inside a stream already open."""
        ...

    def ping(self) -> bytes:
        """A keep-alive as this API sends it: an event for messages, a comment elsewhere."""
        ...

    def whole(
        self,
        pieces: list[Piece],
        reason: str,
        usage: Usage,
        metrics: Mapping[str, Any] | None,
    ) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API. name: `openai.chat`; api: the word the command line uses; paths: URL path endings;
    decoder: makes a fresh Decoder; encoder: makes a fresh Encoder; error_body: the JSON body of an
    HTTP error in this API's shape; signs: top-level keys and event names that give it away;
    path_decides: false where others use such paths too (`/api/chat`), so that content that is
    another dialect's overrules them."""

    name: str
    api: Api
    paths: tuple[str, ...]
    decoder: Callable[[], Decoder]
    encoder: Callable[[Reply], Encoder]
    error_body: Callable[[int, str, str], bytes]
    signs: frozenset[str] = frozenset()
    path_decides: bool = True
