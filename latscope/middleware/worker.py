"""The background worker: everything that is done to streams and calls off the caller's path.

One daemon thread a process, started at the first call. It shares the interpreter lock with the
caller, and a Python thread that is simply busy keeps an event loop waiting up to the switch
interval, 5 ms. So work comes as generators that yield often, and before SLICE_NS of it are over the
worker sleeps a moment: the lock is free then, and whoever waits for it takes it.

What reaches the caller: the time to put one item in a queue. Nothing is raised, nothing waits; when
the queue is full the whole call is dropped, counted and, once, logged.
"""

import _thread
import atexit
import contextlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator

from latscope.units import MS, Ns, S

log = logging.getLogger("latscope")

SLICE_NS: Ns = MS // 5
"""How long the worker may hold the interpreter lock at a stretch. One step that cannot be divided
(parsing a request of megabytes: 0.7 ms each) can pass it by its own length."""

PAUSE_NS: Ns = SLICE_NS * 3 // 4
"""When it lets go: nearly every step, 30 us or less, then fits into the rest. Each letting go costs
the process some 10 us, so it is not done sooner."""

REST_S = 0.0001
"""How long it lets go: long enough that a waiting thread is awake and has the lock."""

LIMIT = 1000
"""Jobs that may wait: calls that are over, parts of streams. The call of one that finds the queue
full is dropped."""

LIMIT_BYTES = 64 * 1024 * 1024
"""Payload that may wait."""

STUCK_NS: Ns = 5 * S
"""A job this long in work is a sink that hangs."""

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
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], Ns] = time.perf_counter_ns,
        rest: Callable[[], object] = lambda: time.sleep(REST_S),
    ) -> None:
        self.dropped = 0
        """Calls dropped because the queue was full."""
        self.limit = limit
        self.limit_bytes = limit_bytes
        self.waiting_bytes = 0
        """The weight of what waits."""
        self._clock = clock
        self._rest = rest
        # The one queue that a finaliser may use while its own thread is inside it: a stream that
        # is garbage collected ends its call wherever the collector happens to run.
        self._queue: queue.SimpleQueue[tuple[Job, int] | threading.Event | None]
        self._queue = queue.SimpleQueue()
        self._since: Ns = 0
        """When the job in work was begun; 0 between two."""
        self._starting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._hurry = False
        self._ended = False
        self._ready = False
        self.ending = False
        """The interpreter is about to go: no thread can be started any more."""
        self._said = False
        self._told = 0

    @property
    def pending(self) -> int:
        """Items that wait for their turn; the one in work is not among them."""
        return self._queue.qsize()

    def submit(self, job: Job, *, weight: int = 0) -> bool:
        """Queues the job that ends a call; false when the call was dropped. Never raises, never
        waits. weight: bytes it holds."""
        if self.offer(job, weight=weight):
            return True
        if self.ending and not self._ended:
            self._do(job)
            return True
        self.drop()
        return False

    def offer(self, job: Job, *, weight: int = 0) -> bool:
        """As `submit`, for a part of a call: one that is refused is not counted as a call."""
        full = self._queue.qsize() >= self.limit or self.waiting_bytes > self.limit_bytes
        if full or not self._started():
            return False
        with self._starting:
            self.waiting_bytes += weight
        self._queue.put((job, weight))
        return True

    def drop(self) -> None:
        """Counts a call that is not recorded."""
        with self._starting:
            self.dropped += 1
            stuck = self._clock() - self._since > STUCK_NS
            say = self._since and stuck and not self._said
        if say:  # the worker will not: a sink has not come back
            with contextlib.suppress(RuntimeError):
                _thread.start_new_thread(self._say_dropped, ())

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
        flushed = self.flush(timeout)
        if self.dropped > self._told:
            warn("%d calls were dropped in all", self.dropped)
        if flushed and thread is not None:
            self._ended, self._thread = True, None
            self._queue.put(None)
            thread.join(timeout)

    def _started(self) -> bool:
        if self._thread is not None:
            return True
        with self._starting:
            if self._ended or self.ending:
                return False
            if self._thread is None:
                # Known before it is started: a finaliser that runs in between must not start two.
                self._thread = threading.Thread(target=self._run, name="latscope", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the interpreter is shutting down, or out of threads
                    self._thread = None
                    return False
                self.get_ready()
        return True

    def get_ready(self) -> None:
        """Sees to it that the end of the process flushes; starts no thread."""
        if not self._ready:
            self._ready = True
            _flush_at_exit(self)

    def _do(self, job: Job) -> None:
        try:
            self._work(job())
        except BaseException as error:  # a sink may even call sys.exit
            warn("a recording was lost: %s", type(error).__name__)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            job, weight = item
            self._since = self._clock()
            self._do(job)
            self._since = 0
            with self._starting:
                self.waiting_bytes -= weight
            self._say_dropped()
            del item, job  # not kept until the next call comes

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
            self._said, self._told = True, self.dropped
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
        # It begins by forgetting what its program registered while that was imported.
        children.register_after_fork(worker, _flush_as_child)


def _flush_as_child(worker: Worker) -> None:
    if worker is _worker:
        sys.modules["multiprocessing.util"].Finalize(None, _stop, args=(worker,), exitpriority=0)


before_stop: list[Callable[[], None]] = []
"""Called at the end of the process, before the last flush."""


def _stop(worker: Worker) -> None:
    if worker is _worker:  # not one that a fork left behind: its thread lives in the parent
        worker.ending = True
        for last in before_stop:
            with contextlib.suppress(Exception):
                last()
        worker.stop()


def _after_fork() -> None:
    # The thread did not come along, and what waits in the queue is the parent's to write.
    global _worker
    _worker = Worker()


os.register_at_fork(after_in_child=_after_fork)
