"""The only reading of recording files: `latscope.recording/1`, one JSON line a call.

A file is trusted with nothing: types, bounds and the order of reads are checked. What a killed
writer or a bad disk leaves behind costs its own line only, and so does a line of an unknown version
or with a field out of range; each is told. Unknown keys are ignored. Messages name file, line and
field, never what the field holds.

Lines of `latscope.series/1` and `latscope.inbound/1` may stand among the recordings: `read` passes
over them, `read_series` and `read_inbound` read them alone.
"""

import base64
import binascii
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from latscope.documents import inbound, series
from latscope.documents.series import Series
from latscope.errors import InputError
from latscope.recording import (
    MEMORY_ONLY,
    SCHEMA,
    Attempt,
    EventRow,
    Mark,
    Read,
    Recording,
    TcpInfo,
)
from latscope.rules.inbound import Inbound

FAMILY = SCHEMA.partition("/")[0]

_WANTED = f"a recording file holds one {SCHEMA} object a line"

NOT_JSON = "not JSON"
UPGRADE = "upgrade latscope to read it"

Found = TypeVar("Found")

_adapter = TypeAdapter(Recording)
_ROWS: dict[str, tuple[str, ...]] = {
    "reads": Read._fields,
    "marks": Mark._fields,
    "events": EventRow._fields,
}
"""Names of the places in rows that are arrays, for messages."""


def read(
    path: str | PathLike[str],
    *,
    problems: list[str] | None = None,
    refused: list[str] | None = None,
) -> Iterator[Recording]:
    """The recordings of a file, or of standard input for `-`, one after the other.

    A line that cannot be used is left out, and a sentence with file and line says so. problems:
    gets it for a line that is broken (cut by a killed writer, damaged); refused: for one that is
    whole, yet of another version or with a field out of range (else `problems` gets these too).
    Without a list they are warnings. InputError when the file cannot be read, or holds no line
    that can be used.
    """
    torn = _warn if problems is None else problems.append
    unfit = torn if refused is None else refused.append
    with opened(path) as (name, file):
        yield from _read_lines(name, file, torn, unfit)


def read_series(
    path: str | PathLike[str], *, problems: list[str] | None = None
) -> Iterator[Series]:
    """The `latscope.series/1` lines of a file of recordings, one after the other; often none.

    problems: gets a sentence for each that cannot be used (else it is a warning). InputError when
    the file cannot be read.
    """
    yield from _read_aside(path, series.FAMILY, series.understood, problems)


def read_inbound(
    path: str | PathLike[str], *, problems: list[str] | None = None
) -> Iterator[Inbound]:
    """The `latscope.inbound/1` lines of a file of recordings, as `read_series` those of series."""
    yield from _read_aside(path, inbound.FAMILY, inbound.understood, problems)


def _read_aside(
    path: str | PathLike[str],
    family: str,
    understood: Callable[[bytes], Found | str],
    problems: list[str] | None,
) -> Iterator[Found]:
    tell = _warn if problems is None else problems.append
    with opened(path) as (name, file):
        for number, line in enumerate(file, 1):
            if not _is_of(line, family):
                continue
            found = understood(line)
            if isinstance(found, str):
                tell(f"{name}:{number}: {found}; left out")
            else:
                yield found


@contextmanager
def opened(path: str | PathLike[str]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """The file's name for messages, and its lines; standard input for `-`."""
    name = str(path)
    try:
        if name == "-":
            yield "<stdin>", sys.stdin.buffer
        else:
            with Path(path).open("rb") as file:
                yield name, file
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error


def read_text(line: str | bytes, *, where: str = "recording") -> Recording:
    """The recording in one line. where: names its origin in the InputError of a bad one."""
    found = understood_line(line)
    if isinstance(found, str):
        raise InputError(f"{where}: {found}")
    return found


def understood_line(line: str | bytes) -> Recording | str:
    """The recording in a line, or the one thing that is wrong with it."""
    try:
        recording = _adapter.validate_json(line, strict=True)
    except ValidationError as error:
        return _what_is_wrong(line, error)
    wrong = _wrong_version(recording.schema) or _out_of_range(recording)
    return wrong or _restored(recording, line)


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


_Fault: TypeAlias = tuple[int, str]
"""A line's number and what is wrong with it."""


def _read_lines(
    name: str, file: Iterable[bytes], torn: Callable[[str], None], unfit: Callable[[str], None]
) -> Iterator[Recording]:
    return usable(
        Lines(name, file, torn, unfit), understood_line, is_aside, f"holds no recording; {_WANTED}"
    )


class Lines(NamedTuple):
    """A file's name and its lines, and who is told of those that cannot be used (see `read`)."""

    name: str
    file: Iterable[bytes]
    torn: Callable[[str], None]
    unfit: Callable[[str], None]


def usable(
    lines: Lines,
    understood: Callable[[bytes], Found | str],
    passed: Callable[[bytes], bool],
    none: str,
) -> Iterator[Found]:
    """What the lines hold, one after the other: `understood` gives it, or says what is wrong;
    lines that `passed` names are not looked at. none: what to say of a file without any."""
    name, file, torn, unfit = lines
    count = 0
    faults: list[_Fault] = []  # not told before it is known whether a usable line follows
    for number, line in enumerate(file, 1):
        if not line.strip() or passed(line):
            continue
        found = understood(line)
        if isinstance(found, str):
            faults.append((number, found))
            if count == 0 and [wrong for _, wrong in faults] == [NOT_JSON] * 2:
                break  # no file of recordings at all: the rest, however much, is not looked at
            continue
        for fault in faults:
            _tell(name, fault, torn, unfit)
        faults.clear()
        yield found
        count += 1
    if count == 0:
        raise InputError(_nothing_usable(name, faults, none))
    for fault in faults[:-1]:
        _tell(name, fault, torn, unfit)
    for number, wrong in faults[-1:]:
        if wrong == NOT_JSON:
            torn(f"{name}:{number}: the last line is cut off; left out, {_before(count)} read")
        else:
            _tell(name, (number, wrong), torn, unfit)


def is_aside(line: bytes) -> bool:
    """Whether the line is no call but stands among calls: of a server's series, of an inbound
    request, of whatever version."""
    return _is_of(line, series.FAMILY) or _is_of(line, inbound.FAMILY)


def _is_of(line: bytes, family: str) -> bool:
    # The name is looked for first: a line is parsed twice only where it might be one.
    if family.encode() not in line:
        return False
    try:
        found = from_json(line)
    except ValueError:
        return False
    said = found.get("schema") if isinstance(found, dict) else None
    return isinstance(said, str) and said.startswith(f"{family}/")


def _tell(
    name: str, fault: _Fault, torn: Callable[[str], None], unfit: Callable[[str], None]
) -> None:
    number, wrong = fault
    if wrong == NOT_JSON:
        torn(f"{name}:{number}: not JSON; left out, the lines after it were read")
    else:
        advice = "" if UPGRADE in wrong else "; mend the line or drop it"
        unfit(f"{name}:{number}: {wrong}; left out, the other lines were read{advice}")


def _nothing_usable(name: str, faults: list[_Fault], none: str) -> str:
    if not faults:
        return f"{name}: {none}"
    number, wrong = faults[0]
    more = f"; {none.partition('; ')[2]}" if wrong == NOT_JSON else ""
    others = len(faults) - 1
    if others and wrong != NOT_JSON:
        more = f"; nor can any of the {others} after it be used" if others > 1 else ""
        more = more or "; nor can the line after it be used"
    return f"{name}:{number}: {wrong}{more}"


def _before(count: int) -> str:
    return "the one recording before it was" if count == 1 else f"the {count} before it were"


def _what_is_wrong(line: str | bytes, error: ValidationError) -> str:
    """The one thing to say of a line that does not validate: its version before its fields."""
    try:
        found = from_json(line)
    except ValueError:
        return NOT_JSON
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
        return f"schema {shown!r}: this latscope reads up to {SCHEMA}; {UPGRADE}"
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
    for index, sample in enumerate(recording.rtt_probe):
        if min(sample.sent_ns, sample.rtt_ns or 0) < 0:
            yield f"rtt_probe[{index}]", _NEGATIVE
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
        for name in [*TcpInfo.__dataclass_fields__][1:]:  # all but `at`
            yield f"tcp_info[{index}].{name}", getattr(info, name)
    for name, count in (attempt.usage or {}).items():
        yield f"usage.{name}", count


def _read_violations(reads: tuple[Read, ...]) -> Iterator[tuple[str, str]]:
    before = Read(0, 0, 0, 0)
    for index, row in enumerate(reads):
        asked, got, wire, offset = row
        if 0 <= asked <= got >= before.got_ns and wire >= 0 and offset >= before.body_offset:
            before = row  # nearly every read
            continue
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


def _restored(recording: Recording, line: str | bytes) -> Recording | str:
    """Bodies out of base64, and nothing in the fields that no file may hold; or what is wrong."""
    whole = all(attempt.body is not None for attempt in recording.attempts)
    loaded = recording.sent is not None or recording.context is not None
    loaded = loaded or any(one.wire is not None or one.tcp_raw for one in recording.attempts)
    if whole and not loaded:  # nearly every line
        return recording
    text = line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass")
    if not loaded and b'"body_b64"' not in text:
        return recording
    attempts = []
    for index, row in enumerate(from_json(text).get("attempts", [])):
        attempt = recording.attempts[index]
        try:
            body = _body(attempt, row.get("body_b64"))
        except (binascii.Error, TypeError, ValueError):
            return f"attempts[{index}].body_b64: not base64"
        attempts.append(replace(attempt, wire=None, tcp_raw=(), body=body))
    return replace(recording, attempts=tuple(attempts), sent=None, context=None)


def _body(attempt: Attempt, encoded: Any) -> bytes | None:
    if encoded is None or attempt.body is not None:
        return attempt.body
    return base64.b64decode(encoded, validate=True)


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
