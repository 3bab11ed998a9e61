"""The scheduler's own laws, on any traffic and any limits."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latscope.sim.fleet.scheduler import settle, step
from latscope.sim.fleet.state import Job, Limits, Plan, State

BLOCK = 4


@dataclass
class Turn:
    """state: after planning and before the outcome; plan; got: the calls that get a token."""

    state: State
    plan: Plan
    got: Sequence[Job] = ()


def job(number: int, prompt: int, output: int, **more: Any) -> Job:
    fields = {"cap": output, "stream": 10 + number, **more}
    return Job(number=number, prompt=prompt, output=output, **fields)


def play(limits: Limits, jobs: Sequence[tuple[int, Job]]) -> Iterator[Turn]:
    """Turns until all are served; jobs: (turn of arrival, job), in order."""
    state, arrivals, under_way = State(limits), deque(jobs), deque[Plan]()
    for turn in range(20_000):
        while arrivals and arrivals[0][0] <= turn:
            state.add(arrivals.popleft()[1])
        if not (arrivals or under_way or state.load):
            return
        now = Turn(state, step(state))
        yield now
        if now.plan.rows:
            under_way.append(now.plan)
        if len(under_way) == limits.depth or (under_way and not now.plan.rows):
            now.got = settle(state, under_way.popleft())
    raise AssertionError("calls nobody serves")


@st.composite
def traffic(draw: st.DrawFn) -> tuple[Limits, list[tuple[int, Job]]]:
    blocks = draw(st.integers(6, 40))
    limits = Limits(
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=draw(st.integers(6, 40)),
        long_prefill=draw(st.sampled_from((0, 0, 5))),
        blocks=blocks,
        block_size=BLOCK,
        caching=draw(st.booleans()),
        policy=draw(st.sampled_from(("fcfs", "priority"))),
        depth=draw(st.sampled_from((1, 2))),
    )
    jobs, turn = [], 0
    for number in range(draw(st.integers(1, 12))):
        turn += draw(st.integers(0, 4))
        prompt = draw(st.integers(1, blocks * BLOCK // 2))
        output = draw(st.integers(1, blocks * BLOCK // 2))
        shared = draw(st.integers(0, prompt))
        spare = draw(st.sampled_from((0, 0, 3)))
        more = {"cap": output + spare, "prefix": draw(st.integers(1, 2)), "shared": shared}
        jobs.append((turn, job(number, prompt, output, priority=draw(st.integers(0, 2)), **more)))
    return limits, jobs


@settings(max_examples=150, deadline=None)
@given(traffic())
def test_limits_hold_and_tokens_and_blocks_are_conserved(
    drawn: tuple[Limits, list[tuple[int, Job]]],
) -> None:
    """At every step: the budget, the places, one row a call; blocks held are blocks not free, each
    by as many calls as its count says; and in the end every call has got exactly its output."""
    limits, jobs = drawn
    got: Counter[int] = Counter()
    turns = []
    for turn in play(limits, jobs):
        turns.append(turn)
        rows = turn.plan.rows
        assert turn.plan.tokens <= limits.max_num_batched_tokens
        assert len(turn.state.running) <= limits.max_num_seqs
        assert len({row[0].number for row in rows}) == len(rows)
        assert all(count > 0 for _, count, _ in rows)
        held = [block for one in turn.state.running for block in one.blocks]
        assert turn.state.pool.used == len({id(block) for block in held})
        assert all(block.refs == held.count(block) for block in held)
        for one in turn.state.running:
            assert one.computed <= len(one.blocks) * BLOCK < one.computed + BLOCK
    for turn in turns:
        got.update(one.number for one in turn.got)
    assert got == {one.number: one.output for _, one in jobs}
    assert turns[-1].state.pool.free == limits.blocks


@settings(max_examples=100, deadline=None)
@given(traffic())
def test_calls_that_were_never_put_back_are_admitted_in_order(
    drawn: tuple[Limits, list[tuple[int, Job]]],
) -> None:
    """First come first served: first admissions are in order of arrival."""
    limits, jobs = drawn
    if limits.policy == "priority":
        return
    seen: list[int] = []
    for turn in play(limits, jobs):
        seen += [one.number for one in turn.plan.admitted if one.number not in seen]
    assert seen == sorted(seen)


def test_the_urgent_are_admitted_first_and_the_least_urgent_gives_way() -> None:
    """Three wait for one place; then memory runs out and the least urgent running call loses."""
    one_seat = Limits(max_num_seqs=1, policy="priority", blocks=40, block_size=BLOCK)
    jobs = [(0, job(n, 4, 3, priority=p)) for n, p in enumerate((2, 0, 1))]
    admitted = [one.number for turn in play(one_seat, jobs) for one in turn.plan.admitted]
    assert admitted == [1, 2, 0]

    tight = Limits(policy="priority", blocks=6, block_size=BLOCK)
    jobs = [(0, job(n, 8, 12, priority=p)) for n, p in enumerate((1, 0))]
    lost = [one.number for turn in play(tight, jobs) for one in turn.plan.preempted]
    assert lost == [0]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_call_may_leave_the_queue_from_its_middle(policy: Literal["fcfs", "priority"]) -> None:
    """A preempted one ends there when the token that was under way is its last."""
    state = State(Limits(policy=policy))
    jobs = [job(n, 4, 1, priority=n) for n in range(5)]
    for one in jobs:
        state.add(one)
    state.leave_queue(jobs[2])
    left = []
    while (head := state.head()) is not None:
        left.append(head.number)
        state.leave_queue(head)
    assert left == [0, 1, 3, 4]


@pytest.mark.parametrize("depth", [1, 2])
def test_a_preempted_call_computes_prompt_and_output_so_far_again(depth: int) -> None:
    """Without a cache all of it, in one step when the budget allows, and it loses no token."""
    limits = Limits(blocks=7, block_size=BLOCK, caching=False, depth=1 if depth == 1 else 2)
    jobs = [(0, job(0, 8, 12)), (0, job(1, 8, 12))]
    again = None
    for turn in play(limits, jobs):
        for one in turn.plan.admitted:
            if one.preemptions:
                again = next(count for other, count, _ in turn.plan.rows if other is one)
                assert again == 8 + one.made
                assert one.made > 0
    assert again is not None
    assert [one.made for _, one in jobs] == [12, 12]
    assert jobs[1][1].preemptions == 1


def test_a_prompt_that_may_not_be_cut_waits_for_a_step_of_its_own() -> None:
    """Without chunked prefill the second prompt does not fit beside the first."""
    limits = Limits(max_num_batched_tokens=16, max_num_seqs=4, chunked=False, blocks=40)
    jobs = [(0, job(0, 10, 2)), (0, job(1, 10, 2))]
    rows = [[(o.number, n) for o, n, _ in turn.plan.rows] for turn in play(limits, jobs)]
    assert rows == [[(0, 10)], [(0, 1), (1, 10)], [(1, 1)]]


def test_a_long_prompt_alone_may_have_the_whole_budget() -> None:
    """The threshold protects others; where there are none it does not apply."""
    limits = Limits(max_num_batched_tokens=16, max_num_seqs=4, long_prefill=4, blocks=40)
    alone = [turn.plan.tokens for turn in play(limits, [(0, job(0, 20, 1))])]
    assert alone == [16, 4]
    both = [turn.plan.tokens for turn in play(limits, [(0, job(0, 9, 1)), (0, job(1, 3, 1))])]
    assert both[0] == 4 + 3


def test_what_a_batch_costs_is_counted_by_kind() -> None:
    """A prompt of 5 in chunks of 3 and 2: 1+2+3 and 4+5 pairs; then one token over 5 in memory."""
    limits = Limits(max_num_batched_tokens=3, max_num_seqs=3, blocks=40)
    plans = [turn.plan for turn in play(limits, [(0, job(0, 5, 2))])]
    assert [(p.prefill, p.pairs, p.decodes, p.context) for p in plans] == [
        (3, 6, 0, 0),
        (2, 9, 0, 0),
        (0, 0, 1, 5),
    ]
