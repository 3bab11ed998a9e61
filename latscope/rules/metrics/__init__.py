"""The table of metrics: every word a runbook's condition may use, one row a metric.

The rows stand in the files of this package, one a subject; each file names its own `ROWS`, a tuple.
Some names are made as they are asked for: `tags.NAME`, `flag.NAME`, `server.NAME`, and every plain
field of `latscope.attribution/1` by its dotted name.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec

from latscope.attribution.jsonview import value_at
from latscope.errors import UsageError
from latscope.rules.fields import PLAIN, check_field, kind_of
from latscope.rules.metrics.metric import Call, Columns, Metric, Unit, Value
from latscope.rules.metrics.shares import joint

__all__ = [
    "METRICS",
    "Call",
    "Columns",
    "Metric",
    "Unit",
    "Value",
    "known",
    "metric_of",
    "no_metric",
]

SUBJECTS = (
    "calls", "around", "caching", "delivery", "sessions", "prefixes", "money", "server",
    "promises", "evidence", "extra",
)  # fmt: skip


def merged(tables: Iterable[Iterable[Metric]]) -> dict[str, Metric]:
    """One table of several; ValueError where two rows have one name."""
    rows: dict[str, Metric] = {}
    for table in tables:
        for row in table:
            if row.name in rows:
                raise ValueError(f"two metrics are named {row.name}")
            rows[row.name] = row
    return rows


METRICS: dict[str, Metric] = merged(
    import_module(f"{__name__}.{subject}").ROWS
    for subject in SUBJECTS
    if find_spec(f"{__name__}.{subject}") is not None
)
"""Name -> row."""


def metric_of(name: str) -> Metric | None:
    """The row of a name, made where the name is a field's or a tag's; null where it is none."""
    found = METRICS.get(name)
    return found if found is not None else _made(name)


def known(name: str) -> Metric:
    """The row of a name; UsageError where it is none."""
    found = metric_of(name)
    if found is None:
        raise UsageError(no_metric(name))
    return found


def no_metric(name: str) -> str:
    """What is wrong with a name that is no metric's, and which it may have been meant to be."""
    near = get_close_matches(name, METRICS, n=2)
    return f"no metric {name!r}" + (f"; did you mean {' or '.join(near)}?" if near else "")


@cache
def _made(name: str) -> Metric | None:
    if "+" in name:
        return joint(name)
    head, _, rest = name.partition(".")
    if head == "flag" and rest:
        return Metric(
            name=name,
            unit="truth",
            means=f"whether the attribution carries the flag {rest}",
            of=lambda call: float(rest in call["flags"]),
        )
    if head == "server" and rest:
        return Metric(
            name=name,
            unit="count",
            means=f"the server's own {rest} while the call ran",
            of=lambda call: (call.get("server_series") or {}).get(rest),
            modes=("self-hosted", "on-device"),
            collect="poll the server's metrics beside the calls: latscope probe --metrics",
        )
    return _field(name)


def _field(name: str) -> Metric | None:
    if check_field(name) is not None or kind_of(name) not in PLAIN:
        return None
    kind = kind_of(name)
    unit: Unit = "text"
    if kind == "truth":
        unit = "truth"
    elif kind == "number":
        unit = "ns" if name.endswith("_ns") else "count"

    def of(call: Call) -> Value:
        found = value_at(call, name)
        return float(found) if isinstance(found, bool | int | float) else found

    return Metric(name=name, unit=unit, means=f"the field {name} of the attribution", of=of)
