"""One row a call: what is taken off, what counts from where, and which calls teach nothing."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from latscope.attribution.observe import observe
from latscope.recording import Recording, Sample
from latscope.units import MS, US, S, rfc3339, rfc3339_us, wall_s
from tests.calls import DONE, Chunk, attempt, call, finish, metrics, stream, tokens, usage

ASKED = {"model": "tiny", "stream": True}


def answer(first: float = 50.0, n: int = 12, step: float = 10.0, **extra: object) -> list[Chunk]:
    end = first + n * step
    closing = usage(n, prompt=100, **extra)
    return [*tokens(n, start=first, step=step), (end, finish() + closing + DONE)]


def test_times_count_from_the_last_byte_and_the_head_with_transit_off() -> None:
    row = observe(stream(answer(), sent=3.0, headers=5.0, rtt_us=500, in_flight=2))
    assert row is not None
    assert row.key == ("http://127.0.0.1:8000/v1/chat/completions", "tiny", "chat")
    assert row.sent_ns == round(46.6 * MS)  # the headers were written 0.1 ms before the body was
    assert row.headers_ns == 45 * MS
    assert row.head_ns == round(1.6 * MS)
    assert (row.uncached, row.cached, row.context) == (100, 0, 106)
    assert (row.step_ns, row.early_ns, row.tokens_per_chunk) == (10 * MS, 10 * MS, 1.0)
    assert (row.rtt_ns, row.in_flight, row.reused, row.server) == (500 * US, 2, False, "uvicorn")
    assert row.at_s == wall_s("2026-11-29T12:00:00Z")
    assert not row.censored


def test_a_stamp_of_the_last_byte_that_came_late_moves_nothing() -> None:
    """The kernel had the body at once; the client was put aside before it could say so."""
    one = stream(answer(), sent=3.0, headers=25.0, rtt_us=500)
    marks = tuple(
        mark._replace(ns=24 * MS) if mark.name == "request.sent" else mark
        for mark in one.attempts[0].marks
    )
    row = observe(replace(one, attempts=(replace(one.attempts[0], marks=marks),)))
    assert row is not None
    assert (row.sent_ns, row.head_ns) == (round(46.6 * MS), round(21.6 * MS))


@pytest.mark.parametrize(("together", "kept"), [(1, False), (2, False), (3, True)])
def test_a_first_token_that_came_with_others_was_kept(together: int, kept: bool) -> None:
    chunks = [*tokens(together, start=50, step=0), *tokens(9, start=60, step=10)]
    said = finish() + usage(9 + together, prompt=9) + DONE
    row = observe(stream([*chunks, (160.0, said)]))
    assert row is not None
    assert row.kept is kept


def test_early_steps_are_the_first_two_after_the_first_token() -> None:
    chunks = [*tokens(1, start=50, step=1), *tokens(12, start=80, step=10)]
    row = observe(stream([*chunks, (220.0, finish() + usage(13, prompt=9) + DONE)]))
    assert row is not None
    assert row.early_ns == 20 * MS  # 30 and 10
    assert row.step_ns == 10 * MS


def test_cached_tokens_need_no_prefill() -> None:
    row = observe(stream(answer(details={"prompt_tokens_details": {"cached_tokens": 64}})))
    assert row is not None
    assert (row.uncached, row.cached) == (36, 64)


def test_the_servers_own_figures_ride_along() -> None:
    row = observe(stream(answer(metrics=metrics(7.0, 30.0, 110.0))))
    assert row is not None
    assert (row.queue_ns, row.prefill_ns) == (7 * MS, 30 * MS)


def test_a_retry_counts_from_the_attempt_that_was_answered() -> None:
    first = attempt(status=429, kind="application/json", sent=3.0, headers=20.0, end=21.0)
    second = attempt(answer(first=150.0), entry=100.0, connect=None, sent=103.0, headers=105.0)
    row = observe(call(first, second))
    assert row is not None
    assert row.sent_ns == 47 * MS + 60 * US
    assert row.reused is True


def test_a_sampled_call_stands_for_more() -> None:
    row = observe(stream(answer(), sample=Sample(rate=0.25, why="rate")))
    assert row is not None
    assert row.weight == 4.0
    row = observe(stream(answer(), sample=Sample(rate=0.0, why="rate")))
    assert row is not None
    assert row.weight == 1.0


def test_without_a_pace_there_is_no_step() -> None:
    row = observe(stream(answer(n=3)))
    assert row is not None
    assert (row.step_ns, row.early_ns) == (None, None)


def test_a_model_nobody_names_is_empty() -> None:
    quiet = [(at, data.replace(b'"tiny"', b"null")) for at, data in answer()]
    row = observe(stream(quiet, request={"stream": True}))
    assert row is not None
    assert row.key[1] == ""


def left(**how: object) -> Recording:
    """Given up at 400 ms, prompt size known (as Anthropic's message_start states it)."""
    start = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message",'
        b'"role":"assistant","model":"tiny","content":[],"usage":{"input_tokens":70,'
        b'"output_tokens":1}}}\n\n'
    )
    one = attempt([(10.0, start)], end=400.0, rtt_us=2000)
    return call(one, api="messages", reason="closed", stop=400.0, end=400.0, **how)  # type: ignore[arg-type]


def test_a_call_left_before_its_first_token_is_censored() -> None:
    row = observe(left(request=ASKED))
    assert row is not None
    assert row.censored
    assert row.sent_ns == (400 - 3 - 1) * MS + 100 * US  # only the way there has passed
    assert row.uncached == 70


@pytest.mark.parametrize(
    "recording",
    [
        stream([*tokens(12, start=50, step=10), (170.0, finish() + DONE)]),  # no usage
        stream(answer()[:-1], reason="error", detail="x.ReadError"),  # cut
        call(attempt(sent=None, headers=None, status=None, error="httpx2.ConnectError")),
        stream([(50.0, b"".join(data for _, data in answer()))]),  # all in one read
        stream(answer(n=12, details={"completion_tokens_details": {"reasoning_tokens": 6}})),
    ],
    ids=["no-usage", "cut", "unreachable", "one-read", "hidden"],
)
def test_calls_that_teach_nothing(recording: Recording) -> None:
    assert observe(recording) is None


def test_a_call_without_headers_has_no_time_from_them() -> None:
    one = attempt(answer(), headers=None, status=200)
    row = observe(call(one))
    assert row is not None
    assert (row.headers_ns, row.head_ns) == (None, None)
    assert row.sent_ns is not None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-11-29T12:00:00.250000Z", 1795953600.25),
        ("2024-02-29T23:59:59Z", 1709251199.0),
        ("2026-11-29T14:30:00+02:30", 1795953600.0),
        ("2026-11-29 09:30:00-02:30", 1795953600.0),
        ("2000-03-01T00:00:00", 951868800.0),
        ("yesterday", 0.0),
    ],
)
def test_wall_clock_seconds(text: str, seconds: float) -> None:
    assert wall_s(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "1970-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
        "2024-02-29T23:59:59Z",
        "2026-12-31T12:00:01Z",
    ],
)
def test_seconds_as_wall_clock(text: str) -> None:
    assert rfc3339(wall_s(text)) == text


@pytest.mark.parametrize("at_s", [0, 951_782_399, 951_868_800, 1_078_012_800, 4_107_542_400])
def test_nanoseconds_are_told_to_the_microsecond(at_s: int) -> None:
    """About leap days of 2000, 2004 and the one that 2100 has not."""
    said = datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "")
    assert rfc3339_us(at_s * S + 1_234_567) == f"{said}.001234Z"
