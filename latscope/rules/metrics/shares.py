"""Metrics of where the time went: segments, their parts, what bounds them, and sums of several.

queue                  the segment's time, between queue.low and queue.high
ttft.queue             its share of the time to first token, likewise bounded
queue.engine           a part of it
queue+prefill          what a client cannot tell apart, as one: likewise `ttft.queue+prefill`
"""

from collections.abc import Callable, Iterator
from functools import cache

from latscope.attribution.model import OWNERS, SEGMENTS, Segment
from latscope.rules.metrics.ends import ending, failed, first_came
from latscope.rules.metrics.metric import Call, Metric, Value

PARTS: dict[Segment, tuple[str, ...]] = {
    "queue": ("rate_limit", "frontend", "engine", "failed_attempt"),
    "prefill": ("cached", "uncached", "contention"),
    "decode": ("reasoning", "visible", "pause", "tools"),
    "network": (
        "connect", "tls", "upload", "gateway", "transit", "redirect", "hold", "loss",
        "failed_attempt",
    ),
    "client": ("pool_wait", "loop_lag", "retry", "consumer"),
}  # fmt: skip
"""Every part a segment can have."""

ELSE_NONE = frozenset(
    {
        "queue.rate_limit", "queue.failed_attempt", "decode.pause", "network.connect",
        "network.tls", "network.upload", "network.redirect", "network.hold", "network.loss",
        "network.failed_attempt", "client.pool_wait", "client.loop_lag", "client.retry",
        "client.consumer",
    }
)  # fmt: skip
"""Parts that are told whenever there is any of them: where a call has none, it is 0. Of the others
a call that does not name them says nothing."""

ENDS = ("", ".low", ".high")
Bounds = tuple[int, int, int]
"""The estimate, and the low and high end of its interval."""


def rows() -> Iterator[Metric]:
    """Every segment of the call and of its time to first token, with bounds, and every part."""
    for segment in SEGMENTS:
        for end in ENDS:
            yield _segment(segment, end, of_ttft=False)
            yield _segment(segment, end, of_ttft=True)
    for segment, parts in PARTS.items():
        for part in parts:
            yield _part(segment, part)


def joint(name: str) -> Metric | None:
    """The row of a sum of segments (`queue+prefill`, `ttft.queue+prefill`, either with `.low` or
    `.high`); null where the name is none."""
    rest, of_ttft = name.removeprefix("ttft."), name.startswith("ttft.")
    end = next((end for end in (".low", ".high") if rest.endswith(end)), "")
    members = tuple(rest.removesuffix(end).split("+"))
    if not 1 < len(members) == len({*members}) or not {*OWNERS}.issuperset(members):
        return None

    sums = _sums(members, of_ttft)
    at = ENDS.index(end)

    def of(call: Call) -> Value:
        found = sums.of(call)
        return None if found is None else float(found[at])

    what = " and ".join(members) + " together"
    return _row(name, what, end, of_ttft, of, _open_ended(members, of_ttft))


def _segment(segment: str, end: str, *, of_ttft: bool) -> Metric:
    at = ENDS.index(end)

    def of(call: Call) -> Value:
        found = None if _unknown(call, of_ttft) else _share(call, segment, of_ttft)
        return None if found is None else float(found[at])

    name = ("ttft." if of_ttft else "") + segment + end
    return _row(name, segment, end, of_ttft, of, _open_ended((segment,), of_ttft))


def _row(
    name: str,
    what: str,
    end: str,
    of_ttft: bool,
    of: Callable[[Call], Value],
    censored: Callable[[Call], bool] | None,
) -> Metric:
    window = "the time to first token" if of_ttft else "the call"
    which = {"": "", ".low": "at least, of ", ".high": "at most, of "}[end]
    return Metric(
        name=name,
        unit="ns",
        means=f"{which}the share of {window} that was {what}",
        of=of,
        low=None if end else name + ".low",
        high=None if end else name + ".high",
        censored=censored,
    )


def _unknown(call: Call, of_ttft: bool) -> bool:
    return failed(call) or (of_ttft and call["first_token_ns"] is None)


def _open_ended(members: tuple[str, ...], of_ttft: bool) -> Callable[[Call], bool] | None:
    """Whether a stopped call would have had more of it. Its queue and prefill were over once its
    first token had come."""
    if of_ttft:
        return None
    before = {"queue", "prefill"}.issuperset(members)
    return lambda call: ending(call) == "stopped" and not (before and first_came(call))


def _share(call: Call, segment: str, of_ttft: bool) -> Bounds | None:
    for share in call["segments"]:
        if share["name"] == segment:
            break
    else:
        return None
    if not of_ttft:
        return share["ns"], share["low_ns"], share["high_ns"]
    ns = share["ttft_ns"]
    if ns is None:
        return None
    low, high = share.get("ttft_low_ns"), share.get("ttft_high_ns")
    # A line of an earlier version states no interval: then it may have been all or nothing.
    return ns, 0 if low is None else low, call["first_token_ns"] if high is None else high


class _Sums:
    """The sum of several segments, call by call. Its estimate, low and high end are asked for one
    after another: the last call's are kept."""

    def __init__(self, members: tuple[str, ...], of_ttft: bool) -> None:
        self._members, self._of_ttft = members, of_ttft
        self._last: tuple[Call, Bounds | None] | None = None

    def of(self, call: Call) -> Bounds | None:
        if self._last is None or self._last[0] is not call:
            unknown = _unknown(call, self._of_ttft)
            found = None if unknown else _together(call, self._members, self._of_ttft)
            self._last = call, found
        return self._last[1]


_sums = cache(_Sums)


def _together(call: Call, members: tuple[str, ...], of_ttft: bool) -> Bounds | None:
    """At least what the others leave even at their most, at most what they leave at their least;
    pieces that are surely one of the members' count for the sum."""
    known = _known(call, of_ttft)
    if known is None:
        return None
    whole = sum([ns for ns, _, _ in known.values()])
    mine = [known[segment] for segment in members]
    others = [known[segment] for segment in OWNERS if segment not in members]
    inside = _inside(call, members, known["unattributed"][0], of_ttft)
    low = max(sum([low for _, low, _ in mine]), whole - sum([high for _, _, high in others]))
    if not of_ttft:
        low = max(low, sum([low for _, low, _ in mine]) + inside)
    high = min(sum([high for _, _, high in mine]), whole - sum([low for _, low, _ in others]))
    ns = min(max(sum([ns for ns, _, _ in mine]) + inside, low), high)
    return ns, min(low, ns), high


def _known(call: Call, of_ttft: bool) -> dict[str, Bounds] | None:
    """Every segment's bounds; null where one is missing."""
    found: dict[str, Bounds] = {}
    for segment in SEGMENTS:
        share = _share(call, segment, of_ttft)
        if share is None:
            return None
        found[segment] = share
    return found


def _inside(call: Call, members: tuple[str, ...], rest: int, of_ttft: bool) -> int:
    """The unsplit time whose candidates are all members. Of the time to first token only the sum
    is stated: it counts where every piece that may lie in it is inside."""
    within = {*members}.issuperset
    if not of_ttft:
        return sum(piece["ns"] for piece in call["unsplit"] if within(piece["candidates"]))
    first = call["first_token_ns"]
    early = [p for p in call["unsplit"] if p["at_ns"] is None or p["at_ns"] < first]
    return rest if all(within(piece["candidates"]) for piece in early) else 0


def _part(segment: str, part: str) -> Metric:
    name = f"{segment}.{part}"
    otherwise = 0.0 if name in ELSE_NONE else None

    def of(call: Call) -> Value:
        if failed(call):
            return None
        for share in call["segments"]:
            if share["name"] == segment:
                for found in share["parts"]:
                    if found["name"] == part:
                        return float(found["ns"])
        return otherwise

    return Metric(name=name, unit="ns", means=f"the part of {segment} that was {part}", of=of)
