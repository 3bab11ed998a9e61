"""The mask of what surrounds a body: headers, path, names, the request."""

from typing import Any

import pytest

from latscope.protocols.mask import mask
from latscope.protocols.mask.head import mask_headers, mask_name
from latscope.protocols.mask.request import skeleton
from latscope.recording import Attempt, Recording, Target
from latscope.timeline.build import HOP_HEADERS


def call(path: str = "/v1/responses", host: str = "h", **fields: Any) -> Recording:
    target = Target(scheme="https", host=host, port=443, path=path)
    return Recording(call_id="c", started_at="t", target=target, **fields)


KEPT = """x-request-id request-id retry-after retry-after-ms server-timing openai-processing-ms
    x-ratelimit-remaining-tokens anthropic-ratelimit-input-tokens-reset x-time-per-token
    x-envoy-upstream-service-time x-kong-proxy-latency x-litellm-response-duration-ms
    x-litellm-timing-llm-api-ms
    x-litellm-attempted-retries fireworks-server-time-to-first-token x-groq-region cf-ray via server
    content-type content-encoding transfer-encoding x-should-retry x-accel-buffering x-ms-region
    llm_provider-openai-processing-ms llm_provider-x-ratelimit-limit-requests X-Request-ID"""
DROPPED = """set-cookie cookie authorization proxy-authorization www-authenticate x-api-key api-key
    x-auth-token x-amz-security-token openai-organization anthropic-organization-id date location
    x-new-header llm_provider-set-cookie x-litellm-api-key x-csrf-token date"""


@pytest.mark.parametrize("name", KEPT.split())
def test_headers_kept(name: str) -> None:
    """Request ids, rate limits, retries, timings, hops and framing; names in lower case."""
    assert mask_headers(((name, "7"),), ()) == ((name.lower(), "7"),)


@pytest.mark.parametrize("name", DROPPED.split())
def test_headers_dropped(name: str) -> None:
    """Everything else, credentials and identities first."""
    assert mask_headers(((name, "7"),), ()) == ()


@pytest.mark.parametrize("name", ["cookie", "Set-Cookie", "authorization", "x-api-key"])
def test_no_asking_keeps_a_credential(name: str) -> None:
    """`keep_headers` adds names, not exceptions."""
    assert mask_headers(((name, "7"),), [name, "x-mine"]) == ()
    assert mask_headers((("X-Mine", "7"),), [name, "x-Mine"]) == (("x-mine", "7"),)


def test_values_are_cut_and_scrubbed() -> None:
    """256 characters; what looks like a key is turned to x."""
    key = "sk-abcdefghijklmnop0123"
    headers = (("via", "a" * 300), ("server", f"it is {key}"))
    assert mask_headers(headers, ()) == (("via", "a" * 256), ("server", f"it is {'x' * len(key)}"))


@pytest.mark.parametrize(
    "name",
    """via cf-ray x-envoy-decorator-operation x-kong-upstream-status x-litellm-model-api-base
    x-amz-cf-id x-cache x-served-by x-portkey-request-id helicone-status cf-aig-model x-proxy-node
    x-varnish fly-request-id""".split(),  # noqa: SIM905
)
def test_a_hop_stays_a_hop(name: str) -> None:
    """The timeline reads from the names of headers whether proxies lie on the way."""
    assert HOP_HEADERS.fullmatch(name)
    ((kept, value),) = mask_headers(((name, "Bob!"),), ())
    assert kept == name
    assert value in ("Bob!", "xxxx")


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/openai/deployments/my-gpt-4o-deployment/chat/completions?api-version=2026-01-01",) * 2,
        ("/v1beta/models/gemini-2.5-flash:streamGenerateContent",) * 2,
        ("/team-a/v1/messages", "/team-a/v1/messages"),
        ("/v1/0123456789abcdef0123/openai", f"/v1/{'x' * 20}/openai"),
        ("/a-rather-long-name/v1", f"/{'x' * 18}/v1"),
        ("/models/abcdefghij0123456789kl/x", f"/models/{'x' * 22}/x"),
        ("/v1/chat/completions#frag?key=1", "/v1/chat/completions"),
        ("", ""),
    ],
)
def test_paths(path: str, kept: str) -> None:
    """Words of APIs, versions, model names and short segments stay; queries go."""
    masked = mask(call(path)).target.path
    assert masked == kept.partition("?")[0]


def test_user_info_goes() -> None:
    """The host stays."""
    assert mask(call(host="bob:pw@api.test")).target.host == "api.test"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (None, None),
        ("httpx2.ReadTimeout", "httpx2.ReadTimeout"),
        ("gc", "gc"),
        ("ValueError: Bob", "x" * 15),
        ("Bob is ill " * 20, "x" * 64),
    ],
)
def test_names_of_exceptions(name: str | None, kept: str | None) -> None:
    """Class names stay, messages go."""
    assert mask_name(name) == kept


def test_what_lives_in_memory_only_goes() -> None:
    """And the rest of the recording stays: tags, trace, turn, sample are the user's own."""
    attempt = Attempt(wire=(b"a",), tcp_raw=(("end", 1, b"b"),), encoding="gzip")
    before = call(
        attempts=(attempt,), sent=b"c", context=object(), tags={"team": "t"}, turn="u", in_flight=3
    )
    after = mask(before)
    assert (after.sent, after.context) == (None, None)
    assert (after.attempts[0].wire, after.attempts[0].tcp_raw) == (None, ())
    assert (after.tags, after.turn, after.in_flight) == ({"team": "t"}, "u", 3)
    assert after.attempts[0].encoding == "gzip"
    assert after.masked
    assert after.request is None
    assert not before.masked


def test_notes_of_capture_lose_credentials() -> None:
    """What capture could not do stays in words."""
    key = "gsk_abcdefghijklmnop0123"
    assert mask(call(broken=(f"no {key}", "y"))).broken == (f"no {'x' * len(key)}", "y")


SKELETONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "settings stay": (
        {"model": "m/x-1", "stream": True, "max_tokens": 64, "temperature": 0.5, "seed": 7},
        {"model": "m/x-1", "stream": True, "max_tokens": 64, "temperature": 0.5, "seed": 7},
    ),
    "words stay when they are words": (
        {"service_tier": "flex", "reasoning_effort": "low", "verbosity": "Bob is ill"},
        {"service_tier": "flex", "reasoning_effort": "low", "verbosity": {"len": 10}},
    ),
    "nested settings": (
        {"stream_options": {"include_usage": True, "bob": 1}, "reasoning": {"effort": "high"}},
        {"stream_options": {"include_usage": True}, "reasoning": {"effort": "high"}},
    ),
    "messages become roles and lengths in bytes": (
        {"messages": [{"role": "user", "content": "é"}, {"role": "tool", "content": None}]},
        {"messages": [{"role": "user", "content": {"len": 2}}, {"role": "tool", "content": None}]},
    ),
    "parts keep their type": (
        {"input": [{"type": "message", "content": [{"type": "input_text", "text": "abc"}]}]},
        {"input": [{"type": "message", "content": [{"type": "input_text", "text": {"len": 3}}]}]},
    ),
    "token ids become a count": (
        {"prompt": [[40, 7], [9]], "input": [1, "a"], "stop": []},
        {"prompt": [{"count": 2}, {"count": 1}], "input": {"count": 1}, "stop": []},
    ),
    "free-form subtrees become a length": (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [7]}}}]},
        {
            "tools": [
                {"type": "function", "function": {"name": {"len": 1}, "parameters": {"len": 9}}}
            ]
        },
    ),
    "free-form values that say nothing stay": (
        {"audio": None, "prediction": True, "logit_bias": 5},
        {"audio": None, "prediction": True, "logit_bias": {"len": 1}},
    ),
    "tool choice": (
        {"tool_choice": "auto", "functions": [{"name": "f"}]},
        {"tool_choice": "auto", "functions": [{"name": {"len": 1}}]},
    ),
    "unknown keys, identities and credentials are left out": (
        {"bob": 1, "user": "b", "metadata": {}, "api_key": "k", "extra_headers": {}, "n": 1},
        {"n": 1},
    ),
    "a lone surrogate has a length": ({"prompt": "\ud800"}, {"prompt": {"len": 3}}),
    "a measure is read as it stands": (
        {"prompt": {"len": 5}, "input": {"count": 2}, "instructions": {"len": 10**9}},
        {"prompt": {"len": 5}, "input": {"count": 2}, "instructions": {}},
    ),
}


@pytest.mark.parametrize(("request_", "expected"), SKELETONS.values(), ids=SKELETONS.keys())
def test_skeleton(request_: dict[str, Any], expected: dict[str, Any]) -> None:
    """What was asked for stays, what was said is measured; the request itself is not changed."""
    assert skeleton(request_) == expected
    assert mask(call(request=request_)).request == expected


def test_kept_requests_lose_secrets_only() -> None:
    """At any depth, and credentials inside texts."""
    request = {
        "messages": [{"role": "user", "content": "key is sk-abcdefghijklmnop0123", "n": [1]}],
        "tools": [{"headers": {"a": "b"}, "password": "p", "max_tokens": 1}],
    }
    assert mask(call(request=request), keep_content=True).request == {
        "messages": [{"role": "user", "content": "key is " + "x" * 23, "n": [1]}],
        "tools": [{"max_tokens": 1}],
    }
