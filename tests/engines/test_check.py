"""`latscope check` on real vLLM: what was done to the server is what the runbooks find."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

import latscope
from tests.engines import servers
from tests.engines.conftest import need

KEY = b"a key of these tests"
CALLS = 48
SLOTS = 2
RULES = "Answer from the handbook alone, name the page, and say so where it is silent. "
HANDBOOK = "A shipment that leaves the harbour after noon is counted for the day that follows it. "
QUESTION = "Which day is a shipment counted for that leaves at {number} o'clock?"


@pytest.fixture(scope="module")
def server() -> Iterator[servers.Server]:
    """vLLM that answers two calls at once; the others wait."""
    need("vllm")
    with servers.vllm(extra_args=["--max-num-seqs", str(SLOTS)]) as found:
        yield found


def messages(number: int, *, first: str = "", more: int = 0) -> list[dict[str, str]]:
    """A long beginning that stays, and a short question; `first` stands before everything."""
    system = f"{first}{RULES}{HANDBOOK * 24}"
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": QUESTION.format(number=number) + HANDBOOK * more},
    ]


def ask(base_url: str, save: Path, asked: list[list[dict[str, str]]], **how: Any) -> Path:
    """The calls, `at_once` of them at a time, recorded in `save`."""
    client = OpenAI(
        base_url=f"{base_url}/v1",
        api_key="none",
        max_retries=0,
        default_headers=how.get("headers"),
    )
    latscope.instrument(client, sink=latscope.JSONLSink(str(save)), prefix=KEY)

    def one(prompt: list[dict[str, str]]) -> None:
        request: dict[str, Any] = {"model": servers.MODEL, "messages": prompt}
        request |= {"max_tokens": how.get("tokens", 8), "stream": True}
        request |= {"stream_options": {"include_usage": True}}
        for _ in client.chat.completions.create(**request):
            pass

    with ThreadPoolExecutor(how.get("at_once", 1)) as pool:
        list(pool.map(one, asked))
    assert latscope.flush(30)
    return save


def checked(save: Path, *options: str) -> dict[str, dict[str, Any]]:
    """By runbook what is open."""
    command = [sys.executable, "-m", "latscope", "check", str(save), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1, 4), done.stderr
    found = json.loads(done.stdout)["findings"]
    return {one["runbook"]: one for one in found if one["verdict"] == "open"}


def named(finding: dict[str, Any]) -> list[str]:
    return [cause["id"] for cause in finding["causes"] if cause["named"]]


@pytest.fixture(scope="module")
def healthy(server: servers.Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One call after the other; the first, which fills the cache, is not among them."""
    folder = tmp_path_factory.mktemp("check")
    ask(server.base_url, folder / "warm.jsonl", [messages(0)])
    return ask(server.base_url, folder / "healthy.jsonl", [messages(n) for n in range(CALLS)])


def test_a_healthy_server_opens_nothing_severe(healthy: Path) -> None:
    assert [one for one in checked(healthy).values() if one["severity"] != "info"] == []


def test_more_calls_than_slots_are_a_queue(
    server: servers.Server, healthy: Path, tmp_path: Path
) -> None:
    calls = [messages(number) for number in range(CALLS)]
    save = ask(server.base_url, tmp_path / "queue.jsonl", calls, at_once=6 * SLOTS)
    found = checked(save, "--baseline", str(healthy))
    assert found["slow-first-token"]["segment"].startswith("queue")


def test_prompts_that_grew_are_prefill(
    server: servers.Server, healthy: Path, tmp_path: Path
) -> None:
    calls = [messages(number, more=60) for number in range(CALLS)]
    save = ask(server.base_url, tmp_path / "grown.jsonl", calls)
    found = checked(save, "--baseline", str(healthy))["slow-first-token"]
    assert found["segment"].startswith("prefill")
    print("named", named(found))


def test_what_changes_moved_to_the_front_is_a_broken_cache(
    server: servers.Server, healthy: Path, tmp_path: Path
) -> None:
    calls = [messages(number, first=f"Request {number:04d}. ") for number in range(CALLS)]
    save = ask(server.base_url, tmp_path / "moved.jsonl", calls)
    found = checked(save, "--baseline", str(healthy))["slow-first-token"]
    assert found["segment"].startswith("prefill")
    print("named", named(found))
    assert any("cache" in name or "prefix" in name for name in named(found))


def test_a_hop_that_buffers_is_told_with_its_setting(
    server: servers.Server, tmp_path: Path
) -> None:
    port = int(server.base_url.rsplit(":", 1)[1])
    calls = [messages(number) for number in range(24)]
    with servers.nginx(port, gzip=True) as hop:
        save = ask(
            hop.base_url,
            tmp_path / "held.jsonl",
            calls,
            tokens=24,
            headers={"Accept-Encoding": "gzip"},
        )
    found = checked(save)["buffered-stream"]
    assert "network" in found["segment"]
    print("named", named(found), found["segment"], found["actions"])
    assert any("nginx" in action for action in found["actions"])
