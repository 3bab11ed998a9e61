import json
from typing import Any

import pytest

from latscope.probe.prompts import WORDS, filler, fresh
from latscope.probe.requests import Ask, adapt, body, headers
from latscope.probe.targets import target


def ask(to: str, api: str | None = None, **more: Any) -> Ask:
    return Ask(target=target(to, api=api), model="m", max_tokens=7, **more)


@pytest.mark.parametrize(
    ("to", "api", "has"),
    [
        (
            "openai",
            None,
            {
                "max_completion_tokens": 7,
                "stream_options": {"include_usage": True, "include_obfuscation": False},
            },
        ),
        (
            "openai",
            "responses",
            {
                "max_output_tokens": 7,
                "stream_options": {"include_obfuscation": False},
                "store": False,
            },
        ),
        ("anthropic", None, {"max_tokens": 7}),
        ("vllm", None, {"max_tokens": 7, "stream_options": {"include_usage": True}}),
        ("vllm", "completions", {"max_tokens": 7, "stream_options": {"include_usage": True}}),
        ("vllm", "responses", {"max_output_tokens": 7}),
        ("vllm", "messages", {"max_tokens": 7}),
        ("groq", None, {"max_completion_tokens": 7, "stream_options": {"include_usage": True}}),
        ("mistral", None, {"max_tokens": 7}),
    ],
)
def test_a_body_is_what_the_api_accepts(to: str, api: str | None, has: dict[str, Any]) -> None:
    """The cap in its own spelling, usage asked for where it must be, and nothing else."""
    made = body(ask(to, api), "hello")
    prompt = {"messages", "input", "prompt"} & set(made)
    assert len(prompt) == 1
    rest = {name: value for name, value in made.items() if name not in prompt}
    assert rest == {"model": "m", "stream": True, **has}


def test_without_a_stream_nothing_is_asked_of_it() -> None:
    """stream_options without stream is an error at most vendors."""
    assert "stream_options" not in body(ask("openai", stream=False), "hello")


def test_the_users_own_body_wins() -> None:
    """--extra-body is merged last; no cap is sent when none is wanted."""
    made = body(ask("vllm", extra={"ignore_eos": True, "max_tokens": 9}), "hello")
    assert (made["ignore_eos"], made["max_tokens"]) == (True, 9)
    plain = Ask(target=target("vllm"), model="m", max_tokens=None)
    assert "max_tokens" not in body(plain, "hello")


def test_a_native_apis_body() -> None:
    """Ollama's cap lies inside its options; LM Studio keeps no thread of what a probe asks."""
    message = {"role": "user", "content": "hello"}
    assert body(ask("ollama", "ollama"), "hello") == {
        "model": "m",
        "messages": [message],
        "stream": True,
        "options": {"num_predict": 7},
    }
    assert body(ask("lmstudio", "lmstudio"), "hello") == {
        "model": "m",
        "input": "hello",
        "stream": True,
        "max_output_tokens": 7,
        "store": False,
    }


def test_further_options_leave_the_cap_in_place() -> None:
    """Unless they state one; a server whose options are no object gets the user's word."""
    for given, sent in (
        ({"num_ctx": 4096}, {"num_predict": 7, "num_ctx": 4096}),
        ({"num_predict": 3}, {"num_predict": 3}),
    ):
        assert body(ask("ollama", "ollama", extra={"options": given}), "hello")["options"] == sent
    assert body(ask("vllm", extra={"options": {"a": 1}}), "hello")["options"] == {"a": 1}
    assert body(ask("ollama", "ollama", extra={"options": None}), "hello")["options"] is None


@pytest.mark.parametrize(
    ("to", "api", "answer", "gone", "there", "said"),
    [
        (
            "vllm",
            None,
            {"error": {"message": "Unsupported parameter: 'max_tokens' is not supported with this "
                       "model. Use 'max_completion_tokens' instead.", "param": "max_tokens"}},
            "max_tokens",
            "max_completion_tokens",
            "max_completion_tokens instead of max_tokens",
        ),
        (
            "openai",
            None,
            {"error": {"message": "Unrecognized request argument: max_completion_tokens"}},
            "max_completion_tokens",
            "max_tokens",
            "max_tokens instead of max_completion_tokens",
        ),
        (
            "vllm",
            "responses",
            {"detail": [{"loc": ["body", "max_output_tokens"], "type": "extra_forbidden"}]},
            "max_output_tokens",
            "max_tokens",
            "max_tokens instead of max_output_tokens",
        ),
        (
            "vllm",
            None,
            {"detail": [{"loc": ["body", "stream_options"], "type": "extra_forbidden"}]},
            "stream_options",
            "max_tokens",
            "without stream_options",
        ),
        (
            "openai",
            "responses",
            {"error": {"message": "Unknown parameter: 'store'"}},
            "store",
            "max_output_tokens",
            "without store",
        ),
    ],
)  # fmt: skip
def test_a_refused_parameter_is_respelled_or_left_out(
    to: str, api: str | None, answer: dict[str, Any], gone: str, there: str, said: str
) -> None:
    """The answer names it, by param, message or FastAPI's detail."""
    changed = adapt(ask(to, api), json.dumps(answer).encode())
    assert changed is not None
    made = body(changed[0], "hello")
    assert gone not in made
    assert there in made
    assert changed[1] == said


def test_only_the_padding_switch_is_dropped_when_only_it_is_refused() -> None:
    """Usage is still asked for."""
    answer = b'{"error": {"param": "stream_options.include_obfuscation", "message": "unknown"}}'
    changed = adapt(ask("openai"), answer)
    assert changed is not None
    assert body(changed[0], "x")["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>bad request</html>",
        b'{"error": {"message": "the prompt is too long"}}',
        b'{"error": {"message": "my_max_tokens_limit is wrong"}}',
        b'["what"]',
    ],
)
def test_other_refusals_are_not_answered_with_another_spelling(answer: bytes) -> None:
    """A 400 that names no parameter of ours is an error to show."""
    assert adapt(ask("vllm"), answer) is None


def test_what_the_user_asked_for_is_not_taken_back() -> None:
    """A parameter from --extra-body is theirs to change."""
    answer = b'{"error": {"message": "unknown parameter: stream_options"}}'
    assert adapt(ask("vllm", extra={"stream_options": {}}), answer) is None


def test_keys_go_where_the_api_looks_for_them() -> None:
    """Anthropic's header, a bearer token elsewhere, both where a server may want either."""
    sent = headers(ask("anthropic", key="k1"), "r1")
    assert (sent["x-api-key"], sent["anthropic-version"]) == ("k1", "2023-06-01")
    assert "authorization" not in sent
    assert headers(ask("openai", key="k1"), "r1")["authorization"] == "Bearer k1"
    both = headers(ask("vllm", "messages", key="k1"), "r1")
    assert (both["authorization"], both["x-api-key"]) == ("Bearer k1", "k1")
    assert headers(ask("vllm"), "r1")["x-request-id"] == "r1"


def test_own_headers_win_whatever_their_case() -> None:
    """-H replaces, it does not repeat."""
    sent = headers(ask("openai", key="k1", headers=(("Authorization", "mine"),)), "r1")
    assert sent["authorization"] == "mine"


def test_a_key_is_never_in_a_repr() -> None:
    """Nor are own headers, which may carry one."""
    shown = repr(ask("openai", key="sk-canary-123456", headers=(("x-key", "canary-654321"),)))
    assert "canary" not in shown


def test_filler_is_the_same_for_the_same_seed() -> None:
    """So two probes ask the same, and about as long as was asked for."""
    assert filler(500, 1) == filler(500, 1) != filler(500, 2)
    assert len(filler(500, 1).split()) == pytest.approx(500, abs=30)
    assert set(filler(200, 3).split("\n")[0].split()) <= set(WORDS)


def test_a_nonce_makes_each_prompt_new_from_its_first_token() -> None:
    """A prefix cache cannot serve what it has not seen."""
    assert fresh("same")[:8] != fresh("same")[:8]
    assert fresh("same").endswith("same")
