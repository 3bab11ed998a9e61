from dataclasses import replace

import pytest

from latscope.attribution.model import SEGMENTS, Attribution
from latscope.recording import SegmentTruth, Truth
from latscope.report.bars import BLANK, SLIVER, Canvas, bar_cells, strip_cells
from latscope.report.view import Bar, Share, call_view
from latscope.units import MS

from . import samples

CALLS = {
    "reported": samples.reported_call(),
    "blind": samples.blind_call(),
    "failed": samples.failed_call(),
    "retried": samples.retried_call(),
    "long": samples.long_call(),
}
CANVAS = Canvas(label=10, bar=20, colours=False)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_strips_are_the_whole(call: Attribution) -> None:
    """The call's strip is the wall time and the TTFT strip the time to the first token."""
    strips = {strip.name: strip.ns for strip in call_view(call).strips}
    assert strips["call"] == call.wall_ns
    assert "TTFT" in strips or call.first_token_ns is None


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_rows_hold_every_nanosecond_once(call: Attribution) -> None:
    """Segments and unsplit rows, parts left out, add up to the wall time; so do their bars."""
    rows = [row for row in call_view(call).rows if not row.part]
    assert sum(row.figure.ns for row in rows) == call.wall_ns
    bars = [bar for row in rows for bar in row.bars]
    assert sum(bar.end_ns - bar.start_ns for bar in bars) == call.wall_ns


def test_unsplit_time_has_no_single_owner() -> None:
    """A joint row carries all its candidates, and each candidate's own row says unknown."""
    rows = {row.name: row for row in call_view(samples.blind_call()).rows}
    assert rows["queue | prefill"].candidates == ("queue", "prefill")
    assert rows["queue"].figure.open
    assert rows["queue"].bars == ()


def test_truth_outside_the_bounds_shows() -> None:
    """A row is held when the truth lies in its hard bounds, and only then."""
    held = {row.name: row.held for row in call_view(_with_truth(4 * MS)).rows if not row.part}
    assert held == {
        "client": True,
        "network": True,
        "queue": False,
        "prefill": True,
        "decode": True,
    }
    rows = call_view(samples.reported_call()).rows
    assert {row.held for row in rows} == {None}


def test_truth_of_parts_and_unknown_names_is_summed() -> None:
    """`queue.engine` counts as queue; a name of no segment as unattributed."""
    truth = Truth(
        segments=(SegmentTruth(name="queue.engine", ns=3), SegmentTruth(name="other", ns=4)),
        ttft=(SegmentTruth(name="queue", ns=2),),
        source="test",
    )
    strips = call_view(replace(samples.reported_call(), truth=truth)).strips
    laid = [[(share.candidates, share.ns) for share in strip.shares] for strip in strips]
    assert laid[1] == [(("unattributed",), 4), (("queue",), 3)]
    assert laid[3] == [(("queue",), 2)]


def test_without_its_own_pieces_ttft_is_laid_from_the_segments() -> None:
    """An attribution read back from JSON has no pieces for TTFT; the shares still show."""
    call = replace(samples.reported_call(), ttft_pieces=None)
    strip = next(strip for strip in call_view(call).strips if strip.name == "TTFT")
    assert strip.ns == sum(share.ttft_ns or 0 for share in call.segments)
    assert {share.candidates[0] for share in strip.shares} <= set(SEGMENTS)


def test_a_stretch_shorter_than_a_cell_still_shows() -> None:
    """Nothing that took time is invisible; it shows as a sliver, not as a full cell."""
    bars = (Bar(start_ns=0, end_ns=1), Bar(start_ns=500, end_ns=750))
    glyphs = "".join(glyph for glyph, _ in bar_cells(bars, ("decode",), 1000, CANVAS))
    assert glyphs == SLIVER + " " * 9 + "█████" + " " * 5


def test_many_short_stretches_fill_their_cells() -> None:
    """Cells are filled by what covers them together, not by one stretch alone."""
    bars = [Bar(start_ns=at, end_ns=at + 6) for at in range(0, 1000, 10)]
    cells = bar_cells(bars, ("decode",), 1000, CANVAS)
    assert BLANK not in cells


def test_a_strip_ends_where_its_sum_ends() -> None:
    """Rounding of single shares never adds up: the ends are rounded, not the lengths."""
    shares = [Share(candidates=("queue",), ns=34)] * 20
    cells = strip_cells(shares, 1000, CANVAS)
    assert [cell == BLANK for cell in cells] == [False] * 14 + [True] * 6


def _with_truth(by: int) -> Attribution:
    return samples.with_truth(samples.reported_call(), queue=by)
