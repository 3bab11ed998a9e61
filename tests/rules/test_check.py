"""Each way to a verdict."""

from typing import Any

import pytest

from latscope.rules.check import check, names_of
from latscope.rules.finding import Finding
from latscope.rules.metrics import Call
from latscope.rules.runbook import Action, Bound, Done, Runbook
from latscope.rules.table import Gathered, gather
from latscope.units import MS, S
from tests.rules.made import above, call, calls, cause, page

BASELINE = Bound(against="baseline", times=1.3, by=50 * MS)
HEALTHY = {"ttft": 400 * MS, "ttft.queue": 20 * MS, "ttft.prefill": 380 * MS}
QUEUED = {"ttft": 1400 * MS, "ttft.queue": 1020 * MS, "ttft.prefill": 380 * MS}
QUEUE = cause(
    "queue",
    above("ttft.queue", bound=BASELINE),
    moves=("ttft.queue", "p50"),
    collect="the server's own times",
)
PREFILL = cause("prefill", above("ttft.prefill", bound=BASELINE), moves=("ttft.prefill", "p50"))
SLOW = page(symptom=(above("ttft", bound=BASELINE),), evidence=(QUEUE, PREFILL))


def made(n: int = 40, **values: Any) -> list[Call]:
    return [call(f"c{at}", at * S, **values) for at in range(n)]


def found(one: Runbook, lines: list[Call], **others: Any) -> Finding:
    """The one finding of a page over calls of one group."""
    names = names_of([one])
    given: dict[str, Any] = {
        key: gather(value, names) if key in ("baseline", "before") else value
        for key, value in others.items()
    }
    (finding,) = check([one], gather(lines, names), **given)
    return finding


# -- open -----------------------------------------------------------------------------------------


def test_a_symptom_with_a_named_cause_is_open() -> None:
    one = found(SLOW, made(**QUEUED), baseline=made(**HEALTHY))
    assert (one.verdict, one.segment, one.seen) == ("open", "queue", True)
    assert [(c.id, c.named) for c in one.causes] == [("queue", True), ("prefill", False)]
    assert one.causes[0].moved_ns == S
    assert one.reference == "baseline file"
    assert [r.metric for r in one.evidence] == ["ttft", "ttft.queue", "ttft.prefill"]
    assert (one.model, one.calls, one.asked, one.reason) == ("model-a", 40, False, "")
    assert one.endpoint == "https://api.example.com/v1/chat/completions"


def test_causes_are_ranked_by_the_milliseconds_they_moved() -> None:
    worse = {"ttft": 3 * S, "ttft.queue": 1 * S, "ttft.prefill": 2 * S}
    one = found(SLOW, made(**worse), baseline=made(**HEALTHY))
    assert [c.id for c in one.causes] == ["prefill", "queue"]
    assert one.segment == "prefill"


def test_a_symptom_whose_causes_all_stayed_is_open_without_a_segment() -> None:
    slow = {"ttft": 1400 * MS, "ttft.queue": 20 * MS, "ttft.prefill": 380 * MS}
    one = found(SLOW, made(**slow), baseline=made(**HEALTHY))
    assert (one.verdict, one.segment) == ("open", None)
    assert one.reason == "none of the known causes moved"


def test_a_page_without_evidence_is_open_by_its_symptom() -> None:
    one = found(page(), made(ttft=2 * S))
    assert (one.verdict, one.causes, one.reason) == ("open", (), "")


def test_a_cause_is_not_looked_at_once_what_excludes_it_is_named() -> None:
    joint = cause("joint", above("ttft", bound=BASELINE), unless=("queue",), moves=("ttft", "p50"))
    both = page(symptom=SLOW.symptom, evidence=(QUEUE, joint))
    one = found(both, made(**QUEUED), baseline=made(**HEALTHY))
    assert [(c.id, c.named, c.readings) for c in one.causes][1] == ("joint", False, ())
    blind = found(both, made(ttft=1400 * MS, blind=True), baseline=made(ttft=400 * MS, blind=True))
    assert [(c.id, c.named) for c in blind.causes] == [("joint", True), ("queue", None)]
    assert blind.verdict == "open"


def test_what_moved_is_null_without_a_reference_or_where_it_is_no_time() -> None:
    timeless = cause("a", above("ttft", 1), moves=("input_tokens", "p50"))
    unheld = cause("b", above("ttft", 1), moves=("e2e", "p50"))
    untold = cause("c", above("ttft", 1), moves=("tpot", "p50"))
    silent = cause("d", above("ttft", 1))
    one = found(page(evidence=(timeless, unheld, untold, silent)), made(ttft=2 * S))
    assert [c.moved_ns for c in one.causes] == [None] * 4
    told = found(page(evidence=(untold,)), made(ttft=2 * S), baseline=made(ttft=S))
    assert told.causes[0].moved_ns is None


# -- insufficient ---------------------------------------------------------------------------------


def test_a_symptom_whose_cause_cannot_be_told_is_insufficient_and_says_what_to_collect() -> None:
    blind = made(ttft=1400 * MS, blind=True)
    one = found(SLOW, blind, baseline=made(ttft=400 * MS, blind=True))
    assert (one.verdict, one.seen, one.segment) == ("insufficient evidence", True, None)
    assert "what the calls leave unsplit decides it" in one.reason
    assert one.collect == ("the server's own times",)
    assert one.actions == ()


def test_a_symptom_without_a_reference_is_insufficient_and_not_seen() -> None:
    one = found(SLOW, made(**QUEUED))
    assert (one.verdict, one.seen) == ("insufficient evidence", None)
    assert one.reason == "no reference: save one with latscope check --save-baseline"
    assert not one.asked
    assert found(SLOW, made(**QUEUED), asked=["slow"]).asked


def test_too_few_calls_are_insufficient() -> None:
    one = found(page(symptom=(above("ttft", S, stat="p95"),)), made(9, ttft=2 * S))
    assert one.verdict == "open"  # the lower end is known
    one = found(page(symptom=(above("ttft", 3 * S, stat="p95"),)), made(9, ttft=2 * S))
    assert (one.verdict, one.reason) == ("insufficient evidence", "needs about 50 more calls")


def test_a_precondition_that_cannot_be_told_is_insufficient() -> None:
    flat = above(
        "calls_per_hour", stat="value", how="near", bound=Bound(against="baseline", times=1.15)
    )
    one = found(page(opens_if=(flat,)), made(ttft=2 * S))
    assert (one.verdict, one.seen) == ("insufficient evidence", True)
    untold = found(page(opens_if=(above("in_flight"),), symptom=(above("ttft"),)), made(ttft=2 * S))
    assert untold.reason == "no call tells in_flight"


def test_unknown_inputs_say_what_to_collect() -> None:
    one = found(page(symptom=(above("load_excess"),)), made(ttft=2 * S))
    assert one.collect == ("make a profile: latscope calibrate, or calls of many prompt sizes",)


NO_EXCESS = "no call tells load_excess"

# -- not seen -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (
            {"modes": ("self-hosted", "on-device")},
            "it is for self-hosted and on-device endpoints only",
        ),
        ({"where": "reused = false"}, "no call passes reused = false"),
        ({"needs": ("hour", "stalls", "load_excess")}, NO_EXCESS),
        ({"needs": ("sessions_per_hour",)}, "no call tells sessions_per_hour"),
        ({"symptom": (above("ttft", 9 * S),)}, "the symptom is not there"),
        ({"symptom": (above("ttft", 9 * S, otherwise="it is quick"),)}, "it is quick"),
        ({"opens_if": (above("ttft", 9 * S),)}, "its precondition fails"),
        (
            {"opens_if": (above("ttft", 0), above("ttft", 9 * S, otherwise="traffic grew"))},
            "traffic grew",
        ),
    ],
)
def test_what_does_not_apply_is_not_seen_and_says_why(more: dict[str, Any], reason: str) -> None:
    one = found(page(**more), made(ttft=2 * S))
    assert (one.verdict, one.reason) == ("not seen", reason)


def test_needs_that_are_met_are_no_obstacle() -> None:
    one = found(page(needs=("ttft", "calls_per_hour", "model")), made(ttft=2 * S))
    assert one.verdict == "open"


def test_calls_of_a_mode_of_their_own_are_judged_alone() -> None:
    """A file of vendor calls and of one's own server, judged as a whole."""
    lines = made(ttft=2 * S) + made(20, ttft=MS, mode="self-hosted", model="b")
    one = found(page(scope="file", modes=("self-hosted",)), lines)
    assert (one.verdict, one.calls, one.model) == ("not seen", 20, None)


def test_no_call_at_all() -> None:
    assert check([page()], gather([], names_of([page()]))) == ()
    one = found(page(scope="file"), [])
    assert (one.verdict, one.reason, one.calls) == ("not seen", "there is no call", 0)


# -- resolved -------------------------------------------------------------------------------------

BACK = Done(text="TTFT is back", conditions=(above("ttft", how="below", value=500 * MS),))
FIXABLE = page(done_when=(BACK,), symptom=(above("ttft", S),))


def test_resolved_is_what_was_open_before_and_is_done() -> None:
    one = found(FIXABLE, made(ttft=400 * MS), before=made(ttft=2 * S))
    assert (one.verdict, one.asked, one.seen) == ("resolved", True, False)
    assert [(d.text, d.met) for d in one.done_when] == [("TTFT is back", True)]
    assert one.done_when[0].readings[0].metric == "ttft"


def test_without_the_calls_from_before_nothing_is_resolved() -> None:
    one = found(FIXABLE, made(ttft=400 * MS))
    assert (one.verdict, one.done_when) == ("not seen", ())
    one = found(FIXABLE, made(ttft=400 * MS), before=made(ttft=400 * MS))
    assert (one.verdict, one.asked) == ("not seen", False)


def test_gone_but_not_done_is_still_open() -> None:
    one = found(FIXABLE, made(ttft=800 * MS), before=made(ttft=2 * S))
    assert (one.verdict, one.seen) == ("open", False)
    assert one.reason == "the symptom is gone, but not yet: TTFT is back"
    assert one.done_when[0].met is False


def test_gone_and_perhaps_done_is_insufficient() -> None:
    unsure = Done(text="and surely", conditions=(above("load_excess", how="below", value=S),))
    one = found(
        page(done_when=(BACK, unsure), symptom=(above("ttft", S),)),
        made(ttft=400 * MS),
        before=made(ttft=2 * S),
    )
    assert one.verdict == "insufficient evidence"
    assert one.reason.startswith("no call tells load_excess")


def test_still_there_is_open_with_what_is_not_done() -> None:
    one = found(FIXABLE, made(ttft=2 * S), before=made(ttft=2 * S))
    assert (one.verdict, one.asked) == ("open", True)
    assert one.done_when[0].met is False


def test_what_was_open_and_cannot_be_judged_now_is_insufficient() -> None:
    needy = page(needs=("load_excess",), symptom=(above("ttft", S),))
    before = [call(f"c{at}", at * S, ttft=2 * S, load_excess=S) for at in range(40)]
    one = found(needy, made(ttft=400 * MS), before=before)
    assert (one.verdict, one.reason) == ("insufficient evidence", NO_EXCESS)
    flat = page(opens_if=(above("in_flight", how="below", value=3, otherwise="traffic grew"),))
    grew = found(flat, made(ttft=2 * S, in_flight=9), before=made(ttft=2 * S, in_flight=1))
    assert (grew.verdict, grew.reason) == ("insufficient evidence", "traffic grew")


def test_a_fix_under_more_traffic_is_a_fix() -> None:
    flat = page(opens_if=(above("in_flight", how="below", value=3, otherwise="traffic grew"),))
    one = found(flat, made(ttft=MS, in_flight=9), before=made(ttft=2 * S, in_flight=1))
    assert one.verdict == "resolved"


def test_a_group_that_was_open_and_has_no_call_now_is_insufficient() -> None:
    before = made(ttft=2 * S, model="old") + made(ttft=MS, model="fine")
    names = names_of([FIXABLE])
    told = check([FIXABLE], gather(made(ttft=MS), names), before=gather(before, names))
    assert [(f.model, f.verdict) for f in told] == [
        ("old", "insufficient evidence"),
        ("model-a", "not seen"),
    ]
    assert told[0].reason == "it was open before, and these files hold no such call"
    assert told[0].asked


# -- actions, order -------------------------------------------------------------------------------


def test_actions_are_those_of_the_named_causes_with_figures_of_the_file() -> None:
    actions = (
        Action(do="Lower the calls in flight below {in_flight.p50}", cause="queue"),
        Action(do="Shorten the prompt", cause="prefill"),
        Action(do="Look at nginx", where="hops ~ nginx"),
        Action(do="Look at envoy", where="hops ~ envoy"),
        Action(do="{output_tokens.p95}, {schema}, {model}, {no such}, {ttft.mean}"),
    )
    one = found(
        page(symptom=SLOW.symptom, evidence=SLOW.evidence, actions=actions),
        made(in_flight=4, hops="nginx", **QUEUED),
        baseline=made(**HEALTHY),
    )
    assert one.actions == (
        "Lower the calls in flight below 4",
        "Look at nginx",
        "unknown, unknown, model-a, {no such}, 1.4 s",
    )


def test_open_ones_come_first_the_most_severe_first_and_what_moved_most() -> None:
    queued = page(id="queued", symptom=SLOW.symptom, evidence=(QUEUE,))
    lesser = page(id="lesser", severity="info", symptom=(above("ttft", S),))
    silent = page(id="silent", severity="critical", symptom=(above("ttft", 9 * S),))
    missing = page(id="missing", symptom=(above("load_excess"),))
    unmoved = page(id="unmoved", symptom=(above("ttft", S),))
    pages = [silent, missing, lesser, unmoved, queued]
    names = names_of(pages)
    told = check(pages, gather(made(**QUEUED), names), baseline=gather(made(**HEALTHY), names))
    assert [f.runbook for f in told] == ["queued", "unmoved", "lesser", "missing", "silent"]


def test_each_model_at_each_endpoint_is_judged_by_its_own_baseline() -> None:
    names = names_of([SLOW])
    now = gather(made(**QUEUED) + made(model="b", **HEALTHY), names)
    then = gather(made(**HEALTHY) + made(model="b", **HEALTHY), names)
    told = {f.model: f.verdict for f in check([SLOW], now, baseline=then)}
    assert told == {"model-a": "open", "b": "not seen"}


def test_a_baseline_of_another_model_is_no_reference() -> None:
    one = found(SLOW, made(**QUEUED), baseline=made(model="b", **HEALTHY))
    assert (one.verdict, one.reference) == ("insufficient evidence", None)


def test_every_metric_of_a_page_is_gathered() -> None:
    full = page(
        needs=("usage_seen",),
        where="streamed = true",
        opens_if=(above("calls_per_hour", stat="value"),),
        symptom=(above("input_tokens", stat="slope", along="in_flight"),),
        evidence=(
            cause(
                "a",
                above("ttft", where="reused = true", bound=Bound(against="metric", metric="e2e")),
                above("tpot", bound=Bound(against="where", where="tags.team = x")),
                moves=("queue", "p50"),
            ),
        ),
        actions=(Action(do="{cut_age.p50} {model}", where="hops ~ nginx"),),
        done_when=(Done(text="done", conditions=(above("attempts"),)),),
    )
    assert names_of([full]) == {
        "usage_seen", "streamed", "calls_per_hour", "input_tokens", "in_flight", "ttft", "reused",
        "e2e", "tpot", "tags.team", "queue", "cut_age", "model", "hops", "attempts",
    }  # fmt: skip


def test_a_file_gathered_once_serves_every_page() -> None:
    names = names_of([SLOW, FIXABLE])
    now: Gathered = gather(calls("ttft", [2 * S] * 40), names)
    assert [f.verdict for f in check([SLOW, FIXABLE], now)] == ["open", "insufficient evidence"]


def test_a_cause_that_says_not_what_to_collect_leaves_it_to_its_metric() -> None:
    """The page's own words come first."""
    mute = cause("load", above("load_excess"))
    one = found(page(evidence=(mute,)), made(ttft=2 * S))
    assert one.reason == "the symptom is there, its cause is not told: no call tells load_excess"
    assert one.collect == ("make a profile: latscope calibrate, or calls of many prompt sizes",)
