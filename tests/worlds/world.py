"""A world: a case turned into instants, all in ns since the call's zero."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from latscope.recording import Mark, Read
from latscope.units import US, Ns
from tests.worlds.case import Case, Client, Failed, ns
from tests.worlds.path import Chunk, arrivals, through_hop
from tests.worlds.server import Script, Stamps, Token, Writer, offsets, script

READ_COST: Ns = 20 * US
"""From asking for bytes that wait to having them."""

NAME = b"lookup_"
"""How the tool names of latscope's encoders begin: a name is a token already."""

FINISH = re.compile(rb'"(?:finish|stop)_reason": ?"(?:stop|end_turn)".*?\n\n', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """A failed attempt: entry, first transport event, its last stamp, and the next one's entry."""

    failed: Failed
    entry: Ns
    transport: Ns
    last: Ns
    resumed: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The answered attempt up to the server. marks: as a recording keeps them; transport: the
    first of them that is the transport's own; headers: when the request's were written; written:
    the kernel has its last byte."""

    entry: Ns
    marks: tuple[Mark, ...]
    transport: Ns
    headers: Ns
    written: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server would have sent, whole. body: all its bytes; head: when the response's head
    reached the client, null when it never left; chunks: when which bytes did; eof: when the end
    of the body did. Offsets just past a frame, null where there is none: first_end of the first
    token, visible_end of the first visible one, last_end of the last, finish_end of the finish
    reason, terminal_end of the event that ends the stream by its protocol, or of the whole body."""

    body: bytes
    head: Ns | None
    chunks: tuple[Chunk, ...]
    eof: Ns
    first_end: int | None
    visible_end: int | None
    last_end: int | None
    finish_end: int | None
    terminal_end: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The client's reads; ended: when it saw the end of the body; paused: whether its consumer
    takes its time between two reads."""

    reads: tuple[Read, ...]
    ended: Ns
    paused: bool

    def of(self, offset: int | None) -> int | None:
        """Index of the read that brought the byte before `offset`."""
        if offset is None:
            return None
        return next((i for i, r in enumerate(self.reads) if r.body_offset >= offset), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """tokens: what exists when, hidden ones included; left: when the server was done with the
    call; stop: when the caller stopped or gave up, null when it did not."""

    case: Case
    tries: tuple[Try, ...]
    sending: Sending
    stamps: Stamps
    tokens: tuple[Token, ...]
    left: Ns
    answer: Answer
    reading: Reading
    stop: Ns | None = None


def build(case: Case) -> World:
    random = Random(case.seed + 1)
    tries = _tries(case.retries)
    sending = _sending(case, tries[-1].resumed if tries else 0)
    late = case.path.there + random.uniform(0.0, case.path.delivery / 2)
    transit = ns(case.path.rtt) // 2 + ns(late)
    received = sending.written + transit
    plan = _shifted(script(case), received)
    stamps = Stamps(
        received=received,
        queued=plan.queued,
        scheduled=plan.scheduled,
        tokens=[token.at for token in plan.tokens],
    )
    answer = _answer(case, plan, stamps, random)
    stop = None
    if case.ending in ("cancelled", "timeout"):
        stop = max(sending.entry, sending.written + ns(case.at))
    return World(
        case=case,
        tries=tries,
        sending=sending,
        stamps=stamps,
        tokens=plan.tokens,
        left=_left(plan),
        answer=answer,
        reading=read(case.client, answer),
        stop=stop,
    )


def _tries(retries: Sequence[Failed]) -> tuple[Try, ...]:
    found, at = [], 0
    for failed in retries:
        transport = at + ns(failed.pool)
        last = transport + ns(failed.took)
        resumed = last + ns(failed.sleep)
        found.append(Try(failed=failed, entry=at, transport=transport, last=last, resumed=resumed))
        at = resumed
    return tuple(found)


def _sending(case: Case, entry: Ns) -> Sending:
    client = case.client
    at = transport = entry + ns(client.pool)
    marks = [Mark("entry", entry)]
    for name, length in (("connect", client.connect), ("tls", client.tls)):
        if length is not None and client.connect is not None:
            marks.append(Mark(f"{name}.started", at))
            at += ns(max(length, case.path.rtt))
            marks.append(Mark(f"{name}.complete", at))
            at += 5 * US
    marks += [Mark("request.started", at), Mark("request.headers", at + 10 * US)]
    headers = at + 10 * US
    written = headers + ns(client.upload)
    marks.append(Mark("request.sent", written + ns(client.late_stamp)))
    return Sending(
        entry=entry, marks=tuple(marks), transport=transport, headers=headers, written=written
    )


def _shifted(plan: Script, by: Ns) -> Script:
    return replace(
        plan,
        queued=plan.queued + by,
        scheduled=None if plan.scheduled is None else plan.scheduled + by,
        tokens=tuple(token._replace(at=token.at + by) for token in plan.tokens),
        steps=tuple(step._replace(at=step.at + by) for step in plan.steps),
        drop=None if plan.drop is None else plan.drop + by,
    )


def _answer(case: Case, plan: Script, stamps: Stamps, random: Random) -> Answer:
    writer = Writer(case, plan.tokens)
    parts = [writer.write(step, stamps) for step in plan.steps]
    stops = offsets(parts)
    sends = [
        Chunk(step.at, stop)
        for step, part, stop in zip(plan.steps, parts, stops, strict=True)
        if part
    ]
    left = _left(plan)
    shown = next((token.at for token in plan.tokens if token.kind != "hidden"), None)
    out = through_hop(case.path, sends, left, shown)
    head = next((s.at for s in plan.steps if s.what in ("head", "whole", "refuse")), None)
    if head is not None and case.path.holds_head and out:
        head = out[0].at
    back = ns(case.path.rtt) // 2
    if head is not None:
        head += back + ns(random.uniform(0.0, case.path.delivery / 2))
    marked = ends(case, plan, parts)
    chunks = arrivals(case.path, out, random, since=head or 0, first_end=marked["first_end"])
    eof = max([left + back, *(chunk.at for chunk in chunks[-1:]), head or 0]) + 50 * US
    body = b"".join(parts)
    return Answer(body=body, head=head, chunks=tuple(chunks), eof=eof, **marked)


def _left(plan: Script) -> Ns:
    return plan.steps[-1].at if plan.drop is None else plan.drop


def ends(
    case: Case, plan: Script, parts: Sequence[bytes], upto: int | None = None
) -> dict[str, int | None]:
    """Where the frames that matter end; found in the bytes by the words only they hold. upto: how
    many of the plan's steps `parts` are of; null for all."""
    found: dict[str, int | None] = dict.fromkeys(
        ("first_end", "visible_end", "last_end", "finish_end", "terminal_end")
    )
    before = 0
    for step, part in zip(plan.steps[:upto], parts, strict=True):
        if step.what == "emit":
            for index in range(step.first, step.stop):
                end = before + _frame_end(part, index, plan.tokens[index])
                found["last_end"] = end
                if found["first_end"] is None:
                    found["first_end"] = end
                visible = plan.tokens[index].kind == "content" or case.api == "completions"
                if visible and found["visible_end"] is None:
                    found["visible_end"] = end
        if step.what == "tail":
            finish = FINISH.search(part)
            found["finish_end"] = before + (finish.end() if finish else len(part))
        before += len(part)
        chat = case.api in ("chat", "completions")
        ends = step.what == "tail" and case.ending != "no_done"
        if ends or step.what in ("whole", "refuse") or (step.what == "error" and chat):
            found["terminal_end"] = before
    return found


def _frame_end(part: bytes, index: int, token: Token) -> int:
    """Just past the frame that carries the token, its tool's name where that comes first."""
    at = part.index(b"t%d " % index)
    name = part.find(NAME) if token.kind == "tool_call" else -1
    return part.index(b"\n\n", at if name < 0 else min(at, name)) + 2


def read(client: Client, answer: Answer) -> Reading:
    """A reader that asks, waits for what is not there, and pauses before it asks again."""
    reads: list[Read] = []
    pause, before = ns(client.consumer), answer.head or 0
    waiting = list(answer.chunks)
    offset = 0
    while waiting:
        asked = before + pause
        first = waiting.pop(0)
        waited = first.at > asked
        got = first.at if waited else asked + READ_COST
        stop = first.stop
        while client.coalesce and waiting and waiting[0].at <= (got if waited else asked):
            stop = waiting.pop(0).stop
        reads.append(Read(asked, got, stop - offset, stop))
        offset, before = stop, got
    asked = before + pause
    ended = max(asked, answer.eof)
    return Reading(reads=tuple(reads), ended=ended, paused=bool(pause))
