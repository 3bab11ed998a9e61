"""What the server saw happen to one exchange, stamped as it happened.

Stamps are `time.perf_counter_ns()`: CLOCK_MONOTONIC on Linux, one clock for all processes of a
host, so they can be laid beside a recording's `clock.zero_ns`. They hold no text.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from latscope.units import Ns


class Sent(NamedTuple):
    """One send: the instant just before it, and which bytes of the body it carried."""

    ns: Ns
    start: int
    stop: int


@dataclass(slots=True, kw_only=True)
class Stamps:
    """Mutable: the server fills it in while the exchange runs. Null is what never happened.

    received_ns: the whole request body was there; queued_ns: the frontend handed it to the engine;
    scheduled_ns: the engine took it up; tokens: when each token existed, hidden ones included;
    closed_ns: the server was done with it (last send, drop, or the client had gone).
    first_sent: index of the first token that was sent at all, first_token_end: the body offset
    just past the frame that carried it; terminal_end: just past the frame that ends the stream by
    its protocol, or the whole body when it is not streamed. Offsets are those of the body before
    any transfer encoding; the server uses no content encoding.
    """

    id: str
    scenario: str
    api: str
    stream: bool
    received_ns: Ns
    status: int | None = None
    queued_ns: Ns | None = None
    scheduled_ns: Ns | None = None
    tokens: list[Ns] = field(default_factory=list)
    first_sent: int | None = None
    first_token_end: int | None = None
    terminal_end: int | None = None
    headers_ns: Ns | None = None
    sends: list[Sent] = field(default_factory=list)
    closed_ns: Ns | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    hidden_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def first_token_ns(self) -> Ns | None:
        """When the first token existed, hidden or not: the end of prefill."""
        return self.tokens[0] if self.tokens else None

    @property
    def last_token_ns(self) -> Ns | None:
        return self.tokens[-1] if self.tokens else None

    @property
    def first_sent_ns(self) -> Ns | None:
        """When the first token existed that the client was ever sent."""
        return None if self.first_sent is None else self.tokens[self.first_sent]


def to_mapping(stamps: Stamps) -> dict[str, Any]:
    """JSON-ready values; `from_mapping` reads them back."""
    return asdict(stamps)


def from_mapping(plain: Mapping[str, Any]) -> Stamps:
    sends = [Sent(*sent) for sent in plain.get("sends", ())]
    return Stamps(**{**plain, "sends": sends})
