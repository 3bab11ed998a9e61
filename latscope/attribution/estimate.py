"""Estimates laid on a partition: what of its unsplit pieces calibrated evidence gives to whom.

The pieces keep their candidates, so the hard bounds stay; only the estimate and its 90 % interval
become narrower.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from latscope.attribution.model import Piece, Provenance, Segment
from latscope.attribution.window import DELIVERED, GAP, LATE
from latscope.units import Ns, clamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Estimates of the time before the first token. prefill_ns with its 90 % interval; decode_ns:
    tokens never shown, with theirs; way_ns: what the way's jitter took; loose_ns: how much of it
    may have been delivery all the same. What is left is queue. prefill_ns is null where nothing
    tells it from queue."""

    prefill_ns: Ns | None
    prefill_low_ns: Ns = 0
    prefill_high_ns: Ns = 0
    decode_ns: Ns = 0
    decode_low_ns: Ns = 0
    way_ns: Ns = 0
    loose_ns: Ns = 0
    provenance: Provenance
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Order:
    """So much of the lead, latest first, for `segment`; `low` of it surely at 90 %."""

    segment: Segment
    ns: Ns
    low: Ns


def with_lead(pieces: Sequence[Piece], lead: Lead) -> tuple[Piece, ...]:
    """The partition with its lead given: hidden decode and then prefill as late as their candidates
    allow, queue before them. Pieces in which the reader was late stay unsplit."""
    slots = _slots(pieces, lead.loose_ns)
    orders = _orders(pieces, lead, sum(slot.piece.ns for slot in slots if slot.lead))
    told = lead.prefill_ns is not None
    among = tuple(o.segment for o in orders if o.segment != "network") if told else ()
    for order in orders:
        _give(slots, order, lead, among)
    parts = (part for slot in slots for part in (slot.piece, *slot.given))
    return tuple(_steady(part, lead) for part in parts if part.ns)


def _steady(piece: Piece, lead: Lead) -> Piece:
    """After the first token a stream was decoding, also while its last tokens were on their way,
    the reader was late for some, or a silence has no sign of anything else: so it counts where a
    profile is known."""
    loose = {DELIVERED, LATE, GAP}.intersection(piece.evidence)
    if lead.prefill_ns is None or not loose or piece.owner != "unattributed":
        return piece
    if not set(piece.candidates) <= {"decode", "network", "client"}:
        return piece
    low = max(0, piece.ns - lead.loose_ns) if DELIVERED in piece.evidence else 0
    return replace(piece, given="decode", low_ns=low, provenance=lead.provenance, would_split=())


@dataclass(slots=True)
class _Slot:
    """Mutable: a piece of the partition, what is left of it, and what of it was given. wide: its
    candidates all stay possible at 90 %."""

    piece: Piece
    lead: bool
    wide: bool
    given: list[Piece]


def _slots(pieces: Sequence[Piece], loose: Ns) -> list[_Slot]:
    """The pieces in order, the last stretch of the lead (its delivery) apart."""
    mine = [index for index, piece in enumerate(pieces) if _is_lead(piece)]
    slots = []
    for index, piece in enumerate(pieces):
        cut = min(loose, piece.ns) if mine and index == mine[-1] else 0
        lead = index in mine
        slots.append(_Slot(replace(piece, ns=piece.ns - cut), lead, wide=False, given=[]))
        slots.append(_Slot(replace(piece, ns=cut), lead, wide=True, given=[]))
    return slots


def _orders(pieces: Sequence[Piece], lead: Lead, room: Ns) -> list[_Order]:
    """What to give, latest first. Prefill that is sure already counts against the estimate."""
    orders = []
    way = min(lead.way_ns, lead.loose_ns)
    if way:
        orders.append(_Order("network", way, 0))
        room = max(0, room - way)
    # More hidden decode than there was time for is a step time that does not hold: nothing is told.
    decode = lead.decode_ns if lead.decode_ns <= room else 0
    if decode:
        orders.append(_Order("decode", decode, min(lead.decode_low_ns, decode)))
    if lead.prefill_ns is not None:
        sure = sum(piece.ns for piece in pieces if piece.sure and piece.owner == "prefill")
        rest = room - decode
        prefill = clamp(lead.prefill_ns - sure, 0, rest)
        orders.append(_Order("prefill", prefill, clamp(lead.prefill_low_ns - sure, 0, prefill)))
        high = clamp(lead.prefill_high_ns - sure, prefill, rest)
        orders.append(_Order("queue", rest - prefill, rest - high))
    return orders


def _is_lead(piece: Piece) -> bool:
    if piece.sure or "client" in piece.candidates:
        return False
    return "queue" in piece.candidates or "prefill" in piece.candidates


def _give(slots: list[_Slot], order: _Order, lead: Lead, among: tuple[Segment, ...]) -> None:
    left, low = order.ns, order.low
    for slot in reversed(slots):
        if not slot.lead or order.segment not in slot.piece.candidates:
            continue
        if order.segment == "network" and not slot.wide:
            continue
        take = min(left, slot.piece.ns)
        mine = 0 if slot.wide else min(low, take)
        given = replace(
            slot.piece,
            ns=take,
            given=order.segment,
            low_ns=mine,
            among=() if slot.wide else tuple(n for n in among if n in slot.piece.candidates),
            provenance=lead.provenance,
            evidence=lead.evidence,
            would_split=(),
        )
        slot.piece = replace(slot.piece, ns=slot.piece.ns - take)
        slot.given.insert(0, given)
        left, low = left - take, low - mine
