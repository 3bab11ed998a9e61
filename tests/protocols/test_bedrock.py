"""Messages through Amazon Bedrock: wrapped events are read as the vendor's own, and masked so."""

import base64
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from latscope.attribution import attribute
from latscope.protocols import detect
from latscope.protocols.bedrock import inside, unwrapped
from latscope.protocols.events import Event
from latscope.protocols.mask import mask
from latscope.protocols.mask.body import mask_body
from latscope.recording import Recording
from latscope.steps import finish
from latscope.timeline.build import build
from latscope.units import MS
from latscope.wire.eventstream import intact
from latscope.wire.framing import frames
from tests.protocols.frames import frame, words
from tests.protocols.test_mask_attribution import call
from tests.wire.messages import chunk, event, exception, framed, message, spoiled

KIND = "application/vnd.amazon.eventstream"
PATH = "/model/anthropic.claude-sonnet-4/invoke-with-response-stream"
SECRET = "canary-of-a-secret"
METRICS = {
    "inputTokenCount": 9,
    "outputTokenCount": 4,
    "invocationLatency": 900,
    "firstByteLatency": 420,
}
USAGE = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1}


def started() -> dict[str, Any]:
    told = {"id": "msg_bdrk_01", "role": "assistant", "model": "claude-sonnet-4", "usage": USAGE}
    return {"type": "message_start", "message": {"type": "message", "content": [], **told}}


def delta(text: str) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    }


STREAM: list[bytes] = [
    chunk(started(), SECRET),
    chunk(
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    ),
    chunk(delta(SECRET), "ab"),
    chunk(delta("more " + SECRET)),
    chunk({"type": "content_block_stop", "index": 0}),
    chunk(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 4},
        }
    ),
    chunk({"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS}),
]


def streamed(messages: Iterable[bytes]) -> Recording:
    return call(messages, PATH, KIND)


def events(recording: Recording) -> list[Event]:
    found = frames(recording.attempts[0])
    dialect = detect(recording.target.path, recording.attempts[0].body, found)
    assert dialect is not None
    assert dialect.name == "anthropic.messages"
    decoder = dialect.decoder()
    return [each for one in found for each in decoder(one)]


def test_a_stream_is_read_as_messages() -> None:
    """Found by its content, the path being every vendor's; each event dated by its message."""
    found = events(streamed(STREAM))
    assert words(found) == (
        "lifecycle:message_start usage lifecycle:content_block_start content=18 content=23"
        " lifecycle:content_block_stop finish:stop usage done:message_stop"
    )
    assert [each.ns for each in found if each.size] == [30 * MS, 40 * MS]
    timeline = build(streamed(STREAM))
    assert (timeline.api, timeline.streamed, timeline.verdict) == ("messages", True, "complete")
    assert timeline.model == "claude-sonnet-4"
    assert timeline.first_token is not None
    assert timeline.first_token.latest == 30 * MS
    usage = timeline.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (13, 4, 4)
    assert timeline.flags == ()


def test_the_invocation_metrics_are_read() -> None:
    """They ride on the last event, in whole milliseconds."""
    told = [(f.source, f.field, f.covers, f.ns) for f in build(streamed(STREAM)).reported]
    assert told == [
        ("bedrock.metrics", "firstByteLatency", "queue+prefill", 420 * MS),
        ("bedrock.metrics", "invocationLatency", "queue+prefill+decode", 900 * MS),
    ]


def test_an_exception_in_the_stream_is_an_error_of_its_name() -> None:
    broke = streamed([*STREAM[:3], exception("modelStreamErrorException", SECRET)])
    assert words(events(broke)).endswith("content=18 error:modelStreamErrorException")
    timeline = build(broke)
    assert timeline.verdict == "error"
    assert timeline.failure is not None
    assert timeline.failure.type == "modelStreamErrorException"


def test_an_exception_alone_is_an_error_too() -> None:
    """Nothing gives the dialect away: the call is bytes and frames, and no success."""
    assert [
        f.kind for f in frames(streamed([exception("throttlingException", "")]).attempts[0])
    ] == ["exception"]


def test_a_message_that_was_altered_costs_itself_only() -> None:
    """One token less, and the call says that something could not be read."""
    timeline = build(streamed([*STREAM[:2], spoiled(STREAM[2], 90), *STREAM[3:]]))
    assert timeline.verdict == "complete"
    assert len(timeline.arrivals) == 1
    assert timeline.flags == ("unknown_events",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"bytes": 5}',
        b'{"bytes": ""}',
        b'{"bytes": "no base64!"}',
        b'{"bytes": "YQ"}',
        '{"bytes": "é"}'.encode(),
    ],
)
def test_what_is_no_wrapped_event_is_left(data: bytes) -> None:
    bare = frame(data, name="chunk")
    assert inside(data) is None
    assert unwrapped(bare) is bare


def test_a_chunk_of_another_stream_is_unwrapped_by_its_name_only() -> None:
    bare = frame({"bytes": "YQ=="}, name="other")
    assert unwrapped(bare) is bare
    assert unwrapped(bare._replace(name="chunk")).data == b"a"


ODD = message({":event-type": "chunk", "x-note": SECRET, "n": 5, "raw": SECRET.encode()}, b"{}")
UNREADABLE = event("chunk", SECRET.encode())
STREAMS = {
    "whole": STREAM,
    "an exception": [*STREAM[:3], exception("modelStreamErrorException", SECRET)],
    "an exception named by nobody": [*STREAM[:3], exception("no name " + SECRET, SECRET)],
    "a message altered": [*STREAM[:2], spoiled(STREAM[2], 90), *STREAM[3:]],
    "a prelude altered": [*STREAM[:2], spoiled(STREAM[2], 9), *STREAM[3:]],
    "the first prelude altered": [spoiled(STREAM[0], 9), *STREAM[1:]],
    "one without headers altered": [*STREAM[:2], spoiled(framed(b"", b"payload"), 14)],
    "cut": [*STREAM[:3], STREAM[3][:-20]],
    "cut at once": [STREAM[0][:-20]],
    "headers of somebody's own": [*STREAM[:2], ODD, *STREAM[2:]],
    "a payload that is no JSON": [*STREAM[:2], UNREADABLE, *STREAM[2:]],
    "base64 that is none": [*STREAM[:2], event("chunk", b'{"bytes": "YQ"}'), *STREAM[2:]],
    "base64 written with escapes": [
        event("chunk", json.dumps({"bytes": base64.b64encode(b'{"t":"???>"}').decode()})
              .replace("/", "\\/").encode()),
        *STREAM,
    ],
    "noise behind": [*STREAM, b"\x00\x00\x01 " + SECRET.encode()],
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMS)
def test_a_masked_stream_says_the_same(case: str) -> None:
    """Frames keep their kinds and places, events and attribution are the same, nothing of the
    content is left, and masking what is masked changes nothing."""
    recording = streamed(STREAMS[case])
    hidden = mask(recording)
    body, before = hidden.attempts[0].body, recording.attempts[0].body
    assert body is not None
    assert before is not None
    assert len(body) == len(before)
    assert SECRET.encode() not in body
    decoded = [unwrapped(one).data for one in frames(hidden.attempts[0])]
    assert all(SECRET.encode() not in data for data in decoded)
    kept = [(f.kind, f.start, f.end, f.closed) for f in frames(hidden.attempts[0])]
    assert kept == [(f.kind, f.start, f.end, f.closed) for f in frames(recording.attempts[0])]
    assert mask(hidden) == hidden
    if case != "an exception named by nobody":
        assert replace(build(hidden), failure=None) == replace(build(recording), failure=None)
        assert attribute(hidden).segments == attribute(recording).segments


def test_a_masked_stream_is_one_that_other_readers_take() -> None:
    """Every checksum fits what it covers: it is no fingerprint of what was there."""
    body = mask(streamed(STREAM)).attempts[0].body
    assert body is not None
    theirs = EventStreamBuffer()
    theirs.add_data(body)
    assert [m.headers[":event-type"] for m in theirs] == ["chunk"] * len(STREAM)
    assert set(map(intact, messages_of(body))) == {True}
    assert crc32(b"".join(STREAM[:1])[:-4]).to_bytes(4, "big") not in body


def messages_of(body: bytes) -> list[bytes]:
    recording = streamed([body])
    return [body[f.start : f.end] for f in frames(recording.attempts[0])]


@given(
    st.lists(st.sampled_from([*STREAM, *STREAMS["an exception"], ODD, UNREADABLE]), max_size=5),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), max_size=4),
)
def test_whatever_was_altered_the_masked_frames_lie_where_they_lay(
    sent: list[bytes], spoils: list[tuple[int, int]]
) -> None:
    body = bytearray(b"".join(sent))
    for at, by in spoils:
        if at < len(body):
            body[at] ^= by
    recording = streamed([bytes(body)]) if body else streamed(STREAM)
    hidden = mask(recording)
    kept = [(f.kind, f.start, f.end, f.closed) for f in frames(hidden.attempts[0])]
    assert kept == [(f.kind, f.start, f.end, f.closed) for f in frames(recording.attempts[0])]
    assert SECRET.encode() not in (hidden.attempts[0].body or b"")
    assert mask(hidden) == hidden


def test_content_is_kept_where_asked_for_and_secrets_never() -> None:
    secret = "sk-" + "a1" * 12
    recording = streamed([STREAM[0], chunk(delta(f"say {secret} twice")), *STREAM[3:]])
    body = finish(mask_body(recording.attempts[0].body or b"", keep_content=True))
    kept = [unwrapped(f).data for f in frames(replace(recording.attempts[0], body=body))]
    assert b"more " + SECRET.encode() in kept[2]
    assert b"say xxxxxxxxx" in kept[1]
    assert secret.encode() not in b"".join(kept)
    assert len(kept) == len(STREAM) - 1
