"""A call as span rows: exact attributes, parents, times; usage once; nothing without end."""

from dataclasses import replace
from itertools import pairwise

import pytest

from latscope.attribution.model import LoadExcess, Piece, Stall
from latscope.export.otel import names
from latscope.export.otel.spans import piece_name, span_rows
from latscope.recording import Recording, Sample, Trace
from latscope.units import MS, S
from tests import calls
from tests.export.otel.told_calls import REQUEST, healthy, of, pieces, silent

STARTED = 1_795_953_600 * S
TRACE = Trace(trace_id="a" * 32, span_id="b" * 16, parent_id="c" * 16)


def test_the_inference_span_says_what_the_conventions_ask() -> None:
    request = {
        **REQUEST,
        "temperature": 0.5,
        "top_p": 1,
        "seed": 7,
        "n": 1,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "service_tier": "auto",
    }
    own, *_ = span_rows(of(healthy(request=request, trace=TRACE, session="conv-1")))
    assert (own.name, own.kind, own.failed) == ("chat tiny-1", "client", False)
    assert (own.trace_id, own.span_id, own.parent_id) == ("a" * 32, "b" * 16, "c" * 16)
    assert (own.start_unix_ns, own.end_unix_ns) == (STARTED, STARTED + 132 * MS)
    stated = {name: value for name, value in own.attributes.items() if "latscope" not in name}
    assert stated == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny-1",
        "gen_ai.response.model": "tiny",
        "server.address": "127.0.0.1",
        "server.port": 8000,
        "gen_ai.conversation.id": "conv-1",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 8,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0,
        "gen_ai.request.seed": 7,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.output.type": "json",
        "openai.request.service_tier": "auto",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.1,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 4,
    }


def test_the_attribution_is_told_in_seconds() -> None:
    told = of(healthy(tags={"team": "search"}, turn="turn-1", in_flight=3))
    found = span_rows(told)[0].attributes
    assert found["latscope.ttft"] == 0.1
    assert found["latscope.prefill.duration"] == 0.05
    assert (found["latscope.prefill.min"], found["latscope.prefill.max"]) == (0.05, 0.05)
    assert found["latscope.queue.provenance"] == "reported"
    assert found["latscope.dominant"] == told.attribution.dominant
    assert found["latscope.status"] == "complete"
    assert found["latscope.tags.team"] == "search"
    assert (found["latscope.turn"], found["latscope.in_flight"]) == ("turn-1", 3)
    parts = [found[f"latscope.{name}.duration"] for name in ("queue", "prefill", "decode")]
    rest = [found[f"latscope.{name}.duration"] for name in ("network", "client", "unattributed")]
    assert sum(float(str(part)) for part in parts + rest) == pytest.approx(0.132)


def test_every_child_is_a_child_of_the_calls_own_span() -> None:
    own, *children = span_rows(of(healthy(trace=TRACE)))
    assert {(row.trace_id, row.parent_id) for row in children} == {(own.trace_id, own.span_id)}
    assert len({row.span_id for row in (own, *children)}) == len(children) + 1


def test_pieces_follow_one_another_and_fill_the_call() -> None:
    own, *_ = rows = span_rows(of(healthy()))
    found = pieces(rows)
    assert found[0].start_unix_ns == own.start_unix_ns
    assert found[-1].end_unix_ns == own.end_unix_ns
    assert all(a.end_unix_ns == b.start_unix_ns for a, b in pairwise(found))
    assert [row.name for row in found] == [
        "client.pool_wait",
        "network.connect",
        "network.upload",
        "network.transit",
        "queue | network",
        "queue.engine",
        "prefill",
        "decode",
        "network.transit",
    ]


def test_a_piece_says_whose_it_is_and_how_well_it_is_known() -> None:
    (prefill,) = [row for row in span_rows(of(healthy())) if row.name == "prefill"]
    assert prefill.kind == "internal"
    assert prefill.attributes == {
        "latscope.segment": "prefill",
        "latscope.provenance": "reported",
        "latscope.duration": 0.05,
        "latscope.duration_min": 0.05,
        "latscope.duration_max": 0.05,
        "latscope.place": "order",
        "gen_ai.provider.name": "openai",
        "latscope.evidence": ("vllm.metrics",),
    }


def test_an_unsplit_piece_is_named_as_such() -> None:
    unsplit = [
        row
        for row in span_rows(of(silent()))
        if row.attributes.get("latscope.segment") == "unattributed"
    ]
    assert unsplit
    for row in unsplit:
        candidates = row.attributes[names.CANDIDATES]
        assert isinstance(candidates, tuple)
        assert len(candidates) > 1
        assert row.name == " | ".join(candidates)
        assert row.attributes["latscope.duration_min"] == 0.0


def test_a_piece_given_to_one_of_several_keeps_its_candidates_in_sight() -> None:
    piece = Piece(ns=5, candidates=("queue", "prefill"), provenance="inferred", given="queue")
    assert piece_name(piece) == "queue"


def test_usage_stands_on_the_inference_span_alone() -> None:
    for aliases in (False, True):
        _, *children = span_rows(of(healthy()), aliases=aliases)
        counted = ("usage", "token_count", "gen_ai.operation.name", "gen_ai.request.model")
        assert not [
            key for row in children for key in row.attributes if any(c in key for c in counted)
        ]


def test_every_child_has_a_genai_key() -> None:
    for row in span_rows(of(healthy()))[1:]:
        assert any(key.startswith("gen_ai.") for key in row.attributes)


def test_an_attempt_says_what_http_says() -> None:
    told = of(healthy())
    (attempt,) = [row for row in span_rows(told) if "http.request.method" in row.attributes]
    assert (attempt.name, attempt.kind, attempt.failed) == ("POST", "client", False)
    assert attempt.attributes == {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": 8000,
        "gen_ai.provider.name": "openai",
        "url.full": "http://127.0.0.1:8000/v1/chat/completions",
        "http.response.status_code": 200,
        "http.request.body.size": 321,
        "network.protocol.version": "1.1",
        "latscope.connection.reused": False,
        "network.peer.address": "127.0.0.1",
        "network.peer.port": 8000,
        "latscope.outcome": "answered",
    }


def retried() -> Recording:
    refused = calls.attempt(status=429, headers=10.0, end=10.0)
    broken = calls.attempt(
        entry=100.0, connect=101.0, sent=103.0, status=500, headers=110.0, end=110.0
    )
    chunks = [*calls.tokens(2, start=400.0, step=5.0), (410.0, calls.finish()), (411.0, calls.DONE)]
    last = calls.attempt(chunks, entry=300.0, connect=None, sent=303.0, headers=350.0)
    return calls.call(refused, broken, last, request=REQUEST)


def test_429_500_200_are_one_inference_and_three_attempts() -> None:
    own, *children = span_rows(of(retried()))
    attempts = [row for row in children if "http.request.method" in row.attributes]
    assert [row.attributes["http.response.status_code"] for row in attempts] == [429, 500, 200]
    assert [row.attributes.get("http.request.resend_count") for row in attempts] == [None, 1, 2]
    assert [row.attributes.get("error.type") for row in attempts] == ["429", "500", None]
    assert [row.failed for row in attempts] == [True, True, False]
    assert not own.failed
    assert "error.type" not in own.attributes
    assert own.attributes["latscope.attempts"] == 3


def test_attempts_are_left_to_the_http_librarys_own_instrumentation() -> None:
    rows = span_rows(of(retried()), http=False)
    assert not [row for row in rows if "http.request.method" in row.attributes]


def cut() -> Recording:
    return calls.stream(
        calls.tokens(2, start=100.0, step=10.0), request=REQUEST, error="httpx2.ReadError"
    )


def test_a_cut_stream_is_an_error_and_so_is_its_choice() -> None:
    own = span_rows(of(cut()))[0]
    assert own.failed
    assert own.attributes["error.type"] == "httpx2.ReadError"
    assert own.attributes["gen_ai.response.finish_reasons"] == ("error",)


def test_a_call_that_was_given_up_is_no_error_and_no_success() -> None:
    chunks = calls.tokens(2, start=100.0, step=10.0)
    told = of(calls.stream(chunks, request=REQUEST, reason="cancelled", stop=115.0, end=115.0))
    own = span_rows(told)[0]
    assert not own.failed
    assert "error.type" not in own.attributes
    assert own.attributes["latscope.status"] == "cancelled"
    assert own.attributes["latscope.end"] == "cancelled"


@pytest.mark.parametrize("message", ["You must not say please", "sk-" + "x" * 300, "a b"])
def test_prose_never_becomes_an_attribute(message: str) -> None:
    body = calls.sse({"error": {"type": message, "message": message}})
    recording = calls.stream([(50.0, body)], request={"model": message, "service_tier": message})
    for row in span_rows(of(recording), aliases=True):
        assert message not in str(row)


def test_what_is_no_inference_does_not_claim_to_be_one() -> None:
    listing = calls.call(calls.attempt([(10.0, b"{}")], kind="application/json"), path="/v1/models")
    own, *children = span_rows(of(listing), aliases=True)
    assert own.name == "HTTP"
    assert not [key for row in (own, *children) for key in row.attributes if "gen_ai" in key]
    assert [row.name for row in children if "http.request.method" in row.attributes] == ["HTTP"]


@pytest.mark.parametrize(
    ("path", "operation"),
    [
        ("/v1/embeddings", "embeddings"),
        ("/v1/completions", "text_completion"),
        ("/v1/messages", "chat"),
        ("/v1/responses", "chat"),
    ],
)
def test_the_operation_follows_from_the_api(path: str, operation: str) -> None:
    own = span_rows(of(replace(silent(), target=replace(silent().target, path=path))))[0]
    assert own.attributes["gen_ai.operation.name"] == operation
    assert own.name == f"{operation} tiny-1"


def test_aliases_say_the_same_in_the_words_of_backends() -> None:
    plain = span_rows(of(healthy()))[0].attributes
    own, *children = span_rows(of(healthy()), aliases=True)
    added = {key: value for key, value in own.attributes.items() if key not in plain}
    assert added == {
        "gen_ai.system": "openai",
        "openinference.span.kind": "LLM",
        "llm.provider": "openai",
        "llm.model_name": "tiny",
        "llm.invocation_parameters": '{"max_tokens": 8}',
        "gen_ai.server.ttft": 0.1,
        "langfuse.observation.completion_start_time": "2026-11-29T12:00:00.100000Z",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 4,
        "llm.token_count.total": 14,
    }
    assert {row.attributes["openinference.span.kind"] for row in children} == {"CHAIN"}
    assert [moment.name for moment in own.events].count("First Token Stream Event") == 1


def test_cache_writes_have_their_old_name_beside_the_new() -> None:
    details = {"prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2}}
    chunks = [(50.0, calls.delta("a")), (51.0, calls.usage(1, details=details)), (52.0, calls.DONE)]
    told = of(calls.stream(chunks))
    told = replace(told, attribution=replace(told.attribution, cache_write_tokens=2))
    found = span_rows(told, aliases=True)[0].attributes
    assert found["gen_ai.usage.cache_write.input_tokens"] == 2
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 2
    assert found["gen_ai.usage.cache_read.input_tokens"] == 3
    assert "gen_ai.usage.cache_creation.input_tokens" not in span_rows(told)[0].attributes


def test_at_most_128_events_and_those_are_the_longest_stalls() -> None:
    told = of(healthy())
    stalls = tuple(
        Stall(at_ns=n * MS, ns=(n % 7) * MS, cause="server", confidence=1.0) for n in range(500)
    )
    told = replace(told, attribution=replace(told.attribution, stalls=stalls))
    own = span_rows(told, aliases=True)[0]
    assert len(own.events) == names.MOST_EVENTS == 128
    assert own.attributes["latscope.stalls"] == 500
    kept = [m.attributes["latscope.duration"] for m in own.events if m.name == "latscope.stall"]
    assert min(kept) == 0.005
    assert [m.unix_ns for m in own.events] == sorted(m.unix_ns for m in own.events)


def test_neighbours_that_say_the_same_are_one_piece_and_too_many_are_counted() -> None:
    told = of(healthy())

    def cut_into(n: int) -> tuple[Piece, ...]:
        return tuple(
            Piece(
                ns=n + 1,
                candidates=("decode",) if n % 2 else ("network",),
                provenance="measured",
                evidence=(str(n),),
            )
            for n in range(n)
        )

    same = tuple(replace(piece, candidates=("decode",)) for piece in cut_into(4))
    one = replace(told, attribution=replace(told.attribution, pieces=same))
    (row,) = pieces(span_rows(one))
    assert row.attributes["latscope.duration"] == 10e-9
    assert row.attributes["latscope.evidence"] == ("0", "1", "2", "3")
    many = replace(told, attribution=replace(told.attribution, pieces=cut_into(200)))
    rows = span_rows(many)
    assert len(pieces(rows)) == names.MOST_PIECES
    assert rows[0].attributes["latscope.pieces.left_out"] == 200 - names.MOST_PIECES
    assert pieces(rows)[0].attributes["latscope.duration"] == 73e-9


def test_inside_another_tools_span_nothing_counts_twice() -> None:
    own, *children = span_rows(of(healthy(trace=TRACE)), role="within", aliases=True)
    assert (own.name, own.kind, own.parent_id) == ("latscope", "internal", TRACE.span_id)
    assert own.span_id != TRACE.span_id
    assert {row.parent_id for row in children} == {TRACE.span_id}
    counted = ("usage", "token_count", "operation.name", "gen_ai.request")
    assert not [key for key in own.attributes if any(c in key for c in counted)]
    assert own.attributes["latscope.ttft"] == 0.1


def test_beside_another_tools_span_ours_stays_the_parent_and_counts_nothing() -> None:
    own, *children = span_rows(of(healthy(trace=TRACE)), role="beside")
    assert (own.name, own.span_id, own.parent_id) == ("latscope", "b" * 16, "c" * 16)
    assert {row.parent_id for row in children} == {own.span_id}
    assert not [key for key in own.attributes if "usage" in key or "operation" in key]


def test_a_call_outside_of_any_trace_gets_ids_that_follow_from_its_own() -> None:
    first, second = span_rows(of(healthy())), span_rows(of(healthy()))
    assert [row.span_id for row in first] == [row.span_id for row in second]
    assert first[0].parent_id is None
    assert len(first[0].trace_id) == 32


def test_circumstances_are_told_where_they_are_known() -> None:
    told = of(healthy(request={**REQUEST, "text": {"format": {"type": "text"}}, "n": 2}))
    excess = LoadExcess(
        ns=2 * MS, low_ns=MS, high_ns=3 * MS, floor_ns=9, n=60, provenance="inferred"
    )
    sample = Sample(rate=0.5, why="random")
    a = replace(told.attribution, load_excess=excess, sample=sample, profile="probed 2026-11-29")
    found = span_rows(replace(told, attribution=a))[0].attributes
    assert found["latscope.load_excess"] == 0.002
    assert (found["latscope.load_excess_low"], found["latscope.load_excess_high"]) == (0.001, 0.003)
    assert (found["latscope.sample.rate"], found["latscope.sample.why"]) == (0.5, "random")
    assert found["latscope.profile"] == "probed 2026-11-29"
    assert found["gen_ai.output.type"] == "text"
    assert found["gen_ai.request.choice.count"] == 2


def test_no_attribute_is_the_beginning_of_another() -> None:
    for row in span_rows(of(healthy(tags={"team": "x"})), aliases=True):
        keys = sorted(row.attributes)
        assert not [(a, b) for a in keys for b in keys if b.startswith(f"{a}.")]


def test_a_fetched_answer_states_no_usage() -> None:
    told = replace(of(healthy()), operation="fetch_response")
    assert not [key for key in span_rows(told, aliases=True)[0].attributes if "usage" in key]
