"""`latscope claims` against real engines: every row is there and says what it can; on a tiny model
and a busy machine a claim may well fail, so the verdicts are not asserted."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import latscope
from latscope.claims.model import CLAIMS, VERDICTS
from tests.engines import servers

REQUESTS = 70
SMALL = ("--requests", str(REQUESTS), "--longest", "480", "--source", "url")
"""A CPU computes a prompt token in a millisecond or more."""


def claims(*arguments: str) -> tuple[dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "latscope", "claims", "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line), done.stderr


def assert_told(found: dict[str, Any], source: str) -> dict[str, dict[str, Any]]:
    rows = {row["id"]: row for row in found["claims"] if row["source"] == source}
    assert list(rows) == list(CLAIMS)
    for row in rows.values():
        assert row["verdict"] in VERDICTS
        assert row["note"]
        if row["slope"] is None:
            assert row["verdict"] == "insufficient evidence"
        else:
            assert row["low"] <= row["slope"] <= row["high"]
    return rows


def assert_endpoint(server: servers.Server, save: Path) -> None:
    """Requests are shown first and bounded; what usage and stamps give is told, and the recordings
    saved tell the same again."""
    target = ("--url", server.base_url, "--model", server.model)
    found, said = claims(*target, "--save", str(save), *SMALL)
    rows = assert_told(found, "url")
    assert server.base_url in said.splitlines()[0]
    assert "requests" in said.splitlines()[0]
    saved = list(latscope.read(save))
    assert REQUESTS / 2 < len(saved) <= REQUESTS
    measured = set(CLAIMS) - {"cache-leaves-ttft", "cache-removes-recomputation"}
    measured -= {"recompute-to-read-ratio"}  # null where the step's slope spans zero
    assert all(rows[claim]["slope"] is not None for claim in measured), rows
    assert rows["recompute-to-read-ratio"]["note"].endswith(
        ("teaching constant is 12", "interval spans zero")
    )
    again, _ = claims(str(save), "--source", "file")
    assert_told(again, "file")


@pytest.mark.smoke
def test_llama(llama_server: servers.Server, tmp_path: Path) -> None:
    assert_endpoint(llama_server, tmp_path / "calls.jsonl")


def test_vllm(vllm_server: servers.Server, tmp_path: Path) -> None:
    """vLLM states its queue and prefill: the share of TTFT they cover is told."""
    save = tmp_path / "calls.jsonl"
    assert_endpoint(vllm_server, save)
    found, _ = claims(str(save), "--source", "file", "--claim", "ttft-is-queue-prefill-network",
                      "--allow-insufficient")  # fmt: skip
    (row,) = found["claims"]
    assert "of TTFT by the server's own figures" in row["note"]
