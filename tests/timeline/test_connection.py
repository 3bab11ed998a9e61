"""Flags of how the connection came about."""

from dataclasses import replace

import pytest

from latscope.recording import Attempt, Connection, Mark, TcpInfo
from latscope.timeline import build
from latscope.timeline.connection import connection_flags
from latscope.units import MS, Ns
from tests.calls import attempt, call

SHORT = TcpInfo(at="connect", rtt_ns=20 * MS, total_retrans=0)


def connecting(took: float, *infos: TcpInfo) -> Attempt:
    """An attempt that connected for so many ms."""
    marks = (Mark("connect.started", MS), Mark("connect.complete", MS + ns(took)))
    return replace(attempt(connect=None), marks=marks, tcp_info=infos)


def ns(ms: float) -> Ns:
    return round(ms * MS)


@pytest.mark.parametrize("took", [5000, 5080, 5300, 10_040, 20_300])
def test_whole_steps_of_a_resolver_are_flagged(took: float) -> None:
    """5 s, 10 s and on, and up to 0.3 s more."""
    assert connection_flags(call(connecting(took, SHORT))) == ["resolver_step"]


@pytest.mark.parametrize("took", [0, 290, 3020, 4999.9, 5300.1, 7500, 9990])
def test_other_times_are_not(took: float) -> None:
    assert connection_flags(call(connecting(took, SHORT))) == []


@pytest.mark.parametrize(
    "info",
    [
        replace(SHORT, rtt_ns=301 * MS),
        replace(SHORT, rtt_ns=None),
        replace(SHORT, total_retrans=2),
        replace(SHORT, at="headers"),
    ],
)
def test_a_long_way_and_a_lost_syn_are_no_resolvers(info: TcpInfo) -> None:
    """Nothing is said where the handshake itself may have taken the time, or nobody knows."""
    assert connection_flags(call(connecting(5040, info))) == []


def test_only_a_connecting_that_succeeded_counts() -> None:
    """5 s of connecting in vain is the caller's own timeout."""
    marks = (
        Mark("connect.complete", 0),
        Mark("connect.started", 1),
        Mark("connect.failed", ns(5001)),
        Mark("connect.started", ns(5002)),
        Mark("connect.complete", ns(5010)),
    )
    found = replace(attempt(connect=None), marks=marks, tcp_info=(SHORT,))
    assert connection_flags(call(found)) == ["address_failed"]


@pytest.mark.parametrize(
    ("steps", "flags"),
    [
        (("started", "failed"), []),
        (("started", "complete"), []),
        (("started", "failed", "started", "complete"), ["address_failed"]),
        (("started", "complete", "started", "failed"), []),
    ],
)
def test_an_address_failed_when_the_next_one_did_not(
    steps: tuple[str, ...], flags: list[str]
) -> None:
    marks = tuple(Mark(f"connect.{step}", at) for at, step in enumerate(steps))
    assert connection_flags(call(replace(attempt(connect=None), marks=marks))) == flags


@pytest.mark.parametrize(
    ("peer", "status", "infos", "flagged"),
    [
        ("10.0.0.1:443", 200, (), True),
        ("[fe80::1%eth0]:443", 200, (), True),
        ("10.0.0.1:443", 200, (SHORT,), False),
        ("10.0.0.1:443", None, (), False),
        ("/run/engine.sock", 200, (), False),
        (None, 200, (), False),
    ],
)
def test_a_silent_kernel_is_named(
    peer: str | None, status: int | None, infos: tuple[TcpInfo, ...], flagged: bool
) -> None:
    """Where there is a TCP connection that answered, and no snapshot of it."""
    found = replace(attempt(status=status), connection=Connection(peer=peer), tcp_info=infos)
    assert ("no_tcp_info" in build(call(found)).flags) == flagged


def test_without_a_connection_there_is_no_kernel_to_ask() -> None:
    """Nor without an attempt."""
    assert connection_flags(call(replace(attempt(), connection=None, tcp_info=()))) == []
    assert connection_flags(call()) == []
