"""Two sets of calls beside each other, as text and as `latscope.compare/1`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from latscope.report.bars import colour
from latscope.report.figures import UNKNOWN, counted, duration
from latscope.report.pipelines import Kind, case, command, suite
from latscope.rules.compare import SCHEMA, Comparison, Move
from latscope.rules.shift import Difference

NAMES = {
    "e2e": "E2E",
    "ttft": "TTFT",
    "itl_p50": "gap between tokens",
    "tpot": "time a token",
    "queue+prefill": "queue | prefill",
    "decode+network": "decode | network",
    "queue+prefill+network": "queue | prefill | network",
    "load_excess": "load excess",
    "tokens_per_chunk": "tokens a chunk",
    "input_tokens": "prompt tokens",
    "uncached_tokens": "uncached tokens",
    "cached_share": "cached share",
    "output_tokens": "output tokens",
}
LABEL = 26
COLUMN = 10


def comparison_lines(found: Comparison, *, width: int, colours: bool) -> Iterator[Text]:
    """The answer first; then a line a measure, with its interval; then what is missing."""
    yield Text(_title(found, "model"), "bold")
    yield Text(_title(found, "endpoint"), "dim")
    yield Text(f"{counted(found.calls_base, 'call')} before, {found.calls_new} after", "dim")
    yield Text()
    yield _answer(found, colours)
    yield Text()
    yield Text(
        f"{'':{LABEL}}{'before':>{COLUMN}}{'after':>{COLUMN}}  {'shift':<{COLUMN}}90 % interval",
        "dim",
    )
    for move in found.moves:
        yield _line(move, colours, width)
    yield from _missing(found.moves)


def _title(found: Comparison, field: str) -> str:
    old, new = getattr(found, field), getattr(found, f"new_{field}")
    return f"{old or UNKNOWN}" if new is None or new == old else f"{old or UNKNOWN} → {new}"


def _answer(found: Comparison, colours: bool) -> Text:
    moved = next((move for move in found.whole if move.verdict == "moved"), None)
    tone = "bold"
    if colours:
        sure = moved is not None
        tone = f"bold {'red' if found.slower else 'green' if sure else 'yellow'}"
        tone = "bold" if not sure and not found.unsure else tone
    text = Text(_said_of_all(found, moved), tone)
    if found.segment is not None:
        text.append("; what moved: ", "not bold")
        for at, name in enumerate(found.segment.split(" | ")):
            text.append(" | " if at else "")
            text.append(name, colour(name, colours))
    return text


def _said_of_all(found: Comparison, moved: Move | None) -> str:
    if moved is not None and moved.shift is not None:
        way = "slower" if moved.shift.value > 0 else "faster"
        by = duration(round(abs(moved.shift.value)))
        lost = "" if found.segment else "; no one segment can be named"
        return f"{NAMES[moved.measure.name]} got {by} {way}{lost}"
    if not found.unsure:
        return f"{' and '.join(NAMES[move.measure.name] for move in found.whole)} did not move"
    return "it cannot be told yet whether anything moved"


def _line(move: Move, colours: bool, width: int) -> Text:
    tone = {"moved": "bold", "same": "dim", "cannot tell": "yellow"}[move.verdict]
    text = Text(style=tone if colours or move.verdict != "cannot tell" else "")
    text.append(f"{NAMES.get(move.measure.name, move.measure.name):{LABEL}}")
    text.append(f"{_figure(move, move.base):>{COLUMN}}{_figure(move, move.new):>{COLUMN}}  ")
    text.append(f"{_shift(move, move.shift):<{COLUMN}}")
    text.append(f"{_interval(move):<20}")
    room = width - LABEL - 3 * COLUMN - 22
    said = _said(move)
    text.append(said if len(said) <= room else move.verdict)
    return text


def _said(move: Move) -> str:
    if move.verdict == "cannot tell":
        return f"needs about {move.more} more" if move.more else "cannot tell"
    if move.verdict == "same" or move.p95 is None:
        return move.verdict
    return f"moved, p95 {_shift(move, move.p95)}"


def _figure(move: Move, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    unit = move.measure.unit
    if value == 0:
        return "0"
    if unit == "ns":
        return duration(round(value))
    if unit == "share":
        return f"{100 * value:.0f} %"
    return f"{value:,.0f}".replace(",", " ") if unit == "tokens" else f"{value:.2f}"


def _shift(move: Move, found: Difference | None) -> str:
    if found is None:
        return UNKNOWN
    sign = "+" if found.value > 0 else "-" if found.value < 0 else ""
    return sign + _figure(move, abs(found.value))


def _interval(move: Move) -> str:
    if move.shift is None:
        return ""
    ends = (move.shift.low, move.shift.high)
    return " to ".join(("-" if end < 0 else "") + _figure(move, abs(end)) for end in ends)


def _missing(moves: Sequence[Move]) -> Iterator[Text]:
    """What would make the rest tellable."""
    open_ = [move for move in moves if move.verdict == "cannot tell" and move.more is None]
    if open_:
        yield Text()
        names = ", ".join(NAMES.get(move.measure.name, move.measure.name) for move in open_)
        yield Text(
            f"only bounds are known of {names}: a profile (latscope calibrate) or the server's own "
            "times would split them",
            "dim",
        )


# -- what a pipeline is told -----------------------------------------------------------------------


def annotations(comparisons: Iterable[Comparison]) -> Iterator[str]:
    """GitHub workflow commands: slower is an error, what cannot be told a warning."""
    for found in comparisons:
        if found.slower or found.unsure:
            level = "error" if found.slower else "warning"
            yield command(level, "latscope compare", plain(found))


def junit(comparisons: Sequence[Comparison]) -> str:
    """JUnit XML, a test case a group: slower is a failure, what cannot be told is skipped."""
    cases = []
    for found in comparisons:
        kind: Kind = "failure" if found.slower else "skipped" if found.unsure else None
        cases.append(case("compare", _title(found, "model"), plain(found), kind))
    return suite("latscope compare", cases)


def plain(found: Comparison) -> str:
    """The answer and where, in one line."""
    return f"{_answer(found, False).plain} ({_title(found, 'model')}, {_title(found, 'endpoint')})"


# -- machine-readable -----------------------------------------------------------------------------


def to_mapping(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """`latscope.compare/1`: times in ns, tokens, shares of 1."""
    return {"schema": SCHEMA, "comparisons": [_comparison(found) for found in comparisons]}


def _comparison(found: Comparison) -> Mapping[str, Any]:
    return {
        "model": found.model,
        "endpoint": found.endpoint,
        "new_model": found.new_model,
        "new_endpoint": found.new_endpoint,
        "calls_base": found.calls_base,
        "calls_new": found.calls_new,
        "segment": found.segment,
        "moves": [_move(move) for move in found.moves],
    }


def _move(move: Move) -> Mapping[str, Any]:
    return {
        "measure": move.measure.name,
        "unit": move.measure.unit,
        "segment": move.measure.segment,
        "n_base": move.n_base,
        "n_new": move.n_new,
        "base": move.base,
        "new": move.new,
        "shift": _difference(move.shift),
        "p50": _difference(move.p50),
        "p95": _difference(move.p95),
        "p": move.p,
        "matters": move.matters,
        "verdict": move.verdict,
        "more": move.more,
    }


def _difference(found: Difference | None) -> Mapping[str, float] | None:
    return None if found is None else {"value": found.value, "low": found.low, "high": found.high}
