"""Many calls as plain data: one group a model and endpoint, with medians and who dominated.

Times count stopped calls as lower limits and leave failed ones out (`rules.group`); shares, and who
dominated, are of calls that completed: of a stopped one nobody knows the whole.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from latscope.attribution.jsonview import field_of
from latscope.attribution.model import SEGMENTS, Attribution, Segment
from latscope.report.view import LAID, unsplit_sums
from latscope.rules.censored import Quantile, Sample, quantile, quantiles
from latscope.rules.group import Counts, counts, ending, samples, weight
from latscope.units import Ns

DEFAULT_KEYS = ("model", "endpoint")


LEAST_P95 = 20
"""Of fewer values the nearest-rank p95 is the largest, which says nothing of the tail."""

NAMED = 0.05
"""A candidate set with at least this median share has a stretch of its own; the rest is pooled."""

POOL = "other unsplit"
OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of a group's bar. candidates: one segment, or those its unsplit time may belong
    to; share: its median share of the wall time, over calls that completed (0 to 1); sure: false
    for a segment of which nothing is sure in the median call, though it may have had time. p50: its
    median time, a stopped call's being at least what is sure of it."""

    name: str
    candidates: tuple[Segment, ...]
    share: float
    p50: Quantile
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """p95 is null below 20 calls that count."""

    p50: Quantile
    p95: Quantile | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """key: the values of the fields it was grouped by; parts: in the order they are laid; dominant:
    how many calls each segment dominated, `open` where unsplit time could decide."""

    key: tuple[str, ...]
    counts: Counts
    ttft: Times
    e2e: Times
    parts: tuple[Part, ...]
    dominant: tuple[tuple[str, int], ...]

    @property
    def completed(self) -> int:
        return self.counts.calls - self.counts.stopped - self.counts.failed


def summary(attributions: Iterable[Attribution], by: Sequence[str] = DEFAULT_KEYS) -> list[Group]:
    """The calls in groups, the largest group first."""
    groups: dict[tuple[str, ...], list[Attribution]] = {}
    for attribution in attributions:
        key = tuple(field_text(attribution, name) for name in by)
        groups.setdefault(key, []).append(attribution)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_group(key, calls) for key, calls in ordered]


def field_text(attribution: Attribution, path: str) -> str:
    """A field of the attribution by its dotted name, as text; `unknown` when it is null."""
    value = field_of(attribution, path)
    return "unknown" if value is None else str(value)


def slowest(attributions: Iterable[Attribution], n: int = 1) -> list[Attribution]:
    return sorted(attributions, key=lambda call: -call.wall_ns)[:n]


def _group(key: tuple[str, ...], calls: Sequence[Attribution]) -> Group:
    done = [call for call in calls if ending(call) == "complete"]
    stopped = [call for call in calls if ending(call) == "stopped"]
    dominant = Counter(call.dominant or OPEN for call in done)
    return Group(
        key=key,
        counts=counts(calls),
        ttft=_times(samples(calls, "ttft")),
        e2e=_times(samples(calls, "e2e")),
        parts=tuple(_parts(done, stopped)),
        dominant=tuple(dominant.most_common()),
    )


def _times(found: Sequence[Sample]) -> Times:
    p50, p95 = quantiles(found, (0.5, 0.95))
    return Times(p50=p50, p95=p95 if p95.n >= LEAST_P95 else None)


def _parts(done: Sequence[Attribution], stopped: Sequence[Attribution]) -> Iterator[Part]:
    for name in LAID:
        if name == "unattributed":
            yield from _unsplit_parts(done, stopped)
            continue
        sizes = [call.segment(name) for call in done]
        share = _median(done, [size.ns for size in sizes])
        able = _median(done, [size.bounds_ns[1] for size in sizes])
        p50 = quantile(samples([*done, *stopped], name), 0.5)
        sure = not share == 0 < able
        yield Part(name=name, candidates=(name,), share=share, p50=p50, sure=sure)


def _unsplit_parts(done: Sequence[Attribution], stopped: Sequence[Attribution]) -> Iterator[Part]:
    """The large candidate sets one by one, then all others together."""
    sums = [unsplit_sums(call) for call in done]
    so_far = [unsplit_sums(call) for call in stopped]

    def part(name: str, able: tuple[Segment, ...], sets: Sequence[tuple[Segment, ...]]) -> Part:
        sizes, least = (
            [sum(found.get(names, 0) for names in sets) for found in group]
            for group in (sums, so_far)
        )
        times = [Sample(ns=ns, weight=weight(call)) for call, ns in zip(done, sizes, strict=True)]
        times += [
            Sample(ns=ns, weight=weight(call), censored=True)
            for call, ns in zip(stopped, least, strict=True)
        ]
        share = _median(done, sizes)
        return Part(name=name, candidates=able, share=share, p50=quantile(times, 0.5))

    each = [part(" | ".join(names), names, [names]) for names in dict.fromkeys(_flat(sums))]
    large = [found for found in each if found.share >= NAMED]
    yield from sorted(large, key=lambda found: -found.share)
    small = [found.candidates for found in each if found not in large]
    able = tuple(name for name in SEGMENTS if any(name in names for names in small))
    pooled = part(" | ".join(able) if len(small) == 1 else POOL, able, small)
    if pooled.share > 0:
        yield pooled


def _flat(sums: Iterable[Iterable[tuple[Segment, ...]]]) -> Iterator[tuple[Segment, ...]]:
    return (names for found in sums for names in found)


def _median(calls: Sequence[Attribution], sizes: Sequence[Ns]) -> float:
    """The median share of the wall time."""
    shares = (
        Sample(ns=round(1e9 * size / max(1, call.wall_ns)), weight=weight(call))
        for call, size in zip(calls, sizes, strict=True)
    )
    return (quantile(shares, 0.5).ns or 0) / 1e9
