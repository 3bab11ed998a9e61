"""The table of servers' own timings."""

import math
from typing import Any

import pytest

from latscope.protocols import reported
from latscope.protocols.events import Reported
from latscope.units import MS


def test_vllms_metrics() -> None:
    """queue, prefill (which vLLM calls time to first token) and decode, in ns."""
    metrics = {
        "queue_time_ms": 0.025968,
        "time_to_first_token_ms": 11.810538,
        "generation_time_ms": 248.888335,
        "mean_itl_ms": 8.02,
        "tokens_per_second": 122.7,
    }
    assert reported.read({"metrics": metrics}) == (
        Reported(source="vllm.metrics", field="queue_time_ms", covers="queue.engine", ns=25_968),
        Reported(
            source="vllm.metrics", field="time_to_first_token_ms", covers="prefill", ns=11_810_538
        ),
        Reported(
            source="vllm.metrics", field="generation_time_ms", covers="decode", ns=248_888_335
        ),
    )


def test_llamas_timings() -> None:
    """prompt_ms is prefill, predicted_ms decode; both measured in whole microseconds."""
    timings = {"prompt_ms": 2.552, "predicted_ms": 75.829, "predicted_n": 32}
    figures = reported.read({"timings": timings})
    assert [(f.source, f.covers, f.ns, f.resolution_ns) for f in figures] == [
        ("llama.timings", "prefill", 2_552_000, 1_000),
        ("llama.timings", "decode", 75_829_000, 1_000),
    ]


@pytest.mark.parametrize(("tokens", "covers"), [(1, ["prefill"]), (2, ["prefill", "decode"])])
def test_one_token_has_no_decode_time(tokens: int, covers: list[str]) -> None:
    """llama.cpp states a floor for the decoding of a single token: that is no figure."""
    timings = {"prompt_ms": 2.5, "predicted_ms": 0.001, "predicted_n": tokens}
    assert [figure.covers for figure in reported.read({"timings": timings})] == covers


def test_a_whole_number_is_as_coarse_as_its_unit() -> None:
    """An integer of milliseconds is known to the millisecond."""
    (figure,) = reported.read({"metrics": {"queue_time_ms": 12}})
    assert (figure.ns, figure.resolution_ns) == (12 * MS, MS)


@pytest.mark.parametrize(
    "value", [0, 0.0, -1, -0.5, None, True, "12", [1], {}, math.nan, math.inf, 1e305, 1e-9]
)
def test_what_is_no_time_gives_no_figure(value: Any) -> None:
    """Zero, negative, not finite, too large, too small or no number at all: no figure."""
    assert reported.read({"metrics": {"queue_time_ms": value}}) == ()


@pytest.mark.parametrize("place", [None, [], "x", 3, {"queue_time_ms": {}}])
def test_what_is_no_object_gives_no_figure(place: Any) -> None:
    """A wrong type where the metrics should be gives nothing and does not raise."""
    assert reported.read({"metrics": place, "timings": place}) == ()


def test_every_row_says_what_it_covers_and_when_it_is_absent() -> None:
    """The table is documentation too: no row leaves its interval or its absence out, and no two
    rows read one field."""
    assert all(row.interval and row.absent and row.unit >= 1 for row in reported.TABLE)
    places = [(row.where, row.field) for row in reported.TABLE]
    assert len(places) == len(set(places))
