"""Recordings of a run: what a client would have seen, and the truth, exact on one clock."""

import pytest

from latscope.documents.recordings import read_text
from latscope.protocols.openai_chat import DIALECT
from latscope.recording import SegmentTruth, to_line
from latscope.sim.fleet.arrivals import Call, Workload, drawn
from latscope.sim.fleet.engine import Fleet, Run, simulate
from latscope.sim.fleet.recordings import SEND, SOURCE, WRITE, Path, recordings, sampled
from latscope.units import MS
from latscope.wire.framing import frames


def traced(count: int = 12) -> Run:
    workload = Workload(calls=40, rate=25.0, prefixes=2, prefix_tokens=64, output=20)
    return simulate(Fleet(), drawn(workload), trace=sampled(40, count, 0))


def sums(parts: tuple[SegmentTruth, ...] | None) -> dict[str, int]:
    assert parts is not None
    return {part.name: part.ns for part in parts}


@pytest.mark.parametrize("rtt_ms", [0, 3, 60])
def test_the_truth_is_the_table_and_adds_up(rtt_ms: int) -> None:
    """queue, prefill and decode are differences of the table's instants, network is one round trip
    and the writing of the request, the rest the client's; together the whole to the last read."""
    run = traced()
    for number, one in zip(run.traced, recordings(run, Path(rtt_ns=rtt_ms * MS)), strict=True):
        row = run.table.row(number)
        assert one.truth is not None
        assert one.truth.source == SOURCE
        whole, first = sums(one.truth.segments), sums(one.truth.ttft)
        assert whole["queue"] == first["queue"] == row["scheduled_ns"] - row["arrival_ns"]
        assert whole["prefill"] == first["prefill"] == row["first_token_ns"] - row["scheduled_ns"]
        assert whole["decode"] == row["last_token_ns"] - row["first_token_ns"]
        assert first["decode"] == whole["unattributed"] == first["unattributed"] == 0
        assert whole["network"] == first["network"] == rtt_ms * MS + WRITE
        assert whole["client"] == first["client"] == SEND
        reads = one.attempts[0].reads
        assert sum(whole.values()) == reads[-1].got_ns
        assert sum(first.values()) == reads[0].got_ns


def test_a_recording_reads_back_and_its_body_is_a_whole_chat_stream() -> None:
    """A file line gives the same recording; a token an event, the counts of the table."""
    run = traced()
    for number, one in zip(run.traced, recordings(run, Path(rtt_ns=MS)), strict=True):
        assert read_text(to_line(one)) == one
        row = run.table.row(number)
        (attempt,) = one.attempts
        decode = DIALECT.decoder()
        events = [event for frame in frames(attempt) for event in decode(frame)]
        tokens = [event for event in events if event.kind == "content" and event.size]
        assert len(tokens) == len(attempt.reads) == row["output_tokens"]
        (usage,) = [event.usage for event in events if event.usage is not None]
        assert usage.input_tokens == row["prompt_tokens"]
        assert usage.cached_tokens == row["cached_tokens"]
        assert events[-1].kind == "done"
        assert not any(event.reported for event in events), "blind"


def test_metrics_are_vllms_and_the_tables() -> None:
    run = traced()
    for number, one in zip(run.traced, recordings(run, Path(metrics=True)), strict=True):
        row = run.table.row(number)
        decode = DIALECT.decoder()
        events = [event for frame in frames(one.attempts[0]) for event in decode(frame)]
        stated = {figure.covers: figure.ns for event in events for figure in event.reported}
        wanted = {
            "queue.engine": row["scheduled_ns"] - row["arrival_ns"],
            "prefill": row["first_token_ns"] - row["scheduled_ns"],
            "decode": row["last_token_ns"] - row["first_token_ns"],
        }
        assert stated == {name: ns for name, ns in wanted.items() if ns}


def test_the_finish_reason_tells_a_stop_token_from_the_limit() -> None:
    run = simulate(Fleet(), [Call(0, 5, 2, 2), Call(0, 5, 2, 9)], trace=[0, 1])
    bodies = [one.attempts[0].body or b"" for one in recordings(run, Path())]
    assert [b'"finish_reason":"length"' in body for body in bodies] == [True, False]
    assert [b'"finish_reason":"stop"' in body for body in bodies] == [False, True]


def test_the_sample_follows_the_seed_and_takes_all_of_a_small_run() -> None:
    assert sampled(1000, 5, 1) == sampled(1000, 5, 1) != sampled(1000, 5, 2)
    assert sampled(3, 10, 1) == [0, 1, 2]
