"""Metrics of what a call does not tell."""

from typing import Any

import pytest

from latscope.rules.metrics import known
from latscope.units import MS, S
from tests.rules.made import call

STREAM: dict[str, Any] = {"ttft": S, "itl_p50": 20 * MS, "output_tokens": 100}
WHOLE: dict[str, Any] = {"streamed": False, "e2e": 5 * S, "output_tokens": 100}


def told(name: str, line: dict[str, Any]) -> Any:
    row = known(name)
    assert row.of is not None
    return row.of(line)


@pytest.mark.parametrize(
    ("name", "stated", "value"),
    [
        ("no_split", WHOLE, 1),
        ("no_split", STREAM, 0),
        ("no_split", WHOLE | {"output_tokens": 10}, None),
        ("no_split", WHOLE | {"usage_seen": False}, None),
        ("no_split", STREAM | {"cut": True}, None),
        ("unproven", STREAM, 0),
        ("unproven", WHOLE, 1),
        ("unproven", STREAM | {"usage_seen": False}, 1),
        ("unproven", STREAM | {"at_once": True}, 1),
        ("unproven", {"ttft": 9 * S, "blind": True, "itl_p50": MS, "output_tokens": 9}, 1),
        ("unproven", STREAM | {"cut": True}, None),
        ("lacks.first_token", STREAM, 0),
        ("lacks.first_token", WHOLE, 1),
        ("lacks.steps", STREAM, 0),
        ("lacks.steps", {"ttft": S, "output_tokens": 1}, 0),
        ("lacks.steps", STREAM | {"at_once": True}, 1),
        ("lacks.usage", STREAM, 0),
        ("lacks.usage", STREAM | {"usage_seen": False}, 1),
        ("lacks.owners", STREAM, 0),
        ("lacks.owners", {"ttft": 9 * S, "blind": True, "itl_p50": MS, "output_tokens": 9}, 1),
        ("stall_ownerless", STREAM | {"stall.unsplit": S}, 0),
        ("stall_ownerless", WHOLE, None),
        ("stall_ownerless", STREAM | {"first_token": False}, None),
    ],
)
def test_what_a_call_lacks(name: str, stated: dict[str, Any], value: Any) -> None:
    assert told(name, call(**stated)) == value


def test_a_stall_of_a_cause_nobody_knows_has_no_owner() -> None:
    line = call(**STREAM)
    line["stalls"] = [{"at_ns": S, "ns": 7, "cause": "moonlight", "confidence": 1.0}]
    assert told("stall_ownerless", line) == 7
