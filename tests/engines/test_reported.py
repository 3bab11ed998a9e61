"""What llama.cpp reports, against its own log: prefill and decode of every call, at every load."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.engines import servers

MS = 1_000_000
PROMPT = re.compile(r"task (\d+) \| prompt eval time =\s+([\d.]+) ms")
ANSWER = re.compile(r"task (\d+) \|\s+eval time =\s+([\d.]+) ms")


class Times(NamedTuple):
    prefill_ms: float
    decode_ms: float


def logged(log: str) -> list[Times]:
    """Of every task in the server's log, in the order they ended."""
    prefill = {task: float(ms) for task, ms in PROMPT.findall(log)}
    decode = {task: float(ms) for task, ms in ANSWER.findall(log)}
    return [Times(prefill[task], decode[task]) for task in decode]


@pytest.mark.parametrize(("calls", "at_once"), [(4, 1), (8, 4), (12, 8)])
def test_llama_against_its_log(
    llama_server: servers.Server, tmp_path: Path, calls: int, at_once: int
) -> None:
    """Four slots: of eight calls at once four wait, and none of that is prefill or decode."""
    before = len(logged(llama_server.log_path.read_text()))
    command = [sys.executable, "-m", "latscope", "probe", llama_server.base_url, "--json"]
    command += ["--model", llama_server.model, "-n", str(calls), "--concurrency", str(at_once)]
    command += ["--max-tokens", "12", "--prompt-tokens", "60"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    found = []
    for line in lines:
        share = {one["name"]: one for one in line["segments"]}
        assert share["prefill"]["provenance"] == share["decode"]["provenance"] == "reported"
        found.append(Times(share["prefill"]["ns"] / MS, share["decode"]["ns"] / MS))
    truth = logged(llama_server.log_path.read_text())[before:]
    assert len(truth) == calls + 1  # and the warm-up
    for own in found:
        off = min(
            abs(own.prefill_ms - t.prefill_ms) + abs(own.decode_ms - t.decode_ms) for t in truth
        )
        assert off <= max(2.0, 0.02 * (own.prefill_ms + own.decode_ms)), (own, truth)
    print(f"{at_once} at once: {len(found)} calls")
