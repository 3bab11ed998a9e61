"""Where a benchmark ran: what every line of figures says of its tree and its machine."""

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def commit() -> str:
    """The commit measured, marked when the tree differs from it; `unknown` outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine() -> str:
    """Enough to tell figures of unlike machines apart, and nothing that names one."""
    system, python = platform.uname(), platform.python_version()
    return f"{system.system} {system.machine}, {os.cpu_count()} processors, Python {python}"
