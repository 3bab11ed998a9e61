"""Files of spans, and the recordings they are joined to.

Spans come as JSON: lines of OTLP (a collector's file exporter), or one document of OTLP, Jaeger or
Tempo. A damaged line costs itself only, and is told with its number. Recordings are joined as JSON:
a line gets its `spans`, and whatever else it holds, known or not, stays as it was.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO

from latscope.documents import recordings
from latscope.errors import InputError
from latscope.protocols.fields import as_list, as_map, as_str, parse
from latscope.protocols.otlp import Decoded, decode
from latscope.recording import Recording, ServerSpan
from latscope.timeline.joins import Call, Joins, join, key_of
from latscope.units import US

WANTED = (
    "spans come as OTLP JSON (resourceSpans; a collector's file exporter with format: json),"
    " or from the API of Jaeger (data[].spans) or Tempo (batches)"
)
LOOKED_AT = 2
"""Useless lines at a file's begin after which it is no file of spans."""


def read(path: str | Path, *, problems: list[str]) -> list[ServerSpan]:
    """The spans of a file, or of standard input for `-`.

    problems: gets a sentence, with file and line, for each line or span that cannot be used.
    InputError when the file cannot be read or holds no span.
    """
    name = "<stdin>" if str(path) == "-" else str(path)
    found: list[ServerSpan] = []
    known = 0
    try:
        with _opened(path) as file:
            for place, document in _documents(name, file, problems):
                decoded = None if document is None else decode(document)
                if decoded is not None:
                    known += 1
                    found += decoded.spans
                _tell(place, document, decoded, problems)
                if not known and len(problems) >= LOOKED_AT:
                    break  # no file of spans at all: the rest, however much, is not looked at
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    if not found:
        why = f"; {problems[0].removeprefix(f'{name}:')}" if problems else ""
        raise InputError(f"{name}: holds no spans{why}; {WANTED}")
    return found


def _documents(name: str, file: BinaryIO, problems: list[str]) -> Iterator[tuple[str, object]]:
    """Where each document begins, and what it holds (null: no JSON): lines, or all in one."""
    first = _first_line(file)
    if parse(first) is None:
        whole = first + file.read()
        document = parse(whole)
        if document is not None:
            yield name, document
            return
        lines: Iterable[bytes] = whole.splitlines(keepends=True)
    else:
        lines = _after(first, file)
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{name}:{number}", parse(line)


def _first_line(file: BinaryIO) -> bytes:
    """Up to the end of the first line that is not blank."""
    first = b""
    for line in file:
        first += line
        if line.strip():
            break
    return first


def _after(first: bytes, file: BinaryIO) -> Iterator[bytes]:
    yield from first.splitlines(keepends=True)
    yield from file


def _tell(place: str, document: object, decoded: Decoded | None, problems: list[str]) -> None:
    if document is None:
        problems.append(f"{place}: not JSON; left out, the lines after it were read")
    elif decoded is None:
        problems.append(f"{place}: JSON, but no spans; left out")
    elif decoded.damaged:
        what = "a span" if decoded.damaged == 1 else f"{decoded.damaged} spans"
        problems.append(f"{place}: {what} without usable ids or times; left out")


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as file:
        yield file


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file of recordings that can be read twice. name: what it is called in messages."""

    name: str
    path: Path


@contextmanager
def sources(paths: Sequence[str]) -> Iterator[list[Source]]:
    """The files, those that can be read only once (`-`, a pipe) copied first."""
    with tempfile.TemporaryDirectory(prefix="latscope-join-") as folder:
        found = []
        for number, path in enumerate(paths):
            name, place = ("<stdin>" if path == "-" else path), Path(path)
            try:
                if path == "-" or (place.exists() and not place.is_file()):
                    place = Path(folder) / str(number)
                    with _opened(path) as came, place.open("wb") as kept:
                        shutil.copyfileobj(came, kept)
            except OSError as error:
                raise InputError(f"{name}: cannot be read: {error.strerror}") from error
            found.append(Source(name=name, path=place))
        yield found


def keys(source: Source, *, problems: list[str]) -> Iterator[Call]:
    """What each usable recording of a file is found by, in the order of its lines.

    problems: gets a sentence for each line that is no recording; those of series are silent.
    InputError when the file cannot be read or holds no recording.
    """
    count = 0
    first = ""
    for number, line in enumerate(_lines(source), 1):
        found = _recording(line, f"{source.name}:{number}")
        if isinstance(found, str):
            first = first or found
            problems.append(f"{found}; passed on as it is")
        elif found is not None:
            count += 1
            yield key(found)
        if not count and len(problems) > LOOKED_AT:
            break
    if not count:
        raise InputError(first or f"{source.name}: holds no recording")


def joins(found: Iterable[Call], spans: Iterable[ServerSpan]) -> Joins:
    """The calls, joined: see `timeline.joins`."""
    return join(list(found), spans)


def joined_lines(source: Source, spans: Iterator[tuple[ServerSpan, ...]]) -> Iterator[bytes]:
    """The file's lines, those of recordings with their spans. spans: one tuple a recording that
    `keys` gave, taken in that order; a line without any is passed on byte for byte."""
    for line in _lines(source):
        found = _recording(line, source.name)
        own = next(spans, ()) if isinstance(found, Recording) else ()
        whole = line if line.endswith(b"\n") else line + b"\n"
        yield _with_spans(line, own) if own else whole


def _with_spans(line: bytes, spans: Sequence[ServerSpan]) -> bytes:
    """The line with the spans added to those it has; a span that is there already is replaced."""
    held = json.loads(line)
    new = {(span.trace_id, span.span_id): _plain(span) for span in spans}
    old = {
        (as_str(as_map(span).get("trace_id")), as_str(as_map(span).get("span_id"))): span
        for span in as_list(held.get("spans"))
    }
    held["spans"] = [*(old | new).values()]
    return json.dumps(held, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _plain(span: ServerSpan) -> dict[str, Any]:
    pairs = ((each.name, getattr(span, each.name)) for each in fields(span))
    return {name: value for name, value in pairs if value not in (None, {})}


def _lines(source: Source) -> Iterator[bytes]:
    try:
        with source.path.open("rb") as file:
            yield from (line for line in file if line.strip())
    except OSError as error:
        raise InputError(f"{source.name}: cannot be read: {error.strerror}") from error


def _recording(line: bytes, where: str) -> Recording | str | None:
    """The recording in a line, null for one that is no call's, or what is wrong with it."""
    try:
        return recordings.read_text(line, where=where)
    except InputError as error:
        return None if recordings.is_aside(line) else str(error)


def key(recording: Recording) -> Call:
    """What a recording is found by."""
    from latscope.timeline import build

    timeline = build(recording)
    return key_of(
        recording,
        start_unix_ns=unix_ns(recording.started_at),
        response_id=timeline.response_id,
        wall_ns=timeline.wall_ns,
    )


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def unix_ns(text: str) -> int | None:
    """An RFC 3339 time as nanoseconds since 1970 (UTC where it names no zone); null when it is no
    time."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return (found - EPOCH) // timedelta(microseconds=1) * US


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when all went well, and leaves no trace
    otherwise. What is no plain file (a pipe, a device) is written at once."""
    goal = Path(os.path.realpath(path))
    if goal.exists() and not goal.is_file():
        with goal.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(dir=goal.parent, prefix=f".{goal.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(goal)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
