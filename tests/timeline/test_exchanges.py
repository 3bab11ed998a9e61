"""Attempts: their phases, their outcomes, whom the next one waits on; and the way to the server."""

from dataclasses import replace

import pytest

from latscope.recording import Connection, Mark, TcpInfo
from latscope.timeline import build
from latscope.timeline.build import path_of
from latscope.timeline.exchanges import outcome, retry_after
from latscope.units import MS, US, S
from tests.calls import DONE, attempt, call, delta, ms, stream


def phases(*, connect: float | None = 1.0, sent: float | None = 3.0) -> list[tuple[str, float]]:
    timeline = build(stream([(20.0, delta("a")), (30.0, DONE)], connect=connect, sent=sent))
    return [(phase.name, (phase.end_ns - phase.start_ns) / MS) for phase in timeline.answer.phases]


def test_phases_follow_each_other_without_a_gap() -> None:
    found = phases()
    assert [name for name, _ in found] == ["pool_wait", "connect", "upload", "wait"]
    assert sum(ns for _, ns in found) == pytest.approx(30.0)


def test_a_reused_connection_has_no_connect_phase() -> None:
    assert [name for name, _ in phases(connect=None)] == ["pool_wait", "upload", "wait"]


def test_without_transport_events_the_phases_are_unknown_not_zero() -> None:
    """A transport that says nothing of its steps leaves one wait."""
    assert [name for name, _ in phases(connect=None, sent=None)] == ["pool_wait", "wait"]


def test_the_server_may_have_the_request_before_our_stamp_says_so() -> None:
    """A body of one write can be with the server as soon as its headers were written; of a larger
    one the last 25 ms of the upload are not claimed."""
    long_write = attempt([(90.0, DONE)], sent=70.0, headers=80.0)
    early = tuple(
        Mark("request.headers", 10 * MS) if mark.name == "request.headers" else mark
        for mark in long_write.marks
    )
    long_write = replace(long_write, marks=early)
    assert ms(build(call(long_write, request_bytes=2000)).answer.ready_ns) == 10.0
    assert ms(build(call(long_write, request_bytes=900_000)).answer.ready_ns) == 45.0
    assert ms(build(call(long_write)).answer.ready_ns) == 45.0
    assert ms(build(call(long_write)).answer.sent_ns) == 70.0


def test_an_attempt_without_header_mark_is_ready_from_its_entry_on() -> None:
    recording = stream([(20.0, DONE)])
    (only,) = recording.attempts
    kept = tuple(mark for mark in only.marks if mark.name != "request.headers")
    timeline = build(replace(recording, attempts=(replace(only, marks=kept),)))
    assert timeline.answer.ready_ns == 0


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (429, None, "rate_limited"),
        (503, None, "rate_limited"),
        (529, None, "rate_limited"),
        (500, None, "failed"),
        (408, None, "failed"),
        (409, None, "failed"),
        (307, None, "redirect"),
        (401, None, "redirect"),
        (None, "httpx2.ConnectError", "unreachable"),
        (None, "httpx2.ReadTimeout", "timed_out"),
        (None, None, "unreachable"),
    ],
)
def test_outcomes(status: int | None, error: str | None, expected: str) -> None:
    assert outcome(attempt(status=status, error=error, end=9.0)) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "2"}, 2 * S),
        ({"retry-after": "0.25"}, S // 4),
        ({"retry-after-ms": "150", "retry-after": "2"}, 150 * MS),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:00 GMT"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], expected: int | None) -> None:
    assert retry_after(headers.items()) == expected


def test_exchanges_never_overlap_nor_pass_the_end() -> None:
    first = attempt(status=500, headers=50.0)
    second = attempt([(70.0, delta("a")), (80.0, DONE)], entry=40.0, connect=None, sent=45.0)
    timeline = build(call(first, second))
    bounds = [(x.start_ns, x.end_ns) for x in timeline.exchanges]
    assert bounds == [(0, 40 * MS), (40 * MS, 80 * MS)]


@pytest.mark.parametrize(
    ("peer", "headers", "direct", "hops"),
    [
        ("127.0.0.1:8000", (("server", "uvicorn"),), True, ()),
        ("10.1.2.3:80", (("server", "llama.cpp"),), True, ()),
        ("[::1]:8000", (("server", "uvicorn"),), True, ()),
        ("127.0.0.1:8000", (), False, ()),
        ("127.0.0.1:8000", (("server", "nginx/1.22.1"),), False, ("server: nginx",)),
        ("127.0.0.1:8000", (("server", "uvicorn"), ("via", "1.1 x")), False, ("via",)),
        (
            "127.0.0.1:80",
            (("server", "uvicorn"), ("x-envoy-upstream-service-time", "3")),
            False,
            ("x-envoy-upstream-service-time",),
        ),
        ("104.18.6.192:443", (("server", "uvicorn"),), False, ()),
        (None, (("server", "uvicorn"),), False, ()),
    ],
)
def test_the_path_a_response_admits_to(
    peer: str | None, headers: tuple[tuple[str, str], ...], direct: bool, hops: tuple[str, ...]
) -> None:
    found = path_of(replace(attempt(response_headers=headers), connection=Connection(peer=peer)))
    assert (found.direct, found.hops) == (direct, hops)


def test_the_smallest_round_trip_seen_is_the_paths() -> None:
    infos = (
        TcpInfo(at="connect", rtt_ns=90 * US),
        TcpInfo(at="headers", rtt_ns=80 * US, min_rtt_ns=60 * US),
        TcpInfo(at="end"),
    )
    assert path_of(replace(attempt(), tcp_info=infos)).rtt_ns == 60 * US
    assert path_of(replace(attempt(), tcp_info=())).rtt_ns is None


@pytest.mark.parametrize(
    ("deviations", "sure"), [((20,), 20), ((20, 5), 20), ((5, 2), 35), ((90,), 20), ((), 40)]
)
def test_what_of_a_round_trip_is_sure(deviations: tuple[int, ...], sure: int) -> None:
    """The smallest less the largest deviation stated, and never less than half of it."""
    infos = [TcpInfo(at="headers", min_rtt_ns=40 * US)]
    infos += [TcpInfo(at="end", min_rtt_ns=40 * US, rttvar_ns=ns * US) for ns in deviations]
    assert path_of(replace(attempt(), tcp_info=tuple(infos))).sure_ns == sure * US


def test_a_shared_connection_and_a_broken_capture_are_flagged() -> None:
    chunks = [(20.0, delta("a")), (30.0, DONE)]
    timeline = build(stream(chunks, http="HTTP/2", in_flight=2, broken=("tcp_info: gone",)))
    assert {"shared_connection", "capture_incomplete"} <= set(timeline.flags)


def test_think_tags_and_unknown_events_are_flagged() -> None:
    chunks = [(20.0, delta("<think>a")), (25.0, b"data: {]\n\n"), (30.0, DONE)]
    assert {"inline_think", "unknown_events"} <= set(build(stream(chunks)).flags)


def test_a_consumer_that_keeps_the_stream_waiting_is_seen() -> None:
    chunks = [(20.0, delta("a")), (90.0, delta("b")), (91.0, DONE)]
    timeline = build(stream(chunks, at_once=frozenset({1}), asked={1: 89.9}))
    (hold,) = timeline.holds
    assert (ms(hold.start_ns), ms(hold.end_ns)) == (20.0, 89.9)


def test_reads_that_bring_no_body_bytes_are_passed_over() -> None:
    """A compressed stream has reads that yield nothing yet."""
    from latscope.recording import Read

    recording = stream([(20.0, delta("a")), (30.0, DONE)])
    (only,) = recording.attempts
    first = only.reads[0]
    early = Read(asked_ns=6 * MS, got_ns=9 * MS, wire_bytes=10, body_offset=0)
    more = replace(only, reads=(early, first, *only.reads[1:]))
    timeline = build(replace(recording, attempts=(more,)))
    assert ms(timeline.first_byte_ns) == 20.0


def test_a_frame_past_the_limit_is_flagged() -> None:
    huge = b": " + b"x" * (9 * 1024 * 1024) + b"\n\n"
    timeline = build(stream([(20.0, delta("a") + huge), (30.0, DONE)]))
    assert "frame_truncated" in timeline.flags
    assert timeline.verdict == "complete"


def test_a_try_begins_when_the_sdk_began_it() -> None:
    """Where that was told: what the client did then, before the transport, is no wait for it."""
    plain = call(attempt([], status=503, end=10.0), attempt([(95.0, DONE)], entry=80.0), end=100.0)
    second = plain.attempts[1]
    told = replace(second, marks=(*second.marks, Mark("attempt", 60 * MS)))
    assert build(plain).exchanges[1].start_ns == 80 * MS
    assert (
        build(replace(plain, attempts=(plain.attempts[0], told))).exchanges[1].start_ns == 60 * MS
    )
