"""The sink in memory: the last calls, for `latscope.recent()`."""

from collections import deque

from latscope.recording import Recording


class RingSink:
    """Keeps the last `limit` recordings it is given, as given: the worker masks them before."""

    def __init__(self, limit: int = 1000) -> None:
        # Appending to and listing a deque are single steps of the interpreter: no lock, so none
        # that a fork could leave held.
        self._calls: deque[Recording] = deque(maxlen=limit)

    def write(self, recording: Recording) -> None:
        self._calls.append(recording)

    def recent(self, n: int | None = None) -> list[Recording]:
        """The last `n` recordings (all when null), oldest first."""
        calls = list(self._calls)
        return calls if n is None else calls[max(0, len(calls) - max(0, n)) :]

    def clear(self) -> None:
        self._calls.clear()

    def __repr__(self) -> str:
        return f"RingSink({len(self._calls)} of {self._calls.maxlen})"
