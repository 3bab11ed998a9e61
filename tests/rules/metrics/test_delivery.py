"""How answers were delivered, cut and given up."""

from collections.abc import Sequence
from typing import Any

import pytest

from latscope.rules.metrics.delivery import ROWS, alike
from latscope.rules.metrics.metric import Value
from latscope.units import MS, S

TABLE = {row.name: row for row in ROWS}
ITL = {"p50_ns": 20 * MS, "p95_ns": 30 * MS, "max_ns": 40 * MS, "n": 90, "unit": "token"}


def of(name: str, **call: Any) -> Value:
    row = TABLE[name]
    assert row.of is not None
    return row.of(call)


def over(name: str, columns: dict[str, Sequence[Value]]) -> Sequence[Value]:
    row = TABLE[name]
    assert row.over is not None
    return row.over(columns)


def test_a_quantum_is_of_time_or_of_bytes() -> None:
    clock = {"what": "time", "size": 200 * MS, "spread": 0.0}
    size = {"what": "bytes", "size": 4096, "spread": 0.0}
    assert of("time_quantum", quantum=clock, itl=ITL) == 1.0
    assert of("byte_quantum", quantum=clock, itl=ITL) == 0.0
    assert of("beat", quantum=clock) == 200.0 * MS
    assert of("block", quantum=clock) is None
    assert of("byte_quantum", quantum=size, itl=ITL) == 1.0
    assert of("block", quantum=size) == 4096.0


def test_a_steady_stream_has_none_and_an_answer_without_gaps_does_not_tell() -> None:
    assert of("time_quantum", quantum=None, itl=ITL) == 0.0
    assert of("time_quantum", quantum=None, itl=None) is None
    assert of("beat") is None


def bunched(
    at_once: Value,
    what: Value,
    p50: Value,
    p95: Value,
    most: Value = None,
    ours: Value = 0.0,
    tokens: Value = 50.0,
) -> Value:
    """An answer that is 1 s long after its first token."""
    columns: dict[str, Sequence[Value]] = {
        "at_once": [at_once],
        "quantum.what": [what],
        "itl_p50": [p50],
        "itl_p95": [p95],
        "itl_max": [most],
        "output_tokens": [tokens],
        "e2e": [1.5 * S],
        "ttft": [0.5 * S],
        "client.at_most": [ours],
    }
    return over("bunched", columns)[0]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ((1.0, None, None, None), 1.0),
        ((0.0, None, 20.0 * MS, 30.0 * MS), 0.0),
        ((0.0, "time", 20.0 * MS, 150.0 * MS), 1.0),
        ((0.0, "time", 20.0 * MS, 60.0 * MS), 0.0),
        ((0.0, None, 0.1 * MS, 150.0 * MS), 1.0),
        ((0.0, None, 20.0 * MS, 150.0 * MS), 0.0),
        ((0.0, None, 0.1 * MS, 60.0 * MS), 0.0),
        # Bursts worth eight tokens are collected ones; of fewer, it is a step that makes several.
        ((0.0, None, 0.1 * MS, 80.0 * MS, 80.0 * MS, 0.0, 100.0), 1.0),
        ((0.0, None, 0.1 * MS, 79.0 * MS, 79.0 * MS, 0.0, 100.0), 0.0),
        ((0.0, None, 0.1 * MS, 60.0 * MS, 60.0 * MS, 0.0, 200.0), 1.0),
        ((0.0, None, 0.1 * MS, 59.0 * MS, 59.0 * MS, 0.0, 200.0), 0.0),
        ((0.0, None, 20.0 * MS, 80.0 * MS, 80.0 * MS, 0.0, 200.0), 0.0),
        ((None, None, None, None), None),
        # Few bursts of a short answer: most gaps are none, and one is 15 tokens' worth of time.
        ((0.0, None, 0.1 * MS, 0.2 * MS, 300.0 * MS), 1.0),
        ((0.0, None, 0.1 * MS, 0.2 * MS, 299.0 * MS), 0.0),
        ((0.0, None, 20.0 * MS, 30.0 * MS, 900.0 * MS), 0.0),
        # A reader that may have kept more than a quarter of the stream's time.
        ((0.0, None, 0.1 * MS, 150.0 * MS, 300.0 * MS, 251.0 * MS), None),
        ((0.0, None, 0.1 * MS, 150.0 * MS, 300.0 * MS, 250.0 * MS), 1.0),
        ((1.0, None, None, None, None, 900.0 * MS), 1.0),
    ],
)
def test_bunched_is_at_once_or_in_bursts_a_reader_feels(
    row: tuple[Value, ...], told: Value
) -> None:
    assert bunched(*row) == told


NO_ERROR: dict[str, Any] = {"http_status": 500, "error": None}


@pytest.mark.parametrize(("failed", "told"), [(False, 300.0 * MS), (True, None)])
def test_at_most_the_clients_is_its_upper_bound_less_its_sleeps(failed: bool, told: Value) -> None:
    client = {"name": "client", "high_ns": 500 * MS, "parts": [{"name": "retry", "ns": 200 * MS}]}
    shares = [{"name": "queue", "high_ns": 0, "parts": []}, client]
    status = "error" if failed else "complete"
    assert of("client.at_most", status=status, segments=shares, **NO_ERROR) == told
    assert of("client.at_most", status=status, segments=[], **NO_ERROR) is None


# -- given up -------------------------------------------------------------------------------------

GIVEN_UP: dict[str, Any] = {
    "error": {"type": "httpx2.ReadTimeout", "phase": "headers"},
    "first_byte_ns": None,
    "http_status": None,
    "wall_ns": 31 * S,
    "sent_ns": 1 * S,
}


def test_patience_is_the_wait_since_the_request_was_sent() -> None:
    assert of("patience", **GIVEN_UP) == 30.0 * S
    assert of("patience", **{**GIVEN_UP, "sent_ns": None}) == 31.0 * S


@pytest.mark.parametrize(
    "change",
    [
        {"error": None},
        {"error": {"type": "RemoteProtocolError", "phase": "headers"}},
        {"first_byte_ns": 5 * S},
        {"http_status": 504},
    ],
)
def test_only_a_silent_timeout_of_the_client_shows_its_patience(change: dict[str, Any]) -> None:
    assert of("patience", **{**GIVEN_UP, **change}) is None


def test_one_clock_ends_calls_at_one_age() -> None:
    assert alike([30.0, 30.2, None, 31.0, 45.0]) == [1.0, 1.0, None, 1.0, 0.0]
    assert alike([30.0, 30.1, None]) == [None, None, None]
    ages: dict[str, Sequence[Value]] = {"patience": [10.0, 10.1, 10.2]}
    assert over("one_patience", ages) == [1.0, 1.0, 1.0]
    assert over("cut_alike", {"cut_age": [10.0, 10.1, 99.0]}) == [1.0, 1.0, 0.0]


def test_the_clients_patience_is_told_of_every_call() -> None:
    assert over("client_patience", {"patience": [None, 30.0, 32.0]}) == [31.0, 31.0, 31.0]
    assert over("client_patience", {"patience": [None]}) == [None]


@pytest.mark.parametrize(
    ("age_s", "limit_s"),
    [
        (29.1, 29),
        (29.9, 30),
        (30.4, 30),
        (60.8, 60),
        (124.9, 125),
        (125.9, 125),
        (59.6, 0),
        (77, 0),
    ],
)
def test_a_cut_is_at_the_limit_it_comes_at_or_shortly_after(age_s: float, limit_s: int) -> None:
    assert over("cut_limit", {"cut_age": [age_s * S]}) == [limit_s * S]


def test_what_was_not_cut_has_no_limit() -> None:
    assert over("cut_limit", {"cut_age": [None]}) == [None]
