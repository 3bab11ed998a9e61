"""Promises: a tag states them, and a call keeps all of them or does not."""

from typing import Any

import pytest

from latscope.rules.metrics import known
from latscope.units import MS, S
from tests.rules.made import call

ALL = "ttft 800ms, tpot 50ms, e2e 20s"
FAST = {"ttft": 400 * MS, "itl_p50": 20 * MS, "output_tokens": 100}


def told(name: str, stated: dict[str, Any], slo: str | None = ALL) -> Any:
    row = known(name)
    assert row.of is not None
    tags = {} if slo is None else {"tags.slo": slo}
    return row.of(call(**(stated | tags)))


@pytest.mark.parametrize(
    ("stated", "good"),
    [
        (FAST, 1),
        (FAST | {"ttft": S}, 0),
        (FAST | {"itl_p50": 60 * MS}, 0),
        (FAST | {"output_tokens": 2000}, 0),
        (FAST | {"cut": True}, 0),
        ({"failed": True, "e2e": 100 * MS}, 0),
        ({"timed_out": True, "first_token": False, "e2e": 300 * MS}, 0),
        ({"cancelled": True, "first_token": False, "e2e": 300 * MS}, None),
        ({"cancelled": True, "first_token": False, "e2e": 900 * MS}, 0),
        ({"streamed": False, "e2e": 700 * MS, "output_tokens": 9}, 1),
        ({"streamed": False, "e2e": 900 * MS, "output_tokens": 9}, 0),
    ],
)
def test_a_call_keeps_all_that_was_promised(stated: dict[str, Any], good: Any) -> None:
    assert told("slo_met", stated) == good


@pytest.mark.parametrize(
    ("name", "stated", "missed"),
    [
        ("slo_missed.ttft", FAST, 0),
        ("slo_missed.ttft", FAST | {"ttft": S}, 1),
        ("slo_missed.ttft", {"failed": True}, None),
        ("slo_missed.tpot", FAST | {"itl_p50": 60 * MS}, 1),
        ("slo_missed.tpot", {"streamed": False, "e2e": S}, None),
        ("slo_missed.e2e", FAST | {"e2e": 21 * S}, 1),
        ("slo_missed.e2e", FAST | {"cancelled": True}, None),
        ("slo_missed.end", FAST, 0),
        ("slo_missed.end", FAST | {"cut": True}, 1),
        ("slo_missed.end", FAST | {"cancelled": True}, None),
    ],
)
def test_which_promise_was_broken(name: str, stated: dict[str, Any], missed: Any) -> None:
    assert told(name, stated) == missed


@pytest.mark.parametrize("slo", [None, "", "soon", "ttft fast"])
def test_where_nothing_is_promised_nothing_is_kept(slo: str | None) -> None:
    names = ("slo_met", "slo_missed.end", "slo_missed.ttft")
    assert [told(name, FAST, slo) for name in names] == [None, None, None]


@pytest.mark.parametrize(
    "slo", ["ttft<=800ms", "ttft: 800ms", "ttft = 0.8s", "e2e 9s; ttft 800ms", "ttft 800ms"]
)
def test_ways_to_write_a_promise(slo: str) -> None:
    assert told("slo_missed.ttft", FAST | {"ttft": 790 * MS}, slo) == 0
    assert told("slo_missed.ttft", FAST | {"ttft": 810 * MS}, slo) == 1
