"""How fast the tokens came, in the field's own figures: gaps, time per token, stalls."""

from itertools import pairwise
from statistics import quantiles

from latscope.attribution.model import Itl, Stall
from latscope.attribution.pace import Pace
from latscope.timeline import Timeline
from latscope.units import Ns


def _stepwise(t: Timeline) -> bool:
    """Every token-bearing arrival carried exactly one token."""
    counted = [arrival.tokens for arrival in t.arrivals]
    if counted and all(tokens == 1 for tokens in counted):
        return True
    return t.usage.output_tokens is not None and t.usage.output_tokens == len(counted)


def itl(t: Timeline, pace: Pace) -> Itl | None:
    """Null when everything came together: then no gap between tokens was ever seen."""
    if len(pace.bursts) < 2:
        return None
    stamps = [arrival.at.latest for arrival in t.arrivals]
    gaps: list[Ns] = sorted(after - at for at, after in pairwise(stamps))
    cuts = quantiles(gaps, n=20, method="inclusive") if len(gaps) > 1 else [gaps[0]] * 19
    return Itl(
        p50_ns=round(cuts[9]),
        p95_ns=round(cuts[18]),
        max_ns=gaps[-1],
        n=len(gaps),
        unit="token" if _stepwise(t) else "chunk",
    )


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


def stalls(pace: Pace) -> tuple[Stall, ...]:
    """Silences that stand out from the stream's own step. Nothing here tells decode from a hold."""
    return tuple(
        Stall(at_ns=gap.start_ns, ns=gap.excess_ns, cause="unsplit", confidence=0.0)
        for gap in pace.gaps
    )
