"""One call's engine interval, split by what is known of its endpoint."""

from dataclasses import replace

import pytest

from latscope.attribution.excess import errors_of, point_of, split
from latscope.attribution.profile import Anchor, Floor, Profile, Residual, StepFloor, Terms
from latscope.units import MS, US
from tests.attribution.rows import KEY, row

FLOOR = Floor(
    terms=Terms(base_ns=8.0 * MS, linear_ns=40.0 * US, chunk_ns=8.0 * MS, chunk_tokens=1024),
    anchor="sent",
    n=100,
    noise_ns=MS,
    tokens=(50, 4000),
)
PROFILE = Profile(
    endpoint=KEY[0],
    model=KEY[1],
    api="chat",
    provenance="inferred",
    made_at="2026-11-29T12:00:00Z",
    expires_at="2026-12-06T12:00:00Z",
    n=100,
    floor=FLOOR,
    step=StepFloor(base_ns=8.0 * MS, per_context_ns=0.0, n=100, noise_ns=MS),
    headers="token",
    rtt_ns=2 * MS,
    tokens_per_chunk=1.0,
)
TABLE = {
    f"{quantity}/any": Residual(low=-0.4, high=0.4, n=500)
    for quantity in ("prefill", "queue", "excess")
} | {"lean/any": Residual(low=-0.1, high=0.1, n=500)}


def test_what_an_idle_engine_takes_is_prefill() -> None:
    one = split(row(0, 500, 28 * MS), PROFILE, TABLE, {})
    assert one is not None
    assert (one.total_ns, one.floor_ns, one.excess_ns) == (28 * MS, 28 * MS, 0)
    assert (one.prefill_ns, one.waiting_ns, one.front_ns) == (28 * MS, 0, 0)
    assert one.dominant == "prefill"
    assert one.anchor == "sent"
    assert one.group == "inferred/sent/idle/alone"
    assert not one.calibrated


def test_quiet_steps_after_the_first_token_make_the_excess_waiting() -> None:
    one = split(row(0, 500, 128 * MS, step=8 * MS), PROFILE, TABLE, {})
    assert one is not None
    assert (one.prefill_ns, one.waiting_ns, one.excess_ns) == (28 * MS, 100 * MS, 100 * MS)
    assert one.dominant == "queue"
    assert one.prefill_low_ns <= 28 * MS <= one.prefill_high_ns
    assert one.group == "inferred/sent/queued/alone"


def test_slow_steps_after_it_were_slow_before_it_too_every_one() -> None:
    """2,500 tokens are three steps; each took 5 ms more for its company."""
    one = split(row(0, 2500, 224 * MS, step=8 * MS, early=13 * MS), PROFILE, TABLE, {})
    assert one is not None
    assert one.floor_ns == 124 * MS
    assert one.prefill_ns == 139 * MS
    assert one.waiting_ns == 85 * MS
    assert one.group == "inferred/sent/busy/alone"


def test_company_costs_no_more_than_the_excess() -> None:
    one = split(row(0, 500, 33 * MS, step=8 * MS, early=90 * MS), PROFILE, TABLE, {})
    assert one is not None
    assert (one.prefill_ns, one.waiting_ns) == (33 * MS, 0)
    assert one.group == "inferred/sent/light/much"


def test_near_halves_have_no_dominant_segment() -> None:
    one = split(row(0, 500, 57 * MS), PROFILE, TABLE, {})
    assert one is not None
    assert one.dominant is None


def test_a_call_quicker_than_the_floor() -> None:
    one = split(row(0, 500, 20 * MS), PROFILE, TABLE, {})
    assert one is not None
    assert (one.prefill_ns, one.waiting_ns, one.excess_ns) == (20 * MS, 0, 0)


def test_what_the_base_holds_beyond_steps_is_the_front_end() -> None:
    heavy = replace(FLOOR, terms=Terms(base_ns=30.0 * MS, linear_ns=40.0 * US))
    learnt = replace(PROFILE, floor=heavy)
    probed = replace(learnt, provenance="probed")
    headed = replace(learnt, floor=replace(heavy, anchor="headers"))
    for profile, front in ((learnt, 14 * MS), (probed, 22 * MS), (headed, 0)):
        one = split(row(0, 500, 50 * MS), profile, TABLE, {})
        assert one is not None
        assert (one.front_ns, one.waiting_ns) == (front, front)
        assert one.prefill_ns == one.total_ns - front
    unknown = split(row(0, 500, 50 * MS), replace(learnt, step=None), TABLE, {})
    assert unknown is not None
    assert (unknown.front_ns, unknown.prefill_ns) == (0, 50 * MS)


@pytest.mark.parametrize("anchor", ["sent", "headers"])
def test_the_anchor_says_from_where(anchor: Anchor) -> None:
    profile = replace(PROFILE, floor=replace(FLOOR, anchor=anchor))
    one = split(row(0, 500, 90 * MS, head=20 * MS), profile, TABLE, {})
    assert one is not None
    assert one.total_ns == (90 if anchor == "sent" else 70) * MS


def test_a_first_token_that_was_kept_says_nothing_where_others_are_not() -> None:
    kept = row(0, 500, 128 * MS, kept=True)
    assert point_of(kept, PROFILE) is None
    assert split(kept, PROFILE) is None
    assert PROFILE.step is not None
    seldom = replace(PROFILE, step=replace(PROFILE.step, n=PROFILE.n // 2 - 1))
    for usual in (seldom, replace(PROFILE, step=None)):
        assert point_of(kept, usual) is not None


def test_without_floor_or_time_there_is_nothing() -> None:
    assert split(row(0, 500, 50 * MS), replace(PROFILE, floor=None)) is None
    ahead = replace(PROFILE, floor=replace(FLOOR, anchor="headers"))
    assert split(row(0, 500, 50 * MS, head=None), ahead) is None
    assert errors_of(row(0, 500, 50 * MS, head=None, queue_ns=1, prefill_ns=1), ahead) == {}


def test_intervals_lie_in_the_trivial_bound_around_their_estimates() -> None:
    for uncached in (1, 500, 4000):
        for sent in (0, 5, 60, 900):
            for early in (8, 12, 60):
                one = split(row(0, uncached, sent * MS, step=8 * MS, early=early * MS), PROFILE)
                assert one is not None
                assert one.prefill_ns + one.waiting_ns == one.total_ns == sent * MS
                assert (
                    0 <= one.prefill_low_ns <= one.prefill_ns <= one.prefill_high_ns <= one.total_ns
                )
                assert (
                    0 <= one.waiting_low_ns <= one.waiting_ns <= one.waiting_high_ns <= one.total_ns
                )
                assert 0 <= one.excess_low_ns <= one.excess_ns <= one.excess_high_ns <= one.total_ns


def test_an_endpoints_own_residuals_come_first() -> None:
    own = {"prefill/inferred/sent/queued/alone": Residual(low=-0.5, high=0.0, n=60)}
    one = split(row(0, 500, 128 * MS), replace(PROFILE, residuals=own), TABLE, {})
    assert one is not None
    assert one.calibrated
    scale = MS + 28 * MS // 50 + 28 * MS
    assert one.prefill_low_ns == 28 * MS - scale // 2


def test_no_interval_is_narrower_than_the_floor_is_known() -> None:
    """Its noise and two per cent of it, to either side."""
    sharp = {
        f"{quantity}/any": Residual(low=0.0, high=0.0, n=500)
        for quantity in ("prefill", "queue", "excess", "lean")
    }
    one = split(row(0, 500, 128 * MS), PROFILE, sharp, {})
    assert one is not None
    pad = MS + 28 * MS // 50
    assert (one.prefill_low_ns, one.prefill_high_ns) == (28 * MS - pad, 28 * MS + pad)
    assert (one.waiting_low_ns, one.waiting_high_ns) == (100 * MS - pad, 100 * MS + pad)
    assert (one.excess_low_ns, one.excess_high_ns) == (100 * MS - pad, 100 * MS + pad)


def test_a_share_of_the_excess_is_prefill_as_the_lab_found() -> None:
    """100 ms over the floor at such a load, in such company."""
    quiet = row(0, 500, 128 * MS, step=8 * MS)
    for share, prefill in ((0.0, 28), (0.25, 53), (1.0, 128)):
        one = split(quiet, PROFILE, TABLE, {"inferred/sent/queued/alone": share})
        assert one is not None
        assert (one.prefill_ns, one.waiting_ns) == (prefill * MS, (128 - prefill) * MS)
    other = split(quiet, PROFILE, TABLE, {"inferred/sent/queued/much": 0.5})
    assert other is not None
    assert other.prefill_ns == 28 * MS


AHEAD = replace(PROFILE, floor=replace(FLOOR, join_ns=8 * MS))


@pytest.mark.parametrize(
    ("over", "joined", "prefill"), [(0, 0, 28), (5, 5, 33), (8, 8, 36), (108, 8, 61)]
)
def test_a_step_planned_before_ours_is_prefill(over: int, joined: int, prefill: int) -> None:
    """What is over that is shared as ever, a quarter here."""
    shares = {f"inferred/sent/{load}/alone/ahead": 0.25 for load in ("light", "queued")}
    late = row(0, 500, (28 + over) * MS)
    point = point_of(late, AHEAD, shares)
    assert point is not None
    assert (point.joined_ns, point.prefill_ns) == (joined * MS, prefill * MS)
    assert point.group.endswith("/alone/ahead")


def test_where_joining_shows_the_floor_is_an_idle_engines_one_step() -> None:
    """Of a base of 30 ms all but one step is front end; where nothing shows it, all but two."""
    heavy = replace(FLOOR, terms=Terms(base_ns=30.0 * MS, linear_ns=40.0 * US))
    for join, front in ((0, 14 * MS), (8 * MS, 22 * MS)):
        profile = replace(PROFILE, floor=replace(heavy, join_ns=join))
        point = point_of(row(0, 500, 50 * MS), profile, {})
        assert point is not None
        assert point.front_ns == front


UNEVEN = replace(PROFILE, floor=replace(FLOOR, growth=0.1))


@pytest.mark.parametrize(("over", "joined", "prefill"), [(0, 0, 28), (1, 1, 29), (22, 2.8, 35.6)])
def test_what_an_uneven_machine_takes_more_in_calm_calls_is_prefill(
    over: int, joined: float, prefill: float
) -> None:
    """A tenth of 28 ms; of what is over that, a quarter here."""
    shares = {"inferred/sent/busy/alone/uneven": 0.25}
    point = point_of(row(0, 500, (28 + over) * MS), UNEVEN, shares)
    assert point is not None
    assert point.joined_ns == joined * MS
    assert point.prefill_ns == pytest.approx(prefill * MS)
    assert point.pad_ns == MS + 28 * MS // 50 + 2.8 * MS


def test_an_excess_the_machine_may_well_take_more_is_another_group() -> None:
    """Four times its growth, and what a floor can be known to."""
    most = 4 * 2.8 + 1 + 0.56 + 2.8
    for over, word in ((most - 0.01, "scatter"), (most + 0.01, "uneven")):
        point = point_of(row(0, 500, (28 + over) * MS), UNEVEN, {})
        assert point is not None
        assert point.group == f"inferred/sent/busy/alone/{word}"


def test_slow_steps_throughout_say_that_the_machine_was_slow() -> None:
    """Steps a quarter longer: the 20 ms of the prompt's own may have been 5 ms more. Half as long
    again is company's doing: more than four times its growth no machine is believed to scatter. One
    that is even has slow steps for its company alone."""
    for profile, step, prefill, group in (
        (UNEVEN, 10, 28 + 2.8 + 5, "busy/some/uneven"),
        (UNEVEN, 12, 28 + 2.8 + 8, "busy/some/uneven"),
        (PROFILE, 12, 28, "busy/alone"),
    ):
        slow = row(0, 500, 48 * MS, step=step * MS, early=8 * MS)
        point = point_of(slow, profile, {})
        assert point is not None
        assert (point.prefill_ns, point.group) == (prefill * MS, f"inferred/sent/{group}")


HEADED = replace(PROFILE, floor=replace(FLOOR, anchor="headers"), head_ns=2 * MS)


@pytest.mark.parametrize(
    ("growth", "since", "total", "early"),
    [(0.0, 40, 40, 8), (0.0, 25, 28, 5), (0.0, 15, 23, 0), (0.1, 40, 48, 1), (0.1, 15, 23, 1)],
)
def test_a_head_that_was_read_late(growth: float, since: int, total: int, early: int) -> None:
    """8 ms later than an unloaded one. What the call then took less than its floor of 28 ms, the
    engine had it before; on an uneven machine it had it all the while, and by its noise sooner."""
    profile = replace(HEADED, floor=replace(FLOOR, anchor="headers", growth=growth))
    one = split(row(0, 500, (10 + since) * MS, head=10 * MS), profile, TABLE, {})
    assert one is not None
    assert (one.total_ns, one.early_ns) == (total * MS, early * MS)
    prompt = split(row(0, 500, (1 + since) * MS, head=MS), profile, TABLE, {})
    unknown = split(row(0, 500, (10 + since) * MS, head=10 * MS), replace(profile, head_ns=None))
    assert prompt is not None
    assert unknown is not None
    assert prompt.total_ns == unknown.total_ns == since * MS


def test_errors_are_counted_in_the_estimates_scale() -> None:
    told = row(0, 500, 128 * MS, step=8 * MS, queue_ns=90 * MS, prefill_ns=38 * MS)
    point = point_of(told, PROFILE)
    assert point is not None
    found = errors_of(told, PROFILE)
    above = 38 * MS - point.prefill_ns
    assert found[f"prefill/{point.group}"] == pytest.approx(above / point.scale_ns)
    assert found[f"queue/{point.group}"] == pytest.approx(-above / point.scale_ns)
    assert errors_of(replace(told, queue_ns=None), PROFILE) == {}
