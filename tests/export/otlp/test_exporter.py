"""Recorded calls in a collector: spans and sums as they were, nothing of a prompt, all counted."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.export.otel.spans import span_rows, started
from latscope.export.otel.told import told
from latscope.export.otlp.exporter import MOST_SPANS, Account, Exporter
from latscope.export.otlp.settings import way
from latscope.recording import Recording, Trace
from latscope.timeline import build
from latscope.units import S
from tests.calls import DONE, finish, metrics, stream, tokens, usage
from tests.export.otlp.collector import Collector, Reply, collecting, collecting_grpc, partial_spans

SECRET = "the-secret-prompt"


def call(number: int = 0, **how: Any) -> Recording:
    chunks = [
        *tokens(4, start=30, step=5),
        (50.0, finish()),
        (50.5, usage(4, metrics=metrics(5, 15, 15))),
        (51.0, DONE),
    ]
    made = stream(chunks, request={"model": "tiny", "stream": True, "messages": SECRET})
    fields = {
        "call_id": f"call-{number}",
        "started_at": f"2026-11-29T12:{number // 60:02}:{number % 60:02}.000001Z",
        "tags": {"team": "search"},
    }
    return replace(made, **(fields | how))


def exporter(collector: Collector, *, only: str = "", **how: Any) -> Exporter:
    given: Any = {"url": collector.url, "headers": (), "environment": {}}
    protocol = how.pop("protocol", "http")
    ways = {
        signal: way(signal, protocol=protocol, **given) if only in ("", signal) else None
        for signal in ("traces", "metrics")
    }
    return Exporter(traces=ways["traces"], metrics=ways["metrics"], **how)


def exported(calls: Sequence[Recording], collector: Collector, **how: Any) -> list[Account]:
    made = exporter(collector, **how)
    for one in calls:
        timeline = build(one)
        made.take(one, timeline, attribute(one))
    try:
        return made.finish()
    finally:
        made.close()


def attributes(item: Any) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            return tuple(plain(part) for part in value.array_value.values)
        return getattr(value, kind)

    return {pair.key: plain(pair.value) for pair in item.attributes}


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_spans_arrive_as_their_rows_say(protocol: str) -> None:
    one = call()
    with (collecting if protocol == "http" else collecting_grpc)() as collector:
        accounts = exported([one], collector, protocol=protocol)
    rows = span_rows(told(one, build(one), attribute(one)))
    spans = collector.spans()
    assert [account.whole for account in accounts] == [True, True]
    assert accounts[0].sent == len(spans) == len(rows)
    for row, span in zip(rows, spans, strict=True):
        assert span.name == row.name
        assert span.trace_id.hex() == row.trace_id
        assert span.span_id.hex() == row.span_id
        assert (span.parent_span_id.hex() or None) == row.parent_id
        assert span.start_time_unix_nano == row.start_unix_ns
        assert span.end_time_unix_nano == row.end_unix_ns
        assert attributes(span) == dict(row.attributes)
        assert [event.name for event in span.events] == [event.name for event in row.events]
    assert spans[0].start_time_unix_nano == started(one)  # the time of then, not of now


def test_metrics_state_the_sums_at_the_time_of_then() -> None:
    calls = [call(number) for number in range(5)]
    with collecting() as collector:
        exported(calls, collector)
    points = collector.points("gen_ai.client.inference.duration")
    assert [point.count for point in points] == [0, 5]
    ends = [started(one) + build(one).wall_ns for one in calls]
    assert points[-1].time_unix_nano == max(ends)
    assert points[-1].sum == pytest.approx(sum(build(one).wall_ns for one in calls) / S)
    (exemplar,) = points[-1].exemplars
    assert exemplar.trace_id in {span.trace_id for span in collector.spans()}


def test_a_piece_nobody_can_split_is_a_point_of_its_candidates() -> None:
    blind = replace(call(), attempts=stream(tokens(3, start=30, step=5)).attempts)
    with collecting() as collector:
        exported([blind], collector)
    segments = {
        attributes(point)["latscope.segment"]
        for point in collector.points("latscope.segment.duration")
    }
    assert any("queue|prefill" in segment for segment in segments)
    assert not segments & {"queue", "prefill"}


def test_the_resource_is_the_users_or_latscopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with collecting() as collector:
        exported([call()], collector, only="traces")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        exported([call()], collector, only="traces")
    resources = [attributes(request.resource_spans[0].resource) for _, request in collector.came]
    assert [found["service.name"] for found in resources] == ["latscope", "shop"]
    assert {found["deployment.environment"] for found in resources} == {"test"}
    digest = hashlib.sha256(b"call-0").hexdigest()[:12]
    assert {found["service.instance.id"] for found in resources} == {f"latscope-export-{digest}"}


def test_what_is_exported_twice_is_the_same_spans() -> None:
    with collecting() as collector:
        exported([call()], collector, only="traces")
        exported([call()], collector, only="traces")
    ids = [span.span_id for span in collector.spans()]
    assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]


def test_many_calls_are_several_requests() -> None:
    calls = [call(number) for number in range(120)]
    with collecting() as collector:
        (account,) = exported(calls, collector, only="traces")
    assert account.requests > 1
    assert account.sent == len(collector.spans())
    assert len({span.span_id for span in collector.spans()}) == account.sent
    assert all(
        len(request.resource_spans[0].scope_spans[0].spans) < MOST_SPANS + 200
        for _, request in collector.came
    )


def test_what_the_collector_rejects_is_reported() -> None:
    with collecting([Reply(body=partial_spans(2, "span too old"))]) as collector:
        traces, points = exported([call()], collector)
    assert traces.rejected == 2
    assert traces.said == {"span too old": 2}
    assert not traces.whole
    assert points.whole


def test_one_signal_may_be_refused_and_the_other_taken() -> None:
    with collecting(metrics=[Reply(status=404)] * 9) as collector:
        traces, points = exported([call()], collector)
    assert traces.whole
    assert points.given_up == "404 Not Found"
    assert points.unsent > 0
    assert points.requests == 1


def test_a_recorded_id_that_is_none_costs_the_spans_of_its_call_only() -> None:
    broken = call(1, trace=Trace(trace_id="zz", span_id="11" * 8))
    with collecting() as collector:
        made = exporter(collector)
        for one in (broken, call(2)):
            made.take(one, build(one), attribute(one))
        made.finish()
        made.close()
    assert made.no_ids == 1
    assert {attributes(span).get("latscope.call_id") for span in collector.spans()} <= {
        "call-2",
        None,
    }
    assert collector.points("gen_ai.client.inference.duration")[-1].count == 2


def test_half_a_surrogate_in_a_tag_is_no_trouble() -> None:
    with collecting() as collector:
        exported([call(tags={"team": "\ud800"})], collector)
    assert attributes(collector.spans()[0])["latscope.tags.team"] == "?"


def test_tags_are_on_metrics_only_where_they_were_asked_for() -> None:
    with collecting() as collector:
        exported([call()], collector, only="metrics")
        exported([call()], collector, only="metrics", tags=("team",))
    first, last = (
        attributes(collector.points("latscope.ttft")[at]).get("latscope.tags.team")
        for at in (0, -1)
    )
    assert (first, last) == (None, "search")


def test_deltas_where_they_are_preferred() -> None:
    with collecting() as collector:
        exported([call(), call(70)], collector, only="metrics", delta=True)
    points = collector.points("gen_ai.client.inference.duration")
    assert [point.count for point in points] == [1, 1]


def test_a_prompt_is_in_no_byte_that_is_sent() -> None:
    with collecting() as collector:
        exported([call()], collector, aliases=True)
    assert all(SECRET.encode() not in request.SerializeToString() for _, request in collector.came)


# -- lines of latscope.attribution/1 ---------------------------------------------------------------


def test_a_line_says_in_metrics_what_its_recording_says() -> None:
    one = call()
    with collecting() as collector, collecting() as other:
        exported([one], collector, only="metrics")
        made = exporter(other)
        made.take_line(to_mapping(attribute(one)))
        made.finish()
        made.close()
    assert other.spans() == []
    for name in (
        "gen_ai.client.inference.duration",
        "gen_ai.client.inference.time_to_first_chunk",
        "gen_ai.client.inference.usage.output_tokens",
        "gen_ai.client.inference.operation.input_tokens",
        "latscope.ttft",
    ):
        from_call, from_line = collector.points(name)[-1], other.points(name)[-1]
        for field in ("count", "sum", "as_int"):
            assert getattr(from_call, field, None) == getattr(from_line, field, None), name
    for name in ("latscope.segment.duration", "latscope.ttft.segment.duration"):
        assert _by_segment(other, name) == pytest.approx(_by_segment(collector, name)), name
    assert other.points("gen_ai.client.inference.time_per_output_chunk") == []


def test_a_line_keeps_what_is_unsplit_under_its_candidates() -> None:
    blind = replace(call(), attempts=stream(tokens(3, start=30, step=5)).attempts)
    with collecting() as collector:
        made = exporter(collector, only="metrics")
        made.take_line(to_mapping(attribute(blind)))
        made.finish()
        made.close()
    found = _by_segment(collector, "latscope.segment.duration")
    assert not set(found) & {"queue", "prefill", "unattributed"}
    assert sum(found.values()) == pytest.approx(build(blind).wall_ns / S)


def _by_segment(collector: Collector, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    last: dict[tuple[Any, ...], Any] = {}
    for point in collector.points(name):
        last[tuple(sorted(attributes(point).items()))] = point
    for point in last.values():
        segment = attributes(point)["latscope.segment"]
        found[segment] = found.get(segment, 0.0) + point.sum
    return found
