"""Masks what surrounds a body: response headers, the URL's path, the names of exceptions."""

import re
from collections.abc import Collection
from dataclasses import replace

from latscope.protocols.mask.secrets import scrub
from latscope.protocols.mask.vocabulary import words
from latscope.protocols.reported.hops import LONGEST_TIMING, PASSED_ON
from latscope.recording import Target

Headers = tuple[tuple[str, str], ...]

LONGEST_VALUE = 256
"""Characters of a header's value that are kept, but for Server-Timing, a list of any length."""

_KEPT = words(
    """
    request-id x-request-id x-ms-request-id apim-request-id x-ms-client-request-id
    x-correlation-id mistral-correlation-id x-generation-id x-amzn-requestid x-amzn-trace-id
    x-cloud-trace-context x-goog-request-id x-litellm-call-id x-kong-request-id x-together-traceid
    x-portkey-trace-id helicone-id cf-ray cf-aig-log-id cf-aig-event-id traceparent traceresponse
    nvcf-reqid x-trace-id
    retry-after retry-after-ms x-should-retry
    server-timing openai-processing-ms openai-version anthropic-version
    x-envoy-upstream-service-time x-envoy-attempt-count x-envoy-overloaded x-envoy-ratelimited
    x-runtime x-response-time x-processing-time x-process-time x-upstream-time
    x-kong-proxy-latency x-kong-upstream-latency x-kong-response-latency x-kong-llm-model
    x-litellm-attempted-retries x-litellm-attempted-fallbacks x-litellm-model-id
    x-compute-time x-compute-type x-compute-characters x-total-time x-validation-time x-queue-time
    x-inference-time x-time-per-token x-prompt-tokens x-generated-tokens
    x-metrics-ttft-ms x-metrics-mean-itl-ms x-metrics-e2e-ms
    x-api-received x-api-call-start x-api-call-end x-inference-version x-cluster x-engine-pod
    x-amzn-bedrock-invocation-latency x-amzn-bedrock-input-token-count
    x-amzn-bedrock-output-token-count x-amzn-bedrock-cache-read-input-token-count
    x-amzn-bedrock-cache-write-input-token-count
    azure-openai-deployment-utilization x-ms-served-model
    x-accel-buffering x-cache x-cache-status cf-cache-status cf-aig-cache-status cf-aig-step
    helicone-cache helicone-cache-bucket-idx helicone-cache-latency x-portkey-cache-status
    x-portkey-retry-attempt-count x-portkey-last-used-option-index x-portkey-provider
    via server x-served-by x-ms-region x-region x-amz-cf-pop fly-region x-vercel-id
    endpoint-load-metrics x-went-into-resp-headers x-llm-d-request-dropped-reason
    content-type content-encoding content-length transfer-encoding connection keep-alive
    alt-svc age
    """
)
"""Names kept: request ids, rate limits, retries, server and vendor timings, hops, framing."""

_KEPT_LIKE = re.compile(
    r"x-ratelimit-[a-z0-9-]+|anthropic-(?:priority-|fast-)?ratelimit-[a-z0-9-]+"
    r"|ratelimit(?:-[a-z]+)?|fireworks-[a-z0-9-]+|cerebras-[a-z0-9-]*(?:time|ms|queue)[a-z0-9-]*"
    r"|x-groq-[a-z0-9-]+|x-kong-[a-z-]+-latency|x-litellm-(?:timing-[a-z-]+|[a-z-]+-duration-ms)"
    r"|x-envoy-[a-z-]+-(?:time|ms)"
)
_HOP = re.compile(
    r"via|cf-ray|x-envoy-.*|x-kong-.*|x-litellm-.*|x-amz-cf-.*|x-cache.*|x-served-by|x-portkey-.*"
    r"|helicone-.*|cf-aig-.*|x-proxy-.*|x-varnish|fly-request-id"
)
"""Names that give a hop away: that they are there says whether the way is free of proxies, so the
name of one that is not on the allow-list stays, its value masked."""
_NEVER = re.compile(
    r"(?:^|[-_])(?:cookie2?|authorization|authenticate|auth|api[-_]?key|apikey|(?<!first-)(?<!per-)token|secret"
    r"|password|csrf|xsrf|credentials?|signature)(?:[-_]|$)"
)


def mask_headers(headers: Headers, keep: Collection[str]) -> Headers:
    """The headers on the allow-list, and those asked for, never a credential; values cut."""
    asked = {name.lower() for name in keep}
    kept = ((name.lower(), _kept(name.lower(), value, asked)) for name, value in headers)
    return tuple((name, value) for name, value in kept if value is not None)


def _kept(name: str, value: str, asked: Collection[str]) -> str | None:
    """What is kept of a header's value; null when the header goes."""
    if _NEVER.search(name):
        return None
    plain = name.removeprefix(PASSED_ON)
    value = value[: LONGEST_TIMING if plain == "server-timing" else LONGEST_VALUE]
    if plain in _KEPT or name in asked or _KEPT_LIKE.fullmatch(plain):
        return scrub(value)
    return "x" * len(value) if _HOP.fullmatch(name) else None


_API_WORDS = words(
    """chat completions responses messages completion embeddings generate generate_stream
    openai anthropic api inference serverless deployments models model engines publishers google
    projects locations endpoints accounts invoke invoke-with-response-stream converse
    converse-stream predict rawpredict streamrawpredict count_tokens batches compat-mode
    compatible-mode paas proxy gateway"""
)
_BEFORE_A_MODEL = frozenset({"deployments", "models", "model", "engines"})
_MODEL = re.compile(r"[A-Za-z0-9_.:@%~\-]{1,96}")
_VERSION = re.compile(r"v[0-9]+(?:[a-z]+[0-9]*)?|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:-preview)?")
_RANDOM = re.compile(r"(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{20,}")
_LONGEST_UNKNOWN = 11
"""Longest path segment kept without being known: a key or an account is longer."""


def mask_target(target: Target) -> Target:
    """The target without user info and query; path segments that may be secrets turned to x."""
    host = target.host.rpartition("@")[2]
    path = re.split(r"[?#]", target.path, maxsplit=1)[0]
    return replace(target, host=host, path=_mask_path(path))


def _mask_path(path: str) -> str:
    segments = path.split("/")
    before = ["", *segments[:-1]]
    return "/".join(map(_mask_segment, before, segments))


def _mask_segment(before: str, segment: str) -> str:
    word = segment.lower()
    short = len(segment) <= _LONGEST_UNKNOWN
    if short or word in _API_WORDS or _VERSION.fullmatch(word):
        return segment
    named = before in _BEFORE_A_MODEL and _MODEL.fullmatch(segment)
    if named and not _RANDOM.search(segment):
        return scrub(segment)
    return "x" * len(segment)


_CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}")


def mask_name(name: str | None) -> str | None:
    """The name of an exception's class; anything else (a message) is turned to x."""
    if name is None or _CLASS_NAME.fullmatch(name):
        return name
    return "x" * min(len(name), 64)


def mask_note(note: str) -> str:
    """A sentence of capture's own about what it could not do."""
    return scrub(note[:LONGEST_VALUE])
