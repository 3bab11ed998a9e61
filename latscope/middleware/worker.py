"""The background worker: everything that is done to a recording after its call is over.

One daemon thread a process, started at the first call. It shares the interpreter lock with the
caller, and a Python thread that is simply busy keeps an event loop waiting up to the switch
interval, 5 ms. So work comes as generators that yield often, and before SLICE_NS of it are over the
worker sleeps a moment: the lock is free then, and whoever waits for it takes it.

What reaches the caller: the time to put one item in a queue. Nothing is raised, nothing waits; when
the queue is full the whole call is dropped, counted and, once, logged.
"""

import atexit
import contextlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator

from latscope.units import MS, Ns

log = logging.getLogger("latscope")

SLICE_NS: Ns = MS // 5
"""How long the worker may hold the interpreter lock at a stretch. One step that cannot be divided
(parsing a request of megabytes: 0.7 ms each) can pass it by its own length."""

PAUSE_NS: Ns = SLICE_NS // 2
"""When it lets go: the step in work then fits into the other half."""

REST_S = 0.0001
"""How long it lets go: long enough that a waiting thread is awake and has the lock."""

LIMIT = 1000
"""Recordings that may wait; the one that finds the queue full is dropped."""

EXIT_S = 2.0
"""How long the end of the interpreter waits for recordings still in the queue."""


def warn(message: str, *about: object) -> None:
    """Logs; whatever the application's filters and handlers do, nothing is raised."""
    with contextlib.suppress(Exception):
        log.warning(message, *about)


Job = Callable[[], Iterator[None]]
"""All the work for one recording; run by iterating."""


class Worker:
    """`submit` from anywhere, `flush` to wait. The clock and the rest are given, for tests."""

    def __init__(
        self,
        *,
        limit: int = LIMIT,
        clock: Callable[[], Ns] = time.perf_counter_ns,
        rest: Callable[[], object] = lambda: time.sleep(REST_S),
    ) -> None:
        self.dropped = 0
        """Calls dropped because the queue was full."""
        self.limit = limit
        self._clock = clock
        self._rest = rest
        # The one queue that a finaliser may use while its own thread is inside it: a stream that
        # is garbage collected ends its call wherever the collector happens to run.
        self._queue: queue.SimpleQueue[Job | threading.Event | None] = queue.SimpleQueue()
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._hurry = False
        self._ended = False
        self._said = False

    @property
    def pending(self) -> int:
        """Items that wait for their turn; the one in work is not among them."""
        return self._queue.qsize()

    def submit(self, job: Job) -> bool:
        """Queues the job; false when it was dropped. Never raises, never waits."""
        if self._queue.qsize() >= self.limit or not self._started():
            with self._starting:
                self.dropped += 1
            return False
        self._queue.put(job)
        return True

    def flush(self, timeout: float = 5.0) -> bool:
        """Waits until every job submitted before is done; false when the time was not enough."""
        if self._thread is None:
            return True
        if self._thread is threading.current_thread():
            return False  # called from a sink: the worker cannot wait for itself
        reached = threading.Event()
        self._queue.put(reached)
        done = reached.wait(timeout)
        if not done:
            warn("flush: recordings still wait after %g s, one of them in work", timeout)
        self._say_dropped()
        return done

    def stop(self, timeout: float = EXIT_S) -> None:
        """Flushes without resting, then ends the thread; for the end of the process. A call that
        comes later is dropped."""
        self._hurry = True
        thread = self._thread
        if self.flush(timeout) and thread is not None:
            self._ended, self._thread = True, None
            self._queue.put(None)
            thread.join(timeout)

    def _started(self) -> bool:
        if self._thread is not None:
            return True
        with self._starting:
            if self._ended:
                return False
            if self._thread is None:
                # Known before it is started: a finaliser that runs in between must not start two.
                self._thread = threading.Thread(target=self._run, name="latscope", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is shutting down, or out of threads
                    self._thread = None
                    return False
                _flush_at_exit(self)
        return True

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            try:
                self._work(item())
            except BaseException as error:  # a sink may even call sys.exit
                warn("a recording was lost: %s", type(error).__name__)
            self._say_dropped()
            del item  # not kept until the next call comes

    def _work(self, steps: Iterator[None]) -> None:
        began = self._clock()
        for _ in steps:
            if self._clock() - began >= PAUSE_NS and not self._hurry:
                self._rest()
                began = self._clock()
        if not self._hurry:
            self._rest()

    def _say_dropped(self) -> None:
        # By the worker or by whoever flushes, never in the path of a call: a logging handler may
        # be slow, and a warning may be an error.
        if self.dropped and not self._said:
            self._said = True
            warn("more calls than can be recorded: at least %d dropped", self.dropped)


_worker = Worker()


def current() -> Worker:
    """This process's worker."""
    return _worker


def _flush_at_exit(worker: Worker) -> None:
    atexit.register(_stop, worker)
    # A child of multiprocessing ends without running atexit.
    children = sys.modules.get("multiprocessing.util")
    if children is not None:
        children.Finalize(None, _stop, args=(worker,), exitpriority=0)


before_stop: list[Callable[[], None]] = []
"""Called at the end of the process, before the last flush."""


def _stop(worker: Worker) -> None:
    if worker is _worker:  # not one that a fork left behind: its thread lives in the parent
        for last in before_stop:
            with contextlib.suppress(Exception):
                last()
        worker.stop()


def _after_fork() -> None:
    # The thread did not come along, and what waits in the queue is the parent's to write.
    global _worker
    _worker = Worker()


os.register_at_fork(after_in_child=_after_fork)
