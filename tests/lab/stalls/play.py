"""Plays plans over real paths, one path a lane, and gives every call with its stamps."""

import contextlib
import json
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latscope.documents.recordings import read_text
from latscope.recording import Recording
from tests.lab import leftovers, path
from tests.lab.hops import ROOT
from tests.lab.profile import both
from tests.lab.stalls.plans import KEEPER_PORT, SERVER_PORT, Link, Plan
from tests.lab.stalls.truth import Stall, Stamps, stalls, stamps_of

A_CALL_S = 60.0
STARTING = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One call: its recording, the probe's round trips in it, and every stall it truly had."""

    plan: Plan
    link: Link
    recording: Recording
    stamps: Stamps
    stalls: list[Stall]


def play(lanes: Sequence[tuple[Link, list[Plan]]]) -> list[Played]:
    """Play each lane's plans one after another, the lanes side by side."""
    with ThreadPoolExecutor(len(lanes)) as pool:
        return [call for lane in pool.map(lambda lane: _lane(*lane), lanes) for call in lane]


def _lane(link: Link, plans: list[Plan]) -> list[Played]:
    folder = leftovers.make_folder("stalls")
    order = folder / "plans"
    order.write_text("".join(json.dumps(plan.to_mapping()) + "\n" for plan in plans))
    asked = both(link.settings, congestion=link.congestion, trace=True)
    try:
        with contextlib.ExitStack() as stack:
            with STARTING:  # one lane after another: starting takes all of a small machine
                there = stack.enter_context(path.path(asked))
                _serve(there, folder)
            command = [sys.executable, "-m", "tests.lab.stalls.client", there.server_ip]
            command += [str(order), str(folder / "calls")]
            there.run("client", command, timeout=A_CALL_S * len(plans))
            log = there.log()
        return list(_joined(link, plans, folder, log))
    finally:
        leftovers.remove(folder)


def _serve(there: path.Path, folder: Path) -> None:
    for name, port, more in (
        ("server", SERVER_PORT, ["--control", str(there.control)]),
        ("keeper", KEEPER_PORT, ["--upstream", str(SERVER_PORT)]),
    ):
        command = [sys.executable, "-m", f"tests.lab.stalls.{name}", "--host", there.server_ip]
        command += ["--port", str(port), "--stamps", str(folder / name), *more]
        there.serve(command, cwd=ROOT)


def _rows(file: Path) -> dict[int, dict[str, Any]]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def _joined(
    link: Link, plans: list[Plan], folder: Path, log: list[dict[str, Any]]
) -> "list[Played]":
    calls, server, keeper = (_rows(folder / name) for name in ("calls", "server", "keeper"))
    found = []
    for plan in plans:
        row = calls[plan.id]
        recording = read_text(row["recording"])
        stamps = stamps_of(plan, recording, server[plan.id], keeper.get(plan.id), log)
        true = stalls(plan, stamps) if stamps.whole else []
        found.append(Played(plan=plan, link=link, recording=recording, stamps=stamps, stalls=true))
    return found
