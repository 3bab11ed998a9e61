"""Spans in the JSON forms of collectors and stores: who made them, and what of them is kept."""

import base64
from typing import Any

import pytest

from latscope.protocols.otlp import Decoded, decode, is_request
from latscope.protocols.reported import of_span
from latscope.recording import ServerSpan
from latscope.units import MS
from tests.spans import START, TRACE, otlp, otlp_span, vllm_attributes


def decoded(document: object) -> Decoded:
    found = decode(document)
    assert found is not None
    return found


def one(document: object) -> ServerSpan:
    (found,) = decoded(document).spans
    return found


def with_attributes(**attributes: Any) -> ServerSpan:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return one(otlp([otlp_span(attributes=named)]))


def test_a_vllm_request_is_read_whole() -> None:
    found = one(otlp([otlp_span(7, at=2, ms=30, attributes=vllm_attributes(0.001, 0.009, 0.02))]))
    assert (found.source, found.name, found.service) == ("vllm.otel", "llm_request", "vllm")
    assert (found.trace_id, found.span_id, found.parent_id) == (TRACE, f"{7:016x}", None)
    assert (found.kind, found.start_unix_ns, found.duration_ns) == (
        "server",
        START + 2 * MS,
        30 * MS,
    )
    assert is_request(found)
    told = {figure.covers: figure.ns for figure in of_span(found.source, found.attributes)}
    assert told["queue.engine"] == 1 * MS
    assert told["prefill"] == 9 * MS
    assert told["decode"] == 20 * MS


@pytest.mark.parametrize(
    ("trace", "span"),
    [
        ("AB" * 16, "CD" * 8),
        (base64.b64encode(b"\xab" * 16).decode(), base64.b64encode(b"\xcd" * 8).decode()),
    ],
    ids=["hex", "base64"],
)
def test_ids_come_in_two_codings(trace: str, span: str) -> None:
    found = one(otlp([otlp_span(traceId=trace, spanId=span, parentSpanId=span)]))
    assert (found.trace_id, found.span_id, found.parent_id) == ("ab" * 16, "cd" * 8, "cd" * 8)


def test_times_come_as_numbers_too() -> None:
    numbers = otlp_span(startTimeUnixNano=START, endTimeUnixNano=float(START + (1 << 20)))
    assert one(otlp([numbers])).duration_ns == 1 << 20


@pytest.mark.parametrize(
    "fields",
    [
        {"traceId": ""},
        {"traceId": "0" * 32},
        {"traceId": "zz" * 16},
        {"traceId": "a" * 31},
        {"spanId": 12},
        {"spanId": "AAAA"},
        {"startTimeUnixNano": "0"},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": "9" * 5000},
        {"startTimeUnixNano": True},
        {"endTimeUnixNano": "0"},
        {"endTimeUnixNano": None},
        {"endTimeUnixNano": -1},
        {"endTimeUnixNano": 1e30},
    ],
)
def test_a_span_that_cannot_be_placed_is_counted(fields: dict[str, Any]) -> None:
    found = decoded(otlp([otlp_span(**fields), otlp_span(2)]))
    assert found.damaged == 1
    assert [span.span_id for span in found.spans] == [f"{2:016x}"]


def test_what_no_object_is_costs_itself_only() -> None:
    document = otlp([otlp_span(), 3, "span"])  # type: ignore[list-item]
    document["resourceSpans"] += [None, {"scopeSpans": [None, {"spans": None}]}, {"resource": 1}]
    found = decoded(document)
    assert (len(found.spans), found.damaged) == (1, 2)


def test_content_never_gets_in() -> None:
    """Only numbers and short names of timing, usage and identity are kept."""
    found = with_attributes(
        gen_ai__prompt="tell me of my illness",
        gen_ai__input__messages="secret",
        gen_ai__request__id="has spaces in it",
        gen_ai__response__id="x" * 200,
        gen_ai__response__model="tiny",
        gen_ai__usage__prompt_tokens="many",
        gen_ai__request__max_tokens=5,
        http__url="http://host/?key=secret",
        response_flags="UC",
    )
    assert found.attributes == {
        "gen_ai.response.model": "tiny",
        "gen_ai.request.max_tokens": 5,
        "response_flags": "UC",
    }


def test_a_tools_name_stays_and_what_it_was_given_does_not() -> None:
    found = with_attributes(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="search_docs",
        gen_ai__tool__call__arguments="secret",
        gen_ai__tool__description="what it is for",
    )
    assert found.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search_docs",
    }


def test_a_name_says_no_more_than_it_must() -> None:
    def named(name: str) -> str:
        return one(otlp([otlp_span(name=name)])).name

    assert named("GET /v1/chat?key=secret") == "GET /v1/chat"
    assert named("Scheduler [TP 0] (host:1234abcd | pid:9)") == "Scheduler [TP 0]"
    assert len(named("n" * 500)) == 64


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"intValue": "12"}, 12),
        ({"intValue": 12}, 12),
        ({"doubleValue": 1.5}, 1.5),
        ({"stringValue": "200"}, 200),
        ({"doubleValue": "NaN"}, None),
        ({"doubleValue": -1.0}, None),
        ({"intValue": "1e400"}, None),
        ({"intValue": 10**400}, None),
        ({"boolValue": True}, None),
        ({"arrayValue": {"values": [{"intValue": 1}]}}, None),
        ({}, None),
        ("12", None),
    ],
)
def test_numbers_come_in_many_dresses(value: object, kept: float | None) -> None:
    attributes = [{"key": "http.status_code", "value": value}]
    found = one(otlp([otlp_span() | {"attributes": attributes}]))
    assert found.attributes.get("http.status_code") == kept


def test_nested_attributes_are_read_by_their_dotted_names() -> None:
    inner = {"values": [{"key": "prompt_tokens", "value": {"intValue": "7"}}]}
    attributes = [{"key": "gen_ai.usage", "value": {"kvlistValue": inner}}]
    found = one(otlp([otlp_span() | {"attributes": attributes}]))
    assert found.attributes == {"gen_ai.usage.prompt_tokens": 7}


@pytest.mark.parametrize(
    ("scope", "name", "attributes", "source"),
    [
        ("vllm.llm_engine", "llm_request", {}, "vllm.otel"),
        ("", "llm_request", vllm_attributes(0.1, 0.1, 0.1), "vllm.otel"),
        ("sglang server", "Scheduler", {}, "sglang.otel"),
        ("", "Req 1", {"module": "sglang::request"}, "sglang.otel"),
        ("trt.llm", "llm_request", {"gen_ai.latency.e2e": 1.0}, "trtllm.otel"),
        ("another", "llm_request", vllm_attributes(0.1, 0.1, 0.1), "gen_ai.otel"),
        ("envoy", "ingress", {"http.status_code": "200"}, ""),
        ("", "llm_request", {}, ""),
    ],
)
def test_an_engine_is_known_by_its_scope(
    scope: str, name: str, attributes: dict[str, Any], source: str
) -> None:
    """The names alone do not tell: engines share them and mean different intervals."""
    found = one(otlp([otlp_span(name=name, attributes=attributes)], scope=scope))
    assert found.source == source
    assert not (is_request(found) and not source)


def test_sglangs_slices_state_their_own_length() -> None:
    """Its prefill attribute contains the queue; the slice prefill_waiting is the queue."""
    root = otlp_span(
        1,
        name=" Req 8f2e1c3a",
        kind=1,
        attributes={
            "rid": "8f2e1c3a99",
            "module": "sglang::request",
            "gen_ai.latency.time_in_model_prefill": 0.03,
            "gen_ai.latency.time_to_first_token": 0.032,
            "gen_ai.latency.e2e": 0.1,
        },
    )
    slices = [
        otlp_span(index, name=name, ms=ms, parentSpanId=f"{1:016x}")
        for index, (name, ms) in enumerate(
            {"prefill_waiting": 20, "prefill_forward": 9, "decode_loop": 60, "tokenize": 1}.items(),
            2,
        )
    ]
    document = otlp([root, *slices], service="sglang", scope="sglang server")
    found = {span.name: span for span in decoded(document).spans}
    assert [span.name for span in found.values() if is_request(span)] == ["Req 8f2e1c3a"]
    assert found["prefill_waiting"].attributes == {"prefill_waiting": 20 * MS}
    assert found["tokenize"].attributes == {}
    waiting, head = found["prefill_waiting"], found["Req 8f2e1c3a"]
    (queue,) = of_span(waiting.source, waiting.attributes)
    assert (queue.covers, queue.ns) == ("queue.engine", 20 * MS)
    covers = {figure.covers for figure in of_span(head.source, head.attributes, streamed=True)}
    assert "queue.engine" not in covers
    assert "prefill" not in covers


def jaeger(**fields: Any) -> dict[str, Any]:
    """A trace as Jaeger's API gives it: short ids, microseconds, tags."""
    span = {
        "traceID": "abc",
        "spanID": "1f",
        "operationName": "llm_request",
        "references": [
            {"refType": "FOLLOWS_FROM", "traceID": "abc", "spanID": "aa"},
            {"refType": "CHILD_OF", "traceID": "def", "spanID": "bb"},
            {"refType": "CHILD_OF", "traceID": "abc", "spanID": "1e"},
        ],
        "startTime": START // 1000,
        "duration": 10_000,
        "tags": [
            {"key": "span.kind", "type": "string", "value": "server"},
            {"key": "otel.scope.name", "type": "string", "value": "vllm.llm_engine"},
            {"key": "gen_ai.latency.time_in_queue", "type": "float64", "value": 0.004},
            {"key": "gen_ai.usage.prompt_tokens", "type": "int64", "value": 9},
        ],
        "processID": "p1",
    }
    processes = {"p1": {"serviceName": "engine", "tags": []}}
    return {"data": [{"traceID": "abc", "spans": [span | fields], "processes": processes}]}


def test_jaegers_form() -> None:
    found = one(jaeger())
    assert (found.trace_id, found.span_id) == (f"{0xABC:032x}", f"{0x1F:016x}")
    assert found.parent_id == f"{0x1E:016x}"
    assert (found.source, found.service, found.kind) == ("vllm.otel", "engine", "server")
    assert (found.start_unix_ns, found.duration_ns) == (START, 10 * MS)
    assert found.attributes == {
        "gen_ai.latency.time_in_queue": 0.004,
        "gen_ai.usage.prompt_tokens": 9,
    }


def test_jaegers_older_form_names_the_parent_itself() -> None:
    old = jaeger(references=None, parentSpanID="1d", processID=None, tags=None)
    trace = old["data"][0]
    trace["spans"][0]["process"] = {"serviceName": "old"}
    found = one(trace)
    assert (found.parent_id, found.service, found.kind) == (f"{0x1D:016x}", "old", "")
    assert one(jaeger(references=[], parentSpanID="")).parent_id is None
    assert decoded(jaeger(startTime=None, duration=None)).damaged == 1


def test_tempos_forms() -> None:
    """Its first API has batches and library spans, its second OTLP inside `trace`."""
    batch = otlp([otlp_span()])["resourceSpans"][0]
    group = batch.pop("scopeSpans")[0]
    group["instrumentationLibrary"] = group.pop("scope")
    first = {"batches": [batch | {"instrumentationLibrarySpans": [group]}]}
    assert one(first).source == "vllm.otel"
    assert one({"trace": otlp([otlp_span(kind="SPAN_KIND_CLIENT")])}).kind == "client"


def test_protobufs_own_names() -> None:
    """As its JSON form gives them when it keeps the fields' names."""
    plain = {
        "trace_id": TRACE,
        "span_id": "ab" * 8,
        "parent_span_id": "cd" * 8,
        "start_time_unix_nano": str(START),
        "end_time_unix_nano": str(START + 5),
        "kind": "a new kind",
    }
    found = one({"resource_spans": [{"scope_spans": [{"spans": [plain]}]}]})
    assert (found.parent_id, found.duration_ns, found.kind) == ("cd" * 8, 5, "")


def test_a_list_of_documents_is_one() -> None:
    assert len(decoded([otlp([otlp_span()]), jaeger(), {"resourceMetrics": []}]).spans) == 2
    assert decoded([]) == Decoded()


@pytest.mark.parametrize(
    "document", [None, 3, "spans", {}, [{}], {"spans": []}, {"data": [{"x": 1}]}, {"trace": 1}]
)
def test_what_is_none_of_them(document: object) -> None:
    assert decode(document) is None
