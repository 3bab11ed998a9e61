"""How a call ended, and where its wall time ends."""

from dataclasses import replace

import pytest

from latscope.recording import EventRow
from latscope.timeline import build
from tests.calls import DONE, attempt, call, delta, finish, ms, sse, stream, tokens, usage

ERROR = sse({"error": {"type": "server_error", "message": "no"}})


def test_done_ends_the_call_even_if_the_body_goes_on() -> None:
    chunks = [(20.0, delta("a")), (30.0, finish() + DONE), (90.0, b": bye\n\n")]
    timeline = build(stream(chunks))
    assert (timeline.verdict, ms(timeline.wall_ns)) == ("complete", 30.0)


def test_a_finish_reason_for_every_choice_is_complete_without_done() -> None:
    timeline = build(stream([(20.0, delta("a")), (30.0, finish())]))
    assert timeline.verdict == "complete"


def test_a_stream_that_just_stops_is_cut() -> None:
    timeline = build(stream(tokens(3, start=20.0, step=10.0)))
    assert timeline.verdict == "cut"
    assert timeline.failure is not None
    assert (timeline.failure.type, timeline.failure.phase) == ("no_terminal_event", "stream")


def test_a_reset_midway_is_cut_at_the_reset() -> None:
    recording = call(
        attempt(tokens(3, start=20.0, step=10.0), end=70.0, error="httpx2.ReadError"),
        reason="error",
    )
    timeline = build(recording)
    assert (timeline.verdict, ms(timeline.wall_ns)) == ("cut", 70.0)
    assert timeline.failure is not None
    assert timeline.failure.type == "httpx2.ReadError"


def test_a_timeout_midway_is_an_error() -> None:
    recording = call(
        attempt(tokens(3, start=20.0, step=10.0), end=70.0, error="httpx2.ReadTimeout"),
        reason="error",
    )
    timeline = build(recording)
    assert timeline.verdict == "error"
    assert timeline.failure is not None
    assert timeline.failure.phase == "stream"


def test_an_error_object_inside_a_200_is_an_error() -> None:
    timeline = build(stream([(20.0, delta("a")), (30.0, ERROR + DONE)]))
    assert timeline.verdict == "error"
    assert timeline.failure is not None
    assert (timeline.failure.type, timeline.failure.phase) == ("server_error", "stream")


def test_an_empty_200_is_cut() -> None:
    timeline = build(stream([]))
    assert timeline.verdict == "cut"
    assert timeline.failure is not None
    assert timeline.failure.type == "empty_body"


def test_html_in_place_of_an_answer_is_an_error() -> None:
    timeline = build(stream([(20.0, b"<html>hello</html>")], kind="text/html"))
    assert timeline.verdict == "error"
    assert timeline.failure is not None
    assert timeline.failure.type == "unexpected_body"


@pytest.mark.parametrize("reason", ["closed", "cancelled", "abandoned"])
def test_the_callers_own_stop_is_cancelled_at_the_stop(reason: str) -> None:
    recording = call(
        attempt(tokens(3, start=20.0, step=10.0), end=40.0),
        reason=reason,  # type: ignore[arg-type]
        stop=55.0,
    )
    timeline = build(recording)
    assert (timeline.verdict, ms(timeline.wall_ns)) == ("cancelled", 55.0)


def test_closing_after_the_terminal_event_is_complete() -> None:
    """The sync openai client closes at [DONE]; that is no break."""
    recording = call(
        attempt([(20.0, delta("a")), (30.0, finish() + DONE)]), reason="closed", stop=31.0
    )
    timeline = build(recording)
    assert (timeline.verdict, ms(timeline.wall_ns)) == ("complete", 30.0)


def test_a_call_cancelled_before_any_answer() -> None:
    timeline = build(call(attempt(status=None, headers=None), reason="cancelled", stop=80.0))
    assert timeline.verdict == "cancelled"
    assert ms(timeline.wall_ns) == 80.0


def test_a_call_that_never_reached_the_transport() -> None:
    timeline = build(call(reason="error", detail="builtins.RuntimeError", end=12.0))
    assert timeline.verdict == "error"
    assert timeline.failure is not None
    assert (timeline.failure.type, timeline.failure.phase) == ("builtins.RuntimeError", "pool_wait")
    assert ms(timeline.wall_ns) == 12.0


@pytest.mark.parametrize(
    ("connect", "sent", "phase"),
    [(None, None, "pool_wait"), (1.0, None, "connect"), (1.0, 3.0, "headers")],
)
def test_the_phase_that_was_waiting(connect: float | None, sent: float | None, phase: str) -> None:
    recording = call(
        attempt(status=None, headers=None, connect=connect, sent=sent, end=9.0, error="x.Error"),
        reason="error",
    )
    failure = build(recording).failure
    assert failure is not None
    assert failure.phase == phase


def test_an_error_status_without_a_readable_body_is_named_by_its_number() -> None:
    timeline = build(stream([(9.0, b"nope")], status=502, kind="text/plain", headers=8.0))
    assert timeline.failure is not None
    assert (timeline.failure.type, timeline.failure.phase) == ("http_502", "headers")


def test_a_redirect_nobody_followed_is_an_error() -> None:
    timeline = build(stream([], status=302, headers=8.0, kind="text/plain"))
    assert timeline.verdict == "error"


def test_kept_events_stand_in_for_a_body_that_was_not_kept() -> None:
    """A recording cut to timings still has its tokens, their times and its usage."""
    chunks = [(20.0, delta("a")), (30.0, delta("b")), (31.0, finish() + usage(2) + DONE)]
    full = stream(chunks)
    ends = [read.body_offset for read in full.attempts[0].reads]
    slim = replace(
        full.attempts[0],
        body=None,
        events=(
            EventRow(ends[0], "content", 1),
            EventRow(ends[1], "content", 1),
            EventRow(ends[2], "finish", None),
            EventRow(ends[2], "done", None),
            EventRow(ends[2], "no such kind", None),
        ),
        usage={"output_tokens": 2},
    )
    timeline = build(replace(full, attempts=(slim,)))
    assert [ms(arrival.at.latest) for arrival in timeline.arrivals] == [20.0, 30.0]
    assert timeline.usage.output_tokens == 2
    assert (timeline.verdict, ms(timeline.wall_ns)) == ("complete", 31.0)


def test_kept_events_in_any_order_have_the_times_of_their_places() -> None:
    """A file may say anything."""
    full = stream([(20.0, delta("a")), (30.0, delta("b")), (31.0, finish() + DONE)])
    ends = [read.body_offset for read in full.attempts[0].reads]
    rows = tuple(EventRow(end, "content", 1) for end in (ends[1], ends[0], ends[1]))
    timeline = build(replace(full, attempts=(replace(full.attempts[0], body=None, events=rows),)))
    assert [ms(arrival.at.latest) for arrival in timeline.arrivals] == [30.0, 20.0, 30.0]


def test_a_body_that_is_not_what_its_coding_says_is_an_error() -> None:
    """The caller's client raised; the bytes say why."""
    broken = replace(attempt([(20.0, b"x")], end=20.0), body=None)
    note = "encoding: corrupt gzip data: incorrect header check"
    timeline = build(call(broken, reason="closed", stop=21.0, broken=(note,)))
    assert timeline.verdict == "error"
    assert timeline.failure is not None
    assert timeline.failure.type == "undecodable_body"


def test_a_coding_we_cannot_read_is_not_the_servers_failure() -> None:
    """The caller had its answer; only its meaning is lost to us."""
    coded = replace(attempt([(20.0, b"x"), (30.0, b"y")]), body=None)
    unread = replace(coded, reads=tuple(read._replace(body_offset=0) for read in coded.reads))
    timeline = build(call(unread, broken=("encoding: cannot read content-encoding 'snappy'",)))
    assert (timeline.verdict, ms(timeline.wall_ns)) == ("complete", 30.0)
    assert ms(timeline.first_byte_ns) == 20.0
    assert timeline.first_token_ns is None
    assert "unreadable_body" in timeline.flags
