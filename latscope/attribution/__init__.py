"""Where a call's time went: `attribute` cuts it into pieces, the six segments follow from them."""

from latscope.attribution.attribute import attribute
from latscope.attribution.laws import LawBroken, check_laws, check_partition
from latscope.attribution.model import Attribution, Piece, SegmentShare

__all__ = [
    "Attribution",
    "LawBroken",
    "Piece",
    "SegmentShare",
    "attribute",
    "check_laws",
    "check_partition",
]
