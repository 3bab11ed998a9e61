"""What holds for every dialect: detection, first tokens, and no exception whatever comes."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latscope.protocols import DIALECTS, detect
from latscope.protocols.dialect import Dialect, Encoder, Piece, Reply
from latscope.protocols.events import TOKEN_KINDS, VISIBLE_KINDS, Usage
from latscope.units import MS

from .frames import decode, decode_wire, frame, words

EVERY = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.api)


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/chat/completions", "chat"),
        ("/chat/completions", "chat"),
        ("/openai/deployments/gpt/chat/completions", "chat"),
        ("/openai/deployments/gpt/chat/completions?api-version=1", "chat"),
        ("/api/v1/chat/completions/", "chat"),
        ("/v1/completions", "completions"),
        ("/openai/deployments/gpt/completions", "completions"),
        ("/v1/responses", "responses"),
        ("/openai/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/anthropic/v1/messages", "messages"),
        ("/messages", "messages"),
        ("/api/chat", "ollama"),
        ("/ollama/api/generate", "ollama"),
        ("/api/v1/chat", "lmstudio"),
        ("/api/v1/chat/completions", "chat"),
        ("/api/chat/completions", "chat"),
        ("/v1/embeddings", None),
        ("/generate", None),
        ("/v1/messages/count_tokens", None),
        ("", None),
    ],
)
def test_the_path_names_the_dialect(path: str, api: str | None) -> None:
    """The end of the path decides, with or without /v1 and whatever stands before it."""
    found = detect(path)
    assert (found and found.api) == api


@pytest.mark.parametrize(
    ("name", "data", "api"),
    [
        ("", {"object": "chat.completion.chunk"}, "chat"),
        ("", {"object": "", "choices": [{"delta": {}}]}, "chat"),
        ("message", {"object": "chat.completion.chunk"}, "chat"),
        ("", {"object": "chat.completion"}, "chat"),
        ("", {"object": "text_completion"}, "completions"),
        ("", {"choices": [{"text": ""}]}, "completions"),
        ("response.created", {"type": "response.created"}, "responses"),
        ("", {"type": "response.output_text.delta"}, "responses"),
        ("response.completed", "broken", "responses"),
        ("", {"object": "response"}, "responses"),
        ("message_start", {"type": "message_start"}, "messages"),
        ("", {"type": "content_block_delta"}, "messages"),
        ("", {"type": "message"}, "messages"),
        ("", {"created_at": "2026", "done": False}, "ollama"),
        ("chat.start", {"type": "chat.start"}, "lmstudio"),
        ("", {"type": "prompt_processing.start"}, "lmstudio"),
        ("", {"model_instance_id": "m", "output": []}, "lmstudio"),
        ("", {"done": True}, None),
        ("", {"created_at": "2026", "done": "no"}, None),
        ("ping", {"type": "ping"}, None),
        ("message", {"a": 1}, None),
        ("", {"error": {"type": "x"}}, None),
        ("", {"object": ["x"], "type": 3, "choices": [None]}, None),
        ("", "garbage", None),
    ],
)
def test_content_names_the_dialect(name: str, data: Any, api: str | None) -> None:
    """Where the path says nothing, a frame's or a body's content does."""
    found = detect("/proxy", frames=[frame("x", kind="comment"), frame(data, name=name)])
    assert (found and found.api) == api
    if not name:
        body = detect("/proxy", frame(data).data)
        assert (body and body.api) == api


def test_the_path_goes_before_the_content() -> None:
    """A path that is known is not overruled by what came back."""
    body = json.dumps({"type": "message"}).encode()
    found = detect("/v1/responses", body, [frame({"object": "text_completion"})])
    assert found is not None
    assert found.api == "responses"


def test_a_path_others_use_too_gives_way_to_the_content() -> None:
    """An application's own `/api/chat` that passes on another API's stream is read as that API."""
    chunk = frame({"object": "chat.completion.chunk"})
    for path in ("/api/chat", "/api/v1/chat"):
        for frames, body in (([chunk], None), ([], chunk.data)):
            found = detect(path, body, frames)
            assert found is not None
            assert found.api == "chat"
        unknown = detect(path, None, [frame({"a": 1})])
        assert unknown is detect(path)


def test_names_are_unique() -> None:
    """Each dialect has its own name, its own word and its own signs."""
    assert len({dialect.name for dialect in DIALECTS}) == len(DIALECTS)
    assert len({dialect.api for dialect in DIALECTS}) == len(DIALECTS)
    assert sum(len(d.signs) for d in DIALECTS) == len(
        frozenset().union(*(d.signs for d in DIALECTS))
    )


def timed_stream(encoder: Encoder) -> list[tuple[float, bytes]]:
    """Role or envelope at 0 ms, reasoning at 100, content at 200, usage and the end at 400."""
    end = encoder.finish("stop") + encoder.close(Usage(output_tokens=2), None) + encoder.done()
    return [
        (0, encoder.start() + encoder.ping()),
        (100, encoder.piece(Piece(channel="reasoning", text="hm"))),
        (200, encoder.piece(Piece(channel="content", text="ab"))),
        (400, end),
    ]


@pytest.mark.parametrize(
    ("dialect", "reasoning_key"),
    [
        *((DIALECTS[0], key) for key in ("reasoning_content", "reasoning", "reasoning_details")),
        *((dialect, "") for dialect in DIALECTS if dialect.api not in ("chat", "completions")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.api,
)
def test_first_token_and_first_visible_token(dialect: Dialect, reasoning_key: str) -> None:
    """Role at 0 ms, reasoning at 100, content at 200, usage at 400: the first token of any
    channel is at 100 ms and the first visible one at 200, in every dialect that has both."""
    encoder = dialect.encoder(Reply(id="1", model="m", reasoning_key=reasoning_key))
    events = decode_wire(dialect, *timed_stream(encoder))
    tokens = [event for event in events if event.size]
    assert {event.kind for event in tokens} <= TOKEN_KINDS
    assert [event.ns for event in tokens] == [100 * MS, 200 * MS]
    assert [event.ns for event in tokens if event.kind in VISIBLE_KINDS] == [200 * MS]
    if dialect.api != "ollama":  # which sends nothing before the first token
        assert events[0].ns == 0
    assert events[-1].ns == 400 * MS


KEYS = """
choices delta message index role content reasoning reasoning_details tool_calls function name
arguments id usage prompt_tokens completion_tokens_details error code type object text logprobs
tokens finish_reason metrics queue_time_ms timings predicted_n response output item status
content_block input summary x_groq audio thinking prompt_filter_results content_filter_results
done done_reason eval_count total_duration tool result stats model_instance_id prompt_progress total
processed
"""
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=5)
    ),
    max_leaves=12,
)
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TYPES = sorted(frozenset().union(*(dialect.signs for dialect in DIALECTS)) | {"error", "ping"})


@EVERY
@UNHURRIED
@given(
    values=st.lists(
        st.tuples(JSON_VALUES, st.sampled_from(["", *TYPES]), st.sampled_from(["event", "body"])),
        max_size=4,
    )
)
def test_any_json_decodes(dialect: Dialect, values: list[tuple[Any, str, Any]]) -> None:
    """Whatever JSON a frame holds, every decoder gives at least one event for it."""
    decoder = dialect.decoder()
    for value, kind, frame_kind in values:
        told = value | {"type": kind, "object": kind} if isinstance(value, dict) and kind else value
        assert decoder(frame(told, name=kind, kind=frame_kind))


@EVERY
@UNHURRIED
@given(data=st.binary(max_size=40), truncated=st.booleans())
def test_any_bytes_decode(dialect: Dialect, data: bytes, truncated: bool) -> None:
    """Bytes that are no JSON give an event too."""
    assert decode(dialect, [frame(data, truncated=truncated)])


MANGLED: list[Callable[[Any], Any]] = [
    lambda value: None,
    lambda value: [],
    lambda value: {},
    lambda value: 7,
    lambda value: "x",
    lambda value: [value],
]


def with_each_field_mangled(value: Any) -> list[Any]:
    """Copies of `value`, each with one field somewhere inside of a wrong type."""
    if isinstance(value, dict):
        pairs = [(key, inner) for key, inner in value.items()]
        return [
            value | {key: wrong}
            for key, inner in pairs
            for wrong in [*(mangle(inner) for mangle in MANGLED), *with_each_field_mangled(inner)]
        ]
    if isinstance(value, list) and value:
        return [[wrong, *value[1:]] for wrong in with_each_field_mangled(value[0])]
    return []


@EVERY
def test_a_real_stream_with_any_one_field_wrong_decodes(dialect: Dialect) -> None:
    """Every field of every event of a real answer may be null or of a wrong type."""
    encoder = dialect.encoder(Reply(id="1", model="m"))
    usage = Usage(input_tokens=9, cached_tokens=4, output_tokens=2, reasoning_tokens=1)
    pieces = [Piece(channel="tool_call", text="{}"), Piece(channel="content", text="a")]
    stream = encoder.start() + b"".join(encoder.piece(piece) for piece in pieces)
    stream += encoder.finish("stop") + encoder.close(usage, {"queue_time_ms": 1.5})
    data = b"" if dialect.api == "ollama" else b"data: "
    lines = [line[len(data) :] for line in stream.splitlines() if line.startswith(data)]
    bodies = [dialect.encoder(Reply(id="1", model="m")).whole(pieces, "stop", usage, None)]
    for line in (*lines, *bodies):
        for wrong in with_each_field_mangled(json.loads(line)):
            assert decode(dialect, [frame(wrong, kind="body" if line in bodies else "event")])


@EVERY
def test_an_error_is_named_by_its_type_and_never_by_its_message(dialect: Dialect) -> None:
    """What a server says in an error may quote the prompt: only type and code are kept."""
    encoder = dialect.encoder(Reply(id="1", model="m"))
    frames = [
        frame(dialect.error_body(500, "server_error", "canary-in-message"), kind="body"),
        frame({"error": "canary-in-message"}),
        frame({"error": {"message": "canary-in-message"}}),
    ]
    events = decode(dialect, frames)
    events += decode_wire(dialect, (0, encoder.error("server_error", "canary-in-message")))
    # Ollama's errors have no type.
    name = "error" if dialect.api == "ollama" else "server_error"
    assert words(events) == f"error:{name} error:error error:error error:{name}"
    assert "canary" not in repr(events)
