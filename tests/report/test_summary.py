from dataclasses import replace

import pytest

from latscope.attribution.model import Attribution, Status
from latscope.recording import Sample
from latscope.report.summary import Group, Part, field_text, slowest, summary
from latscope.report.table import summary_lines
from latscope.units import MS, Ns, S

from . import samples


def test_groups_count_calls_failures_and_who_dominated() -> None:
    """A refused call counts as failed and nothing else."""
    calls = [samples.reported_call(), samples.blind_call(), samples.reported_call()]
    failed = replace(samples.refused_call(), model="tiny")
    (group,) = summary([*calls, failed], ("model",))
    assert (group.key, group.counts.calls, group.counts.failed) == (("tiny",), 4, 1)
    assert group.ttft.p50.ns == calls[0].first_token_ns
    assert group.dominant == (("decode", 3),)
    prefill = parts(group)["prefill"]
    assert prefill.share == pytest.approx(215_300 / 1_239_600, abs=1e-3)


def parts(group: Group) -> dict[str, Part]:
    return {part.name: part for part in group.parts}


def test_a_segment_of_which_nothing_is_sure_is_unknown() -> None:
    """Blind calls have no sure queue or prefill: unknown, which is not zero."""
    (group,) = summary([samples.blind_call()])
    assert [part.name for part in group.parts if not part.sure] == ["queue", "prefill"]


def test_unsplit_time_is_told_by_its_candidates() -> None:
    """A large set has a stretch of its own; a small one has too, if it is the only one."""
    (group,) = summary([samples.blind_call()])
    joint = parts(group)["queue | prefill"]
    assert joint.candidates == ("queue", "prefill")
    assert joint.share == pytest.approx(412 / 1131.3, abs=1e-3)
    assert parts(group)["decode | network"].share == pytest.approx(20 / 1131.3, abs=1e-3)
    assert sum(part.share for part in group.parts) == pytest.approx(1)


def test_small_candidate_sets_are_pooled() -> None:
    """Under one name, with the candidates of all of them, laid where unsplit time lies."""
    pieces = [
        samples.piece(10 * MS, "queue|prefill"),
        samples.piece(20 * MS, "network|decode"),
        samples.piece(100 * MS, "queue|network"),
        samples.piece(870 * MS, "decode"),
    ]
    (group,) = summary([samples.attribution(pieces, 130 * MS)])
    pooled = parts(group)["other unsplit"]
    assert pooled.share == pytest.approx(0.03)
    assert pooled.candidates == ("queue", "prefill", "decode", "network")
    names = [part.name for part in group.parts]
    assert names[2:4] == ["queue | network", "other unsplit"]


def test_time_without_candidates_stays_unattributed() -> None:
    """No candidate is invented for it."""
    (group,) = summary([replace(samples.long_call(), status="complete")])
    assert parts(group)["unattributed"].candidates == ("unattributed",)


@pytest.mark.parametrize(("n", "known"), [(1, False), (19, False), (20, True), (21, True)])
def test_a_p95_needs_twenty_calls(n: int, known: bool) -> None:
    """Of fewer it is the slowest call, which says nothing of the tail."""
    calls = [replace(samples.blind_call(), wall_ns=10 * S + at) for at in range(n)]
    (group,) = summary(calls)
    assert (group.ttft.p95 is not None) is known
    assert (group.e2e.p95 is not None) is known
    assert group.e2e.p95 is None or group.e2e.p95.ns == 10 * S + n - 2


def shown(calls: list[Attribution], width: int = 80) -> str:
    lines = summary_lines(summary(calls), width=width, colours=False)
    return "\n".join(line.plain for line in lines)


def stopped(*, ns: Ns = S, status: Status = "cancelled") -> Attribution:
    """Left by its caller after `ns` without a token."""
    call = samples.attribution([samples.piece(ns, "queue|prefill")], None)
    return replace(call, status=status, headers_ns=None)


def test_stopped_calls_raise_the_tail() -> None:
    """80 calls answered after 471 ms, 20 left after 1 s: more than one in twenty takes over 1 s."""
    calls = [samples.blind_call()] * 80 + [stopped()] * 20
    (group,) = summary(calls)
    assert (group.counts.calls, group.counts.stopped, group.counts.failed) == (100, 20, 0)
    assert group.ttft.p95 is not None
    assert (group.ttft.p95.ns, group.ttft.p95.at_least_ns) == (None, S)
    row = shown(calls).splitlines()[2]
    assert " ".join(row.split()) == "100 20 0 471 ms > 1000 ms 1131 ms 1131 ms"
    assert "> more than" in shown(calls)
    assert "> more than" not in shown(calls[:80])
    row = shown(calls[:80]).splitlines()[2]
    assert " ".join(row.split()) == "80 0 471 ms 471 ms 1131 ms 1131 ms"


def test_a_limit_is_rounded_down() -> None:
    """It must stay one."""
    row = shown([stopped(ns=1_999_999_999)] * 20).splitlines()[2]
    assert row.count("> 1999 ms") == 4


def test_segments_of_stopped_calls_are_lower_limits() -> None:
    """Two calls of three were left within prefill: its median is more than what was sure of it."""
    left = samples.attribution([samples.piece(300 * MS, "prefill")], None)
    left = replace(left, status="cut")
    calls = [samples.reported_call(), left, left]
    (group,) = summary(calls)
    prefill = parts(group)["prefill"]
    assert (prefill.p50.ns, prefill.p50.at_least_ns) == (None, 300 * MS)
    assert "prefill 17 % > 300 ms" in shown(calls)
    queue = parts(group)["queue"]
    assert (queue.p50.ns, queue.p50.n, queue.p50.censored) == (192_200_000, 3, 2)


def test_unsplit_time_of_stopped_calls_is_a_lower_limit() -> None:
    """Of the candidate sets they share with calls that completed."""
    (group,) = summary([samples.blind_call(), stopped(), stopped()])
    joint = parts(group)["queue | prefill"]
    assert (joint.p50.ns, joint.p50.at_least_ns) == (None, S)


def test_a_sampled_call_counts_for_those_it_stands_for() -> None:
    """One in ten kept of the quick ones, all of the slow one and of the refused: ten to one."""
    quick = replace(samples.blind_call(), sample=Sample(rate=0.1, why="random"))
    slow = samples.reported_call()
    left = replace(stopped(), sample=Sample(rate=0.05, why="random"))
    (group,) = summary([quick, slow, slow])
    assert group.ttft.p50.ns == quick.first_token_ns
    assert parts(group)["queue"].share == 0
    refused = replace(samples.refused_call(), model="tiny")
    said = shown([quick, slow, refused, left])
    assert "sampled, so about 10 calls" in shown([quick])
    assert "\nsampled, so about 32 calls, 20 stopped, 1 error\n" in said
    assert "sampled" not in shown([slow, slow])


def test_quantiles_say_how_sure_they_are() -> None:
    """Of a hundred calls p95 lies between the 91st and the 99th; of twenty it may be anything above
    the 17th; where there is no room, none is shown."""
    calls = [replace(samples.blind_call(), wall_ns=(1000 + at) * MS) for at in range(100)]
    assert "1041–1058" in shown(calls)
    assert "1090–1098" in shown(calls)
    assert "\nn 100 " in shown(calls)
    assert "≥ 1016" in shown(calls[:20])
    assert "\nn " not in shown(calls, width=50)


def test_ttft_and_e2e_may_be_of_other_numbers_of_calls() -> None:
    """Those that were not streamed have no first token."""
    whole = replace(samples.blind_call(), streamed=False, first_token_ns=None)
    assert "\nn 8, 10 " in shown([samples.blind_call()] * 8 + [whole] * 2)


def test_the_legend_says_only_what_the_groups_show() -> None:
    """Where no call completed there are no bars to explain."""
    said = shown([samples.refused_call()] * 2)
    assert "completed" not in said
    assert "p95 —" not in said
    many = [samples.reported_call()] * 20
    assert shown(many, width=50).endswith("\n\nbars: medians over the calls that completed")
    assert shown(many).endswith("completed\nn: calls that count, and the 90 % intervals")


def test_a_column_has_one_unit() -> None:
    """Milliseconds and seconds are not compared by their digits."""
    slow = replace(samples.reported_call(), model="slow", wall_ns=12_345 * MS)
    lines = summary_lines(summary([slow, samples.blind_call()]), width=80, colours=False)
    said = [line.plain for line in lines if line.plain.startswith("    1       0 ")]
    assert [line.split()[-3:-1] for line in said] == [["12.35", "s"], ["1.13", "s"]]


def test_a_race_unsplit_time_could_decide_is_open() -> None:
    """No dominant segment is counted where there is none."""
    (group,) = summary([replace(samples.blind_call(), dominant=None)])
    assert group.dominant == (("open", 1),)


def test_fields_are_found_by_dotted_name() -> None:
    """Tags by name, dots inside a tag's name included; null and absent are unknown."""
    call = replace(samples.reported_call(), tags={"team": "search", "app.version": "3"})
    paths = ("model", "tags.team", "tags.app.version", "tags.nope", "error", "connection.http")
    said = ["tiny", "search", "3", "unknown", "unknown", "HTTP/1.1"]
    assert [field_text(call, path) for path in paths] == said
    assert field_text(call, "model.name") == "unknown"


def test_the_slowest_come_first() -> None:
    """By wall time."""
    calls = [samples.blind_call(), samples.reported_call()]
    assert slowest(calls, 1) == [calls[1]]
    assert slowest(calls, 9) == [calls[1], calls[0]]
