"""Time: what a step costs, and replicas that take one step after another while calls arrive.

A replica's turn is an instant at which its oldest step ends (or at which an idle one gets a call):
the step is settled, its tokens exist, and the next step is planned from what has arrived by then.
With a depth of 2 the plan is made while another step runs, and starts when that one ends.

While nothing can change but that every running call gets its next token, whole stretches of steps
are taken at once. Their times are added up step by step, so the result is the same to the
nanosecond as without (`coasting` off; a test compares them).
"""

from array import array
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from latscope.errors import InputError
from latscope.sim.fleet.arrivals import Call
from latscope.sim.fleet.routing import ROUTERS, Routing
from latscope.sim.fleet.scheduler import coast, settle, steady, step
from latscope.sim.fleet.state import Job, Limits, Plan, State
from latscope.units import MS, US, Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a step takes, in ns. step: any step; prefill: a token of a prompt; attention: a token of
    a prompt, for each token it attends to; decode: a call that gets its next token; kv: a token in
    memory that is read for one.

    The defaults are an 8-billion-parameter model with grouped-query attention on one large GPU:
    reading its weights takes 6 ms, computing a token 30 us (16 GFLOP), attending to one 1 ns
    (0.5 MFLOP), reading one back 50 ns (128 KiB)."""

    step: float = 6 * MS
    prefill: float = 30 * US
    attention: float = 1.0
    decode: float = 20 * US
    kv: float = 50.0

    def of(self, plan: Plan) -> Ns:
        """How long the plan's step takes."""
        prompts = self.prefill * plan.prefill + self.attention * plan.pairs
        return self.of_decodes(plan.decodes, plan.context, prompts)

    def of_decodes(self, calls: int, context: int, prompts: float = 0.0) -> Ns:
        return max(1, round(self.step + prompts + self.decode * calls + self.kv * context))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The servers: so many alike, and who of them gets a call."""

    limits: Limits = field(default_factory=Limits)
    cost: Cost = field(default_factory=Cost)
    replicas: int = 1
    routing: Routing = "round-robin"


COLUMNS = (
    "replica",
    "arrival_ns",
    "scheduled_ns",
    "first_token_ns",
    "last_token_ns",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
    "preemptions",
)


class Table:
    """The truth: a row a call, in order of arrival. Times are ns from the start of the run.

    scheduled: first taken up by the engine (with a depth of 2 while a step still runs);
    cached_tokens: prompt tokens found in memory then; first and last token: when they existed."""

    __slots__ = COLUMNS

    def __init__(self) -> None:
        for name in COLUMNS:
            setattr(self, name, array("q"))

    replica: "array[int]"
    arrival_ns: "array[int]"
    scheduled_ns: "array[int]"
    first_token_ns: "array[int]"
    last_token_ns: "array[int]"
    prompt_tokens: "array[int]"
    cached_tokens: "array[int]"
    output_tokens: "array[int]"
    preemptions: "array[int]"

    def __len__(self) -> int:
        return len(self.arrival_ns)

    def add(self, replica: int, call: Call) -> int:
        """A row for a call that has arrived; its number."""
        values = (replica, call.at_ns, 0, 0, 0, call.prompt, 0, call.output, 0)
        for name, value in zip(COLUMNS, values, strict=True):
            getattr(self, name).append(value)
        return len(self) - 1

    def row(self, number: int) -> dict[str, int]:
        return {name: getattr(self, name)[number] for name in COLUMNS}


@dataclass(slots=True)
class Usage:
    """What a replica did. busy_ns: it had a step to compute; running_ns: the same, for each call
    in the step; until_ns: when its last step ended (which may be one too often, after the last
    token); steps; prefill_tokens: computed, repeated ones included; most_blocks: of KV memory, held
    at once."""

    busy_ns: Ns = 0
    running_ns: Ns = 0
    until_ns: Ns = 0
    steps: int = 0
    prefill_tokens: int = 0
    most_blocks: int = 0


@dataclass(slots=True)
class Run:
    """What came of a run. gaps: how many tokens came so many whole us after the one before them;
    traced: the calls asked for; tokens: when each token of theirs existed."""

    fleet: Fleet
    table: Table
    usage: list[Usage]
    gaps: "Counter[int]"
    traced: dict[int, Call]
    tokens: dict[int, list[Ns]]


class Replica:
    """One engine. due: its next turn, null while it has nothing to do."""

    def __init__(self, fleet: Fleet, run: Run, *, coasting: bool) -> None:
        self.state = State(fleet.limits)
        self.cost = fleet.cost
        self.depth = fleet.limits.depth
        self.coasting = coasting
        self.run = run
        self.usage = Usage()
        self.under_way: deque[tuple[Plan, Ns]] = deque()
        """Plans not settled, the oldest first, and when each one's step ends."""
        self.last_token: dict[Job, Ns] = {}
        self.due: Ns | None = None

    def arrive(self, job: Job, at: Ns) -> None:
        self.state.add(job)
        if self.due is None:
            self.due = at

    def advance(self, until: Ns | None) -> None:
        """Every turn before `until` (null: all there are)."""
        while self.due is not None and (until is None or self.due < until):
            now = self.due
            if self.under_way and self.under_way[0][1] == now:
                plan, _ = self.under_way.popleft()
                self._tokens(settle(self.state, plan), now)
            if self.coasting:
                now = self._coast(now, until)
                if until is not None and now >= until:
                    self.due = now
                    continue
            self._plan(now)
            self.due = self.under_way[0][1] if self.under_way else None
            assert self.due is not None or not self.state.load, "calls nobody will ever serve"

    def _plan(self, now: Ns) -> None:
        """Plans steps until as many are under way as may be, or there is nothing to compute."""
        while len(self.under_way) < self.depth:
            plan = step(self.state)
            table = self.run.table
            for job in plan.admitted:
                if not job.preemptions:
                    table.scheduled_ns[job.number] = now
                    table.cached_tokens[job.number] = job.cached
            for job in plan.preempted:
                table.preemptions[job.number] += 1
            if not plan.rows:
                if plan.preempted and not self.under_way:
                    continue  # the only call in reach made room for the others
                return
            start = max(now, self.under_way[-1][1]) if self.under_way else now
            took = self.cost.of(plan)
            self.under_way.append((plan, start + took))
            self.usage.prefill_tokens += plan.prefill
            self._used(1, start, start + took, len(plan.rows))

    def _tokens(self, got: Sequence[Job], now: Ns) -> None:
        """The calls of `got` have one token more, now."""
        table, gaps, last, traced = self.run.table, self.run.gaps, self.last_token, self.run.tokens
        for job in got:
            if job.made > 1:
                gaps[(now - last[job] + 500) // 1000] += 1
            else:
                table.first_token_ns[job.number] = now
            last[job] = now
            if job.made >= job.output:
                table.last_token_ns[job.number] = now
                del last[job]
            if traced and job.number in traced:
                traced[job.number].append(now)

    def _coast(self, now: Ns, until: Ns | None) -> Ns:
        """Takes the steps up to the next change at once; the turn after them."""
        steps = steady(self.state, self.under_way[0][0] if self.under_way else None)
        if steps < 1:
            return now
        running = self.state.running
        calls, context = len(running), sum(job.computed for job in running)
        cost, ahead = self.cost.of_decodes, self.depth > 1
        end = begin = self.under_way[0][1] if self.under_way else now
        instants: list[Ns] = []
        while len(instants) < steps and (until is None or now < until):
            before, end = end, end + cost(calls, context)
            context += calls
            now = before if ahead else end
            instants.append(now)
        coast(self.state, len(instants))
        self._coasted(instants)
        if ahead:
            self.under_way[0] = (self.under_way[0][0], end)
        self._used(len(instants), begin, end, calls)
        return now

    def _used(self, steps: int, begin: Ns, end: Ns, calls: int) -> None:
        """Steps with `calls` in each fill the time from begin to end."""
        usage = self.usage
        usage.steps += steps
        usage.busy_ns += end - begin
        usage.running_ns += (end - begin) * calls
        usage.until_ns = end
        usage.most_blocks = max(usage.most_blocks, self.state.pool.used)

    def _coasted(self, instants: Sequence[Ns]) -> None:
        """Every running call got a token at each of `instants`."""
        gaps, last, traced, running = (
            self.run.gaps,
            self.last_token,
            self.run.tokens,
            self.state.running,
        )
        first, final = instants[0], instants[-1]
        for job in running:
            gaps[(first - last[job] + 500) // 1000] += 1
            last[job] = final
            if traced and job.number in traced:
                traced[job.number].extend(instants)
        before = first
        for at in instants[1:]:
            gaps[(at - before + 500) // 1000] += len(running)
            before = at


def simulate(
    fleet: Fleet, calls: Iterable[Call], *, trace: Collection[int] = (), coasting: bool = True
) -> Run:
    """Serves `calls` (in order of arrival) to their end. trace: numbers of the calls whose every
    token is to be kept. InputError for a call that no replica could ever hold."""
    tokens: dict[int, list[Ns]] = {number: [] for number in sorted(trace)}
    run = Run(fleet=fleet, table=Table(), usage=[], gaps=Counter(), traced={}, tokens=tokens)
    replicas = [Replica(fleet, run, coasting=coasting) for _ in range(fleet.replicas)]
    route = ROUTERS[fleet.routing](fleet.replicas)
    streams: dict[tuple[str, str], int] = {}
    for call in calls:

        def loads(at: Ns = call.at_ns) -> list[int]:
            for replica in replicas:
                replica.advance(at)
            return [replica.state.load for replica in replicas]

        chosen = route(call, loads)
        replica = replicas[chosen]
        replica.advance(call.at_ns)
        number = run.table.add(chosen, call)
        if number in tokens:
            run.traced[number] = call
        replica.arrive(_job(number, call, fleet.limits, streams), call.at_ns)
    for replica in replicas:
        replica.advance(None)
        run.usage.append(replica.usage)
    return run


def _job(number: int, call: Call, limits: Limits, streams: dict[tuple[str, str], int]) -> Job:
    """The call as the scheduler knows it. Streams have odd numbers when they have a name, even ones
    when they are a call's own."""
    most = call.prompt + call.output
    if not limits.chunked and most > limits.max_num_batched_tokens:
        raise InputError(
            f"call {number}: {most} tokens do not fit in one step of"
            f" {limits.max_num_batched_tokens}, and prompts may not be cut"
        )
    needed = -(-most // limits.block_size)
    if needed > limits.blocks:
        raise InputError(
            f"call {number}: {call.prompt} + {call.output} tokens need {needed} blocks of KV"
            f" memory; a replica has {limits.blocks} of {limits.block_size} tokens"
        )

    def named(kind: str, name: str | None, otherwise: int) -> int:
        if name is None:
            return otherwise
        return 2 * streams.setdefault((kind, name), len(streams)) + 1

    return Job(
        number=number,
        prompt=call.prompt,
        output=call.output,
        cap=call.cap,
        stream=named("session", call.session, 2 * number),
        prefix=named("prefix", call.prefix, 0),
        shared=call.shared,
        priority=call.priority,
    )
