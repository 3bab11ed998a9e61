"""Observations of an endpoint whose floor is known: made from numbers, no recording needed."""

from random import Random

from latscope.attribution.observe import Observation
from latscope.units import MS, US, Ns

KEY = ("http://127.0.0.1:8000/v1/chat/completions", "tiny", "chat")
BASE, LINEAR, STEP = 10.0 * MS, 40.0 * US, 8.0 * MS


def row(
    at: int,
    uncached: int,
    sent: float,
    *,
    head: float | None = 1.0 * MS,
    step: float | None = STEP,
    early: float | None = None,
    **fields: object,
) -> Observation:
    """A call `at` seconds after the first; `sent`: ns from the request to its first token."""
    values: dict[str, object] = {
        "key": KEY,
        "at_s": 1_700_000_000.0 + at,
        "uncached": uncached,
        "cached": 0,
        "sent_ns": round(sent),
        "headers_ns": None if head is None else max(0, round(sent - head)),
        "head_ns": None if head is None else round(head),
        "step_ns": None if step is None else round(step),
        "context": uncached + 50,
        "rtt_ns": 2 * MS,
        "tokens_per_chunk": 1.0,
        "in_flight": 0,
        "early_ns": round(early or step) if step is not None else None,
        "server": "uvicorn",
        **fields,
    }
    return Observation(**values)  # type: ignore[arg-type]


def floor(uncached: int) -> float:
    return BASE + LINEAR * uncached


def rows(
    n: int = 200,
    *,
    seed: int = 1,
    delay: Ns = 30 * MS,
    idle: float = 0.4,
    start: int = 0,
    factor: float = 1.0,
    head: float | None = 1.0 * MS,
) -> list[Observation]:
    """`n` calls, a second apart, a share `idle` of them undelayed and the others delayed by
    `delay` on the average (exponentially); all scatter by 0.2 ms. factor: of the floor."""
    dice = Random(seed)
    found = []
    for at in range(start, start + n):
        uncached = round(min(4000.0, max(40.0, 400 * dice.lognormvariate(0, 0.8))))
        late = 0.0 if dice.random() < idle else dice.expovariate(1.0) * delay
        sent = factor * floor(uncached) + late + abs(dice.gauss(0, 0.2)) * MS + (head or 0.0)
        step = STEP + 0.01 * US * uncached + dice.random() * MS
        found.append(row(at, uncached, sent, head=head, step=step))
    return found
