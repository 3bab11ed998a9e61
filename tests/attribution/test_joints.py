"""Figures that cover several parts as one, a front end, or a hop: what each fills, and no more."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from latscope.attribution import Piece, check_partition
from latscope.attribution.figures import Figures, figures_of
from latscope.attribution.model import Segment
from latscope.attribution.pace import pace
from latscope.attribution.partition import partition
from latscope.attribution.window import Basis
from latscope.protocols.events import Covers, Reported
from latscope.recording import Recording
from latscope.timeline import build
from latscope.units import MS
from tests.calls import DONE, finish, ms, stream, tokens, usage


def call(*, start: float = 203.0, n: int = 20, step: float = 10.0) -> Recording:
    chunks = tokens(n, start=start, step=step)
    last = chunks[-1][0]
    return stream([*chunks, (last + 1, finish("length") + usage(n) + DONE)], sent=3.0)


def stated(covers: Covers, at: float, *, field: str = "x", resolution: int = 1) -> Reported:
    return Reported(
        source="s", field=field, covers=covers, ns=round(at * MS), resolution_ns=resolution
    )


def pieces(recording: Recording, *found: Reported) -> tuple[Piece, ...]:
    """The partition of the call, were its server to state these figures."""
    timeline = replace(build(recording), reported=found)
    figures, _ = figures_of(timeline)
    basis = Basis(
        timeline=timeline, figures=figures, mode="self-hosted", pace=pace(timeline.arrivals)
    )
    made = partition(basis, timeline.wall_ns, to_first=False)
    check_partition(made, timeline.wall_ns)
    return made


def split(recording: Recording, *found: Reported) -> dict[tuple[Segment, ...], float | None]:
    """Milliseconds by candidates."""
    sums: dict[tuple[Segment, ...], int] = {}
    for piece in pieces(recording, *found):
        sums[piece.candidates] = sums.get(piece.candidates, 0) + piece.ns
    return {who: ms(ns) for who, ns in sums.items()}


def figures(*found: Reported, recording: Recording | None = None) -> Figures:
    timeline = replace(build(recording or call()), reported=found)
    return figures_of(timeline)[0]


@pytest.mark.parametrize(
    ("given", "queue", "prefill", "decode"),
    [
        ([("prefill", 60), ("prefill+decode", 200)], None, 60, 140),
        ([("decode", 140), ("prefill+decode", 200)], None, 60, 140),
        ([("queue+prefill", 80), ("queue+prefill+decode", 250)], None, None, 170),
        ([("queue.engine", 20), ("prefill", 60), ("decode", 140)], 20, 60, 140),
    ],
)
def test_a_wider_figure_less_its_known_part_is_the_other_part(
    given: Sequence[tuple[Covers, float]],
    queue: float | None,
    prefill: float | None,
    decode: float | None,
) -> None:
    found = figures(*(stated(covers, at) for covers, at in given))
    assert [ms(ns) for ns in (found.queue_ns, found.prefill_ns, found.decode_ns)] == [
        queue,
        prefill,
        decode,
    ]


def test_time_to_first_token_from_arrival_leaves_the_front_end() -> None:
    """vLLM's span counts it from arrival: above queue and prefill lies the front end."""
    found = figures(
        stated("queue+prefill", 150), stated("queue.engine", 20), stated("prefill", 100)
    )
    assert ms(found.frontend_ns) == 30
    assert found.joint == ()
    assert ms(found.before_ns) == 150


@pytest.mark.parametrize(
    ("given", "joint", "rest"),
    [
        ([("queue+prefill", 150)], ("queue", "prefill"), 150),
        ([("queue+prefill", 150), ("queue.engine", 20)], ("queue", "prefill"), 130),
        ([("queue+prefill", 150), ("prefill", 100)], ("queue", "prefill"), 50),
    ],
)
def test_a_sum_nobody_splits_stays_a_sum(
    given: Sequence[tuple[Covers, float]], joint: tuple[Segment, ...], rest: float
) -> None:
    found = figures(*(stated(covers, at) for covers, at in given))
    assert (found.joint, ms(found.joint_ns)) == (joint, rest)
    assert ms(found.before_ns) == 150


def test_a_sum_over_the_first_token_tells_nothing_of_a_stream() -> None:
    """Where in it the first token lies is not said: prefill and decode are not told apart."""
    assert not figures(stated("prefill+decode", 200)).known
    assert not figures(stated("queue+prefill+decode", 200)).known


def test_a_first_token_time_bounds_what_the_network_took() -> None:
    """A server that states its time to first token only: that sum is queue and prefill, the rest
    of the wait is not prefill."""
    sums = split(call(), stated("queue+prefill", 150))
    assert sums["queue", "prefill"] == 150
    assert sums["queue", "network"] == pytest.approx(203 - 2.9 - 0.04 - 150 - 25 - 10, abs=0.02)
    assert not any("prefill" in who for who in sums if who != ("queue", "prefill"))


def test_two_hops_that_time_the_same_head_leave_what_lies_between_them() -> None:
    """Never a sum: the inner one is inside the outer one; rounding of both is taken off."""
    found = figures(
        stated("headers", 90.0, field="edge", resolution=MS),
        stated("headers", 60.0, field="origin", resolution=MS),
    )
    assert ms(found.gateway_ns) == 28
    assert not found.known
    assert figures(stated("headers", 90.0)).gateway_ns is None
    same = figures(stated("headers", 60.0, resolution=MS), stated("headers", 61.0, resolution=MS))
    assert same.gateway_ns is None


def test_a_hops_own_work_is_the_gateways() -> None:
    (piece,) = [p for p in pieces(call(), stated("network.gateway", 40.0)) if p.part == "gateway"]
    assert (piece.owner, piece.ns, piece.provenance) == ("network", 40 * MS, "reported")


def test_a_hop_that_says_more_than_the_client_saw_is_not_believed() -> None:
    found = figures(stated("network.gateway", 4_000.0))
    assert found == Figures()


def test_rounding_is_taken_from_the_least_certain_figure_first() -> None:
    recording = call()
    room = 203.0 - 2.9
    found = figures(
        stated("queue.engine", 50.0),
        stated("prefill", 100.0),
        stated("network.gateway", room - 150 + 1.5),
        recording=recording,
    )
    assert ms(found.gateway_ns) == pytest.approx(room - 150, abs=0.01)
    assert (ms(found.queue_ns), ms(found.prefill_ns)) == (50, 100)


def test_a_body_that_came_whole_states_inference_as_one() -> None:
    recording = stream(
        [(300.0, b'{"object":"chat.completion","choices":[],"usage":{"completion_tokens":9}}')],
        kind="application/json",
        sent=3.0,
        headers=299.0,
    )
    assert split(recording, stated("prefill+decode", 200))["prefill", "decode"] == 200
    whole = split(recording, stated("queue+prefill+decode", 250))
    assert whole["queue", "prefill", "decode"] == 250
