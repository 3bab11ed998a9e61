"""Places where content once slipped through the mask, or attribution through it."""

import json
import subprocess
import sys
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.protocols.mask import mask
from latscope.protocols.mask.payload import mask_payload, mask_secrets
from latscope.protocols.mask.request import skeleton
from latscope.protocols.mask.secrets import scrub

from .test_mask_attribution import chat
from .test_mask_properties import body_of, call

CANARY = "canary-of-arguments"
NUMBER = 4111111111111111


def test_arguments_whose_keys_are_words_of_requests() -> None:
    """A Messages tool call keeps the size of its `input`, whatever its keys are called."""
    given: dict[str, Any] = {"model": CANARY, "type": CANARY, "n": NUMBER, "title": "a"}
    block = {"type": "tool_use", "name": "pay", "input": given}
    masked = skeleton({"messages": [{"role": "assistant", "content": [block]}]})
    kept = masked["messages"][0]["content"][0]["input"]
    assert kept == {"len": len(json.dumps(given, separators=(",", ":")))}
    assert skeleton(masked) == masked


@pytest.mark.parametrize("prefix", ["", "data: "])
def test_inner_objects_of_a_cut_document(prefix: str) -> None:
    """Arguments on a line of their own are no JSON line."""
    inner = json.dumps({"model": CANARY, "status": "positive", "n": NUMBER})
    body = "\n".join(prefix + line for line in ("{", '"a": {"arguments":', inner, "")).encode()
    masked = body_of(mask(call(body)))
    for canary in (CANARY, "positive", str(NUMBER)):
        assert canary.encode() not in masked


def test_a_sentence_is_no_provider() -> None:
    assert b"Google AI Studio" in mask_payload(b'{"provider":"Google AI Studio"}')
    assert b"ill" not in mask_payload(b'{"provider":"Bob Smith is ill"}')


def test_a_stop_token_is_a_token_id() -> None:
    """vLLM names it beside the finish reason."""
    masked = mask_payload(b'{"choices":[{"finish_reason":"stop","stop_reason":128009}]}')
    assert masked == b'{"choices":[{"finish_reason":"stop","stop_reason":111111}]}'


def test_secrets_of_a_cut_payload() -> None:
    """`keep_content`: identities go even where it cannot be seen how far they reach."""
    cut = b'{"safety_identifier":12345678,"text":"kept","metadata":{"a":"bob@b.example"},"u'
    masked = mask_secrets(cut)
    assert masked == b'{"safety_identifier":11111111,"text":"kept","metadata":' + b"x" * 24


def test_secrets_under_escaped_keys() -> None:
    assert mask_secrets(rb'{"us\u0065r":"bob"}') == rb'{"us\u0065r":"xxx"}'


def test_escaped_keys_are_known() -> None:
    assert mask_payload(rb'{"\u0063ontent":"bob"}') == rb'{"\u0063ontent":"xxx"}'


def test_a_local_version_in_the_fingerprint_still_names_the_engine() -> None:
    recording = chat({"content": "a"}, system_fingerprint="vllm-0.32.0+cu129-37a15ef7")
    assert attribute(recording).provider == attribute(mask(recording)).provider == "vllm"


LONG = """
import json
from latscope.protocols.mask.payload import mask_payload, mask_secrets
from latscope.protocols.mask.secrets import scrub
text = {text}
payload = json.dumps({{"content": text}}).encode()
scrub(text), mask_payload(payload), mask_secrets(payload)
"""


@pytest.mark.parametrize("text", ["'-eyJ' * 500_000", "'I think ' + 'a' * 2_000_000"])
def test_long_texts_end(text: str) -> None:
    """Linear, two megabytes are a second; the first was quadratic once, and would take a quarter
    of an hour."""
    done = subprocess.run([sys.executable, "-c", LONG.format(text=text)], timeout=180, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://bob:hunter2pass@h/?x=1", "https://xxxxxxxxxxxxxxx@h/?x=1"),
        ("https://h/p?a=1&api_key=abcd1234&x=1", "https://h/p?a=1&xxxxxxxxxxxxxxxx&x=1"),
        ("BEARER abcdefghijklmnop", "BEARER xxxxxxxxxxxxxxxx"),
        ("https://example.com:8080/x@y a://b c:d@e", "https://example.com:8080/x@y a://b c:d@e"),
    ],
)
def test_credentials_in_urls_go_even_where_content_stays(text: str, kept: str) -> None:
    assert scrub(text) == kept
