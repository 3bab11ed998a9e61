"""Stalls: silences that stand out from the stream's own step, and why each of them was.

Two questions, in this order. *What happened to the tokens behind the silence?* If they stayed late
the source had paused; if they caught up at once they had been made on time and something kept them
(attribution/schedule.py). *What else was seen meanwhile?* The client's own stamps (it did not ask
for the bytes, its event loop or collector ran), segments received out of order (something was lost
before them), a probe's round trips beside the stream (the path was slow, or it was not).

Without the probe a path that delays and a hop or server that flushes late leave the same trace:
`hold_or_delay`. The silence before the first token is none of this.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Literal, TypeAlias

from latscope.attribution.model import Segment
from latscope.attribution.quanta import Quantum, quantum
from latscope.attribution.schedule import Bend, Schedule, Silence, bend, silences
from latscope.recording import RttSample
from latscope.timeline import Evidence, Timeline
from latscope.units import MS, Ns

Cause: TypeAlias = Literal[
    "server_pause", "hold", "delay", "hold_or_delay", "loss", "client", "unsplit"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a cause means for the sums. segment, part: who owns the time it cost, null while that is
    not known; would_split: what would tell more, empty when nothing is missing."""

    segment: Segment | None
    part: str
    would_split: str = ""


PROBE = "a round-trip probe beside the stream (latscope probe runs one)"

CAUSES: dict[Cause, Kind] = {
    "server_pause": Kind(segment="decode", part="pause"),
    "hold": Kind(segment="network", part="hold"),
    "delay": Kind(segment="network", part="transit"),
    "hold_or_delay": Kind(segment="network", part="hold", would_split=PROBE),
    "loss": Kind(segment="network", part="loss"),
    "client": Kind(segment="client", part="consumer"),
    "unsplit": Kind(
        segment=None, part="", would_split=f"more tokens after it, {PROBE}, the client's loop lag"
    ),
}
"""Every word a stall's cause can be."""

SHIFTED = 0.6
CAUGHT_UP = 0.4
OVERLAP = 0.5
"""Share of a silence's excess that a piece of evidence must cover to be its cause."""
ON_TIME = 0.25
LEAST_SAMPLES = 8
SHORT: Ns = 2 * MS
"""Steps a shorter round trip apart cannot be told from one."""
AT_ONCE: Ns = 3 * MS // 2
ALIKE = 0.2
"""A silence within this share of a round trip is one."""
READY: Ns = 3 * MS
"""A client that waits for bytes has read them this soon after they came."""
LEAST_TIMER: Ns = 150 * MS
"""No retransmission timer is much shorter than Linux's least, 200 ms."""
SEGMENT = 1460
"""Bytes of payload in a segment at most, over Ethernet."""
LOST: Ns = 300 * MS
"""A probe that was still on its way so long after the silence was not kept, but lost."""
GIVES_UP: Ns = 900 * MS
"""What a probe without an answer was waited for at least (probe/rtt.py)."""

CONFIDENCE: dict[Cause, tuple[float, float]] = {
    "server_pause": (0.8, 0.95),
    "hold": (0.95, 0.95),
    "delay": (0.95, 0.95),
    "hold_or_delay": (0.9, 0.9),
    "loss": (0.9, 0.95),
    "client": (0.95, 0.95),
    "unsplit": (0.0, 0.0),
}
"""How often a cause that was named was right on the benchmark's half A (benchmarks/stalls.py):
where no probe told of the path, and where one did. One stall in six there is a path that was slower
for a while, which without a probe can look like a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One stall. at_ns, end_ns: the reads around the silence. ns: how much longer it was than the
    stream's step there. cost_ns: how much of that the tokens behind it were still late by when the
    stream ended, or stalled again: what caught up cost the call nothing, decode went on behind it.
    candidates: segments that can own the time; part: of the segment the cause names."""

    at_ns: Ns
    end_ns: Ns
    ns: Ns
    cost_ns: Ns
    cause: Cause
    confidence: float
    candidates: tuple[Segment, ...]
    part: str
    shift: float | None
    quantum: Quantum | None = None

    @property
    def segment(self) -> Segment | None:
        """Who owns `cost_ns`; null while the cause is not known."""
        return CAUSES[self.cause].segment

    @property
    def would_split(self) -> str:
        """What would tell more; empty when the cause is known."""
        return CAUSES[self.cause].would_split


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was measured during one silence. shift: see Bend; coarse: see Schedule. client: share of
    the excess in which the client's own stamps say it was not reading, with the part (`consumer`,
    `loop_lag`). lost: segments came out of order, or a probe's packet was lost. slow: whether the
    path was, by the probe; null when no sample tells."""

    shift: float | None
    coarse: bool
    client: float
    part: str
    lost: bool
    slow: bool | None


def find(timeline: Timeline, plan: Schedule | None) -> tuple[Found, ...]:
    """Every stall of the call after its first token, in order, each with its cause. plan: the
    schedule of its arrivals."""
    if plan is None:
        return ()
    gaps = silences(plan)
    edges = [0, *(gap.index for gap in gaps), len(plan.beats)]
    single = len({arrival.choice for arrival in timeline.arrivals}) == 1
    repeats = quantum(plan.beats) if gaps and single else None
    found: list[Found] = []
    for gap, since, until in zip(gaps, edges, edges[2:], strict=False):
        one = _found(timeline, plan, gap, since, until, repeats)
        found.append(_after(found[-1], one, timeline.path.rtt_ns or 0) if found else one)
    return tuple(found)


def _after(before: Found, one: Found, rtt: Ns) -> Found:
    """A path that was slow or lossy has an aftermath: its sender waits for acknowledgements, and
    the silences this makes right behind the first are of the same cause. So does a sender that had
    nothing to send for long and then more than its first window (RFC 5681, 4.1): it waits a round
    trip, which is the path's."""
    soon = one.at_ns - before.end_ns <= max(before.ns, one.ns)
    if not soon or one.ns > max(before.ns, 2 * rtt):
        return one
    waits = rtt >= SHORT and abs(one.end_ns - one.at_ns - rtt) <= ALIKE * rtt
    kept = one.cause in ("hold", "hold_or_delay")
    if before.cause in ("delay", "loss") and (kept or (one.cause == "unsplit" and waits)):
        return _as(one, before.cause)
    if before.cause == "hold" and before.ns >= LEAST_TIMER and kept and waits:
        return _as(one, "delay")
    return one


def _as(one: Found, cause: Cause) -> Found:
    sure = max(one.confidence, CONFIDENCE[cause][False])
    return replace(one, cause=cause, confidence=sure, part=CAUSES[cause].part, quantum=None)


def _found(
    timeline: Timeline,
    plan: Schedule,
    gap: Silence,
    since: int,
    until: int,
    repeats: Quantum | None,
) -> Found:
    bent = bend(plan, gap, since, until)
    seen = _seen(timeline, gap, bent, plan)
    cause = next(cause for cause, holds in RULES if holds(seen))
    kind = CAUSES[cause]
    return Found(
        at_ns=gap.at_ns,
        end_ns=gap.end_ns,
        ns=gap.excess_ns,
        cost_ns=bent.left_ns,
        cause=cause,
        confidence=CONFIDENCE[cause][seen.slow is not None],
        candidates=("decode", "network", "client") if seen.client else ("decode", "network"),
        part=seen.part if cause == "client" else kind.part,
        shift=bent.shift,
        quantum=repeats if cause in ("hold", "hold_or_delay") else None,
    )


def _paused(seen: Seen) -> bool:
    return seen.shift is not None and seen.shift >= SHIFTED


def _kept(seen: Seen) -> bool:
    return seen.shift is not None and seen.shift <= CAUGHT_UP


def _lost(seen: Seen) -> bool:
    """Several events a step hide that the stream caught up; segments out of order do not lie."""
    return seen.lost and (seen.coarse or not _paused(seen))


RULES: tuple[tuple[Cause, Callable[[Seen], bool]], ...] = (
    ("loss", lambda seen: _lost(seen) and _paused(seen)),
    ("delay", lambda seen: _paused(seen) and bool(seen.slow)),
    ("server_pause", _paused),
    ("client", lambda seen: seen.client >= OVERLAP and not seen.slow),
    ("loss", lambda seen: seen.lost),
    ("delay", lambda seen: bool(seen.slow)),
    ("hold", lambda seen: _kept(seen) and seen.slow is False),
    ("hold_or_delay", _kept),
    ("unsplit", lambda seen: True),
)
"""The first that holds names the cause."""


# -- what was measured meanwhile -------------------------------------------------------------------


def _seen(timeline: Timeline, gap: Silence, bent: Bend, plan: Schedule) -> Seen:
    client, part = _client(timeline, gap, plan)
    slow, lost = _path(timeline.evidence.rtt, gap)
    return Seen(
        shift=bent.shift,
        coarse=plan.coarse,
        client=client,
        part=part,
        lost=lost
        or _out_of_order(timeline.evidence, gap)
        or (not slow and _restarted(timeline, gap, plan)),
        slow=slow,
    )


def _client(timeline: Timeline, gap: Silence, plan: Schedule) -> tuple[float, str]:
    """The part of the client that kept the stream waiting longest, and the share it explains. One
    that was ready again before the bytes came kept nothing, and what it kept has piled up: tokens
    that were not there when it read were not kept by it."""
    evidence = timeline.evidence
    lag = [(at, at + late) for at, late in evidence.loop_lag]
    lag += [(at, at + took) for at, took in evidence.gc]
    lag += [
        (gap.end_ns - info.last_data_recv_ns, gap.end_ns)
        for info in evidence.tcp
        if info.at_ns == gap.end_ns and info.last_data_recv_ns
    ]  # the last segment had been waiting to be read
    held = [(hold.start_ns, hold.end_ns) for hold in timeline.holds]
    asked = [(at, at + took) for at, took in evidence.consumer]
    piled = plan.beats[gap.index].events * len(plan.times) / len(timeline.arrivals)
    most = min(1.0, piled * gap.step_ns / gap.excess_ns)
    shares = [
        (min(most, _cover(spans, gap) / gap.excess_ns), part)
        for part, spans in (("consumer", asked), ("loop_lag", lag), ("consumer", held))
        if any(start < gap.end_ns <= end + READY for start, end in spans)
    ]  # of alike ones the first: a loop that was busy also makes holds
    return max(shares, key=lambda share: share[0], default=(0.0, "consumer"))


def _cover(spans: Iterable[tuple[Ns, Ns]], gap: Silence) -> Ns:
    """How much of the silence these stretches cover, overlaps once."""
    covered, reached = 0, gap.at_ns
    for start, end in sorted(spans):
        start, end = max(start, reached), min(end, gap.end_ns)
        if end > start:
            covered, reached = covered + end - start, end
    return covered


def _out_of_order(evidence: Evidence, gap: Silence) -> bool:
    """Whether segments came out of order between the last snapshot before the silence and the first
    one after it."""
    counted = [
        (info.at_ns, info.rcv_ooopack)
        for info in evidence.tcp
        if info.at_ns is not None and info.rcv_ooopack is not None
    ]
    return any(
        more > count and at <= gap.at_ns + gap.step_ns and after >= gap.end_ns - MS
        for (at, count), (after, more) in pairwise(counted)
    )


def _restarted(timeline: Timeline, gap: Silence, plan: Schedule) -> bool:
    """Whether the stream came back as TCP does after its retransmission timer: one segment, and
    the rest, or as much again, a round trip later, when that was acknowledged (RFC 5681, 3.1). What
    was merely kept comes at once, and what a step of the source brings is no rest. An outage that
    loses all there is leaves nothing out of order. A path that kept everything until the timer ran
    out makes the same: there the probe's word goes before."""
    rtt = timeline.path.rtt_ns or 0
    if rtt < SHORT or gap.excess_ns < LEAST_TIMER:
        return False
    came = [(one.at.latest, one.offset) for one in timeline.arrivals]
    begin = bisect_left(came, (gap.end_ns, 0))
    behind = bisect_right(came, (gap.end_ns + AT_ONCE, sys.maxsize))
    if behind == len(came) or came[behind - 1][1] - came[begin - 1][1] > SEGMENT:
        return False
    next_ns = came[behind][0]
    second = bisect_right(came, (next_ns + AT_ONCE, sys.maxsize)) - behind
    later = (next_ns - gap.end_ns) / rtt
    full = came[behind][1] - came[begin - 1][1] > SEGMENT
    rest = 3 if full else max(3, behind - begin)
    return 0.8 <= later <= 2.2 and second >= rest and second > plan.burst


def _path(samples: Sequence[RttSample], gap: Silence) -> tuple[bool | None, bool]:
    """Whether the path was slow during the silence (null: no sample tells), and whether a packet of
    the probe was lost then."""
    took = sorted(sample.rtt_ns for sample in samples if sample.rtt_ns is not None)
    if len(took) < LEAST_SAMPLES:
        return None, False
    base = took[len(took) // 20]
    due, lost = gap.at_ns + gap.step_ns // 2, False
    during: list[tuple[Ns, Ns]] = []
    gone = _overtaken(samples)
    for sent, rtt in samples:
        extra = 0 if sent in gone else GIVES_UP if rtt is None else rtt - base
        if sent >= gap.end_ns or sent + base + extra <= due:
            continue
        if sent in gone or (extra >= GIVES_UP and sent + extra >= gap.end_ns + LOST):
            lost = True
        else:
            during.append((sent + base + extra, extra))
    period = median(after.sent_ns - before.sent_ns for before, after in pairwise(samples))
    return _slow(during, gap, period), lost


def _overtaken(samples: Sequence[RttSample]) -> set[Ns]:
    """When those were sent that were lost for certain: what was sent after them came back while
    they were still waited for. Of a silence after that they say nothing."""
    gone: set[Ns] = set()
    soonest = sys.maxsize
    for sent, rtt in reversed(samples):
        if rtt is not None:
            soonest = min(soonest, sent + rtt)
        elif soonest < sent + GIVES_UP:
            gone.add(sent)
    return gone


def _slow(during: Sequence[tuple[Ns, Ns]], gap: Silence, period: float) -> bool | None:
    """during: when each sample came back, and how much later than usual. A path that was not slow
    is only known where enough came back, on time, while the tokens were missing."""
    if any(extra >= OVERLAP * gap.excess_ns for _, extra in during):
        return True
    since = gap.end_ns - 0.8 * gap.excess_ns
    on_time = [at for at, extra in during if extra <= ON_TIME * gap.excess_ns]
    missing = [at for at in on_time if since <= at <= gap.end_ns]
    return False if len(missing) >= max(1, 0.4 * gap.excess_ns / period) else None
