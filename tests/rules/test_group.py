"""What of which calls takes part in a statistic, and what the statistics of a group are."""

from dataclasses import replace
from typing import Any

import pytest

from latscope.attribution.model import Attribution
from latscope.recording import Sample as Sampling
from latscope.rules.censored import Sample
from latscope.rules.group import (
    MEASURES,
    counts,
    ending,
    rate,
    samples,
    share,
    slope,
    statistics,
    weight,
)
from latscope.units import MS, S
from tests.calls import DONE, attempt, attributed, call, metrics, ms, stream, tokens, usage


def done(first: float = 200, *, at: float = 0, **how: Any) -> Attribution:
    """Complete: eleven tokens, the first after `first` ms, 10 ms a token."""
    end = first + 100
    chunks = [*tokens(11, start=first, step=10), (end, usage(11)), (end, DONE)]
    return begun(attributed(stream(chunks, **how)), at)


def begun(found: Attribution, at: float) -> Attribution:
    """Begun `at` seconds after noon."""
    return replace(found, started_at=f"2026-11-29T12:{int(at) // 60:02}:{at % 60:09.6f}Z")


def cancelled(stop: float, *, first: float | None = None, at: float = 0) -> Attribution:
    """By its caller, `stop` ms in; before the first token, or after two."""
    chunks = [] if first is None else tokens(2, start=first, step=10)
    made = attempt(chunks, end=None, headers=5 if chunks else None, status=200 if chunks else None)
    made = replace(made, marks=tuple(mark for mark in made.marks if mark.name != "body.end"))
    return begun(attributed(call(made, reason="cancelled", stop=stop, end=stop)), at)


def failed(status: int | None = 429, error: str | None = None, at: float = 0) -> Attribution:
    kind = "application/json"
    answered = attempt([(30, b"{}")], status=status, kind=kind)
    refused = attempt(status=None, headers=None, sent=None, error=error, end=30)
    return begun(attributed(call(refused if error else answered)), at)


def timed_out(error: str = "httpx.ReadTimeout", *, first: float | None = None) -> Attribution:
    """After 1.5 s without a byte: of an answer, or of the stream."""
    if first is None:
        late = attempt(status=None, headers=None, error=error, end=1500)
    else:
        late = attempt(tokens(2, start=first, step=10), error=error, end=1500)
    return attributed(call(late, reason="error", detail=error))


def test_how_a_call_ended() -> None:
    """Cancelled, timed out and cut calls were stopped; refusals and errors failed."""
    cut = attributed(stream(tokens(3, start=50, step=10)))
    assert cut.status == "cut"
    assert ending(done()) == "complete"
    stopped = [cut, cancelled(1000), cancelled(1000, first=50), timed_out(), timed_out(first=50)]
    assert [ending(each) for each in stopped] == ["stopped"] * 5
    assert ending(timed_out("httpx2.PoolTimeout")) == "stopped"
    bad = [failed(429), failed(500), failed(error="httpx.ConnectError")]
    assert [ending(each) for each in bad] == ["failed"] * 3


def test_a_refusal_that_is_named_a_timeout_is_a_refusal() -> None:
    """A gateway's 504 is the server's word, and so is an error it names itself."""
    gateway = failed(504)
    assert gateway.error is not None
    named = replace(gateway, error=replace(gateway.error, type="TimeoutError"))
    assert ending(named) == "failed"
    stated = replace(gateway.error, type="ModelTimeoutException")
    assert ending(replace(gateway, http_status=200, error=stated)) == "failed"


def test_ttft_of_a_stopped_call() -> None:
    """Exact if the token had come; else the wait until the stop, censored. None of errors."""
    calls = [done(200), cancelled(1000), cancelled(900, first=50), timed_out(), failed()]
    assert samples(calls, "ttft") == [
        Sample(ns=200 * MS),
        Sample(ns=1000 * MS, censored=True),
        Sample(ns=50 * MS),
        Sample(ns=1500 * MS, censored=True),
    ]


def test_e2e_of_a_stopped_call_is_a_lower_limit() -> None:
    """Its first token does not end it."""
    calls = [done(200), cancelled(1000), cancelled(900, first=50), timed_out(), failed()]
    found = samples(calls, "e2e")
    assert [(ms(s.ns), s.censored) for s in found] == [
        (300, False),
        (1000, True),
        (900, True),
        (1500, True),
    ]


def test_segments_of_a_stopped_call_are_at_least_what_is_sure() -> None:
    """The estimate of a complete one; most: the hard maximum of either."""
    whole, left = done(), cancelled(900, first=50)
    sure, maybe = left.segment("queue").bounds_ns
    assert sure < maybe
    queue = samples([whole, left], "queue")
    assert queue == [
        Sample(ns=whole.segment("queue").ns),
        Sample(ns=sure, censored=True),
    ]
    most = samples([whole, left], "queue", most=True)
    assert most == [
        Sample(ns=whole.segment("queue").bounds_ns[1]),
        Sample(ns=maybe, censored=True),
    ]


def test_answers_that_come_whole_have_no_ttft() -> None:
    """Nor has one that was stopped before it would have come so."""
    body = (
        b'{"object":"chat.completion","model":"tiny","choices":[{"index":0,"finish_reason":"stop",'
    )
    body += b'"message":{"role":"assistant","content":"hi"}}]}'
    whole = attributed(call(attempt([(400, body)], kind="application/json")))
    assert (whole.status, whole.streamed) == ("complete", False)
    assert samples([whole, cancelled(1000)], "ttft") == []
    assert len(samples([whole, cancelled(1000)], "e2e")) == 2
    assert len(samples([whole, done(), cancelled(1000)], "ttft")) == 2
    assert len(samples([cancelled(1000)], "ttft")) == 1
    begun_whole = attempt([], kind="application/json", error="httpx.ReadTimeout", end=1500)
    late = attributed(call(begun_whole, reason="error", detail="httpx.ReadTimeout"))
    assert (ending(late), late.streamed) == ("stopped", False)
    assert samples([done(), late], "ttft") == [Sample(ns=200 * MS)]


def sampled(found: Attribution, rate: float) -> Attribution:
    return replace(found, sample=Sampling(rate=rate, why="random"))


def test_a_sampled_call_stands_for_more() -> None:
    """1 / the rate; one of no rate for itself."""
    assert weight(done()) == 1
    assert weight(sampled(done(), 0.25)) == 4
    assert weight(sampled(done(), 0.0)) == 1
    (found,) = samples([sampled(done(), 0.25)], "ttft")
    assert found.weight == 4
    # 3 quick calls of which all were kept, one slow of which a tenth was: most calls are slow.
    calls = [done(100), done(100), done(100), sampled(done(900), 0.1)]
    assert statistics(calls, "ttft").p50.ns == 900 * MS


def test_totals_are_estimated_where_calls_were_sampled() -> None:
    """Kept errors all, others one in ten."""
    calls = [sampled(done(), 0.1), sampled(cancelled(1000), 0.1), failed(), failed()]
    found = counts(calls)
    assert (found.calls, found.stopped, found.failed) == (4, 1, 2)
    assert (found.total, found.total_stopped, found.total_failed) == (22, 10, 2)
    assert found.sampled
    assert not counts([done(), failed()]).sampled


def test_the_statistics_of_a_group() -> None:
    """A hundred calls of which 20 were cancelled at 1 s and 3 refused; one each second."""
    calls = [done(100 + index, at=index) for index in range(77)]
    calls += [cancelled(1000, at=77 + index) for index in range(20)]
    calls += [failed(at=97 + index) for index in range(3)]
    found = statistics(calls, "ttft")
    assert (found.n, found.censored, found.errors) == (97, 20, 3)
    assert found.p50.ns == 148 * MS  # the 49th of 97
    assert (found.p95.ns, found.p95.at_least_ns) == (None, S)
    alone = statistics(calls[:77], "ttft")
    assert alone.p95.ns == 173 * MS
    assert found.rate == pytest.approx(1.0)
    assert found.slope is not None
    assert found.slope.value == pytest.approx(MS, rel=1e-6)
    assert alone.share == pytest.approx((138 / 238, 138 / 238))


def test_every_measure_has_statistics() -> None:
    """Of the parts as of the wholes."""
    calls = [done(200 + index, at=index) for index in range(5)]
    for of in MEASURES:
        found = statistics(calls, of)
        assert (found.of, found.n, found.censored, found.errors) == (of, 5, 0, 0)
    assert statistics(calls, "e2e").share == (1, 1)


def test_what_nothing_splits_is_not_taken_for_nothing() -> None:
    """The server says nothing of its queue: at least nothing, at most the whole silence."""
    blind = statistics([done(), done()], "queue")
    assert blind.p50.ns == 0
    assert blind.p50_most.ns is not None
    assert ms(blind.p50_most.ns) == pytest.approx(200, abs=10)
    assert blind.share is not None
    least, most = blind.share
    assert least == 0
    assert most > 0.6


def test_what_a_server_states_is_known() -> None:
    """A queue of 100 ms."""
    end = 300
    told = usage(11, metrics=metrics(queue=100, prefill=80, decode=100))
    chunks = [*tokens(11, start=200, step=10), (end, told), (end, DONE)]
    found = statistics([attributed(stream(chunks))], "queue")
    assert found.p50.ns is not None
    assert ms(found.p50.ns) == pytest.approx(100, abs=15)


def test_a_share_is_of_the_time_that_was_spent() -> None:
    """Of a stopped call too: what it waited, it waited. A refused one spent its time on nothing."""
    assert share([done(200), cancelled(1000), failed()], "ttft") == pytest.approx(
        (1200 / 1300, 1200 / 1300)
    )
    assert share([failed()], "ttft") is None


def test_a_rate_needs_two_moments() -> None:
    """Three calls over two seconds are one a second; of one in ten, ten."""
    assert rate([]) is None
    assert rate([done(), done()]) is None
    calls = [done(at=0), done(at=1), failed(at=2)]
    assert rate(calls) == pytest.approx(1)
    assert rate([sampled(each, 0.1) for each in calls]) == pytest.approx(10)


def test_a_slope_runs_along_what_is_asked() -> None:
    """TTFT over prompt tokens; a call that does not say how many is left out."""
    calls = [replace(done(100 + 2 * k), input_tokens=k) for k in (10, 20, 50, 80, 90, 100)]
    calls += [replace(done(900), input_tokens=None)]
    found = slope(calls, "ttft", along=lambda call: call.input_tokens)
    assert found is not None
    assert (found.value, found.n) == (2 * MS, 6)
    assert slope([done()], "ttft") is None
