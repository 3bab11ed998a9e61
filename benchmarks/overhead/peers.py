"""The peers, each in a virtual environment of its own under a cache folder.

$LATSCOPE_BENCH names the folder (by default ~/.cache/latscope-bench). An environment is made once,
of the newest releases the package index has; delete its folder to have it made anew.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

SDKS = ("openai", "anthropic")


class Peer(NamedTuple):
    """name: as `subject.SETUPS` knows it; package: the one whose version is told; sdks: those it
    serves; needs: what is installed beside the SDKs."""

    name: str
    package: str
    sdks: tuple[str, ...]
    needs: tuple[str, ...]


PEERS: tuple[Peer, ...] = (
    Peer(
        "otel-genai",
        "opentelemetry-instrumentation-genai-openai",
        SDKS,
        (
            "opentelemetry-sdk",
            "opentelemetry-instrumentation-genai-openai",
            "opentelemetry-instrumentation-genai-anthropic",
        ),
    ),
    # Langfuse has no wrapper of its own for anthropic: it advises an OpenTelemetry instrumentation.
    Peer("langfuse", "langfuse", ("openai",), ("langfuse",)),
    Peer(
        "traceloop",
        "opentelemetry-instrumentation-openai",
        SDKS,
        (
            "opentelemetry-sdk",
            "opentelemetry-instrumentation-openai",
            "opentelemetry-instrumentation-anthropic",
        ),
    ),
    Peer(
        "openinference",
        "openinference-instrumentation-openai",
        SDKS,
        (
            "opentelemetry-sdk",
            "openinference-instrumentation-openai",
            "openinference-instrumentation-anthropic",
        ),
    ),
    Peer("logfire", "logfire", SDKS, ("logfire",)),
)


def cache() -> Path:
    chosen = os.environ.get("LATSCOPE_BENCH")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "latscope-bench"


def python(peer: Peer) -> Path:
    """The interpreter of the peer's environment, which is made now if it is not there."""
    folder = cache() / peer.name
    made = folder / "made"
    interpreter = folder / "bin" / "python"
    if made.exists():
        return interpreter
    print(f"installing {peer.name} into {folder} ...", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    install = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*install, *SDKS, *peer.needs], check=True, stdout=subprocess.DEVNULL)
    made.touch()
    return interpreter


def versions(interpreter: Path, *packages: str) -> dict[str, str]:
    """The installed versions of the packages, as that interpreter sees them."""
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    ran = subprocess.run(
        [str(interpreter), "-c", code, *packages], capture_output=True, text=True, check=True
    )
    return dict(zip(packages, ran.stdout.split(), strict=True))
