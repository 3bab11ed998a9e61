"""The mask on anything at all: lengths, validity, repetition, and what it remembers."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from latscope.protocols.mask import mask
from latscope.protocols.mask.payload import mask_payload, mask_secrets, remembering
from latscope.recording import Attempt, Recording, Target

KEYS = r"""id type object code message error choices delta content text role usage metrics logprobs
    arguments input metadata tool_calls response name finish_reason secret user token Bob a"""
WORDS = ("stop", "assistant", "error", "", "<think>", "Bob is ill", "0.5", 'ü\n"\\', "a.b-c_1")

scalars = st.sampled_from([None, True, False, 0, -7, 12, 0.5, 1e300, *WORDS]) | st.text(max_size=4)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS.split()) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)
escaped = st.booleans()


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """JSON as servers write it, whole or cut."""
    text = json.dumps(draw(documents), ensure_ascii=draw(escaped)).encode("utf-8", "replace")
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 4)) == 0 else text


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Fields of an event stream, JSON lines and noise, in any order, with any line end."""
    starts = st.sampled_from([b"data: ", b"data:", b"", b": ", b"event: ", b"id: ", b"retry: "])
    pieces = draw(
        st.lists(
            st.tuples(
                starts,
                payloads() | st.sampled_from([b"[DONE]", b"ping"]) | st.binary(max_size=6),
                st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b""]),
            ),
            max_size=6,
        )
    )
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + b"".join(map(b"".join, pieces))


def parses(data: bytes) -> bool:
    try:
        from_json(data)
    except ValueError:
        return False
    return True


def call(body: bytes | None, **fields: Any) -> Recording:
    target = Target(scheme="http", host="h", port=80, path="/v1/chat/completions")
    attempt = Attempt(status=200, body=body)
    return Recording(call_id="c", started_at="t", target=target, attempts=(attempt,), **fields)


def body_of(recording: Recording) -> bytes:
    body = recording.attempts[0].body
    assert body is not None
    return body


def strings(value: Any) -> Iterable[str]:
    """The strings of a document in order; keys left out."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict | list | str):
            yield from [item] if isinstance(item, str) else strings(item)


@settings(deadline=None)
@given(payloads())
def test_a_payload_stays_json_or_not(payload: bytes) -> None:
    """Masked JSON parses if and only if the payload did, and is as long."""
    masked = mask_payload(payload)
    assert len(masked) == len(payload)
    assert parses(masked) == parses(payload)
    assert mask_payload(masked) == masked


@settings(deadline=None)
@given(payloads())
def test_kept_content_stays_json(payload: bytes) -> None:
    """The same for what `keep_content` leaves."""
    kept = mask_secrets(payload)
    assert len(kept) == len(payload)
    assert parses(kept) == parses(payload)
    assert mask_secrets(kept) == kept


@settings(deadline=None)
@given(bodies(), st.booleans())
def test_any_body_keeps_its_length_and_masks_once(body: bytes, keep_content: bool) -> None:
    """Nothing raises, every byte keeps its place, and masking what is masked changes nothing."""
    masked = mask(call(body), keep_content=keep_content)
    assert len(body_of(masked)) == len(body)
    assert mask(masked, keep_content=keep_content) == masked


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_at_all(body: bytes) -> None:
    """Line ends stay where they were."""
    masked = body_of(mask(call(body)))
    assert len(masked) == len(body)
    assert [b for b in masked if b in b"\r\n"] == [b for b in body if b in b"\r\n"]


@settings(deadline=None)
@given(st.lists(payloads(), max_size=5))
def test_remembering_changes_no_result(stream: list[bytes]) -> None:
    """The fast way and the plain one agree on every payload of a stream."""
    fast = remembering()
    assert [fast(payload) for payload in stream] == [mask_payload(payload) for payload in stream]


CHUNK = b'{"id":"c","choices":[{"index":%d,"delta":{"content":"%b"}}],"took":1,"usage":{"n":%d}}'
TEXT = st.sampled_from(
    [b"a", b"", b" the", b"\\n", b'\\"', b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d", b"\xc3\xa9"]
) | st.sampled_from(
    [
        b"42",
        b"\\u003cthink\\u003e",
        b">;=",
        b"\xff",
        b"\xed\xa0\x80",
        b"\xf0\x9f\x98\x80",
        b"<think>",
        b"\x01",
        b"\\x",
        b"\x7f",
    ]
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.lists(TEXT, max_size=3)), min_size=2, max_size=5))
def test_remembering_chunks_that_differ_in_text(chunks: list[tuple[int, list[bytes]]]) -> None:
    """Escapes, surrogates, bad bytes and tags: what is no safe text is walked again."""
    stream = [CHUNK % (number, b"".join(text), number * 7) for number, text in chunks]
    fast = remembering()
    assert [fast(payload) for payload in stream] == [mask_payload(payload) for payload in stream]


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS.split()), documents, max_size=5), st.booleans())
def test_any_request_masks_once(request: dict[str, Any], keep_content: bool) -> None:
    """The skeleton of a skeleton is itself."""
    masked = mask(call(None, request=request), keep_content=keep_content)
    assert mask(masked, keep_content=keep_content) == masked


@settings(deadline=None)
@given(documents)
def test_empty_strings_stay_empty_and_others_do_not_become_so(document: Any) -> None:
    """So that an empty delta is empty after masking, and no other is."""
    payload = json.dumps({"choices": [document]}).encode()
    before, after = from_json(payload), from_json(mask_payload(payload))
    if _no_key_collides(after, before):
        assert [bool(s) for s in strings(before)] == [bool(s) for s in strings(after)]


def _no_key_collides(after: Any, before: Any) -> bool:
    """Whether no two unknown keys of an object became the same."""
    return len(json.dumps(after)) > 0 and _count(after) == _count(before)


def _count(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, items))


@settings(deadline=None)
@given(bodies())
def test_only_the_body_of_an_attempt_changes_with_it(body: bytes) -> None:
    """Reads, marks and status are the recording's own."""
    before = call(body)
    after = mask(before)
    assert replace(after.attempts[0], body=body) == before.attempts[0]
