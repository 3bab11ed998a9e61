"""The engine's plans: pure, so every instant can be checked to the nanosecond."""

from itertools import pairwise
from typing import Any

import pytest

from latscope.documents.scenarios import Scenario
from latscope.sim.engine import Ask, Plan, Step, plan
from latscope.units import MS

PLAIN: dict[str, Any] = {
    "name": "plain",
    "prefill_base_ms": 10,
    "prefill_us_per_token": 100,
    "decode_step_ms": 5,
    "step_jitter": 0,
    "output_tokens": 4,
}
"""First token at 10 ms + 0.1 ms a prompt token, then one every 5 ms."""


def of(prompt: int = 100, cached: int = 0, cap: int | None = None, **fields: Any) -> Plan:
    ask = Ask(prompt_tokens=prompt, cached_tokens=cached, cap=cap)
    return plan(Scenario.model_validate({**PLAIN, **fields}), ask, 0)


def at(planned: Plan, *what: str) -> list[float]:
    """When steps of these kinds happen, ms from scheduled."""
    return [step.at_ns / MS for step in planned.steps if step.what in what]


def chunks(planned: Plan) -> list[int]:
    return [step.stop - step.first for step in planned.steps if step.what == "emit"]


def test_prefill_is_the_base_and_the_uncached_tokens() -> None:
    assert at(of(prompt=100), "token")[0] == 20
    assert at(of(prompt=100, cached=64), "token")[0] == 13.6


def test_every_token_exists_on_its_step_and_leaves_at_once() -> None:
    """Nothing holds the stream: a frame is made and flushed the moment its token exists."""
    planned = of()
    assert at(planned, "token") == [20, 25, 30, 35]
    assert at(planned, "emit") == [20, 25, 30, 35]
    assert at(planned, "flush", "drain") == [20, 25, 30, 35]
    assert [s.what for s in planned.steps[-4:]] == ["token", "emit", "tail", "drain"]


@pytest.mark.parametrize(
    ("cap", "tokens", "finish"),
    [(None, 4, "stop"), (9, 4, "stop"), (4, 4, "stop"), (2, 2, "length")],
)
def test_the_cap_ends_an_answer_that_would_be_longer(
    cap: int | None, tokens: int, finish: str
) -> None:
    planned = of(cap=cap)
    assert (len(planned.tokens), planned.finish) == (tokens, finish)


def test_reasoning_comes_first_and_the_cap_counts_it() -> None:
    """Hidden, shown, answer, in this order; a cap may leave no answer at all."""
    fields = {"hidden_reasoning_tokens": 2, "reasoning_tokens": 1, "output_tokens": 2}
    channels = [token.channel for token in of(**fields).tokens]
    assert channels == ["hidden", "hidden", "reasoning", "content", "content"]
    assert [token.channel for token in of(cap=3, **fields).tokens] == channels[:3]


def test_hidden_tokens_exist_and_are_never_sent() -> None:
    planned = of(hidden_reasoning_tokens=2, output_tokens=2)
    assert at(planned, "token") == [20, 25, 30, 35]
    assert at(planned, "emit") == at(planned, "flush", "drain") == [30, 35]


def test_text_has_no_leading_blank_in_any_channel() -> None:
    planned = of(reasoning_tokens=2, output_tokens=2)
    first = {token.channel: token.text for token in reversed(planned.tokens)}
    assert all(text == text.strip() for text in first.values())


def test_the_first_token_leaves_alone_and_the_rest_in_groups() -> None:
    """Each group when its last token exists, the last one when generation ends."""
    planned = of(output_tokens=8, tokens_per_chunk=3)
    assert chunks(planned) == [1, 3, 3, 1]
    assert at(planned, "emit") == [20, 35, 50, 55]


def test_a_group_never_mixes_channels() -> None:
    planned = of(reasoning_tokens=3, output_tokens=3, tokens_per_chunk=4)
    assert chunks(planned) == [1, 2, 3]


def test_a_decode_stall_moves_everything_after_it() -> None:
    planned = of(stalls=[{"after_token": 2, "ms": 100}])
    assert at(planned, "token") == at(planned, "flush", "drain") == [20, 25, 130, 135]


def test_stalls_at_one_token_add_up_and_late_ones_do_nothing() -> None:
    stalls = [{"after_token": n, "ms": 100} for n in (2, 2, 4)]
    assert at(of(stalls=stalls), "token") == [20, 25, 230, 235]


def test_a_hold_keeps_tokens_that_exist() -> None:
    """Generation goes on; what was made while nothing left leaves at its end, together."""
    planned = of(output_tokens=6, stalls=[{"after_token": 2, "ms": 12, "kind": "hold"}])
    assert at(planned, "token") == [20, 25, 30, 35, 40, 45]
    assert at(planned, "flush", "drain") == [20, 25, 37, 40, 45]


def test_a_hold_longer_than_the_answer_ends_it() -> None:
    planned = of(stalls=[{"after_token": 2, "ms": 500, "kind": "hold"}])
    assert at(planned, "token")[-1] == 35
    assert at(planned, "flush", "drain") == [20, 25, 525]


def test_a_hold_after_a_token_that_never_comes_does_nothing() -> None:
    planned = of(stalls=[{"after_token": 40, "ms": 500, "kind": "hold"}])
    assert at(planned, "flush", "drain") == [20, 25, 30, 35]


@pytest.mark.parametrize(
    ("holds", "leaves"),
    [
        ("none", [20, 25, 30, 35]),
        ("all", [35]),
        ({"quantum_ms": 12}, [24, 36]),
        ({"quantum_ms": 5}, [20, 25, 30, 35]),
        ({"quantum_bytes": 100}, [20, 25, 30, 35]),
    ],
)
def test_hops_delay_bytes_and_never_tokens(holds: Any, leaves: list[float]) -> None:
    """A byte quantum shows in how much leaves, not in when something may."""
    planned = of(holds=holds)
    assert at(planned, "token") == at(planned, "emit") == [20, 25, 30, 35]
    assert at(planned, "flush", "drain") == leaves


def test_pings_fill_silence_only() -> None:
    """Counted from scheduled and from the last frame made; none where frames follow closely."""
    planned = of(pings_ms=8, stalls=[{"after_token": 3, "ms": 15}])
    assert at(planned, "token") == [20, 25, 30, 50]
    assert at(planned, "ping") == [8, 16, 38, 46]
    assert set(at(planned, "ping")) <= set(at(planned, "flush"))


def test_pings_go_on_through_hidden_reasoning() -> None:
    planned = of(pings_ms=8, hidden_reasoning_tokens=2, output_tokens=1)
    assert at(planned, "ping") == [8, 16, 24]


@pytest.mark.parametrize(
    ("field", "last"), [("cut_after_token", "cut"), ("error_in_band_after_token", "drain")]
)
def test_a_broken_call_ends_where_it_breaks(field: str, last: str) -> None:
    """No token after it, no tail, no usage."""
    planned = of(**{field: 2})
    assert at(planned, "token") == [20, 25]
    assert "tail" not in {step.what for step in planned.steps}
    assert planned.steps[-1] == Step(at_ns=25 * MS, what=last)  # type: ignore[arg-type]


def test_a_call_can_break_before_its_first_token() -> None:
    assert of(cut_after_token=0).steps == (Step(at_ns=20 * MS, what="cut"),)


def test_a_cut_loses_what_a_hop_held() -> None:
    assert at(of(cut_after_token=2, holds={"quantum_ms": 23}), "flush", "drain") == [23]


@pytest.mark.parametrize(
    ("fields", "what"),
    [({}, "whole"), ({"cut_after_token": 3}, "cut"), ({"error_in_band_after_token": 3}, "fail")],
)
def test_an_answer_in_one_body_leaves_when_its_last_token_exists(
    fields: dict[str, Any], what: str
) -> None:
    scenario = Scenario.model_validate({**PLAIN, **fields})
    steps = plan(scenario, Ask(prompt_tokens=100, stream=False), 0).steps
    assert [step.what for step in steps] == ["token"] * (len(steps) - 1) + [what]
    assert steps[-1].at_ns == steps[-2].at_ns


def test_jitter_is_bounded_seeded_and_its_own_for_every_call() -> None:
    """Equal seeds give equal plans, others do not; no step leaves [1 - jitter, 1 + jitter]."""
    scenario = Scenario.model_validate({**PLAIN, "step_jitter": 0.4, "output_tokens": 200})
    ask = Ask(prompt_tokens=1)
    plans = [plan(scenario, ask, seed) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    other = plan(scenario.model_copy(update={"seed": 5}), ask, 1)
    assert other != plans[0]
    times = at(plans[0], "token")
    steps = [late - early for early, late in pairwise(times)]
    assert all(3 - 1e-6 <= step <= 7 + 1e-6 for step in steps)
    assert len(set(steps)) > 100


def test_steps_never_go_back() -> None:
    """Whatever is combined, the plan is in the order it is played."""
    planned = of(
        output_tokens=30,
        tokens_per_chunk=3,
        pings_ms=4,
        holds={"quantum_ms": 7},
        stalls=[{"after_token": 5, "ms": 20, "kind": "hold"}, {"after_token": 9, "ms": 30}],
        reasoning_tokens=4,
        hidden_reasoning_tokens=3,
    )
    times = at(planned, *{step.what for step in planned.steps})
    assert times == sorted(times)
    emitted = [i for s in planned.steps if s.what == "emit" for i in range(s.first, s.stop)]
    assert emitted == list(range(3, 37))
