"""How fast the tokens came, in the field's own figures: gaps, time per token."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import quantiles

from latscope.attribution.model import Itl
from latscope.attribution.pace import Pace
from latscope.timeline import Timeline
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
    cuts = quantiles(gaps, n=20, method="inclusive") if len(gaps) > 1 else [gaps[0]] * 19
    return Itl(
        p50_ns=round(cuts[9]),
        p95_ns=round(cuts[18]),
        max_ns=gaps[-1],
        n=len(gaps),
        unit="token" if counted or _shown_tokens(t) == len(t.arrivals) else "chunk",
    )


def _gaps(t: Timeline, *, counted: bool) -> Iterator[Ns]:
    for choice in dict.fromkeys([arrival.choice for arrival in t.arrivals]):
        mine = [arrival for arrival in t.arrivals if arrival.choice == choice]
        times = [arrival.at.latest for arrival in mine]
        gaps = [after - before for before, after in pairwise(times)]
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
