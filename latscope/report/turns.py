"""Turns as text: one waterfall each, its calls where they lie and the time outside them; sessions
as a table, and the turns of one.

Every line fits the width it is given. With colours each segment has its own, without each its own
glyph; the time outside all calls is a dotted line.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, TypeAlias

from rich.text import Text

from latscope.attribution.model import Segment
from latscope.report import figures
from latscope.report.bars import BLANK, Canvas, Cell, colour, laid_cells, paint
from latscope.report.money import money as spoken
from latscope.report.terminal import append_bar, append_names, note_lines, packed, ruler
from latscope.report.turnjson import currency
from latscope.report.turnnotes import notes
from latscope.report.view import LAID, Share
from latscope.rules.inbound import Inbound
from latscope.rules.turns import Gap, Session, Turn, history_of, money, slopes, total
from latscope.units import MS, Ns, rfc3339

Rates: TypeAlias = Mapping[Any, float | None]
"""Of each (model, endpoint) what an uncached prompt token takes, ns; null: unknown."""

DOTS = "┄"
LINE = "─"
BYTE = "◆"
OUTSIDE = "outside"
LABEL = 12
VALUE = 8
LEAST_BAR = 20
"""Cells of bar that columns leave."""
SHOWN = 24
"""Calls of a turn that have a row each; of more, those in the middle share one."""
ENDS = (16, 5)
"""How many of the first and of the last are kept then."""
SMALL = 0.01
"""A gap below that share of the turn has no row of its own."""
STEP = MS // 10
"""How finely times are told."""


# -- one turn --------------------------------------------------------------------------------------


def turn_lines(turn: Turn, rates: Rates, *, width: int, colours: bool) -> Iterator[Text]:
    """The waterfall of a turn, and what there is to say of it."""
    head = _columns(turn, width - LABEL - 1 - LEAST_BAR)
    side = sum(len(name) + 1 for name in head)
    canvas = Canvas(label=LABEL, bar=width - LABEL - 1 - side, colours=colours)
    yield from _header(turn, width)
    yield Text()
    unit, said, rule = ruler(turn.wall_ns, canvas.bar)
    names = "".join(f" {name}" for name in head)
    yield Text(f"{unit:>{LABEL}} {said:<{canvas.bar}}{names}".rstrip(), "dim")
    yield Text(f"{'':{LABEL}} {rule}", "dim")
    yield from _rows(turn, canvas, head, width)
    yield Text()
    yield from _legend(turn, width, colours)
    for note in notes(turn, rates):
        yield from note_lines(note, label=LABEL, width=width)


_HEAD = ("    time", "    TTFT", " prompt", "cached", "    cost")
_WANTED = (0, 1, 4, 2, 3)
"""Columns in the order of their worth, where not all fit."""


def _columns(turn: Turn, room: int) -> list[str]:
    """The columns of which some call tells something, as many as fit beside the bar."""
    some = (
        True,
        True,
        turn.input_tokens is not None,
        turn.cached_share is not None,
        any(_cost(call) is not None for call in turn.calls),
    )
    kept = []
    for place in _WANTED:
        if some[place]:
            room -= len(_HEAD[place]) + 1
            if room >= 0:
                kept.append(place)
    return [_HEAD[place] for place in sorted(kept)]


def _cost(call: Mapping[str, Any]) -> float | None:
    found: float | None = (call.get("money") or {}).get("total")
    return found


def _header(turn: Turn, width: int) -> Iterator[Text]:
    name = f"turn {turn.index + 1}"
    if turn.session is not None:
        name += f" of {turn.session}"
    yield Text(_cropped(name, width), "bold")
    by = "nothing ties it to another call" if turn.session is None else f"tied by {turn.tie}"
    models = dict.fromkeys(str(call["model"] or "unknown model") for call in turn.calls)
    said = (f"{rfc3339(turn.started_ns / 1e9)}", by, ", ".join(models))
    yield from (Text(_cropped(line, width), "dim") for line in packed(said, width))
    good = sum(call["status"] == "complete" for call in turn.calls)
    mark, style = ("✓", "green") if good == len(turn.calls) else ("✗", "bold red")
    facts = [*_facts(turn)]
    line = Text.assemble((f"{mark} ", style), facts[0])
    for fact in facts[1:]:
        if line.cell_len + 3 + len(fact) > width:
            yield line
            line = Text("  " + fact)
        else:
            line.append(f" · {fact}")
    yield line


def _facts(turn: Turn) -> Iterator[str]:
    many = figures.counted(len(turn.calls), "call")
    yield f"{many} in {figures.duration(turn.wall_ns, STEP)}"
    ends = Counter(call["status"] for call in turn.calls if call["status"] != "complete")
    yield from (f"{count} {status}" for status, count in ends.items())
    if turn.outside_ns:
        share = figures.percent(turn.outside_ns, turn.wall_ns)
        yield f"outside them {figures.duration(turn.outside_ns, STEP)}, {share}, yours"
    if turn.ttft_ns is not None:
        yield f"TTFTs {figures.duration(turn.ttft_ns, STEP)} in all"
    if turn.input_tokens is not None:
        yield f"{figures.count(turn.input_tokens)} tokens in"
    cost = money(turn.calls)
    if cost is not None:
        yield spoken(cost, currency(turn.calls))


def _rows(turn: Turn, canvas: Canvas, head: Sequence[str], width: int) -> Iterator[Text]:
    """Calls and the gaps between them, in order of time."""
    for request in turn.inbound:
        yield _request(turn, request, canvas)
    count = len(turn.calls)
    before: dict[int, Gap] = {}
    for gap in turn.gaps:
        later = (place for place, at in enumerate(turn.at_ns) if at >= gap.at_ns + gap.ns)
        before[next(later, count)] = gap
    hidden = range(ENDS[0], count - ENDS[1]) if count > SHOWN else range(0)
    for place in range(count):
        if place in hidden:
            if place == hidden.start:
                yield _folded(turn, hidden, canvas, head)
            continue
        yield from _gap_before(turn, before.get(place), canvas, width)
        yield _call(turn, place, canvas, head)
    yield from _gap_before(turn, before.get(count), canvas, width)


def _gap_before(turn: Turn, gap: Gap | None, canvas: Canvas, width: int) -> Iterator[Text]:
    if gap is not None and gap.ns >= SMALL * turn.wall_ns:
        yield _gap(turn, gap, canvas, width)


def _request(turn: Turn, request: Inbound, canvas: Canvas) -> Text:
    """The inbound request, whole, with the place of its first byte."""
    line = Text(f"{'request':<{canvas.label + 1}}")
    if request.end != "complete":
        line = Text.assemble("request ", (f"{'✗':<{canvas.label - 7}}", "bold red"))
    mine = colour("client", canvas.colours)
    scale = canvas.bar / max(1, turn.wall_ns)
    begin = request.started_ns - turn.started_ns
    first, last = round(begin * scale), round((begin + request.wall_ns) * scale)
    cells = [BLANK] * canvas.bar
    for index in range(min(first, canvas.bar - 1), min(max(first + 1, last), canvas.bar)):
        cells[index] = LINE, mine
    if request.first_byte_ns is not None:
        cells[min(int((begin + request.first_byte_ns) * scale), canvas.bar - 1)] = BYTE, mine
    append_bar(line, cells)
    said = figures.duration(
        request.wall_ns, STEP, figures.common_unit([turn.wall_ns, request.wall_ns])
    )
    line.append(f" {said:>{VALUE}}")
    return line


def _call(turn: Turn, place: int, canvas: Canvas, head: Sequence[str]) -> Text:
    call = turn.calls[place]
    line = Text(f"call {place + 1}")
    if turn.overlaps and place in turn.critical:
        line.append(" •", "bold")
    if call["status"] != "complete":
        line.append(" ✗", "bold red")
    line.append(" " * max(1, canvas.label + 1 - line.cell_len))
    append_bar(line, _cells(turn, place, canvas))
    line.append(_figures([call], call["wall_ns"], call["first_token_ns"], turn, head))
    return line


def _figures(
    calls: Sequence[Mapping[str, Any]],
    wall: Ns,
    first: Ns | None,
    turn: Turn,
    head: Sequence[str],
) -> str:
    unit = figures.common_unit([turn.wall_ns, wall])
    size, read = total(calls, "input_tokens"), total(calls, "cached_tokens")
    known = {
        "    time": figures.duration(wall, STEP, unit),
        "    TTFT": figures.duration(first, STEP),
        " prompt": figures.count(size),
        "cached": figures.UNKNOWN if read is None else figures.percent(read, size or 0),
        "    cost": spoken(money(calls), currency(calls)),
    }
    return "".join(f" {known[name]:>{len(name)}}" for name in head)


def _cells(turn: Turn, place: int, canvas: Canvas) -> list[Cell]:
    return laid_cells(_shares(turn.calls[place]), turn.at_ns[place], turn.wall_ns, canvas)


def _shares(call: Mapping[str, Any]) -> list[Share]:
    """The segments in the order a call passes them; unsplit time by those it may belong to."""
    sizes = {share["name"]: share["ns"] for share in call["segments"]}
    found: list[Share] = []
    for name in LAID:
        if name != "unattributed":
            found.append(Share(candidates=(name,), ns=sizes.get(name, 0)))
            continue
        open_ns = sizes.get(name, 0)
        for item in call.get("unsplit") or ():
            found.append(Share(candidates=tuple(item["candidates"]), ns=item["ns"]))
            open_ns -= item["ns"]
        found.append(Share(candidates=("unattributed",), ns=max(0, open_ns)))
    return [share for share in found if share.ns]


def _gap(turn: Turn, gap: Gap, canvas: Canvas, width: int) -> Text:
    """In the colour of the client's own time, whose owner is the same."""
    line = Text.assemble((f"{'  ' + OUTSIDE:<{canvas.label + 1}}", "dim"))
    mine = colour("client", canvas.colours)
    cells = [BLANK] * canvas.bar
    scale = canvas.bar / max(1, turn.wall_ns)
    first, last = round(gap.at_ns * scale), round((gap.at_ns + gap.ns) * scale)
    for index in range(min(first, canvas.bar - 1), max(first + 1, last)):
        cells[index] = DOTS, mine
    append_bar(line, cells)
    said = figures.duration(gap.ns, STEP, figures.common_unit([turn.wall_ns, gap.ns]))
    line.append(f" {said:>{VALUE}}")
    who = ", ".join(tool.name for tool in gap.tools) or "you"
    room = width - line.cell_len - 1
    line.append(f" {_cropped(who, room)}" if room > 1 else "", mine)
    return line


def _folded(turn: Turn, hidden: range, canvas: Canvas, head: Sequence[str]) -> Text:
    """The calls in the middle as one row."""
    calls = turn.calls[hidden.start : hidden.stop]
    line = Text(f"{f'… {len(calls)} more':<{canvas.label + 1}}", "dim")
    cells = [BLANK] * canvas.bar
    for place in hidden:
        for index, cell in enumerate(_cells(turn, place, canvas)):
            cells[index] = cell if cell != BLANK else cells[index]
    append_bar(line, cells)
    firsts = total(calls, "first_token_ns")
    walls = sum(call["wall_ns"] or 0 for call in calls)
    line.append(_figures(calls, walls, firsts, turn, head), "dim")
    return line


def _legend(turn: Turn, width: int, colours: bool) -> Iterator[Text]:
    """Each segment in use with its look, its time over all calls; then the signs."""
    sums: dict[tuple[Segment, ...], Ns] = {}
    for call in turn.calls:
        for share in _shares(call):
            sums[share.candidates] = sums.get(share.candidates, 0) + share.ns
    line = Text()
    for said in (*_looks(sums, colours), *_outside(turn, width, colours)):
        if line.plain and line.cell_len + 3 + said.cell_len > width:
            yield line
            line = Text()
        line = Text.assemble(line, "   ", said) if line.plain else said
    yield line
    if any(request.first_byte_ns is not None for request in turn.inbound):
        yield Text(f"{BYTE} first byte of your answer", "dim")
    if turn.overlaps:
        said_so = "• on the critical path: what, if shorter, would have ended the turn earlier"
        yield from (Text(text, "dim") for text in wrap(said_so, width))


def _looks(sums: Mapping[tuple[Segment, ...], Ns], colours: bool) -> Iterator[Text]:
    for candidates, ns in sums.items():
        said = Text()
        append_bar(said, [paint(candidates, place, colours) for place in range(len(candidates))])
        said.append(" ")
        append_names(said, " | ".join(candidates), colours)
        single = candidates[0] if len(candidates) == 1 else ""
        said.append(f" {figures.duration(ns, STEP)}", colour(single, colours))
        yield said


def _outside(turn: Turn, width: int, colours: bool) -> Iterator[Text]:
    if turn.gaps:
        said = f"{DOTS} {OUTSIDE} {figures.duration(turn.outside_ns, STEP)}"
        yours = ", yours: tools, retrieval, framework, sleep"
        yours = yours if len(said + yours) <= width else ", yours"
        yield Text.assemble((said, colour("client", colours)), (yours, "dim"))


def _cropped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


# -- sessions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: tuple[str, ...]

    @property
    def width(self) -> int:
        return max(map(len, (self.head, *self.cells)))


def session_lines(found: Sequence[Session], *, width: int) -> Iterator[Text]:
    """A table of sessions; a column that does not fit, or tells nothing, is left out."""
    rows = [_session(session) for session in found]
    columns = [
        _Column(head, tuple(row[head] for row in rows)) for head in rows[0] if head != "session"
    ]
    names = [session.name or "(alone)" for session in found]
    yield from _table("session", names, columns, width)


def _session(session: Session) -> dict[str, str]:
    turns, grown = session.turns, slopes(session)
    sizes = [turn.calls[0]["input_tokens"] for turn in turns]
    paid = currency(session.calls)
    first, last = figures.count(sizes[0]), figures.count(sizes[-1])
    size, read = total(session.calls, "input_tokens"), total(session.calls, "cached_tokens")
    return {
        "session": session.name or "",
        "turns": str(len(turns)),
        "calls": str(len(session.calls)),
        "in calls": figures.duration(sum(turn.busy_ns for turn in turns), STEP),
        "outside": figures.duration(sum(turn.outside_ns for turn in turns), STEP),
        "prompt": first if len(turns) == 1 else f"{first} → {last}",
        "a turn": _signed(grown.input_tokens),
        "cached": figures.UNKNOWN if read is None else figures.percent(read, size or 0),
        "cost": spoken(money(session.calls), paid),
        "cost a turn": figures.UNKNOWN
        if grown.money is None
        else spoken(grown.money.value, paid, signed=True),
        "TTFT a turn": _time(grown.ttft_ns),
    }


def _signed(found: Any) -> str:
    return figures.UNKNOWN if found is None else f"{found.value:+,.0f}".replace(",", " ")


def _time(found: Any) -> str:
    """A slope in time, with its sign."""
    if found is None:
        return figures.UNKNOWN
    said = figures.duration(round(abs(found.value)), STEP)
    return f"{'-' if found.value < 0 else '+'}{said}"


def turn_table(session: Session, rates: Rates, *, width: int) -> Iterator[Text]:
    """The turns of a session: what each cost, and what of that its history did."""
    rows = [_turn(session, place, rates) for place in range(len(session.turns))]
    columns = [_Column(head, tuple(row[head] for row in rows)) for head in rows[0]]
    yield from _table("turn", [str(turn.index + 1) for turn in session.turns], columns, width)


def _turn(session: Session, place: int, rates: Rates) -> dict[str, str]:
    turn = session.turns[place]
    history = history_of(turn, rates)
    size = turn.calls[0]["input_tokens"]
    before = session.turns[place - 1].calls[0]["input_tokens"] if place else None
    added = None if size is None or before is None else size - before
    each = turn.ttft_ns_a_token
    paid = currency(turn.calls)
    share = turn.cached_share
    return {
        "calls": str(len(turn.calls)),
        "time": figures.duration(turn.wall_ns, STEP),
        "outside": figures.duration(turn.outside_ns, STEP) if turn.gaps else "none",
        "prompt": figures.count(size),
        "added": figures.UNKNOWN if added is None else f"{added:+,}".replace(",", " "),
        "cached": figures.UNKNOWN if share is None else figures.percent(share, 1),
        "TTFT/token": figures.duration(None if each is None else round(each)),
        "history": figures.count(history.tokens),
        "history time": figures.duration(history.ns, STEP),
        "history cost": spoken(history.money, paid),
        "cost": spoken(money(turn.calls), paid),
    }


def _table(
    head: str, names: Sequence[str], columns: Iterable[_Column], width: int
) -> Iterator[Text]:
    """Names at the left, cut where they are long; then as many columns as fit."""
    told = [column for column in columns if any(cell != figures.UNKNOWN for cell in column.cells)]
    room = min(max(map(len, (head, *names))), 20, width // 4)
    kept: list[_Column] = []
    used = room
    for column in told:
        if used + 2 + column.width <= width:
            kept.append(column)
            used += 2 + column.width
    line = f"{head:<{room}}" + "".join(f"  {column.head:>{column.width}}" for column in kept)
    yield Text(line, "dim")
    for index, name in enumerate(names):
        row = Text.assemble((f"{_cropped(name, room):<{room}}", "bold"))
        for column in kept:
            row.append(f"  {column.cells[index]:>{column.width}}")
        yield row
