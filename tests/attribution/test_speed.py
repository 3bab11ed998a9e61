"""The pace in the field's figures: chunks are not tokens, and choices are not one stream."""

from dataclasses import replace
from statistics import quantiles

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latscope.attribution.model import Itl
from latscope.attribution.pace import pace
from latscope.attribution.speed import _cut, itl
from latscope.protocols.events import Usage
from latscope.timeline import Timeline, build
from latscope.units import MS
from tests.calls import delta, stream, tokens


def timeline_of(
    times: list[float], counts: list[int | None], output: int | None = None
) -> Timeline:
    made = build(stream([(at, delta(f"t{index} ")) for index, at in enumerate(times)]))
    arrivals = tuple(
        arrival._replace(tokens=count) for arrival, count in zip(made.arrivals, counts, strict=True)
    )
    return replace(made, arrivals=arrivals, usage=Usage(output_tokens=output))


def of(timeline: Timeline) -> Itl:
    found = itl(timeline, pace(timeline.arrivals))
    assert found is not None
    return found


def test_events_of_several_tokens_do_not_lengthen_the_gap_between_tokens() -> None:
    """Four tokens every 80 ms are a token every 20."""
    times = [100 + 80.0 * index for index in range(20)]
    found = of(timeline_of(times, [4] * 20))
    assert (found.unit, found.n) == ("token", 76)
    assert found.p50_ns == found.p95_ns == found.max_ns == 20 * MS


def test_where_an_event_does_not_say_its_tokens_the_gaps_are_those_of_chunks() -> None:
    times = [100 + 80.0 * index for index in range(20)]
    counts: list[int | None] = [4] * 20
    counts[7] = None
    found = of(timeline_of(times, counts))
    assert (found.unit, found.n, found.p50_ns) == ("chunk", 19, 80 * MS)


@pytest.mark.parametrize(("output", "unit"), [(20, "token"), (80, "chunk"), (None, "chunk")])
def test_the_total_tells_whether_each_event_was_one_token(output: int | None, unit: str) -> None:
    times = [100 + 20.0 * index for index in range(20)]
    assert of(timeline_of(times, [None] * 20, output)).unit == unit


def test_tokens_that_were_never_shown_are_not_among_the_events() -> None:
    """40 counted, 20 of them hidden reasoning: 20 events of one token each."""
    made = timeline_of([100 + 20.0 * index for index in range(20)], [None] * 20, 40)
    hidden = replace(made, usage=Usage(output_tokens=40, reasoning_tokens=20))
    assert of(hidden).unit == "token"


def test_each_choice_has_its_own_gaps() -> None:
    """Two choices, both every 40 ms, the second 2 ms behind the first."""
    times = [100 + 40.0 * (index // 2) + 2 * (index % 2) for index in range(40)]
    made = timeline_of(times, [1] * 40)
    two = tuple(a._replace(choice=index % 2) for index, a in enumerate(made.arrivals))
    found = of(replace(made, arrivals=two))
    assert (found.n, found.p50_ns, found.max_ns) == (38, 40 * MS, 40 * MS)


def test_one_token_of_each_choice_has_no_gap() -> None:
    made = build(stream(tokens(2, start=100, step=50)))
    two = tuple(a._replace(choice=index) for index, a in enumerate(made.arrivals))
    assert itl(replace(made, arrivals=two), pace(two)) is None


def test_two_tokens_have_one_gap() -> None:
    found = of(build(stream(tokens(2, start=100, step=50))))
    assert (found.n, found.p50_ns, found.p95_ns) == (1, 50 * MS, 50 * MS)


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=90))
def test_a_cut_is_the_one_the_standard_library_makes(gaps: list[int]) -> None:
    cuts = quantiles(gaps, n=20, method="inclusive")
    assert [_cut(sorted(gaps), at) for at in range(1, 20)] == cuts
    assert _cut(gaps[:1], 10) == gaps[0]
