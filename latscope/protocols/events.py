"""The event: what a frame means, the same words for every dialect.

A dialect turns frames into events and nothing else; only `timeline` decides what they add up to.

    channels     reasoning, content, tool_call, refusal: they carry tokens when `size` > 0
    not tokens   role, empty, usage, ping, comment, lifecycle, filter, finish, done, error, unknown

`empty` is a delta that carries no output (a role-only or blank chunk), `filter` a content-filter
annotation without text, `lifecycle` an envelope event (`response.created`, `message_start`,
`content_block_start`), `done` the event that ends a stream by its protocol, `finish` a choice's
finish reason. A tool-call delta counts as a token from its first name or argument byte on.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from latscope.units import Ns

EventKind = Literal[
    "role",
    "reasoning",
    "content",
    "tool_call",
    "refusal",
    "usage",
    "ping",
    "comment",
    "error",
    "finish",
    "done",
    "lifecycle",
    "filter",
    "empty",
    "unknown",
]

TOKEN_KINDS: frozenset[str] = frozenset({"reasoning", "content", "tool_call", "refusal"})
"""Channels a model writes tokens to."""

VISIBLE_KINDS: frozenset[str] = frozenset({"content", "refusal"})
"""Channels whose text a person is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts as the server states them, in one meaning for every vendor.

    input_tokens counts the whole prompt, cached and cache-written tokens included (Anthropic's own
    input_tokens excludes both; its dialect adds them). cached_tokens: read from a prefix cache.
    cache_write_tokens: newly written to one. output_tokens includes reasoning_tokens.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


Covers = Literal[
    "queue.engine",  # the engine has it -> scheduled
    "queue.frontend",  # the model server has the request -> the engine has it
    "prefill",  # scheduled -> first token exists
    "decode",  # first -> last token exists
    "queue+prefill",  # the model server has the request -> first token exists
    "prefill+decode",  # scheduled -> last token exists
    "queue+prefill+decode",  # the model server has the request -> last token exists
    "headers",  # a server or hop has the request -> its response head leaves
    "network.gateway",  # what a hop worked on its own, beside waiting for what is behind it
    "stated",  # shown, but no interval of the call is surely filled by it
]
"""What part of a call a figure can fill. A joint one fills the sum of its parts, no single one."""

Milestone = Literal["", "waiting", "scheduled", "prefilled"]
"""What an event proves of the server at the time it was sent: the request was still waiting to be
scheduled; its prompt was being (or about to be) processed; its prompt was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One duration the server states of itself.

    source: who says it (`vllm.metrics`, `llama.timings`); field: its name there, or the sum or
    difference of names; covers: the part it fills; ns: the duration; resolution_ns: how coarsely it
    is stated (1 for a float, 1 ms for an integer of milliseconds). Figures order by their duration:
    of nested ones the smallest is the innermost.
    """

    source: str
    field: str
    covers: Covers
    ns: Ns
    resolution_ns: Ns = 1

    def __lt__(self, other: "Reported") -> bool:
        return (self.ns, self.source, self.field) < (other.ns, other.source, other.field)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What an event tells of the call as a whole; every field null when it does not."""

    model: str | None = None
    response_id: str | None = None
    service_tier: str | None = None
    fingerprint: str | None = None


class Event(NamedTuple):
    """kind and when: `ns` is the arrival of its frame's last byte, `end` that byte's offset + 1.

    choice: index of the choice or output it belongs to. size: bytes of output text it carries
    (0 for none). name: finish reason, error type, lifecycle event name, comment text's first word.
    code: error code. tokens: how many tokens it stands for, where the server says (from
    continuous usage or logprobs). opens_think: the text contains a literal `<think>`. milestone:
    see Milestone. A bare tuple: one is made for every token.
    """

    kind: EventKind
    ns: Ns
    end: int
    choice: int = 0
    size: int = 0
    tokens: int | None = None
    name: str = ""
    code: str = ""
    opens_think: bool = False
    milestone: Milestone = ""
    usage: Usage | None = None
    reported: tuple[Reported, ...] = ()
    facts: Facts | None = None
