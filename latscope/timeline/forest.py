"""Spans as the trees they are: what lies above and below each, and which are engines' requests."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from latscope.protocols.otlp import is_request
from latscope.recording import ServerSpan

DEEPEST = 64
"""Spans above one another that are looked through; no real way has as many."""


class Forest:
    """The spans by id, parent and depth. A span that comes twice counts once."""

    def __init__(self, spans: Iterable[ServerSpan]) -> None:
        unique = {(s.trace_id, s.span_id, s.kind, s.name): s for s in spans}
        self.spans = list(unique.values())
        self.by_id: dict[tuple[str, str], int] = {}
        self.children: dict[tuple[str, str], list[int]] = {}
        for index, span in enumerate(self.spans):
            self.by_id.setdefault((span.trace_id, span.span_id), index)
            if span.parent_id is not None:
                self.children.setdefault((span.trace_id, span.parent_id), []).append(index)
        self.requests = {index for index in range(len(self.spans)) if self._heads(index)}
        self.under = Counter(at for index in self.requests for at in self.above(index))
        """How many requests lie under a span."""
        self.traces = {span.trace_id for span in self.spans}

    def _heads(self, index: int) -> bool:
        """Whether it is an engine's request and not a stage below one."""
        if not is_request(self.spans[index]):
            return False
        return not any(is_request(self.spans[above]) for above in self.above(index))

    def above(self, index: int) -> Iterator[int]:
        """The spans it lies under, nearest first, as far as they are in the input."""
        seen = {index}
        while len(seen) < DEEPEST:
            span = self.spans[index]
            parent = self.by_id.get((span.trace_id, span.parent_id or ""))
            if parent is None or parent in seen:
                return
            seen.add(parent)
            yield parent
            index = parent

    def below(self, index: int) -> set[int]:
        """It and every span under it; a stage that further ranks of an engine repeat only once."""
        found: set[int] = set()
        waiting = [index]
        while waiting:
            at = waiting.pop()
            if at in found or (at != index and _repeats(self.spans[at])):
                continue
            found.add(at)
            span = self.spans[at]
            waiting += self.children.get((span.trace_id, span.span_id), ())
        return found

    def tree(self, engine: int, top: Sequence[int]) -> frozenset[int]:
        """The hops `top` above a request, what lies below it, and what else the hops did."""
        found = {*self.below(engine), *top}
        for hop in top:
            found |= {at for at in self.below(hop) if not self.spans[at].source}
        return frozenset(found)

    def in_order(self, indices: Iterable[int]) -> list[int]:
        """By time, a parent before what starts with it."""
        return sorted(
            indices, key=lambda at: (self.spans[at].start_unix_ns, -self.spans[at].duration_ns)
        )


def _repeats(span: ServerSpan) -> bool:
    """A thread of another rank than the first: it worked on the same tokens at the same time."""
    return any(span.attributes.get(name) not in (None, 0) for name in ("tp_rank", "pp_rank"))


def trees(spans: Iterable[ServerSpan]) -> Iterator[tuple[ServerSpan, tuple[ServerSpan, ...]]]:
    """Each engine request among the spans, with all that is its own: its stages, and the hops
    above it that no other request shares, in order of time."""
    forest = Forest(spans)
    for engine in sorted(forest.requests):
        top = [at for at in forest.above(engine) if forest.under[at] == 1]
        own = forest.in_order(forest.tree(engine, top))
        yield forest.spans[engine], tuple(forest.spans[at] for at in own)
