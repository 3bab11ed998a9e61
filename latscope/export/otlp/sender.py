"""Requests to a collector, repeated where that may help, and what became of every item."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Generic, TypeVar

from latscope.export.otlp.settings import Way
from latscope.export.otlp.transport import Answer, Transport

Item = TypeVar("Item")

FIRST_S = 1.0
MOST_S = 30.0
"""The wait before a first and before a late repetition, where the collector states none."""
PATIENCE_S = 60.0
"""How long one request is repeated before the signal is given up."""


@dataclass(slots=True, kw_only=True)
class Sender(Generic[Item]):
    """Mutable: one signal's counts. pack: items as a request's body; size: what they count for.

    Every item offered ends as taken, rejected (by name, in a request that was taken), refused
    (with the whole request) or unsent (after the signal was given up).
    """

    way: Way
    transport: Transport
    pack: Callable[[Sequence[Item]], bytes]
    size: Callable[[Item], int] = lambda _: 1
    patience_s: float = PATIENCE_S
    wait: Callable[[float], None] = sleep
    clock: Callable[[], float] = monotonic
    jitter: Callable[[], float] = random.random
    waiting: Callable[[str], None] = lambda _: None
    """Told why and how long the next repetition waits."""
    taken: int = 0
    rejected: int = 0
    refused: int = 0
    unsent: int = 0
    requests: int = 0
    repeats: int = 0
    said: Counter[str] = field(default_factory=Counter)
    """The collector's words for what it left out, and how many items each was about."""
    given_up: str | None = None
    """Why nothing more is sent; null while all is well."""
    unreachable: bool = False

    def send(self, items: Sequence[Item]) -> None:
        """Sends them, in smaller requests where the collector wants that. Never raises for what
        it does."""
        if not items:
            return
        n = sum(self.size(item) for item in items)
        if self.given_up is not None:
            self.unsent += n
            return
        answer = self._answer(self.pack(items))
        if answer.became == "larger" and len(items) > 1:
            middle = len(items) // 2
            self.send(items[:middle])
            self.send(items[middle:])
            return
        self._count(answer, n)

    def _answer(self, body: bytes) -> Answer:
        """The last answer: one that no repetition will change, or `later` when patience ended."""
        until = self.clock() + self.patience_s
        backoff = FIRST_S
        while True:
            answer = self.transport.send(body)
            self.requests += 1
            again = answer.became == "later" or (answer.became == "away" and self._was_there)
            pause = self._pause(answer, backoff)
            if not again or self.clock() + pause > until:
                return answer
            self.waiting(f"{answer.said}; asking again in {pause:.0f} s")
            self.wait(pause)
            self.repeats += 1
            backoff = min(MOST_S, backoff * 2)

    @property
    def _was_there(self) -> bool:
        """Whether it has answered before: then it may come back. A first connection that fails is
        more often a wrong address, and is told at once."""
        return self.taken + self.rejected + self.refused > 0

    def _pause(self, answer: Answer, backoff: float) -> float:
        """What the collector asks for, else a back-off; spread, so that many come apart."""
        spread = 0.5 + 0.5 * self.jitter()
        return backoff * spread if answer.after_s is None else answer.after_s + 0.1 * spread

    def _count(self, answer: Answer, n: int) -> None:
        if answer.became == "taken":
            rejected = min(n, answer.rejected)
            self.taken += n - rejected
            self.rejected += rejected
            if answer.said:  # also a warning about items it took
                self.said[answer.said] += rejected
            return
        if answer.became in ("refused", "larger"):
            self.refused += n
            self.said[answer.said] += n
            return
        self.unsent += n
        self.unreachable = answer.became in ("away", "later")
        self.given_up = answer.said
