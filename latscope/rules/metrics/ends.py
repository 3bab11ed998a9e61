"""How a call ended, told from its line: as `rules.group` tells it from an attribution."""

from latscope.rules.group import TIMEOUTS, Ending
from latscope.rules.metrics.metric import Call

REFUSALS = frozenset({429, 503, 529})
"""Too many requests; unavailable; overloaded (Anthropic's own)."""


def ending(call: Call) -> Ending:
    """`complete`; `stopped`: it would have gone on (cut, cancelled, timed out); `failed`."""
    status = call["status"]
    if status == "complete":
        return "complete"
    return "failed" if status == "error" and not timed_out(call) else "stopped"


def failed(call: Call) -> bool:
    return call["status"] == "error" and not timed_out(call)


def timed_out(call: Call) -> bool:
    """Whether the caller's patience ended the call, not the server."""
    status, error = call["http_status"], call["error"]
    if error is None or (status is not None and status >= 400):
        return False
    return str(error["type"]).rpartition(".")[2] in TIMEOUTS


def refused(call: Call) -> bool:
    """Whether any attempt was turned away for load or quota."""
    statuses = [attempt["status"] for attempt in call["attempts"]]
    return not REFUSALS.isdisjoint([*statuses, call["http_status"]])


def first_came(call: Call) -> bool:
    return call["first_token_ns"] is not None
