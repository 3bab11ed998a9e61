"""A profile from probe arms: in known worlds it is right, or refuses and says why."""

from dataclasses import replace
from typing import Any

import pytest

from latscope.attribution.arms import Sample, arms_of, sample
from latscope.attribution.probed import About, profile_from_arms
from latscope.attribution.probed_head import header_policy
from latscope.attribution.profile import Profile
from latscope.timeline import build
from latscope.units import MS
from tests.attribution.arms import MIDDLE, SHORT, World, crowd, run
from tests.calls import DONE, delta, finish, stream, tokens, usage

ABOUT = About(
    endpoint="http://127.0.0.1:8000/v1/chat/completions",
    model="tiny",
    api="chat",
    made_at="2026-11-29T12:00:00Z",
    expires_at="2026-12-06T12:00:00Z",
    skipped=("crowd",),
    spent={"requests": 3},
)


def profile(world: World, seed: int = 0) -> Profile:
    return profile_from_arms(run(world), ABOUT, seed)


def within(found: Profile, name: str, truth_ms: float) -> bool:
    low, high = found.intervals[name]
    return low <= truth_ms * MS <= high


def failed(found: Profile) -> set[str]:
    return {guard.name for guard in found.guards if not guard.passed}


# -- what it finds --------------------------------------------------------------------------------


def test_known_costs_are_found() -> None:
    found = profile(World())
    assert failed(found) == set()
    assert found.refused is None
    assert found.floor is not None
    assert found.floor.anchor == "headers"
    assert found.floor.terms.base_ns == pytest.approx(20 * MS, rel=0.02)
    assert found.floor.terms.linear_ns == pytest.approx(0.1 * MS, rel=0.01)
    assert found.floor.terms.cached_ns == pytest.approx(0.01 * MS, rel=0.1)
    assert found.floor.terms.quadratic_ns == 0.0
    assert found.floor.tokens == (SHORT, 1536)
    assert found.step is not None
    assert found.step.base_ns == pytest.approx(12 * MS, rel=0.01)
    assert found.step.per_context_ns == 0.0
    assert found.cache_effect_ns == pytest.approx(0.09 * MS, rel=0.02)
    assert found.connect_ns == pytest.approx(5 * MS + MS // 4, rel=0.1)
    assert found.head_ns == 2 * MS
    assert found.rtt_ns == MS // 4
    assert found.tokens_per_chunk == 1.0
    assert (found.provenance, found.skipped, found.spent) == ("probed", ("crowd",), {"requests": 3})


def test_intervals_cover_the_truth_at_their_rate() -> None:
    """Eight worlds that differ in their luck only."""
    names = {"linear_ns": 0.1, "step_ns": 12.0, "cache_effect_ns": 0.09}
    hits = dict.fromkeys(names, 0)
    for seed in range(8):
        found = profile(World(seed=seed), seed)
        for name, truth in names.items():
            hits[name] += within(found, name, truth)
    assert all(count >= 6 for count in hits.values()), hits


def test_a_bend_is_seen_where_there_is_one() -> None:
    found = profile(World(bend=0.0001))
    assert found.floor is not None
    assert found.floor.terms.quadratic_ns == pytest.approx(0.0001 * MS, rel=0.05)
    assert found.floor.terms.linear_ns == pytest.approx(0.1 * MS, rel=0.1)


def test_a_floor_that_is_all_bend_has_no_negative_term() -> None:
    found = profile(World(bend=0.0002, per_token=-0.02, base=40))
    assert found.floor is not None
    assert found.floor.terms.linear_ns == 0.0
    assert found.floor.terms.quadratic_ns > 0


def test_a_prompt_that_costs_nothing_costs_nothing() -> None:
    found = profile(World(per_token=0.0, cached=0.0))
    assert found.floor is not None
    assert found.floor.terms.linear_ns < 0.002 * MS
    assert within(found, "linear_ns", 0.0)


def test_context_slows_a_step() -> None:
    found = profile(World(per_context=0.002))
    assert found.step is not None
    assert found.step.per_context_ns == pytest.approx(0.002 * MS, rel=0.1)
    assert found.step.at(SHORT + 16) == pytest.approx((12 + 0.002 * (SHORT + 16)) * MS, rel=0.01)


def test_without_a_pace_the_caps_tell_the_step() -> None:
    """A stream that comes in one piece still ends later the more it has to say."""
    found = profile(World(paced=False))
    assert found.step is not None
    assert found.step.base_ns == pytest.approx(12 * MS, rel=0.02)


def test_reasoning_that_is_not_shown_leaves_the_step() -> None:
    """No first token is ever seen: no floor, and the caps still tell the step."""
    blind = [
        replace(one, first_ns=None, head_ns=None, step_ns=None, hidden_reasoning=True)
        for one in run(World())
        if one.arm in ("one", "many")
    ]
    found = profile_from_arms(blind, ABOUT)
    assert found.floor is None
    assert failed(found) == {"count"}
    assert found.step is not None
    assert found.step.base_ns == pytest.approx(12 * MS, rel=0.02)
    assert (found.headers, found.head_ns, found.self_test) == ("unknown", None, None)


def test_nothing_seen_is_a_profile_of_nothing() -> None:
    found = profile_from_arms([], ABOUT)
    assert (found.floor, found.step, found.rtt_ns, found.cache_effect_ns) == (None,) * 4
    assert found.n == 0
    assert found.refused is not None
    assert found.refused.startswith("count: 0 pairs")


def test_a_prompt_served_no_faster_the_second_time() -> None:
    """The server says it cached nothing: no effect; it does not say: no effect unless one shows."""
    assert profile(World(hits=False)).cache_effect_ns is None
    assert profile(World(hits=False, states_cache=False)).cache_effect_ns is None


def test_a_cache_nobody_speaks_of_is_seen_by_its_effect() -> None:
    silent = [
        replace(one, cached=0, uncached=one.uncached + one.cached, cached_stated=False)
        for one in run(World())
    ]
    found = profile_from_arms(silent, ABOUT)
    assert found.cache_effect_ns == pytest.approx(0.09 * MS * 1520 / 1536, rel=0.02)


def test_a_cached_token_is_free_where_it_costs_nothing() -> None:
    found = profile(World(cached=0.0))
    assert found.floor is not None
    assert found.floor.terms.cached_ns < 0.001 * MS


def test_calls_that_show_less_are_passed_over() -> None:
    """Every tenth call shows no first token, every eleventh no head, some no growth of the prompt:
    the others tell the same."""
    patchy = [
        replace(
            one,
            first_ns=None if one.order % 10 == 3 else one.first_ns,
            head_ns=None if one.order % 11 == 4 else one.head_ns,
            output=None if one.order % 13 == 5 else one.output,
        )
        for one in run(World(blocks=24, paced=False))
    ]
    found = profile_from_arms(patchy, ABOUT)
    assert found.floor is not None, found.refused
    assert found.floor.terms.linear_ns == pytest.approx(0.1 * MS, rel=0.02)
    assert found.step is not None
    assert found.step.base_ns == pytest.approx(12 * MS, rel=0.02)


def test_prompts_of_one_length_show_no_slope() -> None:
    alike = [replace(one, uncached=500, cached=0) for one in run(World())]
    found = profile_from_arms(alike, ABOUT)
    assert found.floor is None
    assert failed(found) == {"count"}


def test_without_caps_to_compare_holds_are_not_looked_at() -> None:
    found = profile_from_arms([one for one in run(World()) if one.arm != "one"], ABOUT)
    (holds,) = [guard for guard in found.guards if guard.name == "holds"]
    assert holds.passed
    assert "not looked at" in holds.detail


# -- what it refuses ------------------------------------------------------------------------------

BAD: dict[str, World] = {
    "count": World(blocks=6),
    "idle_evidence": World(queue=150.0),
    "trend": World(drift=40.0),
    "holds": World(hold=200.0),
}


@pytest.mark.parametrize("name", BAD)
def test_a_floor_is_refused_with_its_reason(name: str) -> None:
    found = profile(BAD[name])
    assert name in failed(found)
    assert found.floor is None
    assert found.refused is not None
    assert found.refused.split(":")[0] in failed(found)


def test_prompts_too_alike_have_no_leverage() -> None:
    near = [replace(one, uncached=one.uncached + 2000) for one in run(World())]
    found = profile_from_arms(near, ABOUT)
    assert "leverage" in failed(found)
    assert found.floor is None


def test_a_slope_that_changes_within_the_run_is_refused() -> None:
    """The second half of the run is on a machine half as fast."""
    samples = run(World())
    half = samples[len(samples) // 2].block
    slower = [
        replace(one, first_ns=one.first_ns + round(0.1 * MS * one.uncached))
        if one.block > half and one.first_ns is not None
        else one
        for one in samples
    ]
    assert "slope" in failed(profile_from_arms(slower, ABOUT))


def test_the_same_arm_twice_must_be_the_same() -> None:
    odd = [
        replace(one, first_ns=one.first_ns + 30 * MS)
        if one.arm == "again" and one.first_ns is not None
        else one
        for one in run(World())
    ]
    assert "null" in failed(profile_from_arms(odd, ABOUT))


def test_a_stated_queue_that_never_empties_is_believed() -> None:
    """Every call waits as long: nothing spreads, only the server's own word shows it."""
    waiting = [
        replace(one, queue_ns=300 * MS, first_ns=one.first_ns + 300 * MS)
        for one in run(World())
        if one.first_ns is not None
    ]
    found = profile_from_arms(waiting, ABOUT)
    assert failed(found) == {"idle_evidence"}
    assert "states a queue of 300.0 ms" in (found.refused or "")


def test_half_the_calls_waiting_does_not_move_the_floor() -> None:
    """Two in five calls met somebody else's; the floor is where the others lie."""
    samples = [
        replace(one, first_ns=one.first_ns + (one.order % 5 < 2) * (10 + one.order % 7 * 9) * MS)
        for one in run(World(blocks=20))
        if one.first_ns is not None
    ]
    found = profile_from_arms(samples, ABOUT)
    assert found.floor is not None, found.refused
    assert found.floor.terms.base_ns == pytest.approx(20 * MS, rel=0.1)


def test_two_blocks_are_too_few_for_anything() -> None:
    found = profile(World(blocks=2))
    assert failed(found) == {"count"}
    assert found.step is None or found.step.n >= 4


def test_four_pairs_are_counted_and_refused() -> None:
    """Enough for an interval, too few to be believed; halves of three are no halves."""
    assert {"count"} <= failed(profile(World(blocks=4)))


# -- the response head ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "loaded", "policy"),
    [
        (World(head="early"), False, "early"),
        (World(head="token"), False, "token"),
        (World(head="early"), True, "early"),
        (World(head="slot"), True, "slot"),
        (World(head="early", engine="llama.cpp"), False, "slot"),
        (World(head="early", engine="llama.cpp"), True, "slot"),  # its slots were all free
        (World(head="early", engine="vllm"), False, "early"),
    ],
)
def test_the_head_is_told_by_length_load_or_name(world: World, loaded: bool, policy: str) -> None:
    samples = run(world)
    samples += crowd(world, samples) if loaded else []
    assert header_policy(arms_of(samples)) == policy


def test_a_crowd_that_did_not_wait_shows_nothing() -> None:
    world = World(head="slot", engine="vllm")
    samples = run(world)
    assert header_policy(arms_of(samples + crowd(world, samples, slots=8))) == "early"
    alone = [one for one in samples if one.arm != "middle"]
    assert header_policy(arms_of(alone + crowd(world, samples))) == "early"


def test_a_wait_split_around_the_head_says_neither() -> None:
    world = World(head="slot")
    samples = run(world)
    halfway = [
        replace(one, head_ns=round((one.head_ns or 0) * 0.65)) for one in crowd(world, samples)
    ]
    assert header_policy(arms_of(samples + halfway)) == "early"


def test_a_head_that_grows_with_the_prompt_is_not_told() -> None:
    """It leaves once half of the prompt is read: neither early nor with the token."""
    odd = [
        replace(one, head_ns=one.head_ns + round(0.03 * MS * one.uncached))
        for one in run(World())
        if one.head_ns is not None
    ]
    assert header_policy(arms_of(odd)) == "unknown"


def test_a_head_midway_is_not_told() -> None:
    odd = [
        replace(one, head_ns=round(0.7 * one.first_ns))
        for one in run(World())
        if one.first_ns is not None
    ]
    assert header_policy(arms_of(odd)) == "unknown"


def test_a_head_after_the_prompt_comes_with_the_token_however_slow_the_last_bit() -> None:
    """Delivery took a fifth of the time; the head grows with the prompt as the token does."""
    slow = [
        replace(one, first_ns=one.first_ns + 8 * MS)
        for one in run(World(head="token"))
        if one.first_ns is not None
    ]
    assert header_policy(arms_of(slow)) == "token"


def test_without_long_prompts_only_a_head_with_its_token_is_told() -> None:
    for kind, policy in (("token", "token"), ("early", "unknown")):
        short = [one for one in run(World(head=kind)) if one.arm != "long"]
        assert header_policy(arms_of(short)) == policy


def test_too_few_calls_say_nothing_of_the_head() -> None:
    assert header_policy(arms_of(run(World())[:3])) == "unknown"


def test_with_the_token_the_floor_counts_from_the_request() -> None:
    found = profile(World(head="token"))
    assert found.floor is not None
    assert found.floor.anchor == "sent"
    assert found.floor.terms.base_ns == pytest.approx(22 * MS, rel=0.02)


# -- a call as a sample ---------------------------------------------------------------------------


def seen(chunks: Any, **how: Any) -> Sample | None:
    return sample(build(stream(chunks, **how)), arm="many", block=1, order=2, planned=64)


def test_a_call_becomes_a_sample() -> None:
    chunks = [*tokens(10, start=105, step=10), (196, finish("length")),
              (197, usage(10, prompt=90, details={"prompt_tokens_details": {"cached_tokens": 64}})),
              (198, DONE)]  # fmt: skip
    found = seen(chunks, sent=5, headers=7)
    assert found is not None
    assert (found.arm, found.block, found.order) == ("many", 1, 2)
    assert (found.uncached, found.cached, found.output) == (26, 64, 10)
    assert (found.first_ns, found.head_ns, found.end_ns) == (100 * MS, 2 * MS, 193 * MS)
    assert found.gap_ns == 98 * MS
    assert found.step_ns == 10 * MS
    assert found.setup_ns == round(3.8 * MS)  # up to the first byte of the request
    assert (found.stated, found.cached_stated) == (True, True)
    assert found.context == 95


def test_what_a_server_does_not_state_is_planned_or_null() -> None:
    found = seen([(50, delta("a")), (51, finish()), (52, DONE)], connect=None)
    assert found is not None
    assert (found.uncached, found.cached, found.output, found.stated) == (64, 0, None, False)
    assert (found.step_ns, found.setup_ns, found.cached_stated) == (None, None, False)
    assert found.context == 64


def test_a_call_of_one_burst_has_no_step_of_its_own() -> None:
    chunks = [(50, delta("t")) for _ in range(10)]
    found = seen([*chunks, (51, finish()), (52, usage(10)), (53, DONE)])
    assert found is not None
    assert found.step_ns is None


def test_a_cut_call_is_no_sample() -> None:
    assert seen(tokens(3, start=50, step=10)) is None


def test_an_answer_before_our_own_stamp_took_no_negative_time() -> None:
    found = seen([(50, delta("a")), (51, finish()), (52, DONE)], sent=60, headers=4)
    assert found is None or (found.first_ns == 0 and found.head_ns == 0)


def test_middle_prompts_are_what_a_crowd_is_compared_with() -> None:
    assert {one.uncached for one in crowd(World(), run(World()))} == {MIDDLE}
