"""Many calls as plain data: one group a model and endpoint, with medians and who dominated."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from latscope.attribution.model import Attribution, Segment, SegmentShare
from latscope.report.jsonview import to_mapping, value_at
from latscope.report.view import ORDER
from latscope.units import Ns

DEFAULT_KEYS = ("model", "endpoint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """key: the values of the fields it was grouped by; shares: each segment's median share of the
    wall time, over calls that completed (0 to 1); dominant: how many calls each segment dominated,
    `open` where unsplit time could decide. unknown: segments of which nothing is sure in the median
    call, though they may have had time."""

    key: tuple[str, ...]
    calls: int
    failed: int
    ttft_p50_ns: Ns | None
    ttft_p95_ns: Ns | None
    wall_p50_ns: Ns | None
    wall_p95_ns: Ns | None
    shares: Mapping[Segment, float]
    unknown: frozenset[Segment]
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
    value = value_at(to_mapping(attribution), path)
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
    dominant = Counter(call.dominant or "open" for call in done)
    return Group(
        key=key,
        calls=len(calls),
        failed=len(calls) - len(done),
        ttft_p50_ns=quantile(firsts, 0.5),
        ttft_p95_ns=quantile(firsts, 0.95),
        wall_p50_ns=quantile(walls, 0.5),
        wall_p95_ns=quantile(walls, 0.95),
        shares=_median_shares(done, lambda share: share.ns),
        unknown=_unknown(done),
        dominant=tuple(dominant.most_common()),
    )


def _unknown(calls: Sequence[Attribution]) -> frozenset[Segment]:
    sure = _median_shares(calls, lambda share: share.ns)
    able = _median_shares(calls, lambda share: share.bounds_ns[1])
    return frozenset(name for name in ORDER if sure[name] == 0 < able[name])


def _median_shares(
    calls: Sequence[Attribution], size: Callable[[SegmentShare], Ns]
) -> dict[Segment, float]:
    shares: dict[Segment, float] = {}
    for name in ORDER:
        parts = [
            round(1e9 * size(share) / max(1, call.wall_ns))
            for call in calls
            for share in call.segments
            if share.name == name
        ]
        shares[name] = (quantile(parts, 0.5) or 0) / 1e9
    return shares
