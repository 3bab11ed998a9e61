"""When a file of recordings is put aside, and how: renamed, so that no line of it is touched."""

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

_STAMP = "%Y%m%dT%H%M%S"


class Rotation:
    """Of the file at `path`, which other processes may write to, and put aside, as well.

    max_bytes, max_age (seconds), keep: as `JSONLSink` has them; null for no limit.
    """

    def __init__(
        self,
        path: Path,
        max_bytes: int | None,
        max_age: float | None,
        keep: int | None,
        clock: Callable[[], float],
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._keep = keep
        self._clock = clock
        self._began = 0.0

    def begun(self, file: int) -> None:
        """`file` was opened: of one that was there before, its last line tells how old it is at
        least."""
        status = os.fstat(file)
        self._began = min(status.st_mtime, self._clock()) if status.st_size else self._clock()

    def over(self, file: int) -> bool:
        """Whether the next line goes to another file than `file`: it was put aside just now, or by
        somebody else. OSError when it cannot be put aside."""
        if self._max_bytes is None and self._max_age is None:
            return False
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return False
        if not self._is_at_path(status):
            return True
        if not self._due(status):
            return False
        # Of several writers one renames; the others wait for it and find the file gone.
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            if self._is_at_path(status):
                self.path.rename(self._aside())
                self._clear()
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
        return True

    def _is_at_path(self, status: os.stat_result) -> bool:
        try:
            return os.path.samestat(self.path.stat(), status)
        except FileNotFoundError:
            return False

    def _due(self, status: os.stat_result) -> bool:
        if not status.st_size:
            return False
        full = self._max_bytes is not None and status.st_size >= self._max_bytes
        return full or (self._max_age is not None and self._clock() - self._began >= self._max_age)

    def _aside(self) -> Path:
        """A name behind all those of this second: in the order of names the files stay in order."""
        stamp = datetime.fromtimestamp(self._clock(), UTC).strftime(_STAMP)
        ours = [int(found[2]) for found in self._put_aside().values() if found[1] == stamp]
        number = max(ours, default=0) + 1
        return self.path.with_name(f"{self.path.stem}.{stamp}-{number:06d}{self.path.suffix}")

    def _put_aside(self) -> dict[Path, re.Match[str]]:
        """The files put aside before, oldest first, with the stamp and number in their names."""
        stem, suffix = re.escape(self.path.stem), re.escape(self.path.suffix)
        name = re.compile(rf"{stem}\.([0-9]{{8}}T[0-9]{{6}})-([0-9]{{6,}}){suffix}")
        found = {each: name.fullmatch(each.name) for each in sorted(self.path.parent.iterdir())}
        return {each: match for each, match in found.items() if match is not None}

    def _clear(self) -> None:
        """The oldest files put aside go, but for `keep` of them."""
        if self._keep is None:
            return
        aside = list(self._put_aside())
        for old in aside[: max(0, len(aside) - self._keep)]:
            with contextlib.suppress(FileNotFoundError):
                old.unlink()
