"""The truth of a call to a stamped server: its full partition on the client's clock.

Client, front end and engine stamp one clock (CLOCK_MONOTONIC), so the instants of a call form one
chain, and what lies between two of them has one owner:

    client    zero -> the transport's first event
    network   -> received: the application was given the end of the request's body
    queue     -> scheduled: front end, the way to the engine, and the wait in it
    prefill   -> the step that made the first token came back
    decode    -> the step that made the last token (of TTFT: the first token that was *sent*) did
    network   -> the client's read: the flush (token exists -> sent: detokenising, JSON, the event
                 loop) as a hold, then the way back

Instants of the engine are intervals (see `engine`), a tenth of a millisecond wide. No part of an
answer is used but where its events end: which token was the first one *sent* is known only as far
as the stamps say. It existed before the send that carried it, so it is one of those that did, and
TTFT's decode and network are as wide as that. A true share is therefore an interval, too.

vLLM's own figures (`STATED`) are held against the stamps by `complaints`, and are never truth.
"""

import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, TypeAlias

from latscope.recording import Recording, SegmentTruth
from latscope.sim.stamps import Sent, Stamps
from latscope.sim.truth import truth
from latscope.units import MS, Ns
from tests.engines.stamps import lines
from tests.engines.stamps.calls import Made
from tests.sim.client import body_of, data_of, frames, read_at

PATIENCE_S = 20.0
CLOSE: Ns = 2 * MS
"""How far two accounts of one stretch may differ."""

STATED = ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms")
"""What vLLM says of queue, prefill and decode, in this order."""

LAST = {"message_stop", "response.completed", "response.incomplete", "response.failed"}

Range: TypeAlias = tuple[Ns, Ns]
Ranges: TypeAlias = dict[str, Range]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as the server saw it: instants of the shared clock."""

    called: Ns
    received: Ns
    headers: Ns
    sends: tuple[Sent, ...]
    written: tuple[Ns, ...]
    """By when each send had gone to the kernel."""
    queued: Ns
    scheduled: Range
    tokens: tuple[Range, ...]
    prompt_tokens: int
    steps: int
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The true shares of a call, of its wall time and of its time to first token (null when it
    had none), each as the interval it is known to lie in."""

    wall: Ranges
    ttft: Ranges | None


def join(folder: Path, made: list[Made]) -> list[tuple[Made, Seen]]:
    """Each call with what the server saw of it, once the server has written all of it."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        front = {line["request_id"]: line for line in lines.read(folder, "front")}
        engine = lines.read(folder, "engine")
        if all(one.request_id in front for one in made):
            return [(one, _seen(front[one.request_id], engine)) for one in made]
        if time.monotonic() > deadline:
            raise TimeoutError("the server has not written the stamps of every call")
        time.sleep(0.05)


def _seen(front: dict[str, Any], engine: list[dict[str, Any]]) -> Seen:
    """The engine's name of a request is the answer's id and what it is told apart by: `-3f2a01bc`
    of chat and messages, `-0-...` of completions, `_0-...` of responses."""
    names = (front["answer_id"] + "-", front["answer_id"] + "_")
    (line,) = [line for line in engine if line["id"].startswith(names)]
    return Seen(
        called=front["called_ns"],
        received=front["received_ns"],
        headers=front["headers_ns"],
        sends=tuple(Sent(*sent[:3]) for sent in front["sends"]),
        written=tuple(sent[3] for sent in front["sends"]),
        queued=line["queued_ns"],
        scheduled=_range(line["scheduled_ns"]),
        tokens=tuple(_range(token) for token in line["tokens"]),
        prompt_tokens=line["prompt_tokens"],
        steps=line["steps"],
        preemptions=line["preemptions"],
    )


def _range(pair: list[Ns]) -> Range:
    before, after = pair
    return before, after


def known(made: Made, seen: Seen) -> Known:
    """The true partition: what the ends of all intervals make of it, least and most.

    Raises InputError when the instants are out of order."""
    first = token_end(made.recording) if made.call.stream else None
    shown = (0,) if first is None else (0, newest(seen, first))
    found = [
        truth(_stamps(made, seen, first, index, ends), made.recording)
        for index, *ends in product(shown, (0, 1), (0, 1), (0, 1))
    ]
    ttft = [one.ttft for one in found if one.ttft is not None]
    return Known(wall=_ranges(one.segments for one in found), ttft=_ranges(ttft) if ttft else None)


def _ranges(found: Iterable[tuple[SegmentTruth, ...]]) -> Ranges:
    return {
        parts[0].name: (min(part.ns for part in parts), max(part.ns for part in parts))
        for parts in zip(*found, strict=True)
    }


def newest(seen: Seen, first: int) -> int:
    """Index of the newest token there was when the bytes before `first` were sent."""
    at = sent_at(seen, first)
    return max(0, sum(1 for before, _ in seen.tokens if before <= at) - 1)


def sent_at(seen: Seen, offset: int) -> Ns:
    """When the byte before `offset` was sent."""
    return next(sent.ns for sent in seen.sends if sent.stop >= offset)


def written_at(seen: Seen, offset: int) -> Ns:
    """By when it had gone to the kernel."""
    pairs = zip(seen.sends, seen.written, strict=True)
    return next(at for sent, at in pairs if sent.stop >= offset)


def _stamps(made: Made, seen: Seen, first: int | None, index: int, ends: list[int]) -> Stamps:
    """ends: which end of its interval to take for the scheduling, the first token, the others."""
    token, *others = seen.tokens
    return Stamps(
        id=made.request_id,
        scenario="vllm",
        api=made.call.api,
        stream=made.call.stream,
        status=200,
        received_ns=seen.received,
        queued_ns=seen.queued,
        scheduled_ns=seen.scheduled[ends[0]],
        tokens=[token[ends[1]], *(other[ends[2]] for other in others)],
        first_sent=None if first is None else index,
        first_token_end=first,
        terminal_end=terminal_end(made.recording, stream=made.call.stream),
    )


# -- where events end, by our own reading ----------------------------------------------------------


def token_end(recording: Recording) -> int | None:
    """The offset just past the first event that carries a token's text; null when none does."""
    return next((end for frame, end in frames(body_of(recording)) if _shown(data_of(frame))), None)


def terminal_end(recording: Recording, *, stream: bool) -> int:
    body = body_of(recording)
    if not stream:
        return len(body)
    for frame, end in frames(body):
        if frame == b"data: [DONE]" or data_of(frame).get("type") in LAST:
            return end
    raise AssertionError(f"call {recording.call_id} has no terminal event")


def _shown(event: dict[str, Any]) -> bool:
    """Whether the event carries text: a delta of chat, completions, responses or messages."""
    choice = (event.get("choices") or [{}])[0]
    delta = event.get("delta")
    texts = (
        choice.get("text"),
        (choice.get("delta") or {}).get("content"),
        delta if isinstance(delta, str) else None,
        delta.get("text") if isinstance(delta, dict) else None,
    )
    return any(texts)


# -- whether the accounts agree --------------------------------------------------------------------


def stated(recording: Recording) -> dict[str, Ns]:
    """vLLM's own figures in the answer, read without latscope's decoders."""
    body = body_of(recording)
    found = {name: re.search(rb'"%b": ?([0-9.e-]+)' % name.encode(), body) for name in STATED}
    return {name: round(float(hit[1]) * MS) for name, hit in found.items() if hit}


def complaints(made: Made, seen: Seen) -> Iterator[str]:
    """What contradicts what, in words; nothing for a call whose accounts agree."""
    yield from _order(made, seen)
    yield from _own_account(made, seen)
    size = seen.sends[-1].stop
    if size != len(body_of(made.recording)):
        yield f"{size} bytes were sent, {len(body_of(made.recording))} read"
    if seen.preemptions:
        yield f"preempted {seen.preemptions} times: prefill and decode overlap"


def chain(made: Made, seen: Seen) -> list[tuple[str, Ns]]:
    """Every instant of the call in the order it must have happened, on the shared clock."""
    recording, attempt = made.recording, made.recording.attempts[-1]
    assert recording.clock is not None
    zero = recording.clock.zero_ns
    terminal = terminal_end(recording, stream=made.call.stream)
    return [
        ("zero", zero),
        ("request begun", zero + (attempt.mark("request.headers") or 0)),
        ("received", seen.received),
        ("queued", seen.queued),
        ("scheduled", seen.scheduled[0]),
        ("first token", seen.tokens[0][0]),
        ("last token", seen.tokens[-1][0]),
        ("end sent", sent_at(seen, terminal)),
        ("end read", zero + read_at(recording, terminal)),
    ]


def delays(made: Made, seen: Seen) -> dict[str, Ns]:
    """What no figure of vLLM's holds: the way there (written -> received), the front end (received
    -> in the engine), and of the first token that was sent (of those it may be, the newest) and of
    the end: the flush (it exists -> it is sent), the write (-> in the kernel by then) and the way
    back (-> read; negative when the reader was quicker than the event loop)."""
    at = dict(chain(made, seen))
    terminal = terminal_end(made.recording, stream=made.call.stream)
    found = {
        "there": at["received"] - at["request begun"],
        "front end": at["queued"] - at["received"],
        **_way_back(made, seen, "last", at["last token"], terminal),
    }
    if made.call.stream and (first := token_end(made.recording)) is not None:
        token = seen.tokens[newest(seen, first)][0]
        found |= _way_back(made, seen, "first", token, first)
    return found


def _way_back(made: Made, seen: Seen, which: str, token: Ns, offset: int) -> dict[str, Ns]:
    assert made.recording.clock is not None
    sent, written = sent_at(seen, offset), written_at(seen, offset)
    read = made.recording.clock.zero_ns + read_at(made.recording, offset)
    return {
        f"{which} flush": sent - token,
        f"{which} write": written - sent,
        f"{which} back": read - written,
    }


def _order(made: Made, seen: Seen) -> Iterator[str]:
    for (before, at), (after, then) in pairwise(chain(made, seen)):
        if then < at:
            yield f"{after} {(at - then) / MS:.3f} ms before {before}"


def _own_account(made: Made, seen: Seen) -> Iterator[str]:
    """Each of vLLM's durations must be as long as ours, and so must all together: what they leave
    of received -> sent is then front end and flush as we stamped them."""
    figures = stated(made.recording)
    if not figures:
        return
    queue, prefill, decode = (figures.get(name, 0) for name in STATED)
    queued, first, last = (seen.queued, seen.queued), seen.tokens[0], seen.tokens[-1]
    rows = {
        "queue": (queue, queued, seen.scheduled),
        "prefill": (prefill, seen.scheduled, first),
        "decode": (decode, first, last),
        "all three": (queue + prefill + decode, queued, last),
    }
    for name, (theirs, since, until) in rows.items():
        least, most = until[0] - since[1], until[1] - since[0]
        if not least - CLOSE <= theirs <= most + CLOSE:
            yield f"{name}: {theirs / MS:.3f} ms by vLLM, {least / MS:.3f}..{most / MS:.3f} by us"
