"""What a profile allows: targets kept at their edge, missed one token further."""

from dataclasses import replace

import pytest

from latscope.attribution.budget import (
    LEVELS,
    MOST,
    P95,
    Call,
    Targets,
    above,
    decode,
    e2e,
    first_token,
    keeps,
    largest_output,
    largest_prompt,
    ttft,
)
from latscope.attribution.profile import Floor, Profile, StepFloor, Terms
from latscope.units import MS

FLOOR = Floor(
    terms=Terms(base_ns=20 * MS, linear_ns=0.1 * MS, quadratic_ns=10.0, cached_ns=0.01 * MS),
    anchor="sent",
    n=12,
    noise_ns=MS,
    tokens=(128, 1536),
)
PROFILE = Profile(
    endpoint="http://127.0.0.1:8000/v1/chat/completions",
    model="tiny",
    api="chat",
    provenance="probed",
    made_at="2026-11-29T12:00:00Z",
    expires_at="2026-12-06T12:00:00Z",
    n=60,
    floor=FLOOR,
    step=StepFloor(base_ns=10 * MS, per_context_ns=1000.0, n=12, noise_ns=MS // 10),
    headers="early",
    rtt_ns=2 * MS,
    tokens_per_chunk=1.0,
    head_ns=3 * MS,
)


def test_the_parts_add_up_to_the_floor_and_the_way() -> None:
    call = Call(prompt=1000, output=10, cached=400)
    parts = {part.name: part.ns for part in first_token(PROFILE, FLOOR, call, "p50")}
    assert parts == {
        "transit": 2 * MS,
        "base": 20 * MS,
        "uncached": 60 * MS + 3_600_000,
        "cached": 4 * MS,
        "above the floor": 0,
    }
    assert ttft(PROFILE, FLOOR, call, "p50") == sum(parts.values())


def test_a_floor_from_the_head_adds_what_came_before_it() -> None:
    """And its base is prefill's alone: the head left before the queue."""
    from_head = replace(FLOOR, anchor="headers")
    least = Call(prompt=1, output=1)
    parts = {part.name: part for part in first_token(PROFILE, from_head, least, "p50")}
    assert parts["frontend"].ns == 3 * MS
    assert parts["frontend"].candidates == ("queue",)
    assert parts["base"].candidates == ("prefill",)
    blind = replace(PROFILE, head_ns=None, rtt_ns=None)
    assert ttft(blind, from_head, least, "p50") == FLOOR.terms.at(1)


def test_each_step_is_one_token_longer_in_context() -> None:
    """31 steps at contexts of 101 to 131 tokens, summed one by one."""
    total = sum(10 * MS + 1000 * (100 + at) for at in range(1, 32))
    assert decode(PROFILE, Call(prompt=100, output=32), "p50") == total
    assert decode(PROFILE, Call(prompt=100, output=1), "p50") == 0
    noisy = decode(PROFILE, Call(prompt=100, output=32), "p95")
    assert noisy == pytest.approx(total + 31 * P95 * MS / 10)


def test_p95_is_noise_or_what_load_was_seen_to_add() -> None:
    assert above(PROFILE, "p50") == 0
    assert above(PROFILE, "p95") == round(P95 * MS)
    loaded = replace(PROFILE, excess_ns=(5 * MS, 90 * MS))
    assert [above(loaded, level) for level in LEVELS] == [5 * MS, 90 * MS]
    assert above(replace(PROFILE, floor=None), "p95") == 0


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cached", [0, 512])
def test_the_largest_prompt_keeps_and_one_more_does_not(level: str, cached: int) -> None:
    targets = Targets(ttft_ns=150 * MS, e2e_ns=900 * MS)
    call = Call(prompt=1, output=64, cached=cached)
    found = largest_prompt(PROFILE, FLOOR, call, level, targets)  # type: ignore[arg-type]
    assert found.tokens is not None
    assert not found.any
    for more, kept in ((0, True), (1, False)):
        longer = Call(prompt=found.tokens + more, output=64, cached=cached)
        assert keeps(PROFILE, FLOOR, longer, level, targets) is kept  # type: ignore[arg-type]


def test_the_largest_output_keeps_and_one_more_does_not() -> None:
    targets = Targets(ttft_ns=None, e2e_ns=1000 * MS)
    found = largest_output(PROFILE, FLOOR, Call(prompt=500, output=1), "p50", targets)
    assert found.tokens is not None
    totals = [
        e2e(PROFILE, FLOOR, Call(prompt=500, output=found.tokens + more), "p50") for more in (0, 1)
    ]
    assert totals[0] is not None
    assert totals[1] is not None
    assert totals[0] <= 1000 * MS < totals[1]


def test_no_length_keeps_an_impossible_target() -> None:
    targets = Targets(ttft_ns=MS, e2e_ns=None)
    assert largest_prompt(PROFILE, FLOOR, Call(prompt=1, output=1), "p50", targets).tokens is None


def test_a_free_prompt_keeps_any_target() -> None:
    free = replace(FLOOR, terms=Terms(base_ns=MS, linear_ns=0.0))
    targets = Targets(ttft_ns=100 * MS, e2e_ns=None)
    found = largest_prompt(PROFILE, free, Call(prompt=1, output=1), "p50", targets)
    assert (found.tokens, found.any, found.beyond) == (MOST, True, True)


def test_beyond_what_was_measured_is_said() -> None:
    call = Call(prompt=2000, output=1)
    far = largest_prompt(PROFILE, FLOOR, call, "p50", Targets(ttft_ns=500 * MS, e2e_ns=None))
    near = largest_prompt(PROFILE, FLOOR, call, "p50", Targets(ttft_ns=100 * MS, e2e_ns=None))
    assert (far.beyond, near.beyond) == (True, False)
    assert largest_output(PROFILE, FLOOR, call, "p50", Targets(ttft_ns=None, e2e_ns=MS)).beyond


def test_without_a_step_nothing_is_said_of_the_end() -> None:
    stepless = replace(PROFILE, step=None)
    call = Call(prompt=10, output=10)
    assert e2e(stepless, FLOOR, call, "p50") is None
    assert keeps(stepless, FLOOR, call, "p50", Targets(ttft_ns=None, e2e_ns=1))
