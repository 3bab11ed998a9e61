"""The integration checklist: whether calls are recorded, capped and traced as runbooks need it.

Each item is judged over all groups (model and endpoint) and names those that fall short. An item is
a habit, not a finding: nothing is compared with how fast the calls were. The one comparison is that
of output caps with the baseline's, which warns, so that a raised or removed cap is seen in review.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from latscope.rules.metrics.metric import Unit, Value
from latscope.rules.spoken import spoken
from latscope.rules.table import Gathered, Key, Table

NAMES = frozenset(
    {
        "completed", "lacks.first_token", "lacks.steps", "uncapped", "max_output_tokens",
        "input_tokens", "cached_share", "cache_fields_seen", "usage_asked", "usage_seen", "traced",
    }
)  # fmt: skip
"""Metrics the checklist reads: what `gather` must collect."""

NEARLY_ALL = 0.9
"""The share of calls from which on a habit counts as kept: some calls end before they can tell."""
ALL_CAPPED = 0.99
RAISED = 1.1
"""Caps that follow the prompt's length differ by less from file to file."""
REMOVED = 0.05
"""Share of calls that state no cap any more, beyond which one was removed."""
FEWEST = 5
"""Calls with a cap on either side, for caps to be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """id: a fixed word. text: the habit, as a sentence. met: null when these calls cannot tell.
    why: the figures behind it, and who falls short. warns: an unmet one is a warning (in CI: exit
    code 1), not advice."""

    id: str
    text: str
    met: bool | None
    why: str
    warns: bool = False


def checklist(calls: Gathered, baseline: Gathered | None = None) -> tuple[Item, ...]:
    """The items in order. calls, baseline: gathered with `NAMES` among the names."""
    return (
        _split(calls),
        _capped(calls),
        _caps_unchanged(calls, baseline),
        _recorded(
            calls,
            "prompt-lengths",
            "Prompt lengths are recorded: the first thing to look at when the first token is slow",
            "input_tokens",
        ),
        _recorded(
            calls,
            "cached-shares",
            "Cached shares are recorded: the second thing to look at",
            "cached_share",
        ),
        _usage(calls),
        _cache_fields(calls),
        _traced(calls),
    )


# -- the items -------------------------------------------------------------------------------------


def _split(calls: Gathered) -> Item:
    return _share_item(
        calls,
        "split-metrics",
        "First token and steps are timed apart from the whole",
        lambda table: [
            None if first is None or steps is None else float(not first and not steps)
            for first, steps in zip(
                table.columns["lacks.first_token"], table.columns["lacks.steps"], strict=True
            )
        ],
        what="complete calls have both",
    )


def _capped(calls: Gathered) -> Item:
    return _share_item(
        calls,
        "output-capped",
        "Every request caps its output (max_tokens)",
        lambda table: [
            None if value is None else float(not value) for value in table.columns["uncapped"]
        ],
        what="requests state a cap",
        least=ALL_CAPPED,
    )


def _recorded(calls: Gathered, id: str, text: str, name: str) -> Item:
    """Of complete calls nearly all tell the metric; its distribution is the proof."""
    values = sorted(_numbers(calls.file.columns[name]))
    unit: Unit = "share" if name.endswith("share") else "tokens"
    proof = ", ".join(
        f"{word} {spoken(_quantile(values, q), unit)}"
        for word, q in (("p50", 0.5), ("p95", 0.95))
        if values
    )
    what = f"tell {name}" + (f" ({proof})" if proof else "")
    return _share_item(calls, id, text, lambda table: _told(table, name), what=what)


def _usage(calls: Gathered) -> Item:
    id, text = "usage-requested", "Usage is asked for on streams"
    asked = _share_item(
        calls, id, text, lambda table: table.columns["usage_asked"], what="streams ask for it"
    )
    if asked.met is not None:
        return asked
    seen = _share_item(
        calls, id, text, lambda table: table.columns["usage_seen"], what="answers state it unasked"
    )
    return seen if seen.met is not False else replace(seen, met=None)


def _cache_fields(calls: Gathered) -> Item:
    """Servers leave the field out when nothing was cached, so one answer that has it is enough."""
    id, text = "cache-fields", "Every model's answers state their cached tokens"
    told = {
        key: max(values)
        for key, table in calls.groups.items()
        if (values := _numbers(table.columns["cache_fields_seen"]))
    }
    if not told:
        return Item(id=id, text=text, met=None, why="no complete call")
    without = [key for key, seen in told.items() if not seen]
    why = f"{len(told) - len(without)} of {len(told)} models and endpoints do"
    return Item(id=id, text=text, met=not without, why=_naming(why, without))


def _traced(calls: Gathered) -> Item:
    return _share_item(
        calls,
        "trace-context",
        "Calls carry a trace context",
        lambda table: table.columns["traced"],
        what="calls have a trace id",
    )


# -- caps against the baseline ---------------------------------------------------------------------


def _caps_unchanged(calls: Gathered, baseline: Gathered | None) -> Item:
    id, text = "caps-unchanged", "No output cap was raised or removed"
    if baseline is None:
        return Item(id=id, text=text, met=None, why="needs --baseline", warns=True)
    shared = [key for key in calls.groups if key in baseline.groups]
    found = [(key, _cap_change(calls.groups[key], baseline.groups[key])) for key in shared]
    judged = [(key, change) for key, change in found if change is not None]
    if not judged:
        why = "the baseline has no calls of the same model and endpoint that tell their caps"
        return Item(id=id, text=text, met=None, why=why, warns=True)
    changed = [f"{_name(key)}: {change}" for key, change in judged if change]
    why = "; ".join(changed) or f"the same as in the baseline ({len(judged)} compared)"
    return Item(id=id, text=text, met=not changed, why=why, warns=True)


def _cap_change(now: Table, then: Table) -> str | None:
    """What became of the cap, in words; empty where nothing did, null where it cannot be told."""
    uncapped = [_numbers(table.columns["uncapped"]) for table in (now, then)]
    if min(len(values) for values in uncapped) < FEWEST:
        return None
    bare, before = (sum(values) / len(values) for values in uncapped)
    if bare > before + REMOVED:
        shares = f"{spoken(bare, 'share')} of the calls state none, {spoken(before, 'share')} did"
        return f"removed ({shares} in the baseline)"
    caps = [sorted(_numbers(table.columns["max_output_tokens"])) for table in (now, then)]
    if min(len(values) for values in caps) < FEWEST:
        return ""
    for q in (0.5, 0.95):
        cap, was = (_quantile(values, q) for values in caps)
        if cap > RAISED * was:
            return f"raised from {spoken(was, 'tokens')} to {spoken(cap, 'tokens')}"
    return ""


# -- shares ----------------------------------------------------------------------------------------


def _share_item(
    calls: Gathered,
    id: str,
    text: str,
    kept: Callable[[Table], Sequence[Value]],
    *,
    what: str,
    least: float = NEARLY_ALL,
) -> Item:
    """An item that so many of the calls keep to; a group of fewer is named."""
    counted: dict[Key, tuple[int, int]] = {}
    for key, table in calls.groups.items():
        values = _numbers(kept(table))
        if values:
            counted[key] = round(sum(values)), len(values)
    if not counted:
        return Item(id=id, text=text, met=None, why="no call tells")
    good, n = (sum(column) for column in zip(*counted.values(), strict=True))
    short = [key for key, (some, of) in counted.items() if some < least * of]
    why = f"{good:,} of {n:,} {what}"
    return Item(id=id, text=text, met=not short, why=_naming(why, short))


def _told(table: Table, name: str) -> list[Value]:
    """Of complete calls: whether they tell the metric."""
    pairs = zip(table.columns["completed"], table.columns[name], strict=True)
    return [float(value is not None) if done else None for done, value in pairs]


def _numbers(values: Sequence[Value]) -> list[float]:
    return [float(value) for value in values if isinstance(value, int | float)]


def _quantile(values: Sequence[float], q: float) -> float:
    return values[max(0, ceil(q * len(values)) - 1)]


MOST_NAMED = 3


def _naming(why: str, short: Sequence[Key]) -> str:
    if not short:
        return why
    named = "; ".join(map(_name, short[:MOST_NAMED]))
    more = f" and {len(short) - MOST_NAMED} more" if len(short) > MOST_NAMED else ""
    return f"{why}; not {named}{more}"


def _name(key: Key) -> str:
    model, endpoint = key
    return f"{model or 'no model'} at {endpoint or 'no endpoint'}"
