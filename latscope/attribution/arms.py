"""Probe calls as arms: what each call shows, and which calls were sent next to each other."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from latscope.attribution.pace import pace
from latscope.attribution.speed import tokens_per_chunk
from latscope.attribution.splits import engine_of
from latscope.timeline import Timeline
from latscope.units import Ns

PREFILL = ("short", "middle", "long")
"""Arms of rising prompt length, each with the smallest output cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One probe call. arm: what it was sent as; block: calls of one block were sent next to each
    other; order: its place in the whole run. uncached, cached: prompt tokens. From the request's
    last byte, transit still in: first_ns to the first token, head_ns to the response head, end_ns
    to the end. setup_ns: DNS, TCP and TLS, null on a reused connection. step_ns: time a token of a
    stream that came one step at a time. queue_ns: as the server states it. Null where unknown.
    stated: whether the server counted its prompt's tokens, cached_stated its cached ones. engine:
    the server's own name for itself."""

    arm: str
    block: int
    order: int
    uncached: int
    cached: int
    output: int | None
    first_ns: Ns | None
    head_ns: Ns | None
    end_ns: Ns | None
    setup_ns: Ns | None
    step_ns: float | None
    tokens_per_chunk: float | None
    rtt_ns: Ns | None
    queue_ns: Ns | None
    stated: bool
    cached_stated: bool
    hidden_reasoning: bool
    engine: str

    @property
    def gap_ns(self) -> Ns | None:
        """From the response head to the first token."""
        if self.first_ns is None or self.head_ns is None:
            return None
        return self.first_ns - self.head_ns

    @property
    def context(self) -> float:
        """Tokens of context midway through the answer."""
        return self.uncached + self.cached + (self.output or 0) / 2


def sample(timeline: Timeline, *, arm: str, block: int, order: int, planned: int) -> Sample | None:
    """What a call shows as one arm; null when it did not complete. planned: prompt tokens it was
    meant to have, for a server that does not count them."""
    answer, usage = timeline.answer, timeline.usage
    if timeline.verdict != "complete" or answer.sent_ns is None:
        return None
    sent, total = answer.sent_ns, usage.input_tokens
    cached = min(usage.cached_tokens or 0, total if total is not None else planned)
    stated = {figure.covers: figure.ns for figure in timeline.reported}
    return Sample(
        arm=arm,
        block=block,
        order=order,
        uncached=(planned if total is None else total) - cached,
        cached=cached,
        output=usage.output_tokens,
        first_ns=_since(sent, timeline.first_token_ns if timeline.streamed else None),
        head_ns=_since(sent, answer.headers_ns),
        end_ns=_since(sent, timeline.wall_ns),
        setup_ns=_setup(timeline),
        step_ns=_step(timeline),
        tokens_per_chunk=tokens_per_chunk(timeline),
        rtt_ns=timeline.path.rtt_ns,
        queue_ns=stated.get("queue.engine"),
        stated=total is not None,
        cached_stated=usage.cached_tokens is not None,
        hidden_reasoning=timeline.hidden_reasoning,
        engine=engine_of(timeline),
    )


def _since(sent: Ns, at: Ns | None) -> Ns | None:
    """A server may answer before this process has stamped its own last write."""
    return None if at is None else max(0, at - sent)


def _setup(timeline: Timeline) -> Ns | None:
    phases = [p for p in timeline.answer.phases if p.name in ("connect", "tls")]
    return sum(phase.end_ns - phase.start_ns for phase in phases) if phases else None


def _step(timeline: Timeline) -> float | None:
    """Time a token: first to last over the tokens after the first, of a paced stream only."""
    output, arrivals = timeline.usage.output_tokens, timeline.arrivals
    if not pace(arrivals).paced or output is None or timeline.hidden_reasoning:
        return None
    after = output - (arrivals[0].tokens or 1)
    return (arrivals[-1].at.latest - arrivals[0].at.latest) / after if after > 0 else None


@dataclass(frozen=True, slots=True)
class Arms:
    """All samples of a run. rtt_ns: the smallest round trip any of them saw."""

    samples: tuple[Sample, ...]
    rtt_ns: Ns | None

    def of(self, *names: str) -> list[Sample]:
        return [one for one in self.samples if one.arm in names]

    def together(self, *names: str) -> list[tuple[Sample, ...]]:
        """Blocks in which every one of the arms completed, in the order they were sent."""
        blocks: dict[int, dict[str, Sample]] = defaultdict(dict)
        for one in self.samples:
            blocks[one.block][one.arm] = one
        return [
            tuple(found[name] for name in names)
            for _, found in sorted(blocks.items())
            if set(names) <= set(found)
        ]


def arms_of(samples: Iterable[Sample]) -> Arms:
    kept = tuple(samples)
    return Arms(kept, min((one.rtt_ns for one in kept if one.rtt_ns is not None), default=None))


Figure = Callable[[Sample], float | None]


def first(one: Sample) -> float | None:
    return one.first_ns


def gap(one: Sample) -> float | None:
    return one.gap_ns


def end(one: Sample) -> float | None:
    return one.end_ns


def head(one: Sample) -> float | None:
    return one.head_ns


def differences(pairs: Iterable[Sequence[Sample]], figure: Figure) -> list[float]:
    """The figure of each pair's first less that of its second, where both have it."""
    found = []
    for one, other in pairs:
        a, b = figure(one), figure(other)
        if a is not None and b is not None:
            found.append(a - b)
    return found


def middle(values: Iterable[float | None]) -> float | None:
    """The median of the known ones; null when none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None
