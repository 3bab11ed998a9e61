"""The README's commands and its program do what they say, word by word."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from latscope.cli.main import run as latscope
from latscope.sim.process import Running, start

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8123"
ELSEWHERE = {"make demo", "make test", "latscope sim serve &"}
"""Run by CI, or standing in here for the fixture's own server."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with start() as running:
        yield running


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-ec", command],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_command_works(served: Running, tmp_path: Path) -> None:
    """In the README's order, in one folder; the simulated server is at the fixture's address."""
    found = commands()
    assert set(found) >= ELSEWHERE
    for command in found:
        if command in ELSEWHERE:
            continue
        done = shell(command.replace(ADDRESS, served.base_url), tmp_path)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        assert done.stdout, command


def test_the_programs_work(served: Running, tmp_path: Path) -> None:
    """One after the other, as they are read: the second goes on with the first one's client."""
    program = "\n".join(blocks("python"))
    (tmp_path / "app.py").write_text(program.replace(ADDRESS, served.base_url))
    done = shell("python app.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("decode ")


def test_every_command_of_the_table_exists(capsys: pytest.CaptureFixture[str]) -> None:
    named = re.findall(r"^\| `latscope (\w+)", README, flags=re.MULTILINE)
    commands = {"demo", "probe", "calibrate", "budget", "explain", "join", "export", "run"}
    assert commands | {"check", "compare", "turns", "sim", "kv", "claims"} == set(named)
    for name in named:
        assert latscope([name, "--help"]) == 0
        assert "Usage: latscope" in capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        if not link.startswith("http"):
            assert (ROOT / link).exists(), link
