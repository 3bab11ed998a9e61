"""Spans of a real vLLM, received while calls run and joined to them: sent by vLLM itself over
OTLP/HTTP, and over gRPC through a real collector."""

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from latscope.cli.main import run
from latscope.documents import recordings
from latscope.protocols.otlp import is_request
from latscope.recording import to_line
from tests.engines import collector, servers, traced
from tests.engines.conftest import need

CALLS = 10
SOON = {"OTEL_SERVICE_NAME": "vllm", "OTEL_BSP_SCHEDULE_DELAY": "500"}
HTTP = {**SOON, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
LISTENED = "8s"


@contextlib.contextmanager
def vllm(way: str, port: int, folder: Path) -> Iterator[servers.Server]:
    """A vLLM whose spans end at `port` of this machine."""
    need("vllm")
    if way == "http":
        otlp = f"http://127.0.0.1:{port}/v1/traces"
        with servers.vllm(otlp=otlp, extra_env=HTTP) as server:
            yield server
        return
    need("collector")
    with (
        collector.running(folder, to=port) as between,
        servers.vllm(otlp=f"http://127.0.0.1:{between.grpc}", extra_env=SOON) as server,
    ):
        yield server


@pytest.mark.parametrize("way", ["http", "grpc through a collector"])
def test_ten_calls_are_joined_while_they_are_probed(
    way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = servers.free_port()
    saved = tmp_path / "calls.jsonl"
    with vllm(way, port, tmp_path) as server:
        arguments = ["probe", server.base_url, "--model", servers.MODEL, "-n", str(CALLS)]
        arguments += ["--receive-spans", f"127.0.0.1:{port}", "--save", str(saved), "--json"]
        code = run(arguments)
    said = capsys.readouterr()
    assert code == 0, said.err
    assert f"{CALLS} of {CALLS} calls joined to spans of the server" in said.err
    calls = [json.loads(line) for line in said.out.splitlines()]
    assert len(calls) == CALLS
    for call in calls:
        assert "vllm.otel" in {figure["source"] for figure in call["reported"]}
    found = list(recordings.read(saved))
    assert len(found) == CALLS + 1  # the warm-up
    for recording in found:
        assert [span.joined for span in recording.spans if is_request(span)] == ["parent"]


def test_join_listens_while_calls_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = servers.free_port()
    file, out = tmp_path / "calls.jsonl", tmp_path / "joined.jsonl"
    with vllm("http", port, tmp_path) as server:

        def calling() -> None:
            made = traced.calls(server.base_url, ["chat"] * CALLS, trace_id="ab" * 16)
            file.write_text("".join(to_line(call) + "\n" for call in made))

        caller = threading.Thread(target=calling)
        caller.start()
        arguments = ["join", str(file), "--listen", f"127.0.0.1:{port}", "--for", LISTENED]
        code = run([*arguments, "-o", str(out), "--json"])
        caller.join()
    assert code == 0
    account = json.loads(capsys.readouterr().out)
    assert account["joined"]["parent"] == CALLS
    assert all(len(call.spans) == 1 for call in recordings.read(out))
