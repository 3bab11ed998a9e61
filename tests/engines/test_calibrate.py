"""`latscope calibrate` against real engines: what it finds agrees with what the engine states, or
it refuses and says why; the machine may be busy, so nothing is said of how long anything takes."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import latscope
from latscope.documents import profiles
from latscope.timeline import build
from tests.engines import servers

REQUESTS = ("--max-requests", "110", "--longest", "768")


def calibrated(server: servers.Server, folder: Path) -> tuple[dict[str, Any], Path]:
    file, save = folder / "p.json", folder / "calls.jsonl"
    done = subprocess.run(
        [sys.executable, "-m", "latscope", "calibrate", server.base_url, "-m", server.model,
         "-o", str(file), "--save", str(save), "--yes", "--json", *REQUESTS],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert profiles.read(file) == profiles.read_text(done.stdout)
    assert found["floor"] is not None or found["refused"]
    assert found["spent"]["requests"] <= 110
    return found, save


def stated(save: Path, covers: str) -> list[tuple[int, int]]:
    """(uncached prompt tokens, ns) of every call whose engine states such a figure."""
    rows = []
    for recording in latscope.read(save):
        timeline = build(recording)
        used, cached = timeline.usage.input_tokens, timeline.usage.cached_tokens or 0
        rows += [
            (used - cached, figure.ns)
            for figure in timeline.reported
            if figure.covers == covers and used is not None
        ]
    return rows


def test_llama(llama_server: servers.Server, tmp_path: Path) -> None:
    """The head leaves when a slot takes the call up; its `timings` say so too."""
    found, save = calibrated(llama_server, tmp_path)
    assert found["headers"] in ("slot", "token", "unknown")
    assert found["step"]["base_ns"] > 0
    assert stated(save, "prefill")


def test_vllm(vllm_server: servers.Server, tmp_path: Path) -> None:
    """Against the prefill vLLM states, which nothing here was fitted to: the slope's interval, give
    or take its own width, holds the slope of the stated figures."""
    found, save = calibrated(vllm_server, tmp_path)
    assert found["headers"] == "early"
    rows = sorted(stated(save, "prefill"))
    short = [ns for tokens, ns in rows if tokens < 200]
    long = [(tokens, ns) for tokens, ns in rows if tokens > 600]
    low_tokens = median(tokens for tokens, _ in rows if tokens < 200)
    truth = (median(ns for _, ns in long) - median(short)) / (
        median(tokens for tokens, _ in long) - low_tokens
    )
    low, high = found["intervals"]["linear_ns"]
    assert low - (high - low) <= truth <= high + (high - low)
    assert found["cache_effect_ns"] > 0
