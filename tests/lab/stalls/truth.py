"""Every stall a call truly had, from the stamps of all who took part; and which of them was found.

Of each token is known when it existed, was sent, left the path with every byte before it, and was
read: so of its lateness (against the call's quickest tokens) each of them has a measured share. A
run of late tokens is one stall, and another one where the lateness grows: it lasts from when its
first token was due at the client, or the one before it was read, to when it was read itself; its
kind is whose share of that token's lateness is largest. Of a pause the schedule is the stamp. What
a busy machine did to path, server or client counts as what it was, and `by_plan` says that nobody
asked for it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from latscope.recording import Recording
from latscope.units import MS, Ns, S
from tests.lab.stalls.plans import Plan
from tests.lab.truth import since_zero, token_reads

LATE: Ns = 10 * MS
"""Less is the ordinary way of a token on a shared machine."""
COUNTS: Ns = 30 * MS
"""A stall shorter than this need not be found."""
ALSO = 0.4
"""Whose share is so large is a cause as well: a busy machine stops several processes at once."""
Stretch = tuple[Ns, Ns]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamps:
    """Of one call, on its own axis: when each event existed, was sent, came out of the path with
    all before it, and was read; when the hop kept what came; when the path lost a segment."""

    exists: list[Ns]
    sent: list[Ns]
    out: list[Ns]
    got: list[Ns]
    kept: list[Stretch]
    drops: list[Ns]

    @property
    def whole(self) -> bool:
        """Whether the path's log has every token."""
        return len(self.out) == len(self.sent) == len(self.got)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A stall that was. also: other kinds with a large share of it. until_ns: when the stream was
    on time again."""

    kind: str
    also: tuple[str, ...] = ()
    at_ns: Ns
    end_ns: Ns
    until_ns: Ns
    by_plan: bool

    @property
    def ns(self) -> Ns:
        """How late it made the first token behind it."""
        return self.end_ns - self.at_ns

    @property
    def counts(self) -> bool:
        """Whether it must be found."""
        return self.ns >= COUNTS


def stamps_of(
    plan: Plan,
    recording: Recording,
    server: dict[str, Any],
    keeper: dict[str, Any] | None,
    log: Sequence[dict[str, Any]],
) -> Stamps:
    """Lay everything on the call's axis."""

    def here(stamps: Iterable[Ns]) -> list[Ns]:
        return [since_zero(recording, ns) for ns in stamps]

    last = recording.last_ns
    rows = [row for row in log if 0 <= since_zero(recording, row["at_ns"]) <= last]
    segments = _answer([r for r in rows if r["what"] == "data" and r["source"] == plan.port])
    lost = [row for row in rows if row["what"] == "drop" and row["way"] == "down" and row["data"]]
    return Stamps(
        exists=here(server["exists"]),
        sent=here(server["sent"]),
        out=here(delivered(segments, server["ends"])),
        got=token_reads(recording),
        kept=[(a, b) for a, b in map(here, keeper["kept"] if keeper else ())],
        drops=here(row["at_ns"] for row in lost),
    )


def _answer(segments: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the call's own connection, which carried most of them."""
    (port, _), *_ = Counter(row["to"] for row in segments).most_common(1)
    return [row for row in segments if row["to"] == port]


def delivered(segments: Sequence[dict[str, Any]], ends: Sequence[int]) -> list[Ns]:
    """When the path had let out every byte up to each of these ends."""
    first = segments[0]["seq"]
    ahead: dict[int, int] = {}
    found: list[Ns] = []
    whole = 0
    for row in segments:
        begin = (row["seq"] - first) % (1 << 32)
        ahead[begin] = max(ahead.get(begin, 0), begin + row["bytes"])
        for begin in sorted(ahead):
            if begin > whole:
                break
            whole = max(whole, ahead.pop(begin))
        while len(found) < len(ends) and ends[len(found)] <= whole:
            found.append(row["at_ns"])
    return found


def stalls(plan: Plan, stamps: Stamps) -> list[Stall]:
    """Every stall of the call, in order, small ones included."""
    base = _quick(zip(stamps.sent, stamps.got, strict=True))
    found = [*_pauses(plan, stamps, base), *_runs(plan, stamps, base)]
    return sorted(found, key=lambda one: one.at_ns)


def _quick(pairs: Iterable[Stretch]) -> Ns:
    return round(quantiles((b - a for a, b in pairs), n=10, method="inclusive")[0])


def _pauses(plan: Plan, stamps: Stamps, base: Ns) -> Iterator[Stall]:
    for fault in plan.faults:
        if fault.kind == "server_pause":
            end = stamps.got[fault.index]
            at = stamps.exists[fault.index] - fault.ns + base
            yield Stall(kind=fault.kind, at_ns=at, end_ns=end, until_ns=end, by_plan=True)


def _runs(plan: Plan, stamps: Stamps, base: Ns) -> Iterator[Stall]:
    late = [got - at - base for got, at in zip(stamps.got, stamps.exists, strict=True)]
    begun = 0
    for index in range(1, len(late)):
        ns, before = late[index], late[index - 1]
        if ns >= LATE > before:
            begun = index
        if ns < LATE or not (before < LATE or ns > before + COUNTS):
            continue
        kind, *also = _kinds(stamps, index, begun)
        end = next((k for k in range(index, len(late)) if late[k] < LATE), len(late) - 1)
        yield Stall(
            kind=kind,
            also=tuple(also),
            at_ns=max(stamps.exists[index] + base, stamps.got[index - 1]),
            end_ns=stamps.got[index],
            until_ns=stamps.got[end],
            by_plan=_planned(plan, stamps, kind, index),
        )


def _planned(plan: Plan, stamps: Stamps, kind: str, index: int) -> bool:
    made = stamps.exists
    return any(f.kind == kind and abs(made[f.index] - made[index]) < S for f in plan.faults)


def _kinds(stamps: Stamps, index: int, begun: int) -> tuple[str, ...]:
    """Whose share of the token's lateness is largest; then who else's is large. Once a segment was
    lost, what the path takes is the loss's until the stream is on time again: the sender begins
    anew, a segment a round trip. begun: the run's first token."""
    sent, out, got = stamps.sent[index], stamps.out[index], stamps.got[index]
    kept = sum(max(0, min(b, out) - max(a, sent)) for a, b in stamps.kept)
    path = out - sent - kept - _quick(zip(stamps.sent, stamps.out, strict=True))
    lost = any(stamps.sent[begun] - 5 * MS <= at <= out for at in stamps.drops)
    shares = {
        "server_flush": sent - stamps.exists[index],
        "proxy_hold": kept,
        "packet_loss" if lost else "path_delay": path,
        "client_block": got - out - _quick(zip(stamps.out, stamps.got, strict=True)),
    }
    ordered = sorted(shares, key=lambda kind: -shares[kind])
    whole = sum(ns for ns in shares.values() if ns > 0)
    return (ordered[0], *(kind for kind in ordered[1:] if shares[kind] >= ALSO * whole))


def met(stall: Stall, at_ns: Ns, end_ns: Ns, step_ns: Ns) -> bool:
    """Whether something found is this stall: it overlaps half of it, or begins within two steps."""
    overlap = min(stall.end_ns, end_ns) - max(stall.at_ns, at_ns)
    return overlap >= stall.ns / 2 or abs(stall.at_ns - at_ns - step_ns) <= 2 * step_ns
