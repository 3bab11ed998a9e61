"""What an endpoint's calls show of it, and when its floor is refused."""

from dataclasses import replace
from random import Random

import pytest

from latscope.attribution.guards import Fit, guards_of, noise_of, rank_correlation
from latscope.attribution.learn import (
    header_policy,
    learn,
    learn_apart,
    learn_from,
    tau_of,
)
from latscope.attribution.observe import Observation
from latscope.attribution.profile import Profile, Terms
from latscope.errors import InputError
from latscope.units import MS
from tests.attribution.rows import KEY, LINEAR, STEP, floor, row, rows
from tests.calls import DONE, finish, stream, tokens, usage


def failed(profile: Profile) -> list[str]:
    return [guard.name for guard in profile.guards if not guard.passed]


def test_a_profile_of_traffic() -> None:
    profile = learn_from(rows())
    assert profile.refused is None
    assert (profile.endpoint, profile.model, profile.api) == KEY
    assert profile.provenance == "inferred"
    assert (profile.made_at, profile.expires_at) == ("2023-11-14T22:16:39Z", "2023-11-21T22:16:39Z")
    assert profile.headers == "early"
    assert profile.rtt_ns == 2 * MS
    assert profile.tokens_per_chunk == 1.0
    assert profile.head_ns == 1 * MS
    assert profile.floor is not None
    assert profile.floor.anchor == "headers"
    assert profile.floor.n == profile.n == 200
    for uncached in (100, 400, 2000):
        assert profile.floor.terms.at(uncached) == pytest.approx(floor(uncached), rel=0.03)
    assert profile.floor.noise_ns < 1 * MS
    assert profile.step is not None
    assert profile.step.at(500) == pytest.approx(STEP, rel=0.03)
    assert profile.excess_ns is not None
    assert 5 * MS < profile.excess_ns[0] < 30 * MS < profile.excess_ns[1]
    assert profile.self_test is not None
    assert profile.self_test.n == 200
    assert profile.residuals == {}


def test_calls_whose_first_token_was_kept_are_left_out_where_most_were_not() -> None:
    """Something held their answers back; on an endpoint where all come so, they are what it is."""
    held = [replace(one, kept=True, step_ns=None, early_ns=None) for one in rows(90, seed=2)]
    assert learn_from([*rows(), *held]).n == 200
    assert learn_from([*rows(80), *held]).n == 170


def test_a_floor_without_a_crowd_of_idle_calls_is_blurred() -> None:
    """By a tenth of a step: even the quickest calls waited a little."""
    sharp, blurred = (learn_from(rows(600, idle=idle, delay=4 * MS)) for idle in (0.4, 0.02))
    assert sharp.floor is not None
    assert blurred.floor is not None
    assert sharp.floor.noise_ns < 0.1 * STEP <= blurred.floor.noise_ns * 1.01


def test_what_grows_with_the_prompt_in_calm_calls_is_known() -> None:
    """Here prompts take up to half as much again, most of them less."""
    dice = Random(4)
    even = rows(400, idle=0.5)
    slow = [
        replace(one, headers_ns=round((one.headers_ns or 0) + more * LINEAR * one.uncached))
        for one in even
        for more in [0.5 * dice.random() ** 2]
    ]
    for some, least, most in ((even, 0.0, 0.0), (slow, 0.1, 0.35)):
        made = learn_from(some).floor
        assert made is not None
        assert least <= made.growth <= most
    alike = [replace(one, uncached=500 if one.uncached < 3000 else 3000) for one in even]
    few = learn_from(alike).floor
    assert few is None or few.growth == 0


def test_calls_become_a_profile() -> None:
    calls = []
    for n in range(40):
        prompt = 100 + 60 * (n % 20)
        first = 20.0 + 0.05 * prompt + (n * 7 % 5)
        end = first + 120
        closing = finish() + usage(12, prompt=prompt) + DONE
        calls.append(stream([*tokens(12, start=first, step=10), (end, closing)]))
    assert learn(calls).n == 40
    assert learn(calls, endpoint=KEY[0], model="tiny").model == "tiny"
    with pytest.raises(InputError, match="no call to learn from"):
        learn(calls, model="large")


def test_several_models_are_named() -> None:
    other = [
        replace(one, key=("http://b:1/v1/chat/completions", "large", "chat")) for one in rows(30)
    ]
    mixed = [*rows(30), *other]
    with pytest.raises(InputError, match=r"2 endpoints or models: tiny at http://127\S+, large at"):
        learn_from(mixed)


def test_no_call_is_no_profile() -> None:
    with pytest.raises(InputError, match="include_usage"):
        learn_from([])


# -- the header's meaning -------------------------------------------------------------------------


def headed(head: float, gap: float, n: int = 10, server: str = "uvicorn") -> list[Observation]:
    return [
        row(
            at,
            100 + 50 * at,
            head + at * head / 10 + gap,
            head=head + at * head / 10,
            server=server,
        )
        for at in range(n)
    ]


def test_header_policies() -> None:
    assert header_policy(headed(2 * MS, 80 * MS)) == "early"
    assert header_policy(headed(80 * MS, 0.5 * MS)) == "token"
    assert header_policy(headed(80 * MS, 40 * MS, server="llama.cpp")) == "slot"
    assert header_policy(headed(300 * MS, 40 * MS)) == "slot"
    assert header_policy(headed(2 * MS, 80 * MS, n=2)) == "unknown"
    shuffled = [
        row(at, 100, 200 * MS + 7 * MS * at, head=(60 + 31 * at % 47) * MS) for at in range(12)
    ]
    assert header_policy(shuffled) == "unknown"


def test_a_head_that_comes_with_the_token_makes_the_request_the_anchor() -> None:
    late = [replace(one, head_ns=one.sent_ns, headers_ns=0) for one in rows()]
    profile = learn_from(late)
    assert profile.headers == "token"
    assert profile.floor is not None
    assert profile.floor.anchor == "sent"


# -- what is refused ------------------------------------------------------------------------------


def test_too_few_calls() -> None:
    profile = learn_from(rows(8))
    assert profile.floor is None
    assert profile.refused is not None
    assert profile.refused.startswith("count: 8 calls")
    assert profile.excess_ns is None


def test_prompts_of_one_size_show_no_slope() -> None:
    same = [replace(one, uncached=500 + at % 3) for at, one in enumerate(rows())]
    assert "leverage" in failed(learn_from(same))


@pytest.mark.parametrize("seed", range(4))
def test_a_standing_queue_shows_no_floor(seed: int) -> None:
    dice = Random(seed)
    busy = [
        row(at, round(dice.uniform(50, 3000)), 3000 * MS + dice.uniform(0, 2500) * MS)
        for at in range(300)
    ]
    profile = learn_from(busy)
    assert profile.floor is None
    assert "idle_evidence" in failed(profile)


def test_the_thin_end_of_a_tail_is_rarely_taken_for_a_floor() -> None:
    """An engine that is never empty: delays of a few steps, hardly any of them short. Chance may
    crowd some of the few; of eight such endpoints it must not be more than two."""
    taken = 0
    for seed in range(8):
        dice = Random(seed)
        busy = []
        for at in range(300):
            uncached = round(dice.uniform(50, 1000))
            late = dice.gammavariate(4.0, 8.0) * MS
            busy.append(row(at, uncached, floor(uncached) + late + MS))
        taken += learn_from(busy).floor is not None
    assert taken <= 2


def test_a_growing_queue_shows_no_floor() -> None:
    dice = Random(1)
    grows = []
    for at in range(200):
        uncached = round(dice.uniform(50, 3000))
        grows.append(row(at, uncached, floor(uncached) + at * 8 * MS + dice.random() * MS))
    profile = learn_from(grows)
    assert profile.floor is None
    assert {"trend", "idle_evidence"} & set(failed(profile))


def fit(times: list[float], uncached: list[int], **fields: object) -> Fit:
    values: dict[str, object] = {
        "terms": Terms(base_ns=10.0 * MS, linear_ns=LINEAR),
        "tau": 0.05,
        "uncached": uncached,
        "cached": [0] * len(uncached),
        "times": times,
        "step_ns": STEP,
    }
    return Fit(**(values | fields))  # type: ignore[arg-type]


def verdicts(one: Fit) -> dict[str, tuple[bool, str]]:
    noise = noise_of(one.residuals, one.tau)
    return {guard.name: (guard.passed, guard.detail) for guard in guards_of(one, noise)}


def test_each_guard_says_what_it_found() -> None:
    dice = Random(2)
    prompts = [round(dice.uniform(50, 2000)) for _ in range(90)]
    idle = [floor(u) + dice.random() * MS for u in prompts]
    calm = verdicts(fit(idle, prompts))
    assert all(passed for passed, _ in calm.values())
    assert calm["slope"][1] == "too few calls to compare halves"

    rising = [time + at * MS for at, time in enumerate(idle)]
    passed, said = verdicts(fit(rising, prompts))["trend"]
    assert not passed
    assert "+1.00" in said

    held = [time + (200 * MS if at > 50 else 0) for at, time in enumerate(idle)]
    passed, said = verdicts(fit(held, prompts))["trend"]
    assert not passed
    assert "every late call 2" in said

    other = (Terms(base_ns=1.0, linear_ns=LINEAR), Terms(base_ns=1.0, linear_ns=2 * LINEAR))
    assert not verdicts(fit(idle, prompts, halves=other))["slope"][0]
    same = (Terms(base_ns=1.0, linear_ns=LINEAR), Terms(base_ns=9.0, linear_ns=1.1 * LINEAR))
    assert verdicts(fit(idle, prompts, halves=same))["slope"][0]

    early = [time + (0 if dice.random() < 0.2 else 50 * MS) for time in idle]
    passed, said = verdicts(fit(early, prompts))["skewness"]
    assert not passed
    assert "pile up" in said


def test_a_step_planned_ahead_makes_no_skew() -> None:
    """One call in five found nobody, the others a step that was planned and a part of another."""
    dice = Random(2)
    prompts = [round(dice.uniform(50, 2000)) for _ in range(90)]
    joined = [0.0 if dice.random() < 0.2 else STEP * dice.uniform(1, 2) for _ in prompts]
    one = fit([floor(u) + late for u, late in zip(prompts, joined, strict=True)], prompts)
    noise = noise_of(one.residuals, one.tau)

    def skewness(of: Fit, join: float) -> bool:
        found = guards_of(of, noise, round(join))
        return next(guard.passed for guard in found if guard.name == "skewness")

    assert not skewness(one, 0)
    assert skewness(one, STEP)
    even = [0.0 if late == 0 else STEP + STEP * ((late - STEP) / STEP) ** 0.5 for late in joined]
    most = fit([floor(u) + late for u, late in zip(prompts, even, strict=True)], prompts)
    assert skewness(most, STEP)
    assert not skewness(most, 0.8 * STEP)


def test_calls_that_hardly_differ_need_no_tail() -> None:
    dice = Random(2)
    prompts = [round(dice.uniform(50, 2000)) for _ in range(90)]
    times = [floor(u) - 3 * MS + dice.gauss(3.0, 1.0) * MS for u in prompts]
    assert verdicts(fit(times, prompts))["skewness"] == (True, "hardly any call was delayed")


def test_idle_calls_must_be_of_both_short_and_long_prompts() -> None:
    dice = Random(4)
    prompts = [round(dice.uniform(50, 2000)) for _ in range(90)]
    times = [floor(u) + (0.0 if u < 900 else dice.uniform(40, 300) * MS) for u in prompts]
    passed, said = verdicts(fit(times, prompts))["idle_evidence"]
    assert not passed
    assert "long ones" in said


def test_two_kinds_of_machine_are_told() -> None:
    dice = Random(3)
    mixed = []
    for at in range(160):
        uncached = round(dice.uniform(50, 2000))
        factor = dice.choice((1.0, 2.0))
        mixed.append(row(at, uncached, factor * floor(uncached) + dice.random() * 0.3 * MS))
    profile = learn_from(mixed)
    assert "modes" in failed(profile)
    assert profile.floor is None
    detail = next(guard.detail for guard in profile.guards if guard.name == "modes")
    assert "1.0" in detail
    assert "two kinds of machine" in detail


def test_rank_correlation_of_little() -> None:
    assert rank_correlation([1.0, 2.0]) == 0.0
    assert rank_correlation([3.0, 2.0, 1.0]) == -1.0


# -- windows and regimes --------------------------------------------------------------------------


def test_only_the_newest_regime_counts_and_the_count_says_so() -> None:
    slow, fast = rows(150, factor=1.8), rows(150, seed=2, start=150)
    profile = learn_from([*slow, *fast])
    assert profile.floor is not None
    assert 120 <= profile.n <= 170
    assert profile.floor.terms.at(2000) == pytest.approx(floor(2000), rel=0.05)
    detail = profile.guards[0].detail
    assert "when the floor moved" in detail
    assert "older ones left out" in detail


def test_calls_beyond_the_window_are_left_out() -> None:
    week = 7 * 86_400
    profile = learn_from([*rows(100, factor=3.0), *rows(60, start=week + 200)])
    assert profile.n == 60


def test_censored_calls_count_and_move_nothing_down() -> None:
    seen = rows(100)
    left = [row(200 + at, 800, 500 * MS, censored=True, step=None) for at in range(10)]
    early = [row(300, 800, 1 * MS, censored=True, step=None)]
    profile, without = learn_from([*seen, *left, *early]), learn_from(seen)
    assert "11 left before their first token" in profile.guards[0].detail
    assert profile.floor is not None
    assert without.floor is not None
    assert profile.floor.terms.at(800) == pytest.approx(without.floor.terms.at(800), rel=0.02)
    assert profile.floor.terms.at(800) >= floor(800)


def test_only_calls_that_were_left_give_no_floor() -> None:
    left = [row(at, 100 + at, 500 * MS, censored=True, step=None) for at in range(5)]
    assert learn_from(left).floor is None


def test_tau_follows_the_count() -> None:
    assert tau_of(5) == 0.1
    assert tau_of(100) == 0.05
    assert tau_of(500) == 0.02
    assert tau_of(5000) == 0.01


def test_calls_of_unknown_pace_leave_the_step_unknown() -> None:
    bare = [
        replace(one, step_ns=None, early_ns=None, tokens_per_chunk=None, rtt_ns=None)
        for one in rows()
    ]
    profile = learn_from(bare)
    assert profile.step is None
    assert profile.tokens_per_chunk is None
    assert profile.rtt_ns is None
    assert profile.floor is not None


def test_calls_without_heads() -> None:
    profile = learn_from(rows(head=None))
    assert profile.headers == "unknown"
    assert profile.head_ns is None
    assert profile.self_test is not None
    assert profile.self_test.head_gap_ns is None


# -- no call judged by itself ---------------------------------------------------------------------


def test_few_calls_are_judged_apart_and_many_together() -> None:
    seen = rows(30)
    apart = learn_apart(seen)
    assert len(apart) == 30
    assert apart[3] is apart[13] is apart[23]
    assert apart[3] == learn_from([one for at, one in enumerate(seen) if at % 10 != 3])
    assert learn_apart(seen[:1]) == [None]
    many = learn_apart(rows(60))
    assert len({id(profile) for profile in many}) == 1


def test_stated_truths_become_the_endpoints_own_residuals() -> None:
    told = [
        replace(
            one,
            queue_ns=round(0.2 * (one.headers_ns or 0)),
            prefill_ns=round(0.8 * (one.headers_ns or 0)),
        )
        for one in rows(400)
    ]
    profile = learn_from(told)
    assert profile.residuals
    assert {name.split("/")[0] for name in profile.residuals} == {"prefill", "queue", "lean"}
    assert all(one.n >= 50 for one in profile.residuals.values())
    assert learn_from(told[:40]).residuals == {}
