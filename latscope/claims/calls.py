"""Calls as a client saw them: what a recording shows, and which calls can be compared."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import log

from latscope.attribution import attribute
from latscope.attribution.model import Attribution, Piece
from latscope.attribution.pace import pace
from latscope.recording import Recording
from latscope.rules.group import ending
from latscope.timeline import build
from latscope.units import Ns, S

SUM = frozenset({"queue", "prefill", "network"})
NEEDED = 8
"""Calls that met no other, before those alone are looked at."""
LIKE = 1.15
"""Prompts count as equally long within such steps of a geometric ladder: a nonce or a template may
differ by a few tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A complete, streamed call; null where it does not show.

    model: with its endpoint, since only calls of one model on one endpoint are compared; server_ns:
    from the request's last byte to the first token; sure_ns, maybe_ns: of TTFT, surely queue,
    prefill or network, and possibly; uncached: prompt tokens to compute; tpot_ns: mean step;
    step_ns: median step of a paced stream, per token; queue_ns, prefill_ns: as the server states
    them; in_flight: other calls when it began; load: calls in flight, itself included;
    crowd: sent to compare loads.
    """

    model: tuple[str, str]
    started_ns: Ns
    first_token_ns: Ns
    server_ns: Ns
    wall_ns: Ns
    sure_ns: Ns
    maybe_ns: Ns
    input: int | None
    uncached: int | None
    output: int | None
    tpot_ns: Ns | None
    step_ns: float | None
    queue_ns: Ns | None
    prefill_ns: Ns | None
    in_flight: int | None
    load: int | None
    crowd: bool


def observe(
    recording: Recording,
    *,
    passes: Callable[[Attribution], bool] = lambda call: True,
    load: int | None = None,
    crowd: bool = False,
) -> Observed | None:
    """What the call shows; null when it did not complete, streamed no token, or does not pass.
    load, crowd: what only the sender knows."""
    call = attribute(recording)
    if call.status != "complete" or call.first_token_ns is None or not passes(call):
        return None
    stated = {} if "reported_contradicts_clock" in call.flags else _stated(call)
    uncached = None
    if call.input_tokens is not None:
        uncached = call.input_tokens - (call.cached_tokens or 0)
    return Observed(
        model=(call.endpoint, call.model or ""),
        started_ns=_clock(call.started_at),
        first_token_ns=call.first_token_ns,
        server_ns=call.first_token_ns - (call.sent_ns or 0),
        wall_ns=call.wall_ns,
        sure_ns=sum(piece.ns for piece in _ttft(call) if set(piece.candidates) <= SUM),
        maybe_ns=sum(piece.ns for piece in _ttft(call) if set(piece.candidates) & SUM),
        input=call.input_tokens,
        uncached=uncached,
        output=call.output_tokens,
        tpot_ns=call.tpot_ns,
        step_ns=_step(recording, call),
        queue_ns=stated.get("queue.engine"),
        prefill_ns=stated.get("prefill"),
        in_flight=call.in_flight,
        load=load,
        crowd=crowd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A call that was stopped before its first token: server_ns is how long it had waited since the
    request's last byte, and so the least its first token would have taken. load: calls in flight,
    itself included."""

    server_ns: Ns
    load: int


def stopped(recording: Recording, *, load: int) -> Stopped | None:
    """What a call sent to be streamed shows that was stopped before any token; null for others."""
    call = attribute(recording)
    if ending(call) != "stopped" or call.first_token_ns is not None:
        return None
    return Stopped(server_ns=call.wall_ns - (call.sent_ns or 0), load=load)


def _stated(call: Attribution) -> dict[str, Ns]:
    return {figure.covers: figure.ns for figure in call.reported}


def _ttft(call: Attribution) -> tuple[Piece, ...]:
    return call.ttft_pieces or ()


def _clock(text: str) -> Ns:
    """Wall time, in ns; 0 for what is no time."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * S)
    except ValueError:
        return 0


def _step(recording: Recording, call: Attribution) -> float | None:
    """The median time a token of a stream that came one step at a time."""
    found = pace(build(recording).arrivals)
    if not found.paced or not call.tokens_per_chunk:
        return None
    return found.step_ns / call.tokens_per_chunk


def overlapping(calls: Sequence[Observed]) -> list[Observed]:
    """The calls, each with how many were in flight: those of them that were half-way through it,
    or as many as the client knew of when it began, be they recorded or not."""
    starts = sorted(call.started_ns for call in calls)
    ends = sorted(call.started_ns + call.wall_ns for call in calls)
    found = []
    for call in calls:
        middle = call.started_ns + call.wall_ns // 2
        active = bisect_right(starts, middle) - bisect_left(ends, middle)
        found.append(replace(call, load=max(active, (call.in_flight or 0) + 1)))
    return found


def largest(calls: Sequence[Observed]) -> list[Observed]:
    """The calls of the model, on its endpoint, that has most of them."""
    count = Counter(call.model for call in calls)
    return [call for call in calls if call.model == max(count, key=lambda model: count[model])]


def quiet(calls: Sequence[Observed]) -> Sequence[Observed]:
    """The calls that met no other, when there are enough; else all."""
    alone = [call for call in calls if call.load == 1]
    return alone if len(alone) >= NEEDED else calls


def crowded(calls: Sequence[Observed]) -> Sequence[Observed]:
    """The calls to compare across loads: those sent for it, else those with prompts as long as the
    crowd's."""
    sent = [call for call in calls if call.crowd]
    if sent:
        return sent
    crowd = Counter(length(call.uncached) for call in calls if (call.load or 0) > 1)
    if not crowd:
        return calls
    usual = max(crowd, key=lambda length: crowd[length])
    return [call for call in calls if length(call.uncached) == usual]


def length(tokens: int | None) -> int | None:
    """Which prompts are about as long: a step of a geometric ladder."""
    return None if tokens is None else round(log(max(tokens, 1)) / log(LIKE))


def at_once(load: int) -> int:
    """The power of two at or below."""
    return 1 << (load.bit_length() - 1)
