"""`latscope join` and `explain --spans`, as a user sees them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from latscope.attribution import attribute, check_laws
from latscope.cli.main import run
from latscope.documents import recordings
from latscope.documents import spans as spans_documents
from latscope.protocols.events import Reported
from latscope.recording import Trace, to_line
from latscope.timeline.hops import own_times
from tests.calls import stream, tokens
from tests.probe.prometheus import prometheus_at, ranges
from tests.spans import CALL, TRACE, line, otlp, otlp_span, vllm_attributes

ENGINE = otlp_span(
    1, at=4, ms=14, parentSpanId=CALL, attributes=vllm_attributes(0.001, 0.003, 0.005)
)


@pytest.fixture(name="calls")
def made_calls(tmp_path: Path) -> Path:
    """A call that sent its traceparent, one that did not, and a line of series."""
    call = stream(tokens(2, start=10, step=5))
    traced = replace(call, call_id="traced", trace=Trace(trace_id=TRACE, span_id=CALL))
    plain = replace(call, call_id="plain", started_at="2026-11-28T12:00:00Z")
    series = line({"schema": "latscope.series/1", "at": "2026-11-29T12:00:00Z", "source": "s"})
    path = tmp_path / "calls.jsonl"
    path.write_text(to_line(traced) + "\n" + series + to_line(plain) + "\n")
    return path


@pytest.fixture(name="spans")
def made_spans(tmp_path: Path) -> Path:
    """The traced call's span, another call's, and a damaged line."""
    path = tmp_path / "spans.jsonl"
    other = otlp_span(2, at=999, traceId="e" * 32, attributes={"gen_ai.request.id": "other"})
    path.write_text(line(otlp([ENGINE])) + "{cut\n" + line(otlp([other])))
    return path


def latscope(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_recordings_come_out_with_their_spans(
    calls: Path, spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = latscope(capsys, "join", calls, "--spans", spans)
    assert code == 0
    first, series, second = out.splitlines()
    assert [span.joined for span in recordings.read_text(first).spans] == ["parent"]
    assert [series, second] == calls.read_text().splitlines()[1:]
    assert f"latscope: {spans}:2: not JSON" in err
    assert "1 of 2 calls joined (1 by parent span); 1 with no span at all" in err
    assert "1 of 2 spans joined; 1 left, 1 engine request of no call among them" in err


def test_with_an_output_the_account_is_the_result(
    calls: Path, spans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = tmp_path / "joined.jsonl"
    code, out, _ = latscope(capsys, "join", calls, "--spans", spans, "-o", goal, "--json")
    assert code == 0
    found = json.loads(out)
    assert found == {
        "schema": "latscope.join/1",
        "calls": 2,
        "joined": {"parent": 1, "chain": 0, "response_id": 0, "request_id": 0, "time": 0},
        "hops_only": 0,
        "ambiguous": 0,
        "sampled_out": 0,
        "unmatched": 1,
        "spans": 2,
        "joined_spans": 1,
        "unmatched_requests": 1,
        "repeated_spans": 0,
        "damaged_lines": 1,
        "passed_on": 0,
        "series": 0,
    }
    code, out, _ = latscope(capsys, "join", calls, "--spans", spans, "-o", goal)
    assert "1 of 2 calls joined" in out
    assert len(goal.read_text().splitlines()) == 3


def test_a_file_can_be_joined_onto_itself(
    calls: Path, spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert latscope(capsys, "join", calls, "--spans", spans, "-o", calls)[0] == 0
    (first, _) = recordings.read(calls)
    assert len(first.spans) == 1


def test_the_account_as_json_beside_the_recordings(
    calls: Path, spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = latscope(capsys, "join", calls, "--spans", spans, "--json", "-o", "-")
    assert code == 0
    assert len(out.splitlines()) == 3
    assert json.loads(err.splitlines()[-1])["schema"] == "latscope.join/1"


def test_every_way_not_to_join_is_said(
    calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = stream(tokens(2, start=10, step=5))
    lost = replace(call, call_id="lost", trace=Trace(trace_id="e" * 32, span_id="1" * 16))
    hops = replace(call, call_id="hops", trace=Trace(trace_id="f" * 32, span_id="2" * 16))
    text = "".join(to_line(each) + "\n" for each in (lost, hops)) + "{cut\n" * 12
    calls.write_text(calls.read_text() + text)
    spans = tmp_path / "spans"
    two = [ENGINE, ENGINE | {"spanId": "7" * 16}, ENGINE]
    far = otlp_span(2, at=9e6, traceId="e" * 32, parentSpanId="9" * 16)
    hop = otlp_span(3, traceId="f" * 32, parentSpanId="2" * 16)
    spans.write_text(line(otlp([*two, far])) + line(otlp([hop], scope="envoy")))
    code, _, err = latscope(capsys, "join", calls, "--spans", spans)
    assert code == 0
    assert "1 of 4 calls joined (1 by parent span)" in err
    assert "1 of them only to hops" in err
    assert "1 ambiguous, left unjoined" in err
    assert "1 whose trace is here, but not the spans that lead to it" in err
    assert "1 span came twice" in err
    assert "and 2 more lines that could not be used" in err


KEPT = ranges(
    {
        "metric": {"__name__": "vllm:num_requests_running", "instance": "a:8000"},
        "values": [[1795867195, "1"], [1795867196, "2"]],
    }
)


def test_metrics_come_behind_the_recordings(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For the time from the earlier call, a day before the other; once, however often joined."""
    before = calls.read_text().splitlines()
    with prometheus_at(KEPT) as (url, asked):
        for _ in range(2):
            code, out, err = latscope(capsys, "join", calls, "--metrics", url, "-o", calls)
            assert (code, err) == (0, "")
            assert out == "2 lines of series from the Prometheus\n"
    after = calls.read_text().splitlines()
    assert after[:3] == before
    assert [json.loads(text)["values"] for text in after[3:]] == [
        {"vllm:num_requests_running": 1.0},
        {"vllm:num_requests_running": 2.0},
    ]
    assert {json.loads(text)["source"] for text in after[3:]} == {f"{url}#a:8000"}
    assert [series.at[:4] for series in recordings.read_series(calls)] == ["2026"] * 3
    parameters = parse_qs(urlsplit(asked[0]).query)
    assert parameters["start"] == ["1795867195"]  # 2026-11-28T12:00:00Z, less five seconds
    assert parameters["end"] == ["1795953606"]  # a day later, the call's end and five seconds
    assert parameters["step"] == ["145"]


def test_spans_and_metrics_at_once(
    calls: Path, spans: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = tmp_path / "joined.jsonl"
    with prometheus_at(KEPT) as (url, _):
        code, out, _ = latscope(
            capsys, "join", calls, "--spans", spans, "--metrics", url, "-o", goal, "--json"
        )
    assert code == 0
    assert {name: json.loads(out)[name] for name in ("joined_spans", "series")} == {
        "joined_spans": 1,
        "series": 2,
    }
    assert len(goal.read_text().splitlines()) == 5


def test_a_prometheus_that_answers_an_error_ends_it(
    calls: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = tmp_path / "joined.jsonl"
    with prometheus_at('{"status":"error","error":"too many points"}', status=400) as (url, _):
        code, out, err = latscope(capsys, "join", calls, "--metrics", url, "-o", goal)
    assert (code, out) == (3, "")
    assert "answered 400 (too many points)" in err
    assert len(err.splitlines()) == 1
    assert not goal.exists()


def test_calls_without_a_time_cannot_be_asked_for(
    calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = replace(stream(tokens(2, start=10, step=5)), started_at="once")
    calls.write_text(to_line(call) + "\n")
    code, _, err = latscope(capsys, "join", calls, "--metrics", "http://127.0.0.1:9")
    assert code == 3
    assert "no call has a readable started_at" in err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["CALLS"], 2, "join needs spans or metrics"),
        (["CALLS", "--metrics", "ftp://h"], 2, "no http or https URL"),
        (["-", "--spans", "-"], 2, "only once"),
        (["CALLS", "--spans", "none"], 3, "none: cannot be read"),
        (["CALLS", "--spans", "CALLS"], 3, "holds no spans"),
        (["SPANS", "--spans", "SPANS"], 3, "has no schema"),
        (["CALLS", "--spans", "SPANS", "-o", "/none/out"], 3, "/none/out cannot be written"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    code: int,
    said: str,
    calls: Path,
    spans: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = {"CALLS": calls, "SPANS": spans}
    found, out, err = latscope(capsys, "join", *(named.get(each, each) for each in arguments))
    assert (found, out) == (code, "")
    assert said in err
    assert len(err.splitlines()) == 1


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    code, out, _ = latscope(capsys, "explain", *arguments, "--json")
    assert code == 0
    return [json.loads(text) for text in out.splitlines()]


def test_explain_joins_on_the_way(
    calls: Path, spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine's figures reach the attribution of the call they belong to, and only it."""
    first, second = explained(capsys, calls, "--spans", spans)
    assert {"vllm.otel"} <= {figure["source"] for figure in first["reported"]}
    assert second["reported"] == []
    (alone,) = explained(capsys, calls, "--spans", spans, "--id", "traced")
    assert alone == first


def test_spans_alone_give_queue_prefill_and_decode(
    spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = explained(capsys, "--spans", spans)
    assert first["schema"] == "latscope.serverspan/1"
    assert first["started_at"] == "2026-11-29T12:00:00.004000Z"
    times = {name: first[f"{name}_ns"] for name in ("queue", "frontend", "prefill", "decode")}
    assert times == {
        "queue": 1_000_000,
        "frontend": 1_000_000,
        "prefill": 3_000_000,
        "decode": 5_000_000,
    }
    assert first["missing"] == ["network", "client"]
    assert {figure["covers"] for figure in first["reported"]} >= {"queue.engine", "decode"}
    assert second["queue_ns"] is None
    assert len(explained(capsys, "--spans", spans, "--slowest", "1")) == 1


def test_spans_alone_as_a_table_say_what_is_not_in_them(
    spans: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = latscope(capsys, "explain", "--spans", spans)
    assert code == 0
    assert "network and client are not in these figures" in out
    (row,) = [text for text in out.splitlines() if text.startswith("chatcmpl-1")]
    assert row.split() == [
        "chatcmpl-1", "10+5", "1.0", "ms", "1.0", "ms", "3.0", "ms", "5.0", "ms",
        "5.0", "ms", "10.0", "ms",
    ]  # fmt: skip
    assert latscope(capsys, "explain", "--spans", spans, "--slowest", "0")[1].count("other") == 0
    assert "other" in latscope(capsys, "explain", "--spans", spans, "--all")[1]


def test_hops_above_a_request_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spans = tmp_path / "spans"
    hop = otlp_span(9, at=1, ms=30)
    text = line(otlp([ENGINE | {"parentSpanId": f"{9:016x}"}]))
    spans.write_text(text + line(otlp([hop], scope="envoy", service="edge")))
    (found,) = explained(capsys, "--spans", spans)
    assert found["hops"] == [{"service": "edge", "covers": "stated", "ns": 16_000_000}]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--spans", "SPANS", "--id", "x"], 2, "choose among recordings"),
        (["--spans", "HOPS"], 3, "no engine request"),
        (["none", "--spans", "SPANS"], 3, "none: cannot be read"),
    ],
)
def test_explain_refuses_in_one_line(
    arguments: list[str],
    code: int,
    said: str,
    spans: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hops = tmp_path / "hops"
    hops.write_text(line(otlp([otlp_span()], scope="envoy")))
    named = {"SPANS": spans, "HOPS": hops}
    found, out, err = latscope(capsys, "explain", *(named.get(each, each) for each in arguments))
    assert (found, out) == (code, "")
    assert said in err.splitlines()[-1]


FIXTURES = Path(__file__).parents[2] / "fixtures" / "spans"


def test_real_calls_through_envoy_to_vllm_are_all_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten by their traces, four by the ids of their answers; vLLM's start-up spans are left."""
    goal = tmp_path / "joined.jsonl"
    files = [FIXTURES / "envoy-vllm.calls.jsonl", "--spans", FIXTURES / "envoy-vllm.otlp.jsonl"]
    code, out, err = latscope(capsys, "join", *files, "-o", goal, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    ways = {how: n for how, n in found["joined"].items() if n}
    assert ways == {"chain": 10, "response_id": 4}
    assert found["unmatched_requests"] == 1  # the warm-up's
    calls = list(recordings.read(goal))
    engines = [span for call in calls for span in call.spans if span.source]
    assert len(engines) == len({span.span_id for span in engines}) == 14
    for call in calls:
        check_laws(attribute(call))


def test_a_real_hop_is_told_from_the_server_behind_it() -> None:
    """Envoy worked 0.6 to 2.3 ms on a call; what lies between its span and the engine's is up to a
    second and a half: the model server's own HTTP, on a busy machine."""
    keys = recordings.read(FIXTURES / "envoy-vllm.calls.jsonl")
    calls = {call.trace: call for call in keys if call.trace}
    found = spans_documents.read(FIXTURES / "envoy-vllm.otlp.jsonl", problems=[])
    hops: list[Reported] = []
    for trace in calls:
        assert trace is not None
        below = [span for span in found if span.trace_id == trace.trace_id]
        (top,) = [span for span in below if span.parent_id == trace.span_id]
        way = [top, *(span for span in below if span.parent_id == top.span_id)]
        hops += own_times(way)
    own = [hop.ns for hop in hops if hop.covers == "network.gateway"]
    assert [hop.covers for hop in hops].count("stated") == 5
    assert len(own) == 5
    assert all(500_000 < ns < 2_300_000 for ns in own)
