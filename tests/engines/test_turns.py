"""`latscope turns` and where a prompt broke the cache, on real vLLM: the test's own stamps and the
server's own count of cached tokens are the judge."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from openai import OpenAI

import latscope
from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.rules.prefixes import Prompt, common, judged, prompt_of, reusable
from tests.engines import servers
from tests.engines.conftest import need

S = 1_000_000_000
KEY = b"a key of these tests"
NEAR = S // 10
"""How far a gap may be off the test's own stamps: what the SDK does before its call is entered."""
RATIO = 0.05
"""How much the tokens a byte may differ between the parts of one prompt."""
SYSTEM = "You answer questions about a language and its library, shortly and with an example. "
FACTS = "An expression list containing at least one comma yields a tuple, whose length is known. "

Message = dict[str, Any]


def client_of(server: servers.Server, save: Path) -> OpenAI:
    client = OpenAI(base_url=f"{server.base_url}/v1", api_key="none", max_retries=0)
    return latscope.instrument(client, sink=latscope.JSONLSink(str(save)), prefix=KEY)


def ask(client: OpenAI, model: str, messages: list[Message]) -> str:
    asked: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": 8}
    asked |= {"stream": True, "stream_options": {"include_usage": True}}
    stream = client.chat.completions.create(**asked)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def turns(save: Path) -> list[dict[str, Any]]:
    latscope.flush()
    command = [sys.executable, "-m", "latscope", "turns", str(save), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.smoke
def test_five_calls_a_second_apart(vllm_server: servers.Server, tmp_path: Path) -> None:
    """Five calls, four gaps of a second, each the caller's own; calls and gaps are the turn."""
    save = tmp_path / "calls.jsonl"
    client = client_of(vllm_server, save)
    slept: list[int] = []
    with latscope.turn("five"):
        for number in range(5):
            if number:
                begin = time.monotonic_ns()
                time.sleep(1)
                slept.append(time.monotonic_ns() - begin)
            ask(client, vllm_server.model, [{"role": "user", "content": f"{FACTS}{number}"}])
    (session,) = turns(save)
    (turn,) = session["turns"]
    assert (session["tie"], turn["name"]) == ("turn", "five")
    assert len(turn["calls"]) == 5
    assert [gap["owner"] for gap in turn["gaps"]] == ["you"] * 4
    off = [gap["ns"] - own for gap, own in zip(turn["gaps"], slept, strict=True)]
    print("gaps longer than the sleeps by", [round(ns / 1e6, 2) for ns in off], "ms")
    assert all(-NEAR / 100 <= ns <= NEAR for ns in off), off
    walls = sum(call["wall_ns"] for call in turn["calls"])
    assert walls + turn["outside_ns"] == turn["wall_ns"]
    assert turn["critical_path"]["calls"] == [call["call_id"] for call in turn["calls"]]
    assert not turn["overlaps"]


def test_a_loop_of_19_calls_where_2_suffice(vllm_server: servers.Server, tmp_path: Path) -> None:
    """18 rounds of one tool result each are told as a loop, and what the 17 in the middle took."""
    save = tmp_path / "calls.jsonl"
    client = client_of(vllm_server, save)
    messages: list[Message] = [{"role": "user", "content": FACTS * 8}]
    with latscope.turn("loop"):
        for number in range(19):
            ask(client, vllm_server.model, messages)
            called = {"name": "look_up", "arguments": json.dumps({"number": number})}
            messages += [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": f"call_{number}", "type": "function", "function": called}
                    ],
                },
                {"role": "tool", "tool_call_id": f"call_{number}", "content": f"found {number}"},
            ]
    (session,) = turns(save)
    (turn,) = session["turns"]
    (loop,) = turn["loops"]
    assert (loop["calls"], loop["tool_results"], loop["suffice"]) == (19, 18, 2)
    middle = [call["wall_ns"] for call in turn["calls"][1:-1]]
    assert loop["saved_ns"] == sum(middle)
    assert turn["could_overlap"] == []


def chat(client: OpenAI, model: str, messages: list[Message]) -> None:
    ask(client, model, messages)


def responses(client: OpenAI, model: str, messages: list[Message]) -> None:
    asked: dict[str, Any] = {"model": model, "input": messages, "max_output_tokens": 8}
    for _ in client.responses.create(**asked, stream=True):
        pass


def messages_api(client: OpenAI, model: str, messages: list[Message]) -> None:
    """Anthropic's form, through its own client."""
    from anthropic import Anthropic

    other = Anthropic(base_url=str(client.base_url).removesuffix("/v1/"), api_key="none")
    own = latscope.instrument(other, sink=SINKS[-1], prefix=KEY)
    system = [part["content"] for part in messages if part["role"] == "system"]
    rest = [part for part in messages if part["role"] != "system"]
    with own.messages.stream(
        model=model,
        max_tokens=8,
        system="".join(system),
        messages=rest,  # type: ignore[arg-type]
    ) as stream:
        for _ in stream:
            pass


SINKS: list[latscope.JSONLSink] = []


def conversation() -> list[tuple[str, list[Message]]]:
    """Prompts one after another: what was changed, and the messages."""
    system = {"role": "system", "content": SYSTEM * 12}
    said: list[Message] = [system]
    for number in range(3):
        said += [
            {"role": "user", "content": f"Question {number}: {FACTS * 5}"},
            {"role": "assistant", "content": f"Answer {number}: {FACTS * 4}"},
        ]
    first = [*said[:3], {"role": "user", "content": "And then? " * 20}]
    longer = [*first, said[4], {"role": "user", "content": "Why? " * 30}]
    inside = [*longer[:2], {**longer[2], "content": f"Once: {longer[2]['content']}"}, *longer[3:]]
    front = [{**system, "content": f"It is 12:00. {SYSTEM * 12}"}, *longer[1:]]
    return [("first", first), ("longer", longer), ("history", inside), ("system", front)]


@pytest.fixture(scope="module")
def fine_server() -> Iterator[servers.Server]:
    """vLLM with the smallest blocks it takes on a CPU: 32 tokens, where 16 are usual on GPUs."""
    need("vllm")
    with servers.vllm(extra_args=["--block-size", "32"]) as server:
        yield server


def grain_of(server: servers.Server) -> int:
    """Tokens in a block of the server's cache, as it says itself."""
    with urlopen(f"{server.base_url}/metrics") as page:
        found = re.search(r'cache_config_info\{.*block_size="(\d+)"', page.read().decode())
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("send", [chat, responses, messages_api])
def test_cached_tokens_after_a_break_are_as_predicted(
    fine_server: servers.Server, tmp_path: Path, send: Callable[..., None]
) -> None:
    """vLLM's own count of cached tokens lies in what the hashes predict: one of our blocks wide
    (256 bytes), give or take one of vLLM's and 5 % for the parts' tokens a byte."""
    grain = grain_of(fine_server)
    save = tmp_path / "calls.jsonl"
    sink = latscope.JSONLSink(str(save))
    SINKS.append(sink)
    client = client_of(fine_server, save)
    prompts = conversation()
    nonce = f"{time.time_ns()} "  # what an earlier test left in the cache is not this one's
    for _, messages in prompts:
        system = {**messages[0], "content": nonce + messages[0]["content"]}
        send(client, fine_server.model, [system, *messages[1:]])
    latscope.flush()
    calls = [to_mapping(attribute(call)) for call in latscope.read(save)]
    seen: list[Prompt] = []
    parts: dict[str, str] = {}
    for (name, _), call in zip(prompts, calls, strict=True):
        prompt = prompt_of(call)
        like = max(seen, key=lambda one: common(one.hashes, prompt.hashes), default=None)
        kept = 0 if like is None else common(like.hashes, prompt.hashes)
        found = reusable(kept, prompt, grain, like)
        assert found is not None
        assert prompt.tokens is not None
        slack = grain + RATIO * prompt.tokens
        told = f"of {prompt.tokens} cached {prompt.cached} predicted {found[0]} to {found[1]}"
        print(f"{send.__name__} {name}: {told}, blocks of {grain}")
        if prompt.cached is None:
            pytest.skip("this server does not count cached tokens here")
        assert found[0] - slack <= prompt.cached <= found[1] + slack
        broken = judged(seen, prompt)
        parts[name] = "" if broken is None else f"{broken.part} to {broken.to}"
        seen.append(prompt)
    assert (parts["first"], parts["longer"]) == ("", "None to None")
    assert "assistant" in parts["history"]
    assert parts["system"].count("system") == 2
