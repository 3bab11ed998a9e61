"""Installs the frameworks of docs/examples: `python tests/examples/install.py [NAME...]`.

Standard library only. Each gets a virtual environment of its own under $LATSCOPE_FRAMEWORKS (by
default ~/.cache/latscope-frameworks): their requirements must never meet the project's. One that is
there with the same requirements is left alone.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "fastapi": ("fastapi", "openai"),
    "litellm": ("litellm",),
    "pydantic-ai": ("pydantic-ai-slim[openai,anthropic]",),
    "langchain": ("langchain-openai", "langchain-anthropic"),
}


def cache() -> Path:
    """The folder the environments live in."""
    chosen = os.environ.get("LATSCOPE_FRAMEWORKS")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "latscope-frameworks"


def python(name: str) -> Path:
    """A framework's interpreter, there or not."""
    return cache() / name / "bin" / "python"


def installed(name: str) -> bool:
    """Whether it was installed whole, with the present requirements."""
    stamp = cache() / name / "latscope-requirements"
    return stamp.exists() and stamp.read_text() == _recipe(name)


def install(name: str) -> None:
    """Makes the environment; pip's own message, and its exit code, when it cannot."""
    if installed(name):
        return
    print(f"installing {name} ...", flush=True)
    venv.create(cache() / name, with_pip=True, clear=True)
    pip = [str(python(name)), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    done = subprocess.run([*pip, "-e", str(ROOT), *REQUIREMENTS[name]])
    if done.returncode:
        sys.exit(done.returncode)
    (cache() / name / "latscope-requirements").write_text(_recipe(name))


def _recipe(name: str) -> str:
    return "\n".join((str(ROOT), *REQUIREMENTS[name]))


if __name__ == "__main__":
    for chosen in sys.argv[1:] or REQUIREMENTS:
        install(chosen)
