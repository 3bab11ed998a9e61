"""Real vLLM's cells: two seats, so many callers; the truth from stamps in its front end and engine.

The recordings are stripped of the server's own figures, so a profile has to do without them. The
levels take turns, as an application's hours do, and the history is of all of them together; calls
of one level are scored apart.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from latscope.errors import InputError
from latscope.recording import Recording, SegmentTruth, Truth
from tests.engines.stamps.calls import Call, Made, drawn, make
from tests.engines.stamps.judge import without_figures
from tests.engines.stamps.serve import stamped_vllm
from tests.engines.stamps.truth import Ranges, Seen, join, known

LEVELS = (1, 2, 4)
ROUNDS, CALLS = 6, 20
"""How often each level has its turn, and with how many calls; every other one is history."""

RealCell = tuple[str, list[Recording], list[Recording]]


def real_cells(seed: int) -> Iterator[RealCell]:
    """Name, history, scored calls; those whose two accounts contradict each other left out."""
    made: dict[int, list[Made]] = {level: [] for level in LEVELS}
    with (
        tempfile.TemporaryDirectory(prefix="latscope-scores-") as folder,
        stamped_vllm(Path(folder)) as server,
    ):
        asyncio.run(make(server, _calls(4, 1, 0), 1))
        for turn, level in product(range(ROUNDS), LEVELS):
            calls = _calls(CALLS, level, seed + 10 * turn + level)
            made[level] += asyncio.run(make(server, calls, level))
        pairs = {level: join(Path(folder), found) for level, found in made.items()}
    recordings = {level: list(_told(found)) for level, found in pairs.items()}
    history = [one for found in recordings.values() for one in found[::2]]
    for level, found in recordings.items():
        yield f"vLLM on CPU, {level} at a time", history, found[1::2]


def _calls(count: int, level: int, seed: int) -> list[Call]:
    """All of them streamed chats with usage: what a floor can be learnt from."""
    return [
        replace(call, api="chat", stream=True, usage=True, max_tokens=max(8, call.max_tokens))
        for call in drawn(count, level, seed)
    ]


def _told(pairs: Sequence[tuple[Made, Seen]]) -> Iterator[Recording]:
    for made, seen in pairs:
        try:
            shares = known(made, seen)
        except InputError:
            continue
        if shares.ttft is not None:
            truth = Truth(
                segments=_middles(shares.wall),
                ttft=_middles(shares.ttft),
                source="stamps in vLLM's front end and scheduler",
            )
            yield replace(without_figures(made.recording), truth=truth)


def _middles(ranges: Ranges) -> tuple[SegmentTruth, ...]:
    """A true share is known to a tenth of a millisecond: its middle is close enough here."""
    return tuple(
        SegmentTruth(name=name, ns=(low + high) // 2) for name, (low, high) in ranges.items()
    )
