from dataclasses import replace

import pytest

from latscope.report.summary import Group, Part, field_text, quantile, slowest, summary
from latscope.report.table import summary_lines
from latscope.units import MS, S

from . import samples


def test_groups_count_calls_failures_and_who_dominated() -> None:
    """Medians are over calls that completed; a failed one counts as failed and nothing else."""
    calls = [samples.reported_call(), samples.blind_call(), samples.reported_call()]
    failed = replace(samples.failed_call(), model="tiny")
    (group,) = summary([*calls, failed], ("model",))
    assert (group.key, group.calls, group.failed) == (("tiny",), 4, 1)
    assert group.ttft_p50_ns == calls[0].first_token_ns
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
    assert (group.wall_p95_ns is not None) is known
    assert (group.ttft_p95_ns is not None) is known
    assert group.wall_p95_ns in (None, 10 * S + n - 2)


def test_the_legend_says_only_what_the_groups_show() -> None:
    """Where no call completed there are no bars to explain."""
    failed = samples.failed_call()
    said = "\n".join(
        line.plain for line in summary_lines(summary([failed, failed]), width=80, colours=False)
    )
    assert "completed" not in said
    assert "p95 —" not in said
    many = [samples.reported_call()] * 20
    said = "\n".join(line.plain for line in summary_lines(summary(many), width=80, colours=False))
    assert said.endswith("bars: medians over the calls that completed")


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


@pytest.mark.parametrize(
    ("q", "value"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.75, 3), (0.95, 4), (1.0, 4)]
)
def test_quantiles_are_values_that_occurred(q: float, value: int) -> None:
    """Nearest rank: no invented value between two calls."""
    assert quantile([4, 1, 3, 2], q) == value


def test_of_nothing_there_is_no_quantile() -> None:
    """Unknown, not 0."""
    assert quantile([], 0.5) is None


def test_the_slowest_come_first() -> None:
    """By wall time."""
    calls = [samples.blind_call(), samples.reported_call()]
    assert slowest(calls, 1) == [calls[1]]
    assert slowest(calls, 9) == [calls[1], calls[0]]
