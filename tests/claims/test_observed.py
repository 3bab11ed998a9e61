"""The claims on calls as a client sees them: constants are found again, and each claim can fail."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from latscope.claims.calls import Observed, Stopped, largest, observe, overlapping
from latscope.claims.calls import stopped as stopped_of
from latscope.claims.model import CLAIMS, Row
from latscope.claims.observed import rows, steps
from latscope.sim.fleet import recordings as recorded
from latscope.sim.fleet.arrivals import Workload, drawn
from latscope.sim.fleet.engine import Fleet, simulate
from latscope.units import MS
from tests.calls import DONE, attempt, delta, finish, stream, tokens, usage
from tests.calls import call as call_of
from tests.claims.observations import call, crowd, served, server

OPEN = "insufficient evidence"


def judged(calls: Sequence[Observed]) -> dict[str, Row]:
    found: dict[str, Row] = {row.id: row for row in rows(calls, "file")}
    assert set(found) == set(CLAIMS)
    return found


def test_a_server_s_constants_are_found_again() -> None:
    """0.2 ms to compute a token, 0.002 to read one: a hundred to one."""
    found = judged(served())
    assert found["step-grows-with-context"].slope == pytest.approx(0.002, rel=1e-3)
    ratio = found["recompute-to-read-ratio"]
    assert ratio.slope == pytest.approx(100, rel=0.01)
    assert "prefill 200 µs a token (from TTFT)" in ratio.note
    assert found["cache-removes-recomputation"].verdict == "holds"
    assert found["ttft-independent-of-output"].slope == pytest.approx(0, abs=0.02)
    assert found["ttft-independent-of-output"].verdict == "holds"
    assert found["e2e-is-ttft-plus-steps"].note.startswith("within one step")


def test_prefill_is_what_the_server_states_where_it_does() -> None:
    """Its own figure, half of TTFT here, counts, not TTFT."""
    calls = [replace(one, prefill_ns=one.server_ns // 2) for one in served()]
    assert "prefill 100 µs a token (as the server states it)" in (
        judged(calls)["recompute-to-read-ratio"].note
    )


@pytest.mark.parametrize(
    ("constants", "claim", "verdict"),
    [
        ({"per_output": 3.0}, "ttft-independent-of-output", "fails"),
        ({"noise": 0.9}, "ttft-independent-of-output", OPEN),
        ({"per_context": 0.0}, "step-grows-with-context", "fails"),
        ({"per_context": -0.001}, "step-grows-with-context", "fails"),
        ({"per_context": 0.0001, "noise": 0.5}, "step-grows-with-context", OPEN),
        ({"per_context": 0.2}, "cache-removes-recomputation", "fails"),
        ({"per_context": 0.0001, "noise": 0.5}, "cache-removes-recomputation", OPEN),
        ({"per_context": 0.4}, "recompute-to-read-ratio", "fails"),
        ({"per_context": 0.0001, "noise": 0.5}, "recompute-to-read-ratio", OPEN),
    ],
)
def test_a_server_that_does_otherwise(constants: dict[str, Any], claim: str, verdict: str) -> None:
    """TTFT that waits for the answer; steps that do not grow; history that is computed again."""
    row = judged(served(**constants))[claim]
    assert row.verdict == verdict
    assert (row.slope is None) <= (verdict == OPEN)


def test_recomputation_can_be_ruled_out_where_reading_does_not_show() -> None:
    """The step's growth drowns in noise, yet is far below what prefill would cost."""
    row = judged(served(per_context=0.0001, noise=0.5))["cache-removes-recomputation"]
    assert "recomputation is ruled out: it would show 1, not " in row.note


def test_the_teaching_constant_stands_beside_a_ratio_that_is_open() -> None:
    note = judged(served(per_context=0.0001, noise=0.5))["recompute-to-read-ratio"].note
    assert "the teaching constant is 12; a slope's 95 % interval spans zero" in note


STEADY = dict.fromkeys((1, 2, 4), 10.0)
RISING = {1: 10.0, 2: 20.0, 4: 40.0}
QUEUED = {1: 50.0, 2: 90.0, 4: 200.0}


@pytest.mark.parametrize(
    ("ttft", "step", "stated", "batching", "queueing"),
    [
        (dict.fromkeys((1, 2, 4), 50.0), STEADY, None, "holds", OPEN),
        (QUEUED, STEADY, None, "holds", "holds"),
        (QUEUED, STEADY, {1: 1 * MS, 2: 40 * MS, 4: 150 * MS}, "holds", "holds"),
        (QUEUED, STEADY, {1: 1 * MS, 2: 2 * MS, 4: 3 * MS}, "holds", "fails"),
        (QUEUED, RISING, None, "fails", "fails"),
    ],
)
def test_a_crowd(
    ttft: dict[int, float],
    step: dict[int, float],
    stated: dict[int, int] | None,
    batching: str,
    queueing: str,
) -> None:
    """A queue dominates only if the step stays and the server, where it states it, says so."""
    more = {} if stated is None else {"queue_ns": stated}
    found = judged(crowd(ttft, step, **more))
    assert found["batching-raises-throughput"].verdict == batching
    assert found["queueing-dominates-ttft-at-peak"].verdict == queueing


def test_a_peak_says_what_the_server_states_of_its_queue() -> None:
    """All but noise; and that nobody tells, where nobody does."""
    told = judged(crowd(QUEUED, STEADY, queue_ns={1: 0, 2: 40 * MS, 4: 150 * MS}))
    assert "99 % of the excess is queue" in told["queueing-dominates-ttft-at-peak"].note
    silent = judged(crowd(QUEUED, STEADY))["queueing-dominates-ttft-at-peak"].note
    assert "its queue is not told apart from its prefill here" in silent


def peaked(calls: Sequence[Observed], stopped: Sequence[Stopped]) -> Row:
    found = {row.id: row for row in rows(calls, "url", stopped)}
    return found["queueing-dominates-ttft-at-peak"]


def test_calls_stopped_before_a_token_make_a_peak_no_lower() -> None:
    """At a peak thirty of forty calls timed out after 300 ms. Those that were answered came
    quickly, and alone they show no peak."""
    calls = crowd({1: 50.0, 2: 52.0, 4: 54.0}, STEADY)
    stopped = [Stopped(server_ns=300 * MS, load=4)] * 30
    without, found = peaked(calls, []), peaked(calls, stopped)
    assert without.verdict == OPEN
    assert "no peak" in without.note
    assert found.verdict == "holds"
    assert "; 30 more stopped before a token, counted as at least their wait" in found.note
    assert without.slope is not None
    assert found.slope is not None
    assert found.slope > without.slope


@pytest.mark.parametrize(
    "stopped",
    [
        [Stopped(server_ns=900 * MS, load=1)] * 50,  # what calls alone take is not known
        [Stopped(server_ns=1, load=4)] * 9,  # nothing is known of the peak but its calls' end
    ],
)
def test_where_stopped_calls_hide_a_peak_it_is_open(stopped: list[Stopped]) -> None:
    """No verdict from what nobody saw."""
    calls = crowd(QUEUED, STEADY)
    quick = [one for one in calls if one.load != 4] + [one for one in calls if one.load == 4][:1]
    assert peaked(quick, stopped).verdict == OPEN


def test_what_is_stopped_before_a_token() -> None:
    """By its caller or the way; not one that answered, or was refused."""
    left = attempt(status=None, headers=None, error="httpx.ReadTimeout", end=903)
    late = call_of(left, reason="error", detail="httpx.ReadTimeout")
    assert stopped_of(late, load=4) == Stopped(server_ns=900 * MS, load=4)
    cut = stream(tokens(3, start=50, step=10))
    refused = call_of(attempt([(30, b"{}")], status=429, kind="application/json"))
    assert stopped_of(cut, load=4) is None
    assert stopped_of(refused, load=4) is None


@pytest.mark.parametrize(
    ("sure", "maybe", "verdict"),
    [(99, 100, "holds"), (60, 99, OPEN), (60, 70, "fails")],
)
def test_ttft_is_the_sum_of_three(sure: int, maybe: int, verdict: str) -> None:
    """It fails only when something else must be in it, not when something else may be."""
    calls = [call(sure_ns=sure * MS, maybe_ns=maybe * MS) for _ in range(9)]
    assert judged(calls)["ttft-is-queue-prefill-network"].verdict == verdict


@pytest.mark.parametrize(
    ("wall", "verdict"), [(400, "holds"), (409, "holds"), (430, "holds"), (600, "fails")]
)
def test_the_whole_is_ttft_and_steps(wall: int, verdict: str) -> None:
    """100 ms and thirty steps of 10: a step more is within one; a half more is not."""
    found, judgement, note = steps([call(wall_ns=wall * MS) for _ in range(9)])
    assert found is not None
    assert judgement == verdict
    assert note.startswith("within one step") == (wall < 410)


@pytest.mark.parametrize("lacking", ["output", "step_ns"])
def test_the_whole_needs_a_count_and_a_pace(lacking: str) -> None:
    found, verdict, _ = steps([call(**{lacking: None})] * 9)
    assert (found, verdict) == (None, OPEN)


@pytest.mark.parametrize("calls", [[], [server(100, 8)], [call(input=None, uncached=None)] * 9])
def test_what_is_not_known_stays_open(calls: list[Observed]) -> None:
    """No calls, one call, no usage: every row is there and says what is lacking."""
    for claim, row in judged(calls).items():
        if claim not in ("ttft-is-queue-prefill-network", "e2e-is-ttft-plus-steps") or not calls:
            assert row.verdict == OPEN
        assert row.note


def test_no_server_shows_what_it_would_do_without_its_cache() -> None:
    row = judged(served())["cache-leaves-ttft"]
    assert (row.slope, row.verdict, row.testable) == (None, OPEN, False)


def test_calls_overlap_by_their_times() -> None:
    """The first two are in flight at each other's middle, the last is alone at its own. What the
    client knew of counts where it is more."""
    at = [(0, 300), (100, 100), (160, 1000)]
    calls = [
        call(started_ns=start * MS, wall_ns=wall * MS, load=None, in_flight=None)
        for start, wall in at
    ]
    assert [one.load for one in overlapping(calls)] == [2, 2, 1]
    assert [one.load for one in overlapping([replace(calls[2], in_flight=4)])] == [5]


def test_a_recording_without_a_time_overlaps_with_nothing() -> None:
    """`started_at` may be anything in a file."""
    chunks = [*tokens(2, start=105, step=10), (120.0, finish() + usage(2) + DONE)]
    seen = observe(replace(stream(chunks), started_at="yesterday"))
    assert seen is not None
    assert [one.load for one in overlapping([seen])] == [1]


def test_calls_with_prompts_like_the_crowd_s_are_compared_across_loads() -> None:
    """Recorded ones: those alone with a prompt ten times as long say nothing of the crowd."""
    met = [replace(one, crowd=False) for one in crowd(QUEUED, STEADY)]
    longer = [call(input=1000, uncached=1000, server_ns=900 * MS) for _ in range(20)]
    rows_of = [judged(calls)["queueing-dominates-ttft-at-peak"] for calls in (met, met + longer)]
    assert rows_of[0] == rows_of[1]


def test_only_calls_of_one_model_are_compared() -> None:
    """Those of the one that has most."""
    few, many = [call(model=("a", "x"))] * 2, [call(model=("a", "y"))] * 3
    assert largest([*few, *many]) == many


def test_what_a_recording_shows() -> None:
    """Usage, pace and the prompt's uncached part, read off the stream."""
    chunks = tokens(20, start=105, step=10)
    details: dict[str, Any] = {"details": {"prompt_tokens_details": {"cached_tokens": 4}}}
    chunks += [(296.0, finish("length") + usage(20, **details) + DONE)]
    found = observe(stream(chunks))
    assert found is not None
    assert (found.input, found.uncached, found.output) == (10, 6, 20)
    assert found.step_ns == 10 * MS
    assert found.first_token_ns == 105 * MS
    assert found.server_ns == 102 * MS


@pytest.mark.parametrize("chunks", [[(105.0, delta("cut"))], [(105.0, finish("stop") + DONE)], []])
def test_calls_that_show_nothing_are_left_out(chunks: list[tuple[float, bytes]]) -> None:
    """Cut, without a token, without an answer."""
    assert observe(stream(chunks)) is None


def test_calls_are_chosen_by_their_attribution() -> None:
    chunks = [*tokens(2, start=105, step=10), (120.0, finish() + usage(2) + DONE)]
    assert observe(stream(chunks), passes=lambda call: call.model == "other") is None
    assert observe(stream(chunks), passes=lambda call: call.model == "tiny") is not None


def test_a_simulated_server_s_recordings_hold_its_truth() -> None:
    """The server states queue and prefill; the client's calls are told apart by overlap."""
    workload = Workload(calls=80, rate=4.0, prompt_spread=0.7, output=64)
    run = simulate(Fleet(), drawn(workload), trace=range(80))
    path = recorded.Path(rtt_ns=2 * MS, metrics=True)
    seen = [observe(recording) for recording in recorded.recordings(run, path)]
    found = judged(overlapping([one for one in seen if one is not None]))
    assert found["ttft-is-queue-prefill-network"].verdict == "holds"
    assert "of TTFT by the server's own figures" in found["ttft-is-queue-prefill-network"].note
    assert "as the server states it" in found["recompute-to-read-ratio"].note
