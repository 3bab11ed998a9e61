"""What the attribution is known to get wrong: the smallest world of each, and which worlds it is
in. The grid and the drawn worlds stay clear of these; `test_findings` holds each one as a strict
xfail, so that whoever mends one is told to delete its row, and the grid covers it from then on.

`beyond` is another matter: worlds in which what docs/attribution.md assumes does not hold.
"""

from collections.abc import Callable
from dataclasses import dataclass

from latscope.units import US
from tests.worlds import truth
from tests.worlds.case import Case, Client, Path, Server, ns
from tests.worlds.world import World

ALLOWED_MS, UNPACED_MS = 25.0, 100.0
"""Delivery that the attribution grants a path without hops, and where no tokens came whose pace
could show lateness (docs/attribution.md)."""

ONE_WRITE = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """reason: what is wrong, in one sentence; smallest: a world that shows it; covers: whether a
    world is of its kind (every world that fails is; a few that are do not fail)."""

    name: str
    reason: str
    smallest: Case
    covers: Callable[[World], bool]


def shortcomings(world: World) -> list[str]:
    """The known shortcomings the world is subject to."""
    return [finding.name for finding in FINDINGS if finding.covers(world)]


def _reported(world: World) -> bool:
    return world.case.server.reports != "none" and truth.status(world) == "complete"


def _late_for_end(world: World) -> bool:
    if not truth.late_for_end(world):
        return False
    reading, answer = world.reading, world.answer
    last = reading.of(answer.terminal_end)
    together = truth.ended_itself(world) and reading.of(answer.last_end) == last is not None
    return _reported(world) or not together


def _late_for_first(world: World) -> bool:
    late = truth.late_for_first(world)
    return _reported(world) and late > truth.late_for_end(world)


def _stopped(world: World) -> bool:
    if truth.ended_itself(world) or not world.case.path.known:
        return False
    on_the_way = truth.way_back(world) + world.stamps.received - world.sending.written
    return on_the_way < ns(world.case.path.rtt)


def _held_then_paused(world: World) -> bool:
    return not _looks_direct(world.case.path) and _lateness_hidden(world)


def _hidden_and_late(world: World) -> bool:
    first = truth.to_first_token(world)
    if first is None or not world.case.server.hidden or not _reported(world):
        return False
    return truth.way_back(world) >= min(first["decode"], ns(ALLOWED_MS))


def _named_hidden(world: World) -> bool:
    server = world.case.server
    return 0 < server.hidden <= server.tools and world.case.api in ("responses", "messages")


def _unmeasured_trip(world: World) -> bool:
    path = world.case.path
    return _looks_direct(path) and not path.known and path.rtt + path.delivery > ALLOWED_MS


def _large_upload(world: World) -> bool:
    client, path, server = world.case.client, world.case.path, world.case.server
    if not _looks_direct(path) or (client.body is not None and client.body <= ONE_WRITE):
        return False
    unclaimed = min(ALLOWED_MS - client.late_stamp, client.upload)
    return unclaimed + path.there + path.delivery + server.tail > ALLOWED_MS + server.step


def _hidden_then_paused(world: World) -> bool:
    server = world.case.server
    return server.hidden == 1 and _reported(world) and 1 in dict(server.pauses)


def _large_refused(world: World) -> bool:
    client = world.case.client
    return truth.refused(world) and (client.body is None or client.body > ONE_WRITE)


def _stopped_unstamped(world: World) -> bool:
    """Stopped between the kernel's taking of the last request byte and the client's saying so."""
    stop = world.stop
    late = ns(world.case.client.late_stamp)
    return stop is not None and world.stamps.received < stop < world.sending.written + late


def _early_count(world: World) -> bool:
    if world.case.api != "messages" or not world.case.server.hidden:
        return False
    return truth.first_token(world) is not None and truth.status(world) != "complete"


def beyond(world: World) -> bool:
    """Whether a path that looks direct is later than is granted it: an upload that is not claimed
    and takes its time, nothing seen that could show it, or a first token whose lateness does not
    show because the tokens behind it paused."""
    if not _looks_direct(world.case.path):
        return False
    there = world.stamps.received - world.sending.written
    unseen = truth.first_token(world) is None
    late = truth.way_back(world) + there > ns(UNPACED_MS) - 100 * US
    return (unseen and late) or _slow_upload(world) or _lateness_hidden(world)


def _slow_upload(world: World) -> bool:
    """All of a body of one write is unclaimed, and up to 25 ms of a larger one."""
    client, path = world.case.client, world.case.path
    way = path.there + path.delivery + world.case.server.tail + (0.0 if path.known else path.rtt)
    if client.body is not None and client.body <= ONE_WRITE:
        return client.upload + way > ALLOWED_MS
    return bool(path.stalls) and client.late_stamp + 1 < ALLOWED_MS


def _lateness_hidden(world: World) -> bool:
    """The first token was late, alone or with one other, and what would have shown it, the tokens
    behind it, paused."""
    first, server = world.answer.first_end, world.case.server
    if first is None or not server.pauses:
        return False
    arrived = next(chunk.at for chunk in world.answer.chunks if chunk.stop >= first)
    shown = [token.at for token in world.tokens if token.kind != "hidden"]
    together = sum(at <= arrived for at in shown)
    silent = world.case.path.hop == "late" and not world.case.path.announced
    few = silent or together <= 2 * max(server.burst, server.interval)
    return few and arrived - shown[0] > ns(ALLOWED_MS)


def _looks_direct(path: Path) -> bool:
    return not path.far and (path.hop == "none" or not path.announced)


FINDINGS: tuple[Finding, ...] = (
    Finding(
        name="round trip of a stopped call",
        reason="a call its caller stopped while the server was at work has made half a round trip;"
        " a whole one is called network",
        smallest=Case(ending="cancelled", at=185.0, path=Path(rtt=40.0, delivery=0.0)),
        covers=_stopped,
    ),
    Finding(
        name="a tool's name hides a token",
        reason="a tool call's name, an event of its own, counts as one token shown, so one hidden"
        " token is not missed, and decode is no candidate before the first token",
        smallest=Case(api="responses", server=Server(hidden=1, tools=1, step=100.0)),
        covers=_named_hidden,
    ),
    Finding(
        name="end of a large upload",
        reason="of a large body's upload the last 25 ms are not claimed, and share the 25 ms that"
        " delivery may take: the two can be more network than its maximum",
        smallest=Case(
            server=Server(step=8.0, jitter=0.0),
            client=Client(upload=60.0, body=3_000_000),
            path=Path(delivery=24.0),
            seed=4,
        ),
        covers=_large_upload,
    ),
    Finding(
        name="a hidden token and a pause, times reported",
        reason="one token more counted than shown is taken for an end-of-text token or an ordinary"
        " step; a pause after the hidden token is not in decode's maximum before the first shown",
        smallest=Case(server=Server(hidden=1, reports="vllm", pauses=((1, 500.0),))),
        covers=_hidden_then_paused,
    ),
)
