"""The sink in memory: the last calls, for `latscope.recent()`."""

from collections import deque

from latscope.recording import Recording


class RingSink:
    """Keeps the last `limit` recordings it is given, as given: the worker masks them before. Fewer
    where they would take up more than about `limit_bytes`, but always the last."""

    def __init__(self, limit: int = 1000, limit_bytes: int = 64 * 1024 * 1024) -> None:
        # Appending to, shortening and listing a deque are single steps of the interpreter: no lock,
        # so none that a fork could leave held.
        self._calls: deque[tuple[Recording, int]] = deque()
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._held = 0

    def write(self, recording: Recording) -> None:
        """One writer at a time, as the worker is."""
        self._calls.append((recording, size(recording)))
        self._held += self._calls[-1][1]
        while len(self._calls) > 1 and self._over():
            self._held -= self._calls.popleft()[1]

    def _over(self) -> bool:
        return len(self._calls) > self._limit or self._held > self._limit_bytes

    def recent(self, n: int | None = None) -> list[Recording]:
        """The last `n` recordings (all when null), oldest first."""
        calls = [recording for recording, _ in list(self._calls)]
        return calls if n is None else calls[max(0, len(calls) - max(0, n)) :]

    def clear(self) -> None:
        self._calls.clear()
        self._held = 0

    def __repr__(self) -> str:
        return f"RingSink({len(self._calls)} of {self._limit})"


_A_CALL, _A_READ, _AN_EVENT = 8192, 256, 160
"""Bytes that the objects of one take up, about."""


def size(recording: Recording) -> int:
    """About how much memory a recording takes up, in bytes."""
    held = _A_CALL
    for attempt in recording.attempts:
        held += len(attempt.body or b"")
        held += _A_READ * len(attempt.reads) + _AN_EVENT * len(attempt.events or ())
    return held
