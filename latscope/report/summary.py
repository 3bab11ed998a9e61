"""Many calls as plain data: one group a model and endpoint, with medians and who dominated."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from latscope.attribution.model import SEGMENTS, Attribution, Segment
from latscope.report.jsonview import field_of
from latscope.report.view import LAID, unsplit_sums
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
    for a segment of which nothing is sure in the median call, though it may have had time."""

    name: str
    candidates: tuple[Segment, ...]
    share: float
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """key: the values of the fields it was grouped by; parts: in the order they are laid; dominant:
    how many calls each segment dominated, `open` where unsplit time could decide. A p95 is null
    below 20 calls."""

    key: tuple[str, ...]
    calls: int
    failed: int
    ttft_p50_ns: Ns | None
    ttft_p95_ns: Ns | None
    wall_p50_ns: Ns | None
    wall_p95_ns: Ns | None
    parts: tuple[Part, ...]
    dominant: tuple[tuple[str, int], ...]


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


def quantile(values: Iterable[Ns], q: float) -> Ns | None:
    """The smallest value at or above which a share `q` of them lies at or below (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, ceil(q * len(ranked)) - 1)] if ranked else None


def _group(key: tuple[str, ...], calls: Sequence[Attribution]) -> Group:
    done = [call for call in calls if call.status == "complete"]
    firsts = [call.first_token_ns for call in done if call.first_token_ns is not None]
    walls = [call.wall_ns for call in done]
    dominant = Counter(call.dominant or OPEN for call in done)
    return Group(
        key=key,
        calls=len(calls),
        failed=len(calls) - len(done),
        ttft_p50_ns=quantile(firsts, 0.5),
        ttft_p95_ns=_p95(firsts),
        wall_p50_ns=quantile(walls, 0.5),
        wall_p95_ns=_p95(walls),
        parts=tuple(_parts(done)),
        dominant=tuple(dominant.most_common()),
    )


def _p95(values: Sequence[Ns]) -> Ns | None:
    return quantile(values, 0.95) if len(values) >= LEAST_P95 else None


def _parts(calls: Sequence[Attribution]) -> Iterator[Part]:
    for name in LAID:
        if name == "unattributed":
            yield from _unsplit_parts(calls)
            continue
        sizes = [call.segment(name) for call in calls]
        share = _median(calls, [size.ns for size in sizes])
        able = _median(calls, [size.bounds_ns[1] for size in sizes])
        yield Part(name=name, candidates=(name,), share=share, sure=not share == 0 < able)


def _unsplit_parts(calls: Sequence[Attribution]) -> Iterator[Part]:
    """The large candidate sets one by one, then all others together."""
    sums = [unsplit_sums(call) for call in calls]
    sets = list(dict.fromkeys(names for found in sums for names in found))
    sizes = {names: _median(calls, [found.get(names, 0) for found in sums]) for names in sets}
    large = [names for names in sets if sizes[names] >= NAMED]
    for names in sorted(large, key=lambda names: -sizes[names]):
        yield Part(name=" | ".join(names), candidates=names, share=sizes[names])
    small = [names for names in sets if names not in large]
    pooled = _median(calls, [sum(found.get(names, 0) for names in small) for found in sums])
    if pooled > 0:
        able = tuple(name for name in SEGMENTS if any(name in names for names in small))
        name = " | ".join(able) if len(small) == 1 else POOL
        yield Part(name=name, candidates=able, share=pooled)


def _median(calls: Sequence[Attribution], sizes: Sequence[Ns]) -> float:
    """The median share of the wall time."""
    shares = [
        round(1e9 * size / max(1, call.wall_ns)) for call, size in zip(calls, sizes, strict=True)
    ]
    return (quantile(shares, 0.5) or 0) / 1e9
