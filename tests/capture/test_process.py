"""The end of the interpreter, forks, and what outlives the instrument: said once, felt never."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from latscope.capture.instrument import attach, detach
from latscope.recording import Recording
from tests.capture import bodies, clients, outcomes, styles
from tests.capture.scripted import Reply, serving

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, os, sys
import {sdk}
import latscope

URL, FILE, INSTRUMENTED = sys.argv[1], sys.argv[2], sys.argv[3] == "yes"
ARGUMENTS = {arguments!r}

def made(kind):
    client = getattr({sdk}, kind)(api_key="k", base_url=URL, max_retries=0)
    return latscope.instrument(client, sink=latscope.JSONLSink(FILE)) if INSTRUMENTED else client

def create(client):
    api = client.chat.completions if hasattr(client, "chat") else client.messages
    return api.create(**ARGUMENTS, stream=True)

{body}
"""

EXITS = {
    "left open": """
stream = create(made("{sync}"))
next(stream)
""",
    "never iterated": """
stream = create(made("{sync}"))
""",
    "in the midst of it": """
for event in create(made("{sync}")):
    print("one", flush=True)
    sys.exit(3)
""",
    "by an exception": """
stream = create(made("{sync}"))
next(stream)
raise SystemExit("the end")
""",
    "of an event loop": """
async def main():
    global stream
    stream = await create(made("{async_}"))
    await stream.__anext__()

asyncio.run(main())
""",
}


def program(sdk: str, body: str) -> str:
    sync = {"openai": "OpenAI", "anthropic": "Anthropic"}[sdk]
    filled = body.replace("{sync}", sync).replace("{async_}", "Async" + sync)
    arguments = styles.CHAT if sdk == "openai" else styles.MESSAGE
    return PROGRAM.format(sdk=sdk, arguments=arguments, body=filled)


def ran(code: str, url: str, file: Path, instrumented: bool) -> "subprocess.CompletedProcess[str]":
    arguments = [url, str(file), "yes" if instrumented else "no"]
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


HELD = {"left open", "never iterated", "by an exception"}
"""Something still refers to the stream when the interpreter goes."""
LEFT = [*(("openai", case) for case in EXITS), ("anthropic", "left open")]


@pytest.mark.parametrize(("sdk", "case"), LEFT)
def test_the_interpreter_ends_with_a_stream_open(sdk: str, case: str, tmp_path: Path) -> None:
    """Same output, same exit code; the call is in the file, once, as left by the caller."""
    code, file = program(sdk, EXITS[case]), tmp_path / "calls.jsonl"
    ended = []
    for instrumented in (False, True):
        parts = bodies.CHAT_PARTS if sdk == "openai" else bodies.MESSAGE_PARTS
        with serving(*outcomes.stalled(parts)) as server:
            end = ran(code, server.url, file, instrumented)
        # A loop that ends closes all generators at once: what httpx2 then says is a matter of luck.
        said = "" if case == "of an event loop" else quiet(end.stderr)
        ended.append((end.returncode, end.stdout, said))
    assert ended[0] == ended[1]
    (line,) = lines(file)
    if case in HELD:
        assert line["end"] == {"reason": "abandoned", "detail": "exit"}
    else:
        assert line["end"]["reason"] in ("abandoned", "closed")
    assert len(line["attempts"]) == 1
    assert line.get("broken") is None


def quiet(stderr: str) -> str:
    """What the interpreter says on its way out, addresses and ports left out."""
    return "\n".join(
        line.partition(" at 0x")[0].partition("fd=")[0] for line in stderr.splitlines()
    )


FORK = """
stream = create(made("{sync}"))
next(stream)
child = os.fork()
if child == 0:
    del stream
    import gc
    gc.collect()
    list(create(made("{sync}")))
    latscope.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
stream.close()
"""


@pytest.mark.parametrize("sdk", ["openai"])
def test_a_fork_reports_its_own_calls_only(sdk: str, tmp_path: Path) -> None:
    """The child lets go of the parent's stream and makes a call: two recordings, one each."""
    file = tmp_path / "calls.jsonl"
    parts = bodies.CHAT_PARTS if sdk == "openai" else bodies.MESSAGE_PARTS
    with serving(*outcomes.stalled(parts), *outcomes.whole(parts)) as server:
        end = ran(program(sdk, FORK), server.url, file, True)
    assert (end.returncode, end.stdout) == (0, "")
    child, parent = lines(file)
    assert child["call_id"] != parent["call_id"]
    assert child["attempts"][0]["reads"]
    assert parent["end"] == {"reason": "closed", "detail": "close"}
    assert child["in_flight"] == 0


@pytest.mark.parametrize("kind", ["openai", "openai-httpx", "anthropic"])
def test_what_outlives_the_instrument_goes_on_unrecorded(kind: str) -> None:
    """A resource with raw responses is kept by the SDK: it works after as it did before. A stream
    that was open is still reported."""
    recordings: list[Recording] = []
    openai_ = kind.startswith("openai")
    whole = bodies.chat if openai_ else bodies.message
    parts = bodies.CHAT_PARTS if openai_ else bodies.MESSAGE_PARTS
    replies: list[Reply] = [*outcomes.whole(parts), whole(), whole()]
    with serving(*replies) as server, clients.make(kind, server.url, max_retries=0) as client:
        attach(client, done=recordings.append)
        raw = clients.api(client).with_raw_response
        stream = outcomes.opened(client)
        detach(client)
        assert recordings == []
        assert len(list(stream)) > 2
        assert len(recordings) == 1
        arguments = outcomes.arguments(client)
        assert raw.create(**arguments).parse().model == "tiny"
        assert clients.api(client.with_options(timeout=9)).create(**arguments).model == "tiny"
        gc.collect()
    assert len(recordings) == 1
    assert recordings[0].attempts[0].reads
