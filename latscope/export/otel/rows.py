"""What is exported, as plain rows: spans with original times, and points of metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Value: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

Kind: TypeAlias = Literal["client", "internal"]

Role: TypeAlias = Literal["inference", "within", "beside"]
"""What a call's own span is. `inference`: the one span of the call. `within`: another tool has made
that span, its id stands in the recording's trace, and ours are its children. `beside`: another tool
makes one that cannot be reached, and ours says nothing that would count twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A span event."""

    name: str
    unix_ns: int
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRow:
    """One span. Ids are lower-case hex. failed: its status is ERROR; else it is not set."""

    name: str
    kind: Kind
    trace_id: str
    span_id: str
    parent_id: str | None
    start_unix_ns: int
    end_unix_ns: int
    attributes: Mapping[str, Value]
    events: tuple[Moment, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """A metric. buckets: upper bounds of a histogram; a counter has none."""

    name: str
    unit: str
    description: str
    buckets: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """What a call adds to one series, at its end: each value counts once. At least one."""

    instrument: Instrument
    values: Sequence[float]
    attributes: Mapping[str, Value]
