"""Scores of one cell: what was said against what was, in the figures of the scoreboard.

Only numbers that rest on a profile are scored (inferred, probed); what a server reports or a client
measures is not at stake here. Shares are of the whole call (E2E) or of its time to first token.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

from latscope.attribution.model import SEGMENTS, Attribution, Segment
from latscope.attribution.observe import Observation
from latscope.units import Ns

FAR_APART = 0.2
"""Winners are scored where the top two true segments differ by this share of the larger."""
SLACK: Ns = 1_000
"""A hard bound is missed by more than this: truths and stamps are rounded to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One call: figures of the truth, of ours, and of each baseline, ns by segment."""

    call: Attribution
    e2e: Mapping[str, Ns]
    ttft: Mapping[str, Ns]
    baselines: Mapping[str, tuple[Ns, Ns]] = field(default_factory=dict)

    @property
    def split(self) -> bool:
        """Whether a profile split it."""
        shares = (self.call.segment("queue"), self.call.segment("prefill"))
        return any(share.provenance in ("inferred", "probed") and share.ns for share in shares)


@dataclass(slots=True, kw_only=True)
class Tally:
    """right of n, and of those not answered."""

    n: int = 0
    right: int = 0
    abstained: int = 0

    def add(self, said: str | None, was: str) -> None:
        self.n += 1
        self.abstained += said is None
        self.right += said == was

    @property
    def answered(self) -> float | None:
        """Right among the answered ones."""
        asked = self.n - self.abstained
        return self.right / asked if asked else None

    def plus(self, other: "Tally") -> "Tally":
        return Tally(
            n=self.n + other.n,
            right=self.right + other.right,
            abstained=self.abstained + other.abstained,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A cell. refused: why its floor was not believed, null when it was. e2e, ttft: winners.
    errors: per call, the largest error of a segment in points of E2E, and ttft_errors of TTFT;
    baseline_errors: the same of TTFT by each baseline, call by call. inside, intervals: 90 %
    intervals that covered the truth, and how many there were; width: median of an interval against
    the trivial bound; hard: calls all of whose hard bounds held."""

    name: str
    n: int
    refused: str | None
    e2e: Tally
    ttft: Tally
    errors: list[float]
    ttft_errors: list[float]
    baseline_errors: Mapping[str, list[float]]
    inside: int
    intervals: int
    width: float | None
    hard: int

    @property
    def coverage(self) -> float | None:
        return self.inside / self.intervals if self.intervals else None


def score(name: str, judged: Sequence[Judged], refused: str | None) -> Score:
    """The cell's figures; winners and errors of the calls a profile split."""
    split = [one for one in judged if one.split]
    e2e, ttft = Tally(), Tally()
    for one in split:
        _winner(e2e, one.call.dominant, one.e2e)
        before = {name: one.ttft[name] for name in ("queue", "prefill")}
        _winner(ttft, _first(one.call), before)
    covered, widths = _covered(split)
    return Score(
        name=name,
        n=len(judged),
        refused=refused,
        e2e=e2e,
        ttft=ttft,
        errors=[_error({s.name: s.ns for s in o.call.segments}, o.e2e) for o in split],
        ttft_errors=[_pair_error(_said(one), one) for one in split],
        baseline_errors={
            rule: [_pair_error(one.baselines[rule], one) for one in split]
            for rule in (split[0].baselines if split else ())
        },
        inside=sum(covered),
        intervals=len(covered),
        width=median(widths) if widths else None,
        hard=sum(_held(one) for one in judged),
    )


def _winner(tally: Tally, said: str | None, was: Mapping[str, Ns]) -> None:
    ranked = sorted(was, key=lambda segment: was[segment], reverse=True)
    top, next_ = was[ranked[0]], was[ranked[1]]
    if top > 0 and (top - next_) / top >= FAR_APART:
        tally.add(said, ranked[0])


def _first(call: Attribution) -> str | None:
    """The larger of queue and prefill before the first token: the word the tool prints
    (`dominant_ttft`), or where it names another segment or none, that of their intervals."""
    if call.dominant_ttft in ("queue", "prefill"):
        return call.dominant_ttft
    queue, prefill = call.segment("queue"), call.segment("prefill")
    for one, other in ((queue, prefill), (prefill, queue)):
        if (one.ttft_low_ns or 0) > (other.ttft_high_ns or 0):
            return one.name
    return None


def _said(one: Judged) -> tuple[Ns, Ns]:
    return one.call.segment("queue").ttft_ns or 0, one.call.segment("prefill").ttft_ns or 0


def _error(said: Mapping[str, Ns], was: Mapping[str, Ns]) -> float:
    """The largest error of a segment, in points of the whole; what was not attributed is one."""
    whole = sum(was.values())
    return 100 * max(abs(said.get(name, 0) - was.get(name, 0)) for name in SEGMENTS) / whole


def _pair_error(said: tuple[Ns, Ns], one: Judged) -> float:
    whole = sum(one.ttft.values())
    worst = max(abs(said[0] - one.ttft["queue"]), abs(said[1] - one.ttft["prefill"]))
    return 100 * worst / whole


def _covered(split: Sequence[Judged]) -> tuple[list[bool], list[float]]:
    """Of each interval of queue and prefill that rests on a profile: does it cover the truth; and
    how wide it is against all the time that was to be split."""
    covered, widths = [], []
    names: tuple[Segment, ...] = ("queue", "prefill")
    for one in split:
        for name in names:
            share = one.call.segment(name)
            low, high = share.bounds_ns
            if share.provenance in ("inferred", "probed") and high > low:
                covered.append(share.low_ns - SLACK <= one.e2e[name] <= share.high_ns + SLACK)
                widths.append((share.high_ns - share.low_ns) / (high - low))
    return covered, widths


def _held(one: Judged) -> bool:
    shares: dict[str, tuple[Ns, Ns]] = {s.name: s.bounds_ns for s in one.call.segments}
    return all(
        shares[name][0] - SLACK <= ns <= shares[name][1] + SLACK for name, ns in one.e2e.items()
    )


# -- over cells ------------------------------------------------------------------------------------


def worse_than(
    ours: Sequence[float], theirs: Sequence[float], seed: int = 0, draws: int = 400
) -> tuple[float, float]:
    """By how much our median error is above theirs, and the upper end of a paired bootstrap's
    one-sided 95 % interval."""
    dice, n = Random(seed), len(ours)
    found = []
    for _ in range(draws):
        picks = dice.choices(range(n), k=n)
        found.append(median(ours[i] for i in picks) - median(theirs[i] for i in picks))
    found.sort()
    return median(ours) - median(theirs), found[int(0.95 * draws) - 1]


def baseline_of(row: Observation | None, rules: Mapping[str, object]) -> dict[str, tuple[Ns, Ns]]:
    """What each rule says of a call; nothing of one that cannot be observed."""
    if row is None:
        return {}
    return {name: rule(row) for name, rule in rules.items()}  # type: ignore[operator]
