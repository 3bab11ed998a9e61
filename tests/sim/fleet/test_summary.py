import json

from latscope.sim.fleet.arrivals import Call, Workload, drawn
from latscope.sim.fleet.engine import Cost, Fleet, simulate
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import document, summary

UNITS = Cost(step=1000, prefill=0, attention=0, decode=0, kv=0)
ONE_SEAT = Fleet(limits=Limits(max_num_seqs=1), cost=UNITS)


def test_figures_of_a_run_worked_out_by_hand() -> None:
    """Steps of 1 us, one place. Call 0: 0 -> 1000 -> 3000; call 1 waits to 3000, ends at 4000; call
    2 arrives at 5000, after an idle stretch, and ends at 6000."""
    calls = [Call(0, 5, 3, 3), Call(500, 5, 1, 1), Call(5000, 5, 1, 1)]
    found = summary(simulate(ONE_SEAT, calls))
    assert found["took_ns"] == 6000
    assert found["ttft"] == {"p50_ns": 1000, "p95_ns": 3500}
    assert found["e2e"] == {"p50_ns": 3000, "p95_ns": 3500}
    assert found["itl"] == {"p50_ns": 1000, "p95_ns": 1000}
    assert found["queue"] == {
        "p50_ns": 0,
        "p95_ns": 2500,
        "share": round(2500 / 7500, 6),
        "ttft_share": round(2500 / 5500, 6),
    }
    assert found["decode"] == {"p50_ns": 0, "p95_ns": 2000, "share": round(2000 / 7500, 6)}
    use = found["utilisation"]
    assert (use["busy"], use["running"], use["steps"]) == (round(5 / 6, 6), 1.0, 5)


def test_a_run_without_second_tokens_has_no_itl() -> None:
    found = summary(simulate(ONE_SEAT, [Call(0, 5, 1, 1)]))
    assert found["itl"] == {"p50_ns": None, "p95_ns": None}


def test_the_document_is_json_and_holds_a_row_a_call() -> None:
    run = simulate(Fleet(), drawn(Workload(calls=5)))
    found = json.loads(json.dumps(document(run, {"seed": 0}, rows=True)))
    assert found["schema"] == "latscope.fleet/1"
    assert found["fleet"]["limits"]["max_num_batched_tokens"] == 2048
    assert [row["call"] for row in found["calls"]] == [0, 1, 2, 3, 4]
    assert set(found["calls"][0]) == {
        "call",
        "replica",
        "arrival_ns",
        "scheduled_ns",
        "first_token_ns",
        "last_token_ns",
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "preemptions",
    }
    assert "calls" not in document(run, {}, rows=False)
