"""What is settled while the caller waits: what samplers see, and a context left as it was."""

import contextvars
import logging
from collections.abc import Generator
from typing import Any

import httpx2
import pytest
from opentelemetry import trace

import latscope
from latscope.export.otel.entry import known_early, model_in
from latscope.export.otel.sink import OTelSink
from tests.export.otel.conftest import Seen

BODY = {"model": "tiny-1", "messages": []}


def request(path: str, **how: Any) -> httpx2.Request:
    return httpx2.Request("POST", f"https://api.openai.com{path}", **how)


def test_samplers_see_what_the_conventions_want_them_to_see() -> None:
    name, attributes = known_early(request("/v1/chat/completions", json=BODY))
    assert name == "chat tiny-1"
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny-1",
        "server.address": "api.openai.com",
        "server.port": 443,
    }


def test_of_what_is_no_inference_they_see_the_server() -> None:
    name, attributes = known_early(request("/v1/models"))
    assert (name, set(attributes)) == ("HTTP", {"server.address", "server.port"})


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"messages":[{"content":"say \\"model\\":\\"wrong\\""}],"model":"right"}', "right"),
        (b'{"tools":[{"model":{"type":"string"}}],"model" : "right"}', "right"),
        (b'{"x":"' + b"y" * 2_000_000 + b'","model":"right"}', "right"),
        (b'{"model":"not a name"}', None),
        (b"{}", None),
        (b"", None),
    ],
)
def test_the_model_is_read_from_the_request(body: bytes, model: str | None) -> None:
    found = request("/v1/chat/completions", content=body)
    assert model_in(found, "/v1/chat/completions") == model


def test_a_body_that_is_a_stream_is_not_touched() -> None:
    parts = iter([b'{"model":"tiny-1"}'])
    assert model_in(request("/v1/chat/completions", content=parts), "/v1/x") is None
    assert list(parts) == [b'{"model":"tiny-1"}']


@pytest.mark.parametrize(
    "path",
    [
        "/openai/deployments/gpt-x/chat/completions",
        "/v1beta/models/gpt-x:generateContent",
        "/model/gpt-x/invoke",
    ],
)
def test_or_from_its_path(path: str) -> None:
    assert model_in(request(path), path) == "gpt-x"


class Forever:
    def __await__(self) -> Generator[None, None, None]:
        while True:
            yield


class Silent(httpx2.AsyncBaseTransport):
    """Never answers."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await Forever()
        raise AssertionError


def test_a_call_thrown_away_in_another_context_leaves_no_trace_there(
    otel: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    client, recorded = httpx2.AsyncClient(transport=Silent()), list[latscope.Recording]()
    latscope.instrument(client, sink=[OTelSink(otel.tracers, otel.meters), recorded.append])
    call = client.post("http://model/v1/chat/completions", json=BODY)
    begun, other = contextvars.copy_context(), contextvars.copy_context()
    begun.run(call.send, None)
    with caplog.at_level(logging.DEBUG):
        other.run(call.close)
    for context in (begun, other):
        current = context.run(trace.get_current_span).get_span_context()
        assert current.is_valid is (context is begun)  # the one it was thrown away in stays clean
    assert "detach" not in caplog.text
    assert latscope.flush()
    assert [call.broken for call in recorded] == [()]
    (own,) = otel.named("chat tiny-1")
    assert own.attributes is not None
    assert own.attributes["latscope.status"] == "cancelled"


def test_a_call_cancelled_before_headers_leaves_its_own_context_clean(otel: Seen) -> None:
    client = httpx2.AsyncClient(transport=Silent())
    latscope.instrument(client, sink=OTelSink(otel.tracers, otel.meters))
    call = client.post("http://model/v1/chat/completions", json=BODY)
    context = contextvars.copy_context()
    context.run(call.send, None)
    assert context.run(trace.get_current_span).get_span_context().is_valid
    with pytest.raises(KeyboardInterrupt):
        context.run(call.throw, KeyboardInterrupt)
    assert not context.run(trace.get_current_span).get_span_context().is_valid
