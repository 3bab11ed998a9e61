"""`latscope compare`: which segment moved between two sets of calls, by how much, how sure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from latscope.cli import select
from latscope.cli.calls import Reader, spoken
from latscope.cli.history import profile_option, profiles
from latscope.cli.output import json_line, say, screen, talk, write_text
from latscope.errors import InputError, UsageError
from latscope.rules.compare import (
    NAMES,
    Comparison,
    compare,
    differing,
    points,
    segment_that_moved,
)
from latscope.rules.table import Gathered, Key, Table

INSUFFICIENT = 4


@click.command("compare", short_help="which segment moved, by how much, how sure")
@click.argument("files", nargs=-1, metavar="BASE NEW", type=str)
@click.option("--split-at", metavar="TIME", help="One FILE: calls before TIME against the others.")
@click.option("--across", is_flag=True, help="Another model or endpoint in NEW: compare all calls.")
@profile_option
@click.option(
    "--fail-on", type=click.Choice(["slower"]), help="Exit with 1 where E2E or TTFT got slower."
)
@click.option("--allow-insufficient", is_flag=True, help="With --fail-on: no exit with 4.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line.")
@click.option(
    "--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="JUnit XML."
)
@click.option("--github", is_flag=True, help="Annotations for GitHub Actions.")
@select.options
def compare_command(files: tuple[str, ...], split_at: str | None, **given: Any) -> int:
    """Lays the calls of NEW beside those of BASE (recordings, or lines of explain --json), or with
    --split-at the later calls of one FILE beside the earlier ones.

    \b
      latscope compare monday.jsonl tuesday.jsonl
      latscope compare calls.jsonl --split-at 2026-11-29T14:00:00Z

    Exit codes with --fail-on: 1 slower, 4 cannot tell.
    """
    wanted = select.selection(
        since=given["since"],
        until=given["until"],
        where_text=given["where"],
        call_id=given["call_id"],
    )
    reader = Reader(given=profiles(given["profile_files"]))
    base, new = _sides(files, split_at, wanted, reader)
    found = list(_comparisons(base, new, across=given["across"]))
    reader.left_out.end()
    if not found:
        raise InputError(_nothing(base, new))
    _show(found, given)
    return _exit_code(found, given) or (InputError.exit_code if reader.refused else 0)


def _sides(
    files: tuple[str, ...], split_at: str | None, wanted: select.Selection, reader: Reader
) -> tuple[Gathered, Gathered]:
    if split_at is None:
        if len(files) != 2:
            raise UsageError("compare needs two files, or one with --split-at TIME")
        if files.count("-") > 1:
            raise UsageError("- stands for stdin, which can be read once")
        base, new = (reader.gathered([file], NAMES, wanted) for file in files)
        return base, new
    if len(files) != 1:
        raise UsageError("--split-at splits one file; give one")
    if files[0] == "-":
        raise UsageError("--split-at reads its file twice: give its name, not -")
    at = select.moment(split_at, "--split-at", datetime.now(UTC))
    assert at is not None
    earlier = replace(wanted, until=min(at, wanted.until or at))
    later = replace(wanted, since=max(at, wanted.since or at))
    return reader.gathered(files, NAMES, earlier), reader.gathered(files, NAMES, later)


def _comparisons(base: Gathered, new: Gathered, *, across: bool) -> Iterator[Comparison]:
    """One a group that both sides hold; of all calls together across groups. What cannot be laid
    beside each other is told and left out."""
    if across:
        pairs = [(_only(base), _only(new), base.file, new.file)]
    else:
        both = [key for key in new.groups if key in base.groups]
        pairs = [(key, key, base.groups[key], new.groups[key]) for key in both]
        for key in new.groups:
            if key not in base.groups:
                say(f"{spoken(key)} is not in BASE; left out (--across compares all calls)")
    for before, after, old, now in pairs:
        why = differing(old, now)
        if why is None:
            yield _comparison(before, after, old, now)
        else:
            say(f"{spoken(after)}: not comparable: {why}")


def _only(side: Gathered) -> Key:
    """Whose calls they are; several are nobody's in particular."""
    keys = [*side.groups]
    return keys[0] if len(keys) == 1 else (f"{len(keys)} models and endpoints", None)


def _comparison(before: Key, after: Key, old: Table, now: Table) -> Comparison:
    moves = compare(points(old), points(now))
    return Comparison(
        model=before[0],
        endpoint=before[1],
        new_model=after[0] if after[0] != before[0] else None,
        new_endpoint=after[1] if after[1] != before[1] else None,
        calls_base=old.n,
        calls_new=now.n,
        moves=moves,
        segment=segment_that_moved(moves),
    )


def _nothing(base: Gathered, new: Gathered) -> str:
    names = (", ".join(spoken(key) for key in side.groups) for side in (base, new))
    return "nothing to compare: BASE holds {}, NEW {}".format(*names)


def _show(found: Sequence[Comparison], given: dict[str, Any]) -> None:
    from latscope.report import compare as shown

    if given["as_json"]:
        json_line(shown.to_mapping(found))
    else:
        out = screen()
        for number, one in enumerate(found):
            if number:
                out.note("")
            out.lines(shown.comparison_lines(one, width=out.width, colours=out.colours))
    if given["github"]:
        lines = list(shown.annotations(found))
        if given["as_json"]:
            talk(lines)
        else:
            for line in lines:
                click.echo(line)
    if given["junit"] is not None:
        write_text("--junit", given["junit"], shown.junit(found))


def _exit_code(found: Sequence[Comparison], given: dict[str, Any]) -> int:
    """Asked with --fail-on only: else the comparison is the answer, whatever it says."""
    if given["fail_on"] is None:
        return 0
    if any(one.slower for one in found):
        return 1
    lacking = any(one.unsure for one in found) and not given["allow_insufficient"]
    return INSUFFICIENT if lacking else 0
