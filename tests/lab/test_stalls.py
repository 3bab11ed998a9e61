"""Faults on cue: what the plans ask for happens, and the truth of the stamps is what happened."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from latscope.units import MS, Ns
from tests.lab.stalls.plans import KINDS, Fault, Link, Plan, from_mapping, links, plans
from tests.lab.stalls.play import Played, play
from tests.lab.stalls.truth import Stamps, delivered, met, stalls

LINK = Link(delay_ns=5 * MS, jitter_ns=0)
N = 100
STEP = 40 * MS


def plan(*faults: Fault) -> Plan:
    return Plan(
        id=0,
        style="single",
        step_ns=STEP,
        offsets=tuple(index * STEP for index in range(N)),
        words=(1,) * N,
        faults=faults,
        port=8000,
        client="sync",
    )


def test_plans_follow_from_their_seed_and_deal_out_the_kinds_evenly() -> None:
    made = plans("x", 60, LINK)
    assert made == plans("x", 60, LINK) != plans("y", 60, LINK)
    kinds = Counter(fault.kind for one in made for fault in one.faults)
    assert kinds == dict.fromkeys(KINDS, 10)
    assert any(not one.faults for one in made)
    assert links("b", "x", 4) == links("b", "x", 4) != links("b", "y", 4)
    assert links("a", "x", 4) == links("a", "y", 4)


def test_faults_of_a_plan_lie_apart() -> None:
    for one in plans("x", 120, LINK):
        places = [one.offsets[fault.index] for fault in one.faults]
        assert all(b - a >= 1500 * MS for a, b in pairwise(places))
        assert from_mapping(one.to_mapping()) == one


def row(at: Ns, seq: int, size: int) -> dict[str, int]:
    return {"at_ns": at, "seq": seq, "bytes": size}


def test_bytes_behind_a_lost_segment_are_delivered_with_it() -> None:
    """The third is lost and comes again at 900; the sequence numbers wrap."""
    first = (1 << 32) - 50
    segments = [row(100, first, 100), row(200, 50, 100), row(300, 250, 100), row(900, 150, 100)]
    assert delivered(segments, [100, 150, 200, 300, 400]) == [100, 200, 200, 900, 900]
    assert delivered([*segments[:2], row(250, 50, 100)], [200]) == [200]


def on_time() -> Stamps:
    exists = [100 * MS + index * STEP for index in range(N)]
    return Stamps(
        exists=exists,
        sent=list(exists),
        out=[ns + 6 * MS for ns in exists],
        got=[ns + 7 * MS for ns in exists],
        kept=[],
        drops=[],
    )


def until(stamps: list[Ns], ns: Ns) -> list[Ns]:
    """From token 50 on nothing before that time."""
    return [max(at, ns) if index >= 50 else at for index, at in enumerate(stamps)]


def test_a_call_without_lateness_has_no_stall() -> None:
    assert stalls(plan(), on_time()) == []


@pytest.mark.parametrize(
    ("kind", "moved"),
    [
        ("server_flush", ("sent", "out", "got")),
        ("path_delay", ("out", "got")),
        ("client_block", ("got",)),
    ],
)
def test_the_share_that_is_largest_gives_the_kind(kind: str, moved: tuple[str, ...]) -> None:
    stamps = on_time()
    end = stamps.got[50] + 300 * MS
    changed: dict[str, Any] = {name: until(getattr(stamps, name), end) for name in moved}
    late = replace(stamps, **changed)
    (stall,) = stalls(plan(Fault(kind=kind, index=50, ns=300 * MS)), late)
    assert (stall.kind, stall.also, stall.by_plan) == (kind, (), True)
    assert (stall.at_ns, stall.end_ns) == (stamps.got[50], end)
    assert not stalls(plan(), late)[0].by_plan


def test_what_the_hop_kept_and_what_was_lost_are_no_slow_path() -> None:
    stamps = on_time()
    end = stamps.out[50] + 300 * MS
    late = replace(stamps, out=until(stamps.out, end), got=until(stamps.got, end + MS))
    kept = replace(late, kept=[(stamps.sent[50], end)])
    assert [stall.kind for stall in stalls(plan(), kept)] == ["proxy_hold"]
    lost = replace(late, drops=[stamps.sent[50] + MS])
    assert [stall.kind for stall in stalls(plan(), lost)] == ["packet_loss"]


def test_what_follows_a_loss_until_the_stream_is_on_time_is_the_losss() -> None:
    """The sender begins anew: a second silence of a round trip, in which nothing was dropped."""
    stamps = on_time()
    first, then = stamps.out[50] + 300 * MS, stamps.out[50] + 450 * MS
    out = [max(at, first if i < 55 else then) if i >= 50 else at for i, at in enumerate(stamps.out)]
    got = [max(at, ns + MS) for at, ns in zip(stamps.got, out, strict=True)]
    late = replace(stamps, out=out, got=got, drops=[stamps.sent[50] + MS])
    assert [stall.kind for stall in stalls(plan(), late)] == ["packet_loss", "packet_loss"]
    earlier = replace(late, drops=[stamps.sent[40]])
    assert {stall.kind for stall in stalls(plan(), earlier)} == {"path_delay"}


def test_two_shares_alike_are_both_causes() -> None:
    stamps = on_time()
    out = until(stamps.out, stamps.out[50] + 150 * MS)
    got = until(stamps.got, stamps.got[50] + 300 * MS)
    (stall,) = stalls(plan(), replace(stamps, out=out, got=got))
    assert {stall.kind, *stall.also} == {"path_delay", "client_block"}


def test_a_pause_is_known_from_the_schedule() -> None:
    stamps = on_time()
    moved: dict[str, Any] = {
        name: [at + 300 * MS if i >= 50 else at for i, at in enumerate(getattr(stamps, name))]
        for name in ("exists", "sent", "out", "got")
    }
    (stall,) = stalls(
        plan(Fault(kind="server_pause", index=50, ns=300 * MS)), replace(stamps, **moved)
    )
    assert (stall.kind, stall.ns) == ("server_pause", 300 * MS)
    assert stall.counts


def test_a_stall_is_met_by_half_of_it_or_by_its_onset() -> None:
    (stall,) = stalls(plan(), replace(on_time(), got=until(on_time().got, 2407 * MS)))
    assert (stall.at_ns, stall.end_ns) == (2107 * MS, 2407 * MS)
    assert met(stall, 2250 * MS, 3000 * MS, STEP)
    assert not met(stall, 2300 * MS, 3000 * MS, STEP)
    assert met(stall, 2067 * MS + 2 * STEP, 2200 * MS, STEP)
    assert not met(stall, 2400 * MS, 2900 * MS, STEP)


@pytest.fixture(scope="module")
def played() -> list[Played]:
    """One call with a fault of each kind that a plan can ask for."""
    faults = [
        Fault(kind=kind, index=10 + 14 * place, ns=300 * MS, how=how)
        for place, (kind, how) in enumerate(
            [
                ("server_pause", ""),
                ("server_flush", ""),
                ("proxy_hold", ""),
                ("packet_loss", "drop down 1"),
                ("path_delay", "hold down 300ms"),
                ("client_block", "consumer"),
            ]
        )
    ]
    asked = replace(plan(*faults), port=8001)
    return play([(LINK, [asked])])


@pytest.mark.lab
@pytest.mark.usefixtures("needs_namespaces")
def test_every_kind_of_fault_happens_and_its_truth_is_known(played: list[Played]) -> None:
    (call,) = played
    happened = [stall for stall in call.stalls if stall.by_plan]
    assert {stall.kind for stall in happened} == set(KINDS)
    assert all(stall.ns >= 250 * MS for stall in happened if stall.kind == "server_pause")
    assert len(call.stamps.got) == N
    assert call.recording.rtt_probe
