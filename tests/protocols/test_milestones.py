"""What single events prove of the server, and where its figures may ride in each API."""

from typing import Any

import pytest

from latscope.protocols import (
    anthropic_messages,
    openai_chat,
    openai_completions,
    openai_responses,
)
from latscope.protocols.dialect import Dialect
from latscope.units import MS

from .frames import decode, frame, words

TIMINGS = {"prompt_ms": 5.0}


@pytest.mark.parametrize(
    ("told", "milestone"),
    [
        ({"total": 9, "cache": 0, "processed": 0, "time_ms": 0}, "scheduled"),
        ({"total": 9, "cache": 8, "processed": 8, "time_ms": 0}, "scheduled"),
        ({"total": 9, "cache": 0, "processed": 9, "time_ms": 4}, "prefilled"),
        ({"total": 0, "processed": 0}, "scheduled"),
        ({"total": 9}, ""),
        (None, ""),
        ("x", ""),
    ],
)
def test_llamas_prompt_progress(told: Any, milestone: str) -> None:
    """The slot has started; with all tokens processed the prompt is done."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": None}}
    chunk = {"choices": [choice], "prompt_progress": told}
    (event,) = decode(openai_chat.DIALECT, [frame(chunk)])
    assert (event.kind, event.milestone) == ("role", milestone)
    bare = {"choices": [{"index": 0, "text": ""}], "prompt_progress": told}
    assert decode(openai_completions.DIALECT, [frame(bare)])[0].milestone == milestone


@pytest.mark.parametrize(
    ("kind", "milestone"),
    [("response.created", ""), ("response.in_progress", ""), ("response.queued", "waiting")],
)
def test_responses_lifecycle(kind: str, milestone: str) -> None:
    """`in_progress` is no proof: vLLM sends it before the engine has the request."""
    (event,) = decode(openai_responses.DIALECT, [frame({"type": kind, "response": {}})])
    assert event.milestone == milestone


@pytest.mark.parametrize(
    ("dialect", "told"),
    [
        (openai_chat.DIALECT, {"choices": [{"delta": {"content": "a"}}], "timings": TIMINGS}),
        (openai_chat.DIALECT, {"choices": [], "timings": TIMINGS}),
        (openai_chat.DIALECT, {"timings": TIMINGS}),
        (openai_completions.DIALECT, {"timings": TIMINGS}),
        (openai_responses.DIALECT, {"type": "response.debug", "timings": TIMINGS}),
        (openai_responses.DIALECT, {"type": "response.created", "response": {"timings": TIMINGS}}),
        (
            openai_responses.DIALECT,
            {"type": "response.output_text.delta", "delta": "a", "timings": TIMINGS},
        ),
        (openai_responses.DIALECT, {"object": "response", "timings": TIMINGS}),
        (anthropic_messages.DIALECT, {"type": "message_stop", "timings": TIMINGS}),
        (anthropic_messages.DIALECT, {"type": "message_start", "message": {"timings": TIMINGS}}),
        (anthropic_messages.DIALECT, {"type": "message", "timings": TIMINGS}),
    ],
)
def test_a_servers_figures_are_read_wherever_they_ride(dialect: Dialect, told: Any) -> None:
    """At the top of any object, and in the response or message inside it, each once."""
    events = decode(dialect, [frame(told)])
    figures = [figure for event in events for figure in event.reported]
    assert [(figure.field, figure.ns) for figure in figures] == [("prompt_ms", 5 * MS)]
    assert "unknown" not in words(events)


def test_bedrocks_figures_ride_on_the_last_event_of_a_message() -> None:
    """InvokeModelWithResponseStream adds them to Anthropic's own `message_stop`."""
    told = {
        "type": "message_stop",
        "amazon-bedrock-invocationMetrics": {
            "inputTokenCount": 9,
            "outputTokenCount": 4,
            "invocationLatency": 1405,
            "firstByteLatency": 985,
        },
    }
    (event,) = decode(anthropic_messages.DIALECT, [frame(told)])
    assert event.kind == "done"
    assert {figure.ns for figure in event.reported} >= {1405 * MS, 985 * MS}
