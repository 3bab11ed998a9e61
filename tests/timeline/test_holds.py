"""When the client kept the stream waiting: its consumer, its event loop, its collector."""

from dataclasses import replace

from latscope.recording import ClientSide, Recording
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
