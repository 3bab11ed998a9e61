"""The claims on the cost model and the fleet simulator, where the truth is known."""

from collections.abc import Mapping

import pytest

from latscope.claims import cost, fleet
from latscope.claims.model import CLAIMS, Row, document
from latscope.sim.fleet.engine import Cost

Rows = Mapping[str, Row]


@pytest.fixture(scope="module")
def costs() -> Rows:
    return {row.id: row for row in cost.rows()}


@pytest.fixture(scope="module")
def fleets() -> Rows:
    return {row.id: row for row in fleet.rows()}


def figures(row: Row) -> tuple[float | None, float | None, float | None]:
    return row.slope, row.low, row.high


@pytest.mark.parametrize(
    ("claim", "slope", "said"),
    [
        ("ttft-independent-of-output", 0, "TTFT stays 2,400 units"),
        ("cache-leaves-ttft", 1, "the same TTFT to the unit"),
        ("step-grows-with-context", 1, "steps 212 to 251; without it 12 per token"),
        ("step-grows-with-context", 1, "steps 2,412 to 2,880"),
        ("cache-removes-recomputation", 12, "12 is the ratio of the slopes"),
        ("cache-removes-recomputation", 12, "the steps themselves are 11.4 to 11.5 times"),
        ("ttft-is-queue-prefill-network", 1, "queue and network are 0 here"),
        ("recompute-to-read-ratio", 12, "teaching constant"),
    ],
)
def test_the_source_s_own_figures(costs: Rows, claim: str, slope: float, said: str) -> None:
    """Exact: no interval to speak of."""
    row = costs[claim]
    assert figures(row) == (slope, slope, slope)
    assert row.verdict == "holds"
    assert said in row.note


def test_the_whole_is_off_by_exactly_one_step(costs: Rows) -> None:
    """The cost model's TTFT ends before the first decode step."""
    row = costs["e2e-is-ttft-plus-steps"]
    assert row.verdict == "holds"
    assert row.note.startswith("within one step: off by exactly one")


@pytest.mark.parametrize("claim", ["batching-raises-throughput", "queueing-dominates-ttft-at-peak"])
def test_one_call_has_no_batch_and_no_queue(costs: Rows, claim: str) -> None:
    row = costs[claim]
    assert figures(row) == (None, None, None)
    assert (row.verdict, row.testable) == ("insufficient evidence", False)


def test_every_claim_has_a_row_a_source(costs: Rows, fleets: Rows) -> None:
    assert set(costs) == set(fleets) == set(CLAIMS)
    told = document([*fleets.values(), *costs.values()])["claims"]
    assert [(row["id"], row["source"]) for row in told] == [
        (claim, source) for claim in CLAIMS for source in ("cost", "fleet")
    ]


def test_the_fleet_shows_the_constants_it_was_given(fleets: Rows) -> None:
    """The slope of a step is what reading a token costs; the ratio, computing over reading."""
    given = Cost()
    assert figures(fleets["step-grows-with-context"]) == (given.kv / 1e6,) * 3
    assert fleets["cache-removes-recomputation"].slope == given.prefill / given.kv
    ratio = fleets["recompute-to-read-ratio"]
    assert ratio.low is not None
    assert ratio.low > given.prefill / given.kv  # attention comes on top


def test_every_claim_holds_on_the_fleet(fleets: Rows) -> None:
    """By design of its setting: few places, so that calls wait and no batch saturates."""
    assert {row.verdict for row in fleets.values()} == {"holds"}


def test_the_fleet_says_where_chunked_prefill_breaks_it(fleets: Rows) -> None:
    note = fleets["queueing-dominates-ttft-at-peak"].note
    assert "breaks with long prompts (2,048) in chunks of 256: ITL p50 +" in note
    assert "at load 0.8" in note


def test_the_client_s_own_time_is_what_is_left_of_ttft(fleets: Rows) -> None:
    """The recordings' client takes 140 us before the request is out."""
    assert "140 µs, is the client's own" in fleets["ttft-is-queue-prefill-network"].note


def test_the_fleet_is_deterministic_by_seed(fleets: Rows) -> None:
    """The same seed the same rows, and another one others."""
    assert fleet._queueing(0) == fleets["queueing-dominates-ttft-at-peak"]
    assert fleet._batching(fleet._batches(0)) == fleets["batching-raises-throughput"]
    assert fleet._batching(fleet._batches(9)) != fleets["batching-raises-throughput"]
