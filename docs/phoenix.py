"""Makes docs/phoenix.png: two simulated calls as Phoenix shows the trace they leave.

    python -m venv /tmp/phoenix && /tmp/phoenix/bin/pip install arize-phoenix playwright
    python docs/phoenix.py --phoenix /tmp/phoenix/bin/phoenix [-o docs/phoenix.png]

Needs `latscope[otel]`; in an environment of their own Phoenix and Playwright; and chromium.
Everything runs on this machine; nothing is sent anywhere else.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx2
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import latscope
from latscope.documents.scenarios import by_name
from latscope.export.otel.sink import OTelSink
from latscope.sim.process import start

SCENARIOS = ("loaded-queue", "long-prompt")
PROJECT = "latscope"
READY_S = 180.0
SIZE = (1500, 900)

SHOT = """
import sys
from playwright.sync_api import sync_playwright

chromium, page, output, width, height = sys.argv[1:]
with sync_playwright() as p:
    browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    tab = browser.new_page(viewport={"width": int(width), "height": int(height)})
    tab.goto(page)
    tab.get_by_text("queue.engine").first.click(timeout=60_000)
    tab.get_by_text("latscope.provenance").first.wait_for(timeout=60_000)
    tab.wait_for_timeout(2_000)
    left = 375
    clip = {"x": left, "y": 44, "width": int(width) - left, "height": int(height) - 44}
    tab.screenshot(path=output, clip=clip)
    browser.close()
"""
"""Run by the Python beside Phoenix: opens the trace, shows its times, takes the picture."""


def main() -> None:
    parser = argparse.ArgumentParser(description="a trace of latscope's in Phoenix, as a picture")
    parser.add_argument("--phoenix", default="phoenix", help="the phoenix command")
    parser.add_argument("--chromium", default="chromium", help="the browser")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/phoenix.png"))
    options = parser.parse_args()
    for tool in (options.phoenix, options.chromium):
        if shutil.which(tool) is None:
            sys.exit(f"phoenix.py: {tool}: no such command; install it, or say where it is")
    with tempfile.TemporaryDirectory() as folder, phoenix(options.phoenix, Path(folder)) as url:
        trace_id = calls(url)
        page = f"{url}/projects/{project(url, trace_id)}/traces/{trace_id}"
        picture(options, page)
    print(f"{options.output}: {options.output.stat().st_size} bytes")


@contextlib.contextmanager
def phoenix(command: str, folder: Path) -> Iterator[str]:
    """A Phoenix that answers, its data in `folder`; gone with the block."""
    http, grpc = free_port(), free_port()
    env = {
        **os.environ,
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    log = folder / "phoenix.log"
    with log.open("wb") as out:
        server = subprocess.Popen([command, "serve"], env=env, stdout=out, stderr=out)
    url = f"http://127.0.0.1:{http}"
    try:
        deadline = time.monotonic() + READY_S
        while not answers(f"{url}/healthz"):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"phoenix.py: Phoenix does not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        server.wait(20)


def calls(url: str) -> str:
    """One user action of two calls, traced; the id of its trace."""
    resource = Resource.create({"service.name": "shop", "openinference.project.name": PROJECT})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
    tracer = tracers.get_tracer("shop")
    scenarios = by_name(SCENARIOS)
    with start(scenarios) as running, httpx2.Client(timeout=60) as client:
        latscope.instrument(client, sink=OTelSink(tracers, aliases=True))
        with tracer.start_as_current_span(
            "answer the customer", attributes={"openinference.span.kind": "AGENT"}
        ) as action:
            for scenario in scenarios:
                body = {
                    "model": scenario.name,
                    "stream": True,
                    "stream_options": {"include_usage": True},
                    "max_tokens": scenario.call.max_tokens,
                    "messages": [
                        {"role": "user", "content": "word " * scenario.call.prompt_tokens}
                    ],
                }
                client.post(f"{running.base_url}/v1/chat/completions", json=body)
        latscope.flush()
    tracers.shutdown()
    return f"{action.get_span_context().trace_id:032x}"


def project(url: str, trace_id: str) -> str:
    """Phoenix's own id of the project, once the trace has arrived there."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        found = fetched(f"{url}/v1/projects")
        ids = [item["id"] for item in found["data"] if item["name"] == PROJECT]
        spans = fetched(f"{url}/v1/projects/{PROJECT}/spans?limit=100") if ids else {"data": []}
        if any(span["context"]["trace_id"] == trace_id for span in spans["data"]):
            return str(ids[0])
        time.sleep(0.5)
    sys.exit("phoenix.py: the trace did not arrive")


def picture(options: argparse.Namespace, page: str) -> None:
    python = Path(shutil.which(options.phoenix) or options.phoenix).parent / "python"
    size = [str(length) for length in SIZE]
    command = [python, "-c", SHOT, shutil.which(options.chromium), page, options.output, *size]
    subprocess.run(command, check=True, timeout=180)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def fetched(url: str) -> dict[str, list[dict[str, dict[str, str]]]]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: dict[str, list[dict[str, dict[str, str]]]] = json.load(answer)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    main()
