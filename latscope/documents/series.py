"""`latscope.series/1`: what a server says of all its calls together, at one moment a line.

Such lines stand among the recordings of a file, in any order: gauges and the sums and counts of
histograms as a server's metrics page (or a Prometheus that scraped it) stated them. They belong to
the server, not to a call, so they carry no call_id; `at` is wall clock.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from typing import Any

from pydantic import TypeAdapter, ValidationError

SCHEMA = "latscope.series/1"
FAMILY = SCHEMA.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """at: RFC 3339, when the server was asked. source: the page's address, no user info and no
    query. values: by the server's own names, in its own units; a label that tells figures apart
    stays in the name, as `name{label="value"}`."""

    at: str
    source: str
    values: Mapping[str, float] = field(default_factory=dict)
    schema: str = SCHEMA


_adapter = TypeAdapter(Series)


def to_line(series: Series) -> str:
    """One line of `latscope.series/1`, without its line end; what is no finite number (an empty
    histogram's quantile) is left out, since JSON has no word for it."""
    values = {name: value for name, value in series.values.items() if isfinite(value)}
    plain = {"schema": SCHEMA, "at": series.at, "source": series.source, "values": values}
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def understood(line: str | bytes) -> Series | str:
    """The series in a line, or the one thing that is wrong with it."""
    try:
        found = _adapter.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'series'}: {first['msg']}"
    if found.schema != SCHEMA:
        return f"schema {found.schema[:64]!r}: this latscope reads up to {SCHEMA}"
    try:
        told = datetime.fromisoformat(found.at)
    except ValueError:
        return "at: no RFC 3339 time"
    return found if told.tzinfo is not None else "at: needs a time zone, like Z"


def schema() -> dict[str, Any]:
    """JSON Schema of a line of `latscope.series/1`."""
    described = _adapter.json_schema()
    described["properties"]["schema"] = {"const": SCHEMA}
    described["required"] = ["schema", *described["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
