"""Metrics of the prompt's shape, and of where it broke the cache (`rules.prefixes`)."""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from latscope.rules.metrics.metric import Call, Columns, Metric, Value, number
from latscope.rules.metrics.sessions import marks
from latscope.rules.prefixes import (
    Prompt,
    breaks,
    prompt_of,
    resumed,
    slope_of,
    stated_ns,
    uncached,
    waited_ns,
)

PREFIX = "record prefix hashes: instrument(prefix=True)"
SKELETON = "keep the requests' skeletons in the recordings (the default)"
SHARES = ("system_share", "tools_share", "history_share", "last_share")
SIZES = (
    "request.system_bytes",
    "request.tools_bytes",
    "request.history_bytes",
    "request.last_bytes",
)
OF = ("system text", "tools", "the turns before", "the last turn")


def _share(place: int) -> Callable[[Call], Value]:
    def of(call: Call) -> Value:
        shares = prompt_of(call).shares
        return None if shares is None else shares[place]

    return of


def _parts(call: Call) -> Value:
    parts = prompt_of(call).parts
    return ",".join(f"{part}:{count}" for part, count in parts) or None


def _resumed(call: Call) -> Value:
    return float(resumed(call))


# -- from call to call -----------------------------------------------------------------------------


def _rows(columns: Columns) -> Iterator[tuple[str | None, object, bool, Prompt]]:
    places = zip(columns["model"], columns["endpoint"], strict=True)
    every = zip(marks(columns), places, columns["prefix.resumed"], _prompts(columns), strict=True)
    for mark, place, kept, prompt in every:
        yield mark.session or None, place, bool(kept), prompt


def _prompts(columns: Columns) -> Iterator[Prompt]:
    names = ("request.hashes", "prefix.parts", *SIZES, "input_tokens", "cached_tokens")
    for hashes, parts, *rest in zip(*(columns[name] for name in names), strict=True):
        system, tools, history, last, tokens, cached = (
            round(value) if isinstance(value, int | float) else None for value in rest
        )
        yield Prompt(
            hashes=str(hashes or ""),
            parts=tuple(_counted(str(parts or ""))),
            sizes=(system or 0, tools or 0, history or 0, last or 0),
            tokens=tokens,
            cached=cached,
        )


def _counted(text: str) -> Iterator[tuple[str, int]]:
    for item in text.split(",") if text else ():
        part, _, count = item.rpartition(":")
        yield part, int(count)


def _break(columns: Columns) -> Sequence[Value]:
    """`share|at|tokens|part`, so that it is looked for once."""
    return [
        None
        if found is None
        else f"{found.share}|{_said(found.at)}|{_said(found.tokens)}|{_said(found.part)}"
        for found in breaks(_rows(columns))
    ]


def _said(value: object) -> str:
    return "" if value is None else str(value)


def _broken(place: int, text: bool = False) -> Callable[[Columns], Sequence[Value]]:
    def over(columns: Columns) -> Sequence[Value]:
        rows = [str(row or "|||").split("|", 3)[place] for row in columns["prefix.break"]]
        return [None if not row else row if text else float(row) for row in rows]

    return over


def _ns(columns: Columns) -> Sequence[Value]:
    """By what an uncached token costs at the call's model and endpoint; null where the file does
    not show it."""
    places = [*zip(columns["model"], columns["endpoint"], strict=True)]
    slopes: dict[object, float | None] = {}
    order = sorted(range(len(places)), key=lambda index: str(places[index]))
    for place, inside in groupby(order, key=lambda index: places[index]):
        slopes[place] = _slope(columns, [*inside])
    found: list[Value] = []
    for place, tokens in zip(places, columns["break_tokens"], strict=True):
        each = slopes[place]
        known = each is not None and isinstance(tokens, int | float)
        found.append(each * tokens if known else None)  # type: ignore[operator]
    return found


def _slope(columns: Columns, places: Sequence[int]) -> float | None:
    sizes = [_float(columns["prefix.uncached"][index]) for index in places]
    for name in ("prefix.stated", "prefix.waited"):
        found = slope_of(sizes, [_float(columns[name][index]) for index in places])
        if found is not None:
            return found.value
    return None


def _float(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _cost(columns: Columns) -> Sequence[Value]:
    """At the price of a token computed less that of one from the cache."""
    names = ("break_tokens", "rate.input", "rate.cached_input")
    return [
        tokens * (full - cheap)
        if isinstance(tokens, float) and isinstance(full, float) and isinstance(cheap, float)
        else None
        for tokens, full, cheap in zip(*(columns[name] for name in names), strict=True)
    ]


_BREAK = (
    "session.place", "model", "endpoint", "prefix.resumed", "prefix.parts", "request.hashes",
    *SIZES, "input_tokens", "cached_tokens",
)  # fmt: skip
_WHERE = "the first block that is not the earlier call's"

ROWS = (
    *(
        Metric(
            name=name,
            unit="share",
            means=f"share of the prompt, by bytes, that is {of}",
            of=_share(place),
            collect=SKELETON,
        )
        for place, (name, of) in enumerate(zip(SHARES, OF, strict=True))
    ),
    Metric(name="prefix.parts", unit="text", means="parts of the prompt, blocks each", of=_parts),
    Metric(
        name="prefix.resumed",
        unit="truth",
        means="the server keeps what was said before: the request holds only what is new",
        of=_resumed,
    ),
    Metric(
        name="prefix.uncached",
        unit="tokens",
        means="prompt tokens the server had to compute",
        of=number(uncached),
    ),
    Metric(
        name="prefix.stated",
        unit="ns",
        means="prefill, where the server's own figure tells it",
        of=number(stated_ns),
    ),
    Metric(
        name="prefix.waited",
        unit="ns",
        means="from the request's last byte to the first token",
        of=number(waited_ns),
    ),
    Metric(
        name="prefix.break",
        unit="text",
        means="what a call shares with the one before it that is its like",
        over=_break,
        needs=_BREAK,
        collect=PREFIX,
    ),
    Metric(
        name="prefix_kept",
        unit="share",
        means="of what a call should share with the one before it that is its like (its whole"
        " prompt where this one carries it on, else tools and system text), how much it shares",
        over=_broken(0),
        needs=("prefix.break",),
        collect=PREFIX,
    ),
    Metric(
        name="break_tokens",
        unit="tokens",
        means="prompt tokens a cache could have served but for a change in front of them",
        over=_broken(2),
        needs=("prefix.break",),
        collect=PREFIX,
    ),
    Metric(
        name="break_part",
        unit="text",
        means=f"the part of the request that holds {_WHERE}",
        over=_broken(3, text=True),
        needs=("prefix.break",),
        collect=PREFIX,
    ),
    Metric(
        name="break_at",
        unit="share",
        means=f"how far into the prompt lies {_WHERE}",
        over=_broken(1),
        needs=("prefix.break",),
        collect=PREFIX,
    ),
    Metric(
        name="break_ns",
        unit="ns",
        means="break_tokens by what an uncached prompt token costs here, where this file shows it",
        over=_ns,
        needs=(
            "break_tokens",
            "model",
            "endpoint",
            "prefix.uncached",
            "prefix.stated",
            "prefix.waited",
        ),
        collect="record calls with prompts of several lengths, or give --profile",
    ),
    Metric(
        name="break_cost",
        unit="money",
        means="break_tokens at the price of a computed token less that of a cached one",
        over=_cost,
        needs=("break_tokens", "rate.input", "rate.cached_input"),
        collect="give prices: --prices FILE, or latscope[analysis] for a vendor's",
    ),
)
