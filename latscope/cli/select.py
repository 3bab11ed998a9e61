"""Which calls a command looks at: `--since`, `--until`, `--where`, `--id`, the same everywhere."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import click

from latscope.attribution.jsonview import to_mapping
from latscope.attribution.model import Attribution
from latscope.errors import UsageError
from latscope.recording import Recording
from latscope.rules import where

AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)")
SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}

Command = TypeVar("Command", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    since: datetime | None = None
    until: datetime | None = None
    test: where.Test | None = None
    call_id: str | None = None


def options(command: Command) -> Command:
    """Adds the four options to a click command."""
    for option in (
        click.option("--id", "call_id", metavar="ID", help="One call, by (the start of) its id."),
        click.option("--where", metavar="TEST", help="e.g. 'model=tiny and ttft > 500ms'."),
        click.option("--until", metavar="TIME", help="Calls started before TIME."),
        click.option("--since", metavar="TIME", help="Calls since TIME (RFC 3339), or 15m, 2h."),
    ):
        command = option(command)
    return command


def selection(
    *,
    since: str | None,
    until: str | None,
    where_text: str | None,
    call_id: str | None,
    now: datetime | None = None,
) -> Selection:
    now = now or datetime.now(UTC)
    if call_id is not None and not call_id.strip():
        raise UsageError("--id is empty: give (the start of) a call's id")
    return Selection(
        since=moment(since, "--since", now),
        until=moment(until, "--until", now),
        test=where.parse(where_text) if where_text is not None else None,
        call_id=call_id,
    )


def asked_for(call: Recording, wanted: Selection) -> bool:
    """What can be told before a call is attributed, which costs most: its id and its time."""
    if wanted.call_id is not None and not call.call_id.startswith(wanted.call_id):
        return False
    return _between(call.started_at, wanted)


def passes(call: Attribution, wanted: Selection) -> bool:
    """What only the attribution tells: the test of `--where`."""
    return wanted.test is None or wanted.test(to_mapping(call))


def chosen(call: Mapping[str, Any], wanted: Selection) -> bool:
    """Both of these, of a line of `latscope.attribution/1`."""
    if wanted.call_id is not None and not str(call["call_id"]).startswith(wanted.call_id):
        return False
    return _between(str(call["started_at"]), wanted) and (wanted.test is None or wanted.test(call))


def moment(text: str | None, option: str, now: datetime) -> datetime | None:
    """A point in time: RFC 3339 (UTC when it names no zone), or so long ago (15m, 2h, 3d)."""
    if text is None:
        return None
    ago = AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            return now - timedelta(seconds=float(ago[1]) * SECONDS[ago[2]])
        found = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option}: {text!r} is no time: give one like 2026-11-29T10:00:00Z, or 15m, 2h, 3d"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _between(started_at: str, wanted: Selection) -> bool:
    if wanted.since is None and wanted.until is None:
        return True
    try:
        started = datetime.fromisoformat(started_at)
    except ValueError:
        return False
    started = started if started.tzinfo else started.replace(tzinfo=UTC)
    after = wanted.since is None or started >= wanted.since
    return after and (wanted.until is None or started < wanted.until)
