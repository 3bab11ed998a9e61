"""Calls written by hand and the pieces they must give."""

from typing import Any

import pytest

from latscope.attribution import Attribution
from latscope.attribution.model import Segment
from latscope.units import MS
from tests.calls import (
    DONE,
    Chunk,
    attempt,
    attributed,
    call,
    delta,
    finish,
    metrics,
    ms,
    sse,
    stream,
    tokens,
    usage,
)


def own(found: Attribution, name: Segment) -> float:
    return found.segment(name).ns / MS


def part(found: Attribution, spoken: str) -> tuple[float, str]:
    segment, _, name = spoken.partition(".")
    for share in found.segments:
        for entry in share.parts:
            if share.name == segment and entry.name == name:
                return entry.ns / MS, entry.provenance
    return 0.0, "absent"


def streamed(n: int = 20, *, start: float = 200.0, step: float = 20.0, **extra: Any) -> list[Chunk]:
    end = start + (n - 1) * step
    return [
        *tokens(n, start=start, step=step),
        (end + 1.0, finish("length") + usage(n, **extra) + DONE),
    ]


def test_the_way_to_the_server_is_measured_phase_by_phase() -> None:
    found = attributed(stream(streamed(), connect=4.0, sent=9.0))
    assert part(found, "client.pool_wait") == (4.0, "measured")
    assert part(found, "network.connect") == (4.8, "measured")
    assert part(found, "network.upload") == (0.1, "measured")
    assert part(found, "network.transit") == (0.04, "measured")
    assert found.sent_ns == 9 * MS


def test_a_silent_server_leaves_queue_and_prefill_joined() -> None:
    """No evidence, no split: the silence is one unsplit piece, decode is what the pace carries."""
    found = attributed(stream(streamed()))
    biggest = found.unsplit[0]
    assert biggest.candidates == ("queue", "prefill")
    assert biggest.ns / MS == pytest.approx(200 - 2.9 - 0.04 - 25 - 20, abs=0.01)
    assert own(found, "queue") == own(found, "prefill") == 0
    assert own(found, "decode") == pytest.approx(19 * 20 - 25 - 20)
    assert found.dominant == "decode"
    assert any("--enable-per-request-metrics (from 0.25.0)" in way for way in biggest.would_split)
    for way in ("record about 50 calls of mixed prompt length", "latscope calibrate"):
        assert any(said.startswith(way) for said in biggest.would_split)


def test_the_silence_of_a_far_server_may_be_the_network() -> None:
    """Off the direct path a gateway may hold what it likes: network stays a candidate."""
    found = attributed(
        stream(streamed(), peer="104.18.6.192:443", response_headers=(("server", "cloudflare"),))
    )
    assert found.unsplit[0].candidates == ("queue", "prefill", "network")
    assert found.mode == "self-hosted"  # the name still says loopback; the peer does not


def test_a_silence_long_enough_leaves_no_winner() -> None:
    found = attributed(stream(streamed(5, start=900.0)))
    assert found.dominant is None
    assert set(found.dominant_candidates) == {"queue", "prefill"}


def test_vllm_metrics_fill_the_parts_they_cover() -> None:
    """Queue, prefill and decode as stated; what is left is front end or network; TTFT the same."""
    found = attributed(stream(streamed(metrics=metrics(50.0, 130.0, 379.5))))
    assert part(found, "queue.engine") == (50.0, "reported")
    assert own(found, "prefill") == 130.0
    assert own(found, "decode") == 379.5
    assert found.segment("prefill").provenance == found.segment("decode").provenance == "reported"
    (rest,) = found.unsplit
    assert rest.candidates == ("queue", "network")
    assert rest.ns / MS == pytest.approx(200 - 2.9 - 180 - 0.04, abs=0.01)
    assert found.segment("queue").ttft_ns == 50 * MS
    assert found.segment("decode").ttft_ns == 0
    assert part(found, "network.transit")[0] == pytest.approx(0.04 + 1.5)
    assert found.dominant == "decode"


def test_figures_that_contradict_the_clock_are_demoted() -> None:
    """More server time than the client waited is no evidence (law 3)."""
    found = attributed(stream(streamed(metrics=metrics(150.0, 130.0, 379.0))))
    assert own(found, "queue") == own(found, "prefill") == 0
    assert "reported_contradicts_clock" in found.flags
    assert [figure.covers for figure in found.reported] == ["queue.engine", "prefill", "decode"]


def test_figures_a_hair_too_long_give_way_to_the_clock() -> None:
    found = attributed(stream(streamed(metrics=metrics(50.0, 148.0, 379.0))))
    assert own(found, "queue") == 50.0
    assert own(found, "prefill") == pytest.approx(147.1, abs=0.001)


def test_a_buffered_stream_shows_a_hold_in_ttft_and_decode_in_the_whole() -> None:
    """One owner a nanosecond: a hop that keeps everything to the end costs the first token, not
    the call."""
    text = b"".join(data for _, data in streamed(metrics=metrics(50.0, 130.0, 380.0)))
    found = attributed(stream([(590.0, text)], headers=589.0))
    assert found.first_token_ns == found.wall_ns == 590 * MS
    assert own(found, "decode") == 380.0
    assert found.dominant == "decode"
    network = found.segment("network")
    assert network.ttft_ns is not None
    assert network.ttft_ns / MS == pytest.approx(380 + 1.9 + 0.04)
    assert found.segment("decode").ttft_ns == 0
    assert "one_read" in found.flags


def test_a_buffered_stream_of_a_silent_server_is_not_split_at_all() -> None:
    text = b"".join(data for _, data in streamed())
    found = attributed(stream([(590.0, text)], headers=589.0))
    assert found.unsplit[0].candidates == ("queue", "prefill", "decode", "network")
    assert own(found, "decode") == 0


def test_hidden_reasoning_keeps_decode_a_candidate_of_the_silence() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    chunks = streamed()
    end = chunks[-1][0]
    chunks[-1] = (end, finish() + usage(50, details=details) + DONE)
    found = attributed(stream(chunks))
    assert found.unsplit[0].candidates == ("queue", "prefill", "decode")
    assert "hidden_reasoning" in found.flags
    assert found.tokens_per_chunk == 1.0
    assert any("reasoning" in way for way in found.unsplit[0].would_split)


def test_a_call_that_is_not_streamed_is_one_piece() -> None:
    body = b'{"object":"chat.completion","choices":[{"message":{"content":"hi"}}]}'
    found = attributed(stream([(300.0, body)], kind="application/json", headers=299.0))
    assert found.first_token_ns is None
    assert found.unsplit[0].candidates == ("queue", "prefill", "decode")
    assert found.unsplit[0].would_split[0] == "stream this call"
    assert all(share.ttft_ns is None for share in found.segments)


def test_a_call_that_is_not_streamed_takes_reported_figures() -> None:
    text = (
        b'{"object":"chat.completion","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]'
        b',"metrics":{"queue_time_ms":10,"time_to_first_token_ms":80,"generation_time_ms":200}}'
    )
    found = attributed(stream([(300.0, text)], kind="application/json", headers=299.0))
    assert part(found, "queue.engine") == (10.0, "reported")
    assert (own(found, "prefill"), own(found, "decode")) == (80.0, 200.0)
    assert [entry.candidates for entry in found.unsplit] == [("queue", "network")]


def test_a_stall_is_given_to_its_cause_and_can_still_be_decode_or_network() -> None:
    chunks = [
        *tokens(10, start=100.0, step=20.0),
        *tokens(10, start=880.0, step=20.0),
        (1061.0, finish() + usage(20) + DONE),
    ]
    found = attributed(stream(chunks))
    (stall,) = found.stalls
    assert (ms(stall.at_ns), ms(stall.ns)) == (280.0, 580.0)
    assert stall.cause == "server_pause"
    gap = next(piece for piece in found.pieces if piece.at_ns == stall.at_ns)
    assert (gap.given, gap.part, gap.candidates) == ("decode", "pause", ("decode", "network"))
    assert gap.ns / MS >= 560


def test_a_cut_stream_ends_in_decode_or_network() -> None:
    """The silence after the last byte could be either side's (design: Shapes)."""
    recording = call(
        attempt(tokens(10, start=100.0, step=20.0), end=900.0, error="httpx2.RemoteProtocolError"),
        reason="error",
        detail="httpx2.RemoteProtocolError",
    )
    found = attributed(recording)
    assert found.status == "cut"
    assert found.wall_ns == 900 * MS
    assert ("decode", "network") in [entry.candidates for entry in found.unsplit]


def test_a_read_timeout_before_the_first_token() -> None:
    recording = call(
        attempt(headers=5.0, end=905.0, error="httpx2.ReadTimeout"),
        reason="error",
        detail="httpx2.ReadTimeout",
    )
    found = attributed(recording)
    assert found.status == "error"
    assert found.error is not None
    assert (found.error.type, found.error.phase) == ("httpx2.ReadTimeout", "first_token")
    assert found.unsplit[0].candidates == ("queue", "prefill", "decode", "network")


def test_a_timeout_waiting_for_headers_names_the_phase() -> None:
    recording = call(
        attempt(status=None, headers=None, end=905.0, error="httpx2.ReadTimeout"),
        reason="error",
        detail="httpx2.ReadTimeout",
    )
    found = attributed(recording)
    assert found.error is not None
    assert found.error.phase == "headers"
    assert found.http_status is None


@pytest.mark.parametrize(
    ("connect", "sent", "error", "phase"),
    [
        (None, None, "httpx2.PoolTimeout", "pool_wait"),
        (1.0, None, "httpx2.ConnectError", "connect"),
        (1.0, None, "httpx2.ConnectTimeout", "connect"),
    ],
)
def test_an_attempt_that_never_got_out(
    connect: float | None, sent: float | None, error: str, phase: str
) -> None:
    recording = call(
        attempt(status=None, connect=connect, sent=sent, end=500.0, error=error),
        reason="error",
        detail=error,
    )
    found = attributed(recording)
    assert found.status == "error"
    assert found.error is not None
    assert found.error.phase == phase
    assert found.wall_ns == 500 * MS
    assert found.dominant == ("client" if phase == "pool_wait" else "network")


def test_a_caller_that_breaks_off_before_the_first_token() -> None:
    recording = call(attempt(headers=5.0, end=5.0), reason="cancelled", stop=705.0)
    found = attributed(recording)
    assert found.status == "cancelled"
    assert found.wall_ns == 705 * MS
    assert found.unsplit[0].candidates == ("queue", "prefill", "decode")


def test_a_caller_that_breaks_off_midway() -> None:
    chunks = tokens(10, start=100.0, step=20.0)
    found = attributed(call(attempt(chunks, end=290.0), reason="closed", stop=400.0))
    assert found.status == "cancelled"
    assert ("decode", "network", "client") in [entry.candidates for entry in found.unsplit]


def test_a_slow_reader_is_client_or_decode() -> None:
    """The bytes were waiting when the reader came: whose time it was cannot be told."""
    chunks = [*tokens(6, start=100.0, step=20.0), (500.0, delta("x")), (501.0, finish() + DONE)]
    found = attributed(stream(chunks, at_once=frozenset({6}), asked={6: 499.9}))
    assert ("decode", "network", "client") in [entry.candidates for entry in found.unsplit]
    held = next(e for e in found.unsplit if e.candidates == ("decode", "network", "client"))
    assert held.ns / MS == pytest.approx(500.0 - 200.0, abs=0.2)
    assert found.instrument.bound_ns == 300 * MS


# -- retries ---------------------------------------------------------------------------------------


def answer_at(entry: float) -> list[Chunk]:
    first = entry + 100.0
    return [*tokens(6, start=first, step=20.0), (first + 101.0, finish() + usage(6) + DONE)]


def retried(first: dict[str, object], *, entry: float) -> Attribution:
    failing = attempt(entry=0.0, connect=1.0, sent=3.0, **first)  # type: ignore[arg-type]
    good = attempt(
        answer_at(entry), entry=entry, connect=None, sent=entry + 1.0, headers=entry + 2.0
    )
    return attributed(call(failing, good))


def test_a_429_is_queue_up_to_retry_after_and_client_beyond() -> None:
    headers = (("retry-after", "0.5"),)
    found = retried({"status": 429, "headers": 20.0, "response_headers": headers}, entry=620.0)
    assert part(found, "queue.rate_limit") == (519.0, "measured")  # 19 of the attempt, 500 asked
    assert part(found, "client.retry") == (100.0, "measured")
    assert [entry.status for entry in found.attempts] == [429, 200]
    assert found.attempts[0].backoff_ns == 600 * MS
    assert found.output_tokens == 6


def test_a_500_is_queue_and_its_sleep_the_clients() -> None:
    found = retried({"status": 500, "headers": 40.0}, entry=540.0)
    assert part(found, "queue.failed_attempt") == (39.0, "measured")
    assert part(found, "client.retry") == (500.0, "measured")


def test_an_unreachable_server_is_network() -> None:
    found = retried(
        {"status": None, "headers": None, "end": 60.0, "error": "httpx2.ConnectError"}, entry=160.0
    )
    assert part(found, "network.failed_attempt") == (59.0, "measured")


def test_a_timed_out_attempt_is_queue_or_network() -> None:
    found = retried(
        {"status": None, "headers": None, "end": 300.0, "error": "httpx2.ReadTimeout"}, entry=310.0
    )
    assert ("queue", "network") in [entry.candidates for entry in found.unsplit]


def test_a_redirect_is_network() -> None:
    found = retried({"status": 307, "headers": 30.0}, entry=31.0)
    assert part(found, "network.redirect") == (30.0, "measured")


def test_the_last_attempts_own_error_is_the_calls() -> None:
    body = sse({"error": {"type": "rate_limit_exceeded", "message": "x"}})
    found = attributed(stream([(21.0, body)], status=429, headers=20.0, kind="application/json"))
    assert found.status == "error"
    assert found.http_status == 429
    assert found.dominant == "queue"
    assert found.error is not None
    assert found.error.phase == "headers"


# -- shapes of the figures -------------------------------------------------------------------------


def test_itl_and_tpot_of_a_stepwise_stream() -> None:
    found = attributed(stream(streamed()))
    assert found.itl is not None
    assert (found.itl.unit, found.itl.n) == ("token", 19)
    assert found.itl.p50_ns == found.itl.p95_ns == found.itl.max_ns == 20 * MS
    assert found.tpot_ns == 20 * MS


def test_chunks_are_not_tokens() -> None:
    chunks = streamed()
    chunks[-1] = (chunks[-1][0], finish() + usage(80) + DONE)
    found = attributed(stream(chunks))
    assert found.itl is not None
    assert found.itl.unit == "chunk"
    assert found.tokens_per_chunk == 4.0
    assert found.tpot_ns == round(380 * MS / 79)
