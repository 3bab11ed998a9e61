"""`apart`: surely further from a figure than so much, on whichever side."""

import pytest

from latscope.documents import runbooks
from latscope.errors import InputError
from latscope.rules.conditions import seen, wanted
from latscope.rules.reference import Reference
from latscope.rules.runbook import Bound, Condition
from tests.rules.made import table

PAGE = """---
schema: latscope.runbook/1
id: other
title: Other
severity: info
symptom:
  - {metric: input_tokens, stat: p50, apart: APART}
---
# Other
"""


def apart(times: float = 1.1, by: float = 0.0) -> Condition:
    bound = Bound(against="baseline", times=times, by=by)
    return Condition(metric="input_tokens", stat="p50", how="apart", bound=bound)


@pytest.mark.parametrize(
    ("now", "holds"), [(130, True), (70, True), (105, False), (95, False), (100, False)]
)
def test_either_side_is_apart(now: int, holds: bool) -> None:
    mine, healthy = table("input_tokens", [now] * 30), table("input_tokens", [100] * 30)
    assert seen(apart(), mine, Reference(healthy)).reading.holds is holds


def test_what_cannot_be_told_near_cannot_be_told_apart() -> None:
    mine, healthy = table("input_tokens", [80, 90, 110, 130] * 3), table("input_tokens", [100] * 30)
    assert seen(apart(), mine, Reference(healthy)).reading.holds is None


def test_it_is_said_in_words() -> None:
    assert wanted(apart(by=20)) == "not within 10 % or 20 tokens of the baseline"


def test_a_page_may_use_it() -> None:
    page = runbooks.read_text(PAGE.replace("APART", "{baseline: 10%}"))
    assert page.symptom[0].how == "apart"
    assert page.symptom[0].bound.times == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{baseline: 0.9x}", "apart needs how far away: 15%, or 1.15x"),
        ("{metric: output_tokens}", "apart needs how far: by: 20ms, or times: 15%"),
    ],
)
def test_how_far_must_be_said(given: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        runbooks.read_text(PAGE.replace("APART", given))
