"""The rules: a verdict needs the whole interval on one side of its limit."""

import pytest

from latscope.claims import judge
from latscope.claims.fit import Estimate, Point
from latscope.claims.model import Verdict

OPEN = judge.OPEN


def between(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2, low=low, high=high)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (between(0.95, 1.05), "holds"),
        (between(0.9, 1.1), "holds"),
        (between(0.95, 1.2), OPEN),
        (between(0.5, 1.5), OPEN),
        (between(1.11, 1.5), "fails"),
        (between(0.2, 0.89), "fails"),
        (None, OPEN),
    ],
)
def test_near(found: Estimate | None, verdict: Verdict) -> None:
    """Not seeing a difference is no proof of none: a wide interval stays open."""
    assert judge.near(found, 1, 0.1) == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [(between(1.1, 2), "holds"), (between(0.9, 2), OPEN), (between(0, 0.9), "fails"), (None, OPEN)],
)
def test_above(found: Estimate | None, verdict: Verdict) -> None:
    assert judge.above(found, 1) == verdict


@pytest.mark.parametrize(
    ("name", "curve", "verdict"),
    [
        ("a line", lambda x: 100 + x, "holds"),
        ("flat", lambda x: 100, "fails"),
        ("growth no budget would notice", lambda x: 1000 + 0.01 * x, "fails"),
        ("falling", lambda x: 100 - x, "fails"),
        ("a bend of a half", lambda x: 100 + x + (0.5 * (x - 50) if x > 50 else 0), "holds"),
        ("a bend of four times", lambda x: 100 + x + (4 * (x - 50) if x > 50 else 0), "fails"),
        ("up, then down", lambda x: 100 + 3 * min(x, 50) - max(0, x - 50), "fails"),
        ("scatter", lambda x: 100 + 40 * (x * 37 % 11), OPEN),
    ],
)  # fmt: skip
def test_linear_growth(name: str, curve: object, verdict: Verdict) -> None:
    assert callable(curve)
    points = [Point(x=x, y=float(curve(x))) for x in range(0, 100, 2)]
    assert judge.grows_linearly(points) == verdict, name


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (("holds", "holds"), "holds"),
        (("holds", OPEN), OPEN),
        ((OPEN, "fails"), "fails"),
    ],
)
def test_a_claim_of_two_halves(verdicts: tuple[Verdict, ...], whole: Verdict) -> None:
    """One that fails decides, whatever the other."""
    assert judge.both(*verdicts) == whole


UP, STILL, QUEUE = between(0.8, 2), between(0, 0.05), between(0.6, 0.9)


@pytest.mark.parametrize(
    ("excess", "moved", "share", "verdict"),
    [
        (UP, STILL, QUEUE, "holds"),
        (UP, STILL, None, "holds"),
        (UP, between(0.2, 0.4), QUEUE, "fails"),
        (UP, between(0, 0.4), QUEUE, OPEN),
        (UP, STILL, between(0.1, 0.3), "fails"),
        (between(0.1, 0.2), between(0.2, 0.4), QUEUE, OPEN),
        (None, STILL, QUEUE, OPEN),
    ],
)
def test_a_peak(
    excess: Estimate | None, moved: Estimate | None, share: Estimate | None, verdict: Verdict
) -> None:
    """Without a peak nothing is judged, not even a step that moved."""
    assert judge.peak(excess, moved, share) == verdict


def seen(*times: float) -> list[tuple[int, float]]:
    """Five calls a size, one, two, four ... at once, each a little apart."""
    return [
        (1 << place, latency * (1 + 0.001 * repeat))
        for place, latency in enumerate(times)
        for repeat in range(5)
    ]


@pytest.mark.parametrize(
    ("batches", "verdict", "said"),
    [
        (seen(10, 10, 10.5, 11), "holds", "up to 8 at once a call takes +10 %"),
        (seen(10, 10.2, 11, 18, 36), "holds", "beyond that, 8 at once take +80 %"),
        (seen(10, 20, 40), "fails", "one call already saturates it: 2 at once take +100 %"),
        (seen(10, 12.7, 20), "fails", "one call already saturates it: 2 at once take +27 %"),
        (
            [(1, t) for t in (8, 9, 10, 11, 12)] + [(2, t) for t in (9, 11, 13, 15, 17)],
            OPEN,
            "2 at once take +30 %",
        ),
        (seen(10), OPEN, "needs calls that were alone"),
        ([], OPEN, "needs calls that were alone"),
        ([(1, 10.0), (2, 10.0)], OPEN, "too few calls"),
    ],
)
def test_batching(batches: list[tuple[int, float]], verdict: Verdict, said: str) -> None:
    """Throughput in proportion while latency stays; the first size that slows a call ends it."""
    _, judged, note = judge.batching(batches)
    assert judged == verdict
    assert said in note


def test_a_latency_that_stays_is_throughput_in_proportion() -> None:
    """Size over latency: elasticity 1; a latency that doubles with the batch: 0."""
    for batches, elasticity in ((seen(10, 10, 10), 1.0), (seen(10, 20), 0.0)):
        found, _, _ = judge.batching(batches)
        assert found is not None
        assert found.value == pytest.approx(elasticity, abs=0.01)
