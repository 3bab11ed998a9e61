"""Attributions of stamped calls against their truth: bounds, their width, and the winner.

Every recording is judged as it is and, where the server stated its figures, once more without
them. Three kinds of evidence, never pooled: `reported` (the figures were there), `blind` (usage,
no figures), `bare` (a stream that was not asked for usage either).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from latscope.attribution import Attribution, Piece, attribute, check_laws
from latscope.attribution.model import OWNERS
from latscope.attribution.shares import bounds
from latscope.recording import Recording
from latscope.units import US, Ns
from tests.engines.stamps.calls import Made
from tests.engines.stamps.truth import Known, Range, Ranges, stated

Mode: TypeAlias = Literal["reported", "blind", "bare"]
Winner: TypeAlias = Literal["right", "null", "wrong"]

ROUNDING: Ns = 2 * US
"""Figures are floats of milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A true share outside its hard bounds. of: `wall` or `ttft`."""

    of: str
    segment: str
    true: Range
    bounds: Range

    @property
    def by_ns(self) -> Ns:
        """How far outside."""
        return max(self.true[0] - self.bounds[1], self.bounds[0] - self.true[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One attribution of one call. widths: of the bounds of each segment, as shares of the whole
    they are a part of, by (wall or ttft, segment)."""

    made: Made
    known: Known
    mode: Mode
    found: Attribution
    misses: tuple[Miss, ...]
    widths: dict[tuple[str, str], float]
    winner: Winner

    def missed(self, of: str) -> bool:
        return any(miss.of == of for miss in self.misses)


def judged(made: Made, known: Known) -> Iterator[Judged]:
    """The recording as it is, and blind when that is something else."""
    if stated(made.recording):
        yield _judge(made, known, "reported", made.recording)
        yield _judge(made, known, "blind", without_figures(made.recording))
    else:
        yield _judge(made, known, "blind" if made.call.usage else "bare", made.recording)


def without_figures(recording: Recording) -> Recording:
    """The same bytes at the same times, from a server that was not asked for its figures."""
    attempts = [
        replace(attempt, body=(attempt.body or b"").replace(b'"metrics":', b'"unasked":'))
        for attempt in recording.attempts
    ]
    blind = replace(recording, attempts=tuple(attempts))
    assert blind.attempts != recording.attempts
    return blind


def _judge(made: Made, known: Known, mode: Mode, recording: Recording) -> Judged:
    found = attribute(recording)
    check_laws(found)
    assert any(share.provenance == "reported" for share in found.segments) is (mode == "reported")
    parts = list(_parts(known, found))
    return Judged(
        made=made,
        known=known,
        mode=mode,
        found=found,
        misses=tuple(miss for of, pieces, true in parts for miss in _misses(of, pieces, true)),
        widths={
            (of, name): _width(bounds(pieces, name), sum(piece.ns for piece in pieces))
            for of, pieces, _ in parts
            for name in OWNERS
        },
        winner=_winner(known, found),
    )


def _parts(known: Known, found: Attribution) -> Iterator[tuple[str, Sequence[Piece], Ranges]]:
    yield "wall", found.pieces, known.wall
    assert (known.ttft is None) == (found.ttft_pieces is None)
    if known.ttft is not None and found.ttft_pieces is not None:
        yield "ttft", found.ttft_pieces, known.ttft


def _misses(of: str, pieces: Sequence[Piece], true: Ranges) -> Iterator[Miss]:
    for name in OWNERS:
        least, most = bounds(pieces, name)
        low, high = true[name]
        if high < least - ROUNDING or low > most + ROUNDING:
            yield Miss(of=of, segment=name, true=true[name], bounds=(least, most))


def _width(within: Range, whole: Ns) -> float:
    return (within[1] - within[0]) / whole


def _winner(known: Known, found: Attribution) -> Winner:
    if found.dominant is None:
        return "null"
    true = max(OWNERS, key=lambda name: known.wall[name][0])
    return "right" if found.dominant == true else "wrong"
