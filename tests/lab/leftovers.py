"""Know the lab's own processes and folders by a mark, and clear away those whose owner is gone.

Every process the lab starts carries LATSCOPE_LAB=OWNER in its environment, every folder OWNER in
its name; the owner is the process that started it, as pid and start time. A killed test run cannot
tidy up: the next one does, and touches nothing that is not marked.
"""

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

MARK = "LATSCOPE_LAB"
PREFIX = "latscope-lab-"
PROC = Path("/proc")
KEPT = Path(tempfile.gettempdir()) / "latscope-kept"
"""What failures leave on purpose: logs and configurations of hops, recordings of violations."""


def owner() -> str:
    """Name this process so that no later one can be taken for it: pid and start time."""
    return f"{os.getpid()}.{_started(os.getpid())}"


def marked_env(**more: str) -> dict[str, str]:
    """Give the environment for a process of the lab."""
    return {**os.environ, **more, MARK: owner()}


def make_folder(kind: str) -> Path:
    """Make a temporary folder that a later run can tell is ours."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{owner()}-{kind}-"))


def sweep() -> list[int]:
    """End the processes and remove the folders of owners that are gone; give the pids."""
    found = [pid for pid, name in _marked() if not _alive(name)]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if not _alive(path.name.removeprefix(PREFIX).split("-")[0]):
            shutil.rmtree(path, ignore_errors=True)
    return found


def mine() -> list[int]:
    """List the processes of the lab this process started and that still run."""
    return marked(owner())


def marked(name: str) -> list[int]:
    """List the processes of the lab that owner started and that still run."""
    return [pid for pid, found in _marked() if found == name and pid != os.getpid()]


def _marked() -> list[tuple[int, str]]:
    found = []
    for place in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's
            lines = (place / "environ").read_bytes().split(b"\0")
            names = [line for line in lines if line.startswith(MARK.encode() + b"=")]
            found += [(int(place.name), name.decode().partition("=")[2]) for name in names]
    return found


def _alive(name: str) -> bool:
    pid, _, started = name.partition(".")
    return pid.isdigit() and _started(int(pid)) == started


def _started(pid: int) -> str:
    """Give the process's start in ticks since boot, empty when there is none (or a zombie)."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def remove(folder: Path) -> None:
    """Remove a folder and what is in it."""
    shutil.rmtree(folder, ignore_errors=True)
