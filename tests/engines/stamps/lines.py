"""One JSON line a request, appended to a file of the process's own. Runs inside vLLM."""

import json
import os
from pathlib import Path
from typing import Any

FOLDER = "LATSCOPE_STAMPS"
"""Environment variable: the folder the lines go to."""


def append(kind: str, line: dict[str, Any]) -> None:
    """Write the line in one piece: a reader sees whole lines only."""
    path = Path(os.environ[FOLDER]) / f"{kind}-{os.getpid()}.jsonl"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(line, separators=(",", ":")).encode() + b"\n")
    finally:
        os.close(file)


def read(folder: Path, kind: str) -> list[dict[str, Any]]:
    """Give every line of that kind, of all processes."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob(f"{kind}-*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]
