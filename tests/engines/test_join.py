"""Spans of a real vLLM, and of a real Envoy before it, joined to recorded calls.

Ten calls of one trace through Envoy, its tracing on, come out joined, all ten; calls that sent no
traceparent are joined by their ids. The spans pass through a real collector.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from latscope.cli.main import run
from latscope.documents import recordings
from latscope.protocols.otlp import is_request
from latscope.protocols.reported import of_span
from latscope.recording import Recording, to_line
from latscope.timeline import build
from latscope.timeline.hops import gateway_ns
from latscope.units import MS
from tests.engines import traced
from tests.engines.conftest import need
from tests.lab.conftest import need as need_proxy

APIS = ["chat", "completions", "responses", "messages"]
ROUNDING = 1 * MS
"""vLLM's body and its span state the same stamps, the body in milliseconds with decimals."""


@pytest.fixture(scope="module", name="bed")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[traced.Bed]:
    for engine in ("vllm", "collector"):
        need(engine)
    with traced.bed(tmp_path_factory.mktemp("spans")) as found:
        yield found


def joined(
    calls: list[Recording], spans: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[dict[str, object], list[Recording]]:
    """The account of `latscope join`, and the recordings it wrote."""
    file, out = folder / "calls.jsonl", folder / "joined.jsonl"
    file.write_text("".join(to_line(call) + "\n" for call in calls))
    capsys.readouterr()
    assert run(["join", str(file), "--spans", str(spans), "-o", str(out), "--json"]) == 0
    return json.loads(capsys.readouterr().out), list(recordings.read(out))


@pytest.mark.parametrize("own_span", [False, True], ids=["one-span", "upstream-span"])
def test_ten_calls_of_one_trace_through_envoy_are_all_joined(
    own_span: bool, bed: traced.Bed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_proxy("envoy")
    apis = (APIS * 3)[:10]
    calls = traced.through_envoy(bed, apis, own_span=own_span, at_once=3)
    account, found = joined(calls, bed.collector.file, tmp_path, capsys)
    assert account["joined"] == {
        "parent": 0,
        "chain": 10,
        "response_id": 0,
        "request_id": 0,
        "time": 0,
    }
    for call in found:
        assert [span.kind for span in call.spans if not is_request(span)] == (
            ["server", "client"] if own_span else ["server"]
        )
        (engine,) = [span for span in call.spans if is_request(span)]
        assert engine.source == "vllm.otel"
        assert engine.duration_ns <= build(call).wall_ns
        (hop,) = gateway_ns(call)
        assert hop.covers == ("network.gateway" if own_span else "stated")


def test_calls_that_sent_no_traceparent_are_joined_by_their_ids(
    bed: traced.Bed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headers = {"x-request-id": "join-by-id"}
    calls = traced.calls(bed.vllm.base_url, APIS, trace_id=None, headers=headers)
    traced.spans_of(bed.collector.file, "join-by-id", len(calls))
    account, found = joined(calls, bed.collector.file, tmp_path, capsys)
    ways = account["joined"]
    assert isinstance(ways, dict)
    assert ways["response_id"] + ways["request_id"] == len(calls)
    assert all(len(call.spans) == 1 for call in found)


def test_the_span_and_the_body_tell_the_same(
    bed: traced.Bed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Queue, prefill and decode of a call stand in both; the names differ, the stamps do not."""
    headers = {"x-request-id": "same-stamps"}
    calls = traced.calls(bed.vllm.base_url, ["responses"], trace_id=None, headers=headers)
    traced.spans_of(bed.collector.file, "same-stamps", 1)
    _, (call,) = joined(calls, bed.collector.file, tmp_path, capsys)
    inside = {f.covers: f.ns for f in build(calls[0]).reported if f.source == "vllm.metrics"}
    (engine,) = call.spans
    beside = {figure.covers: figure.ns for figure in of_span(engine.source, engine.attributes)}
    for part in ("queue.engine", "prefill", "decode"):
        assert abs(inside[part] - beside[part]) <= ROUNDING
