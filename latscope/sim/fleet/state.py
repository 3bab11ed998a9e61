"""What the scheduler knows: limits, calls, plans, the queue and the memory. The rules are not here
but in scheduler.py."""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Literal, TypeAlias

from latscope.sim.fleet.cache import Block, BlockPool

Policy: TypeAlias = Literal["fcfs", "priority"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The engine's settings, under vLLM's names where it has one.

    max_num_seqs: calls running at once; max_num_batched_tokens: tokens to a step; long_prefill:
    most tokens of one prompt to a step, 0 for no such limit; chunked: whether a prompt may be cut
    at all; blocks, block_size: KV memory, block_size in tokens; caching: whether prefixes are found
    again; policy; depth: batches planned ahead, itself included.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    long_prefill: int = 0
    chunked: bool = True
    blocks: int = 16_384
    block_size: int = 16
    caching: bool = True
    policy: Policy = "fcfs"
    depth: Literal[1, 2] = 1


@dataclass(slots=True, eq=False)
class Job:
    """A call in the engine. Mutable: the scheduler's book-keeping of it.

    number: order of arrival; prompt, output: tokens; cap: the most it may generate (output < cap:
    it ends by a stop token); stream: number of the stream its blocks belong to; shared: how many
    leading tokens belong to stream `prefix` instead. computed: tokens in memory or under way;
    made: output tokens known; pending: tokens under way that will be known; in_flight: tokens of
    plans not settled; stale: those of them planned before a preemption; target: computed tokens at
    which its (repeated) prefill ends; cached: prompt tokens its first admission found in memory.
    """

    number: int
    prompt: int
    output: int
    cap: int
    stream: int
    prefix: int = 0
    shared: int = 0
    priority: int = 0
    computed: int = 0
    made: int = 0
    pending: int = 0
    in_flight: int = 0
    stale: int = 0
    target: int = 0
    cached: int = 0
    preemptions: int = 0
    admitted: bool = False
    running: bool = False
    blocks: list[Block] = field(default_factory=list)
    full: int = 0
    """How many of `blocks` are full and can be found again."""

    @property
    def known(self) -> int:
        """Tokens whose values are known: prompt and output so far."""
        return self.prompt + self.made

    @property
    def done(self) -> bool:
        return self.made >= self.output

    @property
    def rank(self) -> tuple[int, int]:
        """Urgency among calls by priority: the least is served first, the greatest preempted."""
        return self.priority, self.number


@dataclass(slots=True, eq=False)
class Plan:
    """One batch. rows: call, tokens, and whether its last token is sampled from; admitted: calls
    taken from the queue, those that were preempted before included; preempted: calls put back.

    What the batch costs follows from prefill: tokens of prompts, recomputed output included; pairs:
    how often one of them attends to a token, itself included; decodes: calls that extend their
    output; context: tokens of theirs in memory that have to be read for it.
    """

    rows: list[tuple[Job, int, bool]] = field(default_factory=list)
    admitted: list[Job] = field(default_factory=list)
    preempted: list[Job] = field(default_factory=list)
    prefill: int = 0
    pairs: int = 0
    decodes: int = 0
    context: int = 0

    @property
    def tokens(self) -> int:
        return sum(count for _, count, _ in self.rows)


class State:
    """What the scheduler knows: its limits, the queue, the calls running, the memory."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pool = BlockPool(limits.blocks)
        self.running: list[Job] = []
        self._line: deque[Job] = deque()
        self._heap: list[tuple[int, int, Job]] = []

    @property
    def waiting(self) -> int:
        return len(self._line) or len(self._heap)

    @property
    def load(self) -> int:
        """Calls in the engine, waiting or running."""
        return len(self.running) + self.waiting

    def add(self, job: Job) -> None:
        """`job` has arrived."""
        if self.limits.policy == "priority":
            heappush(self._heap, (*job.rank, job))
        else:
            self._line.append(job)

    def put_back(self, job: Job) -> None:
        """`job` was preempted: to the head of the line; by priority, to where it belongs."""
        if self.limits.policy == "priority":
            self.add(job)
        else:
            self._line.appendleft(job)

    def head(self) -> Job | None:
        if self._line:
            return self._line[0]
        return self._heap[0][2] if self._heap else None

    def leave_queue(self, job: Job) -> None:
        """Takes `job` out of the queue, wherever it stands."""
        if self.limits.policy == "fcfs":
            self._line.remove(job)  # it is nearly always the first
        elif self._heap[0][2] is job:
            heappop(self._heap)
        else:
            self._heap = sorted(row for row in self._heap if row[2] is not job)
