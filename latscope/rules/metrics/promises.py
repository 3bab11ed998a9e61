"""Metrics of what was promised: a call with a tag `slo` either kept all of it, or not.

The promise stands in the tag, `slo: "ttft 800ms, tpot 50ms, e2e 20s"`, all three or any of them.
"""

import re
from collections.abc import Mapping
from functools import lru_cache, partial

from latscope.rules.metrics.ends import failed
from latscope.rules.metrics.metric import Call, Metric, number
from latscope.rules.where import DURATION, SCALE

LIMITS = ("ttft", "tpot", "e2e")
PROMISE = re.compile(rf"({'|'.join(LIMITS)})\s*(?:<|<=|=|:)?\s*({DURATION.pattern})")
STATE_IT = "state what was promised in a tag, slo: 'ttft 800ms, tpot 50ms, e2e 20s' (any of them)"


@lru_cache(maxsize=256)
def _promises(text: str) -> Mapping[str, float]:
    """What a tag promises, in ns."""
    return {found[1]: float(found[3]) * SCALE[found[4]] for found in PROMISE.finditer(text)}


def _promise(call: Call, what: str) -> float | None:
    return _promises((call.get("tags") or {}).get("slo", "")).get(what)


def _took(call: Call, what: str) -> tuple[float | None, bool]:
    """How long it took, and whether that is only the least it can have been."""
    if what == "tpot":
        return call["tpot_ns"], False
    first = call["first_token_ns"]
    if what == "ttft" and first is not None:
        return first, False
    return call["wall_ns"], call["status"] != "complete"


def _missed(what: str, call: Call) -> bool | None:
    """Null: nothing was promised, or it cannot be told (the caller left before)."""
    limit = _promise(call, what)
    took, at_least = _took(call, what)
    if limit is None or took is None or failed(call):
        return None
    if took > limit:
        return True
    return None if at_least else False


def _unfinished(call: Call) -> bool | None:
    """Whether a call with a promise failed, was cut or timed out. What the caller itself stopped
    says nothing."""
    if all(_promise(call, what) is None for what in LIMITS):
        return None
    return None if call["status"] == "cancelled" else call["status"] != "complete"


def _good(call: Call) -> bool | None:
    found = [_unfinished(call), *(_missed(what, call) for what in LIMITS)]
    if any(found):
        return False
    return True if found[0] is False else None


ROWS = (
    Metric(
        name="slo_met",
        unit="truth",
        means="whether the call ended properly within all that was promised of it",
        of=number(_good),
        collect=STATE_IT,
    ),
    Metric(
        name="slo_missed.end",
        unit="truth",
        means="whether a call with a promise failed, was cut or timed out",
        of=number(_unfinished),
        collect=STATE_IT,
    ),
    *(
        Metric(
            name=f"slo_missed.{what}",
            unit="truth",
            means=f"whether its {what} was longer than promised",
            of=number(partial(_missed, what)),
            collect=STATE_IT,
        )
        for what in LIMITS
    ),
)
