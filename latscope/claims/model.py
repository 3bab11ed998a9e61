"""What a claim and a row of the result are: `latscope.claims/1`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, TypeAlias

from latscope.claims.fit import LEVEL, METHOD, Estimate

SCHEMA = "latscope.claims/1"

Source: TypeAlias = Literal["cost", "fleet", "url", "file"]
SOURCES: tuple[Source, ...] = ("cost", "fleet", "url", "file")
"""The cost model, the fleet simulator, a real endpoint, recorded calls."""

Verdict: TypeAlias = Literal["holds", "fails", "insufficient evidence"]
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "insufficient evidence")

ClaimId: TypeAlias = Literal[
    "ttft-independent-of-output",
    "cache-leaves-ttft",
    "step-grows-with-context",
    "cache-removes-recomputation",
    "batching-raises-throughput",
    "queueing-dominates-ttft-at-peak",
    "ttft-is-queue-prefill-network",
    "e2e-is-ttft-plus-steps",
    "recompute-to-read-ratio",
]

CLAIMS: dict[ClaimId, str] = {
    "ttft-independent-of-output": "TTFT is decided by prefill, not by how long the answer gets",
    "cache-leaves-ttft": "The KV cache leaves TTFT as it is: prefill runs once either way",
    "step-grows-with-context": "A decode step costs more for every token of context, linearly",
    "cache-removes-recomputation": "The KV cache removes recomputation, not reading the history",
    "batching-raises-throughput": (
        "Batching raises throughput; one call barely slows until compute saturates"
    ),
    "queueing-dominates-ttft-at-peak": (
        "At peak it is the queue that TTFT grows by, while the step stays as it is"
    ),
    "ttft-is-queue-prefill-network": "TTFT is queue + prefill + network",
    "e2e-is-ttft-plus-steps": "The whole call is TTFT + (output tokens - 1) x step",
    "recompute-to-read-ratio": "Computing a token costs more than reading one from the cache",
}

TEACHING_RATIO = 12
"""Units to compute a token over units to read one, in the source's fixture: a teaching constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One claim on one source. slope, low, high: in `unit`, null where nothing was measured;
    note: what else was seen, or why there is no verdict. testable: whether this source could ever
    tell."""

    id: ClaimId
    source: Source
    unit: str
    slope: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    note: str
    testable: bool = True


def row(
    claim: ClaimId,
    source: Source,
    unit: str,
    estimate: Estimate | None,
    verdict: Verdict,
    note: str,
) -> Row:
    """A row from an estimate; without one the verdict can only be that evidence is lacking."""
    known = estimate if estimate is not None else Estimate(value=0, low=0, high=0)
    return Row(
        id=claim,
        source=source,
        unit=unit,
        slope=None if estimate is None else _figure(known.value),
        low=None if estimate is None else _figure(known.low),
        high=None if estimate is None else _figure(known.high),
        verdict=verdict if estimate is not None else "insufficient evidence",
        note=note,
    )


def untestable(claim: ClaimId, source: Source, why: str) -> Row:
    """A row of a source that can never tell."""
    return Row(
        id=claim,
        source=source,
        unit="",
        slope=None,
        low=None,
        high=None,
        verdict="insufficient evidence",
        note=why,
        testable=False,
    )


def _figure(value: float) -> float | None:
    """Nine digits: what is left of an exact figure's rounding is gone, nothing measured is."""
    return float(f"{value:.9g}") if isfinite(value) else None


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """`latscope.claims/1`, JSON-ready: rows in the order of CLAIMS and SOURCES, `units` of their
    figures by claim and source, what the claims say, how the intervals are made."""
    ordered = _ordered(rows)
    units: dict[str, dict[str, str]] = {}
    for found in ordered:
        if found.unit:
            units.setdefault(found.id, {})[found.source] = found.unit
    return {
        "schema": SCHEMA,
        "claims": [
            {
                "id": found.id,
                "source": found.source,
                "slope": found.slope,
                "low": found.low,
                "high": found.high,
                "verdict": found.verdict,
                "note": found.note,
            }
            for found in ordered
        ],
        "interval": {"level": LEVEL, "method": METHOD},
        "statements": {found.id: CLAIMS[found.id] for found in ordered},
        "units": units,
    }


def _ordered(rows: Iterable[Row]) -> list[Row]:
    claims, sources = list(CLAIMS), list(SOURCES)
    return sorted(rows, key=lambda found: (claims.index(found.id), sources.index(found.source)))
