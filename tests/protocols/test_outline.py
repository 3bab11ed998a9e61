"""What is kept of a body that is not kept: the same events, usage and times as with it."""

from collections.abc import Generator
from dataclasses import replace
from typing import TypeVar

import pytest

from latscope.documents.recordings import read
from latscope.protocols.outline import Outline, outlined
from latscope.recording import Attempt, EventRow, Read, Recording
from latscope.timeline import build
from tests.test_fixtures import FOLDER, NAMES

Found = TypeVar("Found")

PATH = "/v1/chat/completions"
CHAT = (
    b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
    b": ping\n\n"
    b'data: {"object":"chat.completion.chunk","choices":[],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'
    b"data: [DONE]\n\n"
)


def done(steps: Generator[None, None, Found]) -> Found:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found


def without_bodies(recording: Recording) -> Recording:
    path = recording.target.path
    return replace(
        recording, attempts=tuple(done(outlined(one, path)) for one in recording.attempts)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_fixture_keeps_its_times_and_usage(name: str) -> None:
    for recording in read(FOLDER / f"{name}.jsonl"):
        whole, kept = build(recording), build(without_bodies(recording))
        assert all(attempt.body is None for attempt in without_bodies(recording).attempts)
        assert (kept.api, kept.streamed, kept.verdict) == (whole.api, whole.streamed, whole.verdict)
        assert (kept.first_token, kept.usage) == (whole.first_token, whole.usage)
        times = [[arrival.at for arrival in line.arrivals] for line in (kept, whole)]
        assert times[0] == times[1]


@pytest.mark.parametrize("size", [1, 10, len(CHAT)])
def test_the_rows_are_the_same_however_the_body_came(size: int) -> None:
    outline = Outline(PATH, ())
    for at in range(0, len(CHAT), size):
        done(outline.feed(CHAT[at : at + size]))
    done(outline.close())
    lines = CHAT.split(b"\n\n")
    ends = [sum(len(line) + 2 for line in lines[: n + 1]) for n in range(4)]
    ends[1] -= 1  # a comment ends with its line
    kinds = ["content", "comment", "usage", "done"]
    assert outline.rows() == tuple(map(EventRow, ends, kinds, [None] * 4))
    assert outline.usage == {"input_tokens": 3, "output_tokens": 1}


def test_tokens_are_kept_where_the_server_tells_them() -> None:
    """Continuous usage: each chunk says how many tokens there are by now."""
    chunks = [
        b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":'
        b'{"content":"a b"}}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}\n\n' % n
        for n in (2, 5)
    ]
    made = done(outlined(Attempt(body=b"".join(chunks)), PATH))
    assert made.events is not None
    assert [row.tokens for row in made.events if row.kind == "content"] == [2, 3]


def test_a_body_of_no_dialect_has_no_events() -> None:
    made = done(outlined(Attempt(body=b"data: some words\n\n"), "/elsewhere"))
    assert (made.body, made.events, made.usage) == (None, (), None)


def test_without_a_body_nothing_changes() -> None:
    attempt = Attempt(reads=(Read(0, 1, 2, 2),))
    assert done(outlined(attempt, PATH)) is attempt
    outline = Outline(PATH, ())
    done(outline.feed(b""))
    done(outline.close())
    assert outline.rows() == ()


def test_a_long_body_is_read_in_short_steps() -> None:
    """So that others may run: no step reads more than 4 KiB or 16 frames."""
    steps = outlined(Attempt(body=CHAT * 200), PATH)
    assert sum(1 for _ in steps) >= 200 * 4 / 16
