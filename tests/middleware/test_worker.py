"""The worker: bounded, in slices, out of the caller's way, and gone without a trace at the end."""

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from latscope.middleware.worker import PAUSE_NS, Job, Worker, current

ROOT = Path(__file__).parents[2]


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker(limit=3, rest=lambda: None)
    yield made
    made.stop()


def job(done: Callable[[], object]) -> Job:
    def steps() -> Iterator[None]:
        done()
        yield

    return steps


class Gate:
    """A job that holds the worker until it is opened."""

    def __init__(self, worker: Worker) -> None:
        self._open = threading.Event()
        reached = threading.Event()

        def hold() -> None:
            reached.set()
            assert self._open.wait(20)

        worker.submit(job(hold))
        assert reached.wait(20)

    def open(self) -> None:
        self._open.set()


def test_no_thread_runs_before_the_first_call() -> None:
    made = Worker()
    before = threading.active_count()
    assert made.flush(0)
    made.stop()
    assert threading.active_count() == before


def test_jobs_run_in_order_and_flush_waits_for_them(worker: Worker) -> None:
    done: list[int] = []
    gate = Gate(worker)
    for number in range(3):
        assert worker.submit(job(partial(done.append, number)))
    assert worker.pending == 3
    gate.open()
    assert worker.flush(20)
    assert done == [0, 1, 2]


def test_a_full_queue_drops_whole_calls_counted_and_said_once(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []
    gate = Gate(worker)
    kept = [worker.submit(job(partial(done.append, n))) for n in range(5)]
    assert kept == [True, True, True, False, False]
    assert caplog.records == []  # nothing is logged in the path of a call
    gate.open()
    assert worker.flush(20)
    assert (done, worker.dropped) == ([0, 1, 2], 2)
    assert [record.getMessage() for record in caplog.records] == [
        "more calls than can be recorded: at least 2 dropped"
    ]
    gate = Gate(worker)
    assert [worker.submit(job(lambda: None)) for _ in range(4)] == [True, True, True, False]
    gate.open()
    assert worker.flush(20)
    assert (worker.dropped, len(caplog.records)) == (3, 1)


@pytest.mark.parametrize(("step_ns", "a_slice"), [(PAUSE_NS // 4, 4), (PAUSE_NS, 1), (1, 100)])
def test_the_worker_rests_after_each_slice_of_work(step_ns: int, a_slice: int) -> None:
    """By its clock no slice is longer than 0.15 ms and a step, nor shorter than that but for the
    last of a job; after each job it rests too."""
    now = 0
    log: list[str] = []

    def steps() -> Iterator[None]:
        nonlocal now
        for _ in range(100):
            now += step_ns
            log.append("step")
            yield

    worker = Worker(clock=lambda: now, rest=lambda: log.append("rest"))
    worker.submit(steps)
    assert worker.flush(20)
    whole = ["step"] * a_slice + ["rest"]
    assert log[: len(whole) * (100 // a_slice)] == whole * (100 // a_slice)
    assert log.count("step") == 100
    assert log[-1] == "rest"
    worker.stop()


def test_at_the_end_it_does_not_rest() -> None:
    rested: list[int] = []
    worker = Worker(clock=iter(range(0, 10**12, PAUSE_NS)).__next__, rest=lambda: rested.append(1))

    def until_stopped() -> None:
        while not worker._hurry:
            time.sleep(0.001)

    worker.submit(job(until_stopped))
    worker.submit(job(lambda: None))
    worker.stop(20)
    assert rested == []


@pytest.mark.parametrize("error", [ValueError("a secret"), SystemExit(3)])
def test_a_job_that_raises_costs_itself_only(
    worker: Worker, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the error's type and never its message."""
    done: list[str] = []

    def broken() -> None:
        raise error

    worker.submit(job(broken))
    worker.submit(job(lambda: done.append("next")))
    assert worker.flush(20)
    assert done == ["next"]
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text


def test_flush_says_when_the_time_was_not_enough(
    worker: Worker, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate(worker)
    assert not worker.flush(0.01)
    assert "still wait" in caplog.text
    gate.open()
    assert worker.flush(20)


def test_flush_from_a_sink_does_not_wait_for_itself(worker: Worker) -> None:
    flushed: list[bool] = []
    worker.submit(job(lambda: flushed.append(worker.flush(20))))
    assert worker.flush(20)
    assert flushed == [False]


def test_a_call_that_ends_in_a_finaliser_is_kept(worker: Worker) -> None:
    """A stream collected as garbage ends its call wherever the collector runs, be it the worker."""
    done: list[str] = []

    class Stream:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            worker.submit(job(lambda: done.append(threading.current_thread().name)))

    def collect() -> None:
        Stream()
        gc.collect()

    worker.submit(job(collect))
    assert worker.flush(20)
    assert worker.flush(20)  # the second marker is queued behind what the finaliser queued
    assert done == ["latscope"]


def test_without_a_thread_to_be_had_calls_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As at the end of the interpreter: the call goes on, the recording is lost and counted."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    worker = Worker()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert not worker.submit(job(lambda: None))
    assert worker.dropped == 1
    assert worker.flush()


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_worker_of_its_own() -> None:
    """What waits in the parent is written by the parent alone; the child's calls by the child."""
    reading, writing = os.pipe()

    def say(text: bytes) -> Job:
        return job(lambda: os.write(writing, text))

    gate = Gate(current())
    current().submit(say(b"parent "))
    child = os.fork()
    if not child:
        signal.alarm(20)
        fresh = current().pending == 0
        current().submit(say(b"child " if fresh else b"stale "))
        os._exit(0 if current().flush(15) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    gate.open()
    assert current().flush(20)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"child parent "


END = """
import sys, time
from latscope.middleware import worker

def steps():
    {work}
    print("written", flush=True)
    yield

def main():
    worker.current().submit(steps)
"""


UNTIL_THE_END = "while not worker.current()._hurry: time.sleep(0.001)"


def ran(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def test_the_end_of_the_program_waits_for_what_is_queued() -> None:
    """And is quiet."""
    end = ran(END.format(work=UNTIL_THE_END) + "main()")
    assert (end.stdout, end.stderr, end.returncode) == ("written\n", "", 0)


def test_the_end_of_the_program_does_not_wait_for_ever() -> None:
    """A sink that hangs holds the program up for the deadline, 2 s; it says so, and exits as it
    would have."""
    end = ran(END.format(work="time.sleep(600)") + "main()\nsys.exit(7)")
    assert (end.stdout, end.returncode) == ("", 7)
    assert end.stderr.splitlines() == [
        "flush: recordings still wait after 2 s, one of them in work"
    ]


def test_a_child_of_multiprocessing_writes_before_it_ends() -> None:
    """It ends without atexit."""
    children = END.format(work=UNTIL_THE_END) + (
        "import multiprocessing\n"
        "child = multiprocessing.get_context('fork').Process(target=main)\n"
        "child.start(); child.join(); sys.exit(child.exitcode)"
    )
    end = ran(children)
    assert (end.stdout, end.stderr, end.returncode) == ("written\n", "", 0)


def test_a_call_after_the_end_is_dropped_quietly() -> None:
    """One made by an exit handler that runs after ours; nobody waits for it."""
    late = (
        "import atexit\n"
        "def late():\n"
        "    main()\n"
        "    print(worker.current().flush(0), worker.current().dropped)\n"
        "atexit.register(late)\n"
    )
    end = ran(END.format(work="pass") + late + "main()")
    assert (end.stdout, end.stderr, end.returncode) == ("written\nTrue 1\n", "", 0)


def test_a_logging_filter_that_raises_ends_neither_worker_nor_caller(worker: Worker) -> None:
    """The application's own logging set-up runs in our thread, and in that of who flushes."""

    def refuse(record: logging.LogRecord) -> bool:
        raise RuntimeError

    log, done = logging.getLogger("latscope"), []
    log.addFilter(refuse)
    try:
        worker.submit(job(lambda: 1 / 0))
        worker.submit(job(lambda: done.append(1)))
        assert worker.flush(5)
    finally:
        log.removeFilter(refuse)
    assert done == [1]
