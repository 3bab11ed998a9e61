"""`probe --against` on the screen: what differs between two targets, how surely, with what."""

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.text import Text

from latscope.probe.against import ARMS, WHOLES, Comparison, Difference, Growth
from latscope.probe.requests import Ask
from latscope.report.bars import colour
from latscope.report.figures import UNKNOWN, Unit, common_unit, counted, duration
from latscope.rules.stats import LEVEL, Estimate
from latscope.units import US, Ns

NAMES = {"a": "TARGET", "b": "TARGET2"}
SHOWN = {"ttft": "TTFT", "e2e": "E2E"}
PER: dict[str, tuple[float, str]] = {
    "body_bytes": (1024.0, "KiB of request"),
    "input_tokens": (1000.0, "1000 input tokens"),
    "output_tokens": (1.0, "output token"),
    "time_s": (60.0, "minute since the first pair"),
}
"""Units of an axis that make one readable step, and its words."""
AXIS = {"body_bytes": "request bytes", "time_s": "time"}

SURE = f"{100 * LEVEL:.0f} %"
COLUMN = 11
RANGE = 25
LABEL = 14
LEAST_BAR = 12
MOST_BAR = 36


def comparison_lines(
    found: Comparison, asks: tuple[Ask, Ask], *, width: int, colours: bool
) -> Iterator[Text]:
    """The two targets, a row a difference with its interval drawn, what they grow with, words."""
    for arm, ask in zip(ARMS, asks, strict=True):
        yield Text.assemble((f"{NAMES[arm]:<9}", "bold"), f"{ask.target.url} · {ask.model}")
    left_out = found.pairs - found.used
    yield Text(
        f"{counted(found.used, 'pair')}"
        + (f", {left_out} more left out: a call did not complete" if left_out else "")
        + f"; TARGET2 less TARGET; {SURE} intervals, each on its own",
        "dim",
    )
    yield Text()
    yield from _differences(found.differences, width, colours)
    yield from _growth(found.growth, width)
    for words in found.words:
        yield from _wrapped(f"→ {words}", width, "")


def _differences(rows: Sequence[Difference], width: int, colours: bool) -> Iterator[Text]:
    told = [row for row in rows if row.name in WHOLES or row.a_ns or row.b_ns or row.by.value]
    if not told:
        return
    unit = common_unit(ns for row in told for ns in (row.a_ns, row.b_ns))
    bar = min(MOST_BAR, width - LABEL - 3 * COLUMN - RANGE)
    heads = "".join(f"{name:>{COLUMN}}" for name in (*NAMES.values(), "difference"))
    yield Text(f"{'':<{LABEL}}{heads}  {SURE} interval", "dim")
    reach = _reach(told)
    for row in told:
        yield _row(row, unit, reach, bar, colours)
    silent = [row.name for row in rows if row not in told]
    if silent:
        said = f"nothing sure of {', '.join(silent)} alone at either target"
        yield from _wrapped(said, width, "dim")
    yield Text()


def _row(
    row: Difference, unit: Unit | None, reach: tuple[float, float], bar: int, colours: bool
) -> Text:
    name = {"unattributed": "unsplit"}.get(row.name, SHOWN.get(row.name, row.name))
    line = Text(f"{name:<{LABEL}}", "bold" if row.name in WHOLES else colour(row.name, colours))
    step = _step(row.by)
    line.append(f"{duration(row.a_ns, step, unit):>{COLUMN}}", "")
    line.append(f"{duration(row.b_ns, step, unit):>{COLUMN}}", "")
    clear = "bold" if row.by.clear else ""
    line.append(f"{signed(row.by.value, step, unit):>{COLUMN}}", clear)
    line.append(f"  {interval(row.by, unit):<{RANGE - 2}}", clear)
    if bar >= LEAST_BAR:
        line.append(_drawn(row.by, reach, bar), "dim" if not clear else "")
    return line


def _reach(rows: Iterable[Difference]) -> tuple[float, float]:
    ends = [end for row in rows for end in (row.by.low, row.by.high, row.by.value, 0.0)]
    known = [end for end in ends if end is not None]
    return min(known), max(known)


def _drawn(found: Estimate, reach: tuple[float, float], cells: int) -> str:
    """The interval on one axis for all rows, zero as a bar, the estimate as a dot."""
    low, high = reach
    if found.low is None or found.high is None or high <= low:
        return ""

    def cell(value: float) -> int:
        return round((value - low) / (high - low) * (cells - 1))

    drawn = [" "] * cells
    for at in range(cell(found.low), cell(found.high) + 1):
        drawn[at] = "─"
    drawn[cell(0.0)] = "│"
    drawn[cell(found.value)] = "●"
    return "".join(drawn)


def _growth(rows: Sequence[Growth], width: int) -> Iterator[Text]:
    """The axes along which a difference grows; in one line, those along which none is seen."""
    if not rows:
        return
    yield Text("grows with", "bold")
    unseen = []
    for row in rows:
        if row.by is None or not row.by.clear:
            unseen.append(row)
            continue
        size, unit = PER[row.along]
        scaled = Estimate(
            value=row.by.value * size,
            low=None if row.by.low is None else row.by.low * size,
            high=None if row.by.high is None else row.by.high * size,
            n=row.by.n,
        )
        said = f"{signed(scaled.value, _step(scaled), None)} per {unit}"
        yield Text(f"  {SHOWN[row.of]:<5} {said}  ({interval(scaled, None)})")
    for reason, names in _reasons(unseen).items():
        yield from _wrapped(f"  {reason}: {', '.join(names)}", width, "dim")
    yield Text()


def _reasons(rows: Iterable[Growth]) -> dict[str, list[str]]:
    """Why nothing is seen along which axes; what is true of TTFT and E2E alike is said once."""
    along: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        key = (row.why_not or "not seen to", AXIS.get(row.along, row.along.replace("_", " ")))
        along.setdefault(key, []).append(SHOWN[row.of])
    found: dict[str, list[str]] = {}
    for (reason, axis), names in along.items():
        said = axis if len(names) > 1 else f"{axis} ({names[0]})"
        found.setdefault(reason, []).append(said)
    return found


def _wrapped(text: str, width: int, style: str) -> Iterator[Text]:
    for line in wrap(text, width, subsequent_indent="  ", drop_whitespace=True):
        yield Text(line, style)


def signed(value: float, step: Ns, unit: Unit | None) -> str:
    ns = round(value)
    size = duration(abs(ns), step, unit)
    if size.startswith("<"):  # too small to have a sign
        return size
    return f"{'−' if ns < 0 else '+'}{size}"


def interval(found: Estimate, unit: Unit | None) -> str:
    if found.low is None or found.high is None:
        return UNKNOWN
    step = _step(found)
    return f"{signed(found.low, step, unit)} to {signed(found.high, step, unit)}"


def _step(found: Estimate) -> Ns:
    """Digits follow what is known: a tenth of the interval's half width."""
    if found.low is None or found.high is None:
        return US
    return max(1, round((found.high - found.low) / 20))
