"""The test bed itself: engines answer, proxies hold or pass, nothing stays behind."""

import json
import os
from urllib.parse import urlsplit

import pytest

from tests.engines import servers
from tests.engines.cases import chat, completion, message
from tests.engines.conftest import need
from tests.engines.record import Capture, Chunked, call

HELD_READS = 2  # 32 events in this many reads or fewer were held back; a busy machine merges some
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def body(capture: Capture) -> str:
    """Join what the reads carried."""
    return "".join(text for _, _, text in capture.reads)


def output_tokens(capture: Capture) -> int:
    """Find the server's own count in the stream's last chunk but [DONE]."""
    last = body(capture).strip().split("\n\n")[-2].removeprefix("data: ")
    return int(json.loads(last)["usage"]["completion_tokens"])


@pytest.mark.parametrize("engine", ["vllm", "llama"])
def test_a_stream_has_exactly_the_tokens_asked_for(
    engine: str, request: pytest.FixtureRequest
) -> None:
    """The models never end by themselves, whatever the seed."""
    server: servers.Server = request.getfixturevalue(f"{engine}_server")
    for seed in range(3):
        for case in (chat(STREAM, {"seed": seed}), completion(STREAM, {"seed": seed})):
            capture = call(server.base_url, "length", case)
            assert capture.status == 200
            assert output_tokens(capture) == 32


@pytest.mark.parametrize("engine", ["vllm", "llama"])
def test_the_messages_api_stops_at_the_limit(engine: str, request: pytest.FixtureRequest) -> None:
    """It has no `ignore_eos`; the model needs none."""
    server: servers.Server = request.getfixturevalue(f"{engine}_server")
    answer = json.loads(body(call(server.base_url, "limit", message())))
    assert answer["stop_reason"] == "max_tokens"
    assert answer["usage"]["output_tokens"] == 32


def test_vllm_reports_figures_of_each_request(vllm_server: servers.Server) -> None:
    """They ride on the chunk that carries usage."""
    last = body(call(vllm_server.base_url, "figures", chat(STREAM))).split("\n\n")[-3]
    assert {"queue_time_ms", "time_to_first_token_ms"} <= json.loads(last[6:])["metrics"].keys()


def test_nginx_passes_a_stream_on(nginx_server: servers.Server) -> None:
    """With HTTP/1.1 to the engine the events come through as they are made."""
    assert len(call(nginx_server.base_url, "passed", chat(STREAM)).reads) > HELD_READS


@pytest.mark.parametrize(
    ("engine", "http", "gzip", "heed_upstream", "held"),
    [
        pytest.param("vllm", "1.1", True, True, True, id="vllm-gzip-holds"),
        pytest.param("vllm", "1.0", False, True, False, id="vllm-http-1.0-passes"),
        pytest.param("llama", "1.1", True, True, False, id="llama-forbids-holding"),
        pytest.param("llama", "1.1", True, False, True, id="llama-not-heeded"),
        pytest.param("llama", "1.0", False, False, False, id="llama-http-1.0-passes"),
    ],
)
def test_nginx_holds_a_stream(
    engine: str,
    http: str,
    gzip: bool,
    heed_upstream: bool,
    held: bool,
    request: pytest.FixtureRequest,
) -> None:
    """Compressing holds; HTTP/1.0 would, but both engines chunk even for such a client."""
    need("nginx")
    server: servers.Server = request.getfixturevalue(f"{engine}_server")
    port = urlsplit(server.base_url).port or 80
    case = chat(STREAM, headers={"Accept-Encoding": "gzip"})
    with servers.nginx(port, http=http, gzip=gzip, heed_upstream=heed_upstream) as proxy:
        reads = call(proxy.base_url, "held", case).reads
    assert (len(reads) <= HELD_READS) is held


def test_a_dead_engine_shows_its_log() -> None:
    """The error carries what the engine said last."""
    need("llama")
    with (
        pytest.raises(servers.EngineError, match="no-such-flag"),
        servers.llama(extra_args=["--no-such-flag"]),
    ):
        pass


def test_nothing_stays_behind() -> None:
    """Process group, log and temporary files go with the block."""
    need("llama")
    with servers.llama() as server:
        os.killpg(server.pid, 0)
        assert server.log_path.exists()
    assert not server.log_path.parent.exists()
    with pytest.raises(ProcessLookupError):
        os.killpg(server.pid, 0)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunks_are_taken_off_at_any_cut(size: int) -> None:
    """Sizes, line ends and trailers may be cut anywhere."""
    wire = b"5\r\nhello\r\n1;x=y\r\n\n\r\n0\r\n\r\n"
    decoder = Chunked()
    parts = [decoder.feed(wire[at : at + size]) for at in range(0, len(wire), size)]
    assert b"".join(parts) == b"hello\n"
    assert decoder.ended
