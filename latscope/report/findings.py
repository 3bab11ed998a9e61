"""What the runbooks concluded, as text: open findings first, each with its evidence and what to do;
a line for what could not be judged; the rest counted.

A mark before a reading says whether its condition holds: ● it does, ○ it does not, ? cannot tell.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap as _wrap
from typing import TypeAlias

from rich.text import Text

from latscope.attribution.model import SEGMENTS, Mode, Segment
from latscope.attribution.owners import owner_of
from latscope.report.figures import UNKNOWN, count, counted
from latscope.report.readings import Shown, shown, time
from latscope.report.terminal import append_names
from latscope.rules.finding import CauseFound, DoneFound, Finding, Reading
from latscope.rules.runbook import SEVERITIES

Group: TypeAlias = tuple[str | None, str | None]
"""(model, endpoint)."""

LOOKS = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
HOLDS = {True: "●", False: "○", None: "?"}
MET = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
INDENT = 2
LABEL = 8
"""Width of `perhaps`, `not`, `do` and `done` at the left."""
ROOMY = 90
"""From this width on a reading shows what was wanted of it."""
REFERENCE = "reference"
LEAST_NAME = 24
"""A reading's name is cropped to so much before what was wanted of it is."""


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Open ones first, the most severe and then those that moved most time in front; then resolved
    ones, those that could not be judged, and the rest."""
    order = ("open", "resolved", "insufficient evidence", "not seen")
    return sorted(
        findings,
        key=lambda found: (
            order.index(found.verdict),
            -SEVERITIES.index(found.severity),
            -moved_ns(found),
            not (found.seen or found.asked),
        ),
    )


def moved_ns(found: Finding) -> float:
    """By how much the largest of the named causes moved; 0 where that is not known."""
    named = (cause.moved_ns or 0.0 for cause in found.causes if cause.named)
    return max(named, default=0.0)


def finding_lines(
    findings: Sequence[Finding],
    *,
    width: int,
    colours: bool,
    modes: Mapping[Group, Mode] | None = None,
) -> Iterator[Text]:
    """findings: of all rules and groups. modes: whose servers a group calls, for the owner."""
    page = _Page(width=width, colours=colours, modes=modes or {})
    in_order = ranked(findings)
    for found in in_order:
        if found.verdict == "open":
            yield from _open(found, page)
            yield Text()
    for found in in_order:
        if found.verdict == "resolved":
            yield from _resolved(found, page)
            yield Text()
    unsure = [found for found in in_order if found.verdict == "insufficient evidence"]
    yield from _unsure(unsure, page)
    if unsure:
        yield Text()
    yield from _tally(in_order, page)


def wrap(text: str, width: int, **more: str) -> list[str]:
    """Lines of a text, options such as --save-baseline kept whole."""
    return _wrap(text, max(20, width), break_on_hyphens=False, **more)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    width: int
    colours: bool
    modes: Mapping[Group, Mode]

    def look(self, style: str) -> str:
        return style if self.colours else ""


# -- an open finding -------------------------------------------------------------------------------


def _open(found: Finding, page: _Page) -> Iterator[Text]:
    yield from _title(found, ("✗", LOOKS[found.severity]), found.severity, page)
    yield from _about(found, page)
    yield from _whose(found, page)
    for line in wrap(found.reason, page.width - INDENT):
        yield Text(f"{'':{INDENT}}{line}")
    yield Text()
    yield from _evidence(found, page)
    yield from _labelled("do", _numbered(found.actions), page)
    yield from _done(found.done_when, page)


def _title(found: Finding, mark: tuple[str, str], word: str, page: _Page) -> Iterator[Text]:
    """Mark, severity or verdict, title; the page's id at the right where it fits."""
    sign, style = mark
    head = f"{sign} {word}  "
    lines = wrap(found.title, page.width - len(head)) or [""]
    for index, line in enumerate(lines):
        if index:
            yield Text(f"{'':{len(head)}}{line}", "bold")
            continue
        text = Text.assemble((f"{sign} {word}", page.look(style) or "bold"), "  ", (line, "bold"))
        gap = page.width - text.cell_len - len(found.runbook)
        if gap >= INDENT and len(lines) == 1:
            text.append(f"{'':{gap}}{found.runbook}", "dim")
        yield text


def _about(found: Finding, page: _Page) -> Iterator[Text]:
    """Which calls, how many, and what they were compared with."""
    facts = [place(found), counted(found.calls, "call")]
    if found.reference is not None:
        facts.append(f"against the {found.reference}")
    yield from (
        Text(f"{'':{INDENT}}{line}", "dim") for line in wrap(" · ".join(facts), page.width - INDENT)
    )


def place(found: Finding) -> str:
    """Whose calls a finding is about, in words."""
    if found.model is None and found.endpoint is None:
        return "all calls"
    return f"{found.model or 'unnamed model'} at {found.endpoint or 'unknown endpoint'}"


def _whose(found: Finding, page: _Page) -> Iterator[Text]:
    """The segment, and who owns it; of several that cannot be told apart each one's owner."""
    if found.segment is None:
        return
    names = [name.strip() for name in found.segment.split("|")]
    line = Text(" " * INDENT)
    append_names(line, found.segment, page.colours)
    mode = page.modes.get((found.model, found.endpoint))
    owners = [] if mode is None else [_owner(name, mode) for name in names]
    said = " or ".join(dict.fromkeys(owner for owner in owners if owner))
    said = f"owned by {said}" if said else ""
    if len(names) > 1:
        said = f"{said}; not told apart from here" if said else "not told apart from here"
    if said and line.cell_len + 3 + len(said) <= page.width:
        line.append(f" · {said}")
        said = ""
    yield line
    yield from (Text(f"{'':{INDENT}}{text}") for text in wrap(said, page.width - INDENT))


def _owner(name: str, mode: Mode) -> str:
    head, _, part = name.partition(".")
    segment: Segment | None = next((known for known in SEGMENTS if known == head), None)
    return "" if segment is None else owner_of(segment, mode, part).of(mode)


# -- its evidence ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """Widths of a reading's columns, the same for all readings of a finding."""

    name: int
    value: int
    interval: int
    other: int
    wanted: int


def _evidence(found: Finding, page: _Page) -> Iterator[Text]:
    """The symptom's readings, then each named cause with its own; below them what cannot be told,
    and what was ruled out."""
    named = [cause for cause in found.causes if cause.named]
    symptom = _symptom(found)
    told = [*symptom, *(one for cause in named for one in cause.readings)]
    if told:
        columns = _columns(told, page)
        yield _heading(columns)
        yield from (_reading(one, columns, page) for one in symptom)
        for rank, cause in enumerate(named, 1):
            yield Text()
            yield from _cause(cause, rank, columns, page)
        yield Text()
    others = [*_perhaps(found.causes, page), *_ruled_out(found.causes, page)]
    if others:
        yield from others
        yield Text()


def _symptom(found: Finding) -> list[Reading]:
    later = [one for cause in found.causes for one in cause.readings]
    later += [one for done in found.done_when for one in done.readings]
    return [one for one in found.evidence if one not in later]


def _columns(readings: Sequence[Reading], page: _Page) -> _Columns:
    cells = [shown(one) for one in readings]
    value = max(len("now"), *(len(cell.value) for cell in cells))
    interval = max(len(cell.interval) for cell in cells)
    other = max(len(cell.other) for cell in cells)
    other = max(len(REFERENCE), other) if other else 0
    left = page.width - INDENT - 4 - sum(wide + 2 for wide in (value, interval, other) if wide)
    longest = max(len(cell.name) for cell in cells)
    wanted = max(len(_wanted(one)) for one in readings) if page.width >= ROOMY else 0
    if not wanted:
        name = min(longest, left)
    elif longest + 2 + wanted <= left:
        name = longest
    else:
        name = min(longest, max(LEAST_NAME, left - 2 - wanted))
        wanted = left - name - 2
    return _Columns(name=name, value=value, interval=interval, other=other, wanted=wanted)


def _heading(columns: _Columns) -> Text:
    line = f"{'':{INDENT + 4 + columns.name}}  {'now':>{columns.value}}"
    if columns.interval:
        line += f"  {'90 %':<{columns.interval}}"
    if columns.other:
        line += f"  {REFERENCE:>{columns.other}}"
    return Text(f"{line}  wanted" if columns.wanted else line, "dim")


def _reading(reading: Reading, columns: _Columns, page: _Page, *, deeper: int = 0) -> Text:
    cell: Shown = shown(reading)
    wide = columns.name + 2 - deeper
    line = Text(f"{'':{INDENT + deeper}}{HOLDS[reading.holds]} ")
    line.append(f"{_crop(cell.name, wide):<{wide}}")
    line.append(f"  {cell.value:>{columns.value}}", "bold")
    if columns.interval:
        line.append(f"  {cell.interval:<{columns.interval}}", "dim")
    if columns.other:
        line.append(f"  {cell.other:>{columns.other}}")
    if columns.wanted:
        said = reading.why if reading.holds is None and reading.why else _wanted(reading)
        line.append(f"  {_crop(said, columns.wanted)}", "dim")
    return line


def _wanted(reading: Reading) -> str:
    """What was wanted, without the words for what stands in the column beside it."""
    return re.sub(r"(?<=x) the (baseline|floor)| of the (baseline|floor)", "", reading.wanted)


def _cause(cause: CauseFound, rank: int, columns: _Columns, page: _Page) -> Iterator[Text]:
    """A cause that is named: its rank, its words, by how much it moved, its readings."""
    lead = f"{'':{INDENT}}{rank} "
    behind = Text(f"  {signed(cause.moved_ns)}" if cause.moved_ns is not None else "", "bold")
    if cause.segment:
        behind.append("  ")
        append_names(behind, cause.segment, page.colours)
    lines = wrap(cause.says, page.width - len(lead))
    for index, text in enumerate(lines):
        line = Text(f"{lead if index == 0 else '':<{len(lead)}}{text}", "bold")
        if index == len(lines) - 1:
            if line.cell_len + behind.cell_len > page.width:
                yield line
                line = Text(" " * (len(lead) - 2))
            line.append_text(behind)
        yield line
    for reading in cause.readings:
        yield _reading(reading, columns, page, deeper=2)


def _perhaps(causes: Sequence[CauseFound], page: _Page) -> Iterator[Text]:
    """Causes that cannot be told, why, and what would tell."""
    rows = []
    for cause in causes:
        if cause.named is None:
            whys = dict.fromkeys(one.why for one in cause.readings if one.holds is None and one.why)
            said = f"{cause.says} ({'; '.join(whys) or 'cannot be told'})"
            rows.append((HOLDS[None], "", f"{said}. {cause.collect}" if cause.collect else said))
    yield from _labelled("perhaps", rows, page, look="dim")


def _ruled_out(causes: Sequence[CauseFound], page: _Page) -> Iterator[Text]:
    """Causes that were looked at and are none, together where the same reading says so."""
    out: dict[str, list[str]] = {}
    for cause in causes:
        if cause.named is False and cause.readings:
            against = [one for one in cause.readings if one.holds is False] or cause.readings
            out.setdefault(_briefly(shown(against[0])), []).append(cause.says)
    rows = [(HOLDS[False], "", f"{'; '.join(says)}: {brief}") for brief, says in out.items()]
    yield from _labelled("not", rows, page, look="dim")


def _briefly(cell: Shown) -> str:
    other = f" ({REFERENCE} {cell.other})" if cell.other else ""
    return f"{cell.name} {cell.value}{other}"


def signed(ns: float) -> str:
    """A time that something moved by, with its sign."""
    text = time(abs(ns))
    return f"{'−' if ns < 0 else '+'}{text}"


# -- what to do ------------------------------------------------------------------------------------


def _numbered(actions: Sequence[str]) -> list[tuple[str, str, str]]:
    return [(f"{index}", "", action) for index, action in enumerate(actions, 1)]


def _done(done: Sequence[DoneFound], page: _Page) -> Iterator[Text]:
    yield from _labelled("done", [(*MET[one.met], one.text) for one in done], page)


def _labelled(
    label: str, rows: Sequence[tuple[str, str, str]], page: _Page, *, look: str = ""
) -> Iterator[Text]:
    """Rows of (mark, its style, text), the label before the first."""
    for place, (mark, style, said) in enumerate(rows):
        lead = f"{'':{INDENT}}{label if place == 0 else '':<{LABEL}}"
        wide = max(2, len(mark) + 1)
        for index, text in enumerate(wrap(said, page.width - len(lead) - wide) or [""]):
            yield Text.assemble(
                (lead if index == 0 else " " * len(lead), "dim"),
                (f"{mark if index == 0 else '':<{wide}}", look or page.look(style) or "bold"),
                (text, look),
            )


# -- the others ------------------------------------------------------------------------------------


def _resolved(found: Finding, page: _Page) -> Iterator[Text]:
    yield from _title(found, ("✓", "green"), "resolved", page)
    yield from _about(found, page)
    yield from _done(found.done_when, page)


def _unsure(findings: Sequence[Finding], page: _Page) -> Iterator[Text]:
    """Rules that lack the same are told together, on one line; those that count first."""
    for counts in (True, False):
        lacking: dict[str, list[Finding]] = {}
        for found in findings:
            if bool(found.seen or found.asked) == counts:
                lacking.setdefault(_lack(found, counts), []).append(found)
        for group in lacking.values():
            yield from _lacking(group, page, counts=counts)


def _lack(found: Finding, counts: bool) -> str:
    """What a rule lacks; of those that do not count a rule once, whatever the group."""
    said = "; ".join((found.reason, *found.collect))
    return said if counts else re.sub(r"\d+", "N", said)


def _lacking(group: Sequence[Finding], page: _Page, *, counts: bool) -> Iterator[Text]:
    names = ", ".join(dict.fromkeys(found.runbook for found in group))
    said = "; ".join(part for part in (group[0].reason, *group[0].collect) if part)
    mark = "? insufficient evidence" if counts else "? cannot tell"
    look = (page.look("yellow") or "bold") if counts else "dim"
    text = f"{mark}  {names}: {said}" if said else f"{mark}  {names}"
    for index, line in enumerate(wrap(text, page.width, subsequent_indent=" " * INDENT)):
        if index == 0:
            yield Text.assemble((line[: len(mark)], look), line[len(mark) :])
        else:
            yield Text(line)


def _tally(findings: Sequence[Finding], page: _Page) -> Iterator[Text]:
    """One line that counts: how many are open, resolved, not to be told, and not seen."""
    said = []
    for verdict in ("open", "resolved", "insufficient evidence", "not seen"):
        number = sum(found.verdict == verdict for found in findings)
        if number:
            said.append(f"{count(number)} {verdict}")
    if said:
        yield Text(" · ".join(said), "dim")
    else:
        yield Text(f"{UNKNOWN} no rule was looked at", "dim")


def _crop(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
