"""The truth of a world: who owned each nanosecond, to the end and to the first token.

The words are those of `latscope.sim.truth` and of docs/lab.md; where that looks at stamps, this
looks at the world itself, so it also knows what no stamp can tell: when bytes reached the client's
kernel, and so how much of the wait was the consumer's. A boundary belongs to what ends there.

    client    zero -> the first transport event of the answered attempt
    network   -> the server has the whole request
    queue     -> the engine takes the call up
    prefill   -> the first token exists, hidden or not
    decode    -> the last token exists (to the first token: the first *sent* one); where the call
                 ends while the server still generates, to that end
    network   -> the last byte that matters is in the client's kernel
    client    -> the read that brings it, where the consumer kept it waiting

A failed attempt from its first transport event to its last stamp is queue when the server answered
and network when it did not; the sleep after it queue up to Retry-After and client beyond. Where the
last attempt is such a refusal, its exchange is queue too, from its headers being written on.
"""

from collections.abc import Iterator
from typing import TypeAlias

from latscope.attribution.model import Segment
from latscope.units import Ns, ns_from_s
from tests.worlds.world import World

Shares: TypeAlias = dict[Segment, Ns]
Until: TypeAlias = tuple[Segment, Ns]

REFUSED = frozenset({408, 409, 429, 500, 503, 529})

OWNERS: tuple[Segment, ...] = ("queue", "prefill", "decode", "network", "client")


def segments(world: World) -> Shares:
    """The partition of the wall time."""
    end = wall(world)
    return _partition(world, _last_token(world), _arrived(world, end), end)


def to_first_token(world: World) -> Shares | None:
    """The partition of the time to first token; null when the client never read one."""
    first = first_token(world)
    if first is None:
        return None
    shown = next(token.at for token in world.tokens if token.kind != "hidden")
    return _partition(world, shown, first - _late(world, world.answer.first_end), first)


def wall(world: World) -> Ns:
    """Zero to the end: the read that completes the terminal event or the body, else the end of
    the body, else the caller's stop."""
    if not ended_itself(world):
        assert world.stop is not None
        return world.stop
    return _own_end(world)


def ended_itself(world: World) -> bool:
    """Whether the call came to its own end before its caller stopped it."""
    return world.stop is None or _own_end(world) <= world.stop


def first_byte(world: World) -> Ns | None:
    return _read_at(world, 1)


def first_token(world: World) -> Ns | None:
    """When the client read the first token of any channel."""
    return _read_at(world, world.answer.first_end)


def first_visible(world: World) -> Ns | None:
    return _read_at(world, world.answer.visible_end)


def status(world: World) -> str:
    """How the call ended (design: Shapes): finish reason read is complete, whoever stops then."""
    ending = world.case.ending
    finish = world.answer.finish_end
    if finish is not None and _read_at(world, finish) is not None:
        return "complete"
    if not ended_itself(world):
        return "cancelled" if ending == "cancelled" else "error"
    if ending == "cut":
        return "error" if world.answer.head is None else "cut"
    return "error" if ending in ("error", "refused") else "complete"


def refused(world: World) -> bool:
    """Whether the server asked to be left alone, or failed: then the exchange is queue."""
    return world.case.ending == "refused" and world.case.status in REFUSED


def way_back(world: World) -> Ns:
    """How long the call was on its way back when it ended: none while the server was at work."""
    end = wall(world)
    return end - min(end, _served(world, _last_token(world))[-1][1])


def late_for_end(world: World) -> Ns:
    """How long the consumer kept the end of the call waiting."""
    end = wall(world)
    return end - _arrived(world, end)


def late_for_first(world: World) -> Ns:
    """The same for the first token; 0 when it was never read."""
    return 0 if first_token(world) is None else _late(world, world.answer.first_end)


def _last_token(world: World) -> Ns | None:
    return world.stamps.tokens[-1] if world.stamps.tokens else None


def _own_end(world: World) -> Ns:
    last = world.reading.of(world.answer.terminal_end)
    return world.reading.ended if last is None else world.reading.reads[last].got_ns


def _read_at(world: World, offset: int | None) -> Ns | None:
    """When the byte before `offset` was read; null when the call ended first."""
    index = world.reading.of(offset)
    if index is None:
        return None
    at = world.reading.reads[index].got_ns
    return at if at <= wall(world) else None


def _arrived(world: World, end: Ns) -> Ns:
    """When all that the end waited for was at the client."""
    terminal = world.answer.terminal_end
    if ended_itself(world) and terminal is not None:
        return end - _late(world, terminal)
    return min(end, world.answer.eof) if world.reading.paused else end


def _late(world: World, offset: int | None) -> Ns:
    """How long the byte before `offset` lay there while the consumer paused."""
    index = world.reading.of(offset)
    if index is None or offset is None or not world.reading.paused:
        return 0
    arrived = next(chunk.at for chunk in world.answer.chunks if chunk.stop >= offset)
    return max(0, world.reading.reads[index].asked_ns - arrived)


def _partition(world: World, decoded: Ns | None, arrived: Ns, end: Ns) -> Shares:
    """decoded: when the decoding ended that counts; null when no token ever existed."""
    stages = [*_before(world), *_served(world, decoded)]
    if refused(world):
        stages.append(("queue", end))
    else:
        stages += [("network", max(arrived, stages[-1][1])), ("client", end)]
    shares: Shares = dict.fromkeys(OWNERS, 0)
    at = 0
    for owner, until in stages:
        until = min(until, end)
        assert until >= at, f"{owner} would end before it starts"
        shares[owner] += until - at
        at = until
    assert at == end
    return shares


def _before(world: World) -> Iterator[Until]:
    for tried in world.tries:
        failed = tried.failed
        yield ("client", tried.transport)
        yield ("network" if failed.status is None else "queue", tried.last)
        wish = 0.0 if failed.status is None else failed.retry_after or 0.0
        asked = tried.last + ns_from_s(wish)
        yield ("queue", min(asked, tried.resumed))
        yield ("client", tried.resumed)


def _served(world: World, decoded: Ns | None) -> list[Until]:
    """Up to the last token that counts. Of a call the engine never came so far with, up to when
    the server was done with it."""
    stamps = world.stamps
    stages: list[Until] = [("client", world.sending.transport)]
    if refused(world):
        return [*stages, ("network", world.sending.headers)]
    stages.append(("network", stamps.received))
    if stamps.scheduled is None:
        return [*stages, ("queue", world.left)]
    stages.append(("queue", stamps.scheduled))
    if decoded is None:
        return [*stages, ("prefill", world.left)]
    return [*stages, ("prefill", stamps.tokens[0]), ("decode", decoded)]
