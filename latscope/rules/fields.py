"""The fields of `latscope.attribution/1` by their dotted names: which there are, of which kind."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from latscope.attribution.jsonview import ALIASES, KEYS
from latscope.attribution.model import OWNERS, SEGMENTS, Attribution

Kind = Literal["number", "text", "truth", "group", "names", "list"]
"""`group`: has fields of its own. `names`: holds whatever names were given, such as tags."""

PLAIN: tuple[Kind, ...] = ("number", "text", "truth")
"""One value, which can stand in a line."""


def check_field(path: str) -> str | None:
    """What is wrong with a field's name, in words; null when it is one."""
    head, _, rest = ALIASES.get(path, path).partition(".")
    if path in SEGMENTS:
        return None
    if head not in KEYS:
        return (
            f"no field {path!r}; fields: {', '.join(KEYS)}, tags.NAME, ttft, wall and the segments"
        )
    if rest and _type_at(ALIASES.get(path, path)) is None:
        inner = _inner(head)
        return (
            f"no field {path!r}; {f'fields of {head}: ' + inner if inner else f'{head} has none'}"
        )
    return None


def check_plain(path: str) -> str | None:
    """What is wrong with a field of which one plain value a call is wanted; null when nothing."""
    kind = kind_of(path)
    if kind in PLAIN:
        return None
    if path == "segments":
        return f"segments is a list: take one by its name: {', '.join(OWNERS)}"
    if kind == "list":
        return f"{path} is a list, not one value"
    if kind == "names":
        return f"{path} holds many values: take one, as {path}.NAME"
    return f"{path} holds several values: take one of {_inner(path)}"


def kind_of(path: str) -> Kind:
    """The kind of a field that `check_field` finds nothing wrong with."""
    if path in SEGMENTS:
        return "number"
    return _kind(_type_at(ALIASES.get(path, path)))


def _kind(found: Any) -> Kind:
    if is_dataclass(found):
        return "group"
    origin = get_origin(found)
    if origin is tuple:
        return "list"
    if origin is not None and origin is not Literal and issubclass(origin, Mapping):
        return "names"
    if found is bool:
        return "truth"
    return "number" if found in (int, float) else "text"


def _type_at(path: str) -> Any:
    """The type of a field, without its null; null when there is no such field."""
    found: Any = Attribution
    head, _, rest = path.partition(".")
    while head:
        if _kind(found) == "names":
            return str  # tag names may hold dots
        if not is_dataclass(found):
            return None
        found = _types(cast(type, found)).get(head)
        head, _, rest = rest.partition(".")
    return found


@cache
def _types(record: type) -> dict[str, Any]:
    return {name: _known(kind) for name, kind in get_type_hints(record).items()}


def _known(kind: Any) -> Any:
    if get_origin(kind) not in (Union, UnionType):
        return kind
    return next(part for part in get_args(kind) if part is not NoneType)


def _inner(path: str) -> str:
    found = _type_at(path)
    if not is_dataclass(found):
        return ""
    return ", ".join(f"{path}.{field.name}" for field in fields(found))
