"""`latscope probe` and instrumented SDKs on real engines: the server's figures are the judge."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

import latscope
from latscope.attribution import attribute, check_laws
from tests.engines import servers

MS = 1_000_000
COVERS = {
    "queue_time_ms": ("queue", "engine"),
    "time_to_first_token_ms": ("prefill", ""),
    "generation_time_ms": ("decode", ""),
    "prompt_ms": ("prefill", ""),
    "predicted_ms": ("decode", ""),
}
"""What each engine's own figure is the length of."""


def probe(server: servers.Server, save: Path, *args: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "latscope", "probe", f"{server.base_url}/v1"]
    command += ["--model", server.model, "--json", "--save", str(save), "--max-tokens", "32"]
    done = subprocess.run(
        [*command, *args], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def stated(recording: latscope.Recording) -> dict[str, float]:
    """The engine's figures in a saved body, read without latscope's decoders."""
    text = (recording.attempts[-1].body or b"").decode()
    payloads = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
    found: dict[str, float] = {}
    for payload in payloads or [text]:
        if payload != "[DONE]":
            collect(json.loads(payload), found)
    return found


def collect(value: Any, found: dict[str, float]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in COVERS and isinstance(inner, float | int):
                found[key] = float(inner)
            collect(inner, found)


def share_of(line: dict[str, Any], segment: str, part: str) -> dict[str, Any]:
    whole: dict[str, Any] = next(s for s in line["segments"] if s["name"] == segment)
    if not part:
        return whole
    found: dict[str, Any] = next(p for p in whole["parts"] if p["name"] == part)
    return found


def assert_conserved(line: dict[str, Any]) -> None:
    assert sum(s["ns"] for s in line["segments"]) == line["wall_ns"]
    if line["first_token_ns"] is not None:
        assert sum(s["ttft_ns"] for s in line["segments"]) == line["first_token_ns"]


def assert_reported(lines: list[dict[str, Any]], save: Path, figures: int) -> None:
    """Each figure in the body is its part's length within 1 ms, and says it was reported. The
    warm-up is saved but is never a line."""
    saved = {recording.call_id: recording for recording in latscope.read(save)}
    for line in lines:
        found = stated(saved[line["call_id"]])
        assert len(found) >= figures, found
        for field, ms in found.items():
            share = share_of(line, *COVERS[field])
            assert abs(share["ns"] - ms * MS) <= MS, (field, ms, share)
            assert share["provenance"] == "reported"


@pytest.mark.smoke
@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_vllm(vllm_server: servers.Server, tmp_path: Path, api: str) -> None:
    """Five lines, all conserved; queue.engine, prefill and decode are vLLM's own figures."""
    lines = probe(vllm_server, tmp_path / "calls.jsonl", "--api", api, "-n", "5")
    assert [line["status"] for line in lines] == ["complete"] * 5
    for line in lines:
        assert_conserved(line)
        assert line["output_tokens"] == 32
        assert line["api"] == api
    if api != "messages":  # vLLM reports no times there
        assert_reported(lines, tmp_path / "calls.jsonl", 3)
    else:
        assert any("queue" in entry["candidates"] for entry in lines[0]["unsplit"])


@pytest.mark.parametrize("api", ["chat", "completions", "responses", "messages"])
def test_vllm_not_streamed(vllm_server: servers.Server, tmp_path: Path, api: str) -> None:
    save = tmp_path / "calls.jsonl"
    lines = probe(vllm_server, save, "--api", api, "-n", "2", "--no-stream")
    for line in lines:
        assert_conserved(line)
        assert line["status"] == "complete"
        assert line["first_token_ns"] is None
    if api != "messages":
        assert_reported(lines, save, 3)


@pytest.mark.smoke
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_llama(llama_server: servers.Server, tmp_path: Path, api: str) -> None:
    """llama.cpp's timings come unasked and fill prefill and decode."""
    lines = probe(llama_server, tmp_path / "calls.jsonl", "--api", api, "-n", "3")
    for line in lines:
        assert_conserved(line)
        assert line["status"] == "complete"
    assert_reported(lines, tmp_path / "calls.jsonl", 2)


@pytest.mark.smoke
def test_through_nginx(nginx_server: servers.Server, tmp_path: Path) -> None:
    """The hop is seen, and time is conserved through it."""
    lines = probe(nginx_server, tmp_path / "calls.jsonl", "-n", "3")
    for line in lines:
        assert_conserved(line)
        assert line["status"] == "complete"
    assert_reported(lines, tmp_path / "calls.jsonl", 2)


def test_a_hop_that_holds_the_stream(vllm_server: servers.Server, tmp_path: Path) -> None:
    """gzip with buffering keeps everything to the end: a hold in TTFT, decode in the whole."""
    port = int(vllm_server.base_url.rsplit(":", 1)[1])
    with servers.nginx(port, http="1.1", buffering=True, gzip=True) as hop:
        lines = probe(hop, tmp_path / "calls.jsonl", "-n", "3", "-H", "Accept-Encoding: gzip")
    for line in lines:
        assert_conserved(line)
        network = share_of(line, "network", "")
        decode = share_of(line, "decode", "")
        assert network["ttft_ns"] > decode["ns"] / 2
        assert line["dominant"] == "decode"


@pytest.mark.smoke
def test_an_instrumented_sdk(vllm_server: servers.Server, tmp_path: Path) -> None:
    """The same call through the openai client: one recording, the same laws, no prompt in it."""
    path = tmp_path / "calls.jsonl"
    client = OpenAI(base_url=f"{vllm_server.base_url}/v1", api_key="canary-key-0123456789")
    latscope.instrument(client, sink=latscope.JSONLSink(path))
    answer = client.chat.completions.create(
        model=vllm_server.model,
        messages=[{"role": "user", "content": "canary-prompt-0123456789"}],
        max_tokens=16,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = sum(1 for _ in answer)
    assert latscope.flush(10.0)
    client.close()
    assert chunks > 2
    assert "canary" not in path.read_text()
    (recording,) = latscope.read(path)
    found = attribute(recording)
    check_laws(found)
    assert found.segment("prefill").provenance == "reported"
    assert found.output_tokens == 16


@pytest.mark.smoke
def test_an_unknown_model_is_told_what_there_is(vllm_server: servers.Server) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "latscope", "probe", vllm_server.base_url, "--model", "nope"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert vllm_server.model in done.stderr
