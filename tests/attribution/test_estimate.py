"""What a profile gives to whom: estimates and their interval become narrower, bounds stay."""

from dataclasses import replace

import pytest

from latscope.attribution import Attribution, Piece, attribute, check_partition
from latscope.attribution.estimate import Lead, with_lead
from latscope.attribution.excess import point_of
from latscope.attribution.lead import source_of
from latscope.attribution.model import Segment
from latscope.attribution.observe import observe
from latscope.attribution.profile import Floor, Profile, Residual, StepFloor, Terms
from latscope.attribution.residuals import SHARES
from latscope.attribution.shares import dominant, segment_shares
from latscope.attribution.window import LATE
from latscope.recording import Recording
from latscope.units import MS
from tests.calls import DONE, attributed, finish, metrics, ms, stream, tokens, usage
from tests.spans import request

ENDPOINT = "http://127.0.0.1:8000/v1/chat/completions"


def piece(ns: float, *candidates: Segment, part: str = "") -> Piece:
    return Piece(
        ns=round(ns * MS),
        candidates=candidates,
        provenance="bound" if len(candidates) > 1 else "measured",
        evidence=("x",),
        part=part,
    )


def lead(prefill: float | None, low: float = 0, high: float = 0, **how: float) -> Lead:
    return Lead(
        prefill_ns=None if prefill is None else round(prefill * MS),
        prefill_low_ns=round(low * MS),
        prefill_high_ns=round(high * MS),
        provenance="inferred",
        evidence=("a floor",),
        **{name: round(value * MS) for name, value in how.items()},
    )


PIECES = (
    piece(1, "network", part="transit"),
    piece(200, "queue", "prefill"),
    piece(30, "queue", "prefill", "network"),
    piece(300, "decode"),
)


def shares(pieces: tuple[Piece, ...]) -> dict[str, tuple[float, float, float]]:
    check_partition(pieces, sum(p.ns for p in PIECES))
    found = segment_shares(pieces, None, "self-hosted")
    return {s.name: (s.ns / MS, s.low_ns / MS, s.high_ns / MS) for s in found}


def test_prefill_comes_last_and_queue_has_the_rest() -> None:
    found = shares(with_lead(PIECES, lead(150, 120, 180)))
    assert found["prefill"] == pytest.approx((150, 120, 180))
    assert found["queue"] == pytest.approx((80, 50, 110))
    assert found["network"] == pytest.approx((1, 1, 1))
    assert found["decode"] == pytest.approx((300, 300, 300))
    assert found["unattributed"] == pytest.approx((0, 0, 0))


def test_the_hard_bounds_keep_every_candidate() -> None:
    found = segment_shares(with_lead(PIECES, lead(150, 120, 180)), None, "self-hosted")
    assert {s.name: s.bounds_ns for s in found if s.ns} == {
        "queue": (0, 230 * MS),
        "prefill": (0, 230 * MS),
        "network": (MS, 31 * MS),
        "decode": (300 * MS, 300 * MS),
    }
    assert {s.name: s.provenance for s in found if s.ns}["prefill"] == "inferred"


def test_delivery_stays_loose_as_far_as_it_is_said_to_be() -> None:
    found = shares(with_lead(PIECES, lead(150, 120, 180, loose_ns=5)))
    assert found["network"] == pytest.approx((1, 1, 6))
    assert found["prefill"][:2] == pytest.approx((150, 120))
    assert found["prefill"][2] == 180


def test_more_prefill_than_there_is_room_fills_the_room() -> None:
    found = shares(with_lead(PIECES, lead(900, 850, 950)))
    assert found["prefill"] == pytest.approx((230, 230, 230))
    assert found["queue"] == pytest.approx((0, 0, 0))


def test_prefill_that_is_sure_counts_against_the_estimate() -> None:
    pieces = (piece(100, "queue", "prefill"), piece(130, "prefill"))
    found = segment_shares(with_lead(pieces, lead(150, 140, 160)), None, "self-hosted")
    by = {s.name: (s.ns / MS, s.low_ns / MS, s.high_ns / MS) for s in found}
    assert by["prefill"] == pytest.approx((150, 140, 160))
    assert by["queue"] == pytest.approx((80, 70, 90))


def test_a_reader_that_was_late_stays_unsplit() -> None:
    late = piece(40, "queue", "prefill", "client")
    found = with_lead((*PIECES[:2], late), lead(150, 120, 180))
    assert late in found


def test_tokens_never_shown_are_decode_before_the_first_one() -> None:
    pieces = (piece(500, "queue", "prefill", "decode"),)
    found = segment_shares(
        with_lead(pieces, lead(None, decode_ns=400, decode_low_ns=200)), None, "vendor"
    )
    by = {s.name: (s.ns / MS, s.low_ns / MS, s.high_ns / MS) for s in found}
    assert by["decode"] == pytest.approx((400, 200, 500))
    assert by["unattributed"][0] == 100
    both = with_lead(pieces, lead(60, 50, 70, decode_ns=400, decode_low_ns=200))
    given = {s.name: s.ns / MS for s in segment_shares(both, None, "vendor")}
    assert [given["queue"], given["prefill"], given["decode"]] == [40, 60, 400]


def test_the_winner_is_named_where_the_interval_lets_it() -> None:
    assert dominant(with_lead(PIECES[:3], lead(150, 120, 180)))[0] == "prefill"
    assert dominant(with_lead(PIECES[:3], lead(150, 90, 180)))[0] is None
    assert dominant(PIECES[:3])[0] is None


# -- whole calls -----------------------------------------------------------------------------------


def profile(**how: object) -> Profile:
    made = Profile(
        endpoint=ENDPOINT,
        model="tiny",
        api="chat",
        provenance="inferred",
        made_at="2026-11-29T00:00:00Z",
        expires_at="2026-12-06T00:00:00Z",
        n=240,
        floor=Floor(
            terms=Terms(base_ns=10 * MS, linear_ns=0.1 * MS),
            anchor="sent",
            n=240,
            noise_ns=MS,
            tokens=(100, 4000),
        ),
        step=StepFloor(base_ns=10 * MS, per_context_ns=0.0, n=240, noise_ns=MS),
        headers="unknown",
        rtt_ns=40_000,
        tokens_per_chunk=1.0,
    )
    return replace(made, **how)  # type: ignore[arg-type]


def calibrated(made: Profile, recording: Recording) -> Profile:
    """With residuals of its own for calls like this one: a tenth of the scale either way."""
    row = observe(recording)
    assert row is not None
    point = point_of(row, made)
    assert point is not None
    names = ("prefill", "queue", "excess", "lean")
    known = {f"{name}/{point.group}": Residual(low=-0.1, high=0.1, n=100) for name in names}
    return replace(made, residuals=known)


def call(start: float = 403.0, prompt: int = 1000, **extra: object) -> Recording:
    chunks = tokens(20, start=start, step=10.0)
    last = chunks[-1][0]
    said = usage(20, prompt=prompt, **extra)
    return stream([*chunks, (last + 1, finish("length") + said + DONE)], sent=3.0)


def own(found: Attribution, name: Segment) -> float:
    return found.segment(name).ns / MS


def test_a_profile_splits_what_one_call_cannot() -> None:
    """A floor of 10 + 0.1 a token: 1,000 tokens take 110 ms idle; 700 ms went by. Of the other 590
    the lab's share for such calls is prefill, the rest was waited."""
    late = call(start=703.0)
    bare = attributed(late)
    assert bare.unsplit
    assert (own(bare, "queue"), own(bare, "prefill")) == (0, 0)
    found = attributed(late, profile=calibrated(profile(), late))
    contended = 590 * SHARES["inferred/sent/queued/alone"]
    assert 0 < contended < 200
    assert own(found, "prefill") == pytest.approx(110 + contended, abs=2)
    assert own(found, "queue") == pytest.approx(590 - contended, abs=3)
    assert found.segment("prefill").bounds_ns == bare.segment("prefill").bounds_ns
    assert found.segment("prefill").provenance == "inferred"
    assert found.profile == "inferred from 240 calls"
    assert found.dominant_ttft == "queue"
    excess = found.load_excess
    assert excess is not None
    assert ms(excess.floor_ns) == 110
    assert ms(excess.ns) == pytest.approx(590, abs=1)


def test_a_head_that_was_read_late_need_not_have_waited() -> None:
    """40 ms after the request, 1 ms when nothing is about: the engine may have had it since."""
    chunks = tokens(20, start=163.0, step=10.0)
    ending = (chunks[-1][0] + 1, finish("length") + usage(20, prompt=1000) + DONE)
    late = stream([*chunks, ending], sent=3.0, headers=43.0)
    floor = profile().floor
    assert floor is not None
    made = profile(floor=replace(floor, anchor="headers"))
    waited, read = (
        attributed(late, profile=calibrated(replace(made, head_ns=head), late)).segment("queue")
        for head in (None, MS)
    )
    assert waited.low_ns - read.low_ns == pytest.approx(39 * MS, abs=MS)
    assert read.ns == waited.ns


def test_the_servers_own_figures_outrank_a_profile_but_the_excess_is_told() -> None:
    found = attributed(call(metrics=metrics(200.0, 190.0, 190.0)), profile=profile())
    assert own(found, "prefill") == 190
    assert found.segment("prefill").provenance == "reported"
    assert found.load_excess is not None


@pytest.mark.parametrize(
    ("how", "flag"),
    [
        ({"model": "other"}, "profile_of_another"),
        ({"endpoint": "http://elsewhere"}, "profile_of_another"),
        ({"expires_at": "2026-11-29T11:00:00Z"}, "profile_expired"),
    ],
)
def test_a_profile_that_does_not_fit_is_not_used(how: dict[str, object], flag: str) -> None:
    found = attributed(call(), profile=profile(**how))
    assert flag in found.flags
    assert found.profile is None
    assert own(found, "prefill") == 0


def test_a_profile_without_a_floor_splits_nothing() -> None:
    found = attributed(call(), profile=profile(floor=None, refused="saturated"))
    assert found.load_excess is None
    assert own(found, "prefill") == 0


def test_hidden_reasoning_is_decode_by_the_time_of_a_step() -> None:
    """30 tokens nobody saw, at the 10 ms a token the stream then shows."""
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    chunks = tokens(20, start=503.0, step=10.0)
    said = finish("length") + usage(50, details=details) + DONE
    found = attributed(stream([*chunks, (chunks[-1][0] + 1, said)], sent=3.0))
    assert found.segment("decode").ttft_ns == 300 * MS
    assert found.segment("decode").provenance == "inferred"
    assert "hidden_reasoning" in found.flags
    assert found.unsplit[0].candidates == ("queue", "prefill", "decode")


def test_without_a_pace_hidden_reasoning_takes_the_profiles_steps() -> None:
    """All tokens came in one read: how long a step is only the profile knows."""
    details = {"completion_tokens_details": {"reasoning_tokens": 30}}
    said = finish("length") + usage(33, prompt=400, details=details) + DONE
    one = stream([*tokens(3, start=903.0, step=0.0), (904.0, said)], sent=3.0)
    known = profile(step=StepFloor(base_ns=10 * MS, per_context_ns=0.0, n=50, noise_ns=MS))
    assert attributed(one, profile=known).segment("decode").ttft_ns == 300 * MS
    assert attributed(one).segment("decode").ttft_ns == 0


def test_lateness_that_may_be_the_servers_stays_unsplit() -> None:
    """Before the first token a late reader hides whose time it was, profile or not."""
    late = replace(piece(50, "queue", "prefill", "client"), evidence=(LATE,))
    after = replace(piece(50, "decode", "client"), evidence=(LATE,))
    found = with_lead((*PIECES[:2], late, PIECES[3], after), lead(150, 120, 180))
    assert late in found
    assert [each.given for each in found if LATE in each.evidence] == [None, "decode"]


def test_where_a_profile_comes_from_in_words() -> None:
    probed = replace(profile(), provenance="probed", made_at="2026-11-30T10:00:00Z")
    assert source_of(probed) == "probed on 2026-11-30"
    assert source_of(profile()) == f"inferred from {profile().n} calls"


def test_spans_given_beside_a_call_count_as_joined_ones() -> None:
    one = call()
    told = request(1, gen_ai__latency__time_in_queue=0.05)
    found = attribute(one, spans=[told])
    assert found == attribute(replace(one, spans=(told,)))
    assert found != attribute(one)
