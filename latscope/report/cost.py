"""The two-stage cost model as text: one call with and without the KV cache, and its scenarios.

Bars share one axis in abstract units. With colours prefill and decode have theirs, without each has
its own glyph. Every line fits the width it is given.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from textwrap import wrap
from typing import TYPE_CHECKING, TypeVar

from rich.text import Text

from latscope.report.bars import (
    BLANK,
    SLIVER,
    Canvas,
    Cell,
    colour,
    paint,
    strip_cells,
)
from latscope.report.terminal import append_bar
from latscope.report.view import Share

if TYPE_CHECKING:
    from latscope.sim.cost import Comparison, Constants, Cost, Steps, Sweep

_T = TypeVar("_T")
WIDE = 100
ROWS = 20
"""Most rows of a chart; longer sweeps are thinned, both ends kept."""
SHADES = ("░", "▒", "▓", "█")
HEAT = ("#9fd3c7", "#66bfa8", "#e6b35c", "#e8613c")
SUFFIXES = ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"))
FINE = 1_000_000
"""Bars are drawn in whole millionths of a unit, since constants may be fractions."""


def call_lines(call: "Comparison", *, width: int, colours: bool) -> Iterator[Text]:
    """One call: two bars on one axis, the figures side by side, what they show."""
    yield from _head("one call, two stages", call, ("prompt", "output"), width)
    yield Text()
    pair = (("with cache", call.with_cache), ("without cache", call.without_cache))
    most = max(cost.total for _, cost in pair)
    totals = max(len(figure(cost.total)) for _, cost in pair)
    size = min(100, width - 15 - 2 - totals)
    yield from _axis(most, size, 15)
    for label, cost in pair:
        line = Text(f"{label:<15}", "bold")
        append_bar(line, _bar(cost, most, size, colours))
        line.append(f"  {figure(cost.total):>{totals}}", "bold")
        yield line
    yield from _legend(colours)
    yield Text()
    yield from _figures(call, width)
    yield Text()
    saved = float(call.saved_percent)
    said = f"the KV cache saves {one(call.saved_percent)} % of the total"
    if saved < 0:
        said = f"the KV cache costs {one(-call.saved_percent)} % more: reading is dearer here"
    mark, tone = ("✓ ", "green") if saved > 0 else ("✗ ", "red")
    yield from _hanging(mark, said, width, tone=tone, style="bold")
    for note in _notes(call):
        yield from _hanging("· ", note, width)


def sweep_lines(found: "Sweep", *, width: int, colours: bool) -> Iterator[Text]:
    """A scenario: what to watch, the chart, what it shows, when it fits and when not."""
    scenario = found.scenario
    fixed = tuple(axis for axis in ("prompt", "output") if axis not in found.axes)
    yield from _head(f"{scenario.name} · {scenario.title}", found.points[0], fixed, width)
    yield from _hanging("watch ", scenario.watch, width, style="dim")
    yield Text()
    if len(found.axes) == 2:
        yield from _grid(found, width, colours)
    else:
        yield from _chart(found, width, colours)
    yield Text()
    for said in _shown(found):
        yield from _hanging("· ", said, width)
    yield from _verdict("✓ ", "green", "fits", scenario.fits, width)
    yield from _verdict("✗ ", "red", "does not fit", scenario.does_not_fit or "—", width)


def _verdict(mark: str, style: str, label: str, said: str, width: int) -> Iterator[Text]:
    for index, part in enumerate(wrap(said, width - 16)):
        head = f"{label if index == 0 else '':<14}"
        yield Text.assemble((mark if index == 0 else "  ", style), (head, "bold"), part)


def _head(title: str, call: "Comparison", named: Sequence[str], width: int) -> Iterator[Text]:
    constants = call.constants
    facts = [f"{axis} {getattr(call, axis):,}" for axis in named]
    facts += [f"forward {figure(constants.forward)}", f"KV read {figure(constants.kv_read)}"]
    yield Text(title, "bold")
    for part in wrap(" · ".join(facts), width):
        yield Text(part, "dim")


def _figures(call: "Comparison", width: int) -> Iterator[Text]:
    """The figures of the source, one a row."""
    pair = (call.with_cache, call.without_cache)
    tokens = f"decode, {call.output:,} token{'s' * (call.output > 1)}"
    rows = [
        ("TTFT (prefill)", *(figure(cost.ttft) for cost in pair)),
        (tokens, *(figure(cost.decode) for cost in pair)),
        ("total", *(figure(cost.total) for cost in pair)),
        ("average per token", *(one(cost.average_per_token) for cost in pair)),
        *_steps(pair[0].steps, pair[1].steps, width - max(len(tokens), 19)),
        ("tokens per 1k units", *(_places(cost.tokens_per_1k_units, 2) for cost in pair)),
    ]
    label = max(len(row[0]) for row in rows)
    sizes = [max(len(row[side]) for row in rows) for side in (1, 2)]
    sizes = [max(size, len(name)) for size, name in zip(sizes, ("with", "without"), strict=True)]
    yield Text(f"{'':{label}}  {'with':>{sizes[0]}}  {'without':>{sizes[1]}}", "dim")
    for name, left, right in rows:
        style = "bold" if name == "total" else ""
        yield Text(f"{name:<{label}}  {left:>{sizes[0]}}  {right:>{sizes[1]}}", style)


def _steps(left: "Steps", right: "Steps", room: int) -> list[tuple[str, str, str]]:
    """First, middle and last step in one row; in three where that is too long."""
    sides = [[figure(s.first), figure(s.mid), figure(s.last)] for s in (left, right)]
    joined = [" / ".join(side) for side in sides]
    if 2 + len(joined[0]) + 2 + len(joined[1]) <= room:
        return [("step 1st/mid/last", joined[0], joined[1])]
    names = ("first step", "middle step", "last step")
    return list(zip(names, sides[0], sides[1], strict=True))


def _notes(call: "Comparison") -> Iterator[str]:
    """What to read out of the figures."""
    constants = call.constants
    yield "TTFT is the same: the prompt is computed once, with a cache or without"
    yield (
        f"each token of context makes a step dearer by {figure(constants.kv_read)} with the cache,"
        f" by {figure(constants.forward)} without: the cache spares computing the history again,"
        " not reading it"
    )
    if constants.kv_read:
        left, right = call.with_cache.steps, call.without_cache.steps
        ratios = sorted({one(right.first / left.first), one(right.last / left.last)}, key=float)
        slopes = constants.forward / constants.kv_read
        yield (
            f"that is {one(slopes)} times a token of context; whole steps differ"
            f" {' to '.join(ratios)} times, as each also computes its own token"
        )


def _chart(found: "Sweep", width: int, colours: bool) -> Iterator[Text]:
    """A bar for each point: prefill, then decode, on one axis for the prompt; in shares of the
    total for the output, whose scenario asks for them."""
    axis = found.axes[0]
    points = _thinned(found.points, ROWS)
    label = max(len(axis), *(len(f"{getattr(point, axis):,}") for point in points))
    shares = axis == "output"
    columns = _columns(axis, points, width)
    side = sum(size + 2 for _, size, _ in columns)
    size = max(8, min(100, width - label - 1 - side))
    most = Fraction(100) if shares else max(point.with_cache.total for point in points)
    names = "".join(f"  {name:>{wide}}" for name, wide, _ in columns)
    yield from _axis(most, size, label + 1, head=axis, tail=names, unit="%" if shares else "")
    for row, point in enumerate(points):
        line = Text(f"{getattr(point, axis):>{label},} ")
        whole = point.with_cache.total if shares else most
        append_bar(line, _bar(point.with_cache, whole, size, colours))
        for index, (_, wide, said) in enumerate(columns):
            line.append(f"  {said[row]:>{wide}}", "bold" if index == 0 else "")
        yield line
    yield from _legend(colours, len(found.points) - len(points))


def _columns(
    axis: str, points: Sequence["Comparison"], width: int
) -> list[tuple[str, int, list[str]]]:
    """Name, width and cells of the figures right of a chart; the watched one first."""
    ttft = [figure(point.with_cache.ttft) for point in points]
    total = [figure(point.with_cache.total) for point in points]
    share = [_percent(100 * p.with_cache.decode / p.with_cache.total) for p in points]
    columns = {"prompt": [("TTFT", ttft)], "output": [("decode", share)]}[axis]
    columns.append(("total", total))
    if width >= WIDE:
        without = [figure(point.without_cache.total) for point in points]
        columns.append(("no cache", without))
        columns.append(("saved", [_percent(point.saved_percent) for point in points]))
    return [(name, max(len(name), *map(len, cells)), cells) for name, cells in columns]


def _grid(found: "Sweep", width: int, colours: bool) -> Iterator[Text]:
    """Prompt down, output across: what the last decode step costs, shaded by its size."""
    cells = {(point.prompt, point.output): point.with_cache.steps.last for point in found.points}
    prompts = _thinned(sorted({prompt for prompt, _ in cells}), ROWS)
    outputs = sorted({output for _, output in cells})
    label = max(len("prompt"), *(len(f"{prompt:,}") for prompt in prompts))
    texts = [figure(cost) for cost in cells.values()]
    size = max(*(len(f"{output:,}") for output in outputs), *map(len, texts)) + 4
    shown = _thinned(outputs, max(2, min(ROWS, (width - label - 1) // size)))
    least, most = min(cells.values()), max(cells.values())
    head = "".join(f"{f'{output:,}':>{size}}" for output in shown)
    yield Text(f"{'':{label}} {'output':>{size}}", "dim")
    yield Text(f"{'prompt':>{label}} {head}", "dim")
    for prompt in prompts:
        line = Text.assemble((f"{prompt:>{label},} ", "dim"))
        for output in shown:
            value = cells[prompt, output]
            level = _level(value, least, most)
            said = figure(value)
            style = HEAT[level] if colours else ""
            line.append(" " * (size - len(said) - 3))
            line.append((SHADES[-1] if colours else SHADES[level]) * 2, style)
            line.append(f" {said}")
        yield line
    left = len(cells) - len(prompts) * len(shown)
    more = f"; {left:,} more points in --json" if left else ""
    yield from _hanging("", f"units of the last decode step{more}", width, style="dim")


def _level(value: Fraction, least: Fraction, most: Fraction) -> int:
    """Which quarter of the range a value lies in."""
    if most == least:
        return 0
    return min(len(SHADES) - 1, int(len(SHADES) * (value - least) / (most - least)))


def _shown(found: "Sweep") -> Iterator[str]:
    """What the ends of the sweep say, in numbers."""
    first, last = found.points[0], found.points[-1]
    if len(found.points) > 1:
        yield _SHOWN["+".join(found.axes)](first, last, first.constants)


def _shown_prompt(first: "Comparison", last: "Comparison", constants: "Constants") -> str:
    return (
        f"prompt ×{one(Fraction(last.prompt, first.prompt))}, TTFT"
        f" ×{one(last.with_cache.ttft / first.with_cache.ttft)}: {figure(constants.forward)} for"
        " every prompt token, on a straight line, with the cache or without"
    )


def _shown_output(first: "Comparison", last: "Comparison", constants: "Constants") -> str:
    shares = [100 * p.with_cache.decode / p.with_cache.total for p in (first, last)]
    return (
        f"output ×{one(Fraction(last.output, first.output))}: decode is {one(shares[0])} % of the"
        f" total, then {one(shares[1])} %; TTFT stays at {figure(first.with_cache.ttft)}"
    )


def _shown_both(first: "Comparison", last: "Comparison", constants: "Constants") -> str:
    ends = [point.with_cache.steps.last for point in (first, last)]
    longer = (last.prompt - first.prompt) * constants.kv_read
    later = (last.output - first.output) * constants.kv_read
    return (
        f"from {figure(ends[0])} to {figure(ends[1])} a step: {figure(longer)} of it from the"
        f" longer prompt, {figure(later)} from the longer answer"
    )


_SHOWN = {
    "prompt": _shown_prompt,
    "output": _shown_output,
    "prompt+output": _shown_both,
}


def _bar(cost: "Cost", whole: Fraction, size: int, colours: bool) -> list[Cell]:
    """Prefill and decode end to end; what is too short for a cell still shows, as a sliver."""
    shares = [
        Share(candidates=("prefill",), ns=round(cost.ttft * FINE)),
        Share(candidates=("decode",), ns=round(cost.decode * FINE)),
    ]
    canvas = Canvas(label=0, bar=size, colours=colours)
    cells = strip_cells(shares, round(whole * FINE), canvas)
    if all(cell == BLANK for cell in cells):
        cells[0] = (SLIVER, paint(("decode",), 0, colours)[1])
    return cells


def _axis(
    most: Fraction, size: int, indent: int, *, head: str = "units", tail: str = "", unit: str = ""
) -> Iterator[Text]:
    """Numbers over ticks at a round step that leaves room between them."""
    step = _round_step(most / max(2, size // 10))
    numbers = [" "] * size
    rule = ["─"] * size
    tick = Fraction(0)
    while tick <= most:
        cell = min(size - 1, int(tick * size / most))
        said = figure(tick) + (unit if tick else "")
        rule[cell] = "┬"
        if cell + len(said) > size:
            cell = size - len(said)
        if all(glyph == " " for glyph in numbers[max(0, cell - 1) : cell + len(said)]):
            numbers[cell : cell + len(said)] = said
        tick += step
    yield Text(f"{head:>{indent - 1}} {''.join(numbers)}{tail}".rstrip(), "dim")
    yield Text(f"{'':{indent}}{''.join(rule)}", "dim")


def _round_step(least: Fraction) -> Fraction:
    """The smallest of 1, 2, 5 x 10^k that is no less."""
    power = Fraction(1)
    while power > least:
        power /= 10
    while True:
        for factor in (1, 2, 5):
            if power * factor >= least:
                return power * factor
        power *= 10


def _legend(colours: bool, hidden: int = 0) -> Iterator[Text]:
    line = Text()
    for name, said in (("prefill", "prefill: this is TTFT"), ("decode", "decode")):
        line.append("   " if line.plain else "")
        line.append(paint((name,), 0, colours)[0], colour(name, colours))
        line.append(f" {said}", "dim")
    line.append("   in abstract units", "dim")
    yield line
    if hidden:
        yield Text(f"{hidden:,} more points in --json", "dim")


def _hanging(
    mark: str, said: str, width: int, *, tone: str = "dim", style: str = ""
) -> Iterator[Text]:
    for index, part in enumerate(wrap(said, width - len(mark))):
        yield Text.assemble((mark if index == 0 else " " * len(mark), tone), (part, style))


def _thinned(values: Sequence[_T], most: int) -> list[_T]:
    """At most so many of them, evenly picked, the first and the last kept."""
    if len(values) <= most:
        return list(values)
    last = len(values) - 1
    return [values[round(index * last / (most - 1))] for index in range(most)]


def figure(value: Fraction) -> str:
    """A cost: whole numbers exact up to ten digits, then a decimal and a suffix; two decimals of
    what is not whole, none from a million on."""
    if abs(value) >= 10**10:
        for size, suffix in SUFFIXES:
            if abs(value) >= size:
                return f"{float(value / size):,.1f} {suffix}"
    if value.denominator == 1:
        return f"{value.numerator:,}"
    if abs(value) >= 10**6:
        return f"{float(value):,.0f}"
    return f"{float(value):,.2f}" if abs(value) >= Fraction(1, 100) else f"{float(value):.2g}"


def one(value: Fraction) -> str:
    """One decimal at most, a half upwards, without marks between thousands."""
    return _places(value, 1) if value < 10**10 else figure(value)


def _percent(value: Fraction) -> str:
    return f"{float(value):.1f} %"


def _places(value: Fraction, places: int) -> str:
    scale = 10**places
    whole = Fraction((value * scale + Fraction(1, 2)).__floor__(), scale)
    if whole == 0 and value > 0:
        return f"{float(value):.2g}"
    return str(whole.numerator) if whole.denominator == 1 else f"{float(whole):.{places}f}"
