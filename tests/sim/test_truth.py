"""The truth: exact on every scenario over real sockets, and by hand for every rule it states."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from latscope.documents.scenarios import shipped
from latscope.errors import InputError
from latscope.protocols.dialect import Api
from latscope.recording import Attempt, Clock, Mark, Read, Recording, SegmentTruth, Target
from latscope.sim.process import Running
from latscope.sim.stamps import Stamps, from_mapping, to_mapping
from latscope.sim.truth import truth
from latscope.units import MS
from tests.sim.client import (
    body_for,
    body_of,
    call,
    data_of,
    frames,
    quick,
    read_at,
    request_id,
)

TERMINAL = {
    "chat": b"data: [DONE]",
    "completions": b"data: [DONE]",
    "responses": b'"type":"response.completed"',
    "messages": b'"type":"message_stop"',
}

TOKEN_KEYS = ("content", "text", "delta", "reasoning_content", "thinking")


def carries_token(frame: bytes) -> bool:
    """Whether an event carries output text, in whichever of the four APIs; by its own reading."""
    data = data_of(frame)
    choice: dict[str, Any] = next(iter(data.get("choices", ())), {})
    delta = choice.get("delta", choice if "text" in choice else data.get("delta"))
    if isinstance(delta, str):
        return bool(delta)
    return any(isinstance(delta, dict) and delta.get(key) for key in TOKEN_KEYS)


def sums(parts: tuple[SegmentTruth, ...] | None) -> dict[str, int]:
    assert parts is not None
    return {part.name: part.ns for part in parts}


SHAPES = (
    "hidden-reasoning",
    "visible-reasoning",
    "byte-hold",
    "cut",
    "error-in-band",
    "early-role",
)
"""Scenarios in which the APIs differ from one another."""
CASES = [
    *(("chat", name) for name in sorted(shipped())),
    *((api, name) for api in ("completions", "responses", "messages") for name in SHAPES),
]


@pytest.mark.parametrize(("api", "name"), CASES)
def test_both_partitions_are_exact_on_every_scenario(running: Running, name: str, api: Api) -> None:
    """The parts add up to the end and to the first token's read, both found here by reading the
    body; no part is negative; nothing is unattributed."""
    recording = call(running.base_url, api, body_for(api, name, f"truth {name} {api}"))
    found = truth(running.truth(request_id(recording)), recording)
    ends = [end for frame, end in frames(body_of(recording)) if TERMINAL[api] in frame]
    if ends:
        wall = read_at(recording, ends[0])
    else:
        final = recording.attempts[-1]
        wall = final.mark("error") or final.mark("body.end") or 0
    tokens = [end for frame, end in frames(body_of(recording)) if carries_token(frame)]
    whole, first = sums(found.segments), sums(found.ttft)
    assert sum(whole.values()) == wall
    assert sum(first.values()) == read_at(recording, tokens[0])
    assert min(*whole.values(), *first.values()) >= 0
    assert whole["unattributed"] == first["unattributed"] == 0
    assert all(first[name] <= whole[name] for name in ("queue", "prefill", "decode", "client"))


@pytest.mark.parametrize("name", sorted(shipped()))
def test_each_part_is_at_least_what_the_scenario_slept(running: Running, name: str) -> None:
    """Queue, prefill and decode are no shorter than the waits the server made on purpose."""
    scenario = quick(shipped()[name])
    recording = call(running.base_url, "chat", body_for("chat", name, f"slept {name}"))
    stamps = running.truth(request_id(recording))
    whole = sums(truth(stamps, recording).segments)
    steps = len(stamps.tokens) - 1
    stalls = sum(s.ms for s in scenario.stalls if s.kind == "decode")
    decode = steps * scenario.decode_step_ms * (1 - scenario.step_jitter) + stalls
    late = MS  # the first token may exist late, the last one on time
    assert whole["queue"] >= (scenario.frontend_ms + scenario.queue_ms) * MS - late
    assert whole["prefill"] >= scenario.prefill_base_ms * MS
    assert whole["decode"] >= stamps.tokens[-1] - stamps.tokens[0]
    assert stamps.scheduled_ns is not None
    assert stamps.tokens[-1] - stamps.scheduled_ns >= (scenario.prefill_base_ms + decode) * MS


def test_a_buffering_hop_is_network_to_the_first_token_and_decode_to_the_end(
    running: Running,
) -> None:
    """The hold delays the first token, not the last: what, if shorter, would have ended it."""
    recording = call(running.base_url, "chat", body_for("chat", "buffering-hop", "truth hold"))
    stamps = running.truth(request_id(recording))
    found = truth(stamps, recording)
    generation = stamps.tokens[-1] - stamps.tokens[0]
    assert sums(found.ttft)["network"] >= generation
    assert sums(found.ttft)["decode"] == 0
    assert sums(found.segments)["decode"] == generation


def test_hidden_reasoning_is_decode_before_the_first_token(running: Running) -> None:
    recording = call(running.base_url, "chat", body_for("chat", "hidden-reasoning", "truth think"))
    stamps = running.truth(request_id(recording))
    found = sums(truth(stamps, recording).ttft)
    assert stamps.first_sent == 60
    assert found["decode"] == stamps.tokens[60] - stamps.tokens[0] > 0


def test_an_answer_in_one_body_has_no_first_token(running: Running) -> None:
    body = body_for("chat", "healthy", "truth whole") | {"stream": False}
    recording = call(running.base_url, "chat", body)
    found = truth(running.truth(request_id(recording)), recording)
    assert found.ttft is None
    assert sum(sums(found.segments).values()) == read_at(recording, len(body_of(recording)))


def test_a_call_cut_before_its_first_token_has_none(running: Running) -> None:
    """What the engine did until the drop is prefill; the rest, until we noticed, network."""
    recording = call(running.base_url, "chat", body_for("chat", "cut-at-once", "x"))
    found = truth(running.truth(request_id(recording)), recording)
    assert found.ttft is None
    whole = sums(found.segments)
    assert whole["prefill"] >= 25 * MS
    assert whole["decode"] == 0
    assert sum(whole.values()) == recording.attempts[-1].mark("error")


def test_stamps_survive_the_way_between_processes(running: Running) -> None:
    recording = call(running.base_url, "chat", body_for("chat", "one-slot", "x"))
    stamps = running.truth(request_id(recording))
    assert from_mapping(to_mapping(stamps)) == stamps
    assert all(a.stop == b.start for a, b in pairwise(stamps.sends))


# By hand. The clock's zero is 1,000; the call reads, in ns from zero: transport 10, received 20,
# queued 25, scheduled 50, tokens 80, 90, 100, read of the first token 110, of the last byte 130.

ZERO = 1_000
READS = (Read(30, 110, 50, 50), Read(110, 130, 70, 120), Read(130, 140, 9, 129))
FINAL = Attempt(
    status=200,
    marks=(
        Mark("entry", 5),
        Mark("request.started", 10),
        Mark("headers", 40),
        Mark("body.end", 150),
    ),
    reads=READS,
)
STAMPS = Stamps(
    id="x",
    scenario="s",
    api="chat",
    stream=True,
    status=200,
    received_ns=ZERO + 20,
    queued_ns=ZERO + 25,
    scheduled_ns=ZERO + 50,
    tokens=[ZERO + 80, ZERO + 90, ZERO + 100],
    first_sent=1,
    first_token_end=50,
    terminal_end=120,
    closed_ns=ZERO + 105,
)


def recorded(*attempts: Attempt, **fields: Any) -> Recording:
    plain: dict[str, Any] = {
        "call_id": "c",
        "started_at": "2026-01-01T00:00:00Z",
        "target": Target(scheme="http", host="h", port=1, path="/"),
        "clock": Clock(name="perf_counter", zero_ns=ZERO),
        "marks": (Mark("entry", 0), Mark("end", 160)),
    }
    return Recording(attempts=attempts, **{**plain, **fields})


def parts(recording: Recording, stamps: Stamps = STAMPS) -> tuple[int, ...]:
    """queue, prefill, decode, network, client of the whole call."""
    found = sums(truth(stamps, recording).segments)
    return tuple(found[name] for name in ("queue", "prefill", "decode", "network", "client"))


def test_every_part_of_a_plain_call() -> None:
    """client 10; network 10 and 30; queue 30; prefill 30; decode 20: together 130."""
    assert parts(recorded(FINAL)) == (30, 30, 20, 40, 10)


def test_every_part_of_its_first_token() -> None:
    """The first token sent is the second made: 10 of decode before it, then 20 to its read."""
    found = truth(STAMPS, recorded(FINAL))
    assert sums(found.ttft) == {
        "queue": 30,
        "prefill": 30,
        "decode": 10,
        "network": 30,
        "client": 10,
        "unattributed": 0,
    }


def test_a_transport_that_tells_nothing_leaves_its_entry() -> None:
    """Without transport events the wait for the pool ends with the attempt's entry."""
    bare = replace(FINAL, marks=(Mark("entry", 5), Mark("headers", 40)))
    assert parts(recorded(bare)) == (30, 30, 20, 45, 5)


@pytest.mark.parametrize(
    ("final", "marks", "end"),
    [
        (replace(FINAL, reads=READS[:1]), (Mark("stop", 125),), 125),
        (replace(FINAL, reads=READS[:2]), (Mark("stop", 135),), 130),
        (replace(FINAL, reads=READS[:1]), (), 150),
        (replace(FINAL, reads=READS[:1], marks=FINAL.marks[:2]), (Mark("end", 170),), 170),
        (replace(FINAL, reads=READS[:1], marks=FINAL.marks[:2]), (), 110),
        (replace(FINAL, reads=READS[:1], marks=(*FINAL.marks[:2], Mark("error", 145))), (), 145),
        (replace(FINAL, reads=READS[:1], marks=(*FINAL.marks[:2], Mark("error", 99))), (), 110),
    ],
    ids=[
        "stopped",
        "stopped after the end",
        "end of body",
        "end mark",
        "last stamp",
        "error",
        "error seen before",
    ],
)
def test_where_a_call_ends(final: Attempt, marks: tuple[Mark, ...], end: int) -> None:
    assert sum(parts(recorded(final, marks=marks))) == end


def test_a_caller_that_stops_early_cuts_off_what_came_later() -> None:
    """Stopped at 60, in the middle of prefill: no decode, no later network."""
    stopped = recorded(replace(FINAL, reads=()), marks=(Mark("stop", 60),))
    assert parts(stopped) == (30, 10, 0, 10, 10)
    assert truth(STAMPS, stopped).ttft is None


def test_an_exchange_the_engine_never_saw_is_queue_until_it_was_answered() -> None:
    """The last attempt was refused (429 and no more tries): queue up to the server's answer."""
    refused = replace(STAMPS, scheduled_ns=None, tokens=[], first_sent=None, first_token_end=None)
    assert parts(recorded(FINAL), refused) == (85, 0, 0, 35, 10)


FAILED = Attempt(
    status=500,
    marks=(Mark("entry", 4), Mark("request.started", 7), Mark("body.end", 60), Mark("closed", 99)),
    reads=(Read(20, 50, 9, 9),),
)


def refused(retry_after: str) -> Attempt:
    return replace(FAILED, status=429, headers=(("retry-after", retry_after),))


def shifted(by: int) -> tuple[Attempt, Stamps]:
    """The plain call's attempt and stamps, so much later."""
    marks = tuple(Mark(mark.name, mark.ns + by) for mark in FINAL.marks)
    reads = tuple(
        read._replace(asked_ns=read.asked_ns + by, got_ns=read.got_ns + by) for read in READS
    )
    stamps = replace(
        STAMPS,
        received_ns=STAMPS.received_ns + by,
        scheduled_ns=(STAMPS.scheduled_ns or 0) + by,
        tokens=[token + by for token in STAMPS.tokens],
        closed_ns=(STAMPS.closed_ns or 0) + by,
    )
    return replace(FINAL, marks=marks, reads=reads), stamps


@pytest.mark.parametrize(
    ("failed", "queue", "network", "client"),
    [
        (FAILED, 53, 0, 7 + 145),
        (
            replace(FAILED, status=429, headers=(("retry-after", "0.00000003"),)),
            53 + 30,
            0,
            7 + 115,
        ),
        (replace(FAILED, status=429, headers=(("retry-after", "9"),)), 53 + 145, 0, 7),
        (replace(FAILED, headers=(("retry-after", "soon"),)), 53, 0, 7 + 145),
        (replace(FAILED, status=None, error_type="ConnectError"), 0, 53, 7 + 145),
    ],
    ids=["500", "429 and longer", "429", "unreadable", "unreachable"],
)
def test_a_failed_attempt_and_the_sleep_after_it(
    failed: Attempt, queue: int, network: int, client: int
) -> None:
    """53 of exchange from its first transport event, then 145 of sleep to the next entry."""
    final, stamps = shifted(200)
    found = parts(recorded(failed, final), stamps)
    assert found == (30 + queue, 30, 20, 40 + network, 5 + client)
    first = sums(truth(stamps, recorded(failed, final)).ttft)
    assert sum(first.values()) == 310


@pytest.mark.parametrize(
    "recording",
    [
        recorded(FINAL, clock=None),
        recorded(),
        recorded(FINAL, clock=Clock(name="x", zero_ns=9_000)),
    ],
    ids=["no clock", "no attempt", "another clock"],
)
def test_a_recording_the_stamps_cannot_be_laid_on_is_refused(recording: Recording) -> None:
    with pytest.raises(InputError, match="call c: "):
        truth(STAMPS, recording)
