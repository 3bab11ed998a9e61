"""`latscope.inbound/1`: an inbound request of a service, one a line among the recordings of the
calls it made, which name it by their `turn`."""

import json
from dataclasses import fields
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from latscope.rules.inbound import SCHEMA, Inbound

FAMILY = SCHEMA.partition("/")[0]

_adapter = TypeAdapter(Inbound)


def to_line(inbound: Inbound) -> str:
    """One line, without its line end; nulls are left out."""
    pairs = ((field.name, getattr(inbound, field.name)) for field in fields(inbound))
    plain = {"schema": SCHEMA, **{name: value for name, value in pairs if value is not None}}
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)


def understood(line: str | bytes) -> Inbound | str:
    """The request in a line, or the one thing that is wrong with it."""
    try:
        found = _adapter.validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'inbound'}: {first['msg']}"
    if found.schema != SCHEMA:
        return f"schema {found.schema[:64]!r}: this latscope reads up to {SCHEMA}"
    try:
        told = datetime.fromisoformat(found.started_at)
    except ValueError:
        return "started_at: no RFC 3339 time"
    if told.tzinfo is None:
        return "started_at: needs a time zone, like Z"
    if not 0 <= (found.first_byte_ns or 0) <= found.wall_ns:
        return "first_byte_ns: must lie from 0 to wall_ns"
    return found


def schema() -> dict[str, Any]:
    """JSON Schema of a line of `latscope.inbound/1`."""
    described = _adapter.json_schema()
    described["properties"]["schema"] = {"const": SCHEMA}
    described["required"] = ["schema", *described["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}
