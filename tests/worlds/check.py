"""What must hold for a world: one function, called for every one of them."""

from collections.abc import Iterator

from latscope.attribution import Attribution, Piece, attribute, check_laws
from latscope.units import MS, US, Ns
from tests.worlds import truth
from tests.worlds.case import Case
from tests.worlds.record import recording
from tests.worlds.world import World, build

ROUNDING: Ns = 2 * US
"""Reported figures are floats of milliseconds, llama.cpp's whole microseconds."""


def attributed(world: World) -> Attribution:
    found = attribute(recording(world))
    check_laws(found)
    return found


def broken(case: Case) -> list[str]:
    """Every fact of the world that its attribution gets wrong, in words; empty when none."""
    world = build(case)
    return complaints(world, attributed(world))


def complaints(world: World, found: Attribution) -> list[str]:
    return [*_verdict(world, found), *_times(world, found), *_shares(world, found)]


def _verdict(world: World, found: Attribution) -> Iterator[str]:
    expected = truth.status(world)
    if found.status != expected:
        yield f"status {found.status}, was {expected}"
    if (found.error is None) == (expected in ("error", "cut")):
        yield f"error {found.error} with status {found.status}"


def _times(world: World, found: Attribution) -> Iterator[str]:
    exact = {
        "wall": (found.wall_ns, truth.wall(world)),
        "first byte": (found.first_byte_ns, truth.first_byte(world)),
    }
    if world.case.stream and world.case.ending != "refused":
        exact["first token"] = (found.first_token_ns, truth.first_token(world))
        exact["first visible"] = (found.first_visible_token_ns, truth.first_visible(world))
    else:
        exact["first token"] = (found.first_token_ns, None)
    for name, (said, was) in exact.items():
        if said != was:
            yield f"{name} at {said}, was at {was}"


def _shares(world: World, found: Attribution) -> Iterator[str]:
    whole = truth.segments(world)
    if found.wall_ns == sum(whole.values()):
        yield from outside(found.pieces, whole, "wall")
        yield from _dominant(whole, found)
    first = truth.to_first_token(world)
    if first is not None and found.ttft_pieces is not None:
        yield from outside(found.ttft_pieces, first, "ttft")


def outside(
    pieces: tuple[Piece, ...], shares: truth.Shares, which: str, slack: Ns = ROUNDING
) -> Iterator[str]:
    """The segments whose true share lies outside their hard bounds by more than `slack`."""
    for name, was in shares.items():
        least = sum(piece.ns for piece in pieces if piece.sure and piece.owner == name)
        most = sum(piece.ns for piece in pieces if name in piece.candidates)
        if not least - slack <= was <= most + slack:
            yield f"{which} {name} was {was / MS:.3f} ms, not in {least / MS:.3f}..{most / MS:.3f}"


def _dominant(whole: truth.Shares, found: Attribution) -> Iterator[str]:
    """When one wins by more than the stamps may be off, it is named or nobody is."""
    ranked = sorted(whole, key=lambda name: whole[name])
    if whole[ranked[-1]] - whole[ranked[-2]] <= found.instrument.bound_ns:
        return
    if found.dominant not in (None, ranked[-1]):
        yield f"{found.dominant} is named, {ranked[-1]} was it"
    if ranked[-1] not in found.dominant_candidates:
        yield f"{ranked[-1]} was it and is no candidate"
