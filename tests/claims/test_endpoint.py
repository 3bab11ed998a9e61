"""What is sent to an endpoint: a bounded, shuffled plan, and what comes of trouble."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from latscope.claims.endpoint import Session, measure
from latscope.claims.plan import (
    CAPS,
    CROWDS,
    LEAST_LONGEST,
    LEAST_REQUESTS,
    Block,
    Plan,
    lengths,
    plan,
)
from latscope.errors import EndpointError, UsageError
from latscope.probe.requests import Ask
from latscope.probe.targets import target
from latscope.recording import Recording
from tests.probe.scripted import Server, answer, error, good, serving


@pytest.mark.parametrize("requests", [LEAST_REQUESTS, 34, 50, 77, 120, 500])
def test_a_plan_is_bounded_and_uses_what_it_may(requests: int) -> None:
    """Never more than asked for, and not a round of eight less."""
    found = plan(requests)
    assert requests - 8 < found.requests <= requests


def test_every_prompt_meets_every_cap_equally_often() -> None:
    """One call at a time; and each crowd the same short prompt and cap."""
    found = plan()
    alone = Counter(
        (tokens, block.cap) for block in found.blocks if not block.crowd for tokens in block.prompts
    )
    assert set(alone) == {(tokens, cap) for tokens in lengths(1536) for cap in CAPS}
    assert len(set(alone.values())) == 1
    crowds = [block for block in found.blocks if block.crowd]
    assert {block.callers for block in crowds} == set(CROWDS)
    assert len({(block.cap, block.prompts[0]) for block in crowds}) == 1
    assert all(len(block.prompts) % block.callers == 0 for block in crowds)


def test_arms_are_interleaved_by_seed() -> None:
    """The same seed, the same order; crowds between calls alone, not after them."""
    assert plan(seed=1) == plan(seed=1)
    assert plan(seed=1) != plan(seed=2)
    kinds = [block.crowd for block in plan(seed=1).blocks]
    assert sorted(kinds) != kinds
    assert sorted(kinds, reverse=True) != kinds


@pytest.mark.parametrize(
    ("requests", "longest"),
    [(LEAST_REQUESTS - 1, 1536), (120, LEAST_LONGEST - 1), (120, 10**9)],
)
def test_a_plan_that_could_tell_nothing_is_refused(requests: int, longest: int) -> None:
    with pytest.raises(UsageError):
        plan(requests, longest)


def session(server: Server, todo: Plan) -> Session:
    return Session(
        ask=Ask(target=target(server.url), model="tiny", max_tokens=None),
        plan=todo,
        timeout_s=20,
        keep=lambda recording: None,
        tell=lambda done: None,
        say=lambda text: None,
    )


def sent(todo: Plan, *replies: Any) -> tuple[Session, list[dict[str, Any]]]:
    with serving(*replies) as server:
        made = session(server, todo)
        asyncio.run(measure(made))
    return made, server.bodies


def test_every_call_of_the_plan_is_sent_once() -> None:
    """Caps as planned, every prompt new, filler in proportion, each call seen with its load."""
    todo = plan(LEAST_REQUESTS)
    made, bodies = sent(todo, good())
    assert len(bodies) == todo.requests == made.sent == made.done
    caps = Counter(body["max_tokens"] for body in bodies)
    assert caps == Counter({8: 8, 32: 8, 24: 17})
    prompts = [body["messages"][0]["content"] for body in bodies]
    assert len(set(prompts)) == len(prompts)
    assert max(len(text.split()) for text in prompts) > 1400
    assert Counter(call.load for call in made.calls if call.crowd) == {1: 2, 2: 2, 4: 4, 8: 8}
    assert len(made.calls) == todo.requests - 1


def test_prompts_are_scaled_to_the_server_s_own_tokens() -> None:
    """Where a word is several tokens, fewer words are sent."""
    heavy = good().replace(b'"prompt_tokens": 9', b'"prompt_tokens": 640')
    body = heavy.split(b"\r\n\r\n", 1)[1]
    made, bodies = sent(plan(LEAST_REQUESTS), answer(body))
    assert made.scale == pytest.approx(0.1)
    assert max(len(body["messages"][0]["content"].split()) for body in bodies[1:]) < 200


def test_no_more_is_sent_than_was_said() -> None:
    """A block that would pass the bound is not begun; every call that was is whole."""
    todo = Plan(blocks=plan(LEAST_REQUESTS).blocks, most=20)
    made, bodies = sent(todo, good())
    assert 12 < len(bodies) == made.sent <= 20
    assert not made.troubles


def test_what_is_asked_again_counts() -> None:
    """The block's four calls fit, were it not for the one the server wants spelled otherwise."""
    refusal = error("400 Bad Request", "no stream_options", param="stream_options")
    block = Block(prompts=(64,) * 4, cap=8, callers=1, crowd=False)
    made, bodies = sent(Plan(blocks=(block,), most=5), good(), refusal, good())
    assert len(bodies) == made.sent == 5
    assert len(made.calls) == 3


def test_the_spelling_a_server_wants_is_kept() -> None:
    """It is asked for once, by the warm-up."""
    refusal = error("400 Bad Request", "use 'max_completion_tokens'", param="max_tokens")
    todo = plan(LEAST_REQUESTS + 1)
    _, bodies = sent(todo, refusal, good())
    assert [next(key for key in body if key.startswith("max_")) for body in bodies] == [
        "max_tokens",
        *["max_completion_tokens"] * todo.requests,
    ]


def test_a_warm_up_that_fails_ends_it() -> None:
    """One request, and the trouble in one line."""
    with serving(error("401 Unauthorized", "no key")) as server:
        made = session(server, plan(LEAST_REQUESTS))
        with pytest.raises(EndpointError, match="401"):
            asyncio.run(measure(made))
    assert len(server.bodies) == 1


def test_calls_that_fail_are_counted_and_left_out() -> None:
    """The warm-up passes, everything after it fails."""
    made, bodies = sent(plan(LEAST_REQUESTS), good(), error("500 Internal Server Error", "broken"))
    assert made.calls == []
    assert sum(made.troubles.values()) == len(bodies) - 1


def test_recordings_are_handed_over_masked() -> None:
    """What is kept holds none of the prompt."""
    kept: list[Recording] = []
    with serving(good()) as server:
        made = session(server, plan(LEAST_REQUESTS))
        made.keep = kept.append
        asyncio.run(measure(made))
    assert len(kept) == made.sent
    assert "List words" not in repr(kept[-1].request)


def test_a_crowd_s_calls_that_were_cut_before_a_token_are_kept_as_limits() -> None:
    """They are trouble like any other, and how long they waited is known; a refusal waited for
    nothing. Of calls sent one at a time nothing is compared, so nothing is kept."""
    cut = good().partition(b"data: ")[0]
    refused = error("429 Too Many Requests", "slow down")
    crowd = Block(prompts=(64,) * 2, cap=8, callers=2, crowd=True)
    made, _ = sent(Plan(blocks=(crowd,), most=9), good(), cut, refused)
    assert sum(made.troubles.values()) == 2
    (left,) = made.stopped
    assert left.load == 2
    assert left.server_ns > 0
    alone = Block(prompts=(64,), cap=8, callers=1, crowd=False)
    made, _ = sent(Plan(blocks=(alone,), most=9), good(), cut)
    assert sum(made.troubles.values()) == 1
    assert made.stopped == []
