"""The captured client: it makes the calls of a file one after another, a probe beside it.

    python -m tests.lab.stalls.client HOST PLANS OUT

PLANS and OUT are JSON lines; of each call OUT has `id`, `recording`, and `blocks`, the stretches in
which the client did not read because its plan said so.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from latscope.capture.instrument import attach
from latscope.middleware.pipeline import finish
from latscope.probe.rtt import RttProbe
from latscope.recording import Recording, to_line
from latscope.units import Ns, S
from tests.lab import kernel
from tests.lab.client import BODY, PATH, TIMEOUT_S
from tests.lab.stalls.plans import SERVER_PORT, Plan, from_mapping


class Blocks:
    """Does not read when the plan says so."""

    def __init__(self, plan: Plan) -> None:
        self.spans: list[tuple[Ns, Ns]] = []
        faults = [fault for fault in plan.faults if fault.kind == "client_block"]
        self._due = {fault.index: fault for fault in faults}
        self._events = 0

    def after(self, data: bytes, soon: Callable[..., Any] | None) -> None:
        """Look at what was read, and block: here, or where there is a loop and the plan says so, in
        the loop, as any other task might."""
        seen = self._events + data.count(b'"content": "w')
        for index in [index for index in self._due if self._events <= index < seen]:
            fault = self._due.pop(index)
            if fault.how == "loop" and soon is not None:
                soon(self._block, fault.ns)
            else:
                self._block(fault.ns)
        self._events = seen

    def _block(self, ns: Ns) -> None:
        begin = time.monotonic_ns()
        time.sleep(ns / S)
        self.spans.append((begin, time.monotonic_ns()))


def call(host: str, plan: Plan, blocks: Blocks) -> Recording:
    """Make one call."""
    found: list[Recording] = []
    url = f"http://{host}:{plan.port}{PATH}"
    headers = {"accept-encoding": "identity", "x-lab-plan": json.dumps(plan.to_mapping())}
    if plan.client == "async":
        asyncio.run(_async_call(url, headers, blocks, found))
    else:
        with httpx2.Client(timeout=TIMEOUT_S, trust_env=False) as client:
            attach(client, done=found.append)
            with client.stream("POST", url, headers=headers, json=BODY) as response:
                for data in response.iter_bytes():
                    blocks.after(data, None)
    (recording,) = found
    return finish(recording)


async def _async_call(
    url: str, headers: dict[str, str], blocks: Blocks, found: list[Recording]
) -> None:
    soon = asyncio.get_running_loop().call_soon
    async with httpx2.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
        attach(client, done=found.append)
        async with client.stream("POST", url, headers=headers, json=BODY) as response:
            async for data in response.aiter_bytes():
                blocks.after(data, soon)


def main() -> None:
    """Make the calls."""
    host, plans, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    kernel.go_ahead()
    with out.open("w", buffering=1, encoding="utf-8") as file, RttProbe() as probe:
        probe.follow(f"{host}:{SERVER_PORT}")
        probe.resume()
        for line in plans.read_text(encoding="utf-8").splitlines():
            plan = from_mapping(json.loads(line))
            blocks = Blocks(plan)
            recording = call(host, plan, blocks)
            recording = probe.during(recording)
            row = {"id": plan.id, "blocks": blocks.spans, "recording": to_line(recording)}
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
