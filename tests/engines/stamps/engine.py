"""Stamps in vLLM's engine process: `vllm serve --scheduler-cls <this>.StampedScheduler`.

vLLM's own scheduler, which decides all; this notes, of each request and on the clock the front end
and the client share:

    queued_ns      the engine had taken it off its input
    scheduled_ns   [before, after] the scheduling that took it up first
    tokens         for each of its tokens, [before, after] the taking in of the model's output that
                   it was part of: by the one it existed, by the other the engine had it
    steps          how many steps it was part of before its first token: chunks of its prompt
    preemptions    how often it was thrown out and started over

These are readings of our own around the events vLLM's per-request figures are about, not those
figures; the two are compared (`truth`), and what an answer carries is never used as truth.
"""

from importlib import import_module
from time import perf_counter_ns
from typing import Any

from tests.engines.stamps.lines import append

# Not imported by name: vLLM is in no environment but its own.
Scheduler: Any = import_module("vllm.v1.core.sched.scheduler").Scheduler


class StampedScheduler(Scheduler):  # type: ignore[misc]
    """The synchronous scheduler: what vLLM runs on a CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lines: dict[str, dict[str, Any]] = {}

    def add_request(self, request: Any) -> None:
        super().add_request(request)
        self._lines[request.request_id] = {
            "id": request.request_id,
            "queued_ns": perf_counter_ns(),
            "prompt_tokens": request.num_prompt_tokens,
            "steps": 0,
            "tokens": [],
        }

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        at = perf_counter_ns()
        planned = super().schedule(*args, **kwargs)
        after = perf_counter_ns()
        for name in planned.num_scheduled_tokens:
            line = self._lines[name]
            line.setdefault("scheduled_ns", [at, after])
            line["steps"] += not line["tokens"]
        return planned

    def update_from_output(self, planned: Any, outcome: Any) -> Any:
        at = perf_counter_ns()
        running = {name: self.requests.get(name) for name in planned.num_scheduled_tokens}
        answers = super().update_from_output(planned, outcome)
        after = perf_counter_ns()
        for answer in (one for batch in answers.values() for one in batch.outputs):
            self._lines[answer.request_id]["tokens"] += [[at, after]] * len(answer.new_token_ids)
            if answer.finish_reason is not None:
                request = running[answer.request_id]
                line = self._lines.pop(answer.request_id)
                append("engine", {**line, "preemptions": getattr(request, "num_preemptions", None)})
        return answers
