"""Three first times, never mixed; and what is no token."""

import json

import pytest

from latscope.timeline import build
from tests.calls import DONE, Chunk, attempt, call, delta, finish, ms, sse, stream, usage

ROLE_REASONING_CONTENT: dict[str, list[Chunk]] = {
    "chat": [
        (0.0, delta(role="assistant")),
        (100.0, delta(reasoning_content="hm")),
        (200.0, delta("so")),
        (400.0, finish() + usage(2) + DONE),
    ],
    "chat reasoning": [
        (0.0, delta(role="assistant", reasoning="")),
        (100.0, delta(reasoning="hm")),
        (200.0, delta("so")),
        (400.0, finish() + usage(2) + DONE),
    ],
    "chat reasoning_details": [
        (0.0, delta(role="assistant")),
        (100.0, delta(reasoning_details=[{"type": "reasoning.text", "text": "hm"}])),
        (200.0, delta("so")),
        (400.0, finish() + usage(2) + DONE),
    ],
    "responses": [
        (
            0.0,
            sse({"type": "response.created", "response": {"id": "r", "status": "in_progress"}}),
        ),
        (100.0, sse({"type": "response.reasoning_summary_text.delta", "delta": "hm"})),
        (200.0, sse({"type": "response.output_text.delta", "delta": "so"})),
        (
            400.0,
            sse(
                {
                    "type": "response.completed",
                    "response": {
                        "id": "r",
                        "status": "completed",
                        "usage": {"input_tokens": 4, "output_tokens": 2},
                    },
                }
            ),
        ),
    ],
    "messages": [
        (
            0.0,
            sse({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 4}}}),
        ),
        (
            100.0,
            sse(
                {
                    "type": "content_block_delta",
                    "index": 0,
                    "delta": {"type": "thinking_delta", "thinking": "hm"},
                }
            ),
        ),
        (
            200.0,
            sse(
                {
                    "type": "content_block_delta",
                    "index": 1,
                    "delta": {"type": "text_delta", "text": "so"},
                }
            ),
        ),
        (
            400.0,
            sse(
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn"},
                    "usage": {"output_tokens": 2},
                }
            )
            + sse({"type": "message_stop"}),
        ),
    ],
}


@pytest.mark.parametrize("name", ROLE_REASONING_CONTENT)
def test_role_at_0_reasoning_at_100_content_at_200_usage_at_400(name: str) -> None:
    """TTFT is the reasoning delta, first visible the content, the end the terminal event."""
    chunks = [(at + 10.0, data) for at, data in ROLE_REASONING_CONTENT[name]]
    timeline = build(stream(chunks, api=name.split()[0]))
    assert ms(timeline.first_byte_ns) == 10.0
    assert ms(timeline.first_token_ns) == 110.0
    assert ms(timeline.first_visible_token_ns) == 210.0
    assert ms(timeline.last_token_ns) == 210.0
    assert ms(timeline.wall_ns) == 410.0
    assert timeline.usage.output_tokens == 2
    assert timeline.verdict == "complete"


def test_completions_have_no_role_and_no_reasoning() -> None:
    """Legacy completions: first token and first visible token are one."""
    text = {"object": "text_completion", "model": "m"}
    chunks = [
        (50.0, sse({**text, "choices": [{"index": 0, "text": "", "finish_reason": None}]})),
        (90.0, sse({**text, "choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]})),
        (95.0, DONE),
    ]
    timeline = build(stream(chunks, api="completions"))
    assert ms(timeline.first_token_ns) == ms(timeline.first_visible_token_ns) == 90.0
    assert timeline.api == "completions"


NO_TOKENS = {
    "a role": delta(role="assistant"),
    "an empty delta": delta(""),
    "usage": usage(0),
    "a comment": b": keep-alive\n\n",
    "a filter chunk": sse({"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
    "a tool call without name or argument": delta(tool_calls=[{"index": 0, "id": "call_1"}]),
}


@pytest.mark.parametrize("name", NO_TOKENS)
def test_is_no_token(name: str) -> None:
    """What carries no output does not start the tokens; the next delta does."""
    chunks = [(20.0, NO_TOKENS[name]), (60.0, delta("x")), (61.0, finish() + DONE)]
    assert ms(build(stream(chunks)).first_token_ns) == 60.0


def test_a_tool_call_is_a_token_from_its_name_on() -> None:
    name = {"index": 0, "function": {"name": "get", "arguments": ""}}
    timeline = build(stream([(30.0, delta(tool_calls=[name])), (31.0, DONE)]))
    assert ms(timeline.first_token_ns) == 30.0
    assert timeline.first_visible_token_ns is None


def test_a_frame_counts_when_its_last_byte_came() -> None:
    """A frame split over two reads is one event at the second read's time."""
    data = delta("hello")
    chunks = [(20.0, data[:9]), (80.0, data[9:]), (90.0, DONE)]
    timeline = build(stream(chunks))
    assert ms(timeline.first_byte_ns) == 20.0
    assert ms(timeline.first_token_ns) == 80.0


def test_a_read_that_returned_at_once_is_known_to_an_interval() -> None:
    """It arrived somewhere after the read before it (design: Network)."""
    chunks = [(20.0, delta("a")), (70.0, delta("b")), (71.0, DONE)]
    timeline = build(stream(chunks, at_once=frozenset({1})))
    second = timeline.arrivals[1].at
    assert (ms(second.earliest), ms(second.latest)) == (20.0, 70.0)
    assert timeline.arrivals[0].at.width == 0


def test_a_body_that_is_not_streamed_has_no_first_token() -> None:
    body = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    whole = json.dumps(body).encode()
    timeline = build(stream([(40.0, whole[:20]), (50.0, whole[20:])], kind="application/json"))
    assert timeline.first_token_ns is None
    assert not timeline.streamed
    assert ms(timeline.wall_ns) == 50.0
    assert timeline.verdict == "complete"
    assert timeline.finish == {0: "stop"}


def test_several_choices_start_with_the_first_and_end_with_the_last() -> None:
    def choice(index: int, text: str) -> bytes:
        return sse(
            {
                "object": "chat.completion.chunk",
                "choices": [{"index": index, "delta": {"content": text}, "finish_reason": None}],
            }
        )

    chunks = [
        (20.0, choice(1, "a")),
        (30.0, choice(0, "b")),
        (45.0, choice(1, "c")),
        (50.0, finish(index=0) + finish(index=1) + DONE),
    ]
    timeline = build(stream(chunks))
    assert ms(timeline.first_token_ns) == 20.0
    assert ms(timeline.last_token_ns) == 45.0
    assert "several_choices" in timeline.flags


def test_truth_is_never_read() -> None:
    """Law 8: the same call with and without truth has the same timeline."""
    from latscope.recording import SegmentTruth, Truth

    truth = Truth(segments=(SegmentTruth(name="queue", ns=1),), ttft=None, source="test")
    chunks = [(20.0, delta("a")), (21.0, DONE)]
    assert build(stream(chunks)) == build(stream(chunks, truth=truth))


def test_an_unknown_dialect_still_has_bytes_and_an_end() -> None:
    timeline = build(call(attempt([(9.0, b"data: 1\n\n"), (19.0, b"data: 2\n\n")]), path="/odd"))
    assert timeline.dialect is None
    assert "unknown_dialect" in timeline.flags
    assert ms(timeline.first_byte_ns) == 9.0
    assert ms(timeline.wall_ns) == 19.0
    assert timeline.verdict == "complete"
