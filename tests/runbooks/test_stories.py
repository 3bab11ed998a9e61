"""The stories of `make bench-stories`: that a cause is in its week, and nothing else is."""

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from benchmarks.stories import judge
from benchmarks.stories.client import week
from benchmarks.stories.rightly import HYGIENE, RIGHTLY, fits, is_right, is_wrong
from benchmarks.stories.world import STORIES, healthy
from latscope.documents.runbooks import shipped
from latscope.recording import Recording
from latscope.rules.finding import Finding
from latscope.units import MS, S

CALLS = 40


def told(name: str, setting: Any = None) -> list[Recording]:
    story = STORIES[name]
    world = healthy(setting or story.settings[0], "t")
    return week(replace(story.change(world, Random("t")), calls=CALLS), name)


def rows(calls: list[Recording]) -> list[dict[str, Any]]:
    return judge.attributed(judge.looked_at(calls))


def test_a_week_is_its_seeds_alone() -> None:
    one, again = told("healthy week"), told("healthy week")
    assert one == again
    assert one != week(replace(healthy("vendor", "u"), calls=CALLS), "healthy week")
    assert len(one) == CALLS


def test_nothing_ails_a_healthy_week() -> None:
    for line in rows(told("healthy week")):
        assert line["status"] == "complete"
        assert len(line["attempts"]) == 1
        assert line["first_token_ns"] < S


def test_a_quota_refuses_the_wanted_share_and_says_how_long_to_wait() -> None:
    calls = week(replace(healthy("vendor", "t"), refused=0.3, calls=100), "quota")
    refused = [call for call in calls if call.attempts[0].status == 429]
    assert 0.2 <= len(refused) / len(calls) <= 0.31
    for call in refused:
        asked = dict(call.attempts[0].headers)["retry-after"]
        if len(call.attempts) > 1:
            first, second = call.attempts[:2]
            slept = (second.mark("request.started") or 0) - first.reads[-1].got_ns
            assert slept >= int(asked) * S - 10 * MS


def test_a_crowded_front_end_is_tried_again_at_once() -> None:
    calls = week(replace(healthy("own", "t"), crowded=0.4, retries=5, hasty=True, calls=100), "x")
    refused = [call for call in calls if call.attempts[0].status == 503]
    assert 0.25 <= len(refused) / len(calls) <= 0.41
    assert max(len(call.attempts) for call in calls) > 2


def test_a_stamp_in_front_leaves_nothing_to_the_cache() -> None:
    before = rows(week(replace(healthy("documents", "t"), calls=CALLS), "x"))
    after = rows(told("template reorder"))
    assert sum(line["cached_tokens"] for line in before) > 1000 * CALLS / 2
    assert {line["cached_tokens"] for line in after} == {0}


def test_a_cache_forgets_what_comes_too_late() -> None:
    lines = rows(told("cache TTL expiry"))
    turns: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        turns.setdefault(line["session_id"], []).append(line)
    late = [b for own in turns.values() for a, b in pairwise(own) if gap(a, b)]
    assert late
    assert {line["cached_tokens"] for line in late} == {0}


def gap(before: dict[str, Any], after: dict[str, Any]) -> bool:
    begun = [line["started_at"][:19] for line in (before, after)]
    minutes = [int(at[8:10]) * 1440 + int(at[11:13]) * 60 + int(at[14:16]) for at in begun]
    return minutes[1] - minutes[0] >= 12


@pytest.mark.parametrize(
    ("change", "longest"),
    [
        ({"buffer": "time", "quantum": 300}, 290 * MS),
        ({"buffer": "bytes", "quantum": 4096}, 100 * MS),
        ({"pauses": 1.0, "pause_s": (0.5, 0.6)}, 500 * MS),
    ],
)
def test_what_is_kept_shows_as_silence(change: dict[str, Any], longest: int) -> None:
    world = replace(healthy("own", "t"), calls=CALLS)
    gaps = sorted(line["itl"]["max_ns"] for line in rows(week(replace(world, **change), "x")))
    assert gaps[len(gaps) // 2] >= longest


def test_a_hop_changes_no_byte_of_the_answers() -> None:
    world = replace(healthy("own", "t"), calls=10)
    plain = week(world, "x")
    for kind in ("whole", "time", "bytes"):
        kept = week(replace(world, buffer=kind, quantum=2048), "x")
        assert [a.attempts[-1].body for a in plain] == [b.attempts[-1].body for b in kept]


def test_one_connection_makes_calls_wait_for_each_other() -> None:
    calls = week(replace(healthy("own", "t"), calls=CALLS, pool=1, pace_s=10.0), "x")
    waits = [call.attempts[0].mark("request.started") or 0 for call in calls]
    assert max(waits) > 100 * MS
    assert {call.attempts[0].connection.id for call in calls if call.attempts[0].connection}


def test_a_busy_loop_reads_when_it_is_free() -> None:
    calls = week(replace(healthy("own", "t"), calls=CALLS, blocked=0.5), "x")
    assert sum(bool(call.client.loop_lag) for call in calls) > CALLS / 2
    for call in calls:
        for at, late in call.client.loop_lag:
            assert not any(at < read.got_ns < at + late for read in call.attempts[-1].reads)


def test_every_story_has_its_answer_and_every_answer_a_page() -> None:
    assert RIGHTLY.keys() == STORIES.keys()
    known = {page.id for page in shipped()}
    for row in RIGHTLY.values():
        assert {*row.right, *row.also} <= known
    assert HYGIENE.keys() <= known


def finding(runbook: str, segment: str | None, verdict: Any = "open") -> Finding:
    return Finding(
        runbook=runbook,
        title="",
        verdict=verdict,
        severity="warning",
        segment=segment,
        evidence=(),
        actions=(),
        done_when=(),
    )


def test_a_group_that_holds_the_true_owner_is_right_and_another_owner_is_not() -> None:
    assert fits("queue.rate_limit", ("queue",))
    assert fits("queue | prefill", ("prefill",))
    assert not fits("queue", ("prefill",))
    assert not fits(None, ("prefill",))
    assert is_right(finding("slow-first-token", "queue | prefill"), "prompt growth")
    assert not is_right(finding("slow-first-token", "network"), "prompt growth")
    assert is_wrong(finding("slow-first-token", "network"), "prompt growth")
    assert not is_wrong(finding("slow-first-token", "network", "not seen"), "prompt growth")
    assert is_wrong(finding("slow-first-token", "prefill"), None)
    assert not is_wrong(finding("cold-start-after-idle", "prefill"), None)
