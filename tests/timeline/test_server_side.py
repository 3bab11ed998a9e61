"""What spans say without a call: a hop's own time, an engine's request."""

from typing import Any

from latscope.protocols.events import Reported
from latscope.recording import ServerSpan
from latscope.timeline.hops import gateway_ns
from latscope.timeline.serverside import requests
from latscope.units import MS
from tests.calls import call
from tests.spans import request, span, vllm_attributes


def told(*spans: ServerSpan) -> list[tuple[str, str, float]]:
    found = gateway_ns(call(spans=spans))
    assert all(isinstance(figure, Reported) for figure in found)
    return [(figure.field, figure.covers, figure.ns / MS) for figure in found]


def vllm(id: int, queue: float, prefill: float, decode: float, **how: Any) -> ServerSpan:
    attributes = {
        key.replace(".", "__"): value
        for key, value in vllm_attributes(queue, prefill, decode).items()
    }
    return request(id, **attributes, **how)


def test_a_hop_that_spans_its_own_request_is_measured() -> None:
    hop, upstream = span(1, ms=90), span(2, parent=1, kind="client", at=2, ms=80)
    assert told(hop, upstream, request(3, parent=2, at=3, ms=70)) == [
        ("hop", "network.gateway", 10)
    ]


def test_of_tries_that_overlap_the_time_counts_once() -> None:
    tries = [
        span(2, parent=1, kind="client", ms=30),
        span(3, parent=1, kind="client", at=20, ms=40),
    ]
    tries.append(span(4, parent=1, kind="client", at=25, ms=5))
    assert told(span(1, ms=90), *tries) == [("hop", "network.gateway", 30)]


def test_between_two_hops_all_is_network() -> None:
    assert told(span(1, ms=90, service=""), span(2, parent=1, service="router", ms=85)) == [
        ("hop", "network.gateway", 5)
    ]


def test_against_the_engines_span_the_difference_is_only_stated() -> None:
    """What the model server did before its span began is in it too."""
    assert told(span(1, ms=90), request(2, parent=1, ms=70)) == [("hop", "stated", 20)]
    assert told(span(1, ms=90), request(2, parent=1, ms=95)) == [("hop", "stated", 0)]


def test_what_is_no_hop_or_waited_for_nothing_has_no_time_of_its_own() -> None:
    assert told(span(1), request(2), span(3, parent=1, kind="internal")) == []
    assert told(span(1, kind="client"), span(2, parent=1)) == []


def test_a_request_of_vllm_from_its_span_alone() -> None:
    (found,) = requests([span(9, ms=40), vllm(1, 0.002, 0.009, 0.02, parent=9, at=3, ms=33)])
    assert (found.service, found.source, found.request_id) == ("vllm", "vllm.otel", "chatcmpl-1")
    times = (found.queue_ns, found.frontend_ns, found.prefill_ns, found.decode_ns)
    assert times == (2 * MS, 1 * MS, 9 * MS, 20 * MS)
    assert (found.first_token_ns, found.e2e_ns) == (12 * MS, 32 * MS)
    assert (found.input_tokens, found.output_tokens) == (10, 5)
    assert [(hop.covers, hop.ns) for hop in found.hops] == [("stated", 7 * MS)]


def test_a_request_of_sglang_takes_its_queue_from_the_slice() -> None:
    spans = [
        span(
            1,
            name="Req",
            source="sglang.otel",
            service="sglang",
            rid="abc",
            gen_ai__latency__time_in_model_prefill=0.03,
            gen_ai__latency__time_to_first_token=0.032,
            gen_ai__latency__e2e=0.1,
        ),
        span(2, parent=1, name="prefill_waiting", source="sglang.otel", prefill_waiting=20 * MS),
        span(3, parent=1, name="prefill_forward", source="sglang.otel", prefill_forward=9 * MS),
    ]
    (found,) = requests(spans)
    assert found.request_id == "abc"
    assert (found.queue_ns, found.prefill_ns) == (20 * MS, 9 * MS)
    assert found.frontend_ns == 2 * MS
    again = span(4, parent=1, name="prefill_waiting", source="sglang.otel", prefill_waiting=5 * MS)
    (retracted,) = requests([*spans, again])
    assert retracted.queue_ns is None


def test_what_is_not_stated_is_null_and_the_earliest_comes_first() -> None:
    late, bare = vllm(1, 0.001, 0.001, 0.001, at=50), request(2)
    first, second = requests([late, bare, span(3)])
    assert (first.queue_ns, first.frontend_ns, first.e2e_ns, first.input_tokens) == (None,) * 4
    assert first.request_id is None
    assert second.queue_ns == 1 * MS
