"""When the client kept the stream waiting: its consumer, its event loop, its collector."""

from dataclasses import replace

import pytest

from latscope.attribution.window import LATE
from latscope.recording import ClientSide, Recording, TcpInfo
from latscope.timeline import Hold, build
from latscope.units import MS, Ns
from tests.calls import DONE, attributed, finish, ms, stream, tokens, usage


def call(*lag: tuple[float, float], start: float = 500.0) -> Recording:
    """Twenty tokens 10 ms apart; the loop busy at `at` for `late` ms."""
    chunks = tokens(20, start=start, step=10.0)
    chunks.append((chunks[-1][0] + 1, finish("length") + usage(20) + DONE))
    spans = tuple((ns(at), ns(late)) for at, late in lag)
    return replace(stream(chunks, sent=3.0), client=ClientSide(loop_lag=spans))


def ns(at: float) -> Ns:
    return round(at * MS)


def test_a_busy_loop_holds_the_read_it_then_lets_return() -> None:
    assert build(call((200.0, 299.0))).holds == (Hold(start_ns=200 * MS, end_ns=499 * MS),)


def test_a_busy_loop_with_nothing_to_read_costs_nothing() -> None:
    """The token came 100 ms after the loop was free."""
    assert build(call((200.0, 200.0))).holds == ()


def test_a_hold_begins_after_the_read_before_it() -> None:
    found = build(call((511.0, 18.5)))
    assert found.holds == (Hold(start_ns=520 * MS, end_ns=ns(529.5)),)


def test_holds_that_touch_are_one() -> None:
    found = build(call((200.0, 299.0), (300.0, 198.0), (450.0, 47.0)))
    assert found.holds == (Hold(start_ns=200 * MS, end_ns=499 * MS),)


def test_lag_before_the_first_token_may_have_been_the_client() -> None:
    """Until something splits it the stretch keeps all its candidates, the client among them."""
    found = attributed(call((200.0, 299.0)))
    client = found.segment("client")
    assert ms(client.bounds_ns[1] - client.bounds_ns[0]) == 299
    assert attributed(call()).segment("client").bounds_ns[1] == client.bounds_ns[0]


# -- the response's head ---------------------------------------------------------------------------


def headed(*, there_ms: float | None = None, lag: tuple[float, float] | None = None) -> Recording:
    """Sent at 3 ms, its head read at 400; the kernel's word of when data came last, the loop's."""
    made = stream([*tokens(3, start=410.0, step=10.0), (440.0, finish() + DONE)], headers=400.0)
    (one,) = made.attempts
    if there_ms is not None:
        told = TcpInfo(at="headers", at_ns=400 * MS, last_data_recv_ns=ns(there_ms))
        one = replace(one, tcp_info=(*one.tcp_info, told))
    late = () if lag is None else ((ns(lag[0]), ns(lag[1])),)
    return replace(made, attempts=(one,), client=ClientSide(loop_lag=late))


@pytest.mark.parametrize(
    ("how", "since"),
    [
        ({"there_ms": 300.0}, 100),
        ({"there_ms": 20.0}, None),
        ({"there_ms": 399.0}, 3),
        ({"lag": (100.0, 297.0)}, 100),
        ({"lag": (100.0, 294.0)}, None),
        ({"lag": (100.0, 301.0)}, None),
        ({"lag": (1.0, 398.0)}, 3),
        ({"lag": (200.0, 199.0), "there_ms": 150.0}, 200),
        ({}, None),
    ],
)
def test_what_the_client_kept_of_the_head(
    how: dict[str, tuple[float, float] | float], since: int | None
) -> None:
    """By the kernel's account from two of its coarse ticks on; by the loop's where it was free just
    before the head was read. Not before the request was sent."""
    kept = () if since is None else (Hold(start_ns=since * MS, end_ns=400 * MS),)
    assert build(headed(**how)).holds == kept  # type: ignore[arg-type]


def test_a_head_the_client_kept_may_have_been_there_for_all_the_bounds_say() -> None:
    """A body in one piece: what the reader was late may be the way's as well as the client's."""
    found = attributed(headed(there_ms=300.0))
    (late,) = [piece for piece in found.pieces if LATE in piece.evidence]
    assert late.ns >= 300 * MS - 10 * MS
    assert {"network", "client"} <= set(late.candidates)


def test_a_head_that_was_never_read_was_not_kept() -> None:
    made = headed(there_ms=300.0)
    (one,) = made.attempts
    bare = replace(one, marks=tuple(mark for mark in one.marks if mark.name != "request.sent"))
    assert build(replace(made, attempts=(bare,))).holds == ()


def test_a_loop_that_was_free_before_the_request_left_kept_no_head() -> None:
    """Sent at 3 ms, the head read at 6: a lag that ended at 2.5 is near, and over."""
    made = stream([*tokens(3, start=10.0, step=10.0), (40.0, finish() + DONE)], headers=6.0)
    lag = ((ns(0.5), ns(2.0)),)
    assert build(replace(made, client=ClientSide(loop_lag=lag))).holds == ()
