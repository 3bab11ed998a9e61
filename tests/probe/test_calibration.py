"""Calibration: the plan keeps under its caps, the price is honest, and a simulated server's costs
are found over real sockets."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from latscope.documents.scenarios import Scenario
from latscope.errors import EndpointError, UsageError
from latscope.probe.calibration.plan import EXPERIMENTS, Plan, plan, without_first_token
from latscope.probe.calibration.price import price
from latscope.probe.calibration.send import Sending, sending
from latscope.probe.calibration.session import Session, calibrate, profile
from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.probe.targets import target
from latscope.recording import Recording
from latscope.sim.process import Running, start
from tests.probe.scripted import answer, chunk, error, serving, sse, usage

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)

# -- the plan -------------------------------------------------------------------------------------


def test_the_default_plan_is_whole_and_under_its_caps() -> None:
    made = plan()
    assert made.dropped == ()
    assert made.requests <= 200
    assert made.prompt_tokens + made.output_tokens <= 200_000
    assert made.experiments == {row.name: row.want for row in EXPERIMENTS}


def test_equal_seeds_give_equal_orders() -> None:
    assert plan(seed=4) == plan(seed=4)
    assert plan(seed=4).blocks != plan(seed=5).blocks


def test_blocks_are_interleaved_and_arms_shuffled() -> None:
    made = plan()
    half = len(made.blocks) // 2
    for part in (made.blocks[:half], made.blocks[half:]):
        assert {"prefill", "decode", "cache", "connection"} <= {b.experiment for b in part}
    orders = {tuple(c.arm for c in b.calls) for b in made.blocks if b.experiment == "prefill"}
    assert len(orders) > 4


def test_a_repeated_prompt_follows_the_call_it_repeats() -> None:
    for block in plan().blocks:
        for before, call in zip(block.calls, block.calls[1:], strict=False):
            assert not call.again or before.arm == "fresh"
        assert not block.calls[0].again


@pytest.mark.parametrize("requests", [34, 60, 100, 150, 180])
def test_fewer_requests_thin_it_out_then_drop_what_tells_least(requests: int) -> None:
    made = plan(requests=requests)
    assert made.requests <= requests
    assert made.dropped
    order = [row.name for row in EXPERIMENTS]
    assert list(made.experiments) == order[: len(made.experiments)]
    least = {row.name: row.least for row in EXPERIMENTS}
    assert all(count >= least[name] for name, count in made.experiments.items())


def test_what_is_dropped_is_said() -> None:
    said = " ".join(plan(requests=40).dropped)
    assert "no cache (what a cached prompt saves)" in said
    assert "no crowd" in said


def test_fewer_tokens_do_the_same() -> None:
    made = plan(tokens=60_000)
    assert made.prompt_tokens + made.output_tokens <= 60_000
    assert "cache" not in made.experiments or made.experiments["cache"] < 20


def test_caps_too_small_for_anything_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match="at least 34 and"):
        plan(requests=20)
    with pytest.raises(UsageError, match="--max-tokens-total 500"):
        plan(tokens=500)
    with pytest.raises(UsageError, match="--longest"):
        plan(longest=100)


def test_without_a_first_token_decode_and_connection_are_left() -> None:
    assert set(without_first_token(plan()).experiments) == {"decode", "connection"}


# -- the price ------------------------------------------------------------------------------------


def test_a_known_model_has_a_price_that_grows_with_the_plan() -> None:
    pytest.importorskip("genai_prices")
    openai = target("openai")
    small, large = (price(plan(requests=n), openai, "gpt-4o-mini") for n in (60, 200))
    sums = [float(text.split()[1]) for text in (small, large)]
    assert 0 < sums[0] < sums[1]
    assert small.endswith("less what the vendor's cache spares")


@pytest.mark.parametrize(
    ("where", "model", "said"),
    [
        ("openai", "no-such-model", "price unknown (no list price for 'no-such-model')"),
        ("nvidia", "tiny", "price unknown"),
        ("https://llm.example.com", "tiny", "price unknown"),
        ("http://127.0.0.1:8000", "gpt-4o-mini", "no price: the server runs on this machine"),
    ],
)
def test_an_unknown_price_says_so(where: str, model: str, said: str) -> None:
    assert price(plan(requests=60), target(where), model).startswith(said)


# -- against a server -----------------------------------------------------------------------------

QUICK = Scenario(
    name="quick",
    metrics="none",
    frontend_ms=1,
    queue_ms=0,
    prefill_base_ms=8,
    prefill_us_per_token=100,
    decode_step_ms=3,
    step_jitter=0,
    output_tokens=64,
)
HIDDEN = QUICK.model_copy(update={"name": "hidden", "hidden_reasoning_tokens": 200})
LIMITED = QUICK.model_copy(
    update={"name": "limited", "statuses": (200, 200, 429), "retry_after_s": 0}
)
FAILING = QUICK.model_copy(
    update={"name": "failing", "statuses": (200, 200, 500, 500, 500, 500, 500)}
)
LATE = QUICK.model_copy(update={"name": "token", "header_policy": "token"})


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with start([QUICK, HIDDEN, LIMITED, FAILING, LATE]) as running:
        yield running


def session_for(url: str, model: str, made: Plan, **more: Any) -> Session:
    ask = Ask(target=target(url), model=model, max_tokens=1)
    kept: list[Recording] = more.pop("kept", [])
    said: list[str] = more.pop("said", [])
    return Session(
        ask=ask,
        plan=made,
        timeout_s=20,
        keep=kept.append,
        tell=lambda done: None,
        say=said.append,
        **more,
    )


def calibrated(url: str, model: str, made: Plan, **more: Any) -> Session:
    session = session_for(url, model, made, **more)
    asyncio.run(calibrate(session))
    return session


def test_a_profile_says_what_it_is_of_and_what_it_cost(served: Running) -> None:
    """Whether its figures are right is for exact samples to say (tests/attribution/test_probed):
    here a busy machine's own time is in them."""
    kept: list[Recording] = []
    session = calibrated(served.base_url, "quick", plan(requests=90, longest=480), kept=kept)
    found = profile(session, now=NOW, days=7)
    for name in ("linear_ns", "step_ns", "cache_effect_ns"):
        low, high = found.intervals[name]
        assert low < high, name
    assert found.endpoint == f"{served.base_url}/v1/chat/completions"
    assert (found.model, found.api, found.provenance) == ("quick", "chat", "probed")
    assert (found.made_at, found.expires_at) == ("2026-11-29T12:00:00Z", "2026-12-06T12:00:00Z")
    assert found.connect_ns is not None
    assert found.self_test is not None
    assert found.spent["requests"] == len(kept) == session.plan.requests
    assert found.spent["input_tokens"] <= 60_000


def test_round_trips_are_measured_beside_the_calls(served: Running) -> None:
    """From the second call on: only the first tells where calls go."""
    kept: list[Recording] = []
    with RttProbe() as rtt:
        calibrated(served.base_url, "quick", plan(requests=34, longest=480), kept=kept, rtt=rtt)
    assert kept[0].rtt_probe == ()
    assert any(one.rtt_probe for one in kept)
    for one in kept:
        assert all(0 <= sample.sent_ns <= one.last_ns for sample in one.rtt_probe)


def test_round_trips_beside_a_call_on_a_connection_of_its_own(served: Running) -> None:
    ask = Ask(target=target(served.base_url), model="quick", max_tokens=1)

    async def sent(rtt: RttProbe) -> list[Recording | None]:
        async with sending(ask, 20, lambda text: None, rtt) as sender:
            wanted = [Sending(prompt="one two", cap=32, fresh_connection=True) for _ in range(2)]
            return [(await sender.send(one)).recording for one in wanted]

    with RttProbe() as rtt:
        first, second = asyncio.run(sent(rtt))
    assert first is not None
    assert second is not None
    assert first.rtt_probe == ()
    assert second.rtt_probe != ()


def test_arms_differ_in_one_thing_only(served: Running) -> None:
    session = calibrated(served.base_url, "quick", plan(requests=90, longest=480))
    arms = {name: [one for one in session.samples if one.arm == name] for name in ARMS}
    counts = Counter(one.arm for one in session.samples)
    assert counts == Counter(call.arm for call in session.plan.calls)
    assert all(one.setup_ns is not None for one in arms["new"])
    assert sum(one.setup_ns is not None for one in arms["reused"]) == 0
    assert {one.output for one in arms["one"]} == {1}
    assert {one.output for one in arms["many"]} == {32}
    assert all(one.cached > 0 for one in arms["repeated"])
    assert {one.cached for name in ("short", "middle", "long", "fresh") for one in arms[name]} == {
        0
    }
    assert all(one.first_ns is None for one in arms["whole"])
    long, short = arms["long"][0].uncached, arms["short"][0].uncached
    assert long >= 4 * short


ARMS = ("short", "middle", "long", "fresh", "repeated", "one", "many", "whole", "new", "reused")


def test_a_head_that_waits_for_the_token(served: Running) -> None:
    session = calibrated(served.base_url, "token", plan(requests=34, longest=480))
    assert profile(session, now=NOW, days=1).headers == "token"


def test_unseen_reasoning_skips_what_it_hides(served: Running) -> None:
    session = calibrated(served.base_url, "hidden", plan(requests=90, longest=480))
    found = profile(session, now=NOW, days=1)
    assert {one.arm for one in session.samples} <= {
        "one", "many", "many_again", "many_long", "whole", "reused", "new",
    }  # fmt: skip
    assert any("reasons unseen" in text for text in found.skipped)
    assert found.floor is None
    assert "step_ns" in found.intervals
    assert "linear_ns" not in found.intervals


def test_a_call_refused_for_its_rate_is_left_out(served: Running) -> None:
    session = calibrated(served.base_url, "limited", plan(requests=34, longest=480))
    assert 0 < len(session.samples) < len(session.plan.calls)
    assert any("429" in text for text in session.troubles)


def test_calls_that_keep_failing_end_it(served: Running) -> None:
    session = calibrated(served.base_url, "failing", plan(requests=34, longest=480))
    assert any("5 calls in a row failed" in text for text in session.skipped)
    assert session.done < len(session.plan.calls)


def test_what_calls_really_cost_ends_it(served: Running) -> None:
    """The plan counts on fewer tokens than its calls take: the cap holds all the same."""
    made = plan(requests=34, longest=480)
    tight = Plan(
        blocks=made.blocks,
        dropped=(),
        longest=480,
        most_requests=made.requests,
        most_tokens=4000,
    )
    session = calibrated(served.base_url, "quick", tight)
    assert any("the caps were reached" in text for text in session.skipped)
    assert session.tokens <= 4000


# -- scripted answers -----------------------------------------------------------------------------


def test_an_endpoint_that_refuses_a_cap_of_one_gets_more() -> None:
    reply = answer(sse(chunk("one"), chunk(finish="length"), usage(16), "[DONE]"))
    refused = error("400 Bad Request", "the value must be at least 16", param="max_output")
    with serving(refused, reply) as server:
        session = calibrated(server.url, "tiny", plan(requests=34, longest=480))
    assert session.least == 16
    assert any("an output cap of 1 is refused" in text for text in session.skipped)
    caps = Counter(body["max_tokens"] for body in server.bodies)
    assert set(caps) == {1, 16, 32}
    assert caps[1] == 1


def test_the_caps_other_name_is_learned_once() -> None:
    reply = answer(sse(chunk("one"), chunk(finish="length"), usage(1), "[DONE]"))
    refused = error("400 Bad Request", "use 'max_completion_tokens'", param="max_tokens")
    said: list[str] = []
    with serving(refused, reply) as server:
        calibrated(server.url, "tiny", plan(requests=34, longest=480), said=said)
    assert sum("max_tokens" in body for body in server.bodies) == 1
    assert len(said) == 1
    assert "max_completion_tokens instead of max_tokens" in said[0]


def test_an_endpoint_without_usage_is_counted_in_words() -> None:
    reply = answer(sse(chunk("one"), chunk(finish="length"), "[DONE]"))
    with serving(reply) as server:
        session = calibrated(server.url, "tiny", plan(requests=34, longest=480))
    assert any("no usage is stated" in text for text in session.skipped)
    assert {one.uncached for one in session.samples if one.arm == "long"} == {480}


def test_an_endpoint_that_does_not_answer_is_one_line() -> None:
    with serving(error("401 Unauthorized", "no")) as server:
        session = session_for(server.url, "tiny", plan(requests=34, longest=480))
        with pytest.raises(EndpointError, match="the key was refused"):
            asyncio.run(calibrate(session))
    with pytest.raises(EndpointError, match="nothing learned"):
        profile(session, now=NOW, days=7)
    assert session.spent["requests"] == 1


def test_an_answer_of_no_length_ends_it_too() -> None:
    """The first call passes, the second does not."""
    reply = answer(sse(chunk("one"), chunk(finish="length"), usage(1), "[DONE]"))
    with serving(reply, error("500 Internal Server Error", "no")) as server:
        session = session_for(server.url, "tiny", plan(requests=34, longest=480))
        with pytest.raises(EndpointError, match="500"):
            asyncio.run(calibrate(session))


def test_pairs_a_cache_did_not_serve_are_told() -> None:
    """Usage with cached tokens stated, always none."""
    counts = {"prompt_tokens": 90, "completion_tokens": 1,
              "prompt_tokens_details": {"cached_tokens": 0}}  # fmt: skip
    last = {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": counts}
    reply = answer(
        sse(chunk("one"), chunk(finish="length"), json.loads(json.dumps(last)), "[DONE]")
    )
    with serving(reply) as server:
        session = calibrated(server.url, "tiny", plan(requests=120, longest=480))
    found = profile(session, now=NOW, days=7)
    assert any("0 of" in text and "hash of the prompt" in text for text in found.skipped)
    assert found.cache_effect_ns is None
