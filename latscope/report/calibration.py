"""A profile for people: the floor as a formula, what else was found, which guards it passed."""

from collections.abc import Iterable, Iterator
from textwrap import wrap

from rich.text import Text

from latscope.attribution.profile import Floor, Guard, Profile
from latscope.report.figures import count
from latscope.units import MS

LABEL = 12
MEANS = {
    "early": "early: it leaves before the request waits for the engine",
    "slot": "slot: it leaves when the engine takes the request up",
    "token": "token: it comes with the first token",
    "unknown": "not told: neither with the first token nor clearly before the prompt",
}
ANCHORS = {"sent": "the request's last byte", "headers": "the response head"}
SECOND_TERM = 0.01
"""A term that adds less than this share at the longest prompt is not worth a line."""


def profile_lines(profile: Profile, *, width: int, colours: bool) -> Iterator[Text]:
    """Endpoint and model; then a line a thing that is known, or why it is not."""
    yield Text(f"{profile.model}  {profile.endpoint}", "bold")
    for label, said in _rows(profile):
        yield from _row(label, said, width)
    for guard in profile.guards:
        yield from _guard(guard, width, colours)
    for index, text in enumerate(profile.skipped):
        yield from _row("left out" if index == 0 else "", text, width, "dim")
    yield from _row("spent", _spent(profile), width, "dim")


def _rows(profile: Profile) -> Iterator[tuple[str, str]]:
    yield "first token", _floor(profile)
    yield "decode", _step(profile)
    yield "cache", _cache(profile)
    if profile.connect_ns is not None:
        yield "connection", f"a new one costs {_ms(profile.connect_ns)}"
    yield "head", _head(profile)
    if profile.rtt_ns is not None:
        yield "round trip", f"{_ms(profile.rtt_ns)} to the first hop"
    if profile.tokens_per_chunk is not None:
        yield "chunks", f"{profile.tokens_per_chunk:g} tokens each"


def formula(floor: Floor) -> str:
    """`12 ms + 0.21 ms/token + ...`, for uncached and cached tokens."""
    terms, longest = floor.terms, floor.tokens[1]
    parts = [_ms(terms.base_ns), f"{_ms(terms.linear_ns)}/token"]
    bend = terms.quadratic_ns * longest
    if bend > SECOND_TERM * terms.linear_ns:
        parts.append(f"{_ms(terms.quadratic_ns * 1e6)} x (tokens/1000)²")
    if terms.cached_ns:
        parts.append(f"{_ms(terms.cached_ns)}/cached token")
    return " + ".join(parts)


def _floor(profile: Profile) -> str:
    floor = profile.floor
    if floor is None:
        slope = profile.intervals.get("linear_ns")
        known = f"; a prompt token takes {_between(slope)} all the same" if slope else ""
        return f"no floor ({profile.refused or 'not probed'}){known}"
    slope = profile.intervals.get("linear_ns")
    between = f" [{_between(slope)} a token]" if slope else ""
    low, high = floor.tokens
    return (
        f"{formula(floor)}{between}, unloaded, from {ANCHORS[floor.anchor]}; noise"
        f" {_ms(floor.noise_ns)}, {floor.n} pairs, {count(low)} to {count(high)} tokens"
    )


def _step(profile: Profile) -> str:
    step = profile.step
    if step is None:
        return "no step found"
    between = profile.intervals.get("step_ns")
    said = f"{_ms(step.base_ns)}/token"
    if step.per_context_ns:
        said += f" + {_ms(1000 * step.per_context_ns)} for each 1000 tokens of context"
    return f"{said}{f' [{_between(between)} measured]' if between else ''}, {step.n} answers"


def _cache(profile: Profile) -> str:
    saved, between = profile.cache_effect_ns, profile.intervals.get("cache_effect_ns")
    if saved is None:
        return "no effect seen"
    if between and between[0] <= 0:
        return f"no sure effect [{_between(between)} a cached token]"
    return f"saves {_ms(saved)}/cached token{f' [{_between(between)}]' if between else ''}"


def _head(profile: Profile) -> str:
    after = "" if profile.head_ns is None else f", {_ms(profile.head_ns)} after the request"
    return f"{MEANS[profile.headers]}{after}"


def _guard(guard: Guard, width: int, colours: bool) -> Iterable[Text]:
    mark, style = ("✓", "green") if guard.passed else ("✗", "bold red")
    name = guard.name.replace("_", " ")
    lines = list(_row(name, f"{mark} {guard.detail}", width))
    at = lines[0].plain.index(mark)
    lines[0].stylize(style if colours else "", at, at + 1)
    return lines


def _row(label: str, said: str, width: int, style: str = "") -> Iterator[Text]:
    for index, line in enumerate(wrap(said, width - LABEL - 4) or [""]):
        head = label if index == 0 else ""
        yield Text.assemble(("  ", ""), (f"{head:<{LABEL + 2}}", "dim"), (line, style))


def _spent(profile: Profile) -> str:
    spent = profile.spent
    return (
        f"{count(spent.get('requests'))} requests, {count(spent.get('input_tokens'))} prompt and"
        f" {count(spent.get('output_tokens'))} output tokens; made {profile.made_at}, good until"
        f" {profile.expires_at}"
    )


def _between(ends: tuple[float, float]) -> str:
    return f"{ends[0] / MS:.3g} to {_ms(ends[1])}"


def _ms(ns: float) -> str:
    """Three digits, in milliseconds, the unit of a floor."""
    return f"{ns / MS:.3g} ms" if abs(ns) < 1000 * MS else f"{ns / MS:.0f} ms"
