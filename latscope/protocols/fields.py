"""Typed getters for JSON nobody vouches for.

A server, a proxy or a broken stream may put anything anywhere. Each getter gives the value when it
has the wanted type and a harmless one otherwise, so that no decoder ever has to ask twice.
"""

from typing import Any

from pydantic_core import from_json


def parse(data: bytes) -> object:
    """The JSON value in `data`; null when it is no JSON.

    What does not parse: cut text, bytes that are not UTF-8, a lone surrogate (`"\\ud83d"`), more
    than 200 levels of nesting, a number of more than 4,300 digits.
    """
    try:
        value: object = from_json(data)
    except ValueError:
        return None
    return value


def as_map(value: object) -> dict[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` when it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: object) -> str:
    """`value` when it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_int(value: object) -> int | None:
    """`value` when it is a whole number from 0 on (a count, an index), else null."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if value >= 0 else None


def dig(value: object, *path: str) -> object:
    """What lies at `path` through nested objects; null where the path ends early."""
    for key in path:
        value = as_map(value).get(key)
    return value
