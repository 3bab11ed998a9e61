"""How fast the tokens came, in the field's own figures: gaps, time per token."""

from collections.abc import Iterator, Sequence
from operator import sub

from latscope.attribution.model import Itl
from latscope.attribution.pace import Pace
from latscope.timeline import Arrival, Timeline
from latscope.units import Ns


def itl(t: Timeline, pace: Pace) -> Itl | None:
    """The gaps between tokens, of each choice by itself. Where every event says how many tokens it
    brought, a gap is shared out among them: an event of four tokens is four steps, not a long one.
    Where none says, the gaps are those of events (`chunk`), unless the total shows that each was
    one token. Null when everything came together: then no gap was ever seen."""
    if len(pace.bursts) < 2:
        return None
    counted = all(arrival.tokens for arrival in t.arrivals)
    gaps = sorted(_gaps(t, counted=counted))
    if not gaps:
        return None
    return Itl(
        p50_ns=round(_cut(gaps, 10)),
        p95_ns=round(_cut(gaps, 19)),
        max_ns=gaps[-1],
        n=len(gaps),
        unit="token" if counted or _shown_tokens(t) == len(t.arrivals) else "chunk",
    )


def _cut(ordered: Sequence[Ns], twentieths: int) -> float:
    """One of the cuts of statistics.quantiles(ordered, n=20, method="inclusive")."""
    at, part = divmod(twentieths * (len(ordered) - 1), 20)
    return (ordered[at] * (20 - part) + ordered[at + 1] * part) / 20 if part else ordered[at]


def _gaps(t: Timeline, *, counted: bool) -> Iterator[Ns]:
    choices = dict.fromkeys([arrival.choice for arrival in t.arrivals])
    for choice in choices:
        mine: Sequence[Arrival] = t.arrivals
        if len(choices) > 1:
            mine = [arrival for arrival in mine if arrival.choice == choice]
        times = [arrival.at.latest for arrival in mine]
        gaps = list(map(sub, times[1:], times))
        if not counted:
            yield from gaps
            continue
        for gap, arrival in zip(gaps, mine[1:], strict=True):
            share = arrival.tokens or 1
            yield from [round(gap / share)] * share


def _shown_tokens(t: Timeline) -> int | None:
    """Tokens the stream carried, by the server's own count; null when it gives none."""
    output = t.usage.output_tokens
    if output is None:
        return None
    return output - (t.usage.reasoning_tokens or 0) if t.hidden_reasoning else output


def tpot(t: Timeline, pace: Pace) -> Ns | None:
    """(last token - first token) / (tokens after the first), one choice at a time only."""
    shown = _shown_tokens(t)
    if shown is None or shown < 2 or t.first_token_ns is None or t.last_token_ns is None:
        return None
    if len({arrival.choice for arrival in t.arrivals}) > 1 or len(pace.bursts) < 2:
        return None
    first = t.arrivals[0].tokens or 1
    return round((t.last_token_ns - t.first_token_ns) / max(1, shown - first))


def tokens_per_chunk(t: Timeline) -> float | None:
    shown = _shown_tokens(t)
    if shown is None or not t.arrivals:
        return None
    return round(shown / len(t.arrivals), 3)
