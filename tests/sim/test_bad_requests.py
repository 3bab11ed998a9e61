"""What the server makes of requests no call comes of, and of being started where it must not be."""

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from latscope.documents.scenarios import Scenario
from latscope.errors import EndpointError, UsageError
from latscope.protocols.dialect import Api
from latscope.sim.process import Running
from latscope.sim.server import KEPT, serve
from tests.sim.client import PATHS, ask, body_for

APIS: tuple[Api, ...] = ("chat", "completions", "responses", "messages")

TEXT = {"model": "healthy", "prompt": "x"}
BAD: tuple[tuple[str, Api, Any, int, str], ...] = (
    ("no JSON", "chat", b"{nope", 400, "not JSON"),
    ("nothing", "chat", b"", 400, "not JSON"),
    ("too deep", "chat", b"[" * 100_000, 400, "not JSON"),
    ("no object", "chat", b"[]", 400, "must be a JSON object"),
    ("no model", "chat", {"messages": [{}]}, 400, "model: field required"),
    ("odd model", "chat", {"model": 7, "messages": [{}]}, 400, "model: must be a string"),
    ("no prompt", "chat", {"model": "healthy", "messages": []}, 400, "messages: field required"),
    ("no input", "responses", {"model": "healthy"}, 400, "input: field required"),
    ("no cap", "messages", {"model": "healthy", "messages": [{}]}, 400, "max_tokens: field req"),
    ("odd cap", "completions", {**TEXT, "max_tokens": 0}, 400, "max_tokens: must"),
    ("odd stream", "completions", {**TEXT, "stream": 1}, 400, "stream: must"),
    ("many", "completions", {**TEXT, "n": 2}, 400, "one choice"),
    ("unknown model", "chat", {"model": "gpt", "messages": [{}]}, 404, "'gpt' does not exist"),
)


@pytest.mark.parametrize(
    ("api", "body", "status", "said"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_requests_are_refused_in_the_shape_of_the_api(
    running: Running, api: Api, body: Any, status: int, said: str
) -> None:
    found, answer = ask(running, "POST", PATHS[api], body)
    assert found == status
    assert said in answer["error"]["message"]
    assert answer.get("type") == ("error" if api == "messages" else None)


@pytest.mark.parametrize("api", APIS)
def test_an_unknown_model_is_not_found_and_the_known_ones_are_named(
    running: Running, api: Api
) -> None:
    body = body_for(api, "nothing-like-it", "x")
    status, answer = ask(running, "POST", PATHS[api], body)
    assert (status, answer["error"]["type"]) == (404, "model_not_found")
    assert "healthy, long-prompt" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/chat", 404),
        ("POST", "/health", 404),
        ("GET", "/", 404),
        ("GET", "/_latscope/truth/nothing", 404),
        ("GET", "/health/", 200),
    ],
)
def test_other_paths_and_methods(running: Running, method: str, path: str, status: int) -> None:
    assert ask(running, method, path, {} if method == "POST" else None)[0] == status


def test_an_upload_that_stops_midway_harms_nobody(running: Running) -> None:
    """The client goes away before its request is whole: no call comes of it, the server lives."""
    where = urlsplit(running.base_url)
    with socket.create_connection((where.hostname, where.port)) as raw:
        raw.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: sim\r\ncontent-length: 99\r\n\r\n{")
    assert ask(running, "GET", "/health")[0] == 200


def test_only_so_many_calls_are_remembered(running: Running) -> None:
    assert len(running.truths()) <= KEPT


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org", ""])
def test_only_this_machine_is_served(host: str) -> None:
    with pytest.raises(UsageError, match="this machine only"):
        serve(host, 0, [])


def test_nothing_to_serve_is_an_error() -> None:
    with pytest.raises(UsageError, match="no scenario to serve"):
        serve("127.0.0.1", 0, [])


def test_a_port_that_is_taken_is_named(running: Running) -> None:
    port = urlsplit(running.base_url).port or 0
    with pytest.raises(EndpointError, match=rf"127\.0\.0\.1:{port}: "):
        serve("127.0.0.1", port, [Scenario(name="x")])
