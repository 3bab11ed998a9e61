"""The examples of docs/examples, each run as it stands in its framework's own environment."""

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latscope.cli.main import run as latscope_run
from latscope.sim.process import Running, start

from .install import ROOT, installed, python

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
EXAMPLES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "litellm": (
        "litellm_calls.py",
        [("openai", CHAT), ("httpx", MESSAGES), ("openai", CHAT), ("openai", CHAT)],
    ),
    "pydantic-ai": ("pydantic_ai_agent.py", [("openai", CHAT), ("anthropic", MESSAGES)]),
    "langchain": (
        "langchain_chain.py",
        [("openai", CHAT), ("anthropic", MESSAGES), ("openai", CHAT), ("openai", CHAT)],
    ),
}
"""Framework: its file, and of each call it makes the client and the path."""

PLAIN: dict[str, str] = {
    "litellm": """
import asyncio, litellm
ask = dict(model="openai/healthy", api_base=base + "/v1", api_key="none", messages=[
    {"role": "user", "content": "hello"}])
litellm.completion(**ask)
for _ in litellm.completion(**ask, stream=True): pass
asyncio.run(litellm.acompletion(**ask))
litellm.completion(**ask | dict(model="anthropic/healthy", api_base=base))
""",
    "pydantic-ai": """
import os
os.environ.update(OPENAI_BASE_URL=base + "/v1", OPENAI_API_KEY="none",
                  ANTHROPIC_BASE_URL=base, ANTHROPIC_API_KEY="none")
from pydantic_ai import Agent
for model in ("openai-chat:healthy", "openai-responses:healthy", "anthropic:healthy"):
    Agent(model).run_sync("hello")
Agent("openai-chat:healthy").run_sync("hello again")
""",
    "langchain": """
import asyncio
from langchain_openai import ChatOpenAI
from langchain_anthropic import ChatAnthropic
first = ChatOpenAI(model="healthy", base_url=base + "/v1", api_key="none")
second = ChatAnthropic(model_name="healthy", base_url=base, api_key="none")
first.invoke("hello")
for _ in first.stream("hello"): pass
second.invoke("hello")
asyncio.run(second.ainvoke("hello"))
""",
}
"""Framework: a program of four calls that knows nothing of latscope."""


@pytest.fixture(scope="module")
def sim() -> Iterator[Running]:
    with start() as running:
        yield running


def wanted(name: str) -> str:
    if not installed(name):
        if os.environ.get("LATSCOPE_EXAMPLES_REQUIRED"):
            pytest.fail(f"{name} is not installed: python tests/examples/install.py {name}")
        pytest.skip(f"{name} is not installed; make examples does it")
    return name


@pytest.fixture(params=EXAMPLES)
def framework(request: pytest.FixtureRequest) -> str:
    return wanted(str(request.param))


def environment(**more: object) -> dict[str, str]:
    """A framework may ask for an update or send usage figures: no proxy leads anywhere."""
    closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    own = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1", **closed}
    return {**os.environ, **own, **{name: str(value) for name, value in more.items()}}


def run(*command: object) -> None:
    done = subprocess.run(
        [*map(str, command)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_example_records_each_of_its_calls_once(
    framework: str, sim: Running, tmp_path: Path
) -> None:
    """In one turn, whole, from the client it was given, and without a word of what was said."""
    file, calls = EXAMPLES[framework]
    path = tmp_path / "calls.jsonl"
    before = len(sim.truths())
    run(python(framework), f"docs/examples/{file}", sim.base_url, path)
    found = records(path)
    assert [(row["sdk"].partition("/")[0], row["target"]["path"]) for row in found] == calls
    assert len(sim.truths()) - before == len(calls)
    assert {row["turn"] for row in found} == {framework}
    assert {row["attempts"][-1]["status"] for row in found} == {200}
    assert not [row["broken"] for row in found if "broken" in row]
    assert "Where is my order" not in path.read_text()


def test_a_program_that_knows_nothing_of_latscope_is_recorded_under_run(
    framework: str, sim: Running, tmp_path: Path
) -> None:
    """Each of its four calls once, whatever client the framework made for it."""
    program = tmp_path / "app.py"
    program.write_text(f"import sys\nbase = sys.argv[1]\n{PLAIN[framework]}")
    path = tmp_path / "calls.jsonl"
    before = len(sim.truths())
    interpreter = python(framework)
    run(
        interpreter.with_name("latscope"), "run", "-o", path, "--",
        interpreter, program, sim.base_url,
    )  # fmt: skip
    paths = [row["target"]["path"] for row in records(path)]
    assert len(paths) == len(sim.truths()) - before == 4
    assert {row["attempts"][-1]["status"] for row in records(path)} == {200}


def test_a_fastapi_service_shows_its_requests_around_their_calls(
    sim: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its routes' templates; an endpoint that is a plain function runs in a thread. The stream
    of the second call is passed on: the first byte left before that call was over."""
    interpreter = python(wanted("fastapi"))
    path = tmp_path / "calls.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.set_inheritable(True)
        base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        with subprocess.Popen(
            [
                *(interpreter, "-m", "uvicorn", "--app-dir", "docs/examples", "fastapi_app:app"),
                *("--fd", str(sock.fileno())),
            ],
            cwd=ROOT,
            env=environment(BASE_URL=sim.base_url, LATSCOPE_FILE=path),
            pass_fds=[sock.fileno()],
            stderr=subprocess.PIPE,
        ) as server:
            try:
                for name, where in (("order-4711", "/orders/4711"), ("s-1", "/summary")):
                    asked = urllib.request.Request(base + where, headers={"x-request-id": name})
                    with urllib.request.urlopen(asked, timeout=60) as answer:
                        assert answer.status == 200
                        assert len(answer.read()) > 20
            finally:
                server.send_signal(signal.SIGINT)
                server.communicate(timeout=60)
    assert latscope_run(["turns", str(path), "--json"]) == 0
    found = [json.loads(line)["turns"][0] for line in capsys.readouterr().out.splitlines()]
    shown = [(turn["name"], turn["inbound"][0]["route"], len(turn["calls"])) for turn in found]
    assert shown == [("order-4711", "/orders/{number}", 2), ("s-1", "/summary", 1)]
    first = found[0]["inbound"][0]["first_byte"]
    assert first["call"] == found[0]["calls"][1]["call_id"]
    assert first["held"] is False
    assert "4711" not in path.read_text().replace("order-4711", "")
