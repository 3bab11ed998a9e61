from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from latscope.cli.select import asked_for, moment, passes, selection
from latscope.errors import UsageError
from latscope.recording import Recording, Target
from tests.report import samples

TARGET = Target(scheme="https", host="h", port=443, path="/")
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def ids(**options: str | None) -> list[str]:
    wanted = selection(
        since=options.get("since"),
        until=options.get("until"),
        where_text=options.get("where"),
        call_id=options.get("call_id"),
        now=NOW,
    )
    calls = [
        (
            Recording(call_id=name, started_at=at, target=TARGET),
            replace(samples.reported_call(), call_id=name, started_at=at),
        )
        for name, at in (
            ("a1", "2026-11-29T11:00:00Z"),
            ("a2", "2026-11-29T11:30:00+00:00"),
            ("b1", "2026-11-29T11:45:00"),
            ("b2", "no time"),
        )
    ]
    return [
        call.call_id
        for recording, call in calls
        if asked_for(recording, wanted) and passes(call, wanted)
    ]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["a1", "a2", "b1", "b2"]),
        ({"call_id": "a"}, ["a1", "a2"]),
        ({"since": "40m"}, ["a2", "b1"]),
        ({"since": "2026-11-29T11:30:00Z"}, ["a2", "b1"]),
        ({"until": "2026-11-29T11:30:00Z"}, ["a1"]),
        ({"since": "2026-11-29T12:10:00+01:00", "until": "20m"}, ["a2"]),
        ({"where": "ttft > 1s"}, []),
        ({"where": "call_id ~ 1", "call_id": "b"}, ["b1"]),
    ],
)
def test_all_options_must_hold(options: dict[str, str | None], found: list[str]) -> None:
    """Since is inclusive, until exclusive; a call without a readable time is in no span."""
    assert ids(**options) == found


@pytest.mark.parametrize(
    ("text", "ago"),
    [("90s", 90), ("15m", 900), ("15min", 900), ("1.5h", 5400), ("2d", 172_800), ("1w", 604_800)],
)
def test_so_long_ago(text: str, ago: float) -> None:
    """A number and a unit count back from now."""
    assert moment(text, "--since", NOW) == NOW - timedelta(seconds=ago)


def test_what_is_no_time_is_refused() -> None:
    """With the option's name and an example."""
    with pytest.raises(UsageError, match="--until: 'yesterday' is no time"):
        moment("yesterday", "--until", NOW)


@pytest.mark.parametrize("options", [{"where": ""}, {"call_id": ""}, {"since": "99999999999w"}])
def test_an_empty_filter_is_no_filter_that_lets_all_through(options: dict[str, str]) -> None:
    """A shell variable that is not set must not select every call."""
    with pytest.raises(UsageError):
        selection(
            since=options.get("since"),
            until=None,
            where_text=options.get("where"),
            call_id=options.get("call_id"),
        )
