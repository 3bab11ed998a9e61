"""The sink in a file: one JSON line of `latscope.recording/1` a call.

Made for several processes that append to one file and for processes that die without notice: the
file is opened for appending, and a line, its end included, is one write. So lines of two writers
never mix, and a killed process leaves whole lines and at most one cut short at the very end; the
next writer starts on a fresh line.

A file that is full or old is renamed, and a new one begun; whoever else writes to it notices before
its next line, and goes over to the new one.
"""

import contextlib
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from latscope.errors import UsageError
from latscope.export.rotation import Rotation
from latscope.recording import Recording, line_pieces
from latscope.steps import Steps

log = logging.getLogger("latscope")


class JSONLSink:
    """Appends recordings to `path`, which it creates readable and writable by its owner only.

    Opened at the first recording. A file that cannot be opened or written costs the recording,
    counted in `lost`; the first of a row of failures is logged, none is raised.

    detail: `body` keeps the masked answer, so that a later version can read it again; `timing` the
    reads, the place, kind and token count of each event and the usage, about a sixth of the bytes.
    max_bytes, max_age: a file with a line more than so many bytes, or begun so many seconds ago, is
    renamed to `NAME.TIME.SUFFIX` (UTC) before the next line. keep: so many renamed files stay, the
    oldest go; null keeps all. UsageError for arguments that make no sense.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        detail: Literal["body", "timing"] = "body",
        max_bytes: int | None = None,
        max_age: float | None = None,
        keep: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if detail not in ("body", "timing"):
            raise UsageError(f"detail is 'body' or 'timing', not {detail!r}")
        for name, value in (("max_bytes", max_bytes), ("max_age", max_age)):
            if value is not None and not value > 0:
                raise UsageError(f"{name} must be above 0, not {value}")
        if keep is not None and keep < 0:
            raise UsageError(f"keep is a number of files, not {keep}")
        self.path = Path(os.path.abspath(path))
        self.detail = detail
        self._rotation = Rotation(self.path, max_bytes, max_age, keep, clock)
        self.written = 0
        """Recordings written whole."""
        self.lost = 0
        """Recordings that could not be written."""
        self.before_close: Callable[[], object] | None = None
        """Called first by `close`; the middleware sets it to write what still waits."""
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._file: int | None = None
        self._reader: int | None = None
        self._torn = False
        self._said = False
        self._closed = False

    def write(self, recording: Recording) -> None:
        for _ in self.write_slowly(recording):
            pass

    def write_slowly(self, recording: Recording) -> Iterator[None]:
        """`write`, stopping wherever the writer may let others run."""
        if self.detail == "timing":
            recording = yield from timing(recording)
        pieces = []
        for piece in line_pieces(recording):
            pieces.append(piece)
            yield
        self.write_line("".join(pieces))

    def write_line(self, text: str) -> None:
        """Appends a line made elsewhere (a series), with the same care as a recording's."""
        # A tag may hold half a surrogate pair (a file's name with bytes that are no UTF-8).
        line = f"{text}\n".encode("utf-8", "replace")
        with self._locked():
            self._append(line)

    def _locked(self) -> threading.Lock:
        # A fork may have copied the lock while another thread held it; that thread is not here.
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()
        return self._lock

    def _append(self, line: bytes) -> None:
        try:
            if self._file is not None and self._rotation.over(self._file):
                self._shut()
            file = self._open()
            line = b"\n" + line if self._ends_torn() else line
            # The interpreter lock is free during the write. A full disk may take part of a line:
            # the rest is not sent after it, since another process may have written in between.
            wrote = os.write(file, line)
            self._torn = wrote not in (0, len(line)) or (self._torn and not wrote)
            if wrote != len(line):
                raise OSError(f"{wrote} of {len(line)} bytes written")
        except OSError as error:
            self.lost += 1
            if not self._said:
                self._said = True
                with contextlib.suppress(Exception):  # a handler's fault is not the recording's
                    log.warning("recordings are being lost: cannot write %s: %s", self.path, error)
            return
        self.written += 1
        self._said = False

    def _open(self) -> int:
        if self._closed:
            raise OSError("the sink is closed")
        if self._file is None:
            # Opening a named pipe nobody reads would wait for ever: not blocking, it is an error.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            self._file = os.open(self.path, flags, 0o600)
            os.set_blocking(self._file, True)
            self._reader = _reader(self._file, self.path)
            self._rotation.begun(self._file)
        return self._file

    def _ends_torn(self) -> bool:
        """Whether the file's last line has no end: a writer was killed, or the disk was full. Asked
        before every line, for other processes write to the file too."""
        if self._reader is None:
            return self._torn
        size = os.fstat(self._reader).st_size
        return size > 0 and os.pread(self._reader, 1, size - 1) != b"\n"

    def close(self) -> None:
        """Closes the file; a recording that comes later is lost, and counted."""
        if self.before_close is not None and not self._closed:
            self.before_close()
        with self._locked():
            self._closed = True
            self._shut()

    def _shut(self) -> None:
        for file in (self._file, self._reader):
            if file is not None:
                os.close(file)
        self._file = self._reader = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"JSONLSink({str(self.path)!r})"


def timing(recording: Recording) -> Steps[Recording]:
    """The recording without its bodies, what happened in them in their place; in steps."""
    # Not at the module's head: a sink is made before anything third-party may be loaded.
    from latscope.protocols.outline import outlined

    attempts = []
    for attempt in recording.attempts:
        attempts.append((yield from outlined(attempt, recording.target.path)))
        yield
    return replace(recording, attempts=tuple(attempts))


def _reader(file: int, path: Path) -> int | None:
    """The regular file open for writing, open for reading; null for another kind of file, and
    where reading is not allowed: the worst case is one line joined to a torn one."""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        reader = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.path.samestat(os.fstat(reader), os.fstat(file)):
        return reader
    os.close(reader)
    return None
