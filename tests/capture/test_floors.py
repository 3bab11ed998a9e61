"""The oldest releases that pyproject.toml admits, and the first of the newer line: in environments
of their own, the capture tests pass. Minutes long, and a package index is needed: `make
test-floors`."""

import os
import re
import subprocess
import tomllib
import venv
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

TESTS = (
    "test_canary",
    "test_classes",
    "test_http2",
    "test_identical",
    "test_outcomes",
    "test_sdk",
    "test_transport",
    "test_unfelt",
    "test_ways",
)
TOOLS = ("pytest", "pytest-asyncio", "trio", "h2", "aiohttp", "boto3", "hypothesis")
SDKS = {
    "oldest": {},
    # The first of those built on httpx2, whose newest the other tests run with.
    "first on httpx2": {"openai": "3.0.0", "anthropic": "2.0.0"},
}


def floors() -> dict[str, str]:
    """Name and oldest release of all that the recording of the SDKs stands on."""
    extras = PROJECT["optional-dependencies"]
    stated = [*PROJECT["dependencies"], *extras["openai"], *extras["anthropic"]]
    return dict(re.findall(r"^([\w.-]+)>=([\d.]+)$", "\n".join(stated), re.MULTILINE))


def test_every_floor_is_stated_as_one() -> None:
    """`>=` and nothing else, so that what is tried here is what may be installed."""
    assert {"openai", "anthropic", "httpx", "httpx2", "pydantic"} <= set(floors())
    assert len(floors()) == len(PROJECT["dependencies"]) + 2


@pytest.mark.floors
@pytest.mark.skipif(not os.environ.get("LATSCOPE_FLOORS"), reason="minutes: make test-floors")
@pytest.mark.parametrize("which", SDKS)
def test_the_capture_tests_pass_with(which: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    wanted = floors() | SDKS[which]
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").split()
    )
    needed = [f"{name}=={version}" for name, version in wanted.items()]
    needed += [f"{name}=={pinned[name]}" for name in TOOLS] + ["httpx-aiohttp"]
    install = [python, "-m", "pip", "--disable-pip-version-check", "-q", "install", *needed]
    done = subprocess.run(install, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    tests = [str(ROOT / "tests" / "capture" / f"{name}.py") for name in TESTS]
    ran = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
