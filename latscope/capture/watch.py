"""What the caller's own process was at while calls were open: a loop that was late, collections.

A `Watch` belongs to one call. While at least one is open, one callback listens to the garbage
collector, and each asyncio loop with calls has one beat of 20 ms that all of them share; with the
last call both are gone. Nothing watches trio: it has no timer that leaves no task behind.

No locks, as everywhere here: sets and dicts are changed by single atomic steps, and the last one
to leave finds the set empty whoever else was leaving. A call that is lost unfinished takes its
watch along.
"""

import gc
import heapq
import sys
import time
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeAlias
from weakref import WeakSet

from latscope.units import MS, Ns, S

now = time.perf_counter_ns

BEAT: Ns = 20 * MS
LATE: Ns = 5 * MS
"""A beat later than this is noted: timers of an idle loop are late by one or two milliseconds."""
PAUSE: Ns = MS
"""A collection longer than this is noted."""
KEEP = 256
"""Stretches kept of each kind and call: the longest."""

Stretches: TypeAlias = list[tuple[Ns, Ns]]
"""A heap of (length, begin), the shortest on top."""

_open: "WeakSet[Watch]" = WeakSet()
_beats: dict[Any, "Beat"] = {}
"""Running loop -> its beat."""
_collecting: Ns | None = None
"""When the collection that is going on began; null when none is, or it was not seen to begin."""


class Watch:
    """The stretches that hindered one call, until it is closed. May be opened again."""

    __slots__ = ("__weakref__", "beat", "gc", "late")

    def __init__(self) -> None:
        self.beat: Beat | None = None
        self.late: Stretches = []
        self.gc: Stretches = []

    def open(self, *, loop: bool) -> None:
        """From now on. loop: the call waits in the running asyncio loop, if there is one."""
        global _collecting
        _open.add(self)
        if _listen not in gc.callbacks:
            _collecting = None
            gc.callbacks.append(_listen)
        running = _running_loop() if loop else None
        if running is not None:
            beat = _beats.get(running)
            if beat is None:
                beat = Beat(running)
                beat.next()
                _beats[running] = beat
            beat.watches.add(self)
            self.beat = beat

    def close(self) -> None:
        """No longer; a second time is none."""
        beat, self.beat = self.beat, None
        if beat is not None:
            late = now() - beat.due
            if late > LATE:  # it is owed, and will not come in this call's time
                keep(self.late, beat.due, late)
            with suppress(Exception):  # another's loop: the timer finds itself alone and ends
                beat.leave(self)
        _open.discard(self)
        if not _open:
            with suppress(ValueError):  # two threads that opened at once may have put in two
                while True:
                    gc.callbacks.remove(_listen)

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter is going down
            return


class Beat:
    """One loop's timer, 20 ms after it last ran, for as long as calls of that loop are open."""

    __slots__ = ("_context", "_handle", "due", "loop", "watches")

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.watches: WeakSet[Watch] = WeakSet()
        self.due: Ns = 0
        self._handle: Any = None
        # An empty one of its own: the caller's would be kept alive by the timer.
        self._context = Context()

    def next(self) -> None:
        self.due = now() + BEAT
        self._handle = self.loop.call_later(BEAT / S, self._ran, context=self._context)

    def leave(self, watch: Watch) -> None:
        self.watches.discard(watch)
        # Another thread must not touch the timer of a loop that runs: it ends by itself then.
        if not self.watches and (_running_loop() is self.loop or not self.loop.is_running()):
            self._handle.cancel()
            _beats.pop(self.loop, None)

    def _ran(self) -> None:
        late = now() - self.due
        if late > LATE:
            with suppress(RuntimeError):  # another thread's call ended in between
                for watch in self.watches:
                    keep(watch.late, self.due, late)
        with suppress(Exception):  # the loop would log it; the beat ends instead
            if self.watches:
                self.next()
                return
        _beats.pop(self.loop, None)
        self.due = sys.maxsize  # nothing is owed any more


def keep(stretches: Stretches, begin: Ns, length: Ns) -> None:
    """Adds a stretch; past KEEP of them the shortest goes."""
    if len(stretches) < KEEP:
        heapq.heappush(stretches, (length, begin))
    else:
        heapq.heappushpop(stretches, (length, begin))


def within(stretches: Stretches, zero: Ns, end: Ns, least: Ns) -> tuple[tuple[Ns, Ns], ...]:
    """(begin, length) in order, as offsets from `zero`, what lies outside of the call cut off;
    those that are no longer over `least` then are left out."""
    cut = ((max(begin, zero), min(begin + length, end)) for length, begin in stretches)
    return tuple(sorted((a - zero, b - a) for a, b in cut if b - a > least))


def _listen(phase: str, info: object) -> None:
    global _collecting
    try:
        stamp = now()
        if phase == "start":
            _collecting = stamp
            return
        began, _collecting = _collecting, None
        if began is not None and stamp - began > PAUSE:
            for watch in _open:
                keep(watch.gc, began, stamp - began)
    except Exception:
        return


def _running_loop() -> Any:
    """The asyncio loop this thread is inside of, or null; loads nothing."""
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.get_running_loop()
    except RuntimeError:
        return None
