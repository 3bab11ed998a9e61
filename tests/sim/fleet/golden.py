"""A recorded case of vLLM's scheduler, replayed on the simulator's. See tests/engines."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from latscope.sim.fleet.scheduler import settle, step
from latscope.sim.fleet.state import Job, Limits, Plan, State

Case = Mapping[str, Any]


def job_of(number: int, one: Mapping[str, Any]) -> Job:
    """The call as the scheduler knows it. Streams: letters of a prefix, of a session, or its own
    number, kept apart as the recording keeps their tokens apart."""
    session = one.get("session")
    return Job(
        number=number,
        prompt=one["prompt"],
        output=one["output"],
        cap=one.get("cap", one["output"]),
        stream=5000 + number if session is None else 3000 + sum(session.encode()),
        prefix=sum(one.get("prefix", "").encode()),
        shared=one.get("shared", 0),
        priority=one.get("priority", 0),
    )


def turns(case: Case) -> Iterator[dict[str, Any]]:
    """The turns the simulator's scheduler takes, in the form of the recording."""
    state = State(Limits(**case["limits"]))
    arrivals = deque(enumerate(case["calls"]))
    under_way: deque[Plan] = deque()
    for turn in range(len(case["turns"]) + 1):
        while arrivals and arrivals[0][1]["turn"] <= turn:
            state.add(job_of(*arrivals.popleft()))
        if not (arrivals or under_way or state.load):
            return
        plan = step(state)
        row: dict[str, Any] = {
            "rows": [[job.number, count] for job, count, _ in plan.rows],
            "admitted": [[job.number, len_found(plan, job)] for job in plan.admitted],
            "preempted": sorted(job.number for job in plan.preempted),
        }
        if plan.rows:
            under_way.append(plan)
        if len(under_way) == state.limits.depth or (under_way and not plan.rows):
            got = settle(state, under_way.popleft())
            row["got"] = [job.number for job in got]
            row["ended"] = [job.number for job in got if job.done]
        row["free"] = state.pool.free
        yield row


def len_found(plan: Plan, job: Job) -> int:
    """Tokens the job found in memory when the plan admitted it."""
    return job.computed - next(count for other, count, _ in plan.rows if other is job)
