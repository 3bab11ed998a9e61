"""The bare wheel, in an empty environment, does the main job with no extra."""

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.wheel
def test_the_bare_wheel_runs_the_demo(tmp_path: Path) -> None:
    """Scenarios and runbooks ship inside it, nothing beyond the base dependencies is asked for, and
    the folder it runs in holds no source."""
    pip = ["-m", "pip", "--disable-pip-version-check", "-q"]
    run(sys.executable, *pip, "wheel", "--no-deps", "-w", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("latscope-*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, *pip, "install", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    demo = json.loads(run(python, "-m", "latscope", "demo", "--json", cwd=tmp_path))
    assert demo["schema"] == "latscope.demo/1"
    assert [call["status"] for call in demo["calls"]] == ["complete"] * 6
    assert all(call["truth"] for call in demo["calls"])
    rules = json.loads(run(python, "-m", "latscope", "check", "--list", "--json", cwd=tmp_path))
    assert rules["schema"] == "latscope.runbooks/1"
    shipped = sorted(path.stem for path in (ROOT / "runbooks").glob("*.md"))
    assert [rule["id"] for rule in rules["runbooks"]] == shipped
    listed = run(python, "-m", "pip", "list", "--format=json", cwd=tmp_path)
    names = {entry["name"] for entry in json.loads(listed)}
    assert not names & {"openai", "anthropic", "opentelemetry-sdk", "numpy", "pytest"}
