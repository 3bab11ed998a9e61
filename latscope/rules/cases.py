"""A page's cases: the calls their tables describe, and what the page says of them.

A table makes `n` calls, `every` so long, the first at `start`. Its other keys are figures of a call
in the words of metrics (`rules.drawn`). A list is gone through again and again, one entry a call;
`{from: 500, step: 120}` grows by so much a call. `spread` varies the times and sizes of each call
by so much (a log-normal's sigma), independently, by the case's seed.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from latscope.errors import UsageError
from latscope.rules.check import ORDER, check, names_of
from latscope.rules.drawn import drawn
from latscope.rules.finding import Finding
from latscope.rules.metrics import metric_of
from latscope.rules.metrics.metric import Call
from latscope.rules.runbook import Case, Runbook
from latscope.rules.table import Gathered, gather
from latscope.units import S

CONTROLS = ("n", "every", "start", "spread", "file")
VARIES = ("ns", "tokens", "bytes")
"""Units of what `spread` varies: counts, shares and truths stay as they are stated."""
STEADY = frozenset({"max_output_tokens", "limit_tokens", "cache_ttl", "retry_after", "floor"})
"""What does not vary from call to call, though it is a time or a size."""

Files = Mapping[str, Sequence[Call]]


def calls_of(
    tables: Sequence[Mapping[str, Any]], seed: int = 0, files: Files | None = None
) -> list[Call]:
    """The calls that the tables of a case describe, as `latscope.attribution/1` mappings, in the
    order they began; UsageError where a table makes no sense. files: of each `{file: NAME}`."""
    found: list[Call] = []
    for index, table in enumerate(tables):
        if "file" in table:
            name = str(table["file"])
            if files is None or name not in files:
                raise UsageError(f"no recordings of the name {name!r} beside the page")
            found += files[name]
        else:
            found += _drawn(table, f"t{index}", random.Random(f"{seed}/{index}"))
    return sorted(found, key=lambda call: str(call["started_at"]))


def _drawn(table: Mapping[str, Any], name: str, by: random.Random) -> list[Call]:
    every, start = float(table.get("every", S)), float(table.get("start", 0))
    spread = float(table.get("spread", 0))
    stated = {key: value for key, value in table.items() if key not in CONTROLS}
    calls: list[Call] = []
    for at in range(int(table.get("n", 1))):
        values = {key: _entry(value, at) for key, value in stated.items()}
        values = _together(values)
        values = {key: _varied(key, value, spread, by) for key, value in values.items()}
        rest = values.pop(REST, None)
        if rest is not None:
            firsts = [v for k, v in values.items() if k in FIRSTS and v is not None]
            values["ttft"] = sum(firsts) + rest
        calls.append(drawn(values, f"{name}-{at}", round(start + at * every)))
    return calls


FIRSTS = tuple(f"ttft.{name}" for name in ("queue", "prefill", "decode", "network", "client"))
REST = "ttft.rest"


def _together(values: Mapping[str, Any]) -> dict[str, Any]:
    """Where shares of the time to first token are stated beside it, what they leave of it varies in
    its place: so the whole stays the sum, whatever each is drawn to be."""
    found = dict(values)
    stated = [found[key] for key in FIRSTS if found.get(key) is not None]
    if stated and found.get("ttft") is not None:
        found[REST] = max(0.0, found.pop("ttft") - sum(stated))
    return found


def _entry(value: Any, at: int) -> Any:
    """What a key states of the call at this place."""
    if isinstance(value, list | tuple):
        return value[at % len(value)] if value else None
    if isinstance(value, Mapping):
        if not {"from", "step"}.issuperset(value):
            raise UsageError(f"a case's figure is a value, a list or {{from, step}}, not {value!r}")
        return value.get("from", 0) + at * value.get("step", 0)
    return value


def _varied(name: str, value: Any, spread: float, by: random.Random) -> Any:
    if not spread or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if name in STEADY or not (name == REST or _unit(name) in VARIES):
        return value
    return value * by.lognormvariate(0, spread)


def _unit(name: str) -> str:
    row = metric_of(name)
    return "" if row is None else row.unit


def run_case(page: Runbook, case: Case, files: Files | None = None) -> Finding:
    """What the page says of a case: of several groups, of the one in which it is most open."""
    names = names_of([page])

    def gathered(tables: Sequence[Mapping[str, Any]], seed: int) -> Gathered | None:
        return gather(calls_of(tables, seed, files), names) if tables else None

    calls = gather(calls_of(case.calls, 3 * case.seed, files), names)
    found = check(
        [page],
        calls,
        baseline=gathered(case.baseline, 3 * case.seed + 1),
        before=gathered(case.before, 3 * case.seed + 2),
    )
    if not found:
        raise UsageError(f"the case {case.says!r} has no call")
    return min(found, key=lambda finding: ORDER.index(finding.verdict))
