"""`latscope turns`: the calls that served one user action, and the time outside them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latscope.attribution.model import Mode
from latscope.attribution.profile import Profile
from latscope.cli import select
from latscope.cli.calls import Reader
from latscope.cli.history import History, learnt, mode_option, profile_option, profiles, rereadable
from latscope.cli.output import LeftOut, Progress, Screen, json_line, say, screen
from latscope.errors import InputError, UsageError
from latscope.report.figures import counted
from latscope.rules.inbound import Inbound
from latscope.rules.turns import Session, Turn

if TYPE_CHECKING:
    from latscope.documents.prices import Prices

SESSIONS = 10
"""Sessions listed unless all are asked for."""
KEPT = (
    "call_id", "started_at", "api", "model", "endpoint", "mode", "status", "trace_id", "session_id",
    "turn", "response_id", "previous_response_id", "wall_ns", "sent_ns", "first_token_ns",
    "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens",
    "service_tier", "request", "unsplit", "money",
)  # fmt: skip
"""What of a call is kept until all are read."""
SHARE = ("name", "ns", "ttft_ns", "provenance")
TIES = (
    "nothing ties the calls of this file together: wrap each user action in latscope.turn(),"
    " propagate traces, or record with instrument(client, prefix=True)"
)


@click.command("turns", short_help="one waterfall a user action: calls, and the time outside them")
@click.argument("files", nargs=-1, metavar="FILE...", type=str)
@select.options
@click.option("--session", metavar="NAME", help="One session, by (the start of) its name.")
@click.option("--all", "every", is_flag=True, help="Every turn as a waterfall, every session.")
@click.option("--slowest", type=click.IntRange(min=0), metavar="N", help="So many longest turns.")
@click.option(
    "--spans", "span_files", multiple=True, metavar="FILE", help="Spans that name the tools."
)
@click.option(
    "--prices",
    "price_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="[[prices]] in TOML, before the vendors' list prices.",
)
@profile_option
@click.option("--no-history", is_flag=True, help="Do not split calls by what the others teach.")
@click.option("--json", "as_json", is_flag=True, help="One session a line, nothing else.")
@mode_option
def turns_command(
    files: tuple[str, ...],
    since: str | None,
    until: str | None,
    where: str | None,
    call_id: str | None,
    session: str | None,
    every: bool,
    slowest: int | None,
    span_files: tuple[str, ...],
    price_file: Path | None,
    profile_files: tuple[Path, ...],
    no_history: bool,
    as_json: bool,
    mode: Mode | None,
) -> int:
    """Shows turns: the calls in FILE... that served one user action, and between them the time
    nobody's model was at work. `-` reads stdin.

    Calls belong together by their conversation, the answer they continue, their trace,
    latscope.turn or their prompt's prefix. --where and --id choose turns of which a call passes.

    \b
      latscope turns calls.jsonl
      latscope turns calls.jsonl --session conv_42 --all
      latscope turns calls.jsonl --spans traces.json --prices prices.toml
    """
    if not files:
        raise UsageError("turns needs a file of calls, or - for stdin")
    wanted = select.selection(since=since, until=until, where_text=where, call_id=call_id)
    given = profiles(profile_files)
    reader = Reader(given=given, mode=mode, prices=_prices(price_file))
    calls, passing, inbound = _calls(files, reader, wanted, history=not no_history)
    found = _chosen(_sessions(calls, inbound, span_files), session, passing)
    if found:
        rates = _rates(calls, [*given.values()])
        _show(found, rates, as_json=as_json, every=every, slow=slowest)
    elif call_id is not None:
        raise InputError(f"no call has an id that starts with {call_id!r}")
    elif session is not None:
        raise InputError(f"no session has a name that starts with {session!r}")
    else:
        say("no call matches")
    return InputError.exit_code if reader.refused else 0


# -- reading ---------------------------------------------------------------------------------------


def _calls(
    files: Sequence[str], reader: Reader, wanted: select.Selection, *, history: bool
) -> tuple[list[dict[str, Any]], set[int], list[Inbound]]:
    """The calls of the time asked for, which of them pass the rest of the selection, and the
    requests of a service that stand beside them."""
    time = replace(wanted, call_id=None, test=None)
    found: list[dict[str, Any]] = []
    passing: set[int] = set()
    with rereadable(files) as copies:
        known = History(given=reader.given)
        if history:
            known = learnt(copies, reader.given, reader.progress)
        try:
            for call in reader.calls(files, time, known):
                if select.chosen(call, wanted):
                    passing.add(len(found))
                found.append(_slim(call, len(found)))
        finally:
            reader.progress.end()
        inbound = _inbound(copies) if found else []
    reader.left_out.end()
    return found, passing, inbound


def _inbound(files: Sequence[str]) -> list[Inbound]:
    from latscope.documents import recordings

    problems: list[str] = []
    found = [each for file in files for each in recordings.read_inbound(file, problems=problems)]
    left_out = LeftOut(progress=Progress())
    left_out.tell(problems, [])
    left_out.end()
    return found


def _slim(call: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What the rest needs of a call: a file may hold many. `number`: its place among all."""
    kept = {key: call.get(key) for key in KEPT}
    kept["segments"] = [{key: share.get(key) for key in SHARE} for share in call["segments"]]
    kept["number"] = number
    return kept


def _prices(file: Path | None) -> "Prices":
    """Those of the file given, else of latscope.toml, before the vendors' list prices."""
    from latscope.documents import prices, settings

    if file is not None:
        return prices.read(file)
    own = settings.found(Path.cwd())
    return prices.Prices() if own is None else settings.read(own).prices


def _sessions(
    calls: Sequence[dict[str, Any]], inbound: Sequence[Inbound], span_files: Sequence[str]
) -> list[Session]:
    from latscope.cli.join import Told, read_spans
    from latscope.rules.inbound import with_inbound
    from latscope.rules.turns import sessions, with_tools

    found = with_inbound(sessions(calls), inbound)
    if not span_files:
        return found
    told = Told()
    spans = read_spans(span_files, told)
    told.say()
    return with_tools(found, spans)


def _chosen(found: Sequence[Session], name: str | None, passing: set[int]) -> list[Session]:
    """The sessions asked for, with those of their turns of which a call passes."""
    chosen = []
    for session in found:
        if name is not None and not (session.name or "").startswith(name):
            continue
        turns = [turn for turn in session.turns if _passes(turn, passing)]
        if turns:
            chosen.append(replace(session, turns=tuple(turns)))
    return chosen


def _passes(turn: Turn, passing: set[int]) -> bool:
    return any(call["number"] in passing for call in turn.calls)


def _rates(calls: Sequence[Mapping[str, Any]], given: Any) -> dict[tuple[Any, Any], float | None]:
    """What an uncached prompt token takes at each model and endpoint: as its profile says, else as
    these calls show; null where they do not."""
    from latscope.rules.prefixes import prefill_slope

    groups: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for call in calls:
        groups.setdefault((call["model"], call["endpoint"]), []).append(call)
    found: dict[tuple[Any, Any], float | None] = {}
    for key, inside in groups.items():
        known = _profile_slope(key, given)
        slope = None if known is not None else prefill_slope(inside)
        found[key] = known if slope is None else slope.value
    return found


def _profile_slope(key: tuple[Any, Any], given: Sequence[Profile]) -> float | None:
    for profile in given:
        if (profile.model, profile.endpoint) == key and profile.floor is not None:
            return profile.floor.terms.linear_ns
    return None


# -- showing ---------------------------------------------------------------------------------------


def _show(
    found: Sequence[Session],
    rates: Mapping[Any, float | None],
    *,
    as_json: bool,
    every: bool,
    slow: int | None,
) -> None:
    if as_json:
        from latscope.report.turnjson import to_mapping

        for session in found:
            json_line(to_mapping(session, rates))
        return
    out = screen()
    turns = [turn for session in found for turn in session.turns]
    if len(turns) > 1:
        _tables(out, found, rates, every)
    if every or len(turns) == 1:
        chosen, word = turns, "turn"
    else:
        order = sorted(turns, key=lambda turn: (turn.session is None, -turn.wall_ns))
        chosen, word = order[: 1 if slow is None else slow], "longest"
    _waterfalls(out, chosen, rates, word if len(turns) > 1 else "")


def _tables(
    out: Screen, found: Sequence[Session], rates: Mapping[Any, float | None], every: bool
) -> None:
    """The sessions, most time first, and the turns of the one with the most."""
    from latscope.report.turns import session_lines, turn_table

    tied = [session for session in found if session.name is not None]
    alone = len(found) - len(tied)
    order = sorted(tied, key=lambda session: -sum(turn.wall_ns for turn in session.turns))
    shown = order if every else order[:SESSIONS]
    if shown:
        out.lines(session_lines(shown, width=out.width))
        if len(order) > len(shown):
            out.note(f"and {counted(len(order) - len(shown), 'more session')}; --all lists them")
    if alone:
        out.note(f"{counted(alone, 'call')} alone: {TIES}" if not tied else _alone(alone))
    most = max(tied, key=lambda session: len(session.turns), default=None)
    if most is not None and len(most.turns) > 1:
        out.console.print()
        out.rule(f"{counted(len(most.turns), 'turn')} · {most.name}")
        out.lines(turn_table(most, rates, width=out.width))


def _alone(count: int) -> str:
    return f"and {counted(count, 'call')} that nothing ties to another"


def _waterfalls(
    out: Screen, turns: Sequence[Turn], rates: Mapping[Any, float | None], word: str
) -> None:
    from latscope.report.turns import turn_lines

    for index, turn in enumerate(turns, start=1):
        if word:
            many = f" {index} of {len(turns)}" if len(turns) > 1 else ""
            out.console.print()
            out.rule(f"{word}{many}")
        out.lines(turn_lines(turn, rates, width=out.width, colours=out.colours))
