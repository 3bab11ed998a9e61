"""Continuous batching as a state machine: what the engine computes next, and what came of it.

`step` looks at the state and gives a Plan: which calls are in the next batch and how many tokens of
each. `settle` books the plan's outcome: calls get their token, finished ones leave. Neither knows
of time. The rules are those of vLLM's scheduler, checked step by step against traces of the real
one (fixtures/scheduler, tests/sim/fleet/test_golden.py):

- Running calls come first, in the order they were admitted. A call takes the tokens it still lacks:
  the rest of its prompt, or the one that was sampled last. Prompts are cut to what is left of the
  step's token budget (chunked prefill) and to `long_prefill`, if any other call is there.
- A running call that finds no block of memory takes it from the last admitted (by priority: from
  the least urgent), which goes back to the head of the queue, loses all it had computed, and later
  computes its prompt and its output so far again.
- Then waiting calls are admitted, first come first served or by priority, while budget, places and
  memory last, unless a call was preempted in this step. The first that does not fit stops the scan.
  Memory must have room for the whole prompt, whatever the chunk.
- Whole blocks of a prompt that memory still holds need no computing, but for the last token.

`depth` 1 is the synchronous engine: a step is settled before the next is planned. With 2 the next
step is planned while one runs, so it counts on tokens that are not there yet (`pending`). A call
known to end with the token under way is left out; one that ends by a stop token is computed once
too often. Either way its place is filled one step later.

Not modelled, and off in vLLM's defaults or absent from a plain model: speculative decoding, encoder
inputs, LoRA limits, structured output, KV connectors, pipeline and data parallelism, sliding
windows and mixed layers, the memory watermark, the adaptive long-prefill threshold, aborts, and
generation that reaches the model's context limit. Differences left: an empty plan takes no place
among the batches under way (vLLM's asks again at once, to the same effect); blocks hold what a call
says they do, not hashes of tokens.
"""

from collections.abc import Iterator, Sequence

from latscope.sim.fleet.cache import Block
from latscope.sim.fleet.state import Job, Plan, State

KEYS = 1 << 24
"""Blocks to a stream of tokens: a block's key is its stream's number times this, plus its place."""


def step(state: State) -> Plan:
    """The next batch; empty when nothing can be computed before a plan under way is settled."""
    limits = state.limits
    plan = Plan()
    limited = limits.long_prefill > 0 and state.load > 1
    longest = limits.long_prefill if limited else limits.max_num_batched_tokens
    budget = _run(state, plan, limits.max_num_batched_tokens, longest)
    if not plan.preempted:
        _admit(state, plan, budget, longest)
    ahead = limits.depth > 1
    for job, count, samples in plan.rows:
        computed = job.computed
        if computed < job.target:
            plan.prefill += count
            plan.pairs += count * computed + count * (count + 1) // 2
        else:
            plan.decodes += 1
            plan.context += computed
        job.computed = computed + count
        job.in_flight += count
        if samples and ahead:
            job.pending += 1
    return plan


def settle(state: State, plan: Plan) -> list[Job]:
    """Books what came of `plan`, the oldest under way: the calls that have one token more. Those
    of them that are `done` have left."""
    got: list[Job] = []
    ended: list[Job] = []
    ahead = state.limits.depth > 1
    for job, count, samples in plan.rows:
        job.in_flight -= count
        stale = job.stale > 0
        if stale:
            job.stale -= count
        if not samples or job.made >= job.output:
            continue
        job.made += 1
        got.append(job)
        if ahead and not stale:
            job.pending -= 1
            _remember(state, job, job.computed - job.pending)
        if job.made >= job.output:
            ended.append(job)
    for job in ended:
        _leave(state, job)
    return got


def steady(state: State, under_way: Plan | None = None) -> int:
    """For how many steps from here on the plan stays what it is: every running call extends its
    output by one token, none ends, none can be admitted, memory lasts. 0 when not known at once.

    under_way: with a depth of 2, the plan planned before and not settled."""
    running, limits = state.running, state.limits
    count = len(running)
    if not count or count > limits.max_num_batched_tokens:
        return 0
    ahead = 0
    if limits.depth > 1:
        if under_way is None or under_way.prefill or under_way.decodes != count:
            return 0
        ahead = 1
    left = limits.blocks * limits.block_size
    for job in running:
        if job.computed < job.target or job.pending != ahead:
            return 0
        if job.output - job.made < left:
            left = job.output - job.made
    steps = min(left - 1 - ahead, (state.pool.free // count - 1) * limits.block_size)
    return steps if steps > 0 and not _admits(state) else 0


def coast(state: State, steps: int) -> None:
    """Plans and settles `steps` steps at once; no more than `steady` said."""
    behind, size = state.limits.depth - 1, state.limits.block_size
    for job in state.running:
        job.made += steps
        job.computed = tokens = job.computed + steps
        if tokens // size > job.full or tokens > len(job.blocks) * size:
            _grow(state, job, tokens, tokens - behind)


def _run(state: State, plan: Plan, budget: int, longest: int) -> int:
    """Running calls into the plan; what is left of the budget."""
    running, size = state.running, state.limits.block_size
    at = 0
    while at < len(running) and budget > 0:
        job = running[at]
        known = job.prompt + job.made
        count = known + job.pending - job.computed
        if count == 0 or _ends_with_pending(job):
            at += 1
            continue
        if count > 1:
            count = min(count, longest, budget)
        tokens = job.computed + count
        if tokens // size > job.full or tokens > len(job.blocks) * size:
            while not _grow(state, job, tokens, known):
                victim = _victim(state)
                budget += _preempt(state, plan, victim)
                if victim is job:
                    return budget
                at = running.index(job)
        plan.rows.append((job, count, tokens == known + job.pending))
        budget -= count
        at += 1
    return budget


def _ends_with_pending(job: Job) -> bool:
    """Whether the tokens under way are sure to be the last it may generate."""
    return job.pending > 0 and job.computed + 2 - job.pending >= job.prompt + job.cap


def _victim(state: State) -> Job:
    if state.limits.policy == "priority":
        return max(state.running, key=lambda job: job.rank)
    return state.running[-1]


def _preempt(state: State, plan: Plan, job: Job) -> int:
    """Takes everything from `job` and puts it back; the tokens it no longer has in the plan."""
    restored = sum(count for other, count, _ in plan.rows if other is job)
    if restored:
        plan.rows = [row for row in plan.rows if row[0] is not job]
    state.running.remove(job)
    state.pool.give_back(job.blocks)
    job.blocks = []
    job.full = job.computed = job.pending = 0
    job.stale = job.in_flight
    job.preemptions += 1
    job.running = False
    plan.preempted.append(job)
    state.put_back(job)
    return restored


def _admit(state: State, plan: Plan, budget: int, longest: int) -> None:
    """Waiting calls into the plan, in their order, up to the first that does not fit."""
    limits, pool = state.limits, state.pool
    while budget > 0 and len(state.running) < limits.max_num_seqs:
        job = state.head()
        if job is None:
            return
        assert job.stale == 0, "a plan older than the preemption is settled before the next scan"
        found = _found(state, job)
        start = len(found) * limits.block_size
        count = min(job.known - start, longest)
        if (count > budget and not limits.chunked) or not _fits(state, job, found):
            return
        count = min(count, budget)
        pool.share(found)
        job.blocks, job.full = found, len(found)
        job.computed, job.target = start, job.known
        _grow(state, job, start + count, job.known)
        if not job.admitted:
            job.admitted, job.cached = True, start
        job.running = True
        state.leave_queue(job)
        state.running.append(job)
        plan.admitted.append(job)
        plan.rows.append((job, count, start + count == job.known))
        budget -= count


def _admits(state: State) -> bool:
    """Whether the next waiting call would be admitted now, when every running one decodes."""
    limits = state.limits
    count = len(state.running)
    job = state.head()
    if job is None or count >= limits.max_num_seqs or count >= limits.max_num_batched_tokens:
        return False
    return _fits(state, job, _found(state, job))


def _found(state: State, job: Job) -> list[Block]:
    """Blocks in memory that hold the head of the call; its last token is always computed."""
    limits = state.limits
    if not limits.caching:
        return []
    return state.pool.find(_keys(job, 0, (job.known - 1) // limits.block_size, limits.block_size))


def _fits(state: State, job: Job, found: Sequence[Block]) -> bool:
    """Whether memory has room for all of the call's tokens. A block found that nobody holds is
    among the free ones, and will not be."""
    blocks = -(-job.known // state.limits.block_size) - len(found)
    return blocks + sum(1 for block in found if block.refs == 0) <= state.pool.free


def _grow(state: State, job: Job, tokens: int, known: int) -> bool:
    """Memory for `tokens` of the call; false when there is none. Blocks filled with tokens whose
    values are `known` can be found from now on."""
    size = state.limits.block_size
    lacking = -(-tokens // size) - len(job.blocks)
    if lacking > 0:
        if lacking > state.pool.free:
            return False
        job.blocks += state.pool.take(lacking)
    _remember(state, job, min(tokens, known))
    return True


def _remember(state: State, job: Job, tokens: int) -> None:
    limits = state.limits
    full = tokens // limits.block_size
    if full <= job.full or not limits.caching:
        return
    keys = _keys(job, job.full, full, limits.block_size)
    for key, block in zip(keys, job.blocks[job.full : full], strict=True):
        state.pool.hold(key, block)
    job.full = full


def _keys(job: Job, first: int, stop: int, size: int) -> Iterator[int]:
    """What blocks first .. stop of the call hold: shared prefix, then its own stream."""
    shared = job.shared // size
    prefix, own = job.prefix * KEYS, job.stream * KEYS
    for place in range(first, stop):
        yield (prefix if place < shared else own) + place


def _leave(state: State, job: Job) -> None:
    if job.running:
        state.running.remove(job)
    else:
        state.leave_queue(job)
    state.pool.give_back(job.blocks)
    job.blocks = []
    job.running = False
