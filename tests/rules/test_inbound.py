"""The request a turn was made for, and its first byte against the model's."""

from typing import Any

from latscope.rules.inbound import FirstByte, Inbound, first_byte, with_inbound
from latscope.rules.turns import Gap, Turn, sessions
from latscope.units import MS, Ns, S
from tests.rules.made import call


def at(seconds: float, lasts: float = 0.5, **more: Any) -> dict[str, Any]:
    """A call of turn `t` that begins so long in; its first token comes after a fifth of it."""
    given: dict[str, Any] = {"turn": "t", "e2e": round(lasts * S), "ttft": round(lasts * S / 5)}
    return call(f"c{seconds}", round(seconds * S), **(given | more))


def asked(
    lasts: float, byte: float | None = None, *, seconds: float = 0.0, turn: str = "t", **more: Any
) -> Inbound:
    """A request that begins so long in."""
    whole, rest = divmod(round(seconds * 1_000_000), 1_000_000)
    return Inbound(
        turn=turn,
        started_at=f"2026-01-05T09:00:{whole:02}.{rest:06}Z",
        wall_ns=round(lasts * S),
        first_byte_ns=None if byte is None else round(byte * S),
        **more,
    )


def turn(*calls: dict[str, Any], inbound: Inbound | None = None) -> Turn:
    (session,) = with_inbound(sessions(calls), [] if inbound is None else [inbound])
    (only,) = session.turns
    return only


def test_the_turn_reaches_from_the_requests_begin_to_its_end() -> None:
    """What lies before the first call and after the last is outside, like what lies between."""
    request = asked(6)
    found = turn(at(1), at(3), inbound=request)
    bare = turn(at(1), at(3))
    assert (found.at_ns, bare.at_ns) == ((S, 3 * S), (0, 2 * S))
    assert found.wall_ns == 6 * S
    assert found.gaps == (
        Gap(at_ns=0, ns=S),
        Gap(at_ns=3 * S // 2, ns=3 * S // 2),
        Gap(at_ns=7 * S // 2, ns=5 * S // 2),
    )
    assert (found.busy_ns, found.outside_ns, found.waits_ns) == (S, 5 * S, 5 * S)
    assert found.started_ns == bare.started_ns - S == request.started_ns
    assert found.inbound == (request,)


def test_calls_that_go_on_after_the_answer_stay_in_the_turn() -> None:
    """A background task's, and one made before the request was known by that name."""
    found = turn(at(1), at(3), inbound=asked(1.5, seconds=1.2))
    assert (found.at_ns, found.wall_ns) == ((0, 2 * S), 5 * S // 2)
    assert found.gaps == (Gap(at_ns=S // 2, ns=3 * S // 2),)


def test_several_requests_may_share_a_turn() -> None:
    first, second = asked(1, seconds=0), asked(1, seconds=4)
    (session,) = with_inbound(sessions([at(0.2), at(4.2)]), [second, first])
    (found,) = session.turns
    assert found.inbound == (first, second)
    assert found.wall_ns == 5 * S


def test_a_request_of_another_turn_changes_nothing() -> None:
    assert turn(at(1), inbound=asked(6, turn="other")) == turn(at(1))
    assert turn(at(1, turn=None), inbound=asked(6)) == turn(at(1, turn=None))


def test_a_name_that_two_turns_have_tells_neither() -> None:
    """Its calls belong to two conversations: time in one would be outside in the other."""
    calls = [at(1, session_id="a"), at(2, session_id="b")]
    found = with_inbound(sessions(calls), [asked(6)])
    assert found == sessions(calls)
    assert len(found) == 2


def split(found: FirstByte | None) -> tuple[int | None, Ns, Ns, Ns, bool]:
    assert found is not None
    return found.call, found.before_ns, found.ttft_ns, found.after_ns, found.held


def test_the_first_byte_is_told_in_three() -> None:
    """By the token that came last before it; the three add up."""
    request = asked(6, 3.15)
    found = first_byte(turn(at(1), at(3), inbound=request), request)
    assert split(found) == (1, 3 * S, 100 * MS, 50 * MS, False)


def test_an_answer_that_waits_for_the_calls_end_is_held() -> None:
    request = asked(6, 3.7)
    assert split(first_byte(turn(at(1), at(3), inbound=request), request)) == (
        1, 3 * S, 100 * MS, 600 * MS, True,
    )  # fmt: skip


def test_a_call_whose_only_token_was_its_end_holds_nothing() -> None:
    request = asked(6, 3.7)
    calls = [at(3, ttft=S // 2)]
    assert split(first_byte(turn(*calls, inbound=request), request))[4] is False


def test_a_byte_before_any_token_is_all_before() -> None:
    """Nor does a call count that gave no token, or one from before the request."""
    request = asked(6, 1.05, seconds=0.5)
    calls = (at(0.1), at(1.5), at(0.6, ttft=None))
    assert split(first_byte(turn(*calls, inbound=request), request)) == (
        None, 1050 * MS, 0, 0, False,
    )  # fmt: skip


def test_no_byte_has_no_split() -> None:
    request = asked(6)
    assert first_byte(turn(at(1), inbound=request), request) is None
