"""Chunks that differ in their text alone give what parsing each of them gives."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from latscope.documents.recordings import read as read_file
from latscope.protocols import alike, anthropic_messages, openai_chat, openai_completions
from latscope.protocols.alike import Alike, ChunkDecoder
from latscope.protocols.chunks import Shape, State, chunk_events
from latscope.protocols.events import Event
from latscope.protocols.reading import Read, read
from latscope.wire.frames import Frame
from latscope.wire.framing import frames

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
CHAT, COMPLETIONS = openai_chat._SHAPE, openai_completions._SHAPE
CHUNK = b'{"id":"a","model":"m","choices":[{"index":0,"delta":{"content":"%b"}}]}'


def framed(payloads: list[bytes]) -> list[Frame]:
    return [Frame("event", "", data, 0, at, 0, 10 * at) for at, data in enumerate(payloads, 1)]


def same(shape: Shape, found: list[Frame]) -> tuple[list[list[Event]], list[bool]]:
    """The events of the frames, the same both ways; and for which of them the long way was not
    gone."""
    short, long, gone = ChunkDecoder(shape), State(), []

    def counting(decode: Read, frame: Frame) -> list[Event]:
        gone.append(frame)
        return read(decode, frame)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alike, "read", counting)
        events = [short(frame) for frame in found]
    slow = partial(chunk_events, shape, long)
    assert events == [read(slow, frame) for frame in found]
    assert short._state == long
    assert all(type(event) is Event for made in events for event in made)
    return events, [frame not in gone for frame in found]


def same_messages(found: list[Frame]) -> list[bool]:
    """The same of Anthropic's: for which frames the long way was not gone."""
    slow, gone = partial(anthropic_messages._events, {}), []

    def counting(decode: Read, frame: Frame) -> list[Event]:
        gone.append(frame)
        return read(decode, frame)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(alike, "read", counting)
        fast = anthropic_messages.decoder()
        events = [fast(frame) for frame in found]
    assert events == [read(slow, frame) for frame in found]
    assert all(type(event) is Event for made in events for event in made)
    return [frame not in gone for frame in found]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_fixture_gives_the_same_events(path: Path) -> None:
    (call,) = read_file(path)
    found = frames(call.attempts[-1])
    for shape in (CHAT, COMPLETIONS):
        same(shape, found)
    short = same_messages(found)
    if path.stem == "vllm-chat-stream":
        assert sum(same(CHAT, found)[1]) > 3
    if path.stem == "vllm-messages-stream":
        assert sum(short) > 3


DELTA = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":"%b"}}'


def delta(text: bytes, *, at: int = 0, kind: bytes = b"text_delta", key: bytes = b"text") -> bytes:
    return DELTA % (at, kind, key, text)


def named(payloads: list[bytes], name: str = "content_block_delta") -> list[Frame]:
    return [frame._replace(name=name) for frame in framed(payloads)]


def test_deltas_of_one_block_are_alike() -> None:
    thought = {"kind": b"thinking_delta", "key": b"thinking"}
    payloads = [
        *(delta(text) for text in (b"one", b"two", b"<think>", b"\\n", b"three")),
        *(delta(text, at=1, **thought) for text in (b"four", b"five")),
        delta(b"six", at=1, kind=b"signature_delta", key=b"signature"),
        delta(b"seven").replace(b'"index"', b'"usage":{"output_tokens":3},"index"'),
    ]
    short = [False, True, True, False, True, False, True, False, False]
    assert same_messages(named(payloads)) == short
    assert same_messages(named(payloads, "")) == short
    assert same_messages([*named(payloads[:2]), *named(payloads[:2], "")])[1:3] == [True, False]


@pytest.mark.parametrize("name", ["error", "ping", "chunk", "message_delta"])
def test_a_delta_under_another_name_is_not_learned_from(name: str) -> None:
    assert not any(same_messages(named([delta(b"one"), delta(b"two")], name)))


@pytest.mark.parametrize(
    "said",
    [
        b'{"type":"content_block_delta","index":0,"delta":"one"}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one","a":1}}',
        b'{"type":"content_block_start","content_block":{"type":"text","text":"one"}}',
    ],
)
def test_what_is_no_plain_delta_is_not_learned_from(said: bytes) -> None:
    assert not any(same_messages(named([said, said.replace(b"one", b"two")])))


texts = st.binary(max_size=6)


@given(st.lists(st.tuples(st.sampled_from([0, 1]), texts), max_size=6))
def test_any_bytes_in_a_deltas_place_give_the_same_events(told: list[tuple[int, bytes]]) -> None:
    kinds: tuple[dict[str, bytes], ...] = (
        {},
        {"kind": b"input_json_delta", "key": b"partial_json"},
    )
    same_messages(named([delta(text, at=at, **kinds[at]) for at, text in told]))


def test_only_the_first_of_a_kind_is_parsed() -> None:
    """Until something but the text differs: an escape is parsed and changes nothing, another name
    of the model makes another kind."""
    texts = [b"one", b" two", b"<think>", "\u00e9\u2028\U0001f600".encode(), b"\\n", b"three"]
    other = [(CHUNK % text).replace(b'"m"', b'"n"') for text in (b"four", b"five", b"six")]
    events, short = same(CHAT, framed([*(CHUNK % text for text in texts), *other]))
    assert short == [False, True, True, True, False, True, False, True, True]
    assert [made[0].size for made in events] == [3, 4, 7, 9, 1, 5, 4, 4, 3]
    assert [made[0].opens_think for made in events].count(True) == 1


NOT_ALIKE = [
    CHUNK % b"",
    CHUNK % b"\x01",
    CHUNK % b"\xed\xa0\x80",
    CHUNK % b"\xc0\xaf",
    CHUNK % b"\xf4\x90\x80\x80",
    CHUNK % b'a","role":"b',
    CHUNK % b"a" + b" ",
    b" " + CHUNK % b"a",
    (CHUNK % b"a")[:-1],
    (CHUNK % b"a").replace(b'"index":0', b'"index":1'),
    (CHUNK % b"a").replace(b"content", b"refusal"),
    CHUNK[: CHUNK.index(b"%")] + CHUNK[CHUNK.index(b"%") + 3 :],
]


@pytest.mark.parametrize("data", NOT_ALIKE)
def test_what_differs_otherwise_is_parsed(data: bytes) -> None:
    _, short = same(CHAT, framed([CHUNK % b"one", data, CHUNK % b"two"]))
    assert not short[1]


@pytest.mark.parametrize(
    "changed", [{"kind": "comment"}, {"name": "ping"}, {"name": "error"}, {"truncated": True}]
)
def test_only_whole_nameless_events_are_alike(changed: dict[str, Any]) -> None:
    first, second, third = framed([CHUNK % b"one", CHUNK % b"two", CHUNK % b"three"])
    _, short = same(CHAT, [first, second._replace(**changed), third])
    assert not short[1]


def test_a_text_that_stands_twice_is_not_taken_for_its_twin() -> None:
    """Nor is one that another string of the chunk happens to be."""
    chunk = b'{"model":"m","choices":[{"index":0,"delta":{"content":"%b"},"of":"%b"}]}'
    twice = [chunk % (text, text) for text in (b"a", b"b", b"c")]
    escaped = [chunk % (b"\\u0061", text) for text in (b"a", b"b")]
    for payloads in (twice, escaped, [*twice, *escaped]):
        assert not any(same(CHAT, framed(payloads))[1])


def test_a_chunk_that_says_more_than_its_text_teaches_nothing() -> None:
    """The tokens its logprobs list may be others in the next one."""
    chunk = b'{"choices":[{"index":0,"delta":{"content":"%b"},"logprobs":{"content":[1]}}]}'
    events, short = same(CHAT, framed([chunk % text for text in (b"one", b"two")]))
    assert [made[0].tokens for made in events] == [1, 1]
    assert short == [False, False]


def test_a_stream_whose_chunks_all_differ_is_given_up() -> None:
    """Each states its own time: looking for what they share would cost more than it gives."""
    chunk = b'{"created":%d,"choices":[{"index":0,"delta":{"content":"a%d"}}]}'
    decoder, learned = ChunkDecoder(CHAT), []
    for at, frame in enumerate(framed([chunk % (at, at) for at in range(20)])):
        decoder(frame)
        learned.append(decoder._alike is not None and b"%d" % at in decoder._alike.head)
    assert learned == [True] * 8 + [False] * 12


values = st.sampled_from(
    ["a", "b", "aa", "", '"', "\\", "\n", "<think>", "\u00e9", "text", "content", "],[", ",", "m"]
)
deltas = st.sampled_from(["content", "content", "content", "refusal", "reasoning", "role", "x"])
choices = st.fixed_dictionaries(
    {"index": st.sampled_from([0, 0, 0, 1])},
    optional={
        "delta": st.dictionaries(deltas, values, max_size=2),
        "text": values,
        "of": values,
        "finish_reason": st.sampled_from([None, "stop"]),
    },
)
chunks = st.fixed_dictionaries(
    {"choices": st.lists(choices, min_size=1, max_size=1)},
    optional={
        "id": values,
        "model": st.sampled_from(["m", "m", "n", None]),
        "usage": st.sampled_from([None, {"completion_tokens": 2}]),
        "timings": st.just({"prompt_ms": 4.0}),
    },
)


@given(
    st.lists(chunks, min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(0, 1), values, st.booleans()), max_size=8),
)
@example([{"choices": [{"index": 0, "text": "a"}]}], [(0, "b", True), (0, "a", True)])
def test_any_stream_of_a_few_kinds_gives_the_same_events(
    kinds: list[dict[str, Any]], stream: list[tuple[int, str, bool]]
) -> None:
    """Chunks of one or two kinds, each with a text of its own in every place a text may stand."""
    payloads = []
    for kind, text, ascii_only in stream:
        made = json.loads(json.dumps(kinds[kind % len(kinds)]))
        choice = made["choices"][0]
        for holder, key in ((choice.get("delta", {}), "content"), (choice, "text")):
            if key in holder:
                holder[key] = text
        payloads.append(json.dumps(made, ensure_ascii=ascii_only).encode())
    for shape in (CHAT, COMPLETIONS):
        same(shape, framed(payloads))


@given(st.binary(max_size=6), st.binary(max_size=6))
@example(b"\\u00", b"e9")
def test_any_bytes_in_the_texts_place_give_the_same_events(one: bytes, two: bytes) -> None:
    same(CHAT, framed([CHUNK % b"a", CHUNK % one, CHUNK % two, CHUNK % b"b"]))


def test_a_kind_needs_the_envelope_it_was_learned_with() -> None:
    """A chunk that tells a new model is behind it: what the kind's chunks say is news again."""
    other = (CHUNK % b"x").replace(b'"m"', b'"n"').replace(b'"index":0', b'"index":0,"y":"x"')
    events, short = same(CHAT, framed([CHUNK % b"one", CHUNK % b"two", other, CHUNK % b"three"]))
    assert short == [False, True, False, False]
    assert [made[0].facts is None for made in events] == [False, True, False, False]


def test_what_is_known_of_a_kind() -> None:
    decoder = ChunkDecoder(CHAT)
    decoder(framed([CHUNK % b"one"])[0])
    head, _, tail = CHUNK.partition(b"%b")
    assert decoder._alike == Alike("", head, tail, "content", 0, ("m", "a", None, None))
