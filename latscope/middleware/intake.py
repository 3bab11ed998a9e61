"""What capture hands its streams and calls to: a queue for the worker, and what he does with them.

The caller's part is `take` and `ended`, a queue's `put` each. Where the worker is too far behind,
the whole call is dropped and counted: a stream with a hole in it would be no recording.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from latscope.capture.build import Ended, consumer
from latscope.capture.recorder import HAND_OVER, AttemptRecorder
from latscope.middleware import worker
from latscope.middleware.body import KEPT_BYTES, Body
from latscope.middleware.pipeline import Plan, process
from latscope.protocols.mask.gradual import GradualMask
from latscope.recording import Attempt, Recording, Sample
from latscope.steps import Steps
from latscope.units import Ns

Write: TypeAlias = Callable[[Recording, object], Iterator[None]]
"""A sink made safe: writes in short steps and never raises. Given with the recording: the context
of its entry."""


class Sampling(NamedTuple):
    """Which calls are kept. rate: the share of them all; slow_ns: from how long on one is kept in
    any case, null for no such; one that failed always is."""

    rate: float = 1.0
    slow_ns: Ns | None = None

    def of(self, recording: Recording) -> Sample | None:
        """Why a call is kept, and how many of its kind are; null for one that is not."""
        if self.rate >= 1:
            return Sample()
        if failed(recording):
            return Sample(why="error")
        end = recording.mark("end")
        if self.slow_ns is not None and end is not None and end >= self.slow_ns:
            return Sample(why="slow")
        if _chosen(recording.call_id, self.rate):
            return Sample(rate=self.rate, why="random")
        return None


class Intake:
    """One instrumented client's. writes: its sinks; limit: bytes of an answer that are kept."""

    def __init__(
        self,
        plan: Plan,
        sampling: Sampling,
        writes: Sequence[Write],
        limit: int = KEPT_BYTES,
    ) -> None:
        self._plan = replace(plan, bodies=False)
        self._sampling = sampling
        self._writes = writes
        self._limit = limit

    def take(self, attempt: AttemptRecorder, reads: list[Any]) -> None:
        """In the caller's path: part of an open stream."""
        if not attempt.lost:
            url = attempt.call.url
            weight = HAND_OVER + len(reads[-1])  # the last one passed it, by its length at most
            job = partial(self._add, attempt, url, reads)
            attempt.lost = not worker.current().offer(job, weight=weight)

    def ended(self, call: Ended) -> None:
        """In the caller's path: a call is over."""
        if any(left.attempt.lost for left in call.attempts):
            worker.current().drop()
            return
        job = partial(self._work, call)
        worker.current().submit(job, weight=HAND_OVER + len(call.sent or b""))

    def _add(self, attempt: AttemptRecorder, url: object, reads: list[Any]) -> Steps[None]:
        if attempt.taken is None:
            attempt.taken = self._body(attempt, url)
        yield from attempt.taken.add(reads)

    def _body(self, attempt: AttemptRecorder, url: object) -> Body:
        mask = GradualMask(keep_content=self._plan.keep_content) if self._plan.mask else None
        return Body(attempt.headers, url, mask, self._limit)

    def _work(self, call: Ended) -> Steps[None]:
        recording = yield from self._recorded(call)
        sample = self._sampling.of(recording)
        if sample is None:
            return
        context = recording.context
        recording = yield from process(replace(recording, sample=sample), self._plan)
        for write in self._writes:
            yield
            yield from write(recording, context)

    def _recorded(self, call: Ended) -> Steps[Recording]:
        """The recording, with the streams as they were taken."""
        recording = call.recording(streams=False)
        attempts: list[Attempt] = []
        held: list[tuple[Ns, Ns]] = []
        faults: list[str] = []
        for left, attempt in zip(call.attempts, recording.attempts, strict=False):
            body = left.attempt.taken or self._body(left.attempt, call.url)
            left.attempt.taken = None
            attempts.append((yield from body.finish(attempt, left.reads, call.zero)))
            held += body.consumed()
            faults += body.faults
            yield
        side = replace(recording.client, consumer=consumer(held, call.zero, call.end_ns))
        broken = (*recording.broken, *faults)
        return replace(recording, attempts=tuple(attempts), client=side, broken=broken)


def failed(recording: Recording) -> bool:
    """Whether anything of the call went wrong: an error at its end, a failed attempt on the way, an
    error told inside the stream."""
    return recording.end.reason == "error" or any(map(_attempt_failed, recording.attempts))


def _attempt_failed(attempt: Attempt) -> bool:
    if attempt.error_type is not None or (attempt.status or 0) >= 400:
        return True
    if attempt.events is not None:
        return any(row.kind == "error" for row in attempt.events)
    return attempt.body is not None and _ERROR(attempt.body) is not None


_ERROR = re.compile(
    rb'^event: ?error|"error"\s*:\s*[{"]|"type"\s*:\s*"error"|:exception-type\x07', re.MULTILINE
).search
"""How every API says inside a stream that it failed. The mask leaves these words."""


def _chosen(call_id: str, rate: float) -> bool:
    # By the call's own random id: no random state of ours or of the application's is touched.
    return zlib.crc32(call_id.encode()) < rate * 2**32
