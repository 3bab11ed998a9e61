"""A healthy reference, kept: lines of `latscope.attribution/1`, some thousand calls a group."""

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from latscope.attribution.model import SCHEMA
from latscope.errors import InputError, UsageError
from latscope.rules.table import WHOLE_HASH, Key, Sessions, hashed

MOST = 2_000
"""Calls of a model at an endpoint that are kept; of more a fair sample, sessions staying whole."""
THINNED = "thinned for a baseline"


@dataclass(slots=True)
class _Group:
    """Mutable: the lines kept, with the hashes of their session and call. sessions, calls: hashes
    below these are kept. n: calls there were."""

    kept: list[tuple[int, int, str]] = field(default_factory=list)
    sessions: int = WHOLE_HASH
    calls: int = WHOLE_HASH
    n: int = 0

    def thin(self) -> None:
        """Leave half of the sessions out; half of the calls, where one session is most of them."""
        half = [row for row in self.kept if row[0] < self.sessions // 2]
        if len(half) >= len(self.kept) // 4:
            self.sessions //= 2
        else:
            self.calls //= 2
            half = [row for row in self.kept if row[1] < self.calls]
        self.kept = half


@dataclass(slots=True)
class Keep:
    """Mutable: the lines to be kept so far, by group."""

    groups: dict[Key, _Group] = field(default_factory=dict)
    names: Sessions = field(default_factory=lambda: Sessions(10 * MOST))

    def offer(self, call: Mapping[str, Any]) -> None:
        group = self.groups.setdefault((call["model"], call["endpoint"]), _Group())
        group.n += 1
        session, single = hashed(self.names.of(call)), hashed(str(call["call_id"]))
        if session < group.sessions and single < group.calls:
            group.kept.append((session, single, _line(call)))
        while len(group.kept) > MOST:
            group.thin()

    def write(self, path: Path) -> int:
        """The kept calls as a file of mode 0600, whole or not at all; how many they are."""
        lines = list(self._lines())
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(opened, "w", encoding="utf-8") as file:
                file.writelines(lines)
            os.replace(draft, path)
        except OSError as error:
            raise InputError(
                f"--save-baseline: {path} cannot be written: {error.strerror}"
            ) from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()
        return len(lines)

    def _lines(self) -> Iterator[str]:
        for group in self.groups.values():
            share = len(group.kept) / group.n
            for _, _, line in group.kept:
                yield f"{line if share == 1 else _stands_for(line, share)}\n"


def check_target(path: Path, files: Sequence[str]) -> None:
    """UsageError where the file is one that is being read, or holds anything but a baseline."""
    if any(file != "-" and Path(file).exists() and _same(path, file) for file in files):
        raise UsageError(f"--save-baseline: {path} is a file that is read; give another name")
    if path.is_dir() or not path.resolve().parent.is_dir():
        raise UsageError(f"--save-baseline: {path}: give a file in a folder that is there")
    with contextlib.suppress(OSError), path.open("rb") as file:
        first = file.readline(200)
        if first.strip() and SCHEMA.encode() not in first:
            raise UsageError(
                f"--save-baseline: {path} is there and holds no baseline; give another name"
            )


def _same(path: Path, file: str) -> bool:
    return path.exists() and os.path.samefile(path, file)


def _line(call: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in call.items() if key != "money"}
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def _stands_for(line: str, share: float) -> str:
    """The line, saying that it stands for the calls that were left out too."""
    call = json.loads(line)
    sample = call.get("sample") or {}
    call["sample"] = {"rate": (sample.get("rate") or 1.0) * share, "why": THINNED}
    return _line(call)
