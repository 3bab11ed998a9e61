"""The words of responses that hold structure, not content: what a masked body keeps.

A lookup answers for one JSON object: what may stay of the value under a key. `None` means the key
itself is unknown, so it and all below it are masked. Structure is what the dialects read (docs of
the OpenAI, Anthropic and Ollama APIs, the servers' own protocol sources); a string under a
structural key stays only when it also has the shape of such a value, so that content put there by
mistake gives away an identifier at most.

    NORMAL      the default
    TOP         the payload itself: its `id` is the response's
    ENVELOPE    `response` (Responses) and `message` (Messages): the same, one level down
    CHOICE      an element of `choices`: `stop_reason` is the stop string or token id there (vLLM)
    ERROR       an error object: `type` and `code` stay
    TELEMETRY   usage and timings: every plainly named figure stays, new ones too
    LOGPROBS    the names of its lists stay, for their lengths count tokens; nothing else does
    AUDIO       likewise `transcript` and `data`, for whether they are empty tells of output
    OPAQUE      nothing stays but JSON's own punctuation and literals
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, TypeAlias

Shape: TypeAlias = Callable[[bytes], object]
"""Says whether a string's inside (as written, escapes included) may stay."""

Lookup: TypeAlias = "Callable[[bytes], Field | None]"


class Field(NamedTuple):
    """What may stay under one key: a string of this shape (none when null), and within an object
    or array what `inside` says. Numbers stay unless `inside` is OPAQUE."""

    shape: Shape | None
    inside: Lookup


def shape(pattern: bytes) -> Shape:
    return re.compile(pattern).fullmatch


WORD = shape(rb"[a-z0-9_.\-]{1,64}")
REASON = shape(rb"[A-Za-z0-9_.\-]{1,64}")
ID = shape(rb"[A-Za-z0-9_.:\-]{1,128}")
RANDOM_ID = shape(
    rb"(?:call|toolu|srvtoolu|fc|msg|rs|resp|chatcmpl-tool)[_-](?=[A-Za-z]*[0-9])[A-Za-z0-9]{16,64}"
)
"""An id some server drew: it tells calls apart, and holds no word anybody chose."""
MODEL = shape(rb"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
NAME = shape(rb"[A-Za-z0-9][A-Za-z0-9_.\-]{0,23}(?: [A-Za-z0-9_.\-]{1,16}){0,2}")
"""A vendor's name: three words at most, which is no sentence."""
FINGERPRINT = shape(rb"[A-Za-z0-9_.:+\-]{1,128}")
"""An id that may hold a version with a local part (vLLM: `vllm-0.32.0+cu129-37a15ef7`)."""
DATE = shape(rb"[0-9TZ:.+\-]{8,40}")
FIGURE = shape(rb"-?[0-9]{1,12}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?(?: ?(?:ns|us|ms|s))?")
FIGURE_NAME = shape(rb"[A-Za-z][A-Za-z0-9_\-]{0,47}")
ROLE = shape(rb"system|developer|user|assistant|tool|function|model|critic|discriminator")

_PHRASES = frozenset(status.phrase.encode() for status in HTTPStatus)


def error_name(value: bytes) -> object:
    """An error's type or code: a name, or an HTTP reason phrase (vLLM sends `Not Found`)."""
    return REASON(value) or value in _PHRASES


def words(text: str) -> frozenset[str]:
    """The words of a text: lists of names are easier to read so."""
    return frozenset(text.split())


def _fields(names: bytes, like: Field) -> dict[bytes, Field]:
    return dict.fromkeys(names.split(), like)


_nothing: dict[bytes, Field] = {}
OPAQUE: Lookup = _nothing.get

_normal: dict[bytes, Field] = {}
NORMAL: Lookup = _normal.get

PLAIN = Field(None, NORMAL)
HIDDEN = Field(None, OPAQUE)

_CONTENT = b"""
    choices delta message messages content text refusal reasoning reasoning_content
    reasoning_details reasoning_text thinking thinking_blocks signature summary tool_calls
    function_call function custom name description partial_json content_block index data item part
    output output_text result error detail errors msg param code event response instructions tools
    tool_choice format text_format store background parallel_tool_calls max_tool_calls
    temperature top_p top_k n seed max_tokens max_output_tokens max_completion_tokens
    max_tokens_to_sample presence_penalty frequency_penalty stream strict obfuscation
    created created_at completed_at expires_at sequence_number output_index content_index
    summary_index annotation_index partial_image_index
    stop_sequence stop_details explanation encrypted_content debug cached_tokens
    phase candidates parts finishMessage avgLogprobs functionCall
    done total_duration load_duration prompt_eval_count prompt_eval_duration
    prompt_eval_cached_count eval_count eval_duration
    stop truncated tokens_predicted tokens_evaluated tokens_cached id_slot has_new_line
    stopping_word is_last_response
    tool progress load_time_seconds
"""
_HIDDEN = b"""
    arguments input metadata parsed schema audio embedding embeddings
    annotations annotation citations citation action actions results parameters input_schema
    json_schema output_schema bytes token_ids prompt_token_ids output_ids tokens context
    prompt user safety_identifier prompt_cache_key content_filter_results prompt_filter_results
    content_filter_offsets content_filter_result moderation prompt_logprobs kv_transfer_params
    generation_settings container context_management conversation logit_bias logprobs_result
    inlineData
"""
_TELEMETRY = b"""
    usage metrics timings time_info perf_metrics x_groq stats meta_info nvext sglext
    prompt_progress openrouter_metadata usageMetadata usage_metadata performanceConfig
    amazon-bedrock-invocationMetrics incomplete_details diagnostics prompt_cache_diagnostics
    prompt_cache_options stream_options service_tiers tool_usage
"""
_WORDS = b"""
    type object status service_tier effort truncation verbosity speed inference_geo
    prompt_cache_retention done_reason stop_type region mode ttl
"""
_REASONS = b"finish_reason native_finish_reason finishReason stop_reason stopReason"
_IDS = b"request_id previous_response_id responseId response_id"
_STRUCTURE: dict[bytes, Field] = {
    **_fields(_WORDS, Field(WORD, NORMAL)),
    **_fields(_REASONS, Field(REASON, NORMAL)),
    **_fields(_IDS, Field(ID, NORMAL)),
    **_fields(b"system_fingerprint fingerprint", Field(FINGERPRINT, NORMAL)),
    **_fields(b"id item_id call_id tool_call_id tool_use_id", Field(RANDOM_ID, NORMAL)),
    b"role": Field(ROLE, NORMAL),
    b"model": Field(MODEL, NORMAL),
    b"modelVersion": Field(MODEL, NORMAL),
    b"model_instance_id": Field(MODEL, NORMAL),
    b"provider": Field(NAME, NORMAL),
    b"created_at": Field(DATE, NORMAL),
    b"tool_choice": Field(shape(b"auto|none|required|any"), NORMAL),
}

_telemetry: dict[bytes, Field] = {}


def TELEMETRY(key: bytes) -> Field | None:
    """Usage and timings: names this version does not know stay too, for a later one may."""
    return _telemetry.get(key) or (_ANY_FIGURE if FIGURE_NAME(key) else None)


_ANY_FIGURE = Field(FIGURE, TELEMETRY)

_LISTS = b"content refusal tokens token_logprobs top_logprobs text_offset"
LOGPROBS: Lookup = _fields(_LISTS, HIDDEN).get
AUDIO: Lookup = _fields(b"transcript data", HIDDEN).get

_error: dict[bytes, Field] = {}
ERROR: Lookup = _error.get

_normal.update(
    {
        **_fields(_CONTENT, PLAIN),
        **_fields(_HIDDEN, HIDDEN),
        **_fields(_TELEMETRY, Field(None, TELEMETRY)),
        **_STRUCTURE,
        b"logprobs": Field(None, LOGPROBS),
        b"top_logprobs": HIDDEN,
        b"audio": Field(None, AUDIO),
        b"error": Field(None, ERROR),
    }
)
ENVELOPE: Lookup = {**_normal, b"id": Field(ID, NORMAL)}.get
CHOICE: Lookup = {**_normal, b"stop_reason": HIDDEN}.get
_in_envelope = Field(None, ENVELOPE)
_normal.update(
    {b"response": _in_envelope, b"message": _in_envelope, b"choices": Field(None, CHOICE)}
)
TOP: Lookup = {**_normal, b"id": Field(ID, NORMAL)}.get
_error.update(
    {
        **_normal,
        **_fields(b"type code", Field(error_name, ERROR)),
        b"error": Field(None, ERROR),
    }
)
TOP_ERROR: Lookup = {**_error, b"id": Field(ID, NORMAL)}.get
"""TOP of a payload that is an error object itself."""

_telemetry.update(
    {
        **{key: Field(field.shape, TELEMETRY) for key, field in _STRUCTURE.items()},
        **_fields(b"arguments input metadata parsed schema audio embedding prompt", HIDDEN),
        b"id": Field(ID, TELEMETRY),
        b"reason": Field(REASON, TELEMETRY),
        b"event": Field(WORD, TELEMETRY),  # which moment a timing is of (OpenRouter's debug)
        b"error": Field(None, ERROR),
        b"logprobs": Field(None, LOGPROBS),
    }
)

EVENTS = frozenset(
    b"""ping error completion done message delta data close
    message_start message_delta message_stop content_block_start content_block_delta
    content_block_stop
    chat.start chat.end model_load.start model_load.progress model_load.end
    prompt_processing.start prompt_processing.progress prompt_processing.end
    reasoning.start reasoning.delta reasoning.end message.start message.delta message.end
    tool_call.start tool_call.arguments tool_call.success tool_call.failure
    """.split()
)
"""Names of SSE events, besides those of Responses (see `event_name`)."""

_RESPONSES_EVENT = shape(rb"response(?:\.[a-z0-9_]{1,48}){1,3}")


def event_name(value: bytes) -> object:
    return value in EVENTS or _RESPONSES_EVENT(value)


_KEEP_ALIVES = b"keep-alive keepalive ping heartbeat preempted resumed preempt-keepalive"
COMMENTS = frozenset({b"", b"openrouter processing", *_KEEP_ALIVES.split()})
"""Keep-alives servers send as SSE comments, in lower case (DeepSeek, OpenRouter, vLLM, LiteLLM,
llama.cpp, TGI)."""

SENTINELS = frozenset({b"[DONE]", b""})
"""Payloads that are no JSON and end a stream, or say nothing."""
