from typing import Any

import pytest

from latscope.attribution.jsonview import to_mapping
from latscope.errors import UsageError
from latscope.rules.where import parse
from tests.report import samples

CALL: dict[str, Any] = {
    **to_mapping(samples.reported_call()),
    "tags": {"team": "search", "app.version": "3", "n": "12"},
    "model": "org/tiny-1",
}
"""wall 1239.6 ms, TTFT 409.2 ms, queue 192.2 ms, connection reused, error null."""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("model = org/tiny-1", True),
        ('model = "org/tiny-1"', True),
        ("model='org/tiny-1'", True),
        ("model != other", True),
        ("model ~ TINY", True),
        ("model ~ large", False),
        ("tags.team=search and tags.app.version=3", True),
        ("tags.n = 12", True),
        ("tags.nope = 1", False),
        ("tags.nope = null", True),
        ("tags.nope != 1", True),
        ("tags ~ sear", True),
        ("error = null", True),
        ("error.type = x", False),
        ("connection.reused = true", True),
        ("connection.reused = false", False),
        ("ttft > 400ms", True),
        ("ttft > 0.41s", False),
        ("ttft < 7m and ttft < 1h", True),
        ("wall >= 1239600000", True),
        ("wall <= 1239600us", True),
        ("e2e = 1239600000", True),
        ("queue > 100ms", True),
        ("unattributed > 0", False),
        ("output_tokens = 128.0", True),
        ("tokens_per_chunk < 2", True),
        ("itl.p95_ns < 8ms", True),
        ("load_excess.ns > 0", False),
        ("tags.n > 9", False),
        ("tags.nope > 9", False),
        ("model > 5", True),
        ("tags = null", False),
        ("load_excess = null", True),
        ("wall = null", False),
        ("wall ~ 1239", True),
        (" or ".join(["(model = x)"] * 200 + ["model ~ tiny"]), True),
        ("(" * 49 + "model ~ tiny" + ")" * 49, True),
        ("started_at >= 2026-11-29T09:00:00Z", True),
        ("http_status ~ 20", True),
        ("not streamed = true", False),
        ("not not streamed = true", True),
        ("streamed = false or model ~ tiny and status = complete", True),
        ("(streamed = false or model ~ tiny) and status = error", False),
        ("NOT (status = error OR status = cut)", True),
        (r'model = "org\/tiny-1"', True),
    ],
)
def test_a_test_holds_or_not(text: str, holds: bool) -> None:
    """Numbers with units, texts, null, and / or / not with the usual precedence."""
    assert parse(text)(CALL) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a field at character 1"),
        ("modell = x", "no field 'modell'"),
        ("model x", "expected one of = != < <= > >= ~ at character 7"),
        ("model =", "expected a value at character 8"),
        ("model == x", "expected a value at character 8"),
        ("model = x y", "expected 'and', 'or' or the end at character 11"),
        ("model = x and", "expected a field at character 14"),
        ("(model = x", "expected ')' at character 11"),
        ("model = x)", "expected 'and', 'or' or the end at character 10"),
        (
            "ttft > null",
            "ttft > needs a number or a duration, such as 500ms or 1.5s, at character 8",
        ),
        ("model > null", "> needs a text at character 9"),
        (
            "ttft > abc",
            "ttft > needs a number or a duration, such as 500ms or 1.5s, at character 8",
        ),
        (
            "model = x or wall>1.s",
            "wall > needs a number or a duration, such as 500ms or 1.5s, at c",
        ),
        ("queue <= ''", "queue <= needs a number"),
        ("queue < nan", "queue < needs a number"),
        ("itl.p95_ns = 7x", "itl.p95_ns = needs a number"),
        ("wall != true", "wall != needs a number"),
        ("streamed > 0", "> needs a field with an order; streamed has none at character 12"),
        ("segments > 5", "> needs a field with an order; segments has none"),
        (
            "connection = x",
            "= needs one value, and connection holds several; try ~, or a field of it",
        ),
        (
            "connection.port = 1",
            "no field 'connection.port'; fields of connection: connection.reused",
        ),
        ("model.name = 1", "no field 'model.name'; model has none"),
        ("(" * 5000 + "model = x", "more than 50 levels of '(' and 'not' at character 51 of '((("),
        ("not " * 5000 + "model = x", "more than 50 levels of '(' and 'not' at character 201 of"),
        ('model = "x', "cannot read from character 9"),
        ("= x", "expected a field at character 1"),
        ("__import__('os') = 1", "no field '__import__'"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(text: str, said: str) -> None:
    """A person can see where; nothing is ever evaluated."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 900
