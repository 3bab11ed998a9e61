"""Masks a request: what was asked for stays (model, limits, roles), what was said is measured.

The skeleton keeps known keys in their places. Under them: numbers, booleans and allow-listed words
as they are; every other string as `{"len": bytes}`; arrays of numbers (token ids) as
`{"count": n}`; free-form subtrees (schemas, arguments, a tool call's `input`) as the length of
their JSON. Unknown keys, identities and credentials are left out.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from latscope.protocols.mask.secrets import is_secret, scrub
from latscope.protocols.mask.vocabulary import words

_STRUCTURE = words(
    """
    messages role content text refusal reasoning reasoning_content thinking signature name
    tool_calls tool_call_id tool_use_id function function_call custom description id call_id index
    image_url image url detail source media_type data file file_id file_data filename input_audio
    video_url audio_url is_error cache_control ttl citations title system instructions input prompt
    suffix stop stop_sequences output summary tools functions tool_choice strict
    response_format text_format format verbosity effort enabled budget_tokens display
    generate_summary system_prompt images
    """
)
_SETTINGS = words(
    """
    model stream stream_options include_usage include_obfuscation continuous_usage_stats
    max_tokens max_completion_tokens max_output_tokens max_tokens_to_sample min_tokens n_predict
    temperature top_p top_k min_p typical_p n best_of seed presence_penalty frequency_penalty
    repetition_penalty length_penalty logprobs top_logprobs prompt_logprobs n_probs echo store
    background parallel_tool_calls disable_parallel_tool_use max_tool_calls service_tier
    reasoning_effort include_reasoning truncation include modalities prompt_cache_retention
    prompt_cache_options mode prewarm previous_response_id encoding_format dimensions
    ignore_eos skip_special_tokens spaces_between_special_tokens include_stop_str_in_output
    use_beam_search truncate_prompt_tokens priority stream_interval return_token_ids
    return_tokens_as_token_ids add_generation_prompt continue_final_message add_special_tokens
    chat_template_kwargs enable_thinking cache_prompt timings_per_token return_progress id_slot
    sse_ping_interval perf_metrics_in_response return_meta_info return_cached_tokens_details
    keep_alive options num_ctx num_predict think raw speed inference_geo type object
    context_length repeat_penalty
    """
)
_MEASURED = words(
    """
    arguments parameters input_schema schema json_schema logit_bias guided_json guided_regex
    guided_choice guided_grammar structured_outputs grammar chat_template kv_transfer_params
    prediction audio web_search_options extra_body mcp_servers context_management container
    template
    """
)
_KNOWN = _STRUCTURE | _SETTINGS | _MEASURED
"""None of them names an identity or a credential."""


def _word(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern).fullmatch


_NAME = _word(r"[a-z0-9_.\-]{1,64}")
_WORDS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(
        words("""type object role effort reasoning_effort service_tier verbosity truncation include
        modalities prompt_cache_retention mode ttl encoding_format speed inference_geo
        media_type keep_alive display"""),
        _NAME,
    ),
    "model": _word(r"[!#-\[\]-~]{1,200}"),
    "media_type": _word(r"[a-z]{1,16}/[a-z0-9.+\-]{1,48}"),
    "tool_choice": _word("auto|none|required|any"),
    "detail": _word("low|high|auto|original"),
    "summary": _word("auto|concise|detailed"),
    "think": _word("low|medium|high"),
    "reasoning": _word("off|low|medium|high|on"),
    "previous_response_id": _word(r"[A-Za-z0-9_.:\-]{1,128}"),
}


def skeleton(request: Mapping[str, Any]) -> dict[str, Any]:
    """The request with nothing said in it; the skeleton of a skeleton is itself."""
    return {key: _masked(key, value) for key, value in request.items() if key in _KNOWN}


def _masked(key: str, value: Any) -> Any:
    if key in _MEASURED or isinstance(value, str):
        return _measured(key, value)
    if isinstance(value, Mapping):
        if _is_measure(value, "len", "count"):
            return value
        # Messages: the arguments of a tool call. (A list is Responses' items, each with its type.)
        return _measured(key, value) if key == "input" else skeleton(value)
    if isinstance(value, Sequence):
        numbers = sum(map(_is_number, value))
        if numbers:
            return {"count": numbers}
        return [_masked("" if isinstance(item, Mapping) else key, item) for item in value]
    return value


def _measured(key: str, value: Any) -> Any:
    if value is None or isinstance(value, bool) or _is_measure(value, "len"):
        return value
    if not isinstance(value, str):
        value = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    elif key in _WORDS and _WORDS[key](value):
        return value
    return {"len": len(value.encode("utf-8", "surrogatepass"))}


def _is_measure(value: Any, *names: str) -> bool:
    """Whether a value is one already: the skeleton of a skeleton is read as it stands."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    ((name, size),) = value.items()
    return name in names and _is_number(size) and 0 <= size < 10**9


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_secrets(value: Any) -> Any:
    """The request whole, but for identities and credentials, which are left out."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not is_secret(key)}
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, Sequence):
        return [without_secrets(item) for item in value]
    return value
