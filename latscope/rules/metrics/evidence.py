"""Metrics of what a call does not tell: no first token, no steps, no usage, no owner."""

from collections.abc import Callable

from latscope.attribution.stalls import CAUSES
from latscope.rules.metrics.ends import first_came
from latscope.rules.metrics.metric import Call, Metric, Value, number

WHOLE_ANSWER = 50
"""Output tokens from which on somebody waits for the first of them."""


def _done(call: Call) -> bool:
    return bool(call["status"] == "complete")


def _no_split(call: Call) -> bool | None:
    """Only of calls whose answer is long enough to be worth streaming."""
    made = call["output_tokens"]
    if not _done(call) or made is None or made < WHOLE_ANSWER:
        return None
    return not first_came(call) and call["itl"] is None


def _no_steps(call: Call) -> bool:
    return call["itl"] is None and call["output_tokens"] not in (0, 1)


def _mostly_open(call: Call) -> bool:
    """Whether more than half of the call's time has no owner."""
    unowned = sum(share["ns"] for share in call["segments"] if share["name"] == "unattributed")
    return bool(2 * unowned > call["wall_ns"])


def _unproven(call: Call) -> bool:
    missing = not first_came(call) or _no_steps(call) or call["output_tokens"] is None
    return missing or _mostly_open(call)


def _of_done(test: Callable[[Call], bool]) -> Callable[[Call], Value]:
    return lambda call: float(test(call)) if _done(call) else None


def _ownerless(call: Call) -> Value:
    if not call["streamed"] or not first_came(call):
        return None
    return float(sum(stall["ns"] for stall in call["stalls"] if stall["cause"] not in CAUSES))


ROWS = (
    Metric(
        name="no_split",
        unit="truth",
        means=f"whether an answer of {WHOLE_ANSWER} tokens or more has its total duration only",
        of=number(_no_split),
        collect="stream the calls",
    ),
    Metric(
        name="unproven",
        unit="truth",
        means="whether a complete call lacks its first token, its steps, its usage, or owners for "
        "half of its time",
        of=_of_done(_unproven),
    ),
    Metric(
        name="lacks.first_token",
        unit="truth",
        means="whether a complete call has no time to first token",
        of=_of_done(lambda call: not first_came(call)),
    ),
    Metric(
        name="lacks.steps",
        unit="truth",
        means="whether a complete call has no gaps between tokens",
        of=_of_done(_no_steps),
    ),
    Metric(
        name="lacks.usage",
        unit="truth",
        means="whether a complete call does not state its tokens",
        of=_of_done(lambda call: call["output_tokens"] is None),
    ),
    Metric(
        name="lacks.owners",
        unit="truth",
        means="whether more than half of a complete call's time is unattributed",
        of=_of_done(_mostly_open),
    ),
    Metric(
        name="stall_ownerless",
        unit="ns",
        means="stalls that are neither named nor said to be unsplit",
        of=_ownerless,
    ),
)
