"""Attempt marks from inside the Anthropic SDK's retry loop, through its own middleware.

    client = Anthropic(middleware=[AttemptMarks()])
    latscope.instrument(client)

The transport's hook sees each HTTP exchange, and its count of retries only where the SDK sends it
as a header. From inside the loop two things more are known: which try an exchange belongs to,
header or not, and when the SDK began it, before credentials were fetched and other middleware ran.
So that time is the client's own, and no longer looks like the wait for a retry. Nothing is recorded
twice: what is seen here is written on the attempts of the call that is open, and without one (a
client that is not instrumented) nothing is.
"""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from latscope.capture.recorder import CURRENT, Call
from latscope.errors import UsageError
from latscope.units import Ns

try:
    from anthropic import Middleware
except ImportError as missing:  # none, or one from before it had middleware
    raise UsageError(
        "AttemptMarks needs an Anthropic SDK that has middleware: pip install -U anthropic"
    ) from missing

Response = TypeVar("Response")


class AttemptMarks(Middleware):
    """Put first, so that what the others take is seen. Changes no request and no response; what is
    raised passes."""

    def handle(self, request: Any, call_next: Callable[[Any], Response]) -> Response:
        begun = _Begun()
        try:
            return call_next(request)
        finally:
            begun.mark(request)

    async def handle_async(
        self, request: Any, call_next: Callable[[Any], Awaitable[Response]]
    ) -> Response:
        begun = _Begun()
        try:
            return await call_next(request)
        finally:
            begun.mark(request)


class _Begun:
    """A try the SDK has begun: the call that is open, and how many exchanges it had."""

    __slots__ = ("at", "call", "known")

    def __init__(self) -> None:
        self.at: Ns = time.perf_counter_ns()
        self.call: Call | None = None
        self.known = 0
        with suppress(Exception):
            self.call = CURRENT.get()
            self.known = 0 if self.call is None else len(self.call.attempts)

    def mark(self, request: Any) -> None:
        """On the exchanges made since: redirects are of the same try."""
        if self.call is None:
            return
        with suppress(Exception):
            made = self.call.attempts[self.known :]
            for attempt in made:
                if attempt.retry_count is None:
                    attempt.retry_count = request.retries_taken
            for attempt in made[:1]:
                attempt.marks.insert(1, ("attempt", self.at))
