"""The only reading of recording files: `latscope.recording/1`, one JSON line a call.

A file is trusted with nothing: types, bounds and the order of reads are checked. What a killed
writer or a bad disk leaves behind costs its own line only, and is told. Unknown keys are ignored,
an unknown version is refused. Messages name file, line and field, never what the field holds.
"""

import base64
import binascii
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from latscope.errors import InputError
from latscope.recording import MEMORY_ONLY, SCHEMA, Attempt, EventRow, Mark, Read, Recording

FAMILY = SCHEMA.partition("/")[0]

_WANTED = f"a recording file holds one {SCHEMA} object a line"

_adapter = TypeAdapter(Recording)
_ROWS: dict[str, tuple[str, ...]] = {
    "reads": Read._fields,
    "marks": Mark._fields,
    "events": EventRow._fields,
}
"""Names of the places in rows that are arrays, for messages."""


def read(path: str | PathLike[str], *, problems: list[str] | None = None) -> Iterator[Recording]:
    """The recordings of a file, or of standard input for `-`, one after the other.

    problems: gets a sentence for every line that is broken (cut by a killed writer, damaged) and
    so left out; without it they are warnings. InputError when the file cannot be read, its first
    line is no JSON, a line is of another version or has a field out of range, or nothing is left.
    """
    tell = problems.append if problems is not None else _warn
    name = str(path)
    try:
        if name == "-":
            yield from _read_lines("<stdin>", sys.stdin.buffer, tell)
        else:
            with Path(path).open("rb") as file:
                yield from _read_lines(name, file, tell)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error


def read_text(line: str | bytes, *, where: str = "recording") -> Recording:
    """The recording in one line. where: names its origin in the InputError of a bad one."""
    try:
        recording = _adapter.validate_json(line, strict=True)
    except ValidationError as error:
        raise InputError(f"{where}: {_what_is_wrong(line, error)}") from None
    wrong = _wrong_version(recording.schema) or _out_of_range(recording)
    if wrong:
        raise InputError(f"{where}: {wrong}")
    return _restored(recording, line, where)


def schema() -> dict[str, Any]:
    """JSON Schema of a line of `latscope.recording/1`."""
    described = _adapter.json_schema()
    definitions = described["$defs"]
    for holder in (described, definitions["Attempt"]):
        for name in MEMORY_ONLY:
            holder["properties"].pop(name, None)
    attempt = definitions["Attempt"]["properties"]
    attempt["body"] = {"type": "string", "description": "The body, when it is UTF-8."}
    attempt["body_b64"] = {
        "type": "string",
        "contentEncoding": "base64",
        "description": "The body, when it is not UTF-8.",
    }
    described["properties"]["schema"] = {"const": SCHEMA}
    described["required"] = ["schema", *described["required"]]
    _bound(described)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}


def _warn(problem: str) -> None:
    warnings.warn(problem, stacklevel=4)


def _read_lines(
    name: str, file: Iterable[bytes], tell: Callable[[str], None]
) -> Iterator[Recording]:
    count = 0
    broken = 0  # the line last found broken, until it is known whether others follow
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        sound = _is_json(line)
        if broken:
            if count == 0 and not sound:
                raise InputError(f"{name}:{broken}: not JSON; {_WANTED}")
            tell(f"{name}:{broken}: not JSON; left out, the lines after it were read")
            broken = 0
        if sound:
            yield read_text(line, where=f"{name}:{number}")
            count += 1
        else:
            broken = number
    if count == 0 and broken:
        raise InputError(f"{name}:{broken}: not JSON; {_WANTED}")
    if count == 0:
        raise InputError(f"{name}: holds no recording; {_WANTED}")
    if broken:
        tell(f"{name}:{broken}: the last line is cut off; left out, {_before(count)} read")


def _before(count: int) -> str:
    return "the one recording before it was" if count == 1 else f"the {count} before it were"


def _is_json(line: bytes) -> bool:
    try:
        from_json(line)
    except ValueError:
        return False
    return True


def _what_is_wrong(line: str | bytes, error: ValidationError) -> str:
    """The one thing to say of a line that does not validate: its version before its fields."""
    try:
        found = from_json(line)
    except ValueError:
        return "not JSON"
    if not isinstance(found, dict):
        return f"not a recording but a JSON {type(found).__name__}"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return _wrong_version(found.get("schema")) or f"{_field(first['loc'])}: {first['msg']}"


def _wrong_version(version: object) -> str | None:
    if version == SCHEMA:
        return None
    if version is None:
        return f"has no schema; a recording says {SCHEMA}"
    if isinstance(version, str) and version.startswith(f"{FAMILY}/"):
        shown = version[:64]
        return f"schema {shown!r}: this latscope reads up to {SCHEMA}; upgrade latscope to read it"
    return f"schema {str(version)[:64]!r} is no recording; this needs {SCHEMA}"


def _field(place: tuple[int | str, ...]) -> str:
    """`attempts[0].reads[3].got_ns`."""
    path = ""
    for depth, step in enumerate(place):
        rows = _ROWS.get(str(place[depth - 2])) if depth >= 2 else None
        if isinstance(step, str):
            path += f".{step}"
        elif rows and isinstance(place[depth - 1], int) and step < len(rows):
            path += f".{rows[step]}"
        else:
            path += f"[{step}]"
    return path.lstrip(".")


def _out_of_range(recording: Recording) -> str | None:
    """What a type cannot say: the first field out of range, with its path."""
    return next((f"{path}: {why}" for path, why in _violations(recording)), None)


_NEGATIVE = "must not be negative"


def _violations(recording: Recording) -> Iterator[tuple[str, str]]:
    if not 0 <= recording.target.port <= 65535:
        yield "target.port", "must be from 0 to 65535"
    if not 0 < recording.sample.rate <= 1:
        yield "sample.rate", "must be above 0 and at most 1"
    if (recording.in_flight or 0) < 0:
        yield "in_flight", _NEGATIVE
    for index, mark in enumerate(recording.marks):
        if mark.ns < 0:
            yield f"marks[{index}].ns", _NEGATIVE
    for index, attempt in enumerate(recording.attempts):
        for path, why in _attempt_violations(attempt):
            yield f"attempts[{index}].{path}", why
    yield from _side_violations(recording)


def _side_violations(recording: Recording) -> Iterator[tuple[str, str]]:
    for name in ("loop_lag", "gc", "consumer"):
        for index, pair in enumerate(getattr(recording.client, name)):
            if min(pair) < 0:
                yield f"client.{name}[{index}]", _NEGATIVE
    if recording.truth is not None:
        for name, parts in (("segments", recording.truth.segments), ("ttft", recording.truth.ttft)):
            for index, part in enumerate(parts or ()):
                if part.ns < 0:
                    yield f"truth.{name}[{index}].ns", _NEGATIVE


def _attempt_violations(attempt: Attempt) -> Iterator[tuple[str, str]]:
    if attempt.status is not None and not 100 <= attempt.status <= 999:
        yield "status", "must be from 100 to 999"
    yield from _read_violations(attempt.reads)
    for path, value in _attempt_numbers(attempt):
        if value is not None and value < 0:
            yield path, _NEGATIVE


def _attempt_numbers(attempt: Attempt) -> Iterator[tuple[str, int | None]]:
    yield "retry_count", attempt.retry_count
    for index, mark in enumerate(attempt.marks):
        yield f"marks[{index}].ns", mark.ns
    for index, event in enumerate(attempt.events or ()):
        yield f"events[{index}].body_offset", event.body_offset
        yield f"events[{index}].tokens", event.tokens
    for index, info in enumerate(attempt.tcp_info):
        for name in ("rtt_ns", "rttvar_ns", "min_rtt_ns", "rcv_ooopack"):
            yield f"tcp_info[{index}].{name}", getattr(info, name)
    for name, count in (attempt.usage or {}).items():
        yield f"usage.{name}", count


def _read_violations(reads: tuple[Read, ...]) -> Iterator[tuple[str, str]]:
    before = Read(0, 0, 0, 0)
    for index, row in enumerate(reads):
        path = f"reads[{index}]"
        if min(row) < 0:
            yield f"{path}.{Read._fields[row.index(min(row))]}", _NEGATIVE
        if row.got_ns < row.asked_ns:
            yield f"{path}.got_ns", "must not lie before asked_ns"
        if row.got_ns < before.got_ns:
            yield f"{path}.got_ns", "must not lie before the read before it"
        if row.body_offset < before.body_offset:
            yield f"{path}.body_offset", "must not fall from one read to the next"
        before = row


def _restored(recording: Recording, line: str | bytes, where: str) -> Recording:
    """Bodies out of base64, and nothing in the fields that no file may hold."""
    text = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
    if not any(f'"{key}"'.encode() in text for key in ("body_b64", *MEMORY_ONLY)):
        return recording
    rows = from_json(text).get("attempts", [])
    attempts = [
        replace(attempt, wire=None, tcp_raw=(), body=_body(attempt, row, f"{where}: attempts[{i}]"))
        for i, (attempt, row) in enumerate(zip(recording.attempts, rows, strict=True))
    ]
    return replace(recording, attempts=tuple(attempts), sent=None, context=None)


def _body(attempt: Attempt, row: dict[str, Any], where: str) -> bytes | None:
    encoded = row.get("body_b64")
    if encoded is None or attempt.body is not None:
        return attempt.body
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError(f"{where}.body_b64: not base64") from None


def _bound(node: Any, name: str = "") -> None:
    """Writes into the schema what `_violations` checks: no time, size or count is negative."""
    if isinstance(node, dict):
        if node.get("type") == "integer" and name != "Id":
            node["minimum"] = 0
        for value in node.values():
            _bound(value, node.get("title", name))
    elif isinstance(node, list):
        for value in node:
            _bound(value, name)
