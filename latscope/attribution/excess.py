"""The time to a first token by what is known of its endpoint: prefill, waiting, and the load.

The engine's interval A runs from the floor's anchor to the first token, transit taken off. A floor
says what of it an idle engine would have taken; the rest is the excess, and it is of two kinds that
one silence hides alike: waiting to be scheduled, and prompts or decodes of others that shared the
steps of our prompt. Where an engine plans ahead, the step already planned when we came is known
to be of the second kind (see `ahead`). Of the rest, the call's own first steps after its first
token tell how much company there was; what share of an excess is prefill at such a load in such
company was measured in the lab (`SHARES`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from latscope.attribution.intervals import interval
from latscope.attribution.observe import Observation
from latscope.attribution.profile import Anchor, Floor, Profile, Residual
from latscope.attribution.residuals import RESIDUALS, SHARES
from latscope.units import Ns, clamp

Dominant = Literal["queue", "prefill"]


UNEVEN = 0.03
"""Growth from which a machine counts as uneven."""
SCATTER = 4.0
"""How many times its growth a prompt on an uneven machine may well take more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The engine's interval of one call, split. All ns; *_low_ns, *_high_ns: the 90 % interval.

    total_ns: the interval itself, from the anchor to the first token. prefill_ns: scheduled to
    first token, contention in it included; way_ns: the jitter of the way; waiting_ns: the rest, the
    front end's share of the base (front_ns) included; these three add up to total_ns. excess_ns:
    what an idle engine would not have taken, contention and waiting alike; it overlaps both.
    floor_ns: what it would have taken. early_ns: how much before total_ns began the engine may
    have had the call.
    group: of the residuals the intervals come from; calibrated: whether there were any for it.
    dominant: the larger of queue and prefill, null while their inner intervals (60 %) overlap.
    """

    anchor: Anchor
    total_ns: Ns
    prefill_ns: Ns
    prefill_low_ns: Ns
    prefill_high_ns: Ns
    waiting_ns: Ns
    waiting_low_ns: Ns
    waiting_high_ns: Ns
    way_ns: Ns
    front_ns: Ns
    excess_ns: Ns
    excess_low_ns: Ns
    excess_high_ns: Ns
    floor_ns: Ns
    early_ns: Ns
    group: str
    calibrated: bool
    dominant: Dominant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The estimate without its intervals; scale_ns: the measure its errors are counted in; pad_ns:
    how well the floor itself can be known at most; way_ns: what of the interval the way's jitter
    took, neither queue nor prefill; joined_ns: what of the excess went by before a step planned
    already, or because the machine was no quicker than in calm calls (slow_ns, at most); early_ns:
    how much earlier than counted the engine may have had the call, for a head that was read late;
    group: whose errors they are like."""

    anchor: Anchor
    total_ns: Ns
    way_ns: Ns
    prefill_ns: Ns
    front_ns: Ns
    joined_ns: Ns
    slow_ns: Ns
    excess_ns: Ns
    floor_ns: Ns
    scale_ns: Ns
    pad_ns: Ns
    early_ns: Ns
    group: str

    @property
    def waiting_ns(self) -> Ns:
        return self.total_ns - self.way_ns - self.prefill_ns


def split(
    row: Observation,
    profile: Profile,
    shipped: Mapping[str, Residual] = RESIDUALS,
    shares: Mapping[str, float] = SHARES,
) -> Estimate | None:
    """Null when the profile has no floor, the call no time from the floor's anchor, or its first
    token was kept where others' are not. shipped: the lab's residuals, for groups of which the
    endpoint has none of its own; shares: as `point_of` takes them."""
    point = point_of(row, profile, shares)
    if point is None:
        return None
    total, tables = point.total_ns, (profile.residuals, shipped)

    def around(quantity: str, at: Ns) -> tuple[Ns, Ns, bool]:
        return interval(tables, quantity, point.group, at, point.scale_ns, total, point.pad_ns)

    prefill = around("prefill", point.prefill_ns)
    waiting = around("queue", point.waiting_ns)
    excess = around("excess", point.excess_ns)
    lean = interval(tables, "lean", point.group, point.prefill_ns, point.scale_ns, total)
    return Estimate(
        anchor=point.anchor,
        total_ns=total,
        prefill_ns=point.prefill_ns,
        prefill_low_ns=prefill[0],
        prefill_high_ns=prefill[1],
        waiting_ns=point.waiting_ns,
        waiting_low_ns=waiting[0],
        waiting_high_ns=waiting[1],
        way_ns=point.way_ns,
        front_ns=point.front_ns,
        excess_ns=point.excess_ns,
        excess_low_ns=excess[0],
        excess_high_ns=excess[1],
        floor_ns=point.floor_ns,
        early_ns=point.early_ns,
        group=point.group,
        calibrated=prefill[2],
        dominant=_dominant(lean[0], lean[1], total),
    )


def _dominant(low: Ns, high: Ns, total: Ns) -> Dominant | None:
    """Prefill lies in [low, high] and queue is the rest: whether one of them is surely more."""
    if 2 * low > total:
        return "prefill"
    return "queue" if 2 * high < total else None


def point_of(
    row: Observation, profile: Profile, shares: Mapping[str, float] = SHARES
) -> Point | None:
    """The estimate alone: pure arithmetic on the observation and the profile. shares: by group,
    what share of an excess is prefill; of a group not in it, what the call's first steps say."""
    floor = profile.floor
    total = None if floor is None else time_of(row, floor.anchor)
    if floor is None or total is None or (row.kept and one_by_one(profile)):
        return None
    least = floor.terms.at(row.uncached, row.cached)
    late = _late_head(row, profile, floor)
    seen = late if uneven(floor) else min(late, max(0, least - total))
    total += seen
    way = min(profile.jitter_ns, max(0, total - least))
    excess = max(0, total - least - way)
    front = front_of(profile, floor)
    slow = round(floor.growth * max(0, least - front))
    pad = floor.noise_ns + profile.jitter_ns + least // 50 + slow
    joined = min(excess, floor.join_ns + slow)
    company = _contention(row, profile, floor, excess - joined)
    loads = excess / max(1, least), company / max(1, excess)
    group = _group(profile, floor, *loads, excess <= SCATTER * slow + floor.join_ns + pad)
    share = shares.get(group)
    shared = company if share is None else round(share * (excess - joined))
    return Point(
        anchor=floor.anchor,
        total_ns=total,
        prefill_ns=clamp(least - front + joined + shared, 0, total - way),
        way_ns=way,
        front_ns=min(front, total),
        joined_ns=joined,
        slow_ns=slow,
        excess_ns=excess,
        floor_ns=least,
        scale_ns=pad + min(excess, least),
        pad_ns=pad,
        early_ns=late - seen + (floor.noise_ns if uneven(floor) else 0),
        group=group,
    )


def time_of(row: Observation, anchor: Anchor) -> Ns | None:
    """The observation's time to the first token from the anchor."""
    return row.headers_ns if anchor == "headers" else row.sent_ns


def uneven(floor: Floor) -> bool:
    """Whether the same prompt takes now more, now less here, with nobody else about."""
    return floor.growth > UNEVEN


def _late_head(row: Observation, profile: Profile, floor: Floor) -> Ns:
    """How much later than an unloaded one the response head came. The front end may have been busy,
    or the head was read late; the second is sure of what the call then took less than its floor,
    and the rule where machines are uneven."""
    if floor.anchor != "headers" or row.head_ns is None or profile.head_ns is None:
        return 0
    return max(0, row.head_ns - profile.head_ns)


def one_by_one(profile: Profile) -> bool:
    """Whether tokens of this endpoint come one at a time as a rule."""
    return profile.step is not None and 2 * profile.step.n >= profile.n


def front_of(profile: Profile, floor: Floor) -> Ns:
    """What of the floor's base is no prefill: the front end's, where the floor counts from the
    request. From a response head that leaves after the front end nothing is left of it. An idle
    engine takes one step for the shortest prompt, two where it plans one step ahead; what the base
    holds above two steps is front end (one step, where spaced probes met no company). Without a
    known step nothing tells: all of it counts as prefill."""
    step = profile.step
    if step is None or floor.anchor == "headers":
        return 0
    steps = 1.0 if profile.provenance == "probed" or floor.join_ns else 2.0
    own = steps * step.base_ns * max(1.0, profile.tokens_per_chunk or 1.0)
    return max(0, round(floor.terms.base_ns - own))


def _contention(row: Observation, profile: Profile, floor: Floor, excess: Ns) -> Ns:
    """What sharing its steps cost the prompt, or the machine's being slow, at most the excess."""
    step, early = profile.step, row.early_ns
    if step is None or early is None:
        return 0
    each = max(1.0, profile.tokens_per_chunk or 1.0)
    over = (early - step.at(row.uncached + row.cached)) * each
    cost = over * floor.terms.steps(row.uncached)
    if uneven(floor) and row.step_ns:
        # Company makes steps longer, too, but not the prompt by as much: more than such a machine
        # scatters is not believed.
        own = floor.terms.at(row.uncached, row.cached) - floor.terms.base_ns
        slower = row.step_ns / max(1, step.at(row.context)) - 1
        cost = max(cost, own * min(slower, SCATTER * floor.growth))
    return clamp(round(cost), 0, excess)


LOADS = (
    (0.1, "idle"),
    (0.3, "light"),
    (1.0, "busy"),
    (3.0, "crowded"),
    (10.0, "queued"),
    (inf, "jammed"),
)
"""Up to which excess, as a share of the floor, a call counts as what."""

COMPANY = ((0.15, "alone"), (0.6, "some"), (inf, "much"))
"""Up to which share of the excess its own first steps explain by company."""


def _group(profile: Profile, floor: Floor, load: float, company: float, scatter: bool) -> str:
    words = [next(word for most, word in LOADS if load <= most)]
    words.append(next(word for most, word in COMPANY if company <= most))
    if floor.join_ns:
        words.append("ahead")
    if uneven(floor):
        words.append("scatter" if scatter else "uneven")
    return "/".join((profile.provenance, floor.anchor, *words))


def errors_of(row: Observation, profile: Profile) -> dict[str, float]:
    """By group, how far the server's own figures for this call lie above the estimate, in its
    scale; empty where it stated none."""
    if row.queue_ns is None or row.prefill_ns is None:
        return {}
    point = point_of(row, profile)
    if point is None:
        return {}
    prefill = (row.prefill_ns - point.prefill_ns) / point.scale_ns
    queue = (row.queue_ns - point.waiting_ns) / point.scale_ns
    return {f"prefill/{point.group}": prefill, f"queue/{point.group}": queue}
