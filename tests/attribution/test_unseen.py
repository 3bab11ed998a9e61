"""A transport that shows nothing of its connections: what it did stays unknown, on every way."""

from dataclasses import replace

from latscope.attribution import Attribution
from latscope.recording import Attempt, Connection
from latscope.timeline.build import build
from tests.calls import DONE, attempt, attributed, call, delta, finish, metrics, tokens, usage

METRICS = {
    "queue_time_ms": 5.0,
    "time_to_first_token_ms": 20.0,
    "generation_time_ms": 40.0,
    "num_prompt_tokens": 10,
}


def unseen(**how: object) -> Attempt:
    """An attempt with no transport event but the response's head."""
    bare = attempt(connect=None, sent=None, rtt_us=None, **how)  # type: ignore[arg-type]
    connection = bare.connection or Connection()
    return replace(bare, connection=replace(connection, reused=None, peer=None, unseen=True))


def client(found: Attribution) -> tuple[int, tuple[int, int]]:
    share = next(share for share in found.segments if share.name == "client")
    return share.ns, share.bounds_ns


def test_what_lies_before_the_transport_is_the_clients_for_sure_and_more_may_be() -> None:
    chunks = [*tokens(4, start=50, step=10), (85, finish()), (86, DONE)]
    found = attributed(call(unseen(entry=20.0, headers=40.0, chunks=chunks)))
    ns, (low, high) = client(found)
    assert ns == low == 20_000_000
    assert high > low
    assert "connection_unseen" in found.flags


def test_reported_figures_leave_the_rest_to_the_client_too() -> None:
    """The same call seen and not seen: where the connection was seen, the rest is not its own."""
    last = usage(4, metrics=METRICS)
    chunks = [*tokens(4, start=50, step=10), (85, finish()), (86, last), (87, DONE)]
    seen = attributed(call(attempt(chunks, entry=0.0, headers=40.0)))
    hidden = attributed(call(unseen(entry=0.0, headers=40.0, chunks=chunks)))
    assert client(hidden)[1][1] > client(seen)[1][1]
    assert "reported_contradicts_clock" not in hidden.flags
    assert seen.reported
    assert [r.field for r in hidden.reported] == [r.field for r in seen.reported]


def test_a_refusal_may_have_waited_for_a_connection() -> None:
    found = attributed(call(unseen(headers=30.0, status=404, kind="application/json")))
    assert any(piece.candidates == ("queue", "network", "client") for piece in found.pieces)


def test_a_try_that_failed_may_have_waited_for_a_connection() -> None:
    """One that timed out, and one that reached nobody."""
    for error, who in (
        ("httpx2.ReadTimeout", ("queue", "network", "client")),
        ("httpx2.ConnectError", ("network", "client")),
    ):
        tried = unseen(status=None, headers=None, error=error, end=30.0)
        answered = unseen(
            entry=40.0,
            headers=60.0,
            chunks=[(70, delta("a")), (80, finish()), (81, DONE)],
        )
        found = attributed(call(tried, answered))
        assert any(piece.candidates == who for piece in found.pieces)


def test_a_call_without_an_answer_waited_for_its_headers_as_far_as_anybody_can_tell() -> None:
    tried = unseen(status=None, headers=None, error="httpx2.ReadError", end=30.0)
    timeline = build(call(tried, reason="error", detail="ReadError"))
    assert timeline.failure is not None
    assert timeline.failure.phase == "headers"
    assert [phase.name for phase in timeline.answer.phases] == ["pool_wait", "wait"]


def test_what_reported_figures_leave_before_the_first_token_may_be_the_clients() -> None:
    """Nothing shows when the request left: it may have waited for a connection."""
    last = usage(4, metrics=metrics(2.0, 8.0, 30.0))
    chunks = [*tokens(4, start=50, step=10), (85, finish()), (86, last), (87, DONE)]
    found = attributed(call(unseen(entry=0.0, headers=40.0, chunks=chunks)))
    rest = next(piece for piece in found.pieces if "beyond" in " ".join(piece.evidence))
    assert rest.candidates == ("queue", "network", "client")
