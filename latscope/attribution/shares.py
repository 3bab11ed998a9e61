"""Pieces to segments: what is each one's own, what might be, and who dominates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from latscope.attribution.model import (
    OWNERS,
    PROVENANCES,
    SEGMENTS,
    Mode,
    PartShare,
    Piece,
    Provenance,
    Segment,
    SegmentShare,
    Unsplit,
)
from latscope.attribution.owners import owner_of
from latscope.units import Ns


def bounds(pieces: Sequence[Piece], segment: Segment) -> tuple[Ns, Ns]:
    """Hard minimum (its own pieces) and maximum (every piece that lists it)."""
    if segment == "unattributed":
        return 0, sum(piece.ns for piece in pieces if piece.owner == "unattributed")
    mine = [piece for piece in pieces if segment in piece.candidates]
    least = sum([piece.ns for piece in mine if piece.sure and piece.owner == segment])
    return least, sum([piece.ns for piece in mine])


def calibrated(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces as the 90 % intervals have them: of a given piece so much is its owner's alone,
    the rest is anyone's among whom the evidence could not tell. Without given pieces, the same."""
    found: list[Piece] = []
    for piece in pieces:
        if piece.given is None:
            found.append(piece)
            continue
        low = min(piece.low_ns, piece.ns)
        loose = piece.among or piece.candidates
        found.append(replace(piece, ns=low, candidates=(piece.given,), given=None))
        found.append(replace(piece, ns=piece.ns - low, candidates=loose, given=None))
    return found


def share(
    pieces: Sequence[Piece],
    loose: Sequence[Piece],
    ttft: tuple[Ns, Ns, Ns] | None,
    segment: Segment,
    mode: Mode,
) -> SegmentShare:
    """loose: the pieces as `calibrated` has them; ttft: the segment's estimate of that window."""
    mine = [piece for piece in pieces if piece.owner == segment]
    low, high = bounds(pieces, segment)
    parts = _parts(pieces, mine, segment)
    main = max(parts, key=lambda part: part.ns).name if parts else ""
    row = owner_of(segment, mode, main)
    ns, *interval = _estimate(pieces, loose, segment)
    return SegmentShare(
        name=segment,
        ns=ns,
        ttft_ns=None if ttft is None else ttft[0],
        ttft_low_ns=None if ttft is None else ttft[1],
        ttft_high_ns=None if ttft is None else ttft[2],
        low_ns=interval[0],
        high_ns=interval[1],
        bounds_ns=(low, high),
        provenance=_weakest(piece.provenance for piece in mine),
        evidence=tuple(dict.fromkeys(why for piece in mine for why in piece.evidence)),
        parts=parts,
        owner=row.of(mode),
        lever=row.lever,
    )


def _estimate(
    pieces: Sequence[Piece], loose: Sequence[Piece], segment: Segment
) -> tuple[Ns, Ns, Ns]:
    """A segment's time in a partition, and its 90 % interval (the hard bounds where nothing is
    calibrated)."""
    ns = sum([piece.ns for piece in pieces if piece.owner == segment])
    if segment == "unattributed":
        return ns, 0, ns
    low, high = bounds(loose, segment)
    return ns, min(low, ns), max(high, ns)


def segment_shares(
    pieces: Sequence[Piece], to_first: Sequence[Piece] | None, mode: Mode
) -> tuple[SegmentShare, ...]:
    """The six segments, in order; their ns add up to the pieces' exactly."""
    loose, first, window = calibrated(pieces), to_first or (), calibrated(to_first or ())
    found = []
    for segment in SEGMENTS:
        ttft = None if to_first is None else _estimate(first, window, segment)
        found.append(share(pieces, loose, ttft, segment, mode))
    return tuple(found)


def unsplit_pieces(pieces: Sequence[Piece]) -> tuple[Unsplit, ...]:
    """Pieces with several candidates, those of one set together, the largest first."""
    found: dict[tuple[Segment, ...], Unsplit] = {}
    for piece in pieces:
        if piece.owner != "unattributed":
            continue
        before = found.get(piece.candidates)
        splits = piece.would_split if before is None else before.would_split + piece.would_split
        found[piece.candidates] = Unsplit(
            candidates=piece.candidates,
            ns=piece.ns + (before.ns if before else 0),
            at_ns=piece.at_ns if before is None or before.at_ns is None else before.at_ns,
            would_split=tuple(dict.fromkeys(splits)),
        )
    return tuple(sorted(found.values(), key=lambda entry: -entry.ns))


def dominant(pieces: Sequence[Piece]) -> tuple[Segment | None, tuple[Segment, ...]]:
    """The segment that is the largest however the unsplit pieces fall within what is calibrated, or
    null; and all that could be the largest."""
    within = _within(calibrated(pieces))
    able = tuple(segment for segment in OWNERS if _can_lead(within, segment))
    return (able[0] if len(able) == 1 else None), able


_BIT: Mapping[str, int] = {name: 1 << place for place, name in enumerate(OWNERS)}
_ALL = (1 << len(OWNERS)) - 1


def _within(pieces: Sequence[Piece]) -> list[Ns]:
    """By each set of owners (a bit for each): the time of which no other can own any."""
    found = [0] * (_ALL + 1)
    for piece in pieces:
        found[sum([_BIT[name] for name in set(piece.candidates)])] += piece.ns
    for bit in _BIT.values():  # a sum over subsets, one owner after the other
        for group in range(_ALL + 1):
            if group & bit:
                found[group] += found[group ^ bit]
    return found


def _can_lead(within: Sequence[Ns], segment: Segment) -> bool:
    """Whether some sharing-out of the unsplit pieces makes `segment` the largest.

    Give it all it may have; the rest must then fit under it. By Hall's theorem it fits if and only
    if, for every set of others, what only they can own is at most its share times their number.
    """
    others = _ALL ^ _BIT[segment]
    high = within[_ALL] - within[others]
    fits = all(
        within[group] <= group.bit_count() * high
        for group in range(1, _ALL)
        if not group & _BIT[segment]
    )
    return fits and high > 0


def _parts(
    pieces: Sequence[Piece], mine: Sequence[Piece], segment: Segment
) -> tuple[PartShare, ...]:
    """Named shares; a part whose length is stated or measured is known, others may be wider."""
    open_ns = sum(p.ns for p in pieces if segment in p.candidates and p.owner != segment)
    found = []
    for name in dict.fromkeys(piece.part for piece in mine if piece.part):
        own = [piece for piece in mine if piece.part == name]
        ns = sum(piece.ns for piece in own)
        provenance = _weakest(piece.provenance for piece in own)
        exact = provenance in ("measured", "reported") and all(piece.sure for piece in own)
        least = sum(piece.ns for piece in own if piece.sure)
        high = ns if exact else ns + open_ns
        found.append(PartShare(name=name, ns=ns, bounds_ns=(least, high), provenance=provenance))
    return tuple(found)


def _weakest(provenances: Iterable[Provenance]) -> Provenance:
    ranks = [PROVENANCES.index(item) for item in provenances]
    return PROVENANCES[max(ranks)] if ranks else "bound"
