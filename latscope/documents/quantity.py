"""Numbers with units as pages and settings write them: `500ms`, `30%`, `1.3x`, `12`, `true`."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

Kind: TypeAlias = Literal["time", "percent", "times", "number", "truth"]

PATTERN = re.compile(r"(-?\d+(?:\.\d+)?) ?(ns|us|µs|ms|s|min|h|d|%|x)?")
TIMES = {
    "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12, "d": 8.64e13,
}  # fmt: skip
HOW = "write 500ms, 1.5s, 30%, 1.3x, 12 or true"


@dataclass(frozen=True, slots=True)
class Quantity:
    """value: nanoseconds of a time, 0.3 of `30%`, 1.3 of `1.3x`, 1 or 0 of a truth."""

    value: float
    kind: Kind
    text: str


def quantity(given: Any) -> Quantity:
    """The number a text, number or truth states; ValueError, with what to write, for all else."""
    if isinstance(given, Quantity):
        return given
    if isinstance(given, bool):
        return Quantity(float(given), "truth", str(given).lower())
    match = PATTERN.fullmatch(f"{given}".strip()) if isinstance(given, int | float | str) else None
    if match is None:
        raise ValueError(f"no number with a unit; {HOW}")
    number, unit = float(match[1]), match[2]
    if unit in TIMES:
        return Quantity(number * TIMES[unit], "time", match[0])
    if unit == "%":
        return Quantity(number / 100, "percent", match[0])
    return Quantity(number, "times" if unit else "number", match[0])


_SCHEMA = {
    "anyOf": [
        {"type": ["number", "boolean"]},
        {"type": "string", "pattern": f"^{PATTERN.pattern.replace('?:', '')}$"},
    ],
    "description": "A number with its unit: 500ms, 1.5s, 30%, 1.3x, 12, true.",
}

Given: TypeAlias = Annotated[Quantity, BeforeValidator(quantity), WithJsonSchema(_SCHEMA)]
"""The type of such a field in a model."""
