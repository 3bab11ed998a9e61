"""Files of calls, captured or already attributed: lines of `latscope.recording/1` and
`latscope.attribution/1` in any mix, with lines of `latscope.series/1` and `latscope.inbound/1`
between them.

A recording comes out as one, to be attributed by who knows a profile for it; an attribution line as
its mapping, every key of the format there. Such a line is checked while it is parsed: what comes
out has the types of the format, so that nothing after it need ask.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, cast, get_args, get_origin, get_type_hints

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema, from_json

from latscope.attribution import attribute
from latscope.attribution.jsonview import KEYS, to_mapping
from latscope.attribution.model import SCHEMA, SEGMENTS, Attribution, SegmentShare
from latscope.documents import recordings
from latscope.documents.recordings import Lines
from latscope.errors import InputError
from latscope.recording import SCHEMA as RECORDING
from latscope.recording import Recording
from latscope.rules.runbook import Case, Runbook

Call: TypeAlias = dict[str, Any]
"""A line of `latscope.attribution/1`."""

FAMILY = SCHEMA.partition("/")[0]
NONE = f"holds no call; a file of calls holds one {RECORDING} or {SCHEMA} object a line"
MUST = ("schema", "call_id", "started_at", "status", "wall_ns", "segments")
"""Keys no line may lack; one that an older latscope did not write is null."""
_LISTS = ("attempts", "unsplit", "dominant_candidates", "stalls", "reported", "flags", "hops")
_GROUPS: dict[str, dict[str, Any]] = {
    "tags": {},
    "service_tier": {"requested": None, "served": None},
    "connection": {"reused": None, "http": None, "peer": None},
    "sample": {"rate": 1.0, "why": "all"},
}
_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:\s*"(latscope\.[a-z]+)/')
_TIME = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:?\d\d)?$"
_LARGEST = 2**63 - 1
_NAMES = set(SEGMENTS)


def read(
    path: str | PathLike[str], *, problems: list[str], refused: list[str]
) -> Iterator[Recording | Call]:
    """The calls of a file, or of standard input for `-`, one after the other.

    A line that cannot be used is left out, and a sentence with file and line says so: in `problems`
    for a broken one, in `refused` for one of another version or with a field out of range.
    InputError when the file cannot be read, or holds no call.
    """
    with recordings.opened(path) as (name, file):
        lines = Lines(name, file, problems.append, refused.append)
        found: Iterator[Recording | Call] = recordings.usable(
            lines, _understood, recordings.is_aside, NONE
        )
        yield from found


def read_recordings(path: str | PathLike[str]) -> Iterator[Recording]:
    """The recordings among them alone; attribution lines cost next to nothing. InputError as
    above; what cannot be used is left to `read` to tell."""
    with recordings.opened(path) as (name, file):
        lines = Lines(name, file, _untold, _untold)
        yield from recordings.usable(lines, recordings.understood_line, _no_recording, NONE)


def understood(line: bytes) -> Call | str:
    """The call in a line of `latscope.attribution/1`, or the one thing that is wrong with it."""
    try:
        found = cast(Call, _validator.validate_json(line))
    except ValidationError as error:
        return _what_is_wrong(line, error)
    return _complete(found) or found


def checked(call: Mapping[str, Any], where: str) -> Call:
    """A line's mapping, every key there and of its type; InputError, which begins with `where`, for
    one that is none."""
    try:
        found = cast(Call, _validator.validate_python({**call}))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise InputError(f"{where}: {_field(first['loc'])}: {first['msg']}") from error
    wrong = _complete(found)
    if wrong is not None:
        raise InputError(f"{where}: {wrong}")
    return found


def beside(page: Runbook, case: Case) -> dict[str, list[Call]]:
    """The calls of each `{file: NAME}` a case of a page names, by name: files beside the page,
    recordings attributed alone. InputError for one that cannot be used."""
    tables = (*case.calls, *case.baseline, *case.before)
    found: dict[str, list[Call]] = {}
    for name in {str(table["file"]) for table in tables if "file" in table}:
        problems: list[str] = []
        calls = read(Path(page.path).parent / name, problems=problems, refused=problems)
        found[name] = [
            to_mapping(attribute(call)) if isinstance(call, Recording) else call for call in calls
        ]
        if problems:
            raise InputError(problems[0])
    return found


def _understood(line: bytes) -> Recording | Call | str:
    if _family(line) == FAMILY:
        return understood(line)
    return recordings.understood_line(line)


def _family(line: bytes) -> str:
    """What a line says it is: by its first key, where every writer of latscope puts it."""
    head = _HEAD.match(line)
    if head is not None:
        return head[1].decode()
    if FAMILY.encode() not in line:
        return ""
    try:
        found = from_json(line)
    except ValueError:
        return ""
    said = found.get("schema") if isinstance(found, dict) else None
    return said.partition("/")[0] if isinstance(said, str) else ""


def _no_recording(line: bytes) -> bool:
    return _family(line) == FAMILY or recordings.is_aside(line)


def _untold(problem: str) -> None:
    pass


def _complete(found: Call) -> str | None:
    """Puts in what an older latscope did not write. What is wrong, where something is."""
    if {share["name"] for share in found["segments"]} != _NAMES:
        return f"segments: must be {', '.join(SEGMENTS)}, each once"
    if len(found) < len(KEYS):
        for key in KEYS:
            if key not in found:
                found[key] = [] if key in _LISTS else dict(_GROUPS[key]) if key in _GROUPS else None
    return None


def _what_is_wrong(line: bytes, error: ValidationError) -> str:
    try:
        plain = from_json(line)
    except ValueError:
        return recordings.NOT_JSON
    version = plain.get("schema") if isinstance(plain, dict) else None
    if version != SCHEMA:
        shown = str(version)[:64]
        return f"schema {shown!r}: this latscope reads up to {SCHEMA}; {recordings.UPGRADE}"
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{_field(first['loc'])}: {first['msg']}"


def _field(loc: tuple[int | str, ...]) -> str:
    """`segments[0].ns`."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}"
    return path.lstrip(".") or "line"


# -- the format, as what the parser checks ---------------------------------------------------------


def _record(kind: type) -> CoreSchema:
    """A dataclass of the attribution as its JSON object. Unknown keys are dropped; a key whose
    field has a default came later, and may be absent."""
    hints = get_type_hints(kind)
    keys: dict[str, core_schema.TypedDictField] = {}
    for field in fields(kind):
        late = field.default is not MISSING or field.default_factory is not MISSING
        checked = _schema(hints[field.name], field.name)
        keys[field.name] = core_schema.typed_dict_field(checked, required=not late)
    return core_schema.typed_dict_schema(keys, extra_behavior="ignore")


def _line() -> CoreSchema:
    hints = get_type_hints(Attribution)
    special: dict[str, CoreSchema] = {
        "schema": core_schema.literal_schema([SCHEMA]),
        "started_at": core_schema.str_schema(pattern=_TIME),
        "segments": core_schema.list_schema(
            _record(SegmentShare), min_length=len(SEGMENTS), max_length=len(SEGMENTS)
        ),
    }
    keys = {
        key: core_schema.typed_dict_field(
            special.get(key) or _schema(hints[key], key), required=key in MUST
        )
        for key in KEYS
    }
    return core_schema.typed_dict_schema(keys, extra_behavior="ignore")


def _schema(hint: Any, name: str) -> CoreSchema:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is int:
        signed = name.startswith("remaining_")  # some vendors count below zero
        return core_schema.int_schema(ge=-_LARGEST if signed else 0, le=_LARGEST)
    if is_dataclass(hint):
        return _record(cast(type, hint))
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        (known,) = (part for part in inner if part is not NoneType)
        return core_schema.nullable_schema(_schema(known, name))
    if origin is Literal:
        return core_schema.literal_schema(list(inner))
    if origin is tuple and inner[-1] is ...:
        return core_schema.list_schema(_schema(inner[0], name))
    if origin is tuple:
        return core_schema.tuple_schema([_schema(part, name) for part in inner])
    return core_schema.dict_schema(core_schema.str_schema(), _schema(inner[1], name))


_PLAIN: dict[Any, CoreSchema] = {
    str: core_schema.str_schema(),
    bool: core_schema.bool_schema(),
    float: core_schema.float_schema(allow_inf_nan=False),
}
_validator = SchemaValidator(_line())
