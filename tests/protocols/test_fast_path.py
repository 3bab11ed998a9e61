"""The short cuts for ordinary chunks and reads make what the long ways make."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from latscope.documents.recordings import read as read_file
from latscope.protocols import openai_chat, openai_completions
from latscope.protocols.chunks import Shape, State, chunk_events
from latscope.protocols.events import Event
from latscope.protocols.reading import read
from latscope.wire.frames import Frame
from latscope.wire.framing import frames
from latscope.wire.sse import SSEDecoder

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
STREAMS = sorted(FOLDER.glob("*.jsonl"))
SHAPES = (openai_chat._SHAPE, openai_completions._SHAPE)


def long_way(shape: Shape) -> Shape:
    """The shape without its short cut."""
    return replace(shape, plain=lambda choice: None)


def both(shape: Shape, found: list[Frame]) -> tuple[list[list[Event]], State, int]:
    """The events of the frames, the same both ways, the state left, and how many were cut short."""
    short, long, cut = State(), State(), 0

    def counting(choice: dict[str, Any]) -> Any:
        nonlocal cut
        made = shape.plain(choice)
        cut += made is not None
        return made

    quick, slow = replace(shape, plain=counting), long_way(shape)
    events = []
    for frame in found:
        mine = read(lambda f, data: chunk_events(quick, short, f, data), frame)
        assert mine == read(lambda f, data: chunk_events(slow, long, f, data), frame)
        events.append(mine)
    assert short == long
    return events, short, cut


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_every_fixture_gives_the_same_events(path: Path) -> None:
    (call,) = read_file(path)
    found = frames(call.attempts[-1])
    for shape in SHAPES:
        both(shape, found)
    if path.stem in ("llama-chat-stream", "vllm-chat-stream", "openai-chat-stream"):
        assert both(openai_chat._SHAPE, found)[2] > 3


values = st.sampled_from(
    [None, "", "a", "<think>", "\u00e9", 0, 1, True, [], ["a"], {}, {"a": 1}, {"content": ["a"]}]
)
deltas = st.dictionaries(
    st.sampled_from(
        ["content", "role", "reasoning", "reasoning_content", "refusal", "tool_calls", "audio", "x"]
    ),
    values,
    max_size=3,
)
choices = st.fixed_dictionaries(
    {"index": st.sampled_from([0, 0, 0, 1, -1, True, None])},
    optional={
        "delta": deltas | values,
        "message": deltas,
        "text": values,
        "finish_reason": st.sampled_from([None, None, "stop", 0, 5]),
        "logprobs": st.sampled_from([None, {}, {"content": [1]}, {"tokens": ["a"]}]),
        "meta_info": st.just({"e2e_latency": 1.5}),
        "content_filter_results": values,
    },
)
objects = st.fixed_dictionaries(
    {"choices": st.lists(choices, min_size=1, max_size=1) | st.lists(choices | values, max_size=2)},
    optional={
        "id": st.sampled_from(["a", "b", 1, ""]),
        "model": st.sampled_from(["m", None]),
        "object": st.sampled_from(["chat.completion.chunk", "error"]),
        "service_tier": st.sampled_from(["default", None]),
        "usage": st.sampled_from([None, {}, {"completion_tokens": 2}, {"queue_time": 0.5}]),
        "error": st.sampled_from([None, {"type": "t"}]),
        "prompt_progress": st.just({"total": 4, "processed": 4}),
        "timings": st.just({"prompt_ms": 4.0}),
        "x_groq": st.just({"usage": {"completion_tokens": 3}}),
    },
)
kinds = st.sampled_from(["event", "event", "event", "line", "body"])


@given(st.lists(st.tuples(objects, st.sampled_from(["", "", "error"]), kinds), max_size=4))
@example([({"choices": [{"index": 0, "delta": {"content": "a"}}]}, "", "event")] * 2)
@example([({"choices": [{"index": 0, "text": "a"}]}, "", "event")] * 2)
def test_any_chunks_give_the_same_events(stream: list[tuple[Any, Any, Any]]) -> None:
    found = [
        Frame(kind, name, json.dumps(data).encode(), 0, at, 0, at)
        for at, (data, name, kind) in enumerate(stream, 1)
    ]
    for shape in SHAPES:
        both(shape, found)


def test_an_ordinary_chunk_is_cut_short_and_its_facts_are_told_once() -> None:
    chunk = {"id": "a", "model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]}
    data = json.dumps(chunk).encode()
    events, _, cut = both(SHAPES[0], [Frame("event", "", data, 0, 9, 0, 0)] * 2)
    assert cut == 2
    assert [event.facts is None for made in events for event in made] == [False, True]


BLOCKS = st.sampled_from(
    [
        b"data: a\n\n",
        b"data: long text\n\n",
        b"event: e\ndata: a\n\n",
        b"event: e\n\n",
        b"data:a\n\n",
        b"data: a\ndata: b\n\n",
        b"data: a\r\n\r\n",
        b": ping\n\n",
        b"data: a\n",
        b"id: 1\ndata: a\n\n",
        b"\n\n",
        b"data: \n\n",
        b"data: a\r",
        b"data: a",
        b"\xef\xbb\xbf",
    ]
)


@given(st.lists(st.lists(BLOCKS, max_size=3).map(b"".join), max_size=6), st.sampled_from([9, 99]))
@example([b"data: a\n\n", b"data: a\n\nevent: e\ndata: b\n\n", b"data: long text\n\n"], 9)
def test_reads_of_whole_events_give_the_frames_of_single_bytes(
    reads: list[bytes], most: int
) -> None:
    whole, single = SSEDecoder(max_frame_bytes=most), SSEDecoder(max_frame_bytes=most)
    for ns, data in enumerate(reads):
        found = [f for at in range(len(data)) for f in single.feed(data[at : at + 1], ns)]
        assert whole.feed(data, ns) == found
    assert whole.close() == single.close()
