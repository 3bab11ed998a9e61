from dataclasses import replace

import pytest

from latscope.report.summary import field_text, quantile, slowest, summary

from . import samples


def test_groups_count_calls_failures_and_who_dominated() -> None:
    """Medians are over calls that completed; a failed one counts as failed and nothing else."""
    calls = [samples.reported_call(), samples.blind_call(), samples.reported_call()]
    failed = replace(samples.failed_call(), model="tiny")
    (group,) = summary([*calls, failed], ("model",))
    assert (group.key, group.calls, group.failed) == (("tiny",), 4, 1)
    assert group.ttft_p50_ns == calls[0].first_token_ns
    assert group.ttft_p95_ns == calls[1].first_token_ns
    assert group.dominant == (("decode", 3),)
    assert group.shares["prefill"] == pytest.approx(215_300 / 1_239_600, abs=1e-3)


def test_a_segment_of_which_nothing_is_sure_is_unknown() -> None:
    """Blind calls have no sure queue or prefill: unknown, which is not zero."""
    (group,) = summary([samples.blind_call()])
    assert group.unknown == {"queue", "prefill"}


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
