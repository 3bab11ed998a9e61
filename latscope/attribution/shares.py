"""Pieces to segments: what is each one's own, what might be, and who dominates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

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


class Sums(NamedTuple):
    """A partition's time by segment. ns: the estimate; others: what counts elsewhere, or nowhere,
    and may be the segment's own; bounds: hard minimum (its own pieces) and maximum (every piece
    that lists it)."""

    ns: dict[Segment, Ns]
    others: dict[Segment, Ns]
    bounds: dict[Segment, tuple[Ns, Ns]]


def sums(pieces: Sequence[Piece]) -> Sums:
    """What the pieces add up to, from one look at each. A given piece is given to one of its
    candidates."""
    ns: dict[Segment, Ns] = dict.fromkeys(SEGMENTS, 0)
    least, others = ns.copy(), ns.copy()
    for piece in pieces:
        owner, took = piece.owner, piece.ns
        ns[owner] += took
        if piece.sure:
            least[owner] += took
            continue
        for name in piece.candidates:
            if name != owner:
                others[name] += took
    return Sums(ns, others, {name: (least[name], ns[name] + others[name]) for name in SEGMENTS})


def bounds(pieces: Sequence[Piece], segment: Segment) -> tuple[Ns, Ns]:
    """Hard minimum and maximum of one segment."""
    return sums(pieces).bounds[segment]


def calibrated(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """The pieces as the 90 % intervals have them: of a given piece so much is its owner's alone,
    the rest is anyone's among whom the evidence could not tell. Without given pieces, the same."""
    if all(piece.given is None for piece in pieces):  # nearly every call
        return pieces
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


def _share(
    mine: Sequence[Piece],
    own: Sums,
    loose: Sums,
    ttft: tuple[Ns, Ns, Ns] | tuple[None, None, None],
    segment: Segment,
    mode: Mode,
) -> SegmentShare:
    """mine: the pieces that count for the segment; own, loose: the sums of all pieces, and of those
    `calibrated` makes of them; ttft: the segment's estimate of that window."""
    parts = _parts(mine, own.others[segment]) if mine else ()
    row = owner_of(segment, mode, max(parts, key=_ns).name if parts else "")
    ns, low, high = _estimate(own, loose, segment)
    return SegmentShare(
        name=segment,
        ns=ns,
        ttft_ns=ttft[0],
        ttft_low_ns=ttft[1],
        ttft_high_ns=ttft[2],
        low_ns=low,
        high_ns=high,
        bounds_ns=own.bounds[segment],
        provenance=_weakest(mine) if mine else "bound",
        evidence=tuple(dict.fromkeys([why for piece in mine for why in piece.evidence])),
        parts=parts,
        owner=row.of(mode),
        lever=row.lever,
    )


_ns = attrgetter("ns")


def _estimate(own: Sums, loose: Sums, segment: Segment) -> tuple[Ns, Ns, Ns]:
    """A segment's time in a partition, and its 90 % interval (the hard bounds where nothing is
    calibrated)."""
    ns = own.ns[segment]
    if segment == "unattributed":
        return ns, 0, ns
    low, high = loose.bounds[segment]
    return ns, min(low, ns), max(high, ns)


def _both(pieces: Sequence[Piece]) -> tuple[Sums, Sums]:
    """The sums of the pieces, and of what `calibrated` makes of them."""
    own, loose = sums(pieces), calibrated(pieces)
    return own, own if loose is pieces else sums(loose)


def segment_shares(
    pieces: Sequence[Piece], to_first: Sequence[Piece] | None, mode: Mode
) -> tuple[SegmentShare, ...]:
    """The six segments, in order; their ns add up to the pieces' exactly."""
    own, loose = _both(pieces)
    first = None if to_first is None else _both(to_first)
    mine: dict[Segment, list[Piece]] = {segment: [] for segment in SEGMENTS}
    for piece in pieces:
        mine[piece.owner].append(piece)
    return tuple(
        [
            _share(
                mine[segment],
                own,
                loose,
                (None, None, None) if first is None else _estimate(*first, segment),
                segment,
                mode,
            )
            for segment in SEGMENTS
        ]
    )


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
    within = calibrated(pieces)
    bounds = sums(within).bounds
    whole = sum([piece.ns for piece in within])
    surest = max([bounds[name][0] for name in OWNERS])
    able = []
    for segment in OWNERS:
        high = bounds[segment][1]
        # More than all the others can have together, or less than one of them surely has: most
        # segments of most calls are told by that.
        if high > 0 and (
            2 * high >= whole or (high >= surest and _can_lead(within, segment, high))
        ):
            able.append(segment)
    return (able[0] if len(able) == 1 else None), tuple(able)


_BIT: Mapping[Segment, int] = {name: 1 << place for place, name in enumerate(OWNERS)}
_ALL = (1 << len(OWNERS)) - 1


def _can_lead(pieces: Sequence[Piece], segment: Segment, high: Ns) -> bool:
    """Whether some sharing-out of the unsplit pieces makes `segment` the largest. high: all it may
    have.

    Give it that; the rest must then fit under it. By Hall's theorem it fits if and only if, for
    every set of others (a bit for each), what only they can own is at most its share times their
    number.
    """
    rest = [
        (sum([_BIT[name] for name in piece.candidates]), piece.ns)
        for piece in pieces
        if segment not in piece.candidates
    ]
    return all(
        sum([ns for owners, ns in rest if not owners & ~group]) <= group.bit_count() * high
        for group in range(1, _ALL)
        if not group & _BIT[segment]
    )


def _parts(mine: Sequence[Piece], open_ns: Ns) -> tuple[PartShare, ...]:
    """Named shares; a part whose length is stated or measured is known, others may be wider by what
    else the segment may own (open_ns)."""
    found = []
    for name in dict.fromkeys([piece.part for piece in mine if piece.part]):
        own = [piece for piece in mine if piece.part == name]
        ns = sum([piece.ns for piece in own])
        provenance = _weakest(own)
        least = sum([piece.ns for piece in own if piece.sure])
        exact = provenance in ("measured", "reported") and all(piece.sure for piece in own)
        high = ns if exact else ns + open_ns
        found.append(PartShare(name=name, ns=ns, bounds_ns=(least, high), provenance=provenance))
    return tuple(found)


_RANK: Mapping[Provenance, int] = {name: rank for rank, name in enumerate(PROVENANCES)}


def _weakest(pieces: Sequence[Piece]) -> Provenance:
    return max([piece.provenance for piece in pieces], key=_RANK.__getitem__)
