"""`latscope.kv/1` as text: bytes a token and a context, what each kind of layer keeps, what fits.

Every line fits the width it is given; without colours each part of a bar has its own glyph.
"""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Literal, TypeAlias

from rich.text import Text

from latscope.report.bars import BLANK, SLIVER, Canvas, Cell, colour, paint, strip_cells
from latscope.report.terminal import append_bar
from latscope.report.view import Share

Found: TypeAlias = Mapping[str, Any]
Paint: TypeAlias = Literal["decode", "prefill", "queue", "network", "unattributed"]

LABEL = 15
VALUE = 11
BARS = 6
KINDS: Mapping[str, tuple[Paint, str]] = {
    "full": ("decode", "every token"),
    "latent": ("decode", "every token, keys and values in one"),
    "sliding": ("prefill", "the last {window:,} tokens"),
    "chunked": ("prefill", "at most a chunk of {window:,} tokens"),
    "state": ("queue", "no token: a fixed state"),
    "none": ("unattributed", "nothing"),
}
"""In which colour and glyph of the palette a kind of layer is drawn, and what it keeps."""

PARTS: Mapping[str, Paint] = {"weights": "network", "cache": "decode", "reserve": "unattributed"}


def lines(found: Found, *, width: int, colours: bool) -> Iterator[Text]:
    """All there is to say, from the mapping `--json` prints."""
    yield Text(_crop(found["model"], width), "bold")
    facts = f"{found['dtype']} model · {found['kv_dtype']} cache · blocks of {found['block']:,}"
    yield Text(_crop(f"{facts} tokens", width), "dim")
    yield Text()
    yield from _sizes(found, width)
    yield Text()
    yield from _layers(found, width, colours)
    if found["context"] and _bends(found):
        yield Text()
        yield from _growth(found, width, colours)
    if found["memory"]:
        yield Text()
        yield from _memory(found, width, colours)
    if found["assumed"] or found["kv_source"]:
        yield Text()
        yield Text("assumed", "bold")
        kept = [f"{found['kv_dtype']} as {found['kv_source']}"] if found["kv_source"] else []
        for said in (*found["assumed"], *kept):
            yield from _hanging("· ", said, width)


def _sizes(found: Found, width: int) -> Iterator[Text]:
    """Per token and for the context, exactly and as people say it."""
    token = found["bytes_per_token"]
    yield from _row("per token", size(token), f"{token:,} bytes{_formula(found)}", width)
    if found["growth_per_token"] != token:
        said = f"{found['growth_per_token']:,} bytes once every window is full"
        yield from _row("then", size(found["growth_per_token"]), said, width)
    state = found["state_bytes"]
    if state:
        yield from _row("per sequence", size(state), f"{state:,} bytes of state", width)
    if found["context"]:
        context = found["context"]
        said = f"{context['bytes']:,} bytes"
        label = f"{context['tokens']:,} tokens"
        label = label if len(label) <= LABEL else label.removesuffix(" tokens")
        yield from _row(label, size(context["bytes"]), said, width)


def _formula(found: Found) -> str:
    """The multiplication, where all layers are alike and in plain numbers."""
    groups = [group for group in found["layers"] if group["widths"]]
    if len(groups) != 1 or len(set(groups[0]["widths"])) != 1:
        return ""
    group = groups[0]
    values = group["kv_heads"] * sum(group["widths"])
    if not values or group["bytes_per_token"] % values:
        return ""
    each = group["bytes_per_token"] // values
    plural = "s" if each > 1 else ""
    if group["kind"] == "latent":
        return f" = {group['count']} layers × {values} × {each} byte{plural}"
    heads = f"{group['kv_heads']} KV head{'s' if group['kv_heads'] > 1 else ''}"
    sides = f"2 × {group['count']} layers × {heads} × {group['widths'][0]}"
    return f" = {sides} × {each} byte{plural}"


def _layers(found: Found, width: int, colours: bool) -> Iterator[Text]:
    """What each kind of layer keeps of a token."""
    yield Text(f"{'layers':<{LABEL}} {'each':>{VALUE}}  keeps", "dim")
    for group in found["layers"]:
        name, keeps = KINDS[group["kind"]]
        said = keeps.format(window=group["window"] or 0)
        if group["widths"]:
            said += f": {_vectors(group)}"
        value = size(group["bytes_per_token"])
        if group["kind"] == "state":
            value = "unknown" if group["state_bytes"] is None else size(group["state_bytes"])
        label = f"{group['count']:>4} {group['kind']}"
        for index, line in enumerate(_row(label, value, said, width)):
            if index == 0:
                line.stylize(colour(name, colours), 0, LABEL)
            yield line


def _vectors(group: Found) -> str:
    heads, widths = group["kv_heads"], group["widths"]
    if group["kind"] == "latent":
        return f"{widths[0]} values"
    if widths[0] == widths[1]:
        return f"2 × {heads} × {widths[0]} values"
    return f"{heads} × ({widths[0]} + {widths[1]}) values"


def _bends(found: Found) -> bool:
    """Whether memory is no straight line through zero."""
    return bool(found["growth_per_token"] != found["bytes_per_token"] or found["state_bytes"])


def _growth(found: Found, width: int, colours: bool) -> Iterator[Text]:
    """Memory of one sequence as it grows to the context, by kind of layer."""
    most = found["context"]["tokens"]
    lengths = sorted({max(1, most >> shift) for shift in range(BARS)})
    totals = [sum(part for _, part in _parts(found, length)) for length in lengths]
    label = max(LABEL, len(f"{most:,} tokens"))
    bar = max(8, min(100, width - label - 1 - VALUE - 1))
    yield Text("one sequence as it grows", "dim")
    for length, total in zip(lengths, totals, strict=True):
        line = Text(f"{f'{length:,} tokens':>{label}} ")
        append_bar(line, _bar(_parts(found, length), max(totals), bar, colours))
        line.append(f" {size(total):>{VALUE}}")
        yield line
    kinds = [group["kind"] for group in found["layers"] if group["kind"] != "none"]
    shown = [(KINDS[kind][0], kind) for kind in dict.fromkeys(kinds)]
    yield _legend(shown, colours)


def _parts(found: Found, length: int) -> list[tuple[Paint, int]]:
    """What each group of layers takes of a sequence of so many tokens."""
    return [
        (
            KINDS[group["kind"]][0],
            group["count"]
            * (
                group["bytes_per_token"] * min(length, group["window"] or length)
                + (group["state_bytes"] or 0)
            ),
        )
        for group in found["layers"]
    ]


def _memory(found: Found, width: int, colours: bool) -> Iterator[Text]:
    """The memory as a strip, its parts, and what fits."""
    memory, fit, context = found["memory"], found["fit"], found["context"]
    total = memory["total"]
    parts = [(PARTS[name], min(memory[name], total)) for name in PARTS]
    line = Text(f"{'in ' + size(total):<{LABEL}} ", "bold")
    append_bar(line, _bar(parts, total, min(100, width - LABEL - 1), colours))
    yield line
    rows = {"weights": "weights", "cache": "KV cache", "reserve": "reserve"}
    for name, label in rows.items():
        said = memory.get(f"{name}_source", f"{memory[name]:,} bytes")
        glyph = paint((PARTS[name],), 0, colours)[0]
        for index, row in enumerate(_row(f"{glyph} {label}", size(memory[name]), said, width)):
            if index == 0:
                row.stylize(colour(PARTS[name], colours), 0, 1)
            yield row
    yield Text()
    tokens = f"{context['tokens']:,} tokens"
    if fit["sequences"]:
        mark, style = "✓ ", "green"
        said = f"{fit['tokens']:,} tokens fit: {fit['sequences']:,} sequences of {tokens}"
        said += f" ({fit['at_once']:,.2f} at once)"
    else:
        mark, style = "✗ ", "bold red"
        said = f"not one sequence of {tokens} fits"
        if not memory["cache"]:
            said = "weights and reserve leave nothing for the cache: " + said
    for index, part in enumerate(wrap(said, width - 2)):
        yield Text.assemble((mark if index == 0 else "  ", style), (part, "bold"))


def _bar(parts: Sequence[tuple[Paint, int]], whole: int, cells: int, colours: bool) -> list[Cell]:
    """Parts end to end; a whole bar too short for a cell still shows, as a sliver."""
    shares = [Share(candidates=(name,), ns=ns) for name, ns in parts]
    found = strip_cells(shares, whole, Canvas(label=0, bar=cells, colours=colours))
    if all(cell == BLANK for cell in found) and any(ns for _, ns in parts):
        name = next(name for name, ns in parts if ns)
        found[0] = (SLIVER, paint((name,), 0, colours)[1])
    return found


def _legend(shown: Sequence[tuple[Paint, str]], colours: bool) -> Text:
    line = Text()
    for name, said in shown:
        line.append("   " if line.plain else "")
        line.append(paint((name,), 0, colours)[0], colour(name, colours))
        line.append(f" {said}", "dim")
    return line


def _row(label: str, value: str, said: str, width: int) -> Iterator[Text]:
    """Label, a figure, what it is; the last wraps under itself."""
    room = max(20, width - LABEL - VALUE - 3)
    for index, part in enumerate(wrap(said, room) or [""]):
        line = Text(f"{label if index == 0 else '':<{LABEL}} ")
        line.append(f"{value if index == 0 else '':>{VALUE}}", "bold")
        line.append(f"  {part}", "dim")
        yield line


def _hanging(mark: str, said: str, width: int) -> Iterator[Text]:
    for index, part in enumerate(wrap(said, width - len(mark)) if said else ()):
        yield Text((mark if index == 0 else " " * len(mark)) + part, "dim")


def _crop(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def size(count: int) -> str:
    """Bytes as people say them, in powers of 1024, four digits at most."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    if value >= 10_000:
        return f"{value:.1e} {unit}"
    digits = 0 if unit == "B" or value >= 1000 else 1 if value >= 100 else 2
    said = f"{value:.{digits}f}"
    return f"{said.rstrip('0').rstrip('.') if '.' in said else said} {unit}"
