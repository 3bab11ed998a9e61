"""The recordings written by hand: they are what their script makes, and they say what they are."""

from dataclasses import replace

import pytest

from latscope.documents.recordings import read
from latscope.protocols.mask import mask
from latscope.recording import Recording, to_line

from .synthetic_native import FOLDER, recordings

MADE = {made.call_id: made for made in recordings()}


def kept(name: str) -> Recording:
    (found,) = read(FOLDER / f"{name}.jsonl")
    return found


@pytest.mark.parametrize("name", MADE)
def test_the_file_is_what_the_script_writes(name: str) -> None:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    assert text == to_line(MADE[name]) + "\n"


@pytest.mark.parametrize("name", MADE)
def test_it_says_that_it_is_synthetic_and_after_what(name: str) -> None:
    tags = kept(name).tags
    assert tags["origin"] == "synthetic"
    assert tags["source"]


CANARIES = (
    b"lamp is",
    b"Yes",
    b"yields",
    b"set_lamp",
    b"hall",
    b"mcp/lamps",
    b'"text","text"',
    b"not found",
    b"required",
    b"[1, 2, 3]",
)
STAYS = {
    "synthetic-ollama-chat-stream": (
        b'"model": "tiny:1b"',
        b'"created_at": "2026-11-29T12:00:00.500000Z"',
        b'"role": "assistant"',
        b'"done_reason": "stop"',
        b'"total_duration": 640000000',
        b'"prompt_eval_cached_count": 12',
        b'"eval_count": 8',
    ),
    "synthetic-ollama-generate-stream": (b'"response": "xxxxxxx"', b'"context": [1, 1, 1]'),
    "synthetic-lmstudio-chat-stream": (
        b'"model_instance_id": "lab/tiny-1b"',
        b"event: prompt_processing.progress",
        b'"progress": 0.5',
        b'"load_time_seconds": 0.4',
        b'"time_to_first_token_seconds": 0.081',
        b'"total_output_tokens": 8',
        b'"response_id": "resp_02b2017dbc06c12bfc353a2ed6c2b802"',
    ),
    "synthetic-lmstudio-chat-error": (b'"type": "invalid_request"',),
    "synthetic-llama-chat_progress-stream": (
        b'"prompt_progress": {"total": 900, "cache": 100, "processed": 400, "time_ms": 130}',
    ),
    "synthetic-deepseek-chat_keepalive-stream": (b": keep-alive\n",),
}


@pytest.mark.parametrize("name", MADE)
def test_the_mask_takes_what_was_said_and_leaves_what_counts(name: str) -> None:
    """Text, names of tools, arguments and answers of tools go; figures, reasons and ids stay."""
    body = mask(kept(name)).attempts[0].body
    assert body is not None
    assert not [text for text in CANARIES if text in body]
    assert not [text for text in STAYS.get(name, ()) if text not in body]


def test_the_mask_keeps_a_native_requests_settings() -> None:
    """What was asked of Ollama and LM Studio, without what was said."""
    request = {
        "model": "tiny:1b",
        "think": "high",
        "reasoning": "off",
        "keep_alive": "5m",
        "options": {"num_predict": 8, "num_ctx": 4096, "repeat_penalty": 1.1},
        "context_length": 8000,
        "system_prompt": "canary",
        "template": "canary {{ .Prompt }}",
        "images": ["canary"],
        "context": [1, 2, 3],
        "integrations": [{"headers": {"Authorization": "canary"}}],
    }
    masked = mask(replace(MADE["synthetic-ollama-chat-body"], request=request)).request
    assert masked == {
        "model": "tiny:1b",
        "think": "high",
        "reasoning": "off",
        "keep_alive": "5m",
        "options": {"num_predict": 8, "num_ctx": 4096, "repeat_penalty": 1.1},
        "context_length": 8000,
        "system_prompt": {"len": 6},
        "template": {"len": 20},
        "images": [{"len": 6}],
    }


def test_what_openrouters_moments_are_called_stays() -> None:
    """`debug.timings` names the moment each time is of; the body it echoes goes."""
    made = MADE["synthetic-deepseek-chat_keepalive-stream"]
    (answer,) = made.attempts
    body = (
        b'{"choices":[],"debug":{"echo_upstream_body":{"a":"canary"},'
        b'"timings":{"event":"first_token_received","start_ms":812.5}}}'
    )
    masked = mask(replace(made, attempts=(replace(answer, body=body),))).attempts[0].body or b""
    assert b"canary" not in masked
    assert b'{"event":"first_token_received","start_ms":812.5}' in masked
