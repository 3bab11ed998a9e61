"""The laws an attribution keeps, as checks that tests call after every step.

1. Pieces are non-negative integers that add up to the wall time exactly; so do the segments, and
   their ttft_ns to the time to first token.
2. min <= low <= ns <= high <= max for every segment and part.
3. Every segment with time names its provenance and its evidence.
"""

from collections.abc import Sequence

from latscope.attribution.model import SEGMENTS, Attribution, Piece, SegmentShare
from latscope.units import Ns


class LawBroken(AssertionError):
    """A law of the attribution does not hold; the message says which, with its figures."""


def check_partition(pieces: Sequence[Piece], total: Ns) -> None:
    """Law 1 for one partition."""
    for piece in pieces:
        if type(piece.ns) is not int or piece.ns < 0:
            raise LawBroken(f"a piece of {piece.ns} ns: {piece}")
        if not piece.candidates or len(set(piece.candidates)) != len(piece.candidates):
            raise LawBroken(f"a piece of nobody, or of one twice: {piece}")
        if not piece.evidence:
            raise LawBroken(f"a piece without evidence: {piece}")
    found = sum(piece.ns for piece in pieces)
    if found != total:
        raise LawBroken(f"pieces add up to {found} ns, the whole is {total} ns ({found - total:+})")


def check_laws(attribution: Attribution) -> None:
    """Laws 1 to 3 for a whole attribution; raises LawBroken."""
    names = tuple(share.name for share in attribution.segments)
    if names != SEGMENTS:
        raise LawBroken(f"segments are {names}")
    check_partition(attribution.pieces, attribution.wall_ns)
    total = sum(share.ns for share in attribution.segments)
    if total != attribution.wall_ns:
        raise LawBroken(f"segments add up to {total} ns, wall is {attribution.wall_ns} ns")
    _check_ttft(attribution)
    for share in attribution.segments:
        _check_share(share)


def _check_ttft(attribution: Attribution) -> None:
    first, pieces = attribution.first_token_ns, attribution.ttft_pieces
    if (first is None) != (pieces is None):
        raise LawBroken("a first token without its partition, or the reverse")
    if first is None or pieces is None:
        if any(share.ttft_ns is not None for share in attribution.segments):
            raise LawBroken("ttft_ns without a first token")
        return
    check_partition(pieces, first)
    total = sum(share.ttft_ns or 0 for share in attribution.segments)
    if total != first:
        raise LawBroken(f"ttft_ns add up to {total} ns, first token came at {first} ns")


def _check_share(share: SegmentShare) -> None:
    low, high = share.bounds_ns
    if not low <= share.low_ns <= share.ns <= share.high_ns <= high:
        raise LawBroken(f"{share.name}: {low} <= {share.low_ns} <= {share.ns} <= {high} fails")
    if share.ns and not share.evidence:
        raise LawBroken(f"{share.name}: {share.ns} ns without evidence")
    for part in share.parts:
        if not part.bounds_ns[0] <= part.ns <= part.bounds_ns[1]:
            raise LawBroken(f"{share.name}.{part.name}: {part.ns} outside {part.bounds_ns}")
    if sum(part.ns for part in share.parts) > share.ns:
        raise LawBroken(f"{share.name}: its parts are more than itself")
